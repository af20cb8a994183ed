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
from numpy.typing import NDArray

from retrieval_quality.correlation import ALPHAS, curves_of
from retrieval_quality.counts import (
    COEFFICIENTS,
    Counts,
    FloatArray,
    IntArray,
    compiled,
    count_rows,
    evaluate,
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
) -> tuple[IntArray, NDArray[np.uint16]]:
    """Draw each dataset's queries with replacement; the first row is the data themselves."""
    names = pd.Index(counts.columns["id"].astype(str).unique()).sort_values()
    query = names.get_indexer(np.asarray(counts.columns["id"].astype(str)))
    of_query = rows.drop_duplicates("id").set_index("id")["dataset"].astype(str)
    group = of_query.rename(index=str).reindex(names).to_numpy()
    weights = np.ones((replicates + 1, len(names)), dtype=np.uint16)
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
    counts: Counts, score: FloatArray, query: IntArray, weights: NDArray[np.uint16]
) -> tuple[FloatArray, FloatArray]:
    """Spearman and mean grade of every cell under every row of weights."""
    known = np.flatnonzero(~np.isnan(score))
    order = known[np.lexsort((score[known], counts.cell[known]))]
    cell, ordered = counts.cell[order], score[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = (np.diff(cell) != 0) | (np.diff(ordered) != 0)
    begin = np.searchsorted(cell, np.arange(len(counts.cells) + 1)).astype(np.int64)
    return _resample(
        begin,
        new,
        counts.grade[order],
        counts.count[order],
        query[order],
        weights,
        counts.grades,
    )


@compiled
def _resample(
    begin: IntArray,
    new: NDArray[np.bool_],
    grade: IntArray,
    count: FloatArray,
    query: IntArray,
    weights: NDArray[np.uint16],
    grades: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Weigh the counts anew for each replicate.

    Entries are in ascending order of the measure within each cell; `new` marks those whose value
    differs from the one before. Ranks are doubled and counted from the middle, so that they are
    whole numbers with mean 0.
    """
    n_cells, n_grades = len(begin) - 1, len(grades)
    spearman = np.full((len(weights), n_cells), np.nan)
    mean = np.full((len(weights), n_cells), np.nan)
    totals, rank, weight = np.empty(n_grades), np.empty(n_grades), np.empty(len(count))
    for r in range(len(weights)):
        for cell in range(n_cells):
            totals[:] = 0.0
            for i in range(begin[cell], begin[cell + 1]):
                weight[i] = count[i] * weights[r, query[i]]
                totals[grade[i]] += weight[i]
            n = totals.sum()
            if n == 0:
                continue
            mean[r, cell] = (totals * grades).sum() / n
            lower, of_grade = 0.0, 0.0
            for j in range(n_grades):
                rank[j] = 2 * lower + totals[j] - n
                lower += totals[j]
                of_grade += totals[j] * rank[j] ** 2
            lower, size, rank_sum, both, of_measure = 0.0, 0.0, 0.0, 0.0, 0.0
            for i in range(begin[cell], begin[cell + 1]):
                if new[i]:
                    own = 2 * lower + size - n
                    both += own * rank_sum
                    of_measure += size * own**2
                    lower, size, rank_sum = lower + size, 0.0, 0.0
                size += weight[i]
                rank_sum += weight[i] * rank[grade[i]]
            own = 2 * lower + size - n
            both += own * rank_sum
            of_measure += size * own**2
            if (totals > 0).sum() > 1 and of_measure > 0:
                value = both / np.sqrt(of_grade) / np.sqrt(of_measure)
                spearman[r, cell] = max(-1.0, min(1.0, value))
    return spearman, mean
