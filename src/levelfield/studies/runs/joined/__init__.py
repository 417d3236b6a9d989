"""Join finished runs into one: ensembles, DREML, and the folds of MLRC."""
