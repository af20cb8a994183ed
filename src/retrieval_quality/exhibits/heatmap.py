"""Maps of embeddings by ratio: a measure's correlation, or that of one minus another's.

Figures 6 to 18, 26 to 29 and 31 to 43, and the cells that the paper left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from retrieval_quality.exhibits.cells import (
    CELL,
    DIFFERENCE_COLUMNS,
    correlations,
    differences,
    end_of_scale,
    in_order,
    notes_on_rows,
    notes_on_undefined,
    rows_used,
    select,
    sizes_of_segments,
    why_none,
    with_small_segments,
)
from retrieval_quality.exhibits.drawing import (
    HATCH,
    HEADER,
    NARROWEST_SHEET,
    Sheet,
    column_sizes,
    columns_width,
    embedding_tick,
    grid_of,
    label_ratios,
    label_room,
    ratio_room,
    readable_on,
    size_of,
    symbol,
)
from retrieval_quality.exhibits.exhibit import (
    TOLERANCE,
    Checks,
    Exhibit,
    Result,
    all_of,
    reasons_given,
)
from retrieval_quality.exhibits.words import (
    VISIBLE,
    at_alpha,
    cell_with,
    counted,
    decimal,
    listed_ratios,
    lowest_and_highest,
    measure_name,
    number,
    of_all,
    rows_a_cell,
    short,
    signed_in_full,
    without_value,
)
from retrieval_quality.parameters import COEFFICIENTS, Parameters
from retrieval_quality.statistics import correlation

if TYPE_CHECKING:
    from retrieval_quality.data.dataset import Dataset

_MOST_COLUMNS = 24
"""A heatmap of more columns goes on below, so that it fits a page."""


@dataclass(frozen=True)
class Heatmap(Exhibit):
    """Embeddings by ratio: a value in each cell, one fixed scale, hatched where undefined."""

    colours: ClassVar[str]
    bound: ClassVar[float]
    uses: ClassVar[tuple[str, ...]] = (
        "min_samples_ratio",
        "embeddings",
        "datasets",
        "coefficient",
        "alpha",
    )

    def coefficient_for(self, parameters: Parameters) -> str:
        """Give the coefficient that it shows in a run: its own unless the run asks for another."""
        changed = parameters.coefficient != Parameters().coefficient
        return parameters.coefficient if changed else self.coefficient

    def values_of(self, result: Result) -> pd.DataFrame:
        """Values by embedding (rows) and segment (columns), NaN where there is none."""
        return result.numbers.pivot(index="embedding", columns="segment", values=self.value)

    def legend(self, result: Result) -> str:
        """Say below the scale what the values are."""
        raise NotImplementedError

    def _picture(self, result: Result) -> Figure:
        """Draw the cells, in strips where there are many ratios."""
        numbers = result.numbers
        embeddings, segments = grid_of(numbers)
        strips = _strips(segments)
        left, deep = label_room(embeddings), 0.38 * len(embeddings)
        cell = columns_width(len(strips[0]), left, 0.29)
        below = ratio_room(column_sizes(numbers, segments), segments, cell)
        step = deep + below + 0.14
        hatched = bool(self.values_of(result).isna().any(axis=None))
        height = HEADER + step * len(strips) + 0.54 + 0.18 * hatched
        sheet = Sheet(result, max(left + cell * len(strips[0]) + 0.15, NARROWEST_SHEET), height)
        for i, strip in enumerate(strips):
            axes = sheet.axes(left, HEADER + i * step, cell * len(strip), deep)
            _draw_strip(axes, result, self, embeddings, strip)
        _draw_scale(sheet, result, self, HEADER + step * len(strips))
        if hatched:
            _explain_hatching(sheet, result)
        return sheet.figure

    def _told(self, result: Result) -> str:
        numbers = result.numbers
        value = self.value
        values = numbers[value].dropna()
        what = self._of(result)
        opening = (
            f"Heatmap of {what} for {numbers['embedding'].nunique()} embeddings at "
            f"{numbers['segment'].nunique()} ratios K/N_p. "
        )
        if values.empty:
            return f"{opening}No cell has a value.{without_value(numbers[value])}"
        low, high = lowest_and_highest(numbers, value)
        told = f"From {low} to {high}, median {decimal(values.median())}."
        told += self._counted_by_sign(values)
        return f"{opening}{told} {rows_a_cell(numbers['n'])}{without_value(numbers[value])}"

    def _of(self, result: Result) -> str:
        return f"{COEFFICIENTS[result.coefficient]} with the grade"

    def _counted_by_sign(self, values: pd.Series) -> str:
        return ""

    def _held(self, result: Result) -> Checks:
        fewest = result.parameters.min_samples_ratio
        return correlation_checks(result.numbers, self.value, self.bound, fewest)

    def _caption(self, run: Parameters, what: str, more: str = "") -> str:
        return (
            f"{COEFFICIENTS[self.coefficient_for(run)]} of {what} on {self.dataset_name}, for each "
            "embedding (vertical) and rounded ratio K/N_p (horizontal); "
            f"{at_alpha(self.measures, run.alpha)}. {more}Segments of fewer than "
            f"{run.min_samples_ratio} graded rows are left out."
        )


@dataclass(frozen=True)
class Correlation(Heatmap):
    """One measure's correlation with the grade by ratio.

    Attributes
    ----------
    scaled_with
        Measures whose maps share the scale.
    """

    scaled_with: tuple[str, ...] = ()

    kind = "correlation"
    columns = correlation.COLUMNS
    value = "correlation"
    colours = "RdBu"
    bound = 1

    @property
    def title(self) -> str:
        """What it shows."""
        name = measure_name(self.measures[0])
        return f"Correlation of {name} with the grade on {self.dataset_name}"

    def caption(self, parameters: Parameters | None = None) -> str:
        """Say what is drawn."""
        what = f"{measure_name(self.measures[0])} with the response grade"
        return self._caption(parameters or Parameters(), what)

    def legend(self, result: Result) -> str:
        """Say below the scale what the values are."""
        return f"{COEFFICIENTS[result.coefficient]} of {symbol(self.measures[0])} with the grade"

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        coefficient = self.coefficient_for(run)
        selected = select(run, self.measures, (coefficient,), require_2k=self.require_2k)
        cells = correlations(dataset, run, selected)
        numbers = cells[cells["dataset"] == self.dataset]
        if numbers.empty:
            why = why_none(dataset, run, selected, self.dataset)
            return self._nothing(dataset, run, why, coefficient)
        sizes = sizes_of_segments(dataset, run, selected)
        sizes = sizes[sizes["dataset"] == self.dataset]
        numbers = with_small_segments(numbers, sizes, run.min_samples_ratio)
        scaled = select(run, self.scaled_with or self.measures, (coefficient,))
        limit = end_of_scale(correlations(dataset, run, scaled)["correlation"])
        limits, fewest = (-limit, limit), run.min_samples_ratio
        return correlation_result(self, dataset, run, numbers, coefficient, limits, fewest)

    def _seen(self, result: Result) -> list[str]:
        known = result.numbers.dropna(subset="correlation")
        if known.empty:
            return ["No cell has a correlation."]
        values = known["correlation"]
        said = [
            f"{counted(len(known), 'cell')}, median correlation {number(values.median())}: "
            + " ".join(
                f"{word} {number(value)} ({cell_with(known, 'correlation', value)})"
                for word, value in (("from", values.min()), ("to", values.max()))
            )
            + "."
        ]
        across = [_spread_of_means(known, by) for by in ("segment", "embedding")]
        if all(value == value for value in across):
            said.append(
                f"Averages over embeddings differ by {number(across[0])} between ratios; averages "
                f"over ratios differ by {number(across[1])} between embeddings."
            )
        return said


@dataclass(frozen=True)
class Difference(Heatmap):
    """The first measure's correlation minus the second's by ratio; one scale for all datasets."""

    kind = "difference"
    columns: ClassVar[tuple[str, ...]] = DIFFERENCE_COLUMNS
    value = "difference"
    colours = "PuOr"
    bound = 2

    @property
    def pair(self) -> tuple[str, str]:
        """The measure, and the one that is taken from it."""
        first, second = self.measures
        return first, second

    @property
    def title(self) -> str:
        """What it shows."""
        first, second = map(measure_name, self.measures)
        return f"{first} minus {second} on {self.dataset_name}"

    def caption(self, parameters: Parameters | None = None) -> str:
        """Say what is drawn."""
        first, second = map(measure_name, self.measures)
        run = parameters or Parameters()
        told = self._caption(
            run,
            f"{first} with the response grade minus that of {second}",
            "0 is exactly equal, a dot is less than .005 apart. ",
        )
        return told + (" Only rows whose 2K row exists count." if self.require_2k else "")

    def legend(self, result: Result) -> str:
        """Say below the scale what the values are."""
        first, second = map(symbol, self.measures)
        return f"{COEFFICIENTS[result.coefficient]} of {first} minus that of {second}"

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        coefficient = self.coefficient_for(run)
        selected = select(run, self.measures, (coefficient,), require_2k=self.require_2k)
        found = differences(dataset, run, selected)
        numbers = found[found["dataset"] == self.dataset].reset_index(drop=True)
        if numbers.empty:
            why = why_none(dataset, run, selected, self.dataset)
            return self._nothing(dataset, run, why, coefficient)
        limit = end_of_scale(found["difference"])
        return self._result(
            dataset,
            run,
            numbers,
            coefficient=coefficient,
            n=rows_used(numbers, run.min_samples_ratio),
            limits=(-limit, limit),
            notes=(
                *notes_on_rows(numbers, self.require_2k),
                *notes_on_undefined(numbers, "difference"),
            ),
        )

    def _seen(self, result: Result) -> list[str]:
        first, second = (measure_name(name) for name in result.exhibit.measures)
        known = result.numbers.dropna(subset="difference")
        if known.empty:
            return ["No cell has a difference."]
        values = known["difference"]
        if (values == 0).all():
            return [f"{first} and {second} have equal correlations in all {len(known)} cells."]
        ahead, behind = int((values >= VISIBLE).sum()), int((values <= -VISIBLE).sum())
        alike = len(known) - ahead - behind
        said = [
            f"{first} is ahead of {second} in {of_all(ahead, len(known), 'cell')}, "
            f"behind in {of_all(behind, len(known))}"
            + (f" and less than {VISIBLE} apart in {of_all(alike, len(known))}" if alike else "")
            + f". The median is {signed_in_full(values.median())}: "
            + " ".join(
                f"{word} {signed_in_full(value)} ({cell_with(known, 'difference', value)})"
                for word, value in (("from", values.min()), ("to", values.max()))
            )
            + "."
        ]
        by_ratio = known.groupby("segment")["difference"].agg(["min", "max", "size"])
        by_ratio = by_ratio.sort_index(key=lambda names: names.astype(float))
        for side, chosen in {
            "ahead": by_ratio.index[by_ratio["min"] >= VISIBLE],
            "behind": by_ratio.index[by_ratio["max"] <= -VISIBLE],
        }.items():
            if len(chosen):
                lacking = by_ratio.loc[chosen, "size"].min() < result.numbers["embedding"].nunique()
                there = " that has a value there" if lacking else ""
                said.append(
                    f"At K/N_p = {listed_ratios(list(chosen))}, {first} is {side} for every "
                    f"embedding{there}."
                )
        return said

    def _of(self, result: Result) -> str:
        first, second = (measure_name(name) for name in self.measures)
        return f"the difference {first} minus {second} in {super()._of(result)}"

    def _counted_by_sign(self, values: pd.Series) -> str:
        return (
            f" {(values > 0).sum()} cells are above 0, {(values < 0).sum()} below and "
            f"{(values == 0).sum()} exactly 0."
        )


def difference(
    measures: tuple[str, str],
    dataset: str,
    *,
    coefficient: str = "spearman",
    number: int | None = None,
    place: int = 0,
) -> Difference:
    """Declare a map of one measure minus another; without a number it is an extra.

    Parameters
    ----------
    measures
        The measure, and the one that is taken from it.
    dataset
        Dataset code, such as ``A``.
    coefficient
        A key of `parameters.COEFFICIENTS`.
    number
        Number of the figure in the paper, if it has one.
    place
        Its number among the extras, if it is one of them.

    Examples
    --------
    >>> difference(("Fe", "F"), "Hp").anchor
    'extra-fe-minus-f-hp'
    """
    group = f"{measures[0]}-minus-{measures[1]}".lower()
    name = re.sub(r"[^a-z0-9]+", "-", dataset.lower()).strip("-")
    extra = f"extra-{group}-{name}"
    if coefficient != "spearman":
        extra += f"-{coefficient.replace('_', '-')}"
    return Difference(
        anchor=f"figure-{number:02d}" if number else extra,
        notebook=group,
        number=number,
        dataset=dataset,
        measures=measures,
        coefficient=coefficient,
        require_2k="Fe" in measures,
        place=place,
    )


def correlation_result(
    exhibit: Exhibit,
    dataset: Dataset,
    run: Parameters,
    numbers: pd.DataFrame,
    coefficient: str,
    limits: tuple[float, float],
    fewest: int,
) -> Result:
    """Put correlations into a result, in reading order, with what did not count."""
    numbers = numbers.assign(reason=numbers["reason"].fillna(""))
    first = {name: rank for rank, name in enumerate(exhibit.measures)}
    numbers = numbers.sort_values("measure", key=lambda names: names.map(first), kind="stable")
    numbers = in_order(numbers[list(correlation.COLUMNS)], ["measure"])
    once = numbers.drop_duplicates(CELL)
    return Result(
        exhibit,
        run,
        numbers,
        coefficient,
        rows_used(once, fewest),
        limits,
        (*notes_on_rows(once), *notes_on_undefined(numbers, "correlation")),
        simulated=dataset.simulated,
    )


def correlation_checks(numbers: pd.DataFrame, value: str, bound: float, fewest: int) -> Checks:
    """Check that values lie within their bound, rest on enough rows, or say why there is none."""
    known = numbers[numbers[value].notna()]
    return [
        (
            f"{counted(len(known), 'value')} between −{bound} and {bound}",
            all_of(known[value].abs() <= bound + TOLERANCE),
        ),
        (
            f"each rests on {fewest} rows or more, and on no more than there are",
            all_of((known["n"] >= fewest) & (known["n"] <= known["n_total"])),
        ),
        *reasons_given(numbers[numbers[value].isna()], "cell"),
    ]


def _spread_of_means(known: pd.DataFrame, by: str) -> float:
    """Range of the means over the cells that every row and column of the map has in common."""
    grid = known.pivot_table(index="embedding", columns="segment", values="correlation")
    grid = grid.dropna(axis="columns")
    if grid.shape[0] < 2 or grid.shape[1] < 2:
        return float("nan")
    means = grid.mean(axis=0 if by == "segment" else 1)
    return float(means.max() - means.min())


def _strips(segments: Sequence[str]) -> list[list[str]]:
    """Divide the columns into strips of about one length."""
    count = -(-len(segments) // _MOST_COLUMNS)
    length = -(-len(segments) // count)
    return [list(segments[i : i + length]) for i in range(0, len(segments), length)]


def _draw_strip(
    axes: Axes, result: Result, exhibit: Heatmap, embeddings: Sequence[str], segments: Sequence[str]
) -> None:
    """Draw the cells of some columns; what has no value shows the hatched ground."""
    values = exhibit.values_of(result).reindex(index=embeddings, columns=segments)
    if values.isna().any(axis=None):
        axes.patch.set(**HATCH)
    low, high = result.scale
    seaborn.heatmap(
        values,
        vmin=low,
        vmax=high,
        cmap=exhibit.colours,
        annot=values.map(short),
        fmt="",
        annot_kws={"size": 7 if size_of(axes)[0] / len(segments) < 0.36 else 8},
        linewidths=1.2,
        xticklabels=False,
        yticklabels=False,
        cbar=False,
        ax=axes,
    )
    _ink(axes, values)
    axes.set(xlabel="", ylabel="")
    axes.set_yticks(np.arange(len(embeddings)) + 0.5, map(embedding_tick, embeddings))
    axes.tick_params(axis="y", length=0)
    label_ratios(axes, result.numbers, segments)


def _ink(axes: Axes, values: pd.DataFrame) -> None:
    """Write the values in black or white; seaborn's own choice falls to a contrast of 2.3 to 1."""
    known = values.to_numpy()[values.notna().to_numpy()]
    shades = axes.collections[0].to_rgba(known)
    for text, shade in zip(axes.texts, shades, strict=True):
        text.set_color(readable_on(shade))


def _draw_scale(sheet: Sheet, result: Result, exhibit: Heatmap, y: float) -> None:
    """Draw the colour scale with what it means, in shapes: matplotlib's own is a bitmap in SVG."""
    width = min(3.0, sheet.width - 1.6)
    axes = sheet.axes((sheet.width - width) / 2, y, width, 0.11)
    low, high = result.scale
    edges = np.linspace(low, high, 102)
    middles = (edges[None, :-1] + edges[None, 1:]) / 2
    axes.pcolormesh(edges, (0, 1), middles, cmap=exhibit.colours, edgecolor="face")
    axes.set(xlim=(low, high), ylim=(0, 1), yticks=[])
    axes.set_xticks([low, 0, high], [f"{low:g}".replace("-", "−"), "0", f"{high:g}"])
    axes.spines[:].set_visible(False)
    axes.tick_params(labelsize=7)
    axes.set_xlabel(exhibit.legend(result), size=8)
    if isinstance(exhibit, Correlation):
        return
    symbols = [symbol(measure) for measure in exhibit.measures]
    sides: dict[str, Any] = {"va": "center", "size": 8, "color": "#404040"}
    middle, half = y + 0.055, width / 2 + 0.12
    sheet.text(sheet.width / 2 - half, middle, f"{symbols[1]} better", ha="right", **sides)
    sheet.text(sheet.width / 2 + half, middle, f"{symbols[0]} better", ha="left", **sides)


def _explain_hatching(sheet: Sheet, result: Result) -> None:
    text = f"hatched: fewer than {result.parameters.min_samples_ratio} rows, or undefined"
    sheet.text(sheet.width / 2, sheet.height - 0.06, text, ha="center", va="bottom", size=7)


class Cell(NamedTuple):
    """Where a cell of a heatmap is drawn: in these axes, that column and row, from 0."""

    axes: Axes
    column: int
    row: int

    def box(self) -> tuple[float, float, float, float]:
        """Left, top, width and height as parts of the page, from its upper left corner."""
        page = self.axes.get_position()
        width = page.width / self.axes.get_xlim()[1]
        height = page.height / self.axes.get_ylim()[0]
        return page.x0 + self.column * width, 1 - page.y1 + self.row * height, width, height


def places_of_cells(drawing: Figure, numbers: pd.DataFrame) -> list[Cell]:
    """Find the cells of a heatmap.

    Parameters
    ----------
    drawing
        From `draw`, of a correlation or difference.
    numbers
        Of the result that was drawn.

    Returns
    -------
    list of Cell
        One for each row of the numbers, in their order.
    """
    embeddings, segments = grid_of(numbers)
    columns = {
        segment: (axes, column)
        for axes, strip in zip(drawing.axes, _strips(segments), strict=False)
        for column, segment in enumerate(strip)
    }
    places = zip(numbers["segment"], numbers["embedding"], strict=True)
    return [Cell(*columns[segment], embeddings.index(code)) for segment, code in places]
