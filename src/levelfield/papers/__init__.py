"""The five papers: their published tables, presets and the toy experiment."""
