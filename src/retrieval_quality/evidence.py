"""What claims are judged by: every cell at an alpha that its own dataset did not choose, resampled.

A figure takes the best alpha on the rows that it is measured on, which flatters measures that have
one. Here each dataset gets, for each measure, the alpha that is best on average over the cells of
the *other* datasets: what somebody has who meets a new kind of text.

All cells are resampled together, by query: a query that is drawn twice counts twice in every cell
that it is part of. Functions of several cells, such as a mean of differences, therefore get the
interval that the dependence between their cells asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numba import njit
from numpy.typing import NDArray

from retrieval_quality.correlation import ALPHAS, curves_of
from retrieval_quality.counts import (
    COEFFICIENTS,
    Counts,
    FloatArray,
    IntArray,
    count_rows,
    evaluate,
    prepare,
    rank_coefficients,
)
from retrieval_quality.measures import MEASURES, lookup

FALLBACK_ALPHA = 0.5
"""Used where there is no other dataset to take alpha from."""

STEADY = 0.95
"""Share of replicates on which a cell must be defined to enter a summary over cells."""


@dataclass(frozen=True)
class Cells:
    """Cells of one segmentation with their replicates.

    Attributes
    ----------
    frame : DataFrame
        One row a cell: ``dataset, embedding, segment, n``.
    values : dict of str to ndarray, shape (1 + replicates, cells)
        Spearman's coefficient with the grade, by measure; the data themselves first; NaN where
        undefined.
    grade : ndarray, shape (1 + replicates, cells)
        Mean grade, 1-5.
    alphas : dict of (str, str) to float
        The alpha by dataset and measure.
    """

    frame: pd.DataFrame
    values: dict[str, FloatArray]
    grade: FloatArray
    alphas: dict[tuple[str, str], float]

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
    return np.asarray(known[0] & (known.mean(axis=0) >= STEADY))


def gather(
    rows: pd.DataFrame,
    *,
    segmentation: str = "ratio",
    min_samples: int = 300,
    measures: Sequence[str] = ("F", "nDCG", "T"),
    require_2k: bool = False,
    replicates: int = 400,
    seed: int = 1,
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
    replicates : int
        Bootstrap replicates, queries drawn within each dataset.
    seed : int
        Of the bootstrap; the same seed draws the same queries for every segmentation.

    Returns
    -------
    Cells

    Raises
    ------
    UsageError, DataError
        As `counts.count_rows`.
    """
    chosen = lookup(measures)
    needed = dict.fromkeys([name for measure in chosen for name in measure.columns])
    counts = count_rows(
        rows,
        segmentation=segmentation,
        min_samples=min_samples,
        columns=[*needed, "id"],
        require_2k=require_2k,
    )
    query, weights = _weights(rows, counts, replicates, seed)
    datasets = counts.cells["dataset"].astype(str).to_numpy()
    alphas = {
        (dataset, measure.name): alpha
        for measure in chosen
        if measure.has_alpha
        for dataset, alpha in _foreign_alphas(counts, measure.name, datasets).items()
    }
    values: dict[str, FloatArray] = {}
    grade = np.full((len(weights), len(datasets)), np.nan)
    for measure in chosen:
        score = _scores(counts, measure.name, datasets, alphas)
        values[measure.name], grade = _replicate(counts, score, query, weights)
    sizes = np.bincount(counts.cell, weights=counts.count, minlength=len(datasets))
    frame = counts.cells.assign(n=sizes.astype(np.int64))
    return Cells(frame[["dataset", "embedding", "segment", "n"]], values, grade, alphas)


def _weights(
    rows: pd.DataFrame, counts: Counts, replicates: int, seed: int
) -> tuple[IntArray, FloatArray]:
    """Draw each dataset's queries with replacement; the first row is the data themselves."""
    names = pd.Index(counts.columns["id"].astype(str).unique()).sort_values()
    query = names.get_indexer(np.asarray(counts.columns["id"].astype(str)))
    of_query = rows.drop_duplicates("id").set_index("id")["dataset"].astype(str)
    group = of_query.rename(index=str).reindex(names).to_numpy()
    weights = np.ones((replicates + 1, len(names)))
    for position, dataset in enumerate(sorted(set(group))):
        members = np.flatnonzero(group == dataset)
        rng = np.random.default_rng([seed, position])
        share = np.full(len(members), 1 / len(members))
        weights[1:, members] = rng.multinomial(len(members), share, size=replicates)
    return query.astype(np.int64), weights


def _foreign_alphas(counts: Counts, measure: str, datasets: NDArray[Any]) -> dict[str, float]:
    """Best alpha of the mean over the other datasets' cells, for each dataset."""
    values, table = evaluate(counts, MEASURES[measure], ALPHAS)
    curves = curves_of(values, table)[:, :, COEFFICIENTS.index("spearman")]
    found = {}
    for dataset in dict.fromkeys(datasets):
        others = curves[(datasets != dataset) & ~np.isnan(curves).any(axis=1)]
        best = ALPHAS[others.mean(axis=0).argmax()] if len(others) else FALLBACK_ALPHA
        found[str(dataset)] = float(best)
    return found


def _scores(
    counts: Counts,
    measure: str,
    datasets: NDArray[Any],
    alphas: dict[tuple[str, str], float],
) -> FloatArray:
    """Value of the measure for every entry, at its dataset's alpha."""
    key, distinct = counts.keys(MEASURES[measure].columns)
    if not MEASURES[measure].has_alpha:
        return MEASURES[measure].evaluate(distinct)[key]
    score = np.full(len(key), np.nan)
    for dataset in dict.fromkeys(datasets):
        mine = (datasets == dataset)[counts.cell]
        value = MEASURES[measure].evaluate(distinct, alphas[str(dataset), measure])
        score[mine] = value[key[mine]]
    return score


def _replicate(
    counts: Counts, score: FloatArray, query: IntArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Spearman and mean grade of every cell under every row of weights."""
    known = ~np.isnan(score)
    cell = counts.cell[known]
    order = np.lexsort((score[known], cell))
    ordered = np.column_stack([cell[order].astype(np.float64), score[known][order]])
    new = np.ones(len(order), dtype=bool)
    new[1:] = (np.diff(ordered, axis=0) != 0).any(axis=1)
    slot_of_entry = np.empty(len(order), dtype=np.int64)
    slot_of_entry[order] = np.cumsum(new) - 1
    start = np.searchsorted(cell[order][new], np.arange(len(counts.cells) + 1))
    return _resample(
        slot_of_entry,
        counts.grade[known],
        counts.count[known],
        query[known],
        weights,
        start.astype(np.int64),
        counts.grades,
    )


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _resample(
    slot: IntArray,
    grade: IntArray,
    count: FloatArray,
    query: IntArray,
    weights: FloatArray,
    start: IntArray,
    grades: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Weigh the counts anew for each replicate; slots are in ascending order of the measure."""
    n_cells, n_grades = len(start) - 1, len(grades)
    spearman = np.full((len(weights), n_cells), np.nan)
    mean = np.full((len(weights), n_cells), np.nan)
    table = np.zeros((start[-1], n_grades))
    below = np.empty(n_grades)
    for r in range(len(weights)):
        table[:] = 0.0
        for i in range(len(slot)):
            table[slot[i], grade[i]] += count[i] * weights[r, query[i]]
        for cell in range(n_cells):
            counts = table[start[cell] : start[cell + 1]]
            totals = counts.sum(axis=0)
            if totals.sum() == 0:
                continue
            mean[r, cell] = (totals * grades).sum() / totals.sum()
            n_keys = len(counts)
            spearman[r, cell] = rank_coefficients(
                prepare(counts, grades),
                counts,
                np.arange(n_keys),
                np.zeros(n_keys, dtype=np.bool_),
                below,
            )[0]
    return spearman, mean
