"""Where catalogs come from: one file per kind of source."""
