"""The measures of the paper, each a function on arrays below its declaration.

Every function takes one value a row (or a single value) and gives one float64 a row. What is
undefined is NaN: there is no recall where nothing is relevant. An empty retrieval (K = 0) is not
undefined: it found nothing and scores 0 in every measure.

Which rows tie decides every rank correlation, and float64 decides which rows tie. The expressions
here therefore keep the order of operations of the published method; do not simplify them.

References
----------
.. [1] S. Schwartz, O. Vasilyev, R. Sawaya, "How important is Recall for Measuring Retrieval
   Quality?", arXiv 2512.20854: F is equations 1 and 2, T equation 3, T_u equation 4.
.. [2] K. Järvelin, J. Kekäläinen, "Cumulated gain-based evaluation of IR techniques", 2002.
.. [3] C. J. van Rijsbergen, "Information Retrieval", 1979.
"""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from retrieval_quality.measures.reading import (
    FloatArray,
    by_pattern,
    divide,
    ndcg_of,
    refuse,
    relevant_counts,
    retrieved_counts,
    weight_of,
    where_retrieved,
)
from retrieval_quality.measures.registry import measure

ESTIMATE_OFFSET = 1e-10
"""Added to the estimated N_p of F_e, as published; at alpha = 0 it orders otherwise tied rows."""


@measure(
    name="F",
    symbol="F",
    label="F",
    formula=r"\frac{n_p}{\alpha K + (1-\alpha) N_p}",
    source="arXiv 2512.20854, equations 1 and 2; van Rijsbergen 1979",
    columns=("n_positives", "K", "Np"),
    has_alpha=True,
    summary="Weighted harmonic mean of precision and recall.",
)
def f_measure(
    n_positives: ArrayLike, top_k: ArrayLike, n_relevant: ArrayLike, alpha: ArrayLike
) -> FloatArray:
    r"""Weighted harmonic mean of precision and recall, F (equations 1 and 2 of [1]_).

    .. math:: F = \frac{n_p}{\alpha K + (1 - \alpha) N_p}

    alpha = 1 is precision, alpha = 0 recall, alpha = 1/2 is F1; van Rijsbergen's beta squared is
    1/alpha - 1.

    Parameters
    ----------
    n_positives, top_k, n_relevant : array_like of int, shape (n,)
        n_p, K and N_p.
    alpha : float or array_like that broadcasts with the counts
        Weight of precision, in [0, 1].

    Returns
    -------
    ndarray of float64
        Between 0 and 1; 0 where nothing was retrieved, NaN where nothing is relevant.

    Raises
    ------
    UsageError
        If alpha is outside [0, 1].
    DataError
        If a count is negative, not whole, or n_p is above K or N_p.

    Examples
    --------
    >>> f_measure([2], [5], [10], alpha=0.5).round(6)
    array([0.266667])
    >>> f_measure([2], [5], [10], alpha=[0, 1])
    array([0.2, 0.4])
    """
    positives, retrieved = retrieved_counts(n_positives, top_k)
    relevant = relevant_counts(n_relevant)
    refuse(positives > relevant, "more positives retrieved than there are relevant documents")
    score = _f(positives, retrieved, relevant, weight_of(alpha))
    return np.where(relevant == 0, np.nan, score)[()]


@measure(
    name="Fe",
    symbol="F_e",
    label="F_e",
    formula=r"\frac{n_p}{\alpha K + (1-\alpha) \hat N_p},\; \hat N_p = n_p(2K)",
    source="arXiv 2512.20854",
    columns=("n_positives", "K", "n_positives_2k"),
    has_alpha=True,
    summary="F with the positives found in the top 2K in place of all relevant documents.",
)
def f_estimated(
    n_positives: ArrayLike, top_k: ArrayLike, n_positives_2k: ArrayLike, alpha: ArrayLike
) -> FloatArray:
    """F with N_p replaced by the positives found in the top 2K, F_e of [1]_.

    Parameters
    ----------
    n_positives, top_k : array_like of int, shape (n,)
        n_p and K.
    n_positives_2k : array_like of float, shape (n,)
        Positives among the first 2K documents; NaN where that ranking was not judged. 1e-10 is
        added to it, as published, so that it is never 0.
    alpha : float or array_like that broadcasts with the counts
        Weight of precision, in [0, 1].

    Returns
    -------
    ndarray of float64
        Between 0 and 1; 0 where nothing was retrieved or found, NaN where `n_positives_2k` is.

    Raises
    ------
    UsageError
        If alpha is outside [0, 1].
    DataError
        If a count is negative, not whole, or n_p is above K or above `n_positives_2k`.

    Examples
    --------
    >>> f_estimated([2, 2], [5, 5], [4, float("nan")], alpha=0.5).round(6)
    array([0.444444,      nan])
    """
    positives, retrieved = retrieved_counts(n_positives, top_k)
    estimate = np.asarray(n_positives_2k, dtype=np.float64)
    refuse(estimate < positives, "fewer positives in the top 2K than in the top K")
    refuse(estimate % 1 > 0, "n_positives_2k is not a whole number")
    score = _f(positives, retrieved, estimate + ESTIMATE_OFFSET, weight_of(alpha))
    return np.where(np.isnan(estimate), np.nan, score)[()]


@measure(
    name="nDCG",
    symbol=r"\mathrm{nDCG}",
    label="nDCG",
    formula=r"\sum_{i=1}^{K} \frac{\mathrm{rel}_i}{\log_2(1+i)} \Big/ "
    r"\sum_{i=1}^{n_p} \frac{1}{\log_2(1+i)}",
    source="arXiv 2512.20854; Järvelin and Kekäläinen 2002",
    columns=("pattern",),
    summary="How near to the top the retrieved positives stand, however few they are.",
)
def ndcg(pattern: Any) -> FloatArray:
    """DCG over that of the same retrieved documents with the positives first: nDCG of [1]_.

    The ideal uses n_p, the positives that were retrieved, and never N_p: a ranking that holds one
    of ten relevant documents, at rank 1, scores 1. `ndcg_usual` is the measure of most tools.

    Parameters
    ----------
    pattern : str, sequence of str or categorical of str, shape (n,)
        Relevance in rank order, rank 1 first.

    Returns
    -------
    ndarray of float64, shape (n,)
        Between 0 and 1; 0 where no positive was retrieved; NaN where the pattern is missing.

    Raises
    ------
    DataError
        If a pattern has another character than 0 and 1.

    Examples
    --------
    >>> ndcg(["1000", "0110", "0000"]).round(6)
    array([1.      , 0.693426, 0.      ])
    """
    return by_pattern(pattern, ndcg_of)


@measure(
    name="T",
    symbol="T",
    label="T",
    formula=r"(1-\alpha) n_p - \alpha \frac{n_n}{K}",
    low=-1,
    high=inf,
    source="arXiv 2512.20854, equation 3",
    columns=("n_positives", "K"),
    has_alpha=True,
    summary="Positives found less the share of negatives.",
)
def t_measure(n_positives: ArrayLike, top_k: ArrayLike, alpha: ArrayLike) -> FloatArray:
    r"""Positives found less the share of negatives, T (equation 3 of [1]_).

    .. math:: T = (1 - \alpha) n_p - \alpha \frac{n_n}{K}, \quad n_n = K - n_p

    Parameters
    ----------
    n_positives, top_k : array_like of int, shape (n,)
        n_p and K.
    alpha : float or array_like that broadcasts with the counts
        Weight of the negatives, in [0, 1].

    Returns
    -------
    ndarray of float64
        Between -alpha and (1 - alpha) K; 0 where nothing was retrieved.

    Raises
    ------
    UsageError
        If alpha is outside [0, 1].
    DataError
        If a count is negative, not whole, or n_p is above K.

    Examples
    --------
    >>> t_measure([2], [5], alpha=0.5)
    array([0.7])
    """
    positives, retrieved = retrieved_counts(n_positives, top_k)
    negatives, weight = retrieved - positives, weight_of(alpha)
    share = divide(weight * negatives, positives + negatives)
    return where_retrieved(retrieved, (1 - weight) * positives - share)


@measure(
    name="Tu",
    symbol="T_u",
    label="T_u",
    formula=r"(1-\alpha) n_p - \alpha n_n",
    low=-inf,
    high=inf,
    source="arXiv 2512.20854, equation 4",
    columns=("n_positives", "K"),
    has_alpha=True,
    summary="Positives found less negatives found.",
)
def tu_measure(n_positives: ArrayLike, top_k: ArrayLike, alpha: ArrayLike) -> FloatArray:
    r"""Positives found less negatives found, T_u (equation 4 of [1]_).

    .. math:: T_u = (1 - \alpha) n_p - \alpha n_n, \quad n_n = K - n_p

    Parameters
    ----------
    n_positives, top_k : array_like of int, shape (n,)
        n_p and K.
    alpha : float or array_like that broadcasts with the counts
        Weight of the negatives, in [0, 1].

    Returns
    -------
    ndarray of float64
        Between -alpha K and (1 - alpha) K; 0 where nothing was retrieved.

    Raises
    ------
    UsageError
        If alpha is outside [0, 1].
    DataError
        If a count is negative, not whole, or n_p is above K.

    Examples
    --------
    >>> tu_measure([2], [5], alpha=0.5)
    array([-0.5])
    """
    positives, retrieved = retrieved_counts(n_positives, top_k)
    weight = weight_of(alpha)
    return (1 - weight) * positives - weight * (retrieved - positives)


def _f(n_positives: Any, top_k: Any, n_relevant: Any, alpha: Any) -> FloatArray:
    n_negatives = top_k - n_positives
    found = alpha * (n_positives + n_negatives) + (1 - alpha) * n_relevant
    return where_retrieved(top_k, divide(n_positives, found))
