"""Metrics by name: retrieval, clustering, geometry and verification."""
