"""Sources of catalogs: one file per kind of source."""
