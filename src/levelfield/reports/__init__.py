"""Reports: the result of a study as tables, files and figures."""

from levelfield.reports.against_published import with_published
from levelfield.reports.compare import compare
from levelfield.reports.finish import finish
from levelfield.reports.leaderboard.csv_file import as_csv
from levelfield.reports.leaderboard.tables import as_markdown, show, write_all
from levelfield.reports.report import Report

__all__ = ["Report", "as_csv", "as_markdown", "compare", "finish", "show", "with_published", "write_all"]
