"""One resampling for everything that has an interval: units, weights, ties, replicates, intervals.

Rows are not independent: one query stands in a cell with several N_c, N_p and K, and in the cells
of every embedding. So queries are drawn, not rows. A replicate gives each query a weight, Poisson
with mean 1, and every row of the query counts that often. The weights of a query depend on nothing
but the seed and its name: all cells, embeddings and measures of a replicate share them, which pairs
the differences, and a cell has the same interval whatever else is computed beside it, in whatever
order and by however many threads.

Unit
    The text of the query, where the data hold texts (column ``query`` of the scored rows): the ids
    of ARXIV that ask for one category are one unit, and so is a question that occurs as HotpotQA
    sentences and as paragraphs. Without texts it is the id.
Ties
    Whatever is judged uses `exact_scores`: two rows whose values are equal in exact arithmetic are
    tied. The published expressions, whose last digits decide ties, serve only to reproduce the
    paper.
Interval
    From one percentile of the replicates to the other. Where alpha is chosen anew in each
    replicate, the interval is moved so that the mean of the replicates lies at the estimate
    (``centred``): a replicate repeats some queries and lacks others, so it chooses with less
    information than the data themselves, and its mean lies too low, or, for a maximum, too high.
p-value
    Of "on the other side of a bound": the normal tail of the distance to the bound, in standard
    deviations of the replicates. A share of replicates could not be smaller than one in their
    number, which no correction for many tests survives. The intervals of single cells keep the
    share, which assumes no shape.

References
----------
.. [1] B. Efron, R. Tibshirani, "An Introduction to the Bootstrap", 1993 (percentile intervals,
   chapter 13; bias, chapter 10).
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array

from retrieval_quality.measures import MEASURES, Measure
from retrieval_quality.statistics.counts import (
    COEFFICIENTS,
    Counts,
    FloatArray,
    IntArray,
    Table,
    compiled,
    in_order,
    number,
    pearson,
    prepare,
    put_in_order,
    rank_coefficients,
)

DEFINED = 0.95
"""Share of the replicates, or splits, that must be defined for their interval, or mean, to be."""

TIED = 1e-11
"""Values this close are tied (of values above 1, relative to them).

Rounding errors stay below 1e-13. Two rows that are not tied in exact arithmetic come this close
only where alpha lies within about 1e-11 of a number at which they are."""

UNIT = "query"
"""Column of the scored rows that names the unit of resampling."""


def unit(rows: pd.DataFrame) -> str:
    """Column whose values are resampled: the query where the rows tell it, else the id.

    Examples
    --------
    >>> unit(pd.DataFrame(columns=["id", "query"])), unit(pd.DataFrame(columns=["id"]))
    ('query', 'id')
    """
    return UNIT if UNIT in rows and rows[UNIT].notna().all() else "id"


@dataclass(frozen=True)
class Replicates:
    """Numbers on the data and on each replicate.

    Attributes
    ----------
    estimate : ndarray, shape (...)
        On the data.
    draws : ndarray, shape (replicates, ...)
        On each replicate; NaN where undefined.
    """

    estimate: FloatArray
    draws: FloatArray

    @property
    def error(self) -> FloatArray:
        """Standard deviation of the defined replicates."""
        return _moment(np.nanstd, self.draws, ddof=1)

    def interval(self, level: float = 0.95, centred: bool = False) -> tuple[FloatArray, FloatArray]:
        """Percentile interval; NaN where fewer than 95% of the replicates are defined.

        Parameters
        ----------
        level : float in (0, 1)
            Nominal coverage.
        centred : bool
            Move the interval so that the mean of the replicates lies at the estimate.

        Returns
        -------
        low, high : ndarray, shape (...)

        Examples
        --------
        >>> low, high = Replicates(np.array(60.0), np.arange(101.0)).interval(centred=True)
        >>> float(low), float(high)
        (12.5, 107.5)
        """
        flat = self.draws.reshape(len(self.draws), int(np.prod(np.shape(self.estimate)))).T
        tails = (1 - level) / 2
        ends = np.array([quantiles(flat, tails), quantiles(flat, 1 - tails)])
        estimate = np.ravel(self.estimate)
        if centred:
            ends = ends + estimate - np.ravel(_moment(np.nanmean, self.draws))
        known = (~np.isnan(flat)).sum(axis=1)
        lacking = np.isnan(estimate) | (known < max(2, DEFINED * len(self.draws)))
        low, high = np.where(lacking, np.nan, ends).reshape(2, *np.shape(self.estimate))
        return low, high

    def p_below(self, bound: float) -> FloatArray:
        """Chance of an estimate as high as this one if the truth were `bound`, by normal tail."""
        from scipy.stats import norm  # slow to import

        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(norm.sf((self.estimate - bound) / self.error))


def _moment(summary: object, draws: FloatArray, **more: int) -> FloatArray:
    """Summarise over replicates, NaN where fewer than two are defined."""
    known = (~np.isnan(draws)).sum(axis=0)
    filled = np.where(known < 2, 0.0, draws)
    found = summary(filled, axis=0, **more)  # type: ignore[operator]
    return np.where(known < 2, np.nan, found)


def exact_scores(counts: Counts, measure: Measure, alphas: FloatArray) -> tuple[FloatArray, Table]:
    """Values of a measure for every key and alpha, ties as in exact arithmetic.

    Parameters
    ----------
    counts : Counts
        Has the columns of `measure`.
    measure : Measure
        What to evaluate; F_e without the 1e-10 of the published script.
    alphas : ndarray of float64, shape (m,)
        A measure without alpha is evaluated once.

    Returns
    -------
    values : ndarray of float64, shape (keys, m) or (keys, 1)
        Tied values are the same number.
    table : Table
        Without the rows on which the measure is undefined.

    Examples
    --------
    >>> from retrieval_quality.statistics.counts import count_rows
    >>> rows = pd.DataFrame({"dataset": "A", "E": "ME5S", "K": [7, 14], "Np": [7, 14],
    ...                      "n_positives": [3, 6], "grade": [3, 4]})
    >>> counted = count_rows(rows, columns=["n_positives", "K", "Np"])
    >>> values, _ = exact_scores(counted, MEASURES["F"], np.array([0.95]))
    >>> bool(values[0] == values[1])
    True
    """
    key, _ = counts.keys(measure.columns)
    values = exact_values(counts, measure, alphas)
    defined = np.asarray(~np.isnan(values).any(axis=1))
    return values, counts.table(np.where(defined[key], key, -1))


def exact_values(counts: Counts, measure: Measure, alphas: FloatArray) -> FloatArray:
    """Give the values of `exact_scores`; they depend on the columns of the counts alone."""
    _, distinct = counts.keys(measure.columns)
    grid: Any = alphas[:, np.newaxis]
    if measure.name == "Fe":  # F with the estimate for N_p; nothing found is 0, whatever it is
        positives, estimate = (
            np.asarray(distinct[name], dtype=float) for name in ("n_positives", "n_positives_2k")
        )
        known = ~np.isnan(estimate)
        found = known & (positives > 0)
        stand_in = {
            "n_positives": np.where(found, positives, 0.0),
            "K": distinct["K"],
            "Np": np.where(found, estimate, 1.0),
        }
        values = np.where(known, MEASURES["F"].evaluate(stand_in, grid), np.nan)
    elif measure.has_alpha:
        values = measure.evaluate(distinct, grid)
    else:
        values = measure.evaluate(distinct)[np.newaxis]
    values = np.ascontiguousarray(np.asarray(values, dtype=np.float64).T)
    _tie(values)
    return values


def _tie(values: FloatArray) -> None:
    """Make the values of a column that are next to equal the same number, in place."""
    order = np.argsort(values, axis=0, kind="stable")
    ordered = np.take_along_axis(values, order, axis=0)
    with np.errstate(invalid="ignore"):
        apart = np.diff(ordered, axis=0) > TIED * np.maximum(1.0, np.abs(ordered[1:]))
    first = np.zeros(ordered.shape, dtype=np.int64)
    first[1:] = np.where(apart | np.isnan(ordered[1:]), np.arange(1, len(ordered))[:, None], 0)
    first = np.maximum.accumulate(first, axis=0)
    np.put_along_axis(values, order, np.take_along_axis(ordered, first, axis=0), axis=0)


def query_weights(ids: Iterable[str], replicates: int, seed: int) -> NDArray[np.uint8]:
    """Poisson weights of queries, each from the seed and its id alone.

    Parameters
    ----------
    ids : iterable of str
        Queries.
    replicates : int
        Weights for each.
    seed : int
        Not negative.

    Returns
    -------
    ndarray of uint8, shape (queries, replicates)
        How often a query counts; mean 1, variance 1.

    Examples
    --------
    >>> query_weights(["A-0", "A-1"], 3, seed=1)
    array([[0, 1, 1],
           [0, 0, 1]], dtype=uint8)
    """
    draws = [
        np.searchsorted(_POISSON, _stream(seed, "weights", name).random_raw(replicates), "right")
        for name in ids
    ]
    return np.array(draws, dtype=np.uint8).reshape(len(draws), replicates)


def query_halves(ids: Iterable[str], splits: int, seed: int, purpose: str) -> NDArray[np.uint8]:
    """Random halves of the queries, 0 or 1, each from the seed, the purpose and its id alone.

    Parameters
    ----------
    ids : iterable of str
        Queries.
    splits : int
        Halvings.
    seed : int
        Not negative.
    purpose : str
        Tells independent sets of halvings apart.

    Returns
    -------
    ndarray of uint8, shape (queries, splits)
        Which half each query is in; a fair coin, so halves differ a little in size.
    """
    draws = [_stream(seed, purpose, name).random_raw(splits) >> np.uint64(63) for name in ids]
    return np.array(draws, dtype=np.uint8).reshape(len(draws), splits)


def replicate(
    counts: Counts,
    score: FloatArray,
    query: IntArray,
    weights: NDArray[np.uint8],
    *,
    coefficient: str = "spearman",
    threads: int | None = None,
) -> FloatArray:
    """Correlate one value of every row with the grade, in every cell and under every weighting.

    Parameters
    ----------
    counts : Counts
        Counted by ``id`` and by what the value depends on.
    score : ndarray, shape (entries,)
        The value, such as a measure at an alpha of the cell's own; rows where it is NaN are left
        out.
    query : ndarray of int, shape (entries,)
        Row of `weights` that each entry belongs to.
    weights : ndarray of uint8, shape (queries, replicates)
        How often each query counts, as from `query_weights`; a column of ones gives the data.
    coefficient : str
        As for `intervals`.
    threads : int, optional
        By default one for each processor; results do not depend on it.

    Returns
    -------
    ndarray, shape (cells, replicates)
        NaN where the value or the grade is constant.
    """
    code, values = pd.factorize(score, sort=True)
    table = counts.table(code)
    slots = slots_of(counts, query, table)
    found = np.full((len(table), weights.shape[1]), np.nan)

    def work(cell: int) -> None:
        first, last = table.start[cell], table.start[cell + 1]
        order = np.arange(last - first)[np.newaxis]  # keys are distinct values, ascending
        scores = values[table.key[first:last]][np.newaxis].astype(np.float64)
        found[cell] = coefficients(
            slots.of(first, last),
            weights,
            table.grades,
            scores,
            order,
            np.zeros(order.shape, dtype=np.bool_),
            COEFFICIENTS.index(coefficient),
        )[0]

    with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
        list(pool.map(work, range(len(table))))
    return found


# --- drawing ------------------------------------------------------------------------------------

_POISSON = np.array(
    [
        int(sum(2**64 / math.e / math.factorial(i) for i in range(k + 1)))
        for k in range(13)  # larger counts have a chance below 1e-10
    ],
    dtype=np.uint64,
)
"""Where a whole number of 64 random bits stops giving weight k."""


def _stream(seed: int, purpose: str, name: str) -> np.random.Philox:
    text = f"{seed}/{purpose}/{name}".encode()
    digest = hashlib.blake2b(text, digest_size=16).digest()
    return np.random.Philox(key=int.from_bytes(digest, "little"))


def halved(weights: NDArray[np.uint8], halves: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Weights in the first half and in the second: shape (2, queries, replicates)."""
    return np.stack([weights * (1 - halves), weights * halves])


# --- inner loops --------------------------------------------------------------------------------


class Slots(NamedTuple):
    """Rows by query, those of one key and grade (a slot) next to each other.

    Attributes
    ----------
    key, grade : ndarray of int64, shape (slots,)
        Which entry of the table, and which grade.
    start : ndarray of int64, shape (slots + 1,)
        The queries of a slot.
    query, rows : ndarray of int64
        Which query, and how many rows it has in the slot.
    """

    key: IntArray
    grade: IntArray
    start: IntArray
    query: IntArray
    rows: IntArray

    def of(self, first: int, last: int) -> Slots:
        """Slots of the table's entries `first` up to `last`, counted from there."""
        low, high = np.searchsorted(self.key, [first, last])
        own = slice(self.start[low], self.start[high])
        start = self.start[low : high + 1] - self.start[low]
        key, grade = self.key[low:high] - first, self.grade[low:high]
        return Slots(key, grade, start, self.query[own], self.rows[own])


def slots_of(counts: Counts, query: IntArray, table: Table) -> Slots:
    """Arrange the entries of a table by key, grade and query; see `Slots`."""
    kept = np.flatnonzero(table.entry >= 0)
    found, slot = number(table.entry[kept] * len(table.grades) + counts.grade[kept])
    size = np.bincount(found, minlength=len(slot))
    start = np.append(0, np.cumsum(size)).astype(np.int64)
    by_slot = csr_array((found, found, np.arange(len(found) + 1)), (len(found), len(slot)))
    entries = kept[by_slot.tocsc().indices]  # a counting sort
    key, grade = np.divmod(slot, len(table.grades))
    rows = counts.count[entries].astype(np.int64)
    return Slots(key, grade, start, query[entries], rows)


def quantiles(values: FloatArray, q: float) -> FloatArray:
    """Quantile of every row without its NaN, linear between the two neighbours."""
    ordered = np.sort(values, axis=1)
    last = (~np.isnan(values)).sum(axis=1) - 1
    place = np.maximum(last, 0) * q
    below = np.floor(place).astype(np.int64)
    above = np.minimum(below + 1, np.maximum(last, 0))
    if not values.shape[1]:
        return np.full(len(values), np.nan)
    row = np.arange(len(values))
    return ordered[row, below] + (place - below) * (ordered[row, above] - ordered[row, below])


@compiled
def candidates(
    scores: FloatArray, every: bool
) -> tuple[IntArray, NDArray[np.bool_], IntArray, IntArray]:
    """Tell the different orders of the keys over alpha (rows of `scores`), and where each is first.

    Under `every`, each alpha is kept: Pearson's coefficient depends on more than the order. The
    last array says which candidate the keys follow at each alpha.
    """
    n_alphas, n_keys = scores.shape
    orders = np.empty((n_alphas, n_keys), dtype=np.int64)
    ties = np.empty((n_alphas, n_keys), dtype=np.bool_)
    marks = np.empty(n_alphas, dtype=np.int64)
    first = np.empty(n_alphas, dtype=np.int64)
    which = np.zeros(n_alphas, dtype=np.int64)
    order, tied = np.arange(n_keys), np.zeros(n_keys, dtype=np.bool_)
    found = 0
    for a in range(n_alphas):
        if a > 0 and not every and in_order(scores[a], order, tied):
            which[a] = which[a - 1]
            continue
        put_in_order(scores[a], order, tied)
        mark = 0
        for i in range(n_keys):
            mark = mark * 1000003 + 2 * order[i] + tied[i]
        new = True
        for other in range(found):
            if new and not every and marks[other] == mark:
                new = False
                for i in range(n_keys):
                    new |= orders[other, i] != order[i] or ties[other, i] != tied[i]
                if not new:
                    which[a] = other
        if new:
            for i in range(n_keys):
                orders[found, i], ties[found, i] = order[i], tied[i]
            marks[found], first[found], which[a] = mark, a, found
            found += 1
    return orders[:found].copy(), ties[:found].copy(), first[:found].copy(), which


def coefficients(
    slots: Slots,
    weights: NDArray[np.uint8],
    grades: FloatArray,
    scores: FloatArray,
    orders: IntArray,
    ties: NDArray[np.bool_],
    coefficient: int,
) -> FloatArray:
    """Coefficient of one cell for every candidate order under every weighting.

    Parameters
    ----------
    slots : Slots
        Of the cell, counted from its first entry.
    weights : ndarray of uint8, shape (queries, replicates)
        How often each query counts.
    grades : ndarray, shape (grades,)
        Ascending.
    scores, orders, ties : ndarray, shape (candidates, keys)
        Values of the measure (used by Pearson only), and `candidates` of them.
    coefficient : int
        Position in `COEFFICIENTS`.

    Returns
    -------
    ndarray, shape (candidates, replicates)
        NaN where the measure or the grade is constant.
    """
    filled = _fill(*slots[2:], np.ascontiguousarray(weights))
    values = np.empty((len(orders), weights.shape[1]))
    if coefficient == 0:
        _spearman(slots.key, slots.grade, filled, len(grades), orders, ties, values)
    else:
        rest = (grades, scores, orders, ties, coefficient, values)
        _others(slots.key, slots.grade, filled, *rest)
    return values


def crossed(first: FloatArray, second: FloatArray) -> tuple[FloatArray, FloatArray, IntArray]:
    """Value of the second half at the choice of the first, averaged with the other way round.

    Parameters
    ----------
    first, second : ndarray, shape (candidates, replicates)
        From `coefficients`, each on one half of the queries.

    Returns
    -------
    value : ndarray, shape (replicates,)
        Cross-fitted.
    own : ndarray, shape (replicates,)
        Mean of both halves at their own choice.
    best : ndarray of int, shape (2, replicates)
        The candidate that each half chose.
    """
    best = np.array([first_best(first), first_best(second)])
    column = np.arange(best.shape[1])
    value = (second[best[0], column] + first[best[1], column]) / 2
    own = (first[best[0], column] + second[best[1], column]) / 2
    return value, own, best


def first_best(values: FloatArray) -> IntArray:
    """First candidate (row) with the greatest value in every column; NaN is never chosen."""
    return np.where(np.isnan(values), -np.inf, values).argmax(axis=0)


@compiled
def _fill(
    start: IntArray, query: IntArray, rows: IntArray, weights: NDArray[np.uint8]
) -> NDArray[np.int32]:
    """Rows in each slot under the weights of each replicate."""
    filled = np.zeros((len(start) - 1, weights.shape[1]), dtype=np.int32)
    for slot in range(len(start) - 1):
        into = filled[slot]
        for i in range(start[slot], start[slot + 1]):
            times, own = np.int32(rows[i]), weights[query[i]]
            for b in range(len(own)):
                into[b] += times * np.int32(own[b])
    return filled


@compiled
def _spearman(
    key: IntArray,
    grade: IntArray,
    filled: NDArray[np.int32],
    n_grades: int,
    orders: IntArray,
    ties: NDArray[np.bool_],
    values: FloatArray,
) -> None:
    """Spearman's coefficient of each candidate in each replicate, as in `rank_coefficients`.

    Blocks of replicates go through the same order side by side, so processors do several at once.
    """
    n_keys = orders.shape[1]
    width = min(128, filled.shape[1])
    sizes, rank_sums = np.empty((n_keys, width)), np.empty((n_keys, width))
    totals, ranks = np.empty((n_grades, width)), np.empty((n_grades, width))
    n, rank_square, lower = np.empty(width), np.empty(width), np.empty(width)
    size, rank_sum = np.empty(width), np.empty(width)
    covariance, square = np.empty(width), np.empty(width)
    for block in range(0, filled.shape[1], max(width, 1)):
        m = min(width, filled.shape[1] - block)
        for each in (sizes, rank_sums, totals):
            each.fill(0.0)
        for blank in (n, rank_square, lower):
            blank.fill(0.0)
        for slot in range(len(key)):
            own, of_key, of_grade = filled[slot, block:], sizes[key[slot]], totals[grade[slot]]
            for b in range(m):
                of_key[b] += own[b]
                of_grade[b] += own[b]
                n[b] += own[b]
        for j in range(n_grades):
            for b in range(m):
                rank = 2 * lower[b] + totals[j, b] - n[b]
                ranks[j, b] = rank
                lower[b] += totals[j, b]
                rank_square[b] += totals[j, b] * rank * rank
        for slot in range(len(key)):
            own, of_key, rank_of = filled[slot, block:], rank_sums[key[slot]], ranks[grade[slot]]
            for b in range(m):
                of_key[b] += own[b] * rank_of[b]
        for i in range(len(orders)):
            for blank in (lower, covariance, square):
                blank.fill(0.0)
            first = 0
            while first < n_keys:
                size.fill(0.0)
                rank_sum.fill(0.0)
                again = True
                while again:
                    more, sums = sizes[orders[i, first]], rank_sums[orders[i, first]]
                    for b in range(m):
                        size[b] += more[b]
                        rank_sum[b] += sums[b]
                    first += 1
                    again = first < n_keys and ties[i, first]
                for b in range(m):
                    rank = 2 * lower[b] + size[b] - n[b]
                    covariance[b] += rank * rank_sum[b]
                    square[b] += size[b] * rank * rank
                    lower[b] += size[b]
            for b in range(m):
                # a square is 0 where all rows tie: a constant measure or grade
                product = np.sqrt(square[b]) * np.sqrt(rank_square[b])
                value = covariance[b] / product if product > 0 else np.nan
                values[i, block + b] = max(-1.0, min(1.0, value)) if product > 0 else np.nan


@compiled
def _others(
    key: IntArray,
    grade: IntArray,
    filled: NDArray[np.int32],
    grades: FloatArray,
    scores: FloatArray,
    orders: IntArray,
    ties: NDArray[np.bool_],
    coefficient: int,
    values: FloatArray,
) -> None:
    """Pearson's coefficient or Kendall's of each candidate in each replicate."""
    below, counts = np.empty(len(grades)), np.zeros((orders.shape[1], len(grades)))
    for b in range(filled.shape[1]):
        for slot in range(len(key)):
            counts[key[slot], grade[slot]] = filled[slot, b]
        cell = prepare(counts, grades)
        for i in range(len(orders)):
            if coefficient == 1:
                values[i, b] = pearson(cell, scores[i])
            else:
                _, tau_b, tau_c = rank_coefficients(cell, counts, orders[i], ties[i], below)
                values[i, b] = tau_b if coefficient == 2 else tau_c
