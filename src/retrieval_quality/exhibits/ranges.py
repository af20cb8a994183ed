"""Values with intervals: a panel a dataset, a group a range of K/N_p, a mark a series.

Most studies have this shape (`COLUMNS`). Values of single segments are averaged over the embeddings
and over the segments of a range (`RANGES`); intervals come from replicates in which all segments
are resampled together.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from retrieval_quality.data import schema
from retrieval_quality.exhibits.cells import scored_rows, select, why_none
from retrieval_quality.exhibits.drawing import (
    PANEL,
    as_is,
    draw_legend,
    lay_out_panels,
    series_label,
    series_marks,
)
from retrieval_quality.exhibits.exhibit import Checks, Result, Study, values_held
from retrieval_quality.exhibits.words import decimal, measure_name, n_range
from retrieval_quality.measures import MEASURES
from retrieval_quality.measures.segments import RANGES, range_of
from retrieval_quality.parameters import Parameters
from retrieval_quality.statistics import bootstrap, evidence
from retrieval_quality.statistics.counts import FloatArray
from retrieval_quality.statistics.evidence import Cells, steady

if TYPE_CHECKING:
    from retrieval_quality.data.dataset import Dataset

REPLICATES = 400
"""Bootstrap replicates of means over segments."""
CELL_REPLICATES = 2000
"""Bootstrap replicates of single segments."""
LEVEL = 0.95

COLUMNS = ("panel", "position", "series", "value", "low", "high", "n", "cells", "reason")
"""Columns of a study's numbers: n graded rows in that many segments."""

PAPER = ("F", "nDCG", "T", "Tu", "P", "R")
"""Measures that are gathered together."""
PAPER_2K = ("F", "Fe", "R", "P")
"""Those that are gathered on the rows whose 2K row exists."""
EVERY = ("T", "P", "nDCG", "hit", "RR", "F", "R", "F1", "AP", "nDCG_usual")
_STEP = 0.1


@dataclass(frozen=True)
class StudyOfCells(Study):
    """A study of graded rows: says so where there are none, or too few in every segment."""

    def compute(self, dataset: Dataset, parameters: Parameters | None = None) -> Result:
        """Compute its numbers; see `Exhibit.compute`."""
        run = parameters or Parameters()
        if scored_rows(dataset, run).empty:
            why = "The data has no graded rows of what was asked for."
            return self._nothing(dataset, run, why)
        return self._numbers(dataset, run)

    def _none_large_enough(self, dataset: Dataset, run: Parameters) -> Result:
        selected = select(run, (), (), require_2k=self.require_2k)
        return self._nothing(dataset, run, why_none(dataset, run, selected, self.dataset))

    def _shown(
        self,
        dataset: Dataset,
        run: Parameters,
        numbers: pd.DataFrame,
        notes: Sequence[str] = (),
        limits: tuple[float, float] | None = None,
    ) -> Result:
        """Put numbers into a result; without any row it says why."""
        if numbers.empty:
            return self._none_large_enough(dataset, run)
        n = int(numbers["n"].max()) if "n" in numbers else 0
        if limits is None and {"low", "high", "value"} <= set(numbers):
            limits = scale_of(numbers)
        return self._result(
            dataset,
            run,
            numbers.reset_index(drop=True),
            coefficient=run.coefficient,
            n=n,
            limits=limits,
            notes=notes,
        )


@dataclass(frozen=True)
class RangeStudy(StudyOfCells):
    """Values with their intervals by range of K/N_p, drawn."""

    columns: ClassVar[tuple[str, ...]] = COLUMNS

    def _picture(self, result: Result) -> Figure:
        """Draw values with their intervals: a panel a dataset, a group a range, a mark a series."""
        numbers = result.numbers
        names, series = list(numbers["panel"].unique()), list(numbers["series"].unique())
        positions = [p for p in positions_of(numbers) if p in set(numbers["position"])]
        rows = 2 if max(map(len, series)) > 18 else 1
        sheet, panels = lay_out_panels(result, names, 0.78 + 0.2 * rows)
        marks = series_marks(series)
        spread = 0.68 / max(1, len(series) - 1) if len(series) > 1 else 0.0
        for axes, name in zip(panels, names, strict=True):
            part = numbers[numbers["panel"] == name]
            for i, one in enumerate(series):
                offset = (i - (len(series) - 1) / 2) * spread
                points = part[part["series"] == one].dropna(subset="value")
                x = np.array([positions.index(p) for p in points["position"]]) + offset
                ends = points[["low", "high"]].to_numpy(dtype=float).T
                axes.vlines(x, *ends, color=marks[one]["color"], linewidth=1.1, zorder=2)
                axes.plot(
                    x, points["value"], linestyle="none", zorder=3, clip_on=False, **marks[one]
                )
            label_positions(axes, part, positions)
        handles = [Line2D([], [], linestyle="none", **marks[one]) for one in series]
        draw_legend(sheet, handles, [series_label(one) for one in series], 0.52)
        return sheet.figure

    def _held(self, result: Result) -> Checks:
        return values_held(result)

    def _told(self, result: Result) -> str:
        numbers, what = result.numbers, self.values_named(result)
        panels = numbers["panel"].nunique()
        known = numbers.dropna(subset="value")
        if known.empty:
            return f"{panels} panels of {what}; nothing is defined."
        ends = []
        for name, part in known.groupby("series", sort=False):
            low, high = (decimal(v) for v in (part["value"].min(), part["value"].max()))
            ends.append(
                f"{measure_name(name) if name in MEASURES else name or 'values'} {low} to {high}"
            )
        lacking = len(numbers) - len(known)
        undefined = f" {lacking} of {len(numbers)} values are undefined." if lacking else ""
        sizes = n_range(known["n"])
        return f"{panels} panels of {what}: {'; '.join(ends)}. {sizes} rows a value.{undefined}"


def measured(
    dataset: Dataset, run: Parameters, measures: Sequence[str], require_2k: bool = False
) -> Cells:
    """Give every cell's correlations at an α of the other datasets, with replicates."""
    return _measured(
        dataset,
        run.embeddings,
        run.datasets,
        run.min_samples_ratio,
        run.coefficient,
        run.seed,
        tuple(measures),
        require_2k,
    )


@lru_cache(maxsize=4)
def _measured(
    dataset: Dataset,
    embeddings: tuple[str, ...],
    datasets: tuple[str, ...],
    min_samples: int,
    coefficient: str,
    seed: int,
    measures: tuple[str, ...],
    require_2k: bool,
) -> Cells:
    return evidence.gather(
        scored_rows(dataset, Parameters(embeddings=embeddings, datasets=datasets)),
        min_samples=min_samples,
        measures=measures,
        require_2k=require_2k,
        coefficient=coefficient,
        replicates=REPLICATES,
        seed=seed,
    )


def scale_of(numbers: pd.DataFrame) -> tuple[float, float]:
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


def mean_over(values: FloatArray, which: NDArray[np.bool_]) -> FloatArray:
    """Average over some cells, for the data and each replicate."""
    chosen = values[:, which]
    known = ~np.isnan(chosen)
    count = known.sum(axis=1)
    total = np.where(known, chosen, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def groups_of(cells: Cells) -> list[tuple[str, str, NDArray[np.bool_]]]:
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
    for dataset, name, group in groups_of(cells):
        for series, array in values.items():
            which = group & steady(array)
            n = int(cells.frame["n"].to_numpy()[which].sum())
            sample = mean_over(array, which)
            reason = "" if which.any() else "undefined in every segment"
            records.append(
                (dataset, name, series, sample[0], *interval(sample[1:]), n, which.sum(), reason)
            )
    return pd.DataFrame(records, columns=list(COLUMNS))


def averaged(cells: pd.DataFrame, value: str = "correlation") -> pd.DataFrame:
    """Average a tidy table of cells (with a column ``series``) by dataset, range and series."""
    cells = cells.assign(
        panel=cells["dataset"].astype(str), position=cells["segment"].astype(str).map(range_of)
    )
    keys = ["panel", "position", "series"]
    grouped = cells.groupby(keys, sort=False, observed=True)
    numbers = grouped.agg(value=(value, "mean"), n=("n", "sum"), cells=(value, "count"))
    numbers = numbers.reset_index().assign(low=math.nan, high=math.nan)
    numbers["reason"] = np.where(numbers["value"].isna(), "undefined in every segment", "")
    return ordered(numbers)


def ordered(numbers: pd.DataFrame) -> pd.DataFrame:
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


def that_coincide(cells: Cells, names: Sequence[str]) -> list[str]:
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


def comparable(
    cells: Cells, names: Sequence[str], group: NDArray[np.bool_]
) -> tuple[dict[str, FloatArray], NDArray[np.bool_]]:
    """Mean correlations of measures on the cells in which all of them are defined, and those cells.

    A measure that is undefined in more than half of the cells is left out, rather than the cells.
    """
    which = group & steady(cells.values["P"])
    if not which.any():
        return {}, which
    whole = [name for name in names if steady(cells.values[name])[which].mean() >= 0.5]
    for name in whole:
        which = which & steady(cells.values[name])
    if not which.any():
        return {}, which
    return {name: mean_over(cells.values[name], which) for name in whole}, which


def positions_of(numbers: pd.DataFrame) -> list[str]:
    """Give the positions from left to right: ranges of K/N_p in order, others as they come."""
    ranges = set(numbers["position"]) <= set(RANGES)
    return list(RANGES) if ranges else list(numbers["position"].unique())


def label_positions(axes: Axes, part: pd.DataFrame, positions: Sequence[str]) -> None:
    """Label each group and, below it, the rows that it rests on."""
    axes.set(xlim=(-0.5, len(positions) - 0.5), xticks=range(len(positions)))
    axes.set_xticklabels([textwrap.fill(as_is(name), 10) for name in positions])
    axes.tick_params(axis="x", length=0)
    for edge in np.arange(0.5, len(positions) - 1):
        axes.axvline(edge, color="#ececec", linewidth=0.8, zorder=0)
    lines = max(textwrap.fill(name, 10).count("\n") for name in positions)
    y = -(0.24 + 0.12 * lines) / PANEL[1]
    below: dict[str, Any] = {"ha": "center", "va": "top", "size": 6, "color": "#595959"}
    for i, name in enumerate(positions):
        sizes = part.loc[part["position"] == name, "n"]
        text = f"n {sizes.max():,}" if len(sizes) else "none"
        axes.text(i, y, text, transform=axes.get_xaxis_transform(), **below)
