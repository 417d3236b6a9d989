"""Message passing at test time (004 C.1-C.3): refined embeddings of groups of test images."""
