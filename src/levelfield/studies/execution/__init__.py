"""Worker processes that execute the runs of a plan."""

LAZY = ("scipy.linalg", "torch._dynamo")
"""Modules that a run imports when it first needs them (torch's optimisers import dynamo): every process would."""
