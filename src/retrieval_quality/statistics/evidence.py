"""What claims are judged by: every cell, resampled, at three kinds of alpha.

``foreign``
    Each dataset gets, for each measure, the alpha that is best on average over the cells of the
    *other* datasets: what somebody has who meets a new kind of text. It decides the verdicts.
``crossfit``
    Alpha from half of the cell's queries, measured on the other half, averaged over `SPLITS`
    splits, in the data and in each replicate alike.
``best``
    The greatest value over alpha on the cell's own rows: what the figures of the paper show. It
    flatters measures that have an alpha; in a segment of one exact ratio T is then never below F,
    nor F_e, whatever the data.

Alpha is chosen anew in each replicate, whatever the kind. All cells are resampled together, with
the weights of `resampling`: a query that counts twice does so in every cell that it is part of.
Functions of several cells, such as a mean of differences, therefore get the interval that the
dependence between their cells asks for. Ties are those of exact arithmetic.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import coo_array

from retrieval_quality.measures import MEASURES, lookup
from retrieval_quality.statistics.correlation import ALPHAS
from retrieval_quality.statistics.counts import (
    COEFFICIENTS,
    Counts,
    FloatArray,
    IntArray,
    count_rows,
)
from retrieval_quality.statistics.resampling import (
    DEFINED,
    candidates,
    coefficients,
    crossed,
    exact_scores,
    first_best,
    halved,
    query_halves,
    query_weights,
    slots_of,
    unit,
)

FALLBACK_ALPHA = 0.5
"""Used where there is no other dataset to take alpha from."""

SPLITS = 4
"""Halvings of the queries behind a cross-fitted value, on the data and on each replicate."""

KINDS = ("foreign", "crossfit", "best")
"""Whose alpha: of the other datasets, of other queries, of the same rows."""


@dataclass(frozen=True)
class Cells:
    """Cells of one segmentation with their replicates.

    Attributes
    ----------
    frame : DataFrame
        One row a cell: ``dataset, embedding, segment, n``.
    values : dict of str to ndarray, shape (1 + replicates, cells)
        The coefficient with the grade, by measure, at the alpha of the other datasets; the data
        themselves first; NaN where undefined.
    grade : ndarray, shape (1 + replicates, cells)
        Mean grade, 1-5.
    alphas : dict of (str, str) to float
        The alpha of the other datasets on the data, by dataset and measure.
    others : dict of str to dict
        As `values`, at the other `KINDS` of alpha; only those asked for.
    """

    frame: pd.DataFrame
    values: dict[str, FloatArray]
    grade: FloatArray
    alphas: dict[tuple[str, str], float]
    others: dict[str, dict[str, FloatArray]] = field(default_factory=dict)

    @property
    def ratio(self) -> FloatArray:
        """Ratio K/N_p of each cell as a number; only for the segmentation by ratio."""
        return self.frame["segment"].astype(str).astype(float).to_numpy()

    def of(self, datasets: Sequence[str]) -> NDArray[np.bool_]:
        """Which cells belong to these datasets."""
        return self.frame["dataset"].astype(str).isin(list(datasets)).to_numpy()

    def difference(self, first: str, second: str) -> FloatArray:
        """First measure's coefficient less the second's, shape (1 + replicates, cells)."""
        return self.values[first] - self.values[second]

    def at(self, kind: str) -> Cells:
        """Give the same cells at another kind of alpha, out of `KINDS`."""
        return self if kind == KINDS[0] else replace(self, values=self.others[kind])


def steady(values: FloatArray) -> NDArray[np.bool_]:
    """Which cells are defined on the data and on most of the replicates.

    With few queries a replicate may draw a constant grade or measure. A cell that is undefined on
    the data, or on more than one replicate in twenty, is left out of summaries over cells;
    otherwise a replicate's summary is over the cells that are defined in it.

    Parameters
    ----------
    values : ndarray, shape (1 + replicates, cells)
        From `Cells`.

    Returns
    -------
    ndarray of bool, shape (cells,)

    Examples
    --------
    >>> steady(np.array([[0.1, np.nan], [0.2, 0.1]])).tolist()
    [True, False]
    """
    known = ~np.isnan(values)
    return np.asarray(known[0] & (known.mean(axis=0) >= DEFINED))


def gather(
    rows: pd.DataFrame,
    *,
    segmentation: str = "ratio",
    min_samples: int = 300,
    measures: Sequence[str] = ("F", "nDCG", "T"),
    require_2k: bool = False,
    coefficient: str = "spearman",
    alpha: float | None = None,
    grade: str = "grade",
    replicates: int = 400,
    seed: int = 1,
    kinds: Sequence[str] = ("foreign",),
) -> Cells:
    """Measure every cell at an alpha of the other datasets, on the data and on each replicate.

    Parameters
    ----------
    rows : DataFrame
        Scored rows.
    segmentation : {"ratio", "narrow-wide"}
        How rows are cut into segments.
    min_samples : int
        Rows a segment must have.
    measures : sequence of str
        Names in `MEASURES`.
    require_2k : bool
        Only rows whose 2K row exists.
    coefficient : str
        One of ``spearman``, ``pearson``, ``kendall_b``, ``kendall_c``.
    alpha : float, optional
        Instead of that of the other datasets.
    grade : str
        Column of what is correlated with.
    replicates : int
        Weightings of the queries, those of `resampling.query_weights`.
    seed : int
        Of the weights; the same seed weighs the same queries alike in every segmentation.
    kinds : sequence of str
        Out of `KINDS`; the first is always there.

    Returns
    -------
    Cells

    Raises
    ------
    UsageError, DataError
        As `counts.count_rows`.
    """
    needed = dict.fromkeys([name for measure in lookup(measures) for name in measure.columns])
    counts = count_rows(
        rows,
        segmentation=segmentation,
        min_samples=min_samples,
        columns=[*needed, unit(rows)],
        require_2k=require_2k,
        grade=grade,
    )
    draw = Weighting.draw(counts, replicates, seed, "crossfit" in kinds)
    return measure_cells(counts, measures, draw, coefficient, alpha=alpha, kinds=kinds)


@dataclass(frozen=True)
class Weighting:
    """How often each query counts, in the data and in each replicate.

    Attributes
    ----------
    query : ndarray of int64, shape (entries,)
        Row of `whole` that each entry of the counts belongs to.
    whole : ndarray of uint8, shape (queries, 1 + replicates)
        The data, each query once, come first.
    halves : tuple of ndarray, each of shape (2, queries, 1 + replicates)
        The weights in either half, for each split.
    """

    query: IntArray
    whole: NDArray[np.uint8]
    halves: tuple[NDArray[np.uint8], ...] = ()

    @classmethod
    def draw(cls, counts: Counts, replicates: int, seed: int, halves: bool = False) -> Weighting:
        """Weights of the units of these counts, which have a column ``query`` or ``id``."""
        named = next(name for name in ("query", "id") if name in counts.columns)
        query, distinct = counts.keys([named])
        names = np.asarray(distinct[named]).astype(str)
        drawn = query_weights(names, replicates, seed)
        whole = np.hstack([np.ones((len(drawn), 1), dtype=np.uint8), drawn])
        sides: list[NDArray[np.uint8]] = []
        if halves:
            each = query_halves(names, SPLITS * (1 + replicates), seed, "halves")
            sides = [each[:, i::SPLITS] for i in range(SPLITS)]
        return cls(query, whole, tuple(halved(whole, side) for side in sides))


def measure_cells(
    counts: Counts,
    measures: Sequence[str],
    draw: Weighting,
    coefficient: str = "spearman",
    *,
    alpha: float | None = None,
    kinds: Sequence[str] = ("foreign",),
    alphas: FloatArray = ALPHAS,
    threads: int | None = None,
) -> Cells:
    """Measure cells that are counted already.

    Parameters
    ----------
    counts : Counts
        With the columns of the measures.
    measures, coefficient, alpha, kinds
        As for `gather`.
    draw : Weighting
        Of these counts.
    alphas : ndarray
        Ascending; what alpha is chosen from.
    threads : int, optional
        By default one for each processor; results do not depend on it.

    Returns
    -------
    Cells
    """
    grid = alphas if alpha is None else np.array([alpha])
    found: dict[str, dict[str, FloatArray]] = {kind: {} for kind in dict.fromkeys(KINDS[:1])}
    found |= {kind: {} for kind in kinds}
    chosen: dict[tuple[str, str], float] = {}
    datasets = counts.cells["dataset"].astype(str).to_numpy()
    for measure in lookup(measures):
        curves = _curves(counts, measure.name, draw, coefficient, grid, kinds, threads)
        foreign, at = curves.foreign(datasets, grid)
        found[KINDS[0]][measure.name] = foreign.T
        if measure.has_alpha:
            chosen |= {(dataset, measure.name): value for dataset, value in at.items()}
        for kind in set(kinds) - {KINDS[0]}:
            found[kind][measure.name] = (curves.best if kind == "best" else curves.crossed).T
    sizes = np.bincount(counts.cell, weights=counts.count, minlength=len(datasets))
    frame = counts.cells.assign(n=sizes.astype(np.int64))
    frame = frame[["dataset", "embedding", "segment", "n"]]
    grade = _mean_grades(counts, draw.query, draw.whole)
    values = found.pop(KINDS[0])
    return Cells(frame, values, grade, chosen, found)


@dataclass(frozen=True)
class _Curves:
    """Coefficients of one measure in every cell, at every order that alpha can put its keys in.

    Attributes
    ----------
    values : list of ndarray, each of shape (candidates, 1 + replicates)
        A cell's coefficients.
    which : list of ndarray of int, each of shape (alphas,)
        The candidate that the cell follows at each alpha.
    best, crossed : ndarray, shape (cells, 1 + replicates)
        The greatest, and the cross-fitted; the latter NaN unless asked for.
    """

    values: list[FloatArray]
    which: list[IntArray]
    best: FloatArray
    crossed: FloatArray

    def foreign(
        self, datasets: NDArray[Any], grid: FloatArray
    ) -> tuple[FloatArray, dict[str, float]]:
        """Coefficient at the alpha that is best, on average, over the other datasets' cells.

        Returns
        -------
        values : ndarray, shape (cells, 1 + replicates)
        alphas : dict of str to float
            By dataset, on the data.
        """
        shape = (len(grid), self.best.shape[1])
        names = [str(name) for name in dict.fromkeys(datasets)]
        total = {name: np.zeros(shape) for name in names}
        count = {name: np.zeros(shape[1]) for name in names}
        for dataset, values, which in zip(datasets, self.values, self.which, strict=True):
            whole = ~np.isnan(values).any(axis=0)
            total[str(dataset)] += np.where(whole, values, 0.0)[which]
            count[str(dataset)] += whole
        found, alphas = np.full(self.best.shape, np.nan), {}
        column = np.arange(shape[1])
        for name in names:
            rest = [other for other in names if other != name]
            cells = sum((count[other] for other in rest), np.zeros(shape[1]))
            sums = sum((total[other] for other in rest), np.zeros(shape))
            fallback = int(np.argmin(np.abs(grid - FALLBACK_ALPHA)))
            mean = np.round(sums / np.maximum(cells, 1), 12)  # of equal means the smallest alpha
            at = np.where(cells > 0, mean.argmax(axis=0), fallback)
            alphas[name] = float(grid[at[0]]) if cells[0] else FALLBACK_ALPHA
            for cell in np.flatnonzero(datasets == name):
                found[cell] = self.values[cell][self.which[cell][at], column]
        return found, alphas


def _curves(
    counts: Counts,
    name: str,
    draw: Weighting,
    coefficient: str,
    grid: FloatArray,
    kinds: Sequence[str],
    threads: int | None,
) -> _Curves:
    measure, place = MEASURES[name], COEFFICIENTS.index(coefficient)
    scored, table = exact_scores(counts, measure, grid)
    slots = slots_of(counts, draw.query, table)
    n, width = len(table), draw.whole.shape[1]
    values: list[FloatArray] = [np.empty((0, 0))] * n
    which: list[IntArray] = [np.empty(0, dtype=np.int64)] * n
    best, mixed = np.full((2, n, width), np.nan)

    def work(cell: int) -> None:
        first, last = table.start[cell], table.start[cell + 1]
        scores = np.ascontiguousarray(scored[table.key[first:last]].T)
        orders, ties, at_first, follows = candidates(scores, place == 1)
        own, rest = slots.of(first, last), (table.grades, scores[at_first], orders, ties, place)
        values[cell] = coefficients(own, draw.whole, *rest)
        which[cell] = follows if measure.has_alpha else np.zeros(len(grid), dtype=np.int64)
        best[cell] = values[cell][first_best(values[cell]), np.arange(width)]
        if "crossfit" in kinds:
            each = [
                crossed(*(coefficients(own, half, *rest) for half in halves))[0]
                for halves in draw.halves
            ]
            mixed[cell] = np.mean(each, axis=0)

    with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
        list(pool.map(work, range(n)))
    return _Curves(values, which, best, mixed)


def spread(values: FloatArray) -> FloatArray:
    """Take the standard deviation over cells, without the noise of each.

    Parameters
    ----------
    values : ndarray, shape (1 + replicates, cells)
        From `Cells`, of cells that are `steady`.

    Returns
    -------
    ndarray, shape (1 + replicates,)
        0 where there is less variation than noise alone would give.

    Notes
    -----
    The noise is the variance over cells of what a replicate's values differ by from the mean of
    all replicates. Cells that share queries go up and down together, which is no variation over
    cells, and is not taken off. On the data the variance holds the noise once, on a replicate
    twice.
    """
    centred = values[1:] - np.nanmean(values[1:], axis=0)
    noise = float(np.nanmean(np.nanvar(centred, axis=1)))
    times = np.where(np.arange(len(values)) == 0, 1, 2)
    return np.asarray(np.sqrt(np.maximum(np.nanvar(values, axis=1) - times * noise, 0.0)))


def grade_curves(
    counts: Counts, draw: Weighting, which: NDArray[np.bool_]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean grade by ratio over some cells, all embeddings together, whole and by halves.

    Parameters
    ----------
    counts : Counts
        By ratio.
    draw : Weighting
        Of these counts.
    which : ndarray of bool, shape (cells,)
        Cells to use.

    Returns
    -------
    ratios : ndarray, shape (ratios,)
        Ascending.
    whole : ndarray, shape (1 + replicates, ratios)
        Mean grade, 1-5; NaN where no row is drawn.
    halves : ndarray, shape (splits, 2, 1 + replicates, ratios)
        The same of either half of the queries; no splits where `draw` has none.
    """
    labels = counts.cells["segment"].astype(str).astype(float).to_numpy()
    ratios = np.unique(labels[which])
    used = which[counts.cell]
    place = np.searchsorted(ratios, labels[counts.cell[used]])
    shape = (len(ratios), len(draw.whole))
    index = (place, draw.query[used])
    rows = coo_array((counts.count[used], index), shape).tocsr()
    grades = counts.count[used] * counts.grades[counts.grade[used]]
    total = coo_array((grades, index), shape).tocsr()

    def mean(weights: NDArray[np.uint8]) -> FloatArray:
        drawn = weights.astype(float)
        size = rows @ drawn
        filled = np.full(size.shape, np.nan)
        return np.divide(total @ drawn, size, out=filled, where=size > 0).T

    halves = np.array([[mean(half) for half in pair] for pair in draw.halves])
    return ratios, mean(draw.whole), halves


def half_values(
    counts: Counts,
    measures: Sequence[str],
    draw: Weighting,
    names: Sequence[str],
    alphas: dict[tuple[str, str], float],
    splits: int,
    threads: int | None = None,
) -> dict[str, dict[str, FloatArray]]:
    """Coefficients on halves of the queries, at given alphas.

    Parameters
    ----------
    counts, measures, draw, threads
        As for `measure_cells`.
    names : sequence of str
        Coefficients, out of `COEFFICIENTS`.
    alphas : dict of (str, str) to float
        By dataset and measure.
    splits : int
        How many of the splits of `draw` to use.

    Returns
    -------
    dict of str to dict of str to ndarray, shape (splits, 2, 1 + replicates, cells)
        By coefficient and measure.
    """
    shape = (splits, 2, draw.whole.shape[1], len(counts.cells))
    found = {name: {measure: np.full(shape, np.nan) for measure in measures} for name in names}

    def work(cell: int) -> None:
        first, last = table.start[cell], table.start[cell + 1]
        ascending = np.ascontiguousarray(values[table.key[first:last]][np.newaxis])
        order = np.arange(last - first)[np.newaxis]
        tied = np.zeros(order.shape, dtype=np.bool_)
        own = slots.of(first, last)
        for i, half in product(range(splits), range(2)):
            for name in names:
                place = COEFFICIENTS.index(name)
                rest = (table.grades, ascending, order, tied, place)
                value = coefficients(own, draw.halves[i][half], *rest)[0]
                found[name][measure][i, half, :, cell] = value

    for measure in measures:
        code, values = pd.factorize(_scores(counts, measure, alphas), sort=True)
        table = counts.table(code)
        slots = slots_of(counts, draw.query, table)
        with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
            list(pool.map(work, range(len(table))))
    return found


def _scores(counts: Counts, measure: str, alphas: dict[tuple[str, str], float]) -> FloatArray:
    """Value of the measure for every entry, at its dataset's alpha, with exact ties."""
    datasets = counts.cells["dataset"].astype(str).to_numpy()
    key, _ = counts.keys(MEASURES[measure].columns)
    if not MEASURES[measure].has_alpha:
        return exact_scores(counts, MEASURES[measure], np.array([FALLBACK_ALPHA]))[0][key, 0]
    score = np.full(len(key), np.nan)
    for dataset in dict.fromkeys(datasets):
        at = np.array([alphas.get((str(dataset), measure), FALLBACK_ALPHA)])
        mine = (datasets == dataset)[counts.cell]
        score[mine] = exact_scores(counts, MEASURES[measure], at)[0][key[mine], 0]
    return score


def _mean_grades(counts: Counts, query: IntArray, weights: NDArray[np.uint8]) -> FloatArray:
    """Mean grade of every cell under every weighting, shape (1 + replicates, cells)."""
    shape = (len(counts.cells), len(weights))
    rows = coo_array((counts.count, (counts.cell, query)), shape).tocsr() @ weights.astype(float)
    grades = counts.count * counts.grades[counts.grade]
    total = coo_array((grades, (counts.cell, query)), shape).tocsr() @ weights.astype(float)
    return np.divide(total, rows, out=np.full(rows.shape, np.nan), where=rows > 0).T
