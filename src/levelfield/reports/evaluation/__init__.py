"""Evaluate a finished run, or any embeddings: scores, a threshold, compact forms, corrupted images.

>>> from levelfield.reports.evaluation import EmbeddingSet, evaluate_each
>>> scores = evaluate_each([EmbeddingSet({"embeddings": [[1.0, 0.0], [0.9, 0.1]], "labels": [0, 0]})])
>>> scores.rows[0].result["recall@1"]
1.0
"""

from levelfield.reports.evaluation.compact import compare_compact
from levelfield.reports.evaluation.corruptions import evaluate_corruptions
from levelfield.reports.evaluation.embedding_set import EmbeddingSet
from levelfield.reports.evaluation.scores import evaluate_each
from levelfield.reports.evaluation.threshold import choose_threshold

__all__ = ["EmbeddingSet", "choose_threshold", "compare_compact", "evaluate_corruptions", "evaluate_each"]
