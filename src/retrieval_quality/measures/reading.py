"""Reading counts and patterns of relevance, and the sums over ranks that measures are made of."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from retrieval_quality.errors import DataError, UsageError

FloatArray = NDArray[np.float64]


def by_pattern(pattern: Any, kernel: Callable[..., FloatArray]) -> FloatArray:
    """Apply a kernel to each distinct pattern and spread the result over the rows."""
    if isinstance(pattern, str):
        return kernel(*relevance_of([pattern]))[0]
    values = getattr(pattern, "array", pattern)
    if not isinstance(values, pd.Categorical):
        values = pd.Categorical(np.asarray(values, dtype=object))
    scores = kernel(*relevance_of(values.categories))
    return np.append(scores, np.nan)[values.codes]


def relevance_of(patterns: Collection[Any]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Patterns as a matrix (one row a pattern, padded with False) and their lengths."""
    texts = list(patterns)
    for text in texts:
        if not isinstance(text, str) or text.strip("01"):
            raise DataError(f"{text!r} is not a pattern: one character a rank, 1 relevant, 0 not.")
    width = max(map(len, texts), default=0)
    if not width:
        return np.zeros((len(texts), 0), dtype=bool), np.zeros(len(texts), dtype=np.int64)
    letters = np.array(texts, dtype=f"S{width}").view(np.uint8).reshape(len(texts), width)
    return letters == ord("1"), (letters > 0).sum(axis=1)


def counts(name: str, values: ArrayLike) -> Any:
    """Whole, non-negative numbers as int64."""
    array = np.asarray(values)
    if array.dtype.kind not in "iub":
        numbers = np.asarray(values, dtype=np.float64)
        refuse(~(numbers % 1 == 0), f"{name} is not a whole number")
        array = numbers
    array = array.astype(np.int64)
    refuse(array < 0, f"{name} is negative")
    return array


def retrieved_counts(n_positives: ArrayLike, top_k: ArrayLike) -> tuple[Any, Any]:
    """Give n_p and K as whole numbers; n_p is at most K."""
    positives, retrieved = counts("n_positives", n_positives), counts("top_k", top_k)
    refuse(positives > retrieved, "more positives than retrieved documents")
    return positives, retrieved


def relevant_counts(n_relevant: ArrayLike) -> Any:
    """Give N_p as whole numbers."""
    return counts("n_relevant", n_relevant)


def refuse_surplus(pattern: Any, n_relevant: Any) -> None:
    """Refuse a pattern with more positives than there are relevant documents."""
    surplus = by_pattern(pattern, n_positives_of) > n_relevant
    refuse(surplus, "the pattern has more positives than there are relevant documents")


def refuse(wrong: Any, what: str) -> None:
    """Refuse the first row that is wrong."""
    if np.any(wrong):
        row = int(np.argmax(np.ravel(wrong)))
        raise DataError(f"Row {row}: {what}.")


def where_relevant(score: FloatArray, n_relevant: ArrayLike | None) -> FloatArray:
    """Undefine the score of queries that are known to have nothing relevant."""
    return (
        score if n_relevant is None else np.where(relevant_counts(n_relevant) == 0, np.nan, score)
    )


def weight_of(alpha: ArrayLike) -> Any:
    """Give alpha as numbers in [0, 1]."""
    weight = np.asarray(alpha, dtype=np.float64)
    if not np.all((weight >= 0) & (weight <= 1)):
        raise UsageError(f"alpha must be in [0, 1], not {alpha!r}.")
    return weight[()]


def divide(numerator: Any, denominator: Any) -> Any:
    """Quotient, NaN for 0/0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.true_divide(numerator, denominator)


def where_retrieved(top_k: Any, score: Any) -> Any:
    """Score 0 where nothing was retrieved."""
    return np.where(top_k == 0, 0.0, score)[()]


def dcg_of(relevance: NDArray[np.bool_], length: NDArray[np.int64]) -> FloatArray:
    """DCG of each pattern."""
    discount = np.log2(1 + np.arange(1, relevance.shape[1] + 1))
    return total(relevance / discount)


def ndcg_of(relevance: NDArray[np.bool_], length: NDArray[np.int64]) -> FloatArray:
    """DCG over that of the same positives at the first ranks; 0 without any."""
    n_positives = relevance.sum(axis=1)
    ideal = ideal_dcg(relevance.shape[1])[n_positives]
    return np.where(n_positives == 0, 0.0, divide(dcg_of(relevance, length), ideal))


def ideal_dcg(most: int) -> FloatArray:
    """DCG of 0, 1, … `most` relevant documents at the first ranks."""
    return np.concatenate([[0.0], np.cumsum(1 / np.log2(1 + np.arange(1, most + 1)))])


def reciprocal_rank_of(relevance: NDArray[np.bool_], length: NDArray[np.int64]) -> FloatArray:
    """One over the rank of the first positive; 0 without any."""
    if not relevance.shape[1]:
        return np.zeros(len(relevance))
    return np.where(relevance.any(axis=1), 1 / (1 + relevance.argmax(axis=1)), 0.0)


def precision_sum(relevance: NDArray[np.bool_], length: NDArray[np.int64]) -> FloatArray:
    """Sum of the precision at each positive."""
    ranks = np.arange(1, relevance.shape[1] + 1)
    return total(np.cumsum(relevance, axis=1) / ranks * relevance)


def length_of(relevance: NDArray[np.bool_], length: NDArray[np.int64]) -> FloatArray:
    """Length of each pattern."""
    return length.astype(np.float64)


def n_positives_of(relevance: NDArray[np.bool_], length: NDArray[np.int64]) -> FloatArray:
    """Positives in each pattern."""
    return relevance.sum(axis=1).astype(np.float64)


def total(terms: FloatArray) -> FloatArray:
    """Add up each row from the first column on (`numpy.sum` adds in another order)."""
    if not terms.shape[1]:
        return np.zeros(len(terms))
    return np.cumsum(terms, axis=1)[:, -1]
