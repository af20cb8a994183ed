"""The usual measures, each a function on arrays below its declaration.

References
----------
.. [2] K. Järvelin, J. Kekäläinen, "Cumulated gain-based evaluation of IR techniques", 2002.
.. [3] C. J. van Rijsbergen, "Information Retrieval", 1979.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from retrieval_quality.measures.paper import f_measure
from retrieval_quality.measures.reading import (
    FloatArray,
    by_pattern,
    counts,
    dcg_of,
    divide,
    ideal_dcg,
    length_of,
    precision_sum,
    reciprocal_rank_of,
    refuse,
    refuse_surplus,
    relevant_counts,
    retrieved_counts,
    where_retrieved,
)
from retrieval_quality.measures.registry import measure


@measure(
    name="P",
    symbol="P",
    label="P",
    formula=r"\frac{n_p}{K}",
    source="van Rijsbergen 1979",
    columns=("n_positives", "K"),
    summary="Precision@K: share of the retrieved documents that are relevant.",
)
def precision(n_positives: ArrayLike, top_k: ArrayLike) -> FloatArray:
    """Share of the retrieved documents that are relevant, P = n_p / K.

    Parameters
    ----------
    n_positives : array_like of int, shape (n,)
        Relevant documents among the retrieved, n_p.
    top_k : array_like of int, shape (n,)
        Retrieved documents, K.

    Returns
    -------
    ndarray of float64, shape (n,)
        Between 0 and 1; 0 where nothing was retrieved.

    Raises
    ------
    DataError
        If a count is negative, not whole, or n_p is above K.

    Examples
    --------
    >>> precision([2, 0], [5, 5])
    array([0.4, 0. ])
    """
    positives, retrieved = retrieved_counts(n_positives, top_k)
    return where_retrieved(retrieved, divide(positives, retrieved))


@measure(
    name="R",
    symbol="R",
    label="R",
    formula=r"\frac{n_p}{N_p}",
    source="van Rijsbergen 1979",
    columns=("n_positives", "Np"),
    summary="Recall@K: share of the relevant documents that were retrieved.",
)
def recall(n_positives: ArrayLike, n_relevant: ArrayLike) -> FloatArray:
    """Share of the relevant documents that were retrieved, R = n_p / N_p.

    Parameters
    ----------
    n_positives : array_like of int, shape (n,)
        Relevant documents among the retrieved, n_p.
    n_relevant : array_like of int, shape (n,)
        Relevant documents in all, N_p.

    Returns
    -------
    ndarray of float64, shape (n,)
        Between 0 and 1; NaN where nothing is relevant.

    Raises
    ------
    DataError
        If a count is negative, not whole, or n_p is above N_p.

    Examples
    --------
    >>> recall([2, 4], [10, 10])
    array([0.2, 0.4])
    """
    positives, relevant = counts("n_positives", n_positives), relevant_counts(n_relevant)
    refuse(positives > relevant, "more positives retrieved than there are relevant documents")
    return divide(positives, relevant)


@measure(
    name="F1",
    symbol="F_1",
    label="F1",
    formula=r"\frac{2 n_p}{K + N_p}",
    source="van Rijsbergen 1979",
    columns=("n_positives", "K", "Np"),
    summary="F1@K: harmonic mean of precision and recall, F at alpha = 1/2.",
)
def f1(n_positives: ArrayLike, top_k: ArrayLike, n_relevant: ArrayLike) -> FloatArray:
    """Harmonic mean of precision and recall: F at alpha = 1/2.

    Parameters
    ----------
    n_positives, top_k, n_relevant : array_like of int, shape (n,)
        n_p, K and N_p.

    Returns
    -------
    ndarray of float64, shape (n,)
        Between 0 and 1; 0 where nothing was retrieved, NaN where nothing is relevant.

    Raises
    ------
    DataError
        As for `f_measure`.

    Examples
    --------
    >>> f1([4], [10], [10])
    array([0.4])
    """
    return f_measure(n_positives, top_k, n_relevant, alpha=0.5)


@measure(
    name="nDCG_usual",
    symbol=r"\mathrm{nDCG}_{N_p}",
    label="nDCG (usual)",
    formula=r"\sum_{i=1}^{K} \frac{\mathrm{rel}_i}{\log_2(1+i)} \Big/ "
    r"\sum_{i=1}^{\min(K, N_p)} \frac{1}{\log_2(1+i)}",
    source="Järvelin and Kekäläinen 2002",
    columns=("pattern", "Np"),
    summary="nDCG@K of most tools: the ideal has as many relevant documents as fit in K.",
)
def ndcg_usual(pattern: Any, n_relevant: ArrayLike) -> FloatArray:
    """DCG over that of a perfect retrieval, min(K, N_p) relevant documents first [2]_.

    K is the length of the pattern. Where fewer than K documents came back, pad with ``0`` to
    compare at a fixed K, as trec_eval does.

    Parameters
    ----------
    pattern : str, sequence of str or categorical of str, shape (n,)
        Relevance in rank order, rank 1 first.
    n_relevant : array_like of int, shape (n,)
        Relevant documents in all, N_p.

    Returns
    -------
    ndarray of float64, shape (n,)
        Between 0 and 1; 0 where nothing was retrieved, NaN where nothing is relevant.

    Raises
    ------
    DataError
        If a pattern has another character than 0 and 1, or more positives than N_p.

    Examples
    --------
    >>> ndcg_usual(["1000", "0110"], [10, 2]).round(6)
    array([0.39038 , 0.693426])
    """
    length, relevant = by_pattern(pattern, length_of), relevant_counts(n_relevant)
    refuse_surplus(pattern, relevant)
    reachable = np.minimum(length, relevant)
    known = np.nan_to_num(reachable).astype(np.int64)
    ideal = ideal_dcg(int(known.max(initial=0)))[known]
    score = where_retrieved(length, divide(dcg(pattern), ideal))
    return np.where((relevant == 0) | np.isnan(reachable), np.nan, score)[()]


@measure(
    name="hit",
    symbol=r"\mathrm{hit}",
    label="hit rate",
    formula=r"[n_p \ge 1]",
    source="common use",
    columns=("n_positives",),
    summary="Whether at least one relevant document was retrieved; success@K.",
)
def hit_rate(n_positives: ArrayLike) -> FloatArray:
    """1 where at least one relevant document was retrieved, else 0; its mean is the hit rate.

    Parameters
    ----------
    n_positives : array_like of int, shape (n,)
        Relevant documents among the retrieved, n_p.

    Returns
    -------
    ndarray of float64, shape (n,)
        0 or 1.

    Raises
    ------
    DataError
        If a count is negative or not whole.

    Examples
    --------
    >>> hit_rate([0, 1, 3])
    array([0., 1., 1.])
    """
    return (counts("n_positives", n_positives) > 0).astype(np.float64)[()]


@measure(
    name="RR",
    symbol=r"\mathrm{RR}",
    label="RR",
    formula=r"\frac{1}{\min\{i : \mathrm{rel}_i = 1\}}",
    source="common use",
    columns=("pattern",),
    summary="One over the rank of the first relevant document; its mean is the MRR.",
)
def reciprocal_rank(pattern: Any) -> FloatArray:
    """One over the rank of the first relevant document; its mean is the MRR.

    Parameters
    ----------
    pattern : str, sequence of str or categorical of str, shape (n,)
        Relevance in rank order, rank 1 first.

    Returns
    -------
    ndarray of float64, shape (n,)
        Between 0 and 1; 0 where no relevant document was retrieved; NaN where the pattern is
        missing.

    Raises
    ------
    DataError
        If a pattern has another character than 0 and 1.

    Examples
    --------
    >>> reciprocal_rank(["0110", "0000"])
    array([0.5, 0. ])
    """
    return by_pattern(pattern, reciprocal_rank_of)


@measure(
    name="AP",
    symbol=r"\mathrm{AP}",
    label="AP",
    formula=r"\frac{1}{N_p} \sum_{k=1}^{K} P@k \cdot \mathrm{rel}_k",
    source="common use",
    columns=("pattern", "Np"),
    summary="Precision at each relevant document over all relevant ones; its mean is the MAP.",
)
def average_precision(pattern: Any, n_relevant: ArrayLike) -> FloatArray:
    r"""Precision at each relevant document, over all relevant ones; its mean is the MAP.

    .. math:: AP = \frac{1}{N_p} \sum_{k=1}^{K} P@k \cdot rel_k

    Parameters
    ----------
    pattern : str, sequence of str or categorical of str, shape (n,)
        Relevance in rank order, rank 1 first.
    n_relevant : array_like of int, shape (n,)
        Relevant documents in all, N_p.

    Returns
    -------
    ndarray of float64, shape (n,)
        Between 0 and 1; 0 where nothing was retrieved, NaN where nothing is relevant.

    Raises
    ------
    DataError
        If a pattern has another character than 0 and 1, or more positives than N_p.

    Examples
    --------
    >>> average_precision(["101", "010"], [2, 1]).round(6)
    array([0.833333, 0.5     ])
    """
    relevant = relevant_counts(n_relevant)
    refuse_surplus(pattern, relevant)
    return divide(by_pattern(pattern, precision_sum), relevant)


def dcg(pattern: Any) -> FloatArray:
    r"""Discounted cumulative gain of 0/1 relevance [2]_, summed from rank 1 down.

    .. math:: DCG = \sum_{i=1}^{K} \frac{rel_i}{\log_2(1 + i)}

    Parameters
    ----------
    pattern : str, sequence of str or categorical of str, shape (n,)
        Relevance in rank order, ``"0110"``: ranks 2 and 3 are relevant. A pandas categorical is
        computed once a category.

    Returns
    -------
    ndarray of float64, shape (n,)
        0 and above; NaN where the pattern is missing.

    Raises
    ------
    DataError
        If a pattern has another character than 0 and 1.

    Examples
    --------
    >>> dcg(["0110", ""]).round(6)
    array([1.13093, 0.     ])
    """
    return by_pattern(pattern, dcg_of)
