"""Reports: the leaderboard as tables."""

from levelfield.reports.tables import as_csv, as_markdown, show, write_all

__all__ = ["as_csv", "as_markdown", "show", "write_all"]
