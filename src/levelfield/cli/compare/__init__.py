"""Commands that train: compare, tune, train, init."""
