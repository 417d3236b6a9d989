"""The files of a run folder, each with a reader that validates it."""
