"""Figures of studies and of the toy experiment. Importing this imports no drawing library."""

from levelfield.reports.figures.toy import draw_toy

__all__ = ["draw_toy"]
