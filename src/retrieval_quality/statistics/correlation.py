"""Correlation of measures with the grade, over alpha: the cells of every figure.

References
----------
.. [1] S. Schwartz, O. Vasilyev, R. Sawaya, "How important is Recall for Measuring Retrieval
   Quality?", arXiv 2512.20854.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Real

import numpy as np
import pandas as pd

from retrieval_quality.errors import UsageError
from retrieval_quality.measures import MEASURES, Measure, lookup, segments
from retrieval_quality.statistics import exact
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
    in_threads,
    pearson,
    prepare,
    put_in_order,
    rank_coefficients,
)

DECIMALS = 8
"""Decimals that the published method keeps; the maximum over alpha is taken after rounding."""


COLUMNS = (
    "dataset",
    "embedding",
    "segmentation",
    "segment",
    "n",
    "n_total",
    "measure",
    "coefficient",
    "alpha",
    "correlation",
    "reason",
)
"""Columns of `correlate`'s result."""

__all__ = ["ALPHAS", "COEFFICIENTS", "COLUMNS", "correlate"]

CELL = ("dataset", "embedding", "segmentation", "segment")
"""The columns that tell cells apart."""


def correlate(
    rows: pd.DataFrame,
    *,
    segmentation: str = "ratio",
    min_samples: int | None = None,
    measures: Sequence[str] = ("F", "nDCG", "T"),
    coefficients: Sequence[str] = ("spearman",),
    require_2k: bool = False,
    alpha: str | float = "published",
    ties: str = "published",
    by: str = "dataset",
    grade: str = "grade",
    weight: str | None = None,
) -> pd.DataFrame:
    """Correlate measures with the grade in every segment, each at its best or at a given alpha.

    Parameters
    ----------
    rows : DataFrame
        Scored rows (`Dataset.scored`).
    segmentation : {"ratio", "narrow-wide"}
        How rows are cut into segments.
    min_samples : int, optional
        Rows a segment must have; by default as published, 300 for ratio and 100 for narrow-wide.
    measures : sequence of str
        Names in `MEASURES`, each once.
    coefficients : sequence of str
        Out of ``spearman``, ``pearson``, ``kendall_b``, ``kendall_c``, as scipy defines them.
    require_2k : bool
        Compute every measure only on rows whose 2K row exists, as the paper does where F_e is
        compared. Without it only F_e leaves the other rows out.
    alpha : "published", "exact", or float in [0, 1]
        ``published`` takes the greatest signed value over `ALPHAS`, rounded to 8 decimals, and
        names the smallest alpha that attains it. ``exact`` takes the greatest over all of [0, 1]
        with exact ties (see `exact`). A number is used as it is, without rounding.
    ties : {"published", "exact"}
        Whether rows tie where the published float64 expressions are equal, or where the measure is
        equal in exact arithmetic (F_e then without its 1e-10, nothing rounded).
    by : {"dataset", "subset"}
        What a cell spans; ``subset`` tells the difficulties of HotpotQA apart. The value stands in
        the column ``dataset``.
    grade : str
        Column of the grades; another grader's may be given, and they need not be whole.
    weight : str, optional
        Column that says how many rows each one stands for, as in counts (`counting.read`).

    Returns
    -------
    DataFrame
        One row a cell, measure and coefficient: `COLUMNS`. ``n`` counts the rows used, ``n_total``
        those of the segment. Where the coefficient is undefined, ``correlation`` is NaN and
        ``reason`` says why. Segments with fewer than `min_samples` rows to use are left out.

    Raises
    ------
    UsageError
        If a name, alpha or minimum is not one of those accepted.
    DataError
        If the rows lack a column, or a grade is no number.

    References
    ----------
    .. [1] arXiv 2512.20854, figures 5 to 18 and 23 to 43.

    Examples
    --------
    >>> rows = pd.DataFrame({"dataset": "A", "E": "ME5S", "K": 5, "Np": 5,
    ...                      "n_positives": [5, 4, 3, 2, 1], "grade": [1, 1, 1, 1, 2]})
    >>> correlate(rows, min_samples=5, measures=["P"])["correlation"].round(6).tolist()
    [-0.707107]
    """
    _known("measure", measures, MEASURES)
    _known("coefficient", coefficients, COEFFICIENTS)
    chosen, coefficients = lookup(dict.fromkeys(measures)), tuple(dict.fromkeys(coefficients))
    fewest = minimum(segmentation, min_samples)
    _known("way to decide ties", (ties,), ("published", "exact"))
    if alpha != "exact":
        alpha_values(alpha)
    counts = count_rows(
        rows,
        segmentation=segmentation,
        min_samples=fewest,
        columns=needed_columns(chosen),
        require_2k=require_2k,
        by=by,
        grade=grade,
        weight=weight,
    )
    frames = []
    for order, measure in enumerate(chosen):
        table, best, value = _best_over_alpha(counts, measure, alpha, ties)
        frames.append(_frame(counts, table, measure, coefficients, best, value, fewest, order))
    return _assemble(frames)


def _best_over_alpha(
    counts: Counts, measure: Measure, alpha: str | float, ties: str
) -> tuple[Table, FloatArray, FloatArray]:
    """Alpha and coefficients of every cell, each of shape (cells, 4)."""
    if not measure.has_alpha:
        values, table = evaluate(counts, measure, ALPHAS)
        curves, alphas = curves_of(values, table), np.array([np.nan])
    elif alpha == "exact":
        return exact.maxima(counts, measure)
    elif ties == "exact":
        alphas = alpha_values(alpha)
        table, curves = exact.at_alphas(counts, measure, alphas.tolist())
    else:
        alphas = alpha_values(alpha)
        values, table = evaluate(counts, measure, alphas)
        curves = curves_of(values, table)
    rounded = alpha == "published" and ties == "published"
    return table, *maximum(curves, alphas, DECIMALS if rounded else None)


def curves_of(values: FloatArray, table: Table, threads: int | None = None) -> FloatArray:
    """Every coefficient of every cell at every alpha.

    Parameters
    ----------
    values : ndarray, shape (keys, alphas)
        The measure for every key of the table.
    table : Table
        Counts of these keys.
    threads : int, optional
        By default one for each processor; the result does not depend on it.

    Returns
    -------
    ndarray, shape (cells, alphas, 4)
        In the order of `COEFFICIENTS`; NaN where undefined.
    """
    out = np.empty((len(table), values.shape[1], len(COEFFICIENTS)))

    def work(first: int, last: int) -> None:
        start = table.start[first : last + 1]
        _fill_curves(values, start, table.key, table.counts, table.grades, out[first:last])

    in_threads(work, table.start, threads)
    return out


@compiled
def _fill_curves(
    values: FloatArray,
    start: IntArray,
    key: IntArray,
    counts: FloatArray,
    grades: FloatArray,
    out: FloatArray,
) -> None:
    """Fill `out`; neighbouring alphas mostly give one order, which is kept and not sorted anew."""
    below = np.empty(len(grades))
    for c in range(len(start) - 1):
        keys, cell_counts = key[start[c] : start[c + 1]], counts[start[c] : start[c + 1]]
        cell = prepare(cell_counts, grades)
        order, tied = np.arange(len(keys)), np.zeros(len(keys), dtype=np.bool_)
        scores = np.empty(len(keys))
        spearman, tau_b, tau_c = np.nan, np.nan, np.nan
        for a in range(values.shape[1]):
            for i in range(len(keys)):
                scores[i] = values[keys[i], a]
            if a == 0 or not in_order(scores, order, tied):
                put_in_order(scores, order, tied)
                spearman, tau_b, tau_c = rank_coefficients(cell, cell_counts, order, tied, below)
            out[c, a, 0], out[c, a, 1] = spearman, pearson(cell, scores)
            out[c, a, 2], out[c, a, 3] = tau_b, tau_c


def maximum(
    curves: FloatArray, alphas: FloatArray, decimals: int | None = None
) -> tuple[FloatArray, FloatArray]:
    """Greatest signed value over alpha, and the smallest alpha that attains it.

    Parameters
    ----------
    curves : ndarray, shape (cells, alphas, coefficients)
        Undefined values are NaN and never chosen.
    alphas : ndarray, shape (alphas,)
        Ascending.
    decimals : int, optional
        Round before comparing.

    Returns
    -------
    alpha, value : ndarray, shape (cells, coefficients)
        NaN where no value is defined.

    Examples
    --------
    >>> curves = np.array([np.nan, 0.1, 0.3, 0.3]).reshape(1, 4, 1)
    >>> maximum(curves, np.array([0, 0.2, 0.4, 1]))
    (array([[0.4]]), array([[0.3]]))
    """
    shape = (curves.shape[0], curves.shape[2])
    at, value = np.full(shape, -1), np.full(shape, np.nan)
    _maximum(curves, 0.0 if decimals is None else 10.0**decimals, at, value)
    return np.where(at < 0, np.nan, alphas[at]), value


@compiled
def _maximum(curves: FloatArray, scale: float, at: IntArray, value: FloatArray) -> None:
    for c in range(curves.shape[0]):
        for a in range(curves.shape[1]):
            for j in range(curves.shape[2]):
                here = curves[c, a, j]
                if scale > 0:
                    here = np.rint(here * scale) / scale
                if here > value[c, j] or (at[c, j] < 0 and not np.isnan(here)):
                    at[c, j], value[c, j] = a, here


# --- shared with the intervals ------------------------------------------------------------------


def minimum(segmentation: str, min_samples: int | None) -> int:
    """Rows a segment must have: as given, or as published."""
    published = segments.lookup(segmentation).min_samples
    fewest = published if min_samples is None else min_samples
    if fewest < 0:
        raise UsageError(f"min_samples must be 0 or more, not {min_samples}.")
    return fewest


def alpha_values(alpha: str | float) -> FloatArray:
    """Values of alpha to try: the published grid, or the one given."""
    if alpha == "published":
        return ALPHAS
    if isinstance(alpha, bool) or not isinstance(alpha, Real) or not 0 <= alpha <= 1:
        raise UsageError(f"alpha must be published, exact or a number in [0, 1], not {alpha!r}.")
    return np.array([float(alpha)])


def needed_columns(measures: Sequence[Measure]) -> list[str]:
    """Columns that the measures are determined by, each once."""
    return list(dict.fromkeys(name for measure in measures for name in measure.columns))


def undefined_reason(totals: FloatArray) -> str:
    """Say why a cell has no coefficient at any alpha, given its rows by grade."""
    if totals.sum() == 0:
        return "no graded row"
    if totals.sum() == 1:
        return "one row"
    return "the grade is constant" if (totals > 0).sum() == 1 else "the measure is constant"


def _known(what: str, names: Sequence[str], accepted: Iterable[str]) -> None:
    known = list(accepted)
    if isinstance(names, str):
        raise UsageError(f"A list of {what}s is wanted, such as [{names!r}], not {names!r}.")
    if not len(names):
        raise UsageError(f"At least one {what} is needed; there are {', '.join(known)}.")
    unknown = [str(name) for name in names if name not in known]
    if unknown:
        raise UsageError(f"No {what} is named {', '.join(unknown)}; there are {', '.join(known)}.")


def _frame(
    counts: Counts,
    table: Table,
    measure: Measure,
    coefficients: Sequence[str],
    alpha: FloatArray,
    value: FloatArray,
    fewest: int,
    order: int,
) -> pd.DataFrame:
    """Rows of one measure, those of `coefficients` below each other, cells of enough rows only."""
    cells = np.flatnonzero(table.sizes >= fewest)
    which = [COEFFICIENTS.index(name) for name in coefficients]
    repeated = np.repeat(cells, len(which))
    column = np.tile(which, len(cells))
    frame = counts.cells.iloc[repeated].reset_index(drop=True)
    correlations = value[repeated, column]
    reasons = [
        undefined_reason(table.grade_totals[cell]) if missing else ""
        for cell, missing in zip(repeated, np.isnan(correlations), strict=True)
    ]
    frame["n"] = table.sizes[repeated]
    frame["measure"] = measure.name
    frame["coefficient"] = np.tile(np.asarray(coefficients, dtype=object), len(cells))
    frame["alpha"] = alpha[repeated, column]
    frame["correlation"] = correlations
    frame["reason"] = np.asarray(reasons, dtype=object)
    frame["_order"] = repeated * 1000 + order
    return frame


def _assemble(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    result = pd.concat(frames, ignore_index=True).sort_values("_order", kind="stable")
    return result[list(COLUMNS)].reset_index(drop=True)
