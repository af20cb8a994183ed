"""What all pictures share: one style, a sheet measured in inches, axes, marks, colour and panels.

Every picture is made under one style, whatever the user's own settings, without the figures of
`pyplot` and without touching the settings. Sizes are in inches and grow with the number of
columns, so that text stays as large as it is.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib import style as mpl_style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, get_font
from matplotlib.lines import Line2D

from retrieval_quality.data import schema
from retrieval_quality.exhibits.words import n_range
from retrieval_quality.measures import MEASURES
from retrieval_quality.measures.segments import segment_order
from retrieval_quality.text import line

if TYPE_CHECKING:
    from retrieval_quality.exhibits.exhibit import Result

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

MARKS: dict[str, tuple[str, str]] = {
    "T": ("o", "#0072b2"),
    "nDCG": ("^", "#d55e00"),
    "F": ("D", "#3a3a3a"),
    "P": ("s", "#009e73"),
    "R": ("v", "#cc79a7"),
    "Fe": ("P", "#e69f00"),
    "hit": ("X", "#56b4e9"),
    "RR": ("*", "#7a5c00"),
}
"""Marker and colour (Okabe-Ito) of the measures; whatever is not here takes the next free one."""
STAMP = "simulated data"
GREY = "#8c8c8c"
HATCH: dict[str, Any] = {
    "facecolor": "#f4f4f4",
    "edgecolor": "#b3b3b3",
    "hatch": "/////",
    "linewidth": 0,
}
"""The ground of whatever has no value."""
HEADER = 0.42
"""Inches kept free above the axes for the title and the stamp."""
NARROWEST_SHEET = 4.8
TICK_ROOM = 0.25
_LETTER = 0.062
"""Inches that a digit of the smallest text takes."""
_FREE_MARKS = (("o", "#0072b2"), ("^", "#d55e00"), ("s", "#009e73"), ("v", "#cc79a7"))


@contextmanager
def style() -> Iterator[None]:
    """Use the style of this package inside a ``with`` block and restore the settings after it."""
    with mpl_style.context(["default", STYLE]):
        yield


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
        label = "" if result.exhibit.number is None else f"{result.exhibit.label}: "
        stamped = result.simulated
        room = width - (1.35 if stamped else 0.2)
        title = textwrap.shorten(label + result.exhibit.title, int(room / 0.0755), placeholder=" …")
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
    shown = [c if ord(c) in known else f"\\u{ord(c):04x}" for c in line(text, 200)]
    return "".join(shown).replace("$", r"\$")


@cache
def _characters() -> frozenset[int]:
    """Characters that the style's font can draw, which comes with matplotlib."""
    return frozenset(get_font(findfont(STYLE["font.family"])).get_charmap())


def symbol(measure: str) -> str:
    """Symbol of a measure as matplotlib's mathematics.

    Examples
    --------
    >>> symbol("F")
    '$F$'
    """
    return f"${MEASURES[measure].symbol}$"


def embedding_tick(code: str) -> str:
    """Label of an embedding beside its row."""
    return as_is(line(schema.embedding_label(code), 24))


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


def grid_of(numbers: pd.DataFrame) -> tuple[list[str], list[str]]:
    """Embeddings from the top down, and segments from left to right."""
    embeddings = schema.embedding_order(list(numbers["embedding"].unique()))
    return embeddings, segment_order(numbers["segment"].unique())


def columns_width(n_columns: int, left: float, least: float) -> float:
    """Width of each column: wide where there are few, never too narrow for what stands in it."""
    filling = (NARROWEST_SHEET - left - 0.15) / n_columns
    return float(np.clip(max(5.6 / n_columns, least), None, max(0.5, min(filling, 1.2))))


def label_room(embeddings: Sequence[str]) -> float:
    """Inches that the labels of the rows take."""
    longest = max(len(embedding_tick(code)) for code in embeddings)
    return max(0.55, 0.25 + 0.085 * longest)


def column_sizes(numbers: pd.DataFrame, segments: Sequence[str]) -> list[str]:
    """Rows behind each column, as text: one number, or the range over the embeddings."""
    by_segment = numbers.groupby("segment")["n"]
    ends = zip(by_segment.min().items(), by_segment.max(), strict=True)
    texts = {segment: n_range((low, high)) for (segment, low), high in ends}
    return [texts[segment] for segment in segments]


def stand_upright(texts: Sequence[str], cell: float) -> bool:
    """Whether texts are too long to lie in columns of this width."""
    return _LETTER * max(len(text) for text in texts) > cell - 0.03


def ratio_room(sizes: Sequence[str], segments: Sequence[str], cell: float) -> float:
    """Inches that the labels of the columns take below the axes."""
    ticks = TICK_ROOM + (0.1 if stand_upright(segments, cell) else 0)
    return ticks + (_LETTER * max(map(len, sizes)) if stand_upright(sizes, cell) else 0.12) + 0.02


def label_ratios(axes: Axes, numbers: pd.DataFrame, segments: Sequence[str]) -> None:
    """Label the columns with the ratio and, below it, the rows that each rests on.

    Texts and not ticks: of those each is five artists, which takes longer.
    """
    width, height = size_of(axes)
    cell = width / len(segments)
    sizes = column_sizes(numbers, segments)
    standing = stand_upright(segments, cell)
    y = -(TICK_ROOM + (0.1 if standing else 0)) / height
    ratio: dict[str, Any] = {"va": "top", "size": 8, "rotation": 90 if standing else 0}
    below: dict[str, Any] = {"va": "top", "size": 6.5, "color": "#595959"}
    turned = 90 if stand_upright(sizes, cell) else 0
    middle: dict[str, Any] = {"ha": "center", "transform": axes.get_xaxis_transform()}
    for column, (segment, rows) in enumerate(zip(segments, sizes, strict=True), start=1):
        weight = "bold" if segment == "1.0" else "normal"
        axes.text(column - 0.5, -0.028 / height, segment, weight=weight, **ratio, **middle)
        axes.text(column - 0.5, y, rows, rotation=turned, **below, **middle)
    left: dict[str, Any] = {"ha": "right", "transform": axes.transAxes}
    axes.text(-0.04 / width, -0.05 / height, "$K/N_p$", size=8, va="top", **left)
    axes.text(-0.04 / width, y, "rows n", **left, **below)


def size_of(axes: Axes) -> tuple[float, float]:
    """Width and height in inches."""
    box, page = axes.get_position(), axes.get_figure(root=True)
    assert page is not None
    return float(box.width * page.get_figwidth()), float(box.height * page.get_figheight())


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


# --- panels beside each other -------------------------------------------------------------------

PANEL = (3.0, 1.35)
"""Width and height in inches."""
_LEFT, _GAP_X, _GAP_Y = 0.5, 0.55, 0.78


def lay_out_panels(result: Result, names: Sequence[str], top: float) -> tuple[Sheet, list[Axes]]:
    """Lay out a panel for each name, two beside each other, all on one scale."""
    wide, deep = PANEL
    rows = -(-len(names) // 2)
    columns = min(2, len(names))
    width = _LEFT + columns * wide + (columns - 1) * _GAP_X + 0.2
    sheet = Sheet(result, max(width, 5.2), top + rows * (deep + _GAP_Y))
    low, high = result.scale
    panels = []
    for i, name in enumerate(names):
        x = _LEFT + (i % 2) * (wide + _GAP_X)
        axes = sheet.axes(x, top + (i // 2) * (deep + _GAP_Y), wide, deep)
        axes.set(ylim=(low, high))
        axes.grid(axis="y", color="#e3e3e3", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.axhline(0, color="#8c8c8c", linewidth=0.8, zorder=1)
        axes.tick_params(labelsize=7)
        axes.set_title(panel_title(name), loc="left", pad=4, y=1, weight="bold")
        panels.append(axes)
    sheet.text(
        0.1,
        0.3,
        as_is(result.exhibit.values_named(result)) + " (vertical)",
        va="top",
        size=8,
        color="#404040",
    )
    return sheet, panels


def panel_title(name: str) -> str:
    """Title of a panel: a dataset with its full name, anything else as it is."""
    full = schema.DATASETS.get(name, "")
    plain = set_symbols(name)
    return plain if not full or full == name else f"{plain}  {as_is(full)}"


def series_marks(series: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Mark each series: measures always alike, others in their order."""
    marks: dict[str, dict[str, Any]] = {}
    others = iter(_FREE_MARKS * (1 + len(series) // len(_FREE_MARKS)))
    for name in series:
        shape, colour = MARKS.get(name) or next(others)
        hollow = name == "F"
        marks[name] = {
            "marker": shape,
            "color": colour,
            "markersize": 5.5 if hollow else 4.5,
            "markerfacecolor": "none" if hollow else colour,
            "markeredgecolor": colour if hollow else "white",
            "markeredgewidth": 1.2 if hollow else 0.4,
        }
    return marks


def series_label(name: str) -> str:
    """Write a series in a legend: a measure by its symbol, anything else as it is."""
    return symbol(name) if name in MEASURES else as_is(name)


def draw_legend(sheet: Sheet, handles: Sequence[Line2D], labels: Sequence[str], y: float) -> None:
    """Draw the legend of the series below the title; none for a single one."""
    if len(labels) < 2:
        return
    longest = max(len(label) for label in labels)
    sheet.figure.legend(
        handles,
        labels,
        loc="upper left",
        bbox_to_anchor=(0.06 / sheet.width, 1 - y / sheet.height),
        ncols=2 if longest > 18 else min(len(labels), 7),
        frameon=False,
        fontsize=8,
        handletextpad=0.4,
        columnspacing=1.2,
        borderpad=0,
    )
