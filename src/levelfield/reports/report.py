"""The result of a study as an object, for terminals, scripts and notebooks."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from levelfield.errors import LevelfieldError
from levelfield.reports.compact_scores import NAME as COMPACT
from levelfield.reports.compact_scores import show_compact
from levelfield.reports.leaderboard.tables import show
from levelfield.reports.robustness import Robustness
from levelfield.reports.search_results import TuningTable
from levelfield.studies.leaderboard.board import Leaderboard
from levelfield.studies.leaderboard.compact import CompactTable
from levelfield.studies.leaderboard.rows import Row

PAGE = "page"  # its name in `Report.not_drawn`


@dataclass(frozen=True, repr=False)
class Report:
    """The result of a study. All files are already written: `paths`.

    robustness: results on corrupted test images, if any. not_drawn: reasons for missing figures, by name, and for a
    missing page or table. tuning: how the settings were chosen, if the study records it. page: the HTML page, if it was
    made. compact: bytes per image against score, if that was wanted.
    """

    leaderboard: Leaderboard
    robustness: Robustness | None
    paths: list[Path]
    not_drawn: dict[str, str] = field(default_factory=dict)
    tuning: TuningTable | None = None
    page: Path | None = None
    compact: CompactTable | None = None

    @property
    def best(self) -> Row:
        """The row to use; commands that are given the study's folder use its run."""
        return self.leaderboard.recommended

    def text(self, *, width: int = 80, full: bool = True) -> str:
        """The output of `levelfield compare`. full: the comparisons of every row, not only of the best."""
        console = Console(file=io.StringIO(), width=width, color_system=None)
        self.show(console, full=full)
        assert isinstance(console.file, io.StringIO)
        return console.file.getvalue()

    def show(self, console: Console, *, full: bool = False) -> None:
        show(self.leaderboard, console, full=full)
        if self.robustness:
            self.robustness.show(console)
        if self.compact:
            show_compact(self.compact, console)
        if self.tuning:
            self.tuning.show(console)
        console.print(f"\nWritten: {', '.join(map(str, self.paths))}", soft_wrap=True, highlight=False)

    def show_page(self, console: Console) -> None:
        """Print where the page is, if it was made: the last line of a command."""
        if self.page is not None:
            console.print(f"\nOpen {self.page}", soft_wrap=True, highlight=False)

    @property
    def missing_figures(self) -> str:
        """One message on figures and a page that could not be made; empty if there are none."""
        reasons = "; ".join(f"{name}: {reason.rstrip('.')}" for name, reason in self.not_drawn.items())
        parts = ["a figure could not be drawn"] if set(self.not_drawn) - {PAGE, COMPACT} else []
        parts += ["the table of compact embeddings could not be made"] if COMPACT in self.not_drawn else []
        parts += ["the page could not be written"] if PAGE in self.not_drawn else []
        what = " and ".join(parts)
        return f"The leaderboard is complete, but {what}. {reasons}." if reasons else ""

    def refuse_if_not_drawn(self) -> None:
        """Raise if a figure or the page is missing: for the exit code, after everything else has been shown."""
        if self.not_drawn:
            raise LevelfieldError(self.missing_figures)

    def __repr__(self) -> str:
        return repr(self.leaderboard).replace("Leaderboard", "Report", 1)

    def _repr_html_(self) -> str:
        return self.leaderboard._repr_html_()

    def to_pandas(self, of: str = "rows") -> Any:
        """A DataFrame of the `rows` of the leaderboard, best first, or of the `comparisons` between them."""
        return self.leaderboard.to_pandas(of)
