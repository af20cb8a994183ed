"""From rankings to rows, and from rows to means with their counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.measures.reading import (
    relevance_of,
    where_relevant,
)
from retrieval_quality.measures.usual import average_precision, hit_rate, reciprocal_rank


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
    found = np.append(0, np.cumsum(relevance_of([pattern])[0]))
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
    return mean(where_relevant(reciprocal_rank(pattern), n_relevant))


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
    return mean(where_relevant(hit_rate(n_positives), n_relevant))
