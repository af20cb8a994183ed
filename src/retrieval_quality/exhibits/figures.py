"""Tidy numbers in, matplotlib figures out; drawing only.

Every figure is made under one style, whatever the user's own settings, without the figures of
`pyplot` and without touching the settings. Sizes are in inches and grow with the number of
columns, so that text stays as large as it is.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import seaborn
from matplotlib import style as mpl_style
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, get_font
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Patch, Rectangle

from retrieval_quality.data import schema
from retrieval_quality.exhibits.analysis import (
    EXAMPLE_PATTERN,
    EXAMPLE_POSITIVES,
    Result,
    segment_order,
    visible,
)
from retrieval_quality.exhibits.catalogue import measure_name
from retrieval_quality.measures import MEASURES
from retrieval_quality.parameters import COEFFICIENTS

STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "mathtext.fontset": "dejavusans",
    "axes.linewidth": 0.6,
    "axes.edgecolor": "#4d4d4d",
    "axes.labelcolor": "#262626",
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": "#262626",
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "xtick.labelcolor": "#262626",
    "ytick.labelcolor": "#262626",
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "hatch.linewidth": 0.6,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.fonttype": "path",
    "svg.hashsalt": "retrieval-quality",
}
"""The one style of all figures."""

GRADE_COLOURS = ("#b2482f", "#eba36b", "#f3ead3", "#8dbcd3", "#2a6a9e")
"""Grades 1 to 5: ordered, told apart by people with each kind of colour blindness."""
MEASURE_MARKS: dict[str, tuple[str, str]] = {
    "T": ("o", "#0072b2"),
    "nDCG": ("^", "#d55e00"),
    "F": ("D", "#3a3a3a"),
}
"""Marker and colour (Okabe-Ito) of the measures on narrow and wide segments."""
CORRELATION_MAP = "RdBu"
DIFFERENCE_MAP = "PuOr"
STAMP = "simulated data"
_GREY = "#8c8c8c"
HATCH: dict[str, Any] = {
    "facecolor": "#f4f4f4",
    "edgecolor": "#b3b3b3",
    "hatch": "/////",
    "linewidth": 0,
}
"""The ground of whatever has no value."""
_OTHER_MARKS = (("s", "#009e73"), ("v", "#cc79a7"), ("P", "#e69f00"), ("X", "#56b4e9"))


@contextmanager
def style() -> Iterator[None]:
    """Use the style of this package inside a ``with`` block and restore the settings after it."""
    with mpl_style.context(["default", STYLE]):
        yield


def draw(result: Result) -> Figure:
    """Draw a figure from its numbers.

    Parameters
    ----------
    result
        From `analysis.compute`, of a kind that is drawn: not ``code`` and not ``table``.

    Returns
    -------
    matplotlib.figure.Figure
        A panel with the reason where there is nothing to draw.

    Raises
    ------
    ValueError
        The entry is a listing or a table.
    """
    drawers: dict[str, Callable[[Result], Figure]] = {
        "schematic": _draw_schematic,
        "distribution": _draw_distribution,
        "narrow-wide": _draw_narrow_wide,
        "correlation": _draw_heatmap,
        "difference": _draw_heatmap,
    }
    kind = result.entry.kind
    if kind not in drawers:
        raise ValueError(f"{result.entry.label} is a {kind}, which is not drawn")
    with style():
        return draw_message(result) if result.missing else drawers[kind](result)


# --- the sheet that figures are laid out on ------------------------------------------------------

_HEADER = 0.42
"""Inches kept free above the axes for the title and the stamp."""


class Sheet:
    """A figure measured in inches from its upper left corner, with its title and stamp.

    Attributes
    ----------
    width, height : float
        In inches.
    figure : matplotlib.figure.Figure
        What is drawn on.
    """

    def __init__(self, result: Result, width: float, height: float) -> None:
        self.width, self.height = width, height
        self.figure = Figure(figsize=(width, height))
        label = "" if result.entry.number is None else f"{result.entry.label}: "
        stamped = result.simulated and result.entry.kind != "schematic"
        room = width - (1.35 if stamped else 0.2)
        title = textwrap.shorten(label + result.entry.title, int(room / 0.0755), placeholder=" …")
        self.text(0.1, 0.1, set_symbols(title), va="top", weight="bold", size=9)
        if stamped:
            box = {"boxstyle": "round,pad=0.3", "fc": "#fff4d6", "ec": "#c98a00", "lw": 0.8}
            self.text(width - 0.12, 0.12, STAMP, va="top", ha="right", size=8, bbox=box)

    def text(self, x: float, y: float, text: str, **options: Any) -> None:
        """Write a text at (x, y)."""
        self.figure.text(x / self.width, 1 - y / self.height, text, **options)

    def axes(self, x: float, y: float, width: float, height: float) -> Axes:
        """Add axes whose upper left corner is at (x, y)."""
        bottom = self.height - y - height
        return self.figure.add_axes(
            (x / self.width, bottom / self.height, width / self.width, height / self.height)
        )


def set_symbols(text: str, font: str = "bf") -> str:
    """Write plain names with a subscript (F_e, T_u, K/N_p) as mathematics, all else as it is."""
    symbol = r"(?:K/)?\b[FTN]_[eup]\b"
    return re.sub(symbol, lambda name: f"$\\math{font}{{{name[0]}}}$", as_is(text))


def as_is(text: str) -> str:
    """Text of a dataset, with what matplotlib would take for mathematics kept as text.

    Characters that the font lacks are spelled out: another font would differ between machines.
    """
    known = _characters()
    shown = [c if ord(c) in known else f"\\u{ord(c):04x}" for c in visible(text, 200)]
    return "".join(shown).replace("$", r"\$")


@cache
def _characters() -> frozenset[int]:
    """Characters that the style's font can draw, which comes with matplotlib."""
    return frozenset(get_font(findfont(STYLE["font.family"])).get_charmap())


def _embedding(code: str) -> str:
    return as_is(visible(schema.embedding_label(code), 24))


def draw_message(result: Result) -> Figure:
    """Draw a panel that says why there is nothing to draw."""
    lines = [set_symbols(line, "it") for line in textwrap.wrap(result.missing, 66)]
    deep = 0.4 + 0.16 * len(lines)
    sheet = Sheet(result, 5.6, 0.65 + deep)
    axes = sheet.axes(0.1, 0.55, 5.4, deep)
    axes.set(xticks=[], yticks=[], facecolor="#f7f7f7")
    axes.spines[:].set_visible(False)
    message = "\n".join(lines)
    axes.text(0.5, 0.5, message, ha="center", va="center", transform=axes.transAxes)
    return sheet.figure


def _grid(numbers: pd.DataFrame) -> tuple[list[str], list[str]]:
    """Embeddings from the top down, and segments from left to right."""
    embeddings = schema.embedding_order(list(numbers["embedding"].unique()))
    return embeddings, segment_order(numbers["segment"].unique())


_NARROWEST_SHEET = 4.8
_MOST_COLUMNS = 24
"""A heatmap of more columns goes on below, so that it fits a page."""


def _columns_width(n_columns: int, left: float, least: float) -> float:
    """Width of each column: wide where there are few, never too narrow for what stands in it."""
    filling = (_NARROWEST_SHEET - left - 0.15) / n_columns
    return float(np.clip(max(5.6 / n_columns, least), None, max(0.5, min(filling, 1.2))))


def _strips(segments: Sequence[str]) -> list[list[str]]:
    """Divide the columns into strips of about one length."""
    count = -(-len(segments) // _MOST_COLUMNS)
    length = -(-len(segments) // count)
    return [list(segments[i : i + length]) for i in range(0, len(segments), length)]


def _label_room(embeddings: Sequence[str]) -> float:
    longest = max(len(_embedding(code)) for code in embeddings)
    return max(0.55, 0.25 + 0.085 * longest)


def n_range(sizes: Sequence[int]) -> str:
    """Write how many rows several values rest on: one number, or the lowest and the highest.

    Examples
    --------
    >>> n_range([40, 43, 41]), n_range([40, 40])
    ('40–43', '40')
    """
    low, high = min(sizes), max(sizes)
    return f"{low}" if low == high else f"{low}–{high}"


_TICK_ROOM = 0.25
_LETTER = 0.062
"""Inches that a digit of the smallest text takes."""


def _column_sizes(numbers: pd.DataFrame, segments: Sequence[str]) -> list[str]:
    """Rows behind each column, as text: one number, or the range over the embeddings."""
    by_segment = numbers.groupby("segment")["n"]
    ends = zip(by_segment.min().items(), by_segment.max(), strict=True)
    texts = {segment: n_range((low, high)) for (segment, low), high in ends}
    return [texts[segment] for segment in segments]


def _stand(texts: Sequence[str], cell: float) -> bool:
    """Whether texts are too long to lie in columns of this width."""
    return _LETTER * max(len(text) for text in texts) > cell - 0.03


def _ratio_room(sizes: Sequence[str], segments: Sequence[str], cell: float) -> float:
    """Inches that the labels of the columns take below the axes."""
    ticks = _TICK_ROOM + (0.1 if _stand(segments, cell) else 0)
    return ticks + (_LETTER * max(map(len, sizes)) if _stand(sizes, cell) else 0.12) + 0.02


def _ratio_axis(axes: Axes, numbers: pd.DataFrame, segments: Sequence[str]) -> None:
    """Label the columns with the ratio and, below it, the rows that each rests on.

    Texts and not ticks: of those each is five artists, which takes longer.
    """
    width, height = _size_of(axes)
    cell = width / len(segments)
    sizes = _column_sizes(numbers, segments)
    standing = _stand(segments, cell)
    y = -(_TICK_ROOM + (0.1 if standing else 0)) / height
    ratio: dict[str, Any] = {"va": "top", "size": 8, "rotation": 90 if standing else 0}
    below: dict[str, Any] = {"va": "top", "size": 6.5, "color": "#595959"}
    turned = 90 if _stand(sizes, cell) else 0
    middle: dict[str, Any] = {"ha": "center", "transform": axes.get_xaxis_transform()}
    for column, (segment, rows) in enumerate(zip(segments, sizes, strict=True), start=1):
        weight = "bold" if segment == "1.0" else "normal"
        axes.text(column - 0.5, -0.028 / height, segment, weight=weight, **ratio, **middle)
        axes.text(column - 0.5, y, rows, rotation=turned, **below, **middle)
    left: dict[str, Any] = {"ha": "right", "transform": axes.transAxes}
    axes.text(-0.04 / width, -0.05 / height, "$K/N_p$", size=8, va="top", **left)
    axes.text(-0.04 / width, y, "rows n", **left, **below)


def _size_of(axes: Axes) -> tuple[float, float]:
    """Width and height in inches."""
    box, page = axes.get_position(), axes.get_figure(root=True)
    assert page is not None
    return float(box.width * page.get_figwidth()), float(box.height * page.get_figheight())


# --- heatmaps -----------------------------------------------------------------------------------


def _draw_heatmap(result: Result) -> Figure:
    """Draw embeddings by ratio: a value in each cell, one fixed scale, hatched where undefined."""
    numbers = result.numbers
    embeddings, segments = _grid(numbers)
    strips = _strips(segments)
    left, deep = _label_room(embeddings), 0.38 * len(embeddings)
    cell = _columns_width(len(strips[0]), left, 0.29)
    below = _ratio_room(_column_sizes(numbers, segments), segments, cell)
    step = deep + below + 0.14
    hatched = bool(_matrix(result).isna().any(axis=None))
    height = _HEADER + step * len(strips) + 0.54 + 0.18 * hatched
    sheet = Sheet(result, max(left + cell * len(strips[0]) + 0.15, _NARROWEST_SHEET), height)
    for i, strip in enumerate(strips):
        axes = sheet.axes(left, _HEADER + i * step, cell * len(strip), deep)
        _draw_strip(axes, result, embeddings, strip)
    _draw_scale(sheet, result, _HEADER + step * len(strips))
    if hatched:
        _explain_hatching(sheet, result)
    return sheet.figure


def _draw_strip(
    axes: Axes, result: Result, embeddings: Sequence[str], segments: Sequence[str]
) -> None:
    """Draw the cells of some columns; what has no value shows the hatched ground."""
    values = _matrix(result).reindex(index=embeddings, columns=segments)
    if values.isna().any(axis=None):
        axes.patch.set(**HATCH)
    low, high = _limits(result)
    seaborn.heatmap(
        values,
        vmin=low,
        vmax=high,
        cmap=_colour_map(result),
        annot=values.map(short),
        fmt="",
        annot_kws={"size": 7 if _size_of(axes)[0] / len(segments) < 0.36 else 8},
        linewidths=1.2,
        xticklabels=False,
        yticklabels=False,
        cbar=False,
        ax=axes,
    )
    _ink(axes, values)
    axes.set(xlabel="", ylabel="")
    axes.set_yticks(np.arange(len(embeddings)) + 0.5, map(_embedding, embeddings))
    axes.tick_params(axis="y", length=0)
    _ratio_axis(axes, result.numbers, segments)


def _ink(axes: Axes, values: pd.DataFrame) -> None:
    """Write the values in black or white; seaborn's own choice falls to a contrast of 2.3 to 1."""
    known = values.to_numpy()[values.notna().to_numpy()]
    shades = axes.collections[0].to_rgba(known)
    for text, shade in zip(axes.texts, shades, strict=True):
        text.set_color(readable_on(shade))


def _matrix(result: Result) -> pd.DataFrame:
    """Values of a heatmap: a row an embedding, a column a segment, NaN where there is none."""
    value = "difference" if result.entry.kind == "difference" else "correlation"
    return result.numbers.pivot(index="embedding", columns="segment", values=value)


def _limits(result: Result) -> tuple[float, float]:
    return result.limits or (-1.0, 1.0)


def _colour_map(result: Result) -> str:
    return DIFFERENCE_MAP if result.entry.kind == "difference" else CORRELATION_MAP


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


def cells(drawing: Figure, numbers: pd.DataFrame) -> list[Cell]:
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
    embeddings, segments = _grid(numbers)
    columns = {
        segment: (axes, column)
        for axes, strip in zip(drawing.axes, _strips(segments), strict=False)
        for column, segment in enumerate(strip)
    }
    places = zip(numbers["segment"], numbers["embedding"], strict=True)
    return [Cell(*columns[segment], embeddings.index(code)) for segment, code in places]


def short(value: float) -> str:
    """Write a value from -1 to 1 in the least room: no leading zero, 0 only where it is exact.

    Examples
    --------
    >>> short(0.426), short(-0.05), short(0.0), short(-0.001), short(1.0)
    ('.43', '−.05', '0', '−.00', '1')
    """
    if value in (-1, 0, 1):
        return f"{value:.0f}".replace("-", "−").replace("−0", "0")
    return f"{value:.2f}".replace("-", "−").replace("0.", ".", 1)


def readable_on(colour: Sequence[float]) -> str:
    """Black or white, whichever stands out more on a colour (relative luminance of WCAG 2).

    Examples
    --------
    >>> readable_on((1, 0.9, 0.2)), readable_on((0.1, 0.2, 0.5))
    ('black', 'white')
    """
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour[:3]]
    luminance = float(np.dot([0.2126, 0.7152, 0.0722], linear))
    return "black" if (luminance + 0.05) ** 2 > 1.05 * 0.05 else "white"


def _draw_scale(sheet: Sheet, result: Result, y: float) -> None:
    """Draw the colour scale with what it means, in shapes: matplotlib's own is a bitmap in SVG."""
    width = min(3.0, sheet.width - 1.6)
    axes = sheet.axes((sheet.width - width) / 2, y, width, 0.11)
    low, high = _limits(result)
    edges = np.linspace(low, high, 102)
    middles = (edges[None, :-1] + edges[None, 1:]) / 2
    axes.pcolormesh(edges, (0, 1), middles, cmap=_colour_map(result), edgecolor="face")
    axes.set(xlim=(low, high), ylim=(0, 1), yticks=[])
    axes.set_xticks([low, 0, high], [f"{low:g}".replace("-", "−"), "0", f"{high:g}"])
    axes.spines[:].set_visible(False)
    axes.tick_params(labelsize=7)
    coefficient = COEFFICIENTS[result.coefficient]
    symbols = [symbol(measure) for measure in result.entry.measures]
    if result.entry.kind == "correlation":
        axes.set_xlabel(f"{coefficient} of {symbols[0]} with the grade", size=8)
        return
    axes.set_xlabel(f"{coefficient} of {symbols[0]} minus that of {symbols[1]}", size=8)
    sides: dict[str, Any] = {"va": "center", "size": 8, "color": "#404040"}
    middle, half = y + 0.055, width / 2 + 0.12
    sheet.text(sheet.width / 2 - half, middle, f"{symbols[1]} better", ha="right", **sides)
    sheet.text(sheet.width / 2 + half, middle, f"{symbols[0]} better", ha="left", **sides)


def _explain_hatching(sheet: Sheet, result: Result) -> None:
    text = f"hatched: fewer than {result.parameters.min_samples_ratio} rows, or undefined"
    sheet.text(sheet.width / 2, sheet.height - 0.06, text, ha="center", va="bottom", size=7)


def symbol(measure: str) -> str:
    """Symbol of a measure as matplotlib's mathematics.

    Examples
    --------
    >>> symbol("F")
    '$F$'
    """
    return f"${MEASURES[measure].symbol}$"


# --- distributions ------------------------------------------------------------------------------


def _draw_distribution(result: Result) -> Figure:
    """Draw a panel for each embedding: five stacked cells a ratio, with the mean grade above."""
    numbers = result.numbers
    embeddings, segments = _grid(numbers)
    deep, left = 1.0, _label_room(embeddings)
    cell = _columns_width(len(segments), left, 0.155)
    gap = 0.34 if _stand(["0.0"], cell) else 0.28
    below = _ratio_room(_column_sizes(numbers, segments), segments, cell)
    inner = cell * len(segments)
    top = _HEADER + 0.42
    height = top + len(embeddings) * (deep + gap) - gap + below + 0.1
    sheet = Sheet(result, max(left + inner + 0.15, _NARROWEST_SHEET), height)
    for row, embedding in enumerate(embeddings):
        axes = sheet.axes(left, top + row * (deep + gap), inner, deep)
        rows = numbers[numbers["embedding"] == embedding]
        _draw_stacks(axes, rows, segments)
        axes.set_ylabel(_embedding(embedding), rotation=0, ha="right", va="center")
        axes.set_xticks([])
    _ratio_axis(axes, numbers, segments)
    handles = [Patch(fc=c, ec="#8c8c8c", lw=0.4) for c in GRADE_COLOURS]
    labels = [f"grade {grade}" for grade in schema.GRADES]
    sheet.figure.legend(
        handles,
        labels,
        loc="upper center",
        bbox_to_anchor=(0.5, 1 - (_HEADER - 0.05) / height),
        ncols=5,
        frameon=False,
        fontsize=8,
        handlelength=1.1,
        handletextpad=0.4,
        columnspacing=1.0,
        borderpad=0,
    )
    return sheet.figure


def _draw_stacks(axes: Axes, rows: pd.DataFrame, segments: Sequence[str]) -> None:
    """Draw one embedding: a stack a ratio, one collection of cells a grade."""
    shares = rows.pivot(index="grade", columns="segment", values="share").reindex(columns=segments)
    heights = shares.reindex(schema.GRADES).to_numpy()
    tops = heights.cumsum(axis=0)
    columns = np.flatnonzero(~np.isnan(tops[0]))
    sides = columns[:, None] + (0.06, 0.94, 0.94, 0.06)
    for colour, high, height in zip(GRADE_COLOURS, tops, heights, strict=True):
        low, high = (high - height)[columns], high[columns]
        corners = np.dstack([sides, np.column_stack([low, low, high, high])])
        cells = PolyCollection(list(corners), facecolor=colour, edgecolor="white", linewidth=0.5)
        axes.add_collection(cells, autolim=False)
    rotation = 90 if _stand(["0.0"], _size_of(axes)[0] / len(segments)) else 0
    above: dict[str, Any] = {"va": "bottom", "size": 6.5}
    for column, mean in enumerate(np.array(schema.GRADES) @ heights):
        if np.isnan(mean):
            axes.add_patch(Rectangle((column + 0.06, 0), 0.88, 1, **HATCH))
        else:
            axes.text(column + 0.5, 1.03, f"{mean:.1f}", ha="center", rotation=rotation, **above)
    axes.text(-0.02 * len(segments), 1.03, "mean", ha="right", color="#595959", **above)
    axes.set(xlim=(0, len(segments)), ylim=(0, 1), yticks=[0, 0.5, 1], yticklabels=["0", "½", "1"])
    axes.tick_params(axis="y", labelsize=6.5, length=2, pad=1.5)
    axes.spines["bottom"].set_visible(False)
    axes.spines["left"].set_color(_GREY)
    axes.yaxis.set_label_coords(-0.24 / _size_of(axes)[0], 0.5)


# --- narrow and wide ----------------------------------------------------------------------------


def _draw_narrow_wide(result: Result) -> Figure:
    """Draw a row of panels for each dataset, narrow left and wide right; a line an embedding."""
    numbers = result.numbers
    datasets = schema.dataset_order(list(numbers["dataset"].unique()))
    embeddings, _ = _grid(numbers)
    widths = segment_order(numbers["segment"].unique())
    left, line, gap, top = max(1.1, 0.55 + _label_room(embeddings)), 0.2, 0.14, _HEADER + 0.54
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
                axes.set_yticks(range(len(embeddings)), map(_embedding, embeddings))
            if row == 0:
                axes.set_title(_WIDTH_TITLES.get(width, width), pad=5, y=1)
        name = textwrap.fill(schema.DATASETS.get(dataset, ""), 11)
        sheet.text(
            0.1,
            y + deep / 2 - 0.03,
            as_is(visible(dataset, 10)),
            va="bottom",
            weight="bold",
            size=10,
        )
        sheet.text(0.1, y + deep / 2 + 0.03, name, va="top", size=7, color="#595959")
    coefficient = f"{COEFFICIENTS[result.coefficient]} with the grade"
    sheet.text(left + (7.2 - left) / 2, height - 0.1, coefficient, ha="center", va="bottom")
    _draw_mark_legend(sheet, result.entry.measures)
    return sheet.figure


_WIDTH_TITLES = {"narrow": "narrow: $K < N_p$", "wide": "wide: $K \\geq N_p$"}


def _mark(measure: str, measures: Sequence[str]) -> dict[str, Any]:
    """How a measure is marked; F is hollow, so that one that lies under it is seen."""
    shape, colour = (
        MEASURE_MARKS.get(measure) or _OTHER_MARKS[measures.index(measure) % len(_OTHER_MARKS)]
    )
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
    low, high = result.limits or (-1.0, 1.0)
    pad = 0.02 * (high - low)
    axes.set(xlim=(low - pad, high + pad), ylim=(len(embeddings) - 0.4, -0.6), yticks=[])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#e3e3e3", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.axvline(0, color=_GREY, linewidth=0.8, zorder=1)
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
        marks = _mark(str(measure), result.entry.measures)
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
        bbox_to_anchor=(0.5, 1 - (_HEADER - 0.06) / sheet.height),
        ncols=len(measures),
        frameon=False,
        fontsize=9,
        handletextpad=0.2,
        borderpad=0,
    )


# --- the schematic ------------------------------------------------------------------------------

_POSITIVE, _NEGATIVE = "#2a6a9e", "#d9d9d9"
_BELOW_K = (0, 1, 0)
"""What stands below rank K in the schematic: with it the ranking has its N_p positives."""
_ILLUSTRATION = ((0.08, 1), (0.2, 2), (0.24, 1), (0.4, 3), (0.45, 2), (0.6, 4), (0.66, 3), (0.9, 5))
"""Points of the schematic's last panel: measure (0-1) and grade; an illustration, not data."""


def _draw_schematic(result: Result) -> Figure:
    """Draw one retrieval judged twice, by a measure and by a grade, and many of them correlated."""
    sheet = Sheet(result, 7.2, 3.6)
    axes = sheet.axes(0, 0, 7.2, 3.6)
    axes.set(xlim=(0, 7.2), ylim=(3.6, 0))
    axes.axis("off")
    _draw_box(axes, (0.12, 1.27), (0.76, 0.46), "query", weight="bold")
    _draw_ranking(axes)
    values = result.numbers.set_index("measure")["value"]
    counts = f"$n_p = {EXAMPLE_PATTERN.count('1')}$,  $K = {len(EXAMPLE_PATTERN)}$"
    counts += f",  $N_p = {EXAMPLE_POSITIVES}$"
    shown = ",  ".join(f"{symbol(name)} = {values[name]:.2f}" for name in ("F", "nDCG", "T"))
    _draw_box(axes, (2.72, 0.6), (2.3, 0.95), f"a measure judges the ranking\n{counts}\n{shown}")
    _draw_box(axes, (2.72, 2.06), (2.3, 0.42), "an LLM answers from the top $K$")
    _draw_box(axes, (2.72, 2.76), (2.3, 0.42), "an LLM grades the answer: 4 of 5")
    for start, end in (
        ((0.88, 1.5), (1.16, 1.5)),
        ((2.36, 1.4), (2.72, 1.15)),
        ((2.36, 1.6), (2.72, 2.2)),
        ((3.87, 2.48), (3.87, 2.76)),
        ((5.02, 1.08), (5.46, 1.5)),
        ((5.02, 2.97), (5.46, 2.45)),
    ):
        _draw_arrow(axes, start, end)
    axes.text(3.87, 3.22, "against an ideal answer from all positives", **_SMALL)
    axes.text(3.87, 1.59, "F and T at α = ½", **_SMALL)
    _draw_illustration(sheet)
    return sheet.figure


_SMALL: dict[str, Any] = {"size": 7, "color": "#595959", "ha": "center", "va": "top"}


def _draw_box(
    axes: Axes, corner: tuple[float, float], size: tuple[float, float], text: str, **options: Any
) -> None:
    axes.add_patch(
        FancyBboxPatch(
            corner, *size, boxstyle="round,pad=0,rounding_size=0.08", fc="#f5f7fa", ec="#5b6b7b"
        )
    )
    middle = (corner[0] + size[0] / 2, corner[1] + size[1] / 2)
    axes.text(*middle, text, ha="center", va="center", size=8.5, linespacing=1.6, **options)


def _draw_arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    axes.add_patch(
        FancyArrowPatch(
            start, end, arrowstyle="-|>", mutation_scale=9, color="#5b6b7b", shrinkA=1, shrinkB=1
        )
    )


def _draw_ranking(axes: Axes) -> None:
    """Draw the ranked documents, positives coloured, those below K pale."""
    left, width, step, top = 1.36, 0.9, 0.26, 0.88
    documents = [*(int(c) for c in EXAMPLE_PATTERN), *_BELOW_K]
    top_k = len(EXAMPLE_PATTERN)
    middle = left + width / 2
    axes.text(middle, top - 0.1, "ranked documents", size=8.5, ha="center", va="bottom")
    for rank, positive in enumerate(documents):
        below = rank >= top_k
        y = top + rank * step + (0.3 if below else 0)
        colour = _POSITIVE if positive else _NEGATIVE
        pale = 0.45 if below else 1.0
        axes.add_patch(Rectangle((left, y), width, 0.2, fc=colour, ec="none", alpha=pale))
        axes.text(left - 0.06, y + 0.1, str(rank + 1), size=7, ha="right", va="center")
        if positive:
            ink = "#1a1a1a" if below else "white"
            axes.text(middle, y + 0.1, "relevant", size=7, color=ink, ha="center", va="center")
    edge = top + top_k * step + 0.04
    axes.plot([left - 0.2, left + width + 0.06], [edge, edge], color="#b03a2e", ls=(0, (4, 2)))
    axes.text(
        middle, edge + 0.04, f"top $K = {top_k}$", size=8, color="#b03a2e", ha="center", va="top"
    )
    bracket = [(left + width + 0.04, top), (left + width + 0.1, top)]
    bracket += [(x, edge - 0.1) for x, _ in reversed(bracket)]
    axes.plot(*zip(*bracket, strict=True), color="#5b6b7b", lw=1)


def _draw_illustration(sheet: Sheet) -> None:
    """Draw grade against measure for some made-up samples, with the trend."""
    axes = sheet.axes(5.78, 1.22, 1.3, 1.45)
    measure, grade = np.array(_ILLUSTRATION).T
    axes.plot(measure, grade, "o", color="#0072b2", markersize=5, markeredgecolor="white")
    slope, start = np.polyfit(measure, grade, 1)
    ends = np.array([0.05, 0.95])
    axes.plot(ends, start + slope * ends, color="#d55e00", lw=1.2)
    axes.set(xlim=(0, 1), ylim=(0.5, 5.5), xticks=[], yticks=schema.GRADES)
    axes.tick_params(labelsize=7)
    axes.set_xlabel("measure", size=8)
    axes.set_ylabel("grade", size=8, labelpad=2)
    axes.set_title("many samples:\ntheir correlation", size=8)


# --- words for those who do not see the picture --------------------------------------------------


def alt_text(result: Result) -> str:
    """Say what is seen in a figure, from its numbers.

    Parameters
    ----------
    result
        From `analysis.compute`.

    Returns
    -------
    str
        Plain text: what is shown, the range, where the ends are, rows, cells without a value.
    """
    describe: dict[str, Callable[[Result], str]] = {
        "schematic": _tell_schematic,
        "distribution": _tell_distribution,
        "narrow-wide": _tell_narrow_wide,
        "correlation": _tell_heatmap,
        "difference": _tell_heatmap,
        "code": _tell_code,
        "table": _tell_table,
    }
    told = result.missing or describe[result.entry.kind](result)
    opening = "Simulated data. " if result.simulated and result.entry.kind != "schematic" else ""
    return f"{opening}{result.entry.title}. {told}"


def _tell_schematic(result: Result) -> str:
    values = result.numbers.set_index("measure")["value"]
    measures = ", ".join(f"{name} {values[name]:.2f}" for name in ("F", "nDCG", "T"))
    return (
        f"Diagram: a query leads to ranked documents, of which the top {len(EXAMPLE_PATTERN)} are "
        f"used. One arrow goes to a measure of the ranking ({measures}), another to an LLM that "
        "answers from them and an LLM that grades the answer. Both end in a scatter plot of grade "
        "against measure over many samples, whose correlation judges the measure."
    )


def _tell_distribution(result: Result) -> str:
    numbers = result.numbers
    weighted = numbers.assign(part=numbers["grade"] * numbers["share"])
    means = weighted.groupby(["embedding", "segment"], sort=False)["part"].sum()
    sizes = numbers.drop_duplicates(["embedding", "segment"])["n"]
    told = []
    for embedding, of_embedding in means.groupby("embedding", sort=False):
        best, worst = of_embedding.idxmax()[1], of_embedding.idxmin()[1]
        told.append(
            f"{schema.embedding_label(str(embedding))}: {of_embedding.max():.2f} at {best} "
            f"(highest), {of_embedding.min():.2f} at {worst} (lowest)"
        )
    return (
        f"Stacked shares of grades 1 to 5 for {len(means.index.unique('embedding'))} embeddings "
        f"at {len(means.index.unique('segment'))} ratios K/N_p. Mean grade of "
        f"{'; of '.join(told)}. {_rows_told(sizes)}"
    )


def _tell_narrow_wide(result: Result) -> str:
    numbers = result.numbers
    told = []
    for measure in result.entry.measures:
        values = numbers[numbers["measure"] == measure].dropna(subset="correlation")
        if values.empty:
            told.append(f"{measure_name(measure)} has no value.")
            continue
        low, high = _ends(values, "correlation")
        told.append(f"{measure_name(measure)} from {low} to {high}.")
    segments = len(numbers.drop_duplicates(["dataset", "segment"]))
    sizes = numbers.drop_duplicates(["dataset", "embedding", "segment"])["n"]
    return (
        f"Dot plot of {COEFFICIENTS[result.coefficient]} with the grade on {segments} segments "
        f"for {numbers['embedding'].nunique()} embeddings. {' '.join(told)} {_rows_told(sizes)}"
        f"{_undefined_told(numbers['correlation'])}"
    )


def _tell_heatmap(result: Result) -> str:
    numbers = result.numbers
    value = "difference" if result.entry.kind == "difference" else "correlation"
    values = numbers[value].dropna()
    what = f"{COEFFICIENTS[result.coefficient]} with the grade"
    opening = (
        f"Heatmap of {what} for {numbers['embedding'].nunique()} embeddings at "
        f"{numbers['segment'].nunique()} ratios K/N_p. "
    )
    if values.empty:
        return f"{opening}No cell has a value.{_undefined_told(numbers[value])}"
    low, high = _ends(numbers, value)
    told = f"From {low} to {high}, median {decimal(values.median())}."
    if value == "difference":
        told += (
            f" {(values > 0).sum()} cells are above 0, {(values < 0).sum()} below and "
            f"{(values == 0).sum()} exactly 0."
        )
    return f"{opening}{told} {_rows_told(numbers['n'])}{_undefined_told(numbers[value])}"


def _ends(numbers: pd.DataFrame, value: str) -> tuple[str, str]:
    """Lowest and highest value, each with the cell that it stands in."""
    cells = (numbers.loc[numbers[value].idxmin()], numbers.loc[numbers[value].idxmax()])
    low, high = (f"{decimal(cell[value])} ({_place(cell)})" for cell in cells)
    return low, high


def _place(cell: pd.Series) -> str:
    label = schema.embedding_label(str(cell["embedding"]))
    if cell["segmentation"] == "narrow-wide":
        return f"{cell['dataset']} {cell['segment']}, {label}"
    return f"{label} at {cell['segment']}"


def decimal(value: float) -> str:
    """Write a value in full with two decimals, as the words for a figure do.

    Examples
    --------
    >>> decimal(-0.05)
    '−0.05'
    """
    return f"{value:.2f}".replace("-", "−")


def _rows_told(sizes: pd.Series) -> str:
    return f"{n_range(sizes)} rows a cell."


def _undefined_told(values: pd.Series) -> str:
    count = int(values.isna().sum())
    return f" {count} of {len(values)} cells have no value." if count else ""


def _tell_code(result: Result) -> str:
    if result.entry.topic == "texts":
        positives = int((result.numbers["kind"] == "positive").sum())
        return f"Listing and its result: {len(result.numbers)} texts, {positives} of them positive."
    broken = int((result.numbers["broken"] > 0).sum())
    held = len(result.numbers) - broken
    return f"Listing and its result: {held} of {len(result.numbers)} relations hold for all rows."


def _tell_table(result: Result) -> str:
    return f"Table of {len(result.numbers)} rows."
