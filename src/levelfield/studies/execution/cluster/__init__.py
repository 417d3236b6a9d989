"""Runs as tasks of Ray."""

MODULES = ("levelfield.studies.execution.cluster.task", "scipy.linalg", "torch._dynamo")
"""What every run imports: processes of a local Ray import it before their first run."""
