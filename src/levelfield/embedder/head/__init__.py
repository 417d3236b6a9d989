"""Heads, from features to raw embedding rows: the common linear head, its closed-form starts, DRML's relation head."""
