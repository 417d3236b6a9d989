"""The files of a run folder, each with one reader that checks it."""
