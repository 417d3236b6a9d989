"""From a study file, overrides or Python to a checked Study."""
