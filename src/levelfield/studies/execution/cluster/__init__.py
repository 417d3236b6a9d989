"""The executor that gives runs to Ray: on this machine, or on a cluster."""

from __future__ import annotations

PRELOADED = "levelfield.studies.execution.cluster.preload"
