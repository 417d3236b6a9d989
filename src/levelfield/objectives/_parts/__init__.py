"""Helpers of the objectives: what several of them share, and what is too long to stand beside an equation."""
