"""Message passing at test time (seidenschwarz2021 C.1-C.3): refined embeddings of groups of test images."""
