"""Statistics of scores: uncertainty of a score or a difference, and the sample sizes that would reduce it.

Works on arrays of scores by seed and test class; independent of studies.
"""
