"""The measures of one retrieval, as functions on arrays, and the registry ``MEASURES``.

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

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from decimal import Decimal
from math import inf
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from retrieval_quality.errors import DataError, UsageError

FloatArray = NDArray[np.float64]

ESTIMATE_OFFSET = 1e-10
"""Added to the estimated N_p of F_e, as published; at alpha = 0 it orders otherwise tied rows."""


# --- counts -------------------------------------------------------------------------------------


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
    positives, retrieved = _retrieved(n_positives, top_k)
    return _where_retrieved(retrieved, _divide(positives, retrieved))


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
    positives, relevant = _counts("n_positives", n_positives), _relevant(n_relevant)
    _refuse(positives > relevant, "more positives retrieved than there are relevant documents")
    return _divide(positives, relevant)


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
    positives, retrieved = _retrieved(n_positives, top_k)
    relevant = _relevant(n_relevant)
    _refuse(positives > relevant, "more positives retrieved than there are relevant documents")
    score = _f(positives, retrieved, relevant, _weight(alpha))
    return np.where(relevant == 0, np.nan, score)[()]


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
    positives, retrieved = _retrieved(n_positives, top_k)
    estimate = np.asarray(n_positives_2k, dtype=np.float64)
    _refuse(estimate < positives, "fewer positives in the top 2K than in the top K")
    _refuse(estimate % 1 > 0, "n_positives_2k is not a whole number")
    score = _f(positives, retrieved, estimate + ESTIMATE_OFFSET, _weight(alpha))
    return np.where(np.isnan(estimate), np.nan, score)[()]


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
    positives, retrieved = _retrieved(n_positives, top_k)
    negatives, weight = retrieved - positives, _weight(alpha)
    share = _divide(weight * negatives, positives + negatives)
    return _where_retrieved(retrieved, (1 - weight) * positives - share)


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
    positives, retrieved = _retrieved(n_positives, top_k)
    weight = _weight(alpha)
    return (1 - weight) * positives - weight * (retrieved - positives)


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
    return (_counts("n_positives", n_positives) > 0).astype(np.float64)[()]


# --- patterns -----------------------------------------------------------------------------------


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
    return _by_pattern(pattern, _dcg)


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
    return _by_pattern(pattern, _ndcg)


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
    length, relevant = _by_pattern(pattern, _length), _relevant(n_relevant)
    _refuse_surplus(pattern, relevant)
    reachable = np.minimum(length, relevant)
    known = np.nan_to_num(reachable).astype(np.int64)
    ideal = _ideal_dcg(int(known.max(initial=0)))[known]
    score = _where_retrieved(length, _divide(dcg(pattern), ideal))
    return np.where((relevant == 0) | np.isnan(reachable), np.nan, score)[()]


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
    return _by_pattern(pattern, _reciprocal_rank)


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
    relevant = _relevant(n_relevant)
    _refuse_surplus(pattern, relevant)
    return _divide(_by_pattern(pattern, _precision_sum), relevant)


def judge(
    retrieved: Iterable[str],
    relevant: Iterable[str] | Iterable[tuple[str, float]] | Mapping[str, float],
    query: str = "",
) -> str:
    """Turn a ranking and the relevant documents of one query into a pattern.

    A document that is listed twice as relevant counts once. A document that is retrieved twice is
    refused: counted twice it would lift measures above what a ranking can reach.

    Parameters
    ----------
    retrieved : iterable of str
        Document ids, rank 1 first; may be empty, which gives the pattern ``""``.
    relevant : iterable of str, or of pairs, or mapping
        Ids of the relevant documents; or the relevance of each judged document, by id, as a
        dictionary, a pandas Series or pairs: what is judged 0 or less is not relevant. The number
        of relevant documents, each counted once, is N_p.
    query : str, optional
        Id of the query, named in errors.

    Returns
    -------
    str
        One character a rank: 1 relevant, 0 not.

    Raises
    ------
    UsageError
        If `retrieved` has no order, either is one string, an id is not text, or a relevance is
        not a number.
    DataError
        If a document is retrieved twice, or is judged both relevant and not.

    Examples
    --------
    >>> judge(["d4", "d1", "d7"], ["d1", "d1", "d9"])
    '010'
    >>> judge(["d4", "d1", "d7"], {"d1": 2, "d4": 0})
    '010'
    """
    where = f"query {query!r}: " if query else ""
    if isinstance(retrieved, Mapping | Set):
        raise UsageError(f"{where}retrieved must be a list, rank 1 first: this has no order.")
    ranking = _ids(retrieved, f"{where}retrieved")
    positives = _relevant_ids(relevant, where)
    first_rank: dict[str, int] = {}
    for rank, document in enumerate(ranking, start=1):
        if document in first_rank:
            raise DataError(
                f"{where}document {document!r} is retrieved twice, at ranks "
                f"{first_rank[document]} and {rank}; list each document once."
            )
        first_rank[document] = rank
    return "".join("1" if document in positives else "0" for document in ranking)


def _ids(documents: Any, name: str) -> list[str]:
    """Give document ids as a list; refuse one string, and what is no text."""
    if not isinstance(documents, str | bytes):
        ids = list(documents)
        if all(isinstance(one, str) for one in ids):
            return ids
    raise UsageError(f"{name} must be a list of document ids, each of them text.")


def _relevant_ids(relevant: Any, where: str) -> set[str]:
    """Give the ids of relevant documents, from ids or from what each was judged."""
    judged: Any
    if isinstance(relevant, Mapping):
        judged = list(relevant.items())
    elif hasattr(relevant, "items") and not all(isinstance(one, str) for one in relevant):
        judged = list(relevant.items())  # a Series of numbers by id; one of texts is a list of ids
    else:
        judged = relevant if isinstance(relevant, str | bytes) else list(relevant)
        if not judged or not all(isinstance(one, tuple | list) and len(one) == 2 for one in judged):
            return set(_ids(judged, f"{where}relevant"))
    found: dict[str, bool] = {}
    for document, relevance in judged:
        (name,) = _ids([document], f"{where}relevant")
        degree = float(relevance) if isinstance(relevance, Real | Decimal | np.bool_) else np.nan
        if np.isnan(degree):
            raise UsageError(
                f"{where}the relevance of {name!r} is {relevance!r}; it must be a number, 0 where "
                "the document is not relevant."
            )
        if found.setdefault(name, degree > 0) != (degree > 0):
            raise DataError(f"{where}document {name!r} is judged both relevant and not.")
    return {name for name, holds in found.items() if holds}


def cut(pattern: str, depths: Sequence[int], n_relevant: int | None = None) -> pd.DataFrame:
    """Cut one ranking at several depths and count what each leaves.

    Parameters
    ----------
    pattern : str
        Relevance in rank order, rank 1 first, as `judge` gives it.
    depths : sequence of int
        Values of K, none beyond the end of the pattern.
    n_relevant : int, optional
        Relevant documents in all, N_p, if it is known.

    Returns
    -------
    DataFrame
        One row a depth, with the columns of the scored rows that measures need: ``K``,
        ``n_positives``, ``n_positives_2k`` (NaN where the ranking ends before 2K), ``pattern``,
        and ``Np`` if `n_relevant` is given.

    Raises
    ------
    UsageError
        If a depth is negative or beyond the end of the pattern.

    Examples
    --------
    >>> cut("1010", [2, 3], n_relevant=5)
       K  n_positives  n_positives_2k pattern  Np
    0  2            1             2.0      10   5
    1  3            2             NaN     101   5
    """
    for depth in depths:
        if not 0 <= depth <= len(pattern):
            raise UsageError(f"A ranking of {len(pattern)} documents cannot be cut at {depth}.")
    found = np.append(0, np.cumsum(_relevance([pattern])[0]))
    twice = [float(found[2 * depth]) if 2 * depth < len(found) else np.nan for depth in depths]
    table = pd.DataFrame(
        {
            "K": list(depths),
            "n_positives": found[list(depths)],
            "n_positives_2k": twice,
            "pattern": [pattern[:depth] for depth in depths],
        }
    )
    return table if n_relevant is None else table.assign(Np=n_relevant)


# --- means --------------------------------------------------------------------------------------


class Mean(NamedTuple):
    """A mean with the number of rows it is over.

    Attributes
    ----------
    value : float
        Mean of the rows where the measure is defined; NaN where there is none.
    n : int
        Rows used.
    n_total : int
        Rows given.
    """

    value: float
    n: int
    n_total: int


def mean(values: ArrayLike) -> Mean:
    """Mean over the rows where a measure is defined, with their number.

    Parameters
    ----------
    values : array_like of float, shape (n,)
        One value a query, NaN where undefined.

    Returns
    -------
    Mean
        The value, the rows used and the rows given.

    Examples
    --------
    >>> mean([0.5, float("nan"), 1.0])
    Mean(value=0.75, n=2, n_total=3)
    """
    scores = np.atleast_1d(np.asarray(values, dtype=np.float64))
    defined = scores[~np.isnan(scores)]
    value = float(defined.mean()) if len(defined) else np.nan
    return Mean(value, len(defined), len(scores))


def mean_reciprocal_rank(pattern: Any, n_relevant: ArrayLike | None = None) -> Mean:
    """MRR: the mean over queries of `reciprocal_rank`; without those known to have N_p = 0.

    Parameters
    ----------
    pattern : sequence of str or categorical of str, shape (n,)
        Relevance in rank order, one pattern a query.
    n_relevant : array_like of int, shape (n,), optional
        Relevant documents in all, N_p, if they are known.

    Returns
    -------
    Mean
        Between 0 and 1, with the queries used and given.

    Examples
    --------
    >>> mean_reciprocal_rank(["0110", "0000"])
    Mean(value=0.25, n=2, n_total=2)
    >>> mean_reciprocal_rank(["0110", "0000"], n_relevant=[2, 0])
    Mean(value=0.5, n=1, n_total=2)
    """
    return mean(_with_relevant(reciprocal_rank(pattern), n_relevant))


def mean_average_precision(pattern: Any, n_relevant: ArrayLike) -> Mean:
    """MAP: the mean over queries of `average_precision`; without those that have N_p = 0.

    Parameters
    ----------
    pattern : sequence of str or categorical of str, shape (n,)
        Relevance in rank order, one pattern a query.
    n_relevant : array_like of int, shape (n,)
        Relevant documents in all, N_p.

    Returns
    -------
    Mean
        Between 0 and 1, with the queries used and given.

    Examples
    --------
    >>> mean_average_precision(["01", "10", "00"], [1, 1, 0])
    Mean(value=0.75, n=2, n_total=3)
    """
    return mean(average_precision(pattern, n_relevant))


def mean_hit_rate(n_positives: ArrayLike, n_relevant: ArrayLike | None = None) -> Mean:
    """Share of the queries that found a relevant document; without those known to have N_p = 0.

    Parameters
    ----------
    n_positives : array_like of int, shape (n,)
        Relevant documents among the retrieved, n_p.
    n_relevant : array_like of int, shape (n,), optional
        Relevant documents in all, N_p, if they are known.

    Returns
    -------
    Mean
        Between 0 and 1, with the queries used and given.

    Examples
    --------
    >>> mean_hit_rate([0, 1, 3, 0])
    Mean(value=0.5, n=4, n_total=4)
    """
    return mean(_with_relevant(hit_rate(n_positives), n_relevant))


# --- registry -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measure:
    """A measure, declared once: what it is called, what it needs and how it is computed.

    Attributes
    ----------
    name : str
        Name on the command line and in result tables.
    symbol, formula : str
        LaTeX.
    label : str
        Plain text, for axes and tables.
    low, high : float
        Bounds over every possible row and alpha; infinite where there is none.
    source : str
        Where the definition is from.
    columns : tuple of str
        Smallest set of scored columns that determines the measure, in the order in which
        `compute` takes them.
    compute : callable
        The function on arrays: the columns, then alpha where the measure has one.
    has_alpha : bool
        Whether there is a weight alpha to choose.
    summary : str
        One sentence.
    """

    name: str
    symbol: str
    label: str
    formula: str
    low: float
    high: float
    source: str
    columns: tuple[str, ...]
    compute: Callable[..., FloatArray]
    has_alpha: bool
    summary: str

    @property
    def needs_relevant(self) -> bool:
        """Whether N_p, the number of relevant documents in all, must be known."""
        return "Np" in self.columns

    def evaluate(self, table: Any, alpha: float | None = None) -> FloatArray:
        """Compute the measure for every row of a table.

        Parameters
        ----------
        table : mapping or DataFrame
            Has `columns`, named as in the scored rows.
        alpha : float, optional
            Weight in [0, 1]: required where the measure has one, ignored where it has none.

        Returns
        -------
        ndarray of float64, shape (n,)
            NaN where undefined.

        Raises
        ------
        UsageError
            If a column or a required alpha is missing.

        Examples
        --------
        >>> MEASURES["T"].evaluate({"n_positives": [2], "K": [5]}, alpha=0.5)
        array([0.7])
        """
        missing = [column for column in self.columns if column not in table]
        if missing:
            raise UsageError(f"{self.name} needs the column(s) {', '.join(missing)}.")
        if self.has_alpha and alpha is None:
            raise UsageError(f"{self.name} needs an alpha in [0, 1].")
        weight = (alpha,) if self.has_alpha else ()
        return self.compute(*(table[column] for column in self.columns), *weight)


MEASURES: dict[str, Measure] = {}
"""Every measure by its name, in the order in which tables list them."""


def register(measure: Measure) -> Measure:
    """Add a measure to `MEASURES`.

    Parameters
    ----------
    measure : Measure
        Its name must be new.

    Returns
    -------
    Measure
        The same.

    Raises
    ------
    UsageError
        If the name is taken.

    Examples
    --------
    >>> register(MEASURES["F"])
    Traceback (most recent call last):
    ...
    retrieval_quality.errors.UsageError: There is already a measure named F.
    """
    if measure.name in MEASURES:
        raise UsageError(f"There is already a measure named {measure.name}.")
    MEASURES[measure.name] = measure
    return measure


def lookup(names: Iterable[str]) -> tuple[Measure, ...]:
    """Measures by name.

    Parameters
    ----------
    names : iterable of str
        Names as in `MEASURES`.

    Returns
    -------
    tuple of Measure
        In the order of `names`.

    Raises
    ------
    UsageError
        If there is no measure of that name; says which there are.

    Examples
    --------
    >>> [measure.label for measure in lookup(["T", "Fe"])]
    ['T', 'F_e']
    """
    names = tuple(names)
    unknown = [name for name in names if name not in MEASURES]
    if unknown:
        raise UsageError(
            f"No measure is named {', '.join(map(str, unknown))}; there are {', '.join(MEASURES)}."
        )
    return tuple(MEASURES[name] for name in names)


def score(table: Any, names: Iterable[str] = (), alpha: float | None = None) -> pd.DataFrame:
    """Compute several measures for every row of a table.

    Parameters
    ----------
    table : mapping or DataFrame
        Columns named as in the scored rows.
    names : iterable of str, optional
        Names in `MEASURES`; by default every measure whose columns the table has, those with a
        weight only if `alpha` is given.
    alpha : float, optional
        Weight in [0, 1] of the measures that have one.

    Returns
    -------
    DataFrame of float64
        One row a row of `table`, one column a measure; NaN where undefined.

    Raises
    ------
    UsageError
        If a name is unknown, or a column or a required alpha is missing.

    Examples
    --------
    >>> score(cut("1010010010", [5, 10], n_relevant=10), ["P", "R", "F1"]).round(3)
         P    R     F1
    0  0.4  0.2  0.267
    1  0.4  0.4  0.400
    """
    chosen = lookup(names) or tuple(
        measure
        for measure in MEASURES.values()
        if all(column in table for column in measure.columns)
        and not (measure.has_alpha and alpha is None)
    )
    return pd.DataFrame({measure.name: measure.evaluate(table, alpha) for measure in chosen})


for _measure in (
    Measure(
        name="F",
        symbol="F",
        label="F",
        formula=r"\frac{n_p}{\alpha K + (1-\alpha) N_p}",
        low=0,
        high=1,
        source="arXiv 2512.20854, equations 1 and 2; van Rijsbergen 1979",
        columns=("n_positives", "K", "Np"),
        compute=f_measure,
        has_alpha=True,
        summary="Weighted harmonic mean of precision and recall.",
    ),
    Measure(
        name="Fe",
        symbol="F_e",
        label="F_e",
        formula=r"\frac{n_p}{\alpha K + (1-\alpha) \hat N_p},\; \hat N_p = n_p(2K)",
        low=0,
        high=1,
        source="arXiv 2512.20854",
        columns=("n_positives", "K", "n_positives_2k"),
        compute=f_estimated,
        has_alpha=True,
        summary="F with the positives found in the top 2K in place of all relevant documents.",
    ),
    Measure(
        name="nDCG",
        symbol=r"\mathrm{nDCG}",
        label="nDCG",
        formula=r"\sum_{i=1}^{K} \frac{\mathrm{rel}_i}{\log_2(1+i)} \Big/ "
        r"\sum_{i=1}^{n_p} \frac{1}{\log_2(1+i)}",
        low=0,
        high=1,
        source="arXiv 2512.20854; Järvelin and Kekäläinen 2002",
        columns=("pattern",),
        compute=ndcg,
        has_alpha=False,
        summary="How near to the top the retrieved positives stand, however few they are.",
    ),
    Measure(
        name="T",
        symbol="T",
        label="T",
        formula=r"(1-\alpha) n_p - \alpha \frac{n_n}{K}",
        low=-1,
        high=inf,
        source="arXiv 2512.20854, equation 3",
        columns=("n_positives", "K"),
        compute=t_measure,
        has_alpha=True,
        summary="Positives found less the share of negatives.",
    ),
    Measure(
        name="Tu",
        symbol="T_u",
        label="T_u",
        formula=r"(1-\alpha) n_p - \alpha n_n",
        low=-inf,
        high=inf,
        source="arXiv 2512.20854, equation 4",
        columns=("n_positives", "K"),
        compute=tu_measure,
        has_alpha=True,
        summary="Positives found less negatives found.",
    ),
    Measure(
        name="P",
        symbol="P",
        label="P",
        formula=r"\frac{n_p}{K}",
        low=0,
        high=1,
        source="van Rijsbergen 1979",
        columns=("n_positives", "K"),
        compute=precision,
        has_alpha=False,
        summary="Precision@K: share of the retrieved documents that are relevant.",
    ),
    Measure(
        name="R",
        symbol="R",
        label="R",
        formula=r"\frac{n_p}{N_p}",
        low=0,
        high=1,
        source="van Rijsbergen 1979",
        columns=("n_positives", "Np"),
        compute=recall,
        has_alpha=False,
        summary="Recall@K: share of the relevant documents that were retrieved.",
    ),
    Measure(
        name="F1",
        symbol="F_1",
        label="F1",
        formula=r"\frac{2 n_p}{K + N_p}",
        low=0,
        high=1,
        source="van Rijsbergen 1979",
        columns=("n_positives", "K", "Np"),
        compute=f1,
        has_alpha=False,
        summary="F1@K: harmonic mean of precision and recall, F at alpha = 1/2.",
    ),
    Measure(
        name="nDCG_usual",
        symbol=r"\mathrm{nDCG}_{N_p}",
        label="nDCG (usual)",
        formula=r"\sum_{i=1}^{K} \frac{\mathrm{rel}_i}{\log_2(1+i)} \Big/ "
        r"\sum_{i=1}^{\min(K, N_p)} \frac{1}{\log_2(1+i)}",
        low=0,
        high=1,
        source="Järvelin and Kekäläinen 2002",
        columns=("pattern", "Np"),
        compute=ndcg_usual,
        has_alpha=False,
        summary="nDCG@K of most tools: the ideal has as many relevant documents as fit in K.",
    ),
    Measure(
        name="hit",
        symbol=r"\mathrm{hit}",
        label="hit rate",
        formula=r"[n_p \ge 1]",
        low=0,
        high=1,
        source="common use",
        columns=("n_positives",),
        compute=hit_rate,
        has_alpha=False,
        summary="Whether at least one relevant document was retrieved; success@K.",
    ),
    Measure(
        name="RR",
        symbol=r"\mathrm{RR}",
        label="RR",
        formula=r"\frac{1}{\min\{i : \mathrm{rel}_i = 1\}}",
        low=0,
        high=1,
        source="common use",
        columns=("pattern",),
        compute=reciprocal_rank,
        has_alpha=False,
        summary="One over the rank of the first relevant document; its mean is the MRR.",
    ),
    Measure(
        name="AP",
        symbol=r"\mathrm{AP}",
        label="AP",
        formula=r"\frac{1}{N_p} \sum_{k=1}^{K} P@k \cdot \mathrm{rel}_k",
        low=0,
        high=1,
        source="common use",
        columns=("pattern", "Np"),
        compute=average_precision,
        has_alpha=False,
        summary="Precision at each relevant document over all relevant ones; its mean is the MAP.",
    ),
):
    register(_measure)


# --- kernels ------------------------------------------------------------------------------------


def _f(n_positives: Any, top_k: Any, n_relevant: Any, alpha: Any) -> FloatArray:
    n_negatives = top_k - n_positives
    found = alpha * (n_positives + n_negatives) + (1 - alpha) * n_relevant
    return _where_retrieved(top_k, _divide(n_positives, found))


def _dcg(relevance: NDArray[np.bool_], length: NDArray[np.int64]) -> FloatArray:
    discount = np.log2(1 + np.arange(1, relevance.shape[1] + 1))
    return _total(relevance / discount)


def _ndcg(relevance: NDArray[np.bool_], length: NDArray[np.int64]) -> FloatArray:
    n_positives = relevance.sum(axis=1)
    ideal = _ideal_dcg(relevance.shape[1])[n_positives]
    return np.where(n_positives == 0, 0.0, _divide(_dcg(relevance, length), ideal))


def _ideal_dcg(most: int) -> FloatArray:
    """DCG of 0, 1, … `most` relevant documents at the first ranks."""
    return np.concatenate([[0.0], np.cumsum(1 / np.log2(1 + np.arange(1, most + 1)))])


def _reciprocal_rank(relevance: NDArray[np.bool_], length: NDArray[np.int64]) -> FloatArray:
    if not relevance.shape[1]:
        return np.zeros(len(relevance))
    return np.where(relevance.any(axis=1), 1 / (1 + relevance.argmax(axis=1)), 0.0)


def _precision_sum(relevance: NDArray[np.bool_], length: NDArray[np.int64]) -> FloatArray:
    ranks = np.arange(1, relevance.shape[1] + 1)
    return _total(np.cumsum(relevance, axis=1) / ranks * relevance)


def _length(relevance: NDArray[np.bool_], length: NDArray[np.int64]) -> FloatArray:
    return length.astype(np.float64)


def _n_positives(relevance: NDArray[np.bool_], length: NDArray[np.int64]) -> FloatArray:
    return relevance.sum(axis=1).astype(np.float64)


def _total(terms: FloatArray) -> FloatArray:
    """Add up each row from the first column on (`numpy.sum` adds in another order)."""
    if not terms.shape[1]:
        return np.zeros(len(terms))
    return np.cumsum(terms, axis=1)[:, -1]


# --- reading what was given ---------------------------------------------------------------------


def _by_pattern(pattern: Any, kernel: Callable[..., FloatArray]) -> FloatArray:
    """Apply a kernel to each distinct pattern and spread the result over the rows."""
    if isinstance(pattern, str):
        return kernel(*_relevance([pattern]))[0]
    values = getattr(pattern, "array", pattern)
    if not isinstance(values, pd.Categorical):
        values = pd.Categorical(np.asarray(values, dtype=object))
    scores = kernel(*_relevance(values.categories))
    return np.append(scores, np.nan)[values.codes]


def _relevance(patterns: Collection[Any]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
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


def _counts(name: str, values: ArrayLike) -> Any:
    """Whole, non-negative numbers as int64."""
    array = np.asarray(values)
    if array.dtype.kind not in "iub":
        numbers = np.asarray(values, dtype=np.float64)
        _refuse(~(numbers % 1 == 0), f"{name} is not a whole number")
        array = numbers
    array = array.astype(np.int64)
    _refuse(array < 0, f"{name} is negative")
    return array


def _retrieved(n_positives: ArrayLike, top_k: ArrayLike) -> tuple[Any, Any]:
    positives, retrieved = _counts("n_positives", n_positives), _counts("top_k", top_k)
    _refuse(positives > retrieved, "more positives than retrieved documents")
    return positives, retrieved


def _relevant(n_relevant: ArrayLike) -> Any:
    return _counts("n_relevant", n_relevant)


def _refuse_surplus(pattern: Any, n_relevant: Any) -> None:
    surplus = _by_pattern(pattern, _n_positives) > n_relevant
    _refuse(surplus, "the pattern has more positives than there are relevant documents")


def _refuse(wrong: Any, what: str) -> None:
    if np.any(wrong):
        row = int(np.argmax(np.ravel(wrong)))
        raise DataError(f"Row {row}: {what}.")


def _with_relevant(score: FloatArray, n_relevant: ArrayLike | None) -> FloatArray:
    """Undefine the score of queries that are known to have nothing relevant."""
    return score if n_relevant is None else np.where(_relevant(n_relevant) == 0, np.nan, score)


def _weight(alpha: ArrayLike) -> Any:
    weight = np.asarray(alpha, dtype=np.float64)
    if not np.all((weight >= 0) & (weight <= 1)):
        raise UsageError(f"alpha must be in [0, 1], not {alpha!r}.")
    return weight[()]


def _divide(numerator: Any, denominator: Any) -> Any:
    """Quotient, NaN for 0/0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.true_divide(numerator, denominator)


def _where_retrieved(top_k: Any, score: Any) -> Any:
    """Score 0 where nothing was retrieved."""
    return np.where(top_k == 0, 0.0, score)[()]
