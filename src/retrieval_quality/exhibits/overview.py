"""The picture of the first page: how well measures follow the grade, over the ratio."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from retrieval_quality.exhibits.drawing import (
    as_is,
    draw_legend,
    lay_out_panels,
    series_label,
    series_marks,
)
from retrieval_quality.exhibits.exhibit import Result
from retrieval_quality.exhibits.ranges import (
    COLUMNS,
    EVERY,
    RangeStudy,
    groups_of,
    interval,
    label_positions,
    mean_over,
    measured,
    positions_of,
    scale_of,
)
from retrieval_quality.exhibits.words import decimal, measure_name
from retrieval_quality.measures.segments import RANGES
from retrieval_quality.parameters import Parameters
from retrieval_quality.statistics.evidence import Cells, steady

if TYPE_CHECKING:
    from retrieval_quality.data.dataset import Dataset

PANEL_NAME = "all datasets, by K/N_p"
TOGETHER = 5e-4
"""Correlations that are less than this apart are drawn as one."""


@dataclass(frozen=True)
class Overview(RangeStudy):
    """Mean correlation by range of K/N_p over all datasets, every dataset with the same weight."""

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        cells = measured(dataset, run, EVERY)
        numbers = over_datasets(cells, self.measures)
        if numbers.empty:
            return self._none_large_enough(dataset, run)
        low, high = scale_of(numbers)
        limits = (low, round(high + 0.1, 2))  # room for what is written above the marks
        return self._shown(dataset, run, numbers, takeaway(numbers), limits)

    def _picture(self, result: Result) -> Figure:
        """Draw a line a measure with its intervals; where P and T coincide it says so."""
        numbers = result.numbers
        series = list(numbers["series"].unique())
        positions = [p for p in positions_of(numbers) if p in set(numbers["position"])]
        sheet, (axes,) = lay_out_panels(result, list(numbers["panel"].unique()), 0.98)
        marks = series_marks(series)
        for i, one in enumerate(series):
            points = numbers[numbers["series"] == one].dropna(subset="value")
            offset = (i - (len(series) - 1) / 2) * 0.1
            x = np.array([positions.index(p) for p in points["position"]]) + offset
            low, high = points["low"].to_numpy(float), points["high"].to_numpy(float)
            axes.vlines(x, low, high, color=marks[one]["color"], linewidth=1.1, zorder=2)
            axes.plot(x, points["value"], linewidth=0.9, zorder=3, clip_on=False, **marks[one])
        table = numbers.pivot(index="position", columns="series", values="value")
        if {"P", "T"} <= set(table):
            for i, place in enumerate(positions):
                p, t = table.loc[place, "P"], table.loc[place, "T"]
                if abs(p - t) < TOGETHER:
                    text = as_is("P = T")
                    axes.annotate(
                        text, (i, max(p, t)), (0, 9), textcoords="offset points", ha="center",
                        size=6.5, color="#404040",
                    )  # fmt: skip
        label_positions(axes, numbers, positions)
        handles = [Line2D([], [], **marks[one]) for one in series]
        draw_legend(sheet, handles, [series_label(one) for one in series], 0.52)
        return sheet.figure


def over_datasets(cells: Cells, names: tuple[str, ...]) -> pd.DataFrame:
    """Average correlations over the datasets, for each range of K/N_p.

    Parameters
    ----------
    cells : Cells
        Correlations of every cell with their replicates.
    names : tuple of str
        Measures.

    Returns
    -------
    DataFrame
        `COLUMNS`; a dataset is the mean of its cells in the range and counts once, whatever its
        size. NaN with a reason where no dataset has a value.
    """
    groups = groups_of(cells)
    n = cells.frame["n"].to_numpy()
    records = []
    for name in (name for name in RANGES if any(range_ == name for _, range_, _ in groups)):
        parts = [group for _, range_, group in groups if range_ == name]
        for measure in names:
            values = cells.values[measure]
            stable = steady(values)
            used = [part & stable for part in parts if (part & stable).any()]
            if not used:
                row = (math.nan, math.nan, math.nan, 0, 0, "undefined in every segment")
            else:
                sample = np.mean([mean_over(values, which) for which in used], axis=0)
                which = np.logical_or.reduce(used)
                row = (sample[0], *interval(sample[1:]), int(n[which].sum()), int(which.sum()), "")
            records.append((PANEL_NAME, name, measure, *row))
    return pd.DataFrame(records, columns=list(COLUMNS))


def takeaway(numbers: pd.DataFrame) -> list[str]:
    """Say in one or two sentences what the picture shows of T beside F and nDCG."""
    table = numbers.pivot(index="position", columns="series", values="value")
    said = []
    for other in ("F", "nDCG"):
        if not {"T", other} <= set(table):
            continue
        gap = (table["T"] - table[other]).dropna()
        if gap.empty:
            continue
        largest, where = gap.abs().max(), gap.abs().idxmax()
        if largest < TOGETHER * 10:
            said.append(f"T and {measure_name(other)} have the same correlation in every range.")
            continue
        side = "above" if gap[where] > 0 else "below"
        said.append(
            f"T is at most {decimal(largest)} away from {measure_name(other)}, "
            f"{side} it at K/N_p {where}."
        )
    return said
