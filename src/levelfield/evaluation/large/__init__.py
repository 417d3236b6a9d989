"""Exact retrieval metrics in less memory than the embeddings need: blocks of queries against panels of the gallery."""
