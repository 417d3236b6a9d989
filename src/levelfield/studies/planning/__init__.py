"""From a study to a graph of runs, and what it would cost."""
