"""Which measure to watch: the board of advice, courses by ratio, and the best of all."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from retrieval_quality.data import schema
from retrieval_quality.exhibits.drawing import HATCH, MARKS, Sheet, as_is, series_label
from retrieval_quality.exhibits.exhibit import Result, StudyTable
from retrieval_quality.exhibits.ranges import (
    COLUMNS,
    EVERY,
    RangeStudy,
    StudyOfCells,
    comparable,
    groups_of,
    interval,
    measured,
    pool,
    that_coincide,
)
from retrieval_quality.exhibits.words import decimal, measure_name, number, of_all, short
from retrieval_quality.measures import MEASURES
from retrieval_quality.measures.segments import RANGES
from retrieval_quality.parameters import Parameters
from retrieval_quality.statistics.counts import FloatArray

if TYPE_CHECKING:
    from retrieval_quality.data.dataset import Dataset

_BOX = (1.06, 0.62)
"""Width and height of a cell of the board, in inches."""
NOT_EQUAL = "Not told apart is not equal: these data cannot show which is ahead, and others may."
_SMALL: dict[str, Any] = {"ha": "center", "va": "center", "size": 7, "color": "#404040"}


@dataclass(frozen=True)
class WhichMeasure(RangeStudy):
    """The measure to watch by dataset and range: the best, and those not told from it."""

    columns = (*COLUMNS, "level")

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        cells = measured(dataset, run, EVERY)
        records = []
        for name, range_, group in groups_of(cells):
            samples, which = comparable(cells, self.measures, group)
            n, count = int(cells.frame["n"].to_numpy()[which].sum()), int(which.sum())
            if not samples:
                lacking = (math.nan, math.nan, math.nan)
                reason = "no measure is defined"
                records.append((name, range_, "", *lacking, n, count, reason, ""))
                continue
            best, level = best_and_level(samples)
            value = samples[best]
            told = ", ".join(level)
            records.append((name, range_, best, value[0], *interval(value[1:]), n, count, "", told))
        numbers = pd.DataFrame(records, columns=list(self.columns))
        notes = [*_advice(numbers), NOT_EQUAL, *that_coincide(cells, self.measures)]
        return self._shown(dataset, run, numbers, notes)

    def _picture(self, result: Result) -> Figure:
        """Draw a grid of datasets by ranges: the measure to watch, and what is level with it."""
        numbers = result.numbers
        names = list(numbers["panel"].unique())
        ranges = [name for name in RANGES if name in set(numbers["position"])]
        wide, deep = _BOX
        left, top = 1.15, 1.02
        width = max(left + wide * len(ranges) + 0.15, 5.2)
        sheet = Sheet(result, width, top + deep * len(names) + 0.32)
        axes = sheet.axes(left, top, wide * len(ranges), deep * len(names))
        axes.set(xlim=(0, len(ranges)), ylim=(len(names), 0), xticks=[])
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        axes.set_yticks(np.arange(len(names)) + 0.5, [_row_title(name) for name in names])
        for i, name in enumerate(ranges):
            axes.text(i + 0.5, -0.08, name, ha="center", va="bottom", weight="bold", size=8)
        sheet.text(left, top - 0.42, "$K/N_p$ of your retrievals", size=8, color="#404040")
        places = {(row.panel, row.position): row for row in numbers.itertuples()}
        for y, name in enumerate(names):
            for x, position in enumerate(ranges):
                _draw_advice(axes, (x, y), places.get((name, position)))
        told = (
            "coloured: all others are behind it with their whole interval; grey: some are not "
            f"told from it, or its own interval reaches 0; number: {self.values_named(result)}"
        )
        filled = textwrap.fill(told, int(width / 0.062))
        sheet.text(0.1, sheet.height - 0.06, filled, va="bottom", size=7, color="#595959")
        return sheet.figure

    def _told(self, result: Result) -> str:
        known = result.numbers.dropna(subset="value")
        if known.empty:
            return super()._told(result)
        cells = [
            f"{row.panel} at {row.position}: {measure_name(row.series)} {decimal(row.value)}"
            + (f", level with it {row.level}" if row.level else ", alone")
            for row in known.itertuples()
        ]
        return f"Grid of advice by dataset and K/N_p. {'; '.join(cells)}."


@dataclass(frozen=True)
class WhichCourses(RangeStudy):
    """Old and new measures by ratio."""

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        cells = measured(dataset, run, EVERY)
        numbers = pool(cells, {name: cells.values[name] for name in self.measures})
        return self._shown(dataset, run, numbers, that_coincide(cells, self.measures))


@dataclass(frozen=True)
class WhichAll(StudyTable, StudyOfCells):
    """The best of all measures; ``behind`` is what the best without N_p lacks."""

    columns = (
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

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        cells = measured(dataset, run, EVERY)
        records = []
        for name, range_, group in groups_of(cells):
            samples, which = comparable(cells, self.measures, group)
            free = {measure: samples[measure] for measure in without_np(list(samples))}
            if not free:
                continue
            best, level = best_and_level(samples)
            without, _ = best_and_level(free)
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
        numbers = pd.DataFrame(records, columns=list(self.columns))
        if numbers.empty:
            return self._none_large_enough(dataset, run)
        none = int((numbers["low"] <= 0).sum())
        told = (
            f"In {none} of {len(numbers)} ranges and datasets a measure that needs no N_p is "
            "best or "
            f"cannot be told from the best; elsewhere it is behind by "
            f"{number(numbers['behind'].max())} at most."
        )
        return self._shown(dataset, run, numbers, [told])


def without_np(names: Sequence[str]) -> list[str]:
    """Those that need no N_p."""
    return [name for name in names if not MEASURES[name].needs_relevant]


def best_and_level(samples: dict[str, FloatArray]) -> tuple[str, list[str]]:
    """Give the measure with the highest mean, and those whose difference to it may be 0.

    Of measures that coincide on the data and in every replicate the simplest is given: the one
    without alpha, without N_p and without the order of the retrieved.
    """
    best = max(samples, key=lambda name: samples[name][0])
    alike = [name for name in samples if np.array_equal(samples[name], samples[best], True)]
    best = min(alike, key=_effort)
    level = []
    for name, sample in samples.items():
        low, _ = interval((samples[best] - sample)[1:])
        if name != best and not low > 0:
            level.append(name)
    return best, level


def _effort(name: str) -> tuple[bool, bool, bool, int]:
    """Order measures by what they ask for, less first."""
    measure = MEASURES[name]
    needs_order = "pattern" in measure.columns
    return measure.needs_relevant, measure.has_alpha, needs_order, len(measure.columns)


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
        clear = sum(not row.level and not _may_be_none(row) for row in part.itertuples())
        alone = "one" if clear == 1 else of_all(clear, len(part))
        said.append(
            f"K/N_p {name}: {', '.join(first)} {'is' if len(first) == 1 else 'are'} best, or not "
            f"told from the best, in {of_all(most, len(part), 'dataset')}; "
            f"alone and above 0 in {alone}."
        )
    return said


def _row_title(name: str) -> str:
    full = schema.DATASETS.get(name, "")
    return f"{as_is(name)}\n{textwrap.fill(as_is(full), 16)}" if full else as_is(name)


def _draw_advice(axes: Axes, place: tuple[int, int], cell: Any) -> None:
    x, y = place
    if cell is None or cell.reason:
        axes.add_patch(Rectangle((x, y), 1, 1, **HATCH))
        axes.text(x + 0.5, y + 0.5, "too few rows" if cell is None else "undefined", **_SMALL)
        return
    clear = not cell.level and not _may_be_none(cell)
    colour = MARKS.get(cell.series, ("", "#3a3a3a"))[1]
    shade = _tint(colour) if clear else "#f0f0f0"
    axes.add_patch(Rectangle((x, y), 1, 1, fc=shade, ec="white", lw=2))
    said = (
        f"{series_label(cell.series)}  {short(cell.value)}" if cell.value > 0 else "none to watch"
    )
    strong: dict[str, Any] = {"ha": "center", "va": "center", "size": 10}
    axes.text(x + 0.5, y + 0.3, said, weight="bold" if clear else "normal", **strong)
    axes.text(x + 0.5, y + 0.6, _below(cell), **_SMALL)
    axes.text(x + 0.5, y + 0.84, f"n {cell.n:,}", **{**_SMALL, "size": 6})


def _below(cell: Any) -> str:
    """Say below the measure what it is not told from, or whether it may be worth nothing."""
    if not cell.value > 0:
        return "all are at or below 0"
    if _may_be_none(cell):
        return "its interval reaches 0"
    level = ", ".join(series_label(name) for name in cell.level.split(", ") if name)
    return f"not told from it: {level}" if level else "all others behind"


def _may_be_none(cell: Any) -> bool:
    """Whether the correlation of the best may be 0 or less."""
    return not (cell.value > 0 and cell.low > 0)


def _tint(colour: str) -> tuple[float, ...]:
    """Mix a colour with white, so that dark text stands out on it."""
    return tuple(1 - 0.35 * (1 - part) for part in mpl.colors.to_rgb(colour))
