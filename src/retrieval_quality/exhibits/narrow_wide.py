"""Correlations on narrow and wide segments (Figures 5 and 23 to 25)."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from retrieval_quality.data import schema
from retrieval_quality.exhibits.cells import (
    correlations,
    select,
    sizes_of_segments,
    step_below,
    why_none,
    with_small_segments,
)
from retrieval_quality.exhibits.drawing import (
    GREY,
    HEADER,
    MARKS,
    Sheet,
    as_is,
    embedding_tick,
    grid_of,
    label_room,
    symbol,
)
from retrieval_quality.exhibits.exhibit import Checks, Exhibit, Result
from retrieval_quality.exhibits.heatmap import correlation_checks, correlation_result
from retrieval_quality.exhibits.words import (
    at_alpha,
    counted,
    lowest_and_highest,
    measure_name,
    n_range,
    number,
    rows_a_cell,
    signed_in_full,
    without_value,
)
from retrieval_quality.measures.segments import segment_order
from retrieval_quality.parameters import COEFFICIENTS, Parameters
from retrieval_quality.statistics import correlation
from retrieval_quality.text import line as one_line

if TYPE_CHECKING:
    from retrieval_quality.data.dataset import Dataset

_OTHER_MARKS = (("s", "#009e73"), ("v", "#cc79a7"), ("P", "#e69f00"), ("X", "#56b4e9"))
_WIDTH_TITLES = {"narrow": "narrow: $K < N_p$", "wide": "wide: $K \\geq N_p$"}


@dataclass(frozen=True)
class NarrowWide(Exhibit):
    """A row of panels for each dataset, narrow left and wide right; a line for each embedding."""

    kind = "narrow-wide"
    columns = correlation.COLUMNS
    value = "correlation"
    uses = ("min_samples_width", "embeddings", "datasets", "alpha")

    @property
    def title(self) -> str:
        """What it shows."""
        return f"Narrow and wide segments: {COEFFICIENTS[self.coefficient]} with the grade"

    def caption(self, parameters: Parameters | None = None) -> str:
        """Say what is drawn."""
        run = parameters or Parameters()
        names = [measure_name(measure) for measure in self.measures]
        return (
            f"{COEFFICIENTS[self.coefficient]} of {', '.join(names[:-1])} and {names[-1]} with the "
            "response grade on narrow (K < N_p) and wide (K ≥ N_p) segments of each dataset and "
            f"embedding; {at_alpha(self.measures, run.alpha)}. Segments of fewer than "
            f"{run.min_samples_width} graded rows are left out."
        )

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        """Correlate in all datasets; one scale for all coefficients."""
        selected = select(run, self.measures, COEFFICIENTS, segmentation="narrow-wide")
        cells = correlations(dataset, run, selected)
        numbers = cells[cells["coefficient"] == self.coefficient]
        if numbers.empty:
            return self._nothing(dataset, run, why_none(dataset, run, selected), self.coefficient)
        sizes = sizes_of_segments(dataset, run, selected)
        numbers = with_small_segments(numbers, sizes, run.min_samples_width)
        known = cells["correlation"].fillna(0.0)
        low, high = min(0.0, step_below(known.min())), max(0.0, -step_below(-known.max()))
        limits, fewest = (low, high) if high > low else (-1.0, 1.0), run.min_samples_width
        return correlation_result(self, dataset, run, numbers, self.coefficient, limits, fewest)

    def _picture(self, result: Result) -> Figure:
        """Draw a row of panels a dataset, narrow left and wide right; a line an embedding."""
        numbers = result.numbers
        datasets = schema.dataset_order(list(numbers["dataset"].unique()))
        embeddings, _ = grid_of(numbers)
        widths = segment_order(numbers["segment"].unique())
        left, line, gap, top = max(1.1, 0.55 + label_room(embeddings)), 0.2, 0.14, HEADER + 0.54
        deep = line * len(embeddings) + 0.08
        panel = (7.2 - left - 0.15 - 0.15 * (len(widths) - 1)) / len(widths)
        height = top + len(datasets) * (deep + gap) + 0.5
        sheet = Sheet(result, 7.2, height)
        for row, dataset in enumerate(datasets):
            y = top + row * (deep + gap)
            for column, width in enumerate(widths):
                axes = sheet.axes(left + column * (panel + 0.15), y, panel, deep)
                inside = (numbers["dataset"] == dataset) & (numbers["segment"] == width)
                _draw_dots(axes, result, numbers[inside], embeddings)
                axes.tick_params(labelbottom=row == len(datasets) - 1)
                if column == 0:
                    axes.set_yticks(range(len(embeddings)), map(embedding_tick, embeddings))
                if row == 0:
                    axes.set_title(_WIDTH_TITLES.get(width, width), pad=5, y=1)
            name = textwrap.fill(schema.DATASETS.get(dataset, ""), 11)
            sheet.text(
                0.1,
                y + deep / 2 - 0.03,
                as_is(one_line(dataset, 10)),
                va="bottom",
                weight="bold",
                size=10,
            )
            sheet.text(0.1, y + deep / 2 + 0.03, name, va="top", size=7, color="#595959")
        coefficient = f"{COEFFICIENTS[result.coefficient]} with the grade"
        sheet.text(left + (7.2 - left) / 2, height - 0.1, coefficient, ha="center", va="bottom")
        _draw_mark_legend(sheet, result.exhibit.measures)
        return sheet.figure

    def _told(self, result: Result) -> str:
        numbers = result.numbers
        told = []
        for measure in result.exhibit.measures:
            values = numbers[numbers["measure"] == measure].dropna(subset="correlation")
            if values.empty:
                told.append(f"{measure_name(measure)} has no value.")
                continue
            low, high = lowest_and_highest(values, "correlation")
            told.append(f"{measure_name(measure)} from {low} to {high}.")
        segments = len(numbers.drop_duplicates(["dataset", "segment"]))
        sizes = numbers.drop_duplicates(["dataset", "embedding", "segment"])["n"]
        return (
            f"Dot plot of {COEFFICIENTS[result.coefficient]} with the grade on {segments} segments "
            f"for {numbers['embedding'].nunique()} embeddings. {' '.join(told)} "
            f"{rows_a_cell(sizes)}"
            f"{without_value(numbers['correlation'])}"
        )

    def _seen(self, result: Result) -> list[str]:
        grid = result.numbers.pivot_table(
            index=["dataset", "embedding", "segment"], columns="measure", values="correlation"
        )
        if grid.empty:
            return ["No segment has a correlation."]
        medians = ", ".join(
            f"{measure_name(name)} {number(grid[name].median())}"
            for name in result.exhibit.measures
            if name in grid
        )
        said = [f"{counted(len(grid), 'segment')}; median correlations: {medians}."]
        for first, second in combinations([n for n in result.exhibit.measures if n in grid], 2):
            gap = (grid[first] - grid[second]).dropna()
            if len(gap):
                said.append(
                    f"{measure_name(first)} minus {measure_name(second)}: median "
                    f"{signed_in_full(gap.median())}, from {signed_in_full(gap.min())} to "
                    f"{signed_in_full(gap.max())}; "
                    f"ahead in {int((gap > 0).sum())} of {counted(len(gap), 'segment')}."
                )
        return said

    def _held(self, result: Result) -> Checks:
        fewest = result.parameters.min_samples_width
        return correlation_checks(result.numbers, "correlation", 1, fewest)


def _mark(measure: str, measures: Sequence[str]) -> dict[str, Any]:
    """How a measure is marked; F is hollow, so that one that lies under it is seen."""
    shape, colour = MARKS.get(measure) or _OTHER_MARKS[measures.index(measure) % len(_OTHER_MARKS)]
    hollow = measure == "F"
    return {
        "marker": shape,
        "linestyle": "none",
        "markersize": 6.5 if hollow else 5.5,
        "markerfacecolor": "none" if hollow else colour,
        "markeredgecolor": colour if hollow else "white",
        "markeredgewidth": 1.3 if hollow else 0.5,
    }


def _draw_dots(axes: Axes, result: Result, cells: pd.DataFrame, embeddings: Sequence[str]) -> None:
    """Draw the measures of each embedding on one line, and say what has no value."""
    low, high = result.scale
    pad = 0.02 * (high - low)
    axes.set(xlim=(low - pad, high + pad), ylim=(len(embeddings) - 0.4, -0.6), yticks=[])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#e3e3e3", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.axvline(0, color=GREY, linewidth=0.8, zorder=1)
    axes.spines["left"].set_visible(False)
    if cells["correlation"].isna().all():
        note = _empty_line(cells, result)
        middle: dict[str, Any] = {"ha": "center", "va": "center", "transform": axes.transAxes}
        axes.text(0.5, 0.5, note, color="#737373", backgroundcolor="white", **middle)
        return
    rows = cells["embedding"].map({code: row for row, code in enumerate(embeddings)})
    ends = cells.groupby(rows)["correlation"].agg(["min", "max"]).dropna()
    axes.hlines(ends.index, ends["min"], ends["max"], color="#c4c4c4", linewidth=1.4, zorder=2)
    for measure, points in cells.groupby("measure", sort=False):
        marks = _mark(str(measure), result.exhibit.measures)
        axes.plot(points["correlation"], rows[points.index], label=measure, zorder=3, **marks)
    for row, undefined in cells[cells["correlation"].isna()].groupby(rows):
        note = _empty_line(undefined, result)
        axes.text(high, row, note, size=6.5, color="#737373", va="center", ha="right")
    sizes = f"n {n_range(cells['n'])}"
    top: dict[str, Any] = {"ha": "right", "va": "bottom", "transform": axes.transAxes}
    axes.text(1.0, 1.0, sizes, size=6.5, color="#595959", **top)


def _empty_line(undefined: pd.DataFrame, result: Result) -> str:
    """Say in a few characters why a line has no mark, or not all of them."""
    fewest = result.parameters.min_samples_width
    if (undefined["n"] < fewest).all():
        return f"fewer than {fewest} rows"
    names = ", ".join(measure_name(name) for name in undefined["measure"].unique())
    return f"undefined: {names}"


def _draw_mark_legend(sheet: Sheet, measures: Sequence[str]) -> None:
    handles = [Line2D([], [], **_mark(measure, measures)) for measure in measures]
    sheet.figure.legend(
        handles,
        [symbol(measure) for measure in measures],
        loc="upper center",
        bbox_to_anchor=(0.5, 1 - (HEADER - 0.06) / sheet.height),
        ncols=len(measures),
        frameon=False,
        fontsize=9,
        handletextpad=0.2,
        borderpad=0,
    )
