"""The measures of one retrieval, and the segments that they are compared in."""

from retrieval_quality.measures.paper import (
    ESTIMATE_OFFSET,
    f_estimated,
    f_measure,
    ndcg,
    t_measure,
    tu_measure,
)
from retrieval_quality.measures.rankings import (
    Mean,
    cut,
    judge,
    mean,
    mean_average_precision,
    mean_hit_rate,
    mean_reciprocal_rank,
)
from retrieval_quality.measures.reading import FloatArray
from retrieval_quality.measures.registry import MEASURES, Measure, lookup, measure, register, score
from retrieval_quality.measures.usual import (
    average_precision,
    dcg,
    f1,
    hit_rate,
    ndcg_usual,
    precision,
    recall,
    reciprocal_rank,
)

__all__ = [
    "ESTIMATE_OFFSET",
    "MEASURES",
    "FloatArray",
    "Mean",
    "Measure",
    "average_precision",
    "cut",
    "dcg",
    "f1",
    "f_estimated",
    "f_measure",
    "hit_rate",
    "judge",
    "lookup",
    "mean",
    "mean_average_precision",
    "mean_hit_rate",
    "mean_reciprocal_rank",
    "measure",
    "ndcg",
    "ndcg_usual",
    "precision",
    "recall",
    "reciprocal_rank",
    "register",
    "score",
    "t_measure",
    "tu_measure",
]
