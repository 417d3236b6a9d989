"""Reports: the result of a study as tables, files and figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from levelfield.reports.finish import finish
from levelfield.reports.leaderboard.tables import as_csv, as_markdown, show, write_all
from levelfield.reports.published_comparison import with_published
from levelfield.reports.report import Report

if TYPE_CHECKING:
    from levelfield.reports.pipeline import compare

__all__ = ["Report", "as_csv", "as_markdown", "compare", "finish", "show", "with_published", "write_all"]

if not TYPE_CHECKING:  # with this function in sight a type checker would accept any misspelt name

    def __getattr__(name: str) -> Any:
        """Import `compare` on first use: it needs timm and torchvision, which reports do not need."""
        if name == "compare":
            from levelfield.reports.pipeline import compare

            return compare
        raise AttributeError(f"module 'levelfield.reports' has no attribute '{name}'")
