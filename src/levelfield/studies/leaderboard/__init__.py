"""Finished runs to rows, intervals, comparisons and verdicts of claims."""
