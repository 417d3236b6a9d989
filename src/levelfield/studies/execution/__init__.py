"""Worker processes that execute the runs of a plan."""

LAZY = ("scipy.linalg",)
"""Modules that a run imports when it first needs them: every process would."""
