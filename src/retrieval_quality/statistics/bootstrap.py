"""How sure a correlation is: bootstrap by query, and an alpha that was not chosen on the same rows.

Rows are not independent: one query stands in a cell with several N_c, N_p and K, and in the cells
of every embedding. So queries are drawn, not rows. A replicate gives each query a weight, Poisson
with mean 1, and every row of the query counts that often. The weights of a query depend on nothing
but the seed and its id: all cells, embeddings and measures of a replicate share them, which pairs
the differences, and a cell has the same interval whatever else is computed beside it, in whatever
order and by however many threads.

An interval goes from one percentile of the replicates to the other. Three kinds of alpha:

a number
    The coefficient at that alpha.
``crossfit``
    Queries are split into halves; the alpha that is best in one half is used in the other, and the
    two values are averaged. The estimate is the mean over several splits. Each replicate draws its
    own split, so the interval holds the uncertainty of the choice of alpha, and of the split.
``published``
    The maximum over the published grid, taken anew in each replicate. Such an interval is
    descriptive: a maximum over alpha flatters a measure on the rows it is taken on, and does so
    once more in every replicate, so it lies too high. No p-value is given.

References
----------
.. [1] B. Efron, R. Tibshirani, "An Introduction to the Bootstrap", 1993 (percentile intervals).
.. [2] Y. Benjamini, Y. Hochberg, "Controlling the false discovery rate", 1995.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from retrieval_quality.errors import UsageError
from retrieval_quality.measures import Measure, lookup
from retrieval_quality.statistics import correlation
from retrieval_quality.statistics.counts import (
    ALPHAS,
    COEFFICIENTS,
    Counts,
    FloatArray,
    IntArray,
    Table,
    compiled,
    count_rows,
    evaluate,
    in_order,
    pearson,
    prepare,
    put_in_order,
    rank_coefficients,
)

DEFINED = 0.95
"""Share of the replicates, or splits, that must be defined for their interval, or mean, to be."""

SPLITS = 20
"""Random halvings of the queries behind a cross-fitted estimate."""

INTERVAL_COLUMNS = (
    *correlation.COLUMNS[:7],
    "minus",
    "coefficient",
    "alpha",
    "alpha_minus",
    "correlation",
    "low",
    "high",
    "queries",
    "replicates",
    "undefined",
    "p_value",
    "q_value",
    "reason",
)
"""Columns of `intervals`."""


def intervals(
    rows: pd.DataFrame,
    *,
    segmentation: str = "ratio",
    min_samples: int | None = None,
    measures: Sequence[str] = ("F", "nDCG", "T"),
    pairs: Sequence[tuple[str, str]] = (("T", "F"),),
    coefficient: str = "spearman",
    alpha: str | float = 0.5,
    replicates: int = 1000,
    seed: int = 1,
    level: float = 0.95,
    require_2k: bool = False,
    by: str = "dataset",
    grade: str = "grade",
    splits: int = SPLITS,
    threads: int | None = None,
) -> pd.DataFrame:
    """Correlations and their differences, with percentile intervals by query.

    Parameters
    ----------
    rows : DataFrame
        Scored rows, with ``id``.
    segmentation, min_samples, require_2k, by, grade
        As for `correlate`.
    measures : sequence of str
        Measures to give an interval of.
    pairs : sequence of (str, str)
        Differences to give, the first measure's correlation less the second's, paired. Their
        measures need not be among `measures`.
    coefficient : str
        One of ``spearman``, ``pearson``, ``kendall_b``, ``kendall_c``.
    alpha : float in [0, 1], "crossfit" or "published"
        See the module. Under ``crossfit`` measures without alpha are measured on the same halves,
        so that differences compare like with like.
    replicates : int
        At least 1.
    seed : int
        Decides every weight and split.
    level : float in (0, 1)
        Nominal coverage.
    splits : int
        Halvings behind a cross-fitted estimate.
    threads : int, optional
        By default one for each processor; results do not depend on it.

    Returns
    -------
    DataFrame
        `INTERVAL_COLUMNS`, one row a cell and measure, then one a cell and pair. ``minus`` is the
        second measure of a pair, else empty, and ``alpha_minus`` its alpha; ``correlation`` is then
        the difference. A cross-fitted ``alpha`` is the median of those chosen. ``queries`` counts
        the ids, ``undefined`` the replicates in which the measure or the grade was constant; these
        are left out, and the interval is NaN, with a ``reason``, where they are more than 5%.

        ``p_value`` (pairs, unless alpha is published) is twice the share of the replicates at or
        below 0, or at or above it, whichever is smaller, both counts raised by 1. ``q_value`` is
        that of Benjamini and Hochberg over the cells of one figure: one pair and dataset.

    Raises
    ------
    UsageError
        If a name or number is not one of those accepted.
    DataError
        If the rows lack a column, or a grade is no number.

    Examples
    --------
    >>> rows = pd.DataFrame({"id": [f"A-{i // 2}" for i in range(80)], "dataset": "A", "E": "ME5S",
    ...                      "K": 4, "Np": 4, "n_positives": [1, 2, 3, 4] * 20,
    ...                      "grade": [1, 2, 2, 4, 2, 1, 4, 5] * 10})
    >>> found = intervals(rows, min_samples=80, measures=["P"], pairs=[], replicates=200)
    >>> found[["correlation", "low", "high", "queries"]].round(2).values.tolist()
    [[0.81, 0.66, 0.88, 40.0]]
    """
    _check(coefficient, alpha, replicates, level, splits)
    names = tuple(dict.fromkeys([*measures, *(name for pair in pairs for name in pair)]))
    counts = _count(rows, names, segmentation, min_samples, require_2k, by, grade)
    draw = _Draw(counts, coefficient, alpha, replicates, seed, splits, threads)
    samples = {measure.name: _sample(draw, measure) for measure in lookup(names)}
    fewest = correlation.minimum(segmentation, min_samples)
    frames = [_single(draw, samples, name, fewest, level) for name in measures]
    frames += [_pair(draw, samples, first, second, fewest, level) for first, second in pairs]
    result = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    return _discoveries(result.reindex(columns=list(INTERVAL_COLUMNS)))


def crossfit(
    rows: pd.DataFrame,
    *,
    segmentation: str = "ratio",
    min_samples: int | None = None,
    measures: Sequence[str] = ("F", "T"),
    coefficient: str = "spearman",
    seed: int = 1,
    require_2k: bool = False,
    by: str = "dataset",
    grade: str = "grade",
    splits: int = SPLITS,
    threads: int | None = None,
) -> pd.DataFrame:
    """Correlations at an alpha from half of the queries, measured on the other half.

    Parameters
    ----------
    rows, segmentation, min_samples, measures, coefficient, require_2k, by, grade
        As for `intervals`.
    seed, splits, threads
        As for `intervals`; the estimates are those of ``intervals(alpha="crossfit")``.

    Returns
    -------
    DataFrame
        `correlation.COLUMNS` with ``alpha`` the median of those chosen, and: ``alpha_low`` and
        ``alpha_high``, the least and greatest chosen; ``maximum``, the published maximum on all
        rows; ``optimism``, by how much it is above; ``queries``; ``undefined``, the splits that
        gave no value.

    Raises
    ------
    UsageError, DataError
        As for `intervals`.
    """
    _check(coefficient, "crossfit", 1, 0.95, splits)
    counts = _count(rows, measures, segmentation, min_samples, require_2k, by, grade)
    draw = _Draw(counts, coefficient, "crossfit", 0, seed, splits, threads)
    frames = []
    for measure in lookup(measures):
        sample = _sample(draw, measure)
        fewest = correlation.minimum(segmentation, min_samples)
        frame = _single(draw, {measure.name: sample}, measure.name, fewest, 0.95)
        cells = np.flatnonzero(sample.table.sizes >= fewest)
        frame["alpha_low"], frame["alpha_high"] = sample.alpha_range[cells].T
        frame["maximum"] = sample.maximum[cells]
        frame["optimism"] = frame["maximum"] - frame["correlation"]
        frame["undefined"] = sample.undefined_splits[cells]
        frames.append(frame)
    extra = ["alpha_low", "alpha_high", "maximum", "optimism", "queries", "undefined"]
    return pd.concat(frames, ignore_index=True)[[*correlation.COLUMNS, *extra]]


def profile(
    rows: pd.DataFrame,
    *,
    segmentation: str = "ratio",
    min_samples: int | None = None,
    measures: Sequence[str] = ("F", "T"),
    coefficient: str = "spearman",
    alphas: Sequence[float] | None = None,
    require_2k: bool = False,
    by: str = "dataset",
    grade: str = "grade",
) -> pd.DataFrame:
    """Correlation of every cell as a function of alpha.

    Parameters
    ----------
    rows, segmentation, min_samples, measures, coefficient, require_2k, by, grade
        As for `intervals`; only measures with an alpha.
    alphas : sequence of float, optional
        Ascending, in [0, 1]; by default 0, 0.01, …, 1.

    Returns
    -------
    DataFrame
        `correlation.COLUMNS`, one row a cell, measure and alpha; not rounded.

    Raises
    ------
    UsageError
        If a measure has no alpha, or a name or number is not one of those accepted.
    DataError
        As for `intervals`.
    """
    grid = np.linspace(0, 1, 101) if alphas is None else np.asarray(alphas, dtype=np.float64)
    _check(coefficient, 0.5, 1, 0.95, 1)
    chosen = lookup(measures)
    for measure in chosen:
        _needs_alpha(measure)
    counts = _count(rows, measures, segmentation, min_samples, require_2k, by, grade, query=False)
    fewest = correlation.minimum(segmentation, min_samples)
    frames = []
    for measure in chosen:
        values, table = evaluate(counts, measure, grid)
        curves = correlation.curves_of(values, table)[:, :, COEFFICIENTS.index(coefficient)]
        cells = np.flatnonzero(table.sizes >= fewest)
        repeated = np.repeat(cells, len(grid))
        frame = counts.cells.iloc[repeated].reset_index(drop=True)
        frame["n"], frame["measure"] = table.sizes[repeated], measure.name
        frame["coefficient"], frame["alpha"] = coefficient, np.tile(grid, len(cells))
        frame["correlation"] = curves[cells].ravel()
        frame["reason"] = _reasons(table, repeated, frame["correlation"].to_numpy())
        frames.append(frame[list(correlation.COLUMNS)])
    return pd.concat(frames, ignore_index=True)


def leave_dataset_out(
    rows: pd.DataFrame,
    *,
    segmentation: str = "ratio",
    min_samples: int | None = None,
    measures: Sequence[str] = ("F", "T"),
    coefficient: str = "spearman",
    require_2k: bool = False,
    grade: str = "grade",
) -> pd.DataFrame:
    """Correlations at the alpha that is best on the other datasets: what a practitioner has.

    The alpha of a cell is the smallest of the published grid at which the mean correlation of the
    other datasets' cells, of the same embedding and segment, is greatest.

    Parameters
    ----------
    rows, segmentation, min_samples, measures, coefficient, require_2k, grade
        As for `intervals`; only measures with an alpha.

    Returns
    -------
    DataFrame
        `correlation.COLUMNS`, and: ``maximum``, the published maximum on the dataset itself;
        ``loss``, by how much it is above; ``datasets``, how many others gave the alpha.

    Raises
    ------
    UsageError, DataError
        As for `profile`.
    """
    curves = profile(
        rows,
        segmentation=segmentation,
        min_samples=min_samples,
        measures=measures,
        coefficient=coefficient,
        alphas=ALPHAS.tolist(),
        require_2k=require_2k,
        grade=grade,
    )
    results = []
    for _, group in curves.groupby(["measure", "embedding", "segment"], sort=False):
        values = group["correlation"].to_numpy().reshape(-1, len(ALPHAS))
        cells = group.iloc[:: len(ALPHAS)].reset_index(drop=True)
        defined = ~np.isnan(values).any(axis=1)
        for i in range(len(cells)):
            others = values[defined & (np.arange(len(cells)) != i)]
            results.append(_transferred(cells.iloc[i], values[i], others))
    extra = ["maximum", "loss", "datasets"]
    return pd.DataFrame(results, columns=[*correlation.COLUMNS, *extra])


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
    slots = _slots(counts, query, table)
    found = np.full((len(table), weights.shape[1]), np.nan)

    def work(cell: int) -> None:
        first, last = table.start[cell], table.start[cell + 1]
        order = np.arange(last - first)[np.newaxis]  # keys are distinct values, ascending
        scores = values[table.key[first:last]][np.newaxis].astype(np.float64)
        found[cell] = _statistics(
            slots.of(first, last),
            weights[np.newaxis],
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


def _halved(weights: NDArray[np.uint8], halves: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Weights in the first half and in the second: shape (2, queries, replicates)."""
    return np.concatenate([weights * (1 - halves), weights * halves])


class _Draw:
    """Counts by query, and the weights and halves that all measures share."""

    def __init__(
        self,
        counts: Counts,
        coefficient: str,
        alpha: str | float,
        replicates: int,
        seed: int,
        splits: int,
        threads: int | None,
    ) -> None:
        self.counts = counts
        self.coefficient = COEFFICIENTS.index(coefficient)
        self.alpha = alpha
        self.threads = threads or os.cpu_count() or 1
        self.query, distinct = counts.keys(["id"])
        names = np.asarray(distinct["id"]).astype(str)
        self.replicates, self.n_splits = replicates, splits
        self.weights = query_weights(names, replicates, seed)[np.newaxis]
        if self.crossed:
            self.weights = _halved(self.weights, query_halves(names, replicates, seed, "halves"))
            once = np.ones((1, len(names), splits), dtype=np.uint8)
            self.splits = _halved(once, query_halves(names, splits, seed, "splits"))

    @property
    def crossed(self) -> bool:
        return self.alpha == "crossfit"

    @property
    def grid(self) -> FloatArray:
        return ALPHAS if self.crossed else correlation.alpha_values(self.alpha)


@dataclass(frozen=True)
class _Sample:
    """One measure: estimate, alpha and replicates of every cell."""

    table: Table
    value: FloatArray
    alpha: FloatArray
    alpha_range: FloatArray
    maximum: FloatArray
    undefined_splits: IntArray
    replicates: FloatArray
    queries: IntArray


def _sample(draw: _Draw, measure: Measure) -> _Sample:
    values, table = evaluate(draw.counts, measure, draw.grid)
    alphas = draw.grid if measure.has_alpha else np.array([np.nan])
    decimals = correlation.DECIMALS if isinstance(draw.alpha, str) else None
    curves = correlation.curves_of(values, table, draw.threads)
    at, best = correlation.maximum(curves, alphas, decimals)
    n = len(table)
    sample = _Sample(
        table,
        best[:, draw.coefficient].copy(),
        at[:, draw.coefficient].copy(),
        np.full((n, 2), np.nan),
        best[:, draw.coefficient],
        np.zeros(n, dtype=np.int64),
        np.full((n, draw.replicates), np.nan),
        np.zeros(n, dtype=np.int64),
    )
    slots = _slots(draw.counts, draw.query, table)

    def work(cell: int) -> None:
        first, last = table.start[cell], table.start[cell + 1]
        scores = np.ascontiguousarray(values[table.key[first:last]].T)
        candidates = _candidates(scores, draw.coefficient == 1)
        own = slots.of(first, last)
        sample.queries[cell] = len(np.unique(own.query))
        rest = (table.grades, scores, *candidates[:2], draw.coefficient)
        sample.replicates[cell] = _statistics(own, draw.weights, *rest)[0]
        if draw.crossed:
            found, chosen = _statistics(own, draw.splits, *rest)
            _average(sample, cell, found, alphas[candidates[2][chosen]])

    with ThreadPoolExecutor(draw.threads) as pool:
        list(pool.map(work, range(n)))
    return sample


class _Slots(NamedTuple):
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

    def of(self, first: int, last: int) -> _Slots:
        """Slots of the table's entries `first` up to `last`, counted from there."""
        low, high = np.searchsorted(self.key, [first, last])
        own = slice(self.start[low], self.start[high])
        start = self.start[low : high + 1] - self.start[low]
        key, grade = self.key[low:high] - first, self.grade[low:high]
        return _Slots(key, grade, start, self.query[own], self.rows[own])


def _slots(counts: Counts, query: IntArray, table: Table) -> _Slots:
    kept = np.flatnonzero(table.entry >= 0)
    code = table.entry[kept] * len(table.grades) + counts.grade[kept]
    order = np.argsort(code, kind="stable")
    slot, start = np.unique(code[order], return_index=True)
    key, grade = np.divmod(slot, len(table.grades))
    entries = kept[order]
    rows = counts.count[entries].astype(np.int64)
    return _Slots(key, grade, np.append(start, len(entries)), query[entries], rows)


def _average(sample: _Sample, cell: int, values: FloatArray, alphas: FloatArray) -> None:
    """Enter the mean over splits, where enough of them are defined."""
    defined = ~np.isnan(values)
    sample.undefined_splits[cell] = (~defined).sum()
    enough = defined.mean() >= DEFINED
    sample.value[cell] = values[defined].mean() if enough else np.nan
    sample.alpha[cell] = np.median(alphas[:, defined]) if enough else np.nan
    if enough:
        sample.alpha_range[cell] = alphas[:, defined].min(), alphas[:, defined].max()


# --- result tables ------------------------------------------------------------------------------


def _single(
    draw: _Draw, samples: dict[str, _Sample], name: str, fewest: int, level: float
) -> pd.DataFrame:
    sample = samples[name]
    cells = np.flatnonzero(sample.table.sizes >= fewest)
    frame = _cells(draw, sample, cells, name, "")
    frame["alpha"], frame["alpha_minus"] = sample.alpha[cells], np.nan
    return _spread(frame, sample.value[cells], sample.replicates[cells], level)


def _pair(
    draw: _Draw, samples: dict[str, _Sample], first: str, second: str, fewest: int, level: float
) -> pd.DataFrame:
    one, other = samples[first], samples[second]
    enough = (one.table.sizes >= fewest) & (other.table.sizes >= fewest)
    cells = np.flatnonzero(enough)
    frame = _cells(draw, one, cells, first, second)
    frame["alpha"], frame["alpha_minus"] = one.alpha[cells], other.alpha[cells]
    frame["reason"] = _first(frame["reason"], _undefined(draw, other, cells))
    same = one.table.sizes[cells] == other.table.sizes[cells]
    unequal = np.where(same, "", f"{first} and {second} are not on the same rows")
    frame["reason"] = _first(pd.Series(unequal, dtype=object), frame["reason"])
    difference = np.where(same, one.value[cells] - other.value[cells], np.nan)
    replicates = one.replicates[cells] - other.replicates[cells]
    frame = _spread(frame, difference, replicates, level)
    if draw.alpha != "published":
        known = frame["low"].notna().to_numpy()
        frame.loc[known, "p_value"] = _p_values(replicates[known])
    return frame


def _cells(draw: _Draw, sample: _Sample, cells: IntArray, measure: str, minus: str) -> pd.DataFrame:
    frame = draw.counts.cells.iloc[cells].reset_index(drop=True)
    frame["n"], frame["measure"], frame["minus"] = sample.table.sizes[cells], measure, minus
    frame["coefficient"] = COEFFICIENTS[draw.coefficient]
    frame["queries"], frame["replicates"] = sample.queries[cells], draw.replicates
    frame["reason"] = _undefined(draw, sample, cells)
    return frame


def _spread(
    frame: pd.DataFrame, value: FloatArray, replicates: FloatArray, level: float
) -> pd.DataFrame:
    """Enter value, interval and what is undefined about them."""
    undefined = np.isnan(replicates).sum(axis=1)
    n = max(replicates.shape[1], 1)
    tails = (1 - level) / 2
    low, high = _quantiles(replicates, tails), _quantiles(replicates, 1 - tails)
    single = frame["queries"].to_numpy() == 1
    no_interval = np.isnan(value) | single | (undefined > (1 - DEFINED) * n)
    frame["correlation"], frame["undefined"] = value, undefined
    frame["low"], frame["high"] = np.where(no_interval, np.nan, [low, high])
    frame["p_value"] = frame["q_value"] = np.nan
    said = [
        "no interval: one query" if alone else f"no interval: undefined in {count} replicates"
        for alone, count in zip(single, undefined, strict=True)
    ]
    frame["reason"] = _first(frame["reason"], np.where(no_interval, said, ""))
    return frame


def _undefined(draw: _Draw, sample: _Sample, cells: IntArray) -> NDArray[np.object_]:
    """Why the estimate of each cell is NaN, else empty."""
    reasons = _reasons(sample.table, cells, sample.maximum[cells])
    halves = [
        f"undefined in {sample.undefined_splits[cell]} of {draw.n_splits} splits"
        if np.isnan(sample.value[cell])
        else ""
        for cell in cells
    ]
    return _first(reasons, halves)


def _reasons(table: Table, cells: IntArray, values: FloatArray) -> NDArray[np.object_]:
    return np.array(
        [
            correlation.undefined_reason(table.grade_totals[cell]) if missing else ""
            for cell, missing in zip(cells, np.isnan(values), strict=True)
        ],
        dtype=object,
    )


def _first(reasons: Any, otherwise: Any) -> NDArray[np.object_]:
    first, second = (np.asarray(each, dtype=object) for each in (reasons, otherwise))
    return np.where(first == "", second, first)


def _quantiles(values: FloatArray, q: float) -> FloatArray:
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


def _p_values(replicates: FloatArray) -> FloatArray:
    defined = (~np.isnan(replicates)).sum(axis=1) + 1
    not_above, not_below = (replicates <= 0).sum(axis=1) + 1, (replicates >= 0).sum(axis=1) + 1
    return np.minimum(1.0, 2 * np.minimum(not_above, not_below) / defined)


def _discoveries(frame: pd.DataFrame) -> pd.DataFrame:
    """Enter the q-values: one figure is one pair of measures on one dataset."""
    from scipy.stats import false_discovery_control  # slow to import, and rarely needed

    known = frame[frame["p_value"].notna()]
    for _, cells in known.groupby(["dataset", "measure", "minus"], sort=False):
        frame.loc[cells.index, "q_value"] = false_discovery_control(cells["p_value"])
    return frame


def _transferred(cell: pd.Series, values: FloatArray, others: FloatArray) -> dict[str, Any]:
    """One row of `leave_dataset_out`."""
    alpha = value = best = np.nan
    reason = cell["reason"]
    if not reason:
        best = float(np.nanmax(values))
    if not reason and not len(others):
        reason = "no other dataset has this segment"
    if len(others):
        mean = np.round(others.mean(axis=0), correlation.DECIMALS)
        at = int(mean.argmax())
        alpha, value = ALPHAS[at], values[at]
        if np.isnan(value) and not reason:
            reason = "undefined at the other datasets' alpha"
    own = {"alpha": alpha, "correlation": value, "reason": reason}
    return {**cell, **own, "maximum": best, "loss": best - value, "datasets": len(others)}


# --- checking what was asked --------------------------------------------------------------------


def _check(
    coefficient: str, alpha: str | float, replicates: int, level: float, splits: int
) -> None:
    if coefficient not in COEFFICIENTS:
        raise UsageError(
            f"No coefficient is named {coefficient}; there are {', '.join(COEFFICIENTS)}."
        )
    if alpha == "exact":
        raise UsageError("There are intervals for a number, crossfit or published, not for exact.")
    if alpha != "crossfit":
        correlation.alpha_values(alpha)
    if replicates < 1 or splits < 1:
        raise UsageError("replicates and splits must be 1 or more.")
    if not 0 < level < 1:
        raise UsageError(f"level must be between 0 and 1, not {level}.")


def _needs_alpha(measure: Measure) -> None:
    if not measure.has_alpha:
        raise UsageError(f"{measure.name} has no alpha.")


def _count(
    rows: pd.DataFrame,
    measures: Sequence[str],
    segmentation: str,
    min_samples: int | None,
    require_2k: bool,
    by: str,
    grade: str,
    query: bool = True,
) -> Counts:
    columns = correlation.needed_columns(lookup(measures))
    return count_rows(
        rows,
        segmentation=segmentation,
        min_samples=correlation.minimum(segmentation, min_samples),
        columns=[*columns, "id"] if query else columns,
        require_2k=require_2k,
        by=by,
        grade=grade,
    )


# --- inner loops --------------------------------------------------------------------------------


@compiled
def _candidates(scores: FloatArray, every: bool) -> tuple[IntArray, NDArray[np.bool_], IntArray]:
    """Tell the different orders of the keys over alpha (rows of `scores`), and where each is first.

    Under `every`, each alpha is kept: Pearson's coefficient depends on more than the order.
    """
    n_alphas, n_keys = scores.shape
    orders = np.empty((n_alphas, n_keys), dtype=np.int64)
    ties = np.empty((n_alphas, n_keys), dtype=np.bool_)
    marks = np.empty(n_alphas, dtype=np.int64)
    first = np.empty(n_alphas, dtype=np.int64)
    order, tied = np.arange(n_keys), np.zeros(n_keys, dtype=np.bool_)
    found = 0
    for a in range(n_alphas):
        if a > 0 and not every and in_order(scores[a], order, tied):
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
        if new:
            for i in range(n_keys):
                orders[found, i], ties[found, i] = order[i], tied[i]
            marks[found], first[found] = mark, a
            found += 1
    return orders[:found].copy(), ties[:found].copy(), first[:found].copy()


def _statistics(
    slots: _Slots,
    weights: NDArray[np.uint8],
    grades: FloatArray,
    scores: FloatArray,
    orders: IntArray,
    ties: NDArray[np.bool_],
    coefficient: int,
) -> tuple[FloatArray, IntArray]:
    """Statistic of one cell in each replicate, and which candidates it used, shape (2, replicates).

    One set of weights: the best candidate's coefficient. Two, one for each half of the queries: the
    mean of both halves, each at the candidate that is best in the other.
    """
    halves = []
    for each in weights:
        filled = _fill(*slots[2:], each)
        values = np.empty((len(orders), each.shape[1]))
        key, grade = slots.key, slots.grade
        if coefficient == 0:
            _spearman(key, grade, filled, len(grades), orders, ties, values)
        else:
            _others(key, grade, filled, grades, scores, orders, ties, coefficient, values)
        halves.append(values)
    best = np.array([_first_best(values) for values in halves])
    replicate = np.arange(best.shape[1])
    if len(halves) == 1:
        return halves[0][best[0], replicate], best
    there, here = halves[1][best[0], replicate], halves[0][best[1], replicate]
    return (here + there) / 2, best


def _first_best(values: FloatArray) -> IntArray:
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
