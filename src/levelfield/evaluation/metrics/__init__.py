"""Metrics by name: of retrieval, of clustering, of geometry, and of verification."""
