"""Commands about the parts: list, check, datasets, cache."""
