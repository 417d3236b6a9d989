"""The executor that gives runs to Ray: on this machine, or on a cluster."""
