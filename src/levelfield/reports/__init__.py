"""Reports: leaderboards as tables, figures and files."""

from levelfield.reports.against_published import with_published
from levelfield.reports.leaderboard.tables import as_csv, as_markdown, show, write_all

__all__ = ["as_csv", "as_markdown", "show", "with_published", "write_all"]
