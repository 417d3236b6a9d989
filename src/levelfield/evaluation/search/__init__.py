"""Exact neighbours and ranks in bounded memory, on CPU threads or in plain torch."""
