"""Drawing of what goes beyond the paper: values with intervals, curves over alpha, an advice board.

In the style of `figures`, and on its sheets; whatever is no study is handed on to it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path

from retrieval_quality.data import schema
from retrieval_quality.exhibits import figures, studies
from retrieval_quality.exhibits.analysis import Result
from retrieval_quality.exhibits.catalogue import Study, measure_name
from retrieval_quality.exhibits.figures import Sheet, as_is, draw_message, short, symbol
from retrieval_quality.measures import MEASURES

MARKS: dict[str, tuple[str, str]] = {
    **figures.MEASURE_MARKS,
    "P": ("s", "#009e73"),
    "R": ("v", "#cc79a7"),
    "Fe": ("P", "#e69f00"),
    "hit": ("X", "#56b4e9"),
    "RR": ("*", "#7a5c00"),
}
"""Marker and colour of the measures; whatever is not named here takes the next free one."""

_ORDER = (("o", "#0072b2"), ("^", "#d55e00"), ("s", "#009e73"), ("v", "#cc79a7"))
_PANEL = (3.0, 1.35)
"""Width and height in inches."""
_LEFT, _GAP_X, _GAP_Y = 0.5, 0.55, 0.78
_FRAME: dict[str, Any] = {"fill": False, "edgecolor": "#111111", "linewidth": 1.5, "zorder": 2}
_SQUARE = ((0, 0), (1, 0), (1, 1), (0, 1))


def draw(result: Result) -> Figure:
    """Draw a study, or a figure of the paper, from its numbers.

    Parameters
    ----------
    result
        From `studies.compute`, of a kind that is drawn.

    Returns
    -------
    matplotlib.figure.Figure
        A panel with the reason where there is nothing to draw.

    Raises
    ------
    ValueError
        The entry is a listing or a table.
    """
    if not isinstance(result.entry, Study):
        return figures.draw(result)
    if result.entry.kind == "study-table":
        raise ValueError(f"{result.entry.title} is a table, which is not drawn")
    with figures.style():
        if result.missing:
            return draw_message(result)
        return _drawer(result.entry)(result)


def _drawer(entry: Study) -> Callable[[Result], Figure]:
    if entry.kind == "difference":
        return _draw_marked
    if entry.topic == "which-measure":
        return _draw_board
    return _draw_curves if entry.topic.startswith("alpha-curves") else _draw_ranges


def alt_text(result: Result) -> str:
    """Say what is seen in a study or a figure, from its numbers.

    Parameters
    ----------
    result
        From `studies.compute`.

    Returns
    -------
    str
        Plain text.
    """
    told = figures.alt_text(result) if not _is_own(result) else _tell(result)
    if isinstance(result.entry, Study) and result.entry.kind == "difference":
        return f"{told} {' '.join(result.notes)}".rstrip()
    return told


def _is_own(result: Result) -> bool:
    return isinstance(result.entry, Study) and result.entry.kind != "difference"


# --- differences that stand ---------------------------------------------------------------------


def _draw_marked(result: Result) -> Figure:
    """Draw the heatmap of a difference, with the cells that stand framed and bold."""
    figure = figures.draw(result)
    cells = figures.cells(figure, result.numbers)
    marked = [cell for cell, stands in zip(cells, result.numbers["stands"], strict=True) if stands]
    for axes in figure.axes:
        corners = np.array([(cell.column, cell.row) for cell in marked if cell.axes is axes])
        if len(corners):
            frames = Path.make_compound_path_from_polys(corners[:, None] + _SQUARE)
            axes.add_artist(PathPatch(frames, **_FRAME))
        middles = set(map(tuple, corners + 0.5))
        for text in axes.texts:
            if text.get_position() in middles:
                text.set_fontweight("bold")
    return figure


# --- panels ---------------------------------------------------------------------------------------


def _lay_out(result: Result, names: Sequence[str], top: float) -> tuple[Sheet, list[Axes]]:
    """Lay out a panel for each name, two beside each other, all on one scale."""
    wide, deep = _PANEL
    rows = -(-len(names) // 2)
    columns = min(2, len(names))
    width = _LEFT + columns * wide + (columns - 1) * _GAP_X + 0.2
    sheet = Sheet(result, max(width, 5.2), top + rows * (deep + _GAP_Y))
    low, high = result.limits or (-1.0, 1.0)
    panels = []
    for i, name in enumerate(names):
        x = _LEFT + (i % 2) * (wide + _GAP_X)
        axes = sheet.axes(x, top + (i // 2) * (deep + _GAP_Y), wide, deep)
        axes.set(ylim=(low, high))
        axes.grid(axis="y", color="#e3e3e3", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.axhline(0, color="#8c8c8c", linewidth=0.8, zorder=1)
        axes.tick_params(labelsize=7)
        axes.set_title(_panel_title(name), loc="left", pad=4, y=1, weight="bold")
        panels.append(axes)
    sheet.text(0.1, 0.3, as_is(_axis(result)) + " (vertical)", va="top", size=8, color="#404040")
    return sheet, panels


def _axis(result: Result) -> str:
    assert isinstance(result.entry, Study)
    return result.entry.axis


def _panel_title(name: str) -> str:
    full = schema.DATASETS.get(name, "")
    plain = figures.set_symbols(name)
    return plain if not full or full == name else f"{plain}  {as_is(full)}"


def _series_marks(series: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Mark each series: measures always alike, others in their order."""
    marks: dict[str, dict[str, Any]] = {}
    others = iter(_ORDER * (1 + len(series) // len(_ORDER)))
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


def _series_label(name: str) -> str:
    return symbol(name) if name in MEASURES else as_is(name)


def _draw_legend(sheet: Sheet, handles: Sequence[Line2D], labels: Sequence[str], y: float) -> None:
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


def _draw_ranges(result: Result) -> Figure:
    """Draw values with their intervals: a panel a dataset, a group a range, a mark a series."""
    numbers = result.numbers
    names, series = list(numbers["panel"].unique()), list(numbers["series"].unique())
    positions = [p for p in _positions(numbers) if p in set(numbers["position"])]
    rows = 2 if max(map(len, series)) > 18 else 1
    sheet, panels = _lay_out(result, names, 0.78 + 0.2 * rows)
    marks = _series_marks(series)
    spread = 0.68 / max(1, len(series) - 1) if len(series) > 1 else 0.0
    for axes, name in zip(panels, names, strict=True):
        part = numbers[numbers["panel"] == name]
        for i, one in enumerate(series):
            offset = (i - (len(series) - 1) / 2) * spread
            points = part[part["series"] == one].dropna(subset="value")
            x = np.array([positions.index(p) for p in points["position"]]) + offset
            ends = points[["low", "high"]].to_numpy(dtype=float).T
            axes.vlines(x, *ends, color=marks[one]["color"], linewidth=1.1, zorder=2)
            axes.plot(x, points["value"], linestyle="none", zorder=3, clip_on=False, **marks[one])
        _label_positions(axes, part, positions)
    handles = [Line2D([], [], linestyle="none", **marks[one]) for one in series]
    _draw_legend(sheet, handles, [_series_label(one) for one in series], 0.52)
    return sheet.figure


def _positions(numbers: pd.DataFrame) -> list[str]:
    ranges = set(numbers["position"]) <= set(studies.RANGES)
    return list(studies.RANGES) if ranges else list(numbers["position"].unique())


def _label_positions(axes: Axes, part: pd.DataFrame, positions: Sequence[str]) -> None:
    """Label each group and, below it, the rows that it rests on."""
    axes.set(xlim=(-0.5, len(positions) - 0.5), xticks=range(len(positions)))
    axes.set_xticklabels([textwrap.fill(as_is(name), 10) for name in positions])
    axes.tick_params(axis="x", length=0)
    for edge in np.arange(0.5, len(positions) - 1):
        axes.axvline(edge, color="#ececec", linewidth=0.8, zorder=0)
    lines = max(textwrap.fill(name, 10).count("\n") for name in positions)
    y = -(0.24 + 0.12 * lines) / _PANEL[1]
    below: dict[str, Any] = {"ha": "center", "va": "top", "size": 6, "color": "#595959"}
    for i, name in enumerate(positions):
        sizes = part.loc[part["position"] == name, "n"]
        text = f"n {sizes.max():,}" if len(sizes) else "none"
        axes.text(i, y, text, transform=axes.get_xaxis_transform(), **below)


def _line(range_: str) -> dict[str, Any]:
    """Colour of a range, darker for lower ratios, and its dashes."""
    place = list(studies.RANGES).index(range_)
    shade = mpl.colormaps["viridis"](0.85 * place / (len(studies.RANGES) - 1))
    return {"color": shade, "linestyle": "dashed" if place % 2 else "solid"}


def _draw_curves(result: Result) -> Figure:
    """Draw values over alpha: a panel a dataset, a line a range, a dot at each maximum."""
    numbers = result.numbers
    names = list(numbers["panel"].unique())
    ranges = [name for name in studies.RANGES if name in set(numbers["series"])]
    sheet, panels = _lay_out(result, names, 0.98)
    for axes, name in zip(panels, names, strict=True):
        part = numbers[numbers["panel"] == name]
        for one in ranges:
            line = part[part["series"] == one].dropna(subset="value")
            if line.empty:
                continue
            axes.plot(line["position"], line["value"], linewidth=1.4, **_line(one))
            best = line.loc[[line["value"].idxmax()]]
            dot: dict[str, Any] = {"marker": "o", "markersize": 4.5, "clip_on": False, "zorder": 4}
            axes.plot(best["position"], best["value"], **dot, **_line(one))
        axes.set(xlim=(0, 1))
        axes.set_xlabel("α", size=8, labelpad=1)
        sizes = part.drop_duplicates("series")["n"]
        axes.text(
            1.0,
            1.02,
            f"rows a line: {figures.n_range(sizes)}",
            size=6,
            color="#595959",
            ha="right",
            va="bottom",
            transform=axes.transAxes,
        )
    handles = [Line2D([], [], marker="o", markersize=4, **_line(one)) for one in ranges]
    _draw_legend(sheet, handles, [f"$K/N_p$ {one}" for one in ranges], 0.52)
    return sheet.figure


# --- the board ------------------------------------------------------------------------------------

_CELL = (1.06, 0.62)


def _draw_board(result: Result) -> Figure:
    """Draw a grid: for each dataset and range the measure to watch, and what is level with it."""
    numbers = result.numbers
    names = list(numbers["panel"].unique())
    ranges = [name for name in studies.RANGES if name in set(numbers["position"])]
    wide, deep = _CELL
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
        "coloured: one measure is clearly best; grey: no clear winner, those below are level with "
        f"it; number: {_axis(result)}"
    )
    filled = textwrap.fill(told, int(width / 0.062))
    sheet.text(0.1, sheet.height - 0.06, filled, va="bottom", size=7, color="#595959")
    return sheet.figure


def _row_title(name: str) -> str:
    full = schema.DATASETS.get(name, "")
    return f"{as_is(name)}\n{textwrap.fill(as_is(full), 16)}" if full else as_is(name)


def _draw_advice(axes: Axes, place: tuple[int, int], cell: Any) -> None:
    x, y = place
    if cell is None or cell.reason:
        axes.add_patch(Rectangle((x, y), 1, 1, **figures.HATCH))
        axes.text(x + 0.5, y + 0.5, "too few rows" if cell is None else "undefined", **_SMALL)
        return
    clear = not cell.level
    colour = MARKS.get(cell.series, ("", "#3a3a3a"))[1]
    shade = _tint(colour) if clear else "#f0f0f0"
    axes.add_patch(Rectangle((x, y), 1, 1, fc=shade, ec="white", lw=2))
    said = f"{_series_label(cell.series)}  {short(cell.value)}"
    strong: dict[str, Any] = {"ha": "center", "va": "center", "size": 10}
    axes.text(x + 0.5, y + 0.3, said, weight="bold" if clear else "normal", **strong)
    level = ", ".join(_series_label(name) for name in cell.level.split(", ") if name)
    axes.text(x + 0.5, y + 0.6, f"level: {level}" if level else "clearly best", **_SMALL)
    axes.text(x + 0.5, y + 0.84, f"n {cell.n:,}", **{**_SMALL, "size": 6})


_SMALL: dict[str, Any] = {"ha": "center", "va": "center", "size": 7, "color": "#404040"}


def _tint(colour: str) -> tuple[float, ...]:
    """Mix a colour with white, so that dark text stands out on it."""
    return tuple(1 - 0.35 * (1 - part) for part in mpl.colors.to_rgb(colour))


# --- words for those who do not see the picture ---------------------------------------------------


def _tell(result: Result) -> str:
    opening = "Simulated data. " if result.simulated else ""
    told = result.missing or _told(result)
    title = result.entry.title
    return f"{opening}{title}{'' if title.endswith('?') else '.'} {told}"


def _told(result: Result) -> str:
    numbers = result.numbers
    if result.entry.kind == "study-table":
        return f"Table of {len(numbers)} rows."
    what = _axis(result)
    panels = numbers["panel"].nunique()
    known = numbers.dropna(subset="value")
    if known.empty:
        return f"{panels} panels of {what}; nothing is defined."
    if result.entry.topic == "which-measure":
        cells = [
            f"{row.panel} at {row.position}: {measure_name(row.series)} "
            f"{figures.decimal(row.value)}"
            + (f", level with it {row.level}" if row.level else ", clearly best")
            for row in known.itertuples()
        ]
        return f"Grid of advice by dataset and K/N_p. {'; '.join(cells)}."
    ends = []
    for name, part in known.groupby("series", sort=False):
        low, high = (figures.decimal(v) for v in (part["value"].min(), part["value"].max()))
        ends.append(
            f"{measure_name(name) if name in MEASURES else name or 'values'} {low} to {high}"
        )
    lacking = len(numbers) - len(known)
    undefined = f" {lacking} of {len(numbers)} values are undefined." if lacking else ""
    sizes = figures.n_range(known["n"])
    return f"{panels} panels of {what}: {'; '.join(ends)}. {sizes} rows a value.{undefined}"
