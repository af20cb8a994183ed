"""How sure each cell's correlation is, and an alpha that was not chosen on the same rows.

One row a cell: its coefficient, or the difference of two, with the interval that `resampling`
gives. Three kinds of alpha:

a number
    The coefficient at that alpha.
``crossfit``
    Queries are split into halves; the alpha that is best in one half is used in the other, and the
    two values are averaged. The estimate is the mean over `SPLITS` splits. It is the correlation on
    other queries at an alpha that half as many queries chose. Each replicate takes the mean over
    `REPLICATE_SPLITS` splits of its own; what that small number adds to its variance is known from
    how the splits of one replicate differ, and is taken out (`_steadied`).
``published``
    The maximum over the published grid with the published ties, taken anew in each replicate. Such
    an interval is descriptive: a maximum over alpha flatters a measure on the rows it is taken on,
    and does so once more in every replicate, so it lies too high. No p-value is given.

Ties are those of exact arithmetic (`resampling.exact_scores`), but for ``published``.

References
----------
.. [1] Y. Benjamini, Y. Hochberg, "Controlling the false discovery rate", 1995.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

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
    count_rows,
    evaluate,
)
from retrieval_quality.statistics.resampling import (
    DEFINED,
    Replicates,
    candidates,
    coefficients,
    crossed,
    exact_scores,
    halved,
    query_halves,
    query_weights,
    replicate,
    slots_of,
    unit,
)

__all__ = [
    "DEFINED",
    "INTERVAL_COLUMNS",
    "SPLITS",
    "crossfit",
    "intervals",
    "leave_dataset_out",
    "profile",
    "query_halves",
    "query_weights",
    "replicate",
]

SPLITS = 20
"""Random halvings of the queries behind a cross-fitted estimate."""

REPLICATE_SPLITS = 2
"""Random halvings in each replicate of a cross-fitted estimate."""

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
        rows, and what it is above the cross-fitted value by, in three parts: ``ties``, what
        rounding of the published expressions adds; ``optimism``, by how much a maximum on these
        rows flatters itself; ``half_cost``, what an alpha from half of the queries loses against
        one from all. ``queries``; ``undefined``, the splits that gave no value.

    Notes
    -----
    On a half, the maximum exceeds the cross-fitted value by what a maximum over so few queries
    flatters itself. That goes with one over the number of queries, so on all of them it is half as
    large: the optimism. The rest of the difference is the cost of choosing on half.

    Raises
    ------
    UsageError, DataError
        As for `intervals`.
    """
    _check(coefficient, "crossfit", 1, 0.95, splits)
    counts = _count(rows, measures, segmentation, min_samples, require_2k, by, grade)
    draw = _Draw(counts, coefficient, "crossfit", 0, seed, splits, threads)
    published = {name: _published(draw, lookup([name])[0]) for name in measures}
    frames = []
    for measure in lookup(measures):
        sample = _sample(draw, measure)
        fewest = correlation.minimum(segmentation, min_samples)
        frame = _single(draw, {measure.name: sample}, measure.name, fewest, 0.95)
        cells = np.flatnonzero(sample.table.sizes >= fewest)
        frame["alpha_low"], frame["alpha_high"] = sample.alpha_range[cells].T
        best = sample.maximum[cells]
        frame["maximum"] = published[measure.name][cells]
        frame["ties"] = frame["maximum"] - best
        frame["optimism"] = (sample.own - sample.value)[cells] / 2
        frame["half_cost"] = best - frame["correlation"] - frame["optimism"]
        frame["undefined"] = sample.undefined_splits[cells]
        frames.append(frame)
    extra = ["alpha_low", "alpha_high", "maximum", "ties", "optimism", "half_cost"]
    extra += ["queries", "undefined"]
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
        values, table = exact_scores(counts, measure, grid)
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
        `correlation.COLUMNS`, and: ``maximum``, the greatest over the grid on the dataset
        itself; ``loss``, by how much it is above; ``datasets``, how many others gave the alpha.

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


# --- drawing ------------------------------------------------------------------------------------


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
        named = next(name for name in ("query", "id") if name in counts.columns)
        self.query, distinct = counts.keys([named])
        names = np.asarray(distinct[named]).astype(str)
        self.replicates, self.n_splits = replicates, splits
        self.weights = query_weights(names, replicates, seed)
        if self.crossed:
            drawn = query_halves(names, replicates * REPLICATE_SPLITS, seed, "halves")
            self.halves = [
                halved(self.weights, drawn[:, each::REPLICATE_SPLITS])
                for each in range(REPLICATE_SPLITS)
            ]
            once = np.ones((len(names), splits), dtype=np.uint8)
            self.splits = halved(once, query_halves(names, splits, seed, "splits"))

    @property
    def crossed(self) -> bool:
        return self.alpha == "crossfit"

    @property
    def grid(self) -> FloatArray:
        return ALPHAS if self.crossed else correlation.alpha_values(self.alpha)


@dataclass(frozen=True)
class _Sample:
    """One measure: estimate, alpha and replicates of every cell.

    ``replicates`` has the shape (cells, replicates, splits); there is one split unless alpha is
    cross-fitted. ``own`` is the mean value of halves at their own choice.
    """

    table: Table
    value: FloatArray
    alpha: FloatArray
    alpha_range: FloatArray
    maximum: FloatArray
    own: FloatArray
    undefined_splits: IntArray
    replicates: FloatArray
    queries: IntArray


def _sample(draw: _Draw, measure: Measure) -> _Sample:
    score = evaluate if draw.alpha == "published" else exact_scores
    values, table = score(draw.counts, measure, draw.grid)
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
        np.full(n, np.nan),
        np.zeros(n, dtype=np.int64),
        np.full((n, draw.replicates, REPLICATE_SPLITS if draw.crossed else 1), np.nan),
        np.zeros(n, dtype=np.int64),
    )
    slots = slots_of(draw.counts, draw.query, table)

    def work(cell: int) -> None:
        first, last = table.start[cell], table.start[cell + 1]
        scores = np.ascontiguousarray(values[table.key[first:last]].T)
        orders, ties, at_first, _ = candidates(scores, draw.coefficient == 1)
        own = slots.of(first, last)
        sample.queries[cell] = len(np.unique(own.query))
        rest = (table.grades, scores, orders, ties, draw.coefficient)
        if not draw.crossed:
            found = coefficients(own, draw.weights, *rest)
            sample.replicates[cell, :, 0] = np.max(
                found, axis=0, where=~np.isnan(found), initial=-np.inf
            )
        else:
            for i, halves in enumerate(draw.halves):
                each = [coefficients(own, half, *rest) for half in halves]
                sample.replicates[cell, :, i] = crossed(*each)[0]
            each = [coefficients(own, half, *rest) for half in draw.splits]
            value, high, chosen = crossed(*each)
            _average(sample, cell, value, high, alphas[at_first[chosen]])

    with ThreadPoolExecutor(draw.threads) as pool:
        list(pool.map(work, range(n)))
    sample.replicates[np.isinf(sample.replicates)] = np.nan
    return sample


def _published(draw: _Draw, measure: Measure) -> FloatArray:
    """Maximum over the published grid with the published ties, by cell."""
    values, table = evaluate(draw.counts, measure, draw.grid)
    curves = correlation.curves_of(values, table, draw.threads)
    best = correlation.maximum(
        curves, np.arange(curves.shape[1], dtype=np.float64), correlation.DECIMALS
    )[1]
    return np.asarray(best[:, draw.coefficient])


def _average(
    sample: _Sample, cell: int, values: FloatArray, own: FloatArray, alphas: FloatArray
) -> None:
    """Enter the mean over splits, where enough of them are defined."""
    defined = ~np.isnan(values)
    sample.undefined_splits[cell] = (~defined).sum()
    enough = defined.mean() >= DEFINED
    sample.value[cell] = values[defined].mean() if enough else np.nan
    sample.own[cell] = own[defined].mean() if enough else np.nan
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
    return _spread(draw, frame, sample.value[cells], sample.replicates[cells], level)[0]


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
    frame, drawn = _spread(draw, frame, difference, replicates, level)
    if draw.alpha != "published":
        known = frame["low"].notna().to_numpy()
        frame.loc[known, "p_value"] = _p_values(drawn[known])
    return frame


def _cells(draw: _Draw, sample: _Sample, cells: IntArray, measure: str, minus: str) -> pd.DataFrame:
    frame = draw.counts.cells.iloc[cells].reset_index(drop=True)
    frame["n"], frame["measure"], frame["minus"] = sample.table.sizes[cells], measure, minus
    frame["coefficient"] = COEFFICIENTS[draw.coefficient]
    frame["queries"], frame["replicates"] = sample.queries[cells], draw.replicates
    frame["reason"] = _undefined(draw, sample, cells)
    return frame


def _spread(
    draw: _Draw, frame: pd.DataFrame, value: FloatArray, replicates: FloatArray, level: float
) -> tuple[pd.DataFrame, FloatArray]:
    """Enter value, interval and what is undefined about them; also give the replicates used."""
    drawn = _steadied(value, replicates, draw.n_splits) if draw.crossed else replicates[..., 0]
    undefined = np.isnan(drawn).sum(axis=1)
    low, high = Replicates(value, drawn.T).interval(level)
    single = frame["queries"].to_numpy() == 1
    no_interval = np.isnan(low) | single
    frame["correlation"], frame["undefined"] = value, undefined
    frame["low"], frame["high"] = np.where(no_interval, np.nan, [low, high])
    frame["p_value"] = frame["q_value"] = np.nan
    said = [
        "no interval: one query" if alone else f"no interval: undefined in {count} replicates"
        for alone, count in zip(single, undefined, strict=True)
    ]
    frame["reason"] = _first(frame["reason"], np.where(no_interval, said, ""))
    return frame, drawn


def _steadied(value: FloatArray, replicates: FloatArray, splits: int) -> FloatArray:
    """Replicates of a mean over `splits` splits, from replicates with fewer: shape (cells, n).

    With r splits a replicate has the variance V + W / r, where W is the variance between splits of
    one replicate, estimated by their differences; the estimate has V + W / splits. The replicates
    are drawn together by the root of the ratio of the two, and moved so that their mean lies at
    the estimate: a replicate lacks a third of the queries, so alpha is chosen worse in it. They
    are mirrored there (the basic interval), because a choice that goes wrong lowers the estimate
    far and raises it little: where it is low by chance, the truth lies far above it.
    """
    known = ~np.isnan(replicates).any(axis=2)
    count = np.maximum(known.sum(axis=1), 1)
    r = replicates.shape[2]
    mean = replicates.mean(axis=2)
    centre = np.where(known, mean, 0.0).sum(axis=1) / count
    around = np.where(known, mean - centre[:, np.newaxis], 0.0)
    total = (around**2).sum(axis=1) / np.maximum(count - 1, 1)
    within = np.where(known, replicates.var(axis=2, ddof=1), 0.0).sum(axis=1) / count
    wanted = np.maximum(total - within * (1 / r - 1 / splits), within / splits)
    with np.errstate(invalid="ignore", divide="ignore"):
        scale = np.where(total > 0, np.sqrt(wanted / total), 0.0)
    moved = value[:, np.newaxis] - around * scale[:, np.newaxis]
    return np.where(known, moved, np.nan)


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
        columns=[*columns, unit(rows)] if query else columns,
        require_2k=require_2k,
        by=by,
        grade=grade,
    )
