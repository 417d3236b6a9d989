"""Worker processes that do the runs of a plan."""
