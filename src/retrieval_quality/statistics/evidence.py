"""What claims are judged by: every cell at an alpha that its own dataset did not choose, resampled.

A figure takes the best alpha on the rows that it is measured on, which flatters measures that have
one. Here each dataset gets, for each measure, the alpha that is best on average over the cells of
the *other* datasets: what somebody has who meets a new kind of text.

All cells are resampled together, by query, with the weights of `bootstrap`: a query that counts
twice does so in every cell that it is part of. Functions of several cells, such as a mean of
differences, therefore get the interval that the dependence between their cells asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import coo_array

from retrieval_quality.measures import MEASURES, lookup
from retrieval_quality.statistics.bootstrap import DEFINED, query_weights, replicate
from retrieval_quality.statistics.correlation import ALPHAS, curves_of
from retrieval_quality.statistics.counts import (
    COEFFICIENTS,
    Counts,
    FloatArray,
    IntArray,
    count_rows,
    evaluate,
)

FALLBACK_ALPHA = 0.5
"""Used where there is no other dataset to take alpha from."""


@dataclass(frozen=True)
class Cells:
    """Cells of one segmentation with their replicates.

    Attributes
    ----------
    frame : DataFrame
        One row a cell: ``dataset, embedding, segment, n``.
    values : dict of str to ndarray, shape (1 + replicates, cells)
        The coefficient with the grade, by measure; the data themselves first; NaN where
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
        Weightings of the queries, those of `bootstrap.query_weights`.
    seed : int
        Of the weights; the same seed weighs the same queries alike in every segmentation.

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
        grade=grade,
    )
    query, distinct = counts.keys(["id"])
    drawn = query_weights(np.asarray(distinct["id"]).astype(str), replicates, seed)
    weights = np.hstack([np.ones((len(drawn), 1), dtype=np.uint8), drawn])
    datasets = counts.cells["dataset"].astype(str).to_numpy()
    alphas: dict[tuple[str, str], float] = {}
    for measure in chosen:
        if measure.has_alpha:
            best = _foreign_alphas(counts, measure.name, datasets, coefficient, alpha)
            alphas |= {(dataset, measure.name): found for dataset, found in best.items()}
    values = {
        measure.name: replicate(
            counts,
            _scores(counts, measure.name, datasets, alphas),
            query,
            weights,
            coefficient=coefficient,
        ).T
        for measure in chosen
    }
    sizes = np.bincount(counts.cell, weights=counts.count, minlength=len(datasets))
    frame = counts.cells.assign(n=sizes.astype(np.int64))
    frame = frame[["dataset", "embedding", "segment", "n"]]
    return Cells(frame, values, _mean_grades(counts, query, weights), alphas)


def _mean_grades(counts: Counts, query: IntArray, weights: NDArray[np.uint8]) -> FloatArray:
    """Mean grade of every cell under every weighting, shape (1 + replicates, cells)."""
    shape = (len(counts.cells), len(weights))
    rows = coo_array((counts.count, (counts.cell, query)), shape) @ weights
    grades = counts.count * counts.grades[counts.grade]
    total = coo_array((grades, (counts.cell, query)), shape) @ weights
    return np.divide(total, rows, out=np.full(rows.shape, np.nan), where=rows > 0).T


def _foreign_alphas(
    counts: Counts, measure: str, datasets: NDArray[Any], coefficient: str, given: float | None
) -> dict[str, float]:
    """Best alpha of the mean over the other datasets' cells, or the one given, by dataset."""
    if given is not None:
        return {str(dataset): given for dataset in dict.fromkeys(datasets)}
    values, table = evaluate(counts, MEASURES[measure], ALPHAS)
    curves = curves_of(values, table)[:, :, COEFFICIENTS.index(coefficient)]
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
