"""Worker processes that execute the runs of a plan."""
