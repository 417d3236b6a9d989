"""`levelfield evaluate`: evaluate a run or arrays, without training."""
