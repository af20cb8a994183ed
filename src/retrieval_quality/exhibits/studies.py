"""The numbers of what goes beyond the paper: intervals, an honest alpha, recall, controls, advice.

A study of the catalogue and a dataset in, a `Result` out, as for the paper's figures. Most
pictures share one shape (`COLUMNS`): a value with an interval for each panel, position and series.
Values of single segments are averaged over the embeddings and over the segments of a range of
K/N_p (`RANGES`); intervals come from replicates in which all segments are resampled together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from retrieval_quality.data import schema
from retrieval_quality.exhibits import analysis, catalogue
from retrieval_quality.exhibits.analysis import Result, Source
from retrieval_quality.exhibits.catalogue import Entry, Study, measure_name
from retrieval_quality.measures import MEASURES
from retrieval_quality.parameters import COEFFICIENTS, Parameters
from retrieval_quality.statistics import attribution, bootstrap, controls, correlation, evidence
from retrieval_quality.statistics.counts import FloatArray
from retrieval_quality.statistics.evidence import Cells, steady

if TYPE_CHECKING:
    from retrieval_quality.data.dataset import Dataset

REPLICATES = 400
"""Bootstrap replicates of means over segments."""
CELL_REPLICATES = 2000
"""Bootstrap replicates of single segments."""
LEVEL = 0.95
DISCOVERIES = 0.05
"""False discovery rate over the cells of one picture."""
CHANGED = 1e-6
"""From which a correlation counts as changed."""

RANGES: dict[str, tuple[float, float]] = {
    "≤ 0.5": (0.0, 0.5),
    "0.6–0.9": (0.6, 0.9),
    "1.0": (1.0, 1.0),
    "1.1–2.0": (1.1, 2.0),
    "2.1–4.0": (2.1, 4.0),
    "> 4.0": (4.1, math.inf),
}
"""Ranges of the rounded ratio K/N_p, ends included."""

COLUMNS = ("panel", "position", "series", "value", "low", "high", "n", "cells", "reason")
"""Columns of a study's numbers: n graded rows in that many segments."""

_KEYS = ["dataset", "embedding", "segment"]
_STEP = 0.1


def range_of(segment: str | float) -> str:
    """Give the range that a rounded ratio lies in.

    Parameters
    ----------
    segment : str or float
        Label of a ratio segment, such as ``1.2``.

    Returns
    -------
    str
        A key of `RANGES`.

    Examples
    --------
    >>> [range_of(ratio) for ratio in ("0.5", "0.6", "1.0", "4.1")]
    ['≤ 0.5', '0.6–0.9', '1.0', '> 4.0']
    """
    ratio = round(float(segment), 1)
    return next(name for name, (low, high) in RANGES.items() if low <= ratio <= high)


def compute(entry: Entry, dataset: Dataset, parameters: Parameters | None = None) -> Result:
    """Compute the numbers of a study, or of a figure or table of the paper.

    Parameters
    ----------
    entry
        From the catalogue.
    dataset
        Loaded data.
    parameters
        Of the run; the paper's when left out.

    Returns
    -------
    Result
        Where the data cannot show anything its ``missing`` says why and ``numbers`` is empty.

    Raises
    ------
    DataError
        The data breaks its format.
    """
    run = parameters or Parameters()
    if not isinstance(entry, Study):
        return analysis.compute(entry, dataset, run)
    entry = replace(entry, axis=entry.axis.format(coefficient=COEFFICIENTS[run.coefficient]))
    rows = _rows(dataset, run)
    if rows.empty:
        return _missing(entry, dataset, run, "The data has no graded rows of what was asked for.")
    return STUDIES[_topic(entry)](entry, dataset, run)


def _topic(entry: Study) -> str:
    return "alpha-curves" if entry.topic.startswith("alpha-curves") else entry.topic


# --- what studies share -------------------------------------------------------------------------


def _rows(dataset: Dataset, run: Parameters) -> pd.DataFrame:
    return analysis.scored_rows(Source(dataset), run.embeddings, run.datasets)


def _evidence(
    dataset: Dataset, run: Parameters, measures: Sequence[str], require_2k: bool = False
) -> Cells:
    return _gather(Source(dataset), run, tuple(measures), require_2k)


@lru_cache(maxsize=4)
def _gather(source: Source, run: Parameters, measures: tuple[str, ...], require_2k: bool) -> Cells:
    return evidence.gather(
        _rows(source.dataset, run),
        min_samples=run.min_samples_ratio,
        measures=measures,
        require_2k=require_2k,
        coefficient=run.coefficient,
        replicates=REPLICATES,
        seed=run.seed,
    )


def _missing(entry: Study, dataset: Dataset, run: Parameters, why: str) -> Result:
    empty = pd.DataFrame(columns=list(COLUMNS))
    return Result(entry, run, empty, missing=why, simulated=dataset.simulated)


def _empty(entry: Study, dataset: Dataset, run: Parameters) -> Result:
    return _missing(entry, dataset, run, analysis.why_empty(entry, dataset, run))


def _result(
    entry: Study,
    dataset: Dataset,
    run: Parameters,
    numbers: pd.DataFrame,
    notes: Sequence[str] = (),
    limits: tuple[float, float] | None = None,
) -> Result:
    """Put numbers into a result; without any row it says why."""
    if numbers.empty:
        return _empty(entry, dataset, run)
    n = int(numbers["n"].max()) if "n" in numbers else 0
    if limits is None and {"low", "high", "value"} <= set(numbers):
        limits = _limits(numbers)
    numbers = numbers.reset_index(drop=True)
    return Result(
        entry, run, numbers, run.coefficient, n, limits, tuple(notes), simulated=dataset.simulated
    )


def _limits(numbers: pd.DataFrame) -> tuple[float, float]:
    """Let the scale hold all that is drawn, and 0, to the next tenth."""
    drawn = numbers[["value", "low", "high"]].to_numpy(dtype=float)
    drawn = drawn[~np.isnan(drawn)]
    low, high = min(0.0, drawn.min(initial=0.0)), max(0.0, drawn.max(initial=0.0))
    low, high = math.floor(low / _STEP) * _STEP, math.ceil(high / _STEP) * _STEP
    return (round(low, 2), round(high, 2)) if high > low else (-1.0, 1.0)


def interval(sample: FloatArray) -> tuple[float, float]:
    """Percentile interval of replicates.

    Parameters
    ----------
    sample : ndarray, shape (replicates,)
        NaN where undefined.

    Returns
    -------
    low, high : float
        NaN where fewer than 95% of the replicates are defined.

    Examples
    --------
    >>> np.round(interval(np.arange(101.0)), 6).tolist()
    [2.5, 97.5]
    """
    known = sample[~np.isnan(sample)]
    if len(known) < max(2, bootstrap.DEFINED * len(sample)):
        return math.nan, math.nan
    low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _over(values: FloatArray, which: NDArray[np.bool_]) -> FloatArray:
    """Mean over some cells, for the data and each replicate."""
    chosen = values[:, which]
    known = ~np.isnan(chosen)
    count = known.sum(axis=1)
    total = np.where(known, chosen, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _groups(cells: Cells) -> list[tuple[str, str, NDArray[np.bool_]]]:
    """Dataset, range and which cells it has, in reading order."""
    datasets = cells.frame["dataset"].astype(str)
    ranges = cells.frame["segment"].map(range_of).astype(str)
    ordered = schema.dataset_order(list(datasets.unique()))
    groups = [
        (dataset, name, ((datasets == dataset) & (ranges == name)).to_numpy())
        for dataset, name in product(ordered, RANGES)
    ]
    return [group for group in groups if group[2].any()]


def pool(cells: Cells, values: dict[str, FloatArray]) -> pd.DataFrame:
    """Average values of cells by dataset and range, with intervals.

    Parameters
    ----------
    cells : Cells
        What the values are of.
    values : dict of str to ndarray, shape (1 + replicates, cells)
        By the name of the series; the data themselves first.

    Returns
    -------
    DataFrame
        `COLUMNS`. Cells that are undefined on the data or on many replicates are left out of the
        mean; where none is left the value is NaN with a reason.
    """
    records = []
    for dataset, name, group in _groups(cells):
        for series, array in values.items():
            which = group & steady(array)
            n = int(cells.frame["n"].to_numpy()[which].sum())
            sample = _over(array, which)
            reason = "" if which.any() else "undefined in every segment"
            records.append(
                (dataset, name, series, sample[0], *interval(sample[1:]), n, which.sum(), reason)
            )
    return pd.DataFrame(records, columns=list(COLUMNS))


def _averaged(cells: pd.DataFrame, value: str = "correlation") -> pd.DataFrame:
    """Average a tidy table of cells (with a column ``series``) by dataset, range and series."""
    cells = cells.assign(
        panel=cells["dataset"].astype(str), position=cells["segment"].astype(str).map(range_of)
    )
    keys = ["panel", "position", "series"]
    grouped = cells.groupby(keys, sort=False, observed=True)
    numbers = grouped.agg(value=(value, "mean"), n=("n", "sum"), cells=(value, "count"))
    numbers = numbers.reset_index().assign(low=math.nan, high=math.nan)
    numbers["reason"] = np.where(numbers["value"].isna(), "undefined in every segment", "")
    return _ordered(numbers)


def _ordered(numbers: pd.DataFrame) -> pd.DataFrame:
    """Sort by dataset and range, series as they come."""
    place = {
        name: i for i, name in enumerate(schema.dataset_order(list(numbers["panel"].unique())))
    }
    ranges = {name: i for i, name in enumerate(RANGES)}
    keys = numbers[["panel", "position"]].assign(
        panel=numbers["panel"].map(place), position=numbers["position"].map(ranges)
    )
    order = keys.sort_values(["panel", "position"], kind="stable").index
    return numbers.loc[order, list(COLUMNS)].reset_index(drop=True)


def _number(value: float) -> str:
    return f"{value:.3f}".replace("-", "−")


def _with_interval(value: float, low: float, high: float) -> str:
    return f"{_number(value)} [{_number(low)}, {_number(high)}]"


# --- recall -------------------------------------------------------------------------------------


def _recall_predicts(entry: Study, dataset: Dataset, run: Parameters) -> Result:
    cells = _evidence(dataset, run, _BASE)
    numbers = pool(cells, {name: cells.values[name] for name in entry.measures})
    notes = []
    for name in dict.fromkeys(numbers["panel"]):
        samples, which = _samples(cells, entry.measures, cells.of([name]))
        if not {"R", "P"} <= set(samples):
            continue
        best = max(samples, key=lambda measure: samples[measure][0])
        ahead = "the highest of them" if best == "R" else f"{measure_name(best)}, the highest,"
        told = f"R has {_number(samples['R'][0])}, "
        told += ahead if best == "R" else f"{ahead} {_number(samples[best][0])}"
        notes.append(f"{name}, mean over all {int(which.sum())} segments: {told}.")
    return _result(entry, dataset, run, numbers, [*notes, *_coincide(cells, entry.measures)])


def _coincide(cells: Cells, names: Sequence[str]) -> list[str]:
    """Say which measures give the same coefficient in every segment and replicate."""
    groups: list[list[str]] = []
    for name in names:
        values = cells.values[name]
        for group in groups:
            if np.array_equal(cells.values[group[0]], values, equal_nan=True):
                group.append(name)
                break
        else:
            groups.append([name])
    return [
        f"{', '.join(map(measure_name, group[:-1]))} and {measure_name(group[-1])} order the rows "
        "of every segment alike, at the α of this page: their marks coincide, and "
        "nothing here tells them apart."
        for group in groups
        if len(group) > 1
    ]


_BASE = ("F", "nDCG", "T", "Tu", "P", "R")
"""Measures that are gathered together."""
_BASE_2K = ("F", "Fe", "R", "P")


def _less_recall(entry: Study, dataset: Dataset, run: Parameters) -> pd.DataFrame:
    """Differences to recall, each on its own rows: those with a 2K row for F_e."""
    cells = _evidence(dataset, run, _BASE)
    free = [name for name in entry.measures if name != "Fe"]
    parts = [pool(cells, {name: cells.difference(name, "R") for name in free})]
    cells = _evidence(dataset, run, _BASE_2K, require_2k=True)
    if len(cells.frame):
        parts.append(pool(cells, {"Fe": cells.difference("Fe", "R")}))
    return _ordered(pd.concat(parts, ignore_index=True))


def _recall_difference(entry: Study, dataset: Dataset, run: Parameters) -> Result:
    numbers = _less_recall(entry, dataset, run)
    notes = []
    for series, part in numbers.dropna(subset="low").groupby("series", sort=False):
        ahead, behind = int((part["low"] > 0).sum()), int((part["high"] < 0).sum())
        notes.append(
            f"{measure_name(str(series))} against R: clearly ahead in {ahead} of {len(part)} "
            f"ranges and datasets, clearly behind in {behind}, the interval holds 0 in "
            f"{len(part) - ahead - behind}."
        )
    return _result(entry, dataset, run, numbers, notes)


KEPT_COLUMNS = (
    "dataset",
    "range",
    "measure",
    "kept",
    "low",
    "high",
    "correlation",
    "recall",
    "n",
    "cells",
    "reason",
)
"""Columns of the share of recall's predictive power that a measure keeps."""


def _recall_kept(entry: Study, dataset: Dataset, run: Parameters) -> Result:
    base = _evidence(dataset, run, _BASE)
    wide = _evidence(dataset, run, _BASE_2K, require_2k=True)
    records = []
    for measure in entry.measures:
        cells = wide if measure == "Fe" else base
        groups = _groups(cells)
        whole = [
            (name, "all", np.logical_or.reduce([g for d, _, g in groups if d == name]))
            for name in dict.fromkeys(d for d, _, _ in groups)
        ]
        records += [_kept(cells, measure, *group) for group in (*groups, *whole)]
    numbers = pd.DataFrame(records, columns=list(KEPT_COLUMNS))
    order = {name: i for i, name in enumerate(["all", *RANGES])}
    places = {n: i for i, n in enumerate(schema.dataset_order(list(numbers["dataset"].unique())))}
    keys = numbers.assign(
        dataset=numbers["dataset"].map(places), range=numbers["range"].map(order)
    ).sort_values(["dataset", "range"], kind="stable")
    numbers = numbers.loc[keys.index]
    known = numbers[(numbers["range"] == "all")].dropna(subset="kept")
    notes = [
        f"{measure_name(str(name))} keeps, over all ratios, from {part['kept'].min():.0%} "
        f"({part.loc[part['kept'].idxmin(), 'dataset']}) to {part['kept'].max():.0%} "
        f"({part.loc[part['kept'].idxmax(), 'dataset']}) of recall's correlation."
        for name, part in known.groupby("measure", sort=False)
    ]
    if "Fe" in entry.measures and len(wide.frame):
        notes.append(_on_its_rows(wide))
    lacking = int(numbers["kept"].isna().sum())
    if lacking:
        notes.append(
            f"{lacking} of {len(numbers)} rows have no value: recall's own correlation there "
            "cannot be told from 0, or nothing is defined."
        )
    return _result(entry, dataset, run, numbers, notes)


def _on_its_rows(cells: Cells) -> str:
    """Set F_e beside precision on the rows that F_e has."""
    names, which = ("Fe", "P", "R"), np.ones(len(cells.frame), dtype=bool)
    samples, which = _samples(cells, names, which)
    if len(samples) < len(names):
        return "F_e is not defined on all rows that have a 2K row."
    fe, precision, recall = (_number(samples[name][0]) for name in names)
    return (
        f"F_e has fewer rows than the others, those whose 2K row exists, and recall is another "
        f"there: over all {int(which.sum())} segments of these rows F_e has {fe}, P {precision} "
        f"and R {recall}."
    )


def _kept(
    cells: Cells, measure: str, dataset: str, name: str, group: NDArray[np.bool_]
) -> tuple[Any, ...]:
    which = group & steady(cells.values[measure]) & steady(cells.values["R"])
    own, recall = _over(cells.values[measure], which), _over(cells.values["R"], which)
    n, count = int(cells.frame["n"].to_numpy()[which].sum()), int(which.sum())
    low, _ = interval(recall[1:])
    if not count:
        reason = "undefined in every segment"
    elif not low > 0:
        reason = "recall's own correlation cannot be told from 0"
    else:
        with np.errstate(divide="ignore", invalid="ignore"):
            kept = own / recall
        ends = interval(kept[1:])
        return (dataset, name, measure, kept[0], *ends, own[0], recall[0], n, count, "")
    lacking = (math.nan, math.nan, math.nan)
    return (dataset, name, measure, *lacking, own[0], recall[0], n, count, reason)


def _recall_across(entry: Study, dataset: Dataset, run: Parameters) -> Result:
    alphas = _evidence(dataset, run, _BASE).alphas
    alphas |= _evidence(dataset, run, _BASE_2K, require_2k=True).alphas
    rows = _rows(dataset, run)
    rows = rows[rows["grade"].notna()]
    rows = rows.assign(recall=rows["n_positives"] / rows["Np"])
    found = []
    for name in rows["dataset"].astype(str).unique():
        own = rows[rows["dataset"] == name]
        for measure in entry.measures:
            alpha = alphas.get((name, measure), evidence.FALLBACK_ALPHA)
            found.append(
                correlation.correlate(
                    own,
                    min_samples=run.min_samples_ratio,
                    measures=(measure,),
                    coefficients=(run.coefficient,),
                    alpha=alpha,
                    grade="recall",
                )
            )
    cells = pd.concat(found, ignore_index=True) if found else pd.DataFrame()
    if cells.empty:
        return _empty(entry, dataset, run)
    numbers = _averaged(cells.assign(series=cells["measure"].astype(str)))
    notes = [
        f"{measure_name(str(name))}: from {_number(part['value'].min())} to "
        f"{_number(part['value'].max())} over {len(part)} ranges and datasets."
        for name, part in numbers.dropna(subset="value").groupby("series", sort=False)
    ]
    notes.append(
        "In a segment of one exact ratio P and R order rows alike, so that their correlation is 1 "
        "by construction. Where a segment rounds several ratios into one it can be below 1."
    )
    return _result(entry, dataset, run, numbers, notes)


# --- intervals ----------------------------------------------------------------------------------

_PAIRS = (("T", "F"), ("Tu", "T"), ("nDCG", "F"), ("T", "nDCG"))
_PAIRS_2K = (("Fe", "F"),)
MARKED_COLUMNS = (
    *analysis.DIFFERENCE_COLUMNS,
    "low",
    "high",
    "p_value",
    "q_value",
    "stands",
    "queries",
    "replicates",
    "undefined",
)
"""Columns of the differences with their intervals; ``stands``: q_value up to `DISCOVERIES`."""


def differences(dataset: Dataset, run: Parameters, require_2k: bool = False) -> pd.DataFrame:
    """Differences of the paper's pairs by ratio, with intervals, at an alpha not chosen to please.

    Parameters
    ----------
    dataset : Dataset
        Loaded data.
    run : Parameters
        Of the run: at cross-fitted alpha, or at ``alpha`` where that is a number.
    require_2k : bool
        F_e minus F on the rows whose 2K row exists, instead of the other pairs.

    Returns
    -------
    DataFrame
        `MARKED_COLUMNS`, one row a dataset, embedding, segment and pair.
    """
    return _intervals(Source(dataset), run, require_2k)


@lru_cache(maxsize=4)
def _intervals(source: Source, run: Parameters, require_2k: bool) -> pd.DataFrame:
    pairs = _PAIRS_2K if require_2k else _PAIRS
    names = tuple(dict.fromkeys(name for pair in pairs for name in pair))
    found = bootstrap.intervals(
        _rows(source.dataset, run),
        min_samples=run.min_samples_ratio,
        measures=names,
        pairs=pairs,
        coefficient=run.coefficient,
        alpha="crossfit" if isinstance(run.alpha, str) else run.alpha,
        replicates=CELL_REPLICATES,
        seed=run.seed,
        require_2k=require_2k,
    )
    found = found.astype(dict.fromkeys([*_KEYS, "segmentation", "measure", "minus"], "str"))
    single = found.loc[found["minus"] == "", [*_KEYS, "measure", "correlation"]]
    both = found[found["minus"] != ""].rename(
        columns={
            "measure": "first",
            "minus": "second",
            "alpha": "alpha_first",
            "alpha_minus": "alpha_second",
            "correlation": "difference",
        }
    )
    for side in ("first", "second"):
        named = {"measure": side, "correlation": f"correlation_{side}"}
        both = both.merge(single.rename(columns=named), on=[*_KEYS, side], how="left")
    both["stands"] = both["q_value"] <= DISCOVERIES
    return both[list(MARKED_COLUMNS)]


def _marked(entry: Study, dataset: Dataset, run: Parameters) -> Result:
    every = differences(dataset, run, entry.require_2k)
    first, second = entry.measures
    pair = every[(every["first"] == first) & (every["second"] == second)]
    numbers = pair[pair["dataset"] == entry.dataset]
    if numbers.empty:
        return _empty(entry, dataset, run)
    numbers = analysis.in_order(numbers)
    largest = float(pair["difference"].abs().fillna(0.0).max())
    limit = max(0.05, math.ceil(round(largest / 0.05, 6)) * 0.05)
    known = numbers.dropna(subset="difference")
    ahead = int((known["stands"] & (known["difference"] > 0)).sum())
    behind = int((known["stands"] & (known["difference"] < 0)).sum())
    told = (
        f"{ahead + behind} of {len(known)} cells stand at a false discovery rate of "
        f"{DISCOVERIES:.0%}: {measure_name(first)} is ahead in {ahead} of them and behind in "
        f"{behind}."
    )
    least = 2 / (CELL_REPLICATES + 1)
    needed = math.ceil(round(least * len(known) / DISCOVERIES, 6))
    limit_told = (
        f"With {CELL_REPLICATES:,} replicates no p-value is below {least:.4f}, so that cells only "
        f"stand where {needed} or more of these {len(known)} reach it; "
        f"{int((known['p_value'] <= least).sum())} do."
    )
    notes = [told, limit_told]
    lacking = int(numbers["low"].isna().sum())
    if lacking:
        reasons = numbers.loc[numbers["low"].isna(), "reason"].value_counts()
        told = ", ".join(
            f"{reason or 'no interval'} ({count})" for reason, count in reasons.items()
        )
        notes.append(f"{lacking} of {len(numbers)} cells have no interval: {told}.")
    result = _result(entry, dataset, run, numbers, notes, (-round(limit, 2), round(limit, 2)))
    return replace(result, coefficient=run.coefficient, n=int(numbers["n"].sum()))


def standing(dataset: Dataset, run: Parameters) -> pd.DataFrame:
    """Count, for each pair and dataset, the cells whose difference stands.

    Returns
    -------
    DataFrame
        ``pair, dataset, cells, stand, ahead, behind, median``: ahead and behind of those that
        stand; the median is of all cells' differences.
    """
    parts = [differences(dataset, run)]
    if _rows(dataset, run)["n_positives_2k"].notna().any():
        parts.append(differences(dataset, run, require_2k=True))
    records = []
    keys = ["first", "second", "dataset"]
    for (first, second, name), part in pd.concat(parts).groupby(keys, sort=False):
        known = part.dropna(subset="difference")
        ahead = known["stands"] & (known["difference"] > 0)
        behind = known["stands"] & (known["difference"] < 0)
        records.append(
            {
                "pair": f"{measure_name(str(first))} minus {measure_name(str(second))}",
                "dataset": name,
                "cells": len(known),
                "stand": int(ahead.sum() + behind.sum()),
                "ahead": int(ahead.sum()),
                "behind": int(behind.sum()),
                "median": known["difference"].median(),
            }
        )
    columns = ["pair", "dataset", "cells", "stand", "ahead", "behind", "median"]
    return pd.DataFrame(records, columns=columns)


def coverage() -> pd.DataFrame | None:
    """Give the result of the coverage benchmark, which lies in a checkout; None without one.

    Returns
    -------
    DataFrame or None
        As ``benchmarks/interval_coverage.py`` writes it: one row a number of queries, segment and
        measure or difference.
    """
    path = Path(__file__).parents[3] / "benchmarks" / "results" / "coverage.csv"
    return pd.read_csv(path).fillna({"minus": ""}) if path.is_file() else None


def coverage_notes(found: pd.DataFrame) -> list[str]:
    """Say for each number of queries how often intervals held the true value.

    Examples
    --------
    >>> rows = pd.DataFrame({"queries": 30, "segment": ["narrow", "wide"], "sets": 1000,
    ...                      "coverage": [0.94, 0.92]})
    >>> coverage_notes(rows)
    ['30 queries a segment: 93.0% over 2 rows, from 92.0% to 94.0%; 1 of them within 93% to 97%.']
    """
    said = []
    for queries, part in found[found["segment"] != "all"].groupby("queries"):
        pooled = np.average(part["coverage"], weights=part["sets"])
        inside = int(part["coverage"].between(0.93, 0.97).sum())
        said.append(
            f"{queries} queries a segment: {pooled:.1%} over {len(part)} rows, from "
            f"{part['coverage'].min():.1%} to {part['coverage'].max():.1%}; {inside} of them "
            "within 93% to 97%."
        )
    return said


# --- an honest alpha ----------------------------------------------------------------------------

_PICKED = np.round(np.arange(0, 1.0001, 0.05), 2)
_WITHIN = 0.01


@lru_cache(maxsize=4)
def _profile(source: Source, run: Parameters, measure: str) -> pd.DataFrame:
    found = bootstrap.profile(
        _rows(source.dataset, run),
        min_samples=run.min_samples_ratio,
        measures=(measure,),
        coefficient=run.coefficient,
    )
    return found.astype(dict.fromkeys([*_KEYS, "measure"], "str"))


def _alpha_curves(entry: Study, dataset: Dataset, run: Parameters) -> Result:
    """Position is alpha and series the range of K/N_p: a line a range."""
    cells = _profile(Source(dataset), run, entry.measures[0])
    if cells.empty:
        return _empty(entry, dataset, run)
    cells = cells.assign(series=cells["segment"].map(range_of), position=cells["alpha"])
    keys = ["dataset", "series", "position"]
    grouped = cells.groupby(keys, sort=False)
    numbers = grouped.agg(value=("correlation", "mean"), n=("n", "sum"), cells=("n", "size"))
    numbers = numbers.reset_index().rename(columns={"dataset": "panel"})
    numbers = numbers.assign(low=math.nan, high=math.nan)
    numbers["reason"] = np.where(numbers["value"].isna(), "undefined in every segment", "")
    places = {n: i for i, n in enumerate(schema.dataset_order(list(numbers["panel"].unique())))}
    ranges = {name: i for i, name in enumerate(RANGES)}
    keyed = numbers.assign(panel=numbers["panel"].map(places), series=numbers["series"].map(ranges))
    order = keyed.sort_values(["panel", "series", "position"], kind="stable").index
    numbers = numbers.loc[order, list(COLUMNS)]
    notes = []
    for name, part in numbers.dropna(subset="value").groupby("panel", sort=False):
        best = part.loc[part.groupby("series", sort=False)["value"].idxmax()]
        spread = part.groupby("series", sort=False)["value"].agg(lambda v: v.max() - v.min())
        notes.append(
            f"{name}: the best α is from {best['position'].min():g} to "
            f"{best['position'].max():g}; between the best and the worst α the correlation "
            f"changes by up to {_number(spread.max())} (at K/N_p {spread.idxmax()})."
        )
    return _result(entry, dataset, run, numbers, notes)


BEST, CROSSFIT, OTHERS, HALF = "best on the same rows", "cross-fitted", "other datasets", "α = ½"


def _alpha_optimism(entry: Study, dataset: Dataset, run: Parameters) -> Result:
    rows, measure = _rows(dataset, run), entry.measures
    options: dict[str, Any] = {
        "min_samples": run.min_samples_ratio,
        "measures": measure,
        "coefficient": run.coefficient,
    }
    crossed = bootstrap.crossfit(rows, seed=run.seed, **options)
    if crossed.empty:
        return _empty(entry, dataset, run)
    foreign = bootstrap.leave_dataset_out(rows, **options)
    half = bootstrap.profile(rows, alphas=[0.5], **options)
    cells = pd.concat(
        [
            crossed.assign(series=BEST, correlation=crossed["maximum"]),
            crossed.assign(series=CROSSFIT),
            foreign.assign(series=OTHERS),
            half.assign(series=HALF),
        ],
        ignore_index=True,
    )
    optimism, loss = crossed["optimism"].dropna(), foreign["loss"].dropna()
    shared = foreign.loc[loss.index, _KEYS] if len(loss) else crossed[_KEYS]
    numbers = _averaged(cells.merge(shared, on=_KEYS))
    told = "No segment has a cross-fitted value."
    if len(optimism):
        told = (
            f"The maximum on the same rows is above the cross-fitted value by "
            f"{_number(optimism.mean())} on average over {len(optimism)} segments, at most by "
            f"{_number(optimism.max())}."
        )
    notes = [told]
    if len(loss):
        notes.append(
            f"With the α of the other datasets the loss against that maximum is "
            f"{_number(loss.mean())} on average and at most {_number(loss.max())}, over the "
            f"{len(loss)} of {len(crossed)} segments whose embedding and ratio another dataset has "
            "too. The picture shows these segments only, so that its marks are of the same rows."
        )
    else:
        notes.append("There is no other dataset to take α from.")
    return _result(entry, dataset, run, numbers, notes)


PICK_COLUMNS = (
    "range",
    "alpha",
    "within_low",
    "within_high",
    "correlation",
    "own_best",
    "lost",
    "lost_most",
    "datasets",
    "n",
    "cells",
)
"""Columns of the advice on one alpha."""


def _alpha_pick(entry: Study, dataset: Dataset, run: Parameters) -> Result:
    cells = _profile(Source(dataset), run, entry.measures[0])
    if cells.empty:
        return _empty(entry, dataset, run)
    cells = cells[cells["alpha"].round(2).isin(_PICKED)].dropna(subset="correlation")
    cells = cells.assign(range=cells["segment"].map(range_of), alpha=cells["alpha"].round(2))
    ranges = [(name, cells[cells["range"] == name]) for name in RANGES]
    records = [_pick(name, part) for name, part in [*ranges, ("all", cells)] if len(part)]
    numbers = pd.DataFrame(records, columns=list(PICK_COLUMNS))
    notes = [
        f"K/N_p {row.range}: α = {row.alpha:g}{_near(row.within_low, row.within_high)}; it loses "
        f"{_number(row.lost)} on average against each segment's own best."
        for row in numbers.itertuples()
    ]
    return _result(entry, dataset, run, numbers, notes)


def _near(low: float, high: float) -> str:
    return f" (anything from {low:g} to {high:g} is within {_WITHIN})" if low < high else ""


def _pick(name: str, cells: pd.DataFrame) -> tuple[Any, ...]:
    """Best alpha of a range: each dataset weighs the same, whatever its number of cells."""
    by_dataset = cells.pivot_table(index="alpha", columns="dataset", values="correlation")
    mean = by_dataset.mean(axis=1)
    best = float(mean.idxmax())
    near = mean.index[mean > mean.max() - _WITHIN]
    grid = cells.pivot_table(index="alpha", columns=_KEYS, values="correlation")
    lost = grid.max() - grid.loc[best]
    by = lost.groupby(level="dataset").mean()
    own = grid.max().groupby(level="dataset").mean().mean()
    once = cells.drop_duplicates(_KEYS)
    return (
        name,
        best,
        float(near.min()),
        float(near.max()),
        float(mean.max()),
        float(own),
        float(by.mean()),
        float(by.max()),
        by_dataset.shape[1],
        int(once["n"].sum()),
        len(once),
    )


# --- exact ties ---------------------------------------------------------------------------------

TIES, GRID = "ties as in exact arithmetic", "every α, not a grid"


@lru_cache(maxsize=2)
def exact_cells(source: Source, run: Parameters) -> pd.DataFrame:
    """Every ratio segment's best correlation in three ways.

    Parameters
    ----------
    source : Source
        The data.
    run : Parameters
        Of the run.

    Returns
    -------
    DataFrame
        ``dataset, embedding, segment, n, measure``; ``published``: grid and float ties;
        ``exact_ties``: the same grid, ties as in exact arithmetic; ``exact``: all alpha, exact
        ties; ``ties`` and ``grid``: the changes from one to the next.
    """
    rows = _rows(source.dataset, run)
    parts = []
    for names, require_2k in ((("F", "T", "Tu"), False), (("Fe",), True)):
        options: dict[str, Any] = {
            "min_samples": run.min_samples_ratio,
            "measures": names,
            "coefficients": (run.coefficient,),
            "require_2k": require_2k,
        }
        cells = correlation.correlate(rows, **options)
        keys = [*_KEYS, "n", "measure"]
        part = cells[keys].assign(published=cells["correlation"])
        part["exact_ties"] = correlation.correlate(rows, ties="exact", **options)["correlation"]
        part["exact"] = correlation.correlate(rows, alpha="exact", **options)["correlation"]
        parts.append(part)
    found = pd.concat(parts, ignore_index=True)
    found = found.astype(dict.fromkeys([*_KEYS, "measure"], "str"))
    return found.assign(
        ties=found["exact_ties"] - found["published"], grid=found["exact"] - found["exact_ties"]
    )


def _exact_causes(entry: Study, dataset: Dataset, run: Parameters) -> Result:
    cells = exact_cells(Source(dataset), run)
    if cells.empty:
        return _empty(entry, dataset, run)
    records, notes = [], []
    for measure in entry.measures:
        own = cells[cells["measure"] == measure].dropna(subset="published")
        for name in RANGES:
            part = own[own["segment"].map(range_of) == name]
            for cause, column in ((TIES, "ties"), (GRID, "grid")):
                if part.empty:
                    continue
                change = part[column].abs()
                worst = float(part.loc[change.idxmax(), column])
                lacking = (math.nan, math.nan)
                n, count = int(part["n"].sum()), len(part)
                records.append((measure_name(measure), name, cause, worst, *lacking, n, count, ""))
        if len(own):
            notes.append(_changes(measure, own))
    return _result(entry, dataset, run, pd.DataFrame(records, columns=list(COLUMNS)), notes)


def _changes(measure: str, cells: pd.DataFrame) -> str:
    ties, grid = cells["ties"], cells["grid"]
    lost, missed = ties < -CHANGED, grid > CHANGED
    return (
        f"{measure_name(measure)}: of {len(cells)} cells, float noise in ties had raised "
        f"{int(lost.sum())} (by up to {_number(-min(0.0, ties.min()))}) and lowered "
        f"{int((ties > CHANGED).sum())} (by up to {_number(max(0.0, ties.max()))}); the grid "
        f"missed the maximum in {int(missed.sum())} (by up to {_number(max(0.0, grid.max()))})."
    )


FIGURE_COLUMNS = (
    "figure",
    "shows",
    "cells",
    "changed",
    "largest_change",
    "where",
    "published",
    "exact",
    "n",
)
"""Columns of what exact ties change in the figures."""


def _exact_figures(entry: Study, dataset: Dataset, run: Parameters) -> Result:
    records = []
    for figure in (*catalogue.FIGURES.values(), *catalogue.EXTRAS):
        if figure.kind in ("narrow-wide", "correlation", "difference"):
            record = _changed_figure(figure, dataset, run)
            if record:
                records.append(record)
    numbers = pd.DataFrame(records, columns=list(FIGURE_COLUMNS))
    order = numbers["largest_change"].abs().sort_values(ascending=False, kind="stable").index
    numbers = numbers.loc[order]
    changed = numbers[numbers["changed"] > 0]
    told = (
        f"{len(changed)} of {len(numbers)} figures change in at least one cell; "
        f"{int(numbers['changed'].sum())} of {int(numbers['cells'].sum())} cells in all."
    )
    notes = [told] + [
        f"{row.figure}, {row.where}: {_number(row.published)} becomes {_number(row.exact)}."
        for row in changed.head(5).itertuples()
    ]
    return _result(entry, dataset, run, numbers, notes)


def _changed_figure(figure: Entry, dataset: Dataset, run: Parameters) -> tuple[Any, ...] | None:
    """Compare one figure's cells at the published and at the exact alpha; None without cells."""
    value = "difference" if figure.kind == "difference" else "correlation"
    keys = [*_KEYS, *(["measure"] if value == "correlation" else [])]
    old, new = (
        analysis.compute(figure, dataset, replace(run, alpha=alpha))
        for alpha in ("published", "exact")
    )
    if old.missing or old.numbers[value].isna().all():
        return None
    both = old.numbers.merge(new.numbers[[*keys, value]], on=keys, suffixes=("", "_exact"))
    change = (both[f"{value}_exact"] - both[value]).abs()
    worst = both.loc[change.idxmax()]
    where = f"{schema.embedding_label(worst['embedding'])} at {worst['segment']}"
    if value == "correlation":
        where += f", {measure_name(worst['measure'])}"
    name = figure.label if figure.number else f"{figure.label} ({figure.title})"
    return (
        name,
        figure.title,
        int(change.notna().sum()),
        int((change > CHANGED).sum()),
        float(worst[f"{value}_exact"] - worst[value]),
        where if not figure.dataset else f"{figure.dataset}, {where}",
        float(worst[value]),
        float(worst[f"{value}_exact"]),
        int(worst["n"]),
    )


# --- controls -----------------------------------------------------------------------------------

NO_CONTROLS = (
    "The data has no control answers (samples_controls.json): the same questions answered "
    "without documents, from random ones, and from the top K in reversed order. The pipeline "
    "makes them where its configuration asks for controls."
)


def control_pairs(dataset: Dataset, run: Parameters) -> pd.DataFrame | None:
    """Give graded rows beside their controls; None where the data has no controls."""
    if "controls" not in dataset.parts:
        return None
    rows = _rows(dataset, run)
    given = dataset.read("controls", ["id", "E", "Nc", "Np", "K", "control", "grade"])
    pairs = controls.pair(given, rows)
    ranges = pairs["segment"].astype(str).map(range_of) if len(pairs) else ""
    return pairs.assign(range=ranges, dataset=pairs["dataset"].astype(str))


def _controls_gain(entry: Study, dataset: Dataset, run: Parameters) -> Result:
    pairs = control_pairs(dataset, run)
    if pairs is None:
        return _missing(entry, dataset, run, NO_CONTROLS)
    if pairs.empty:
        return _missing(entry, dataset, run, "No control answer belongs to a graded row.")
    by = ("dataset", "range", "control")
    found = controls.summarise(pairs, by, replicates=CELL_REPLICATES, seed=run.seed)
    numbers = found.rename(
        columns={"dataset": "panel", "range": "position", "control": "series", "gain": "value"}
    )
    segments_of = pairs.groupby(list(by), observed=True)["segment"].nunique()
    index = pd.MultiIndex.from_frame(found[list(by)])
    numbers["cells"] = segments_of.reindex(index).to_numpy()
    numbers["series"] = numbers["series"].map(controls.KINDS)
    order = {kind: i for i, kind in enumerate(controls.KINDS.values())}
    numbers = numbers.sort_values("series", key=lambda kinds: kinds.map(order), kind="stable")
    total = controls.summarise(pairs, ("control",), replicates=CELL_REPLICATES, seed=run.seed)
    notes = [
        f"Against {controls.KINDS[row.control]}: {_number(row.grade)} with the top K, "
        f"{_number(row.grade_control)} with the control, a gain of "
        f"{_with_interval(row.gain, row.low, row.high)} (n = {row.n:,}, {row.queries:,} queries)."
        for row in total.itertuples()
        if not row.reason
    ]
    return _result(entry, dataset, run, _ordered(numbers), notes)


def _controls_correlation(entry: Study, dataset: Dataset, run: Parameters) -> Result:
    pairs = control_pairs(dataset, run)
    if pairs is None:
        return _missing(entry, dataset, run, NO_CONTROLS)
    alone = pairs[pairs["control"] == "none"]
    if alone.empty or alone["gain"].notna().sum() < run.min_samples_ratio:
        why = (
            f"{int(alone['gain'].notna().sum())} rows have a grade with the top K and one without "
            f"documents, fewer than {run.min_samples_ratio}."
        )
        return _missing(entry, dataset, run, why)
    cells = evidence.gather(
        alone,
        min_samples=run.min_samples_ratio,
        measures=entry.measures,
        coefficient=run.coefficient,
        alpha=evidence.FALLBACK_ALPHA,
        grade="gain",
        replicates=REPLICATES,
        seed=run.seed,
    )
    if cells.frame.empty:
        why = f"No segment has {run.min_samples_ratio} rows with both grades."
        return _missing(entry, dataset, run, why)
    numbers = pool(cells, {name: cells.values[name] for name in entry.measures})
    means = numbers.groupby("series", sort=False)["value"].mean()
    told = ", ".join(f"{measure_name(str(n))} {_number(v)}" for n, v in means.items())
    return _result(entry, dataset, run, numbers, [f"Averaged over ranges and datasets: {told}."])


# --- data, ratio or embedding -------------------------------------------------------------------

QUANTITIES: dict[str, tuple[str, ...]] = {
    "mean grade": (),
    "correlation of T": ("T",),
    "T minus F": ("T", "F"),
    "nDCG minus F": ("nDCG", "F"),
    "T minus nDCG": ("T", "nDCG"),
    "T_u minus T": ("Tu", "T"),
    "F_e minus F": ("Fe", "F"),
}
"""What is decomposed: the grade, a measure's correlation, or the difference of two."""


def _attribution(entry: Study, dataset: Dataset, run: Parameters) -> Result:
    records, notes = [], []
    for quantity, names in QUANTITIES.items():
        two_k = "Fe" in names
        cells = _evidence(dataset, run, _BASE_2K if two_k else _BASE, require_2k=two_k)
        found = _shares(cells, names)
        if isinstance(found, str):
            notes.append(f"{quantity}: {found}")
            continue
        sample, support, n = found
        for i, part in enumerate(attribution.PARTS):
            ends = interval(sample[1:, i])
            records.append((quantity, part, "", sample[0, i], *ends, n, support.n_cells, ""))
        by = dict(zip(attribution.PARTS, sample[0], strict=True))
        told = ", ".join(f"{name} {share:.0%}" for name, share in by.items())
        notes.append(
            f"{quantity}: {told} ({len(support.datasets)} datasets, {len(support.ratios)} ratios "
            f"and {len(support.embeddings)} embeddings: {support.n_cells} of "
            f"{support.n_total} segments)."
        )
    numbers = pd.DataFrame(records, columns=list(COLUMNS))
    if numbers.empty:
        return _missing(entry, dataset, run, " ".join(notes))
    return _result(entry, dataset, run, numbers, notes, (0.0, 1.0))


def _shares(
    cells: Cells, names: tuple[str, ...]
) -> tuple[FloatArray, attribution.Support, int] | str:
    """Shares on the data and each replicate, or why there are none."""
    values = cells.grade
    if names:
        values = cells.difference(*names) if len(names) == 2 else cells.values[names[0]]
    kept = np.flatnonzero(~np.isnan(values).any(axis=0))
    frame = cells.frame.iloc[kept].astype(dict.fromkeys(_KEYS, "str"))
    if frame.empty:
        return "no segment is defined in the data and in every replicate."
    support = attribution.common_support(frame)
    shape = (len(support.datasets), len(support.ratios), len(support.embeddings))
    if min(shape, default=0) < 2:
        return (
            f"too small a grid to tell ({shape[0]} datasets, {shape[1]} ratios and {shape[2]} "
            "embeddings in common; two of each are needed)."
        )
    places = kept[support.positions(frame)]
    sample = attribution.shares(values[:, places])
    if np.isnan(sample[0]).any():
        return "it is the same in every segment, so there is no variation to share out."
    n = int(cells.frame["n"].to_numpy()[places].sum())
    return sample, support, n


# --- which measure ------------------------------------------------------------------------------

_ALL = ("T", "P", "nDCG", "hit", "RR", "F", "R", "F1", "AP", "nDCG_usual")
BOARD_COLUMNS = (*COLUMNS, "level")
"""Columns of the advice: ``series`` is the best measure, ``level`` those not told from it."""


def _free(names: Sequence[str]) -> list[str]:
    """Those that need no N_p."""
    return [name for name in names if not MEASURES[name].needs_relevant]


def _samples(
    cells: Cells, names: Sequence[str], group: NDArray[np.bool_]
) -> tuple[dict[str, FloatArray], NDArray[np.bool_]]:
    """Mean correlations of the measures that are defined wherever precision is, and the cells."""
    which = group & steady(cells.values["P"])
    whole = [name for name in names if which.any() and steady(cells.values[name])[which].all()]
    return {name: _over(cells.values[name], which) for name in whole}, which


def _best(samples: dict[str, FloatArray]) -> tuple[str, list[str]]:
    """Give the measure with the highest mean, and those whose difference to it may be 0."""
    best = max(samples, key=lambda name: samples[name][0])
    level = []
    for name, sample in samples.items():
        low, _ = interval((samples[best] - sample)[1:])
        if name != best and not low > 0:
            level.append(name)
    return best, level


def _which_measure(entry: Study, dataset: Dataset, run: Parameters) -> Result:
    cells = _evidence(dataset, run, _ALL)
    records = []
    for name, range_, group in _groups(cells):
        samples, which = _samples(cells, entry.measures, group)
        n, count = int(cells.frame["n"].to_numpy()[which].sum()), int(which.sum())
        if not samples:
            lacking = (math.nan, math.nan, math.nan)
            reason = "no measure is defined"
            records.append((name, range_, "", *lacking, n, count, reason, ""))
            continue
        best, level = _best(samples)
        value = samples[best]
        told = ", ".join(level)
        records.append((name, range_, best, value[0], *interval(value[1:]), n, count, "", told))
    numbers = pd.DataFrame(records, columns=list(BOARD_COLUMNS))
    notes = [*_advice(numbers), *_coincide(cells, entry.measures)]
    return _result(entry, dataset, run, numbers, notes)


def _advice(numbers: pd.DataFrame) -> list[str]:
    """Say for each range which measures are best, or level with it, in how many datasets."""
    said = []
    for name, part in numbers[numbers["reason"] == ""].groupby("position", sort=False):
        sets = [{row.series, *filter(None, row.level.split(", "))} for row in part.itertuples()]
        counts = {
            measure: sum(measure in among for among in sets)
            for measure in dict.fromkeys(m for among in sets for m in sorted(among))
        }
        most = max(counts.values())
        first = [measure_name(m) for m, count in counts.items() if count == most]
        clear = int((part["level"] == "").sum())
        winner = "one has" if clear == 1 else f"{clear or 'none'} {'have' if clear else 'has'}"
        said.append(
            f"K/N_p {name}: {', '.join(first)} {'is' if len(first) == 1 else 'are'} best or level "
            f"with the best in {most} of {len(part)} datasets; {winner} a clear winner."
        )
    return said


def _which_courses(entry: Study, dataset: Dataset, run: Parameters) -> Result:
    cells = _evidence(dataset, run, _ALL)
    numbers = pool(cells, {name: cells.values[name] for name in entry.measures})
    return _result(entry, dataset, run, numbers, _coincide(cells, entry.measures))


ALL_COLUMNS = (
    "dataset",
    "range",
    "best",
    "correlation",
    "level",
    "best_without_Np",
    "behind",
    "low",
    "high",
    "n",
    "cells",
)
"""Columns of the best of all measures; ``behind`` is what the best without N_p lacks."""


def _which_all(entry: Study, dataset: Dataset, run: Parameters) -> Result:
    cells = _evidence(dataset, run, _ALL)
    records = []
    for name, range_, group in _groups(cells):
        samples, which = _samples(cells, entry.measures, group)
        free = {measure: samples[measure] for measure in _free(list(samples))}
        if not free:
            continue
        best, level = _best(samples)
        without, _ = _best(free)
        behind = samples[best] - samples[without]
        named = ", ".join(measure_name(measure) for measure in level)
        records.append(
            (
                name,
                range_,
                measure_name(best),
                samples[best][0],
                named,
                measure_name(without),
                behind[0],
                *interval(behind[1:]),
                int(cells.frame["n"].to_numpy()[which].sum()),
                int(which.sum()),
            )
        )
    numbers = pd.DataFrame(records, columns=list(ALL_COLUMNS))
    if numbers.empty:
        return _empty(entry, dataset, run)
    none = int((numbers["low"] <= 0).sum())
    told = (
        f"In {none} of {len(numbers)} ranges and datasets a measure that needs no N_p is best or "
        f"cannot be told from the best; elsewhere it is behind by "
        f"{_number(numbers['behind'].max())} at most."
    )
    return _result(entry, dataset, run, numbers, [told])


STUDIES: dict[str, Callable[[Study, Any, Parameters], Result]] = {
    "recall-predicts": _recall_predicts,
    "recall-difference": _recall_difference,
    "recall-kept": _recall_kept,
    "recall-across": _recall_across,
    "intervals": _marked,
    "alpha-curves": _alpha_curves,
    "alpha-optimism": _alpha_optimism,
    "alpha-pick": _alpha_pick,
    "exact-causes": _exact_causes,
    "exact-figures": _exact_figures,
    "controls-gain": _controls_gain,
    "controls-correlation": _controls_correlation,
    "attribution": _attribution,
    "which-measure": _which_measure,
    "which-courses": _which_courses,
    "which-all": _which_all,
}
"""What works out each topic."""
