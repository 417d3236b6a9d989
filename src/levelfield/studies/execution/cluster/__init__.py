"""The executor that gives runs to Ray: on this machine, or on a cluster."""

PRELOADED = ["levelfield.studies.execution.cluster.preload"]
"""What processes of a local Ray import before their first run."""
