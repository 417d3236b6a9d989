"""Leaderboards: rows, intervals, comparisons and verdicts on claims, from finished runs."""
