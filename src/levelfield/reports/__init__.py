"""Reports: the result of a study as tables, files and figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from levelfield.reports.against_published import with_published
from levelfield.reports.finish import finish
from levelfield.reports.leaderboard.csv_file import as_csv
from levelfield.reports.leaderboard.tables import as_markdown, show, write_all
from levelfield.reports.report import Report

if TYPE_CHECKING:
    from levelfield.reports.pipeline import compare

__all__ = ["Report", "as_csv", "as_markdown", "compare", "finish", "show", "with_published", "write_all"]

if not TYPE_CHECKING:  # a type checker that saw this function would take any misspelt name

    def __getattr__(name: str) -> Any:
        """Import `compare` when it is first asked for: it needs timm and torchvision, and a report does not."""
        if name == "compare":
            from levelfield.reports.pipeline import compare

            return compare
        raise AttributeError(f"module 'levelfield.reports' has no attribute '{name}'")
