"""Finished runs joined to one: ensembles, DREML, and the folds of MLRC."""
