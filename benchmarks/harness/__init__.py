"""What the benchmarks share: interleaved timing, peers, samples and result files."""
