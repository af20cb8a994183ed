"""The schematic: how a retrieval measure is judged (Figure 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

from retrieval_quality.data import schema
from retrieval_quality.exhibits.drawing import Sheet, symbol
from retrieval_quality.exhibits.exhibit import TOLERANCE, Checks, Exhibit, Result
from retrieval_quality.measures import MEASURES
from retrieval_quality.parameters import Parameters

if TYPE_CHECKING:
    from retrieval_quality.data.dataset import Dataset

EXAMPLE_PATTERN = "10110"
"""The retrieval that the schematic shows: 1 where the document at that rank is a positive."""
EXAMPLE_POSITIVES = 4
"""N_p of the retrieval that the schematic shows."""

_POSITIVE, _NEGATIVE = "#2a6a9e", "#d9d9d9"
_BELOW_K = (0, 1, 0)
"""What stands below rank K in the schematic: with it the ranking has its N_p positives."""
_ILLUSTRATION = ((0.08, 1), (0.2, 2), (0.24, 1), (0.4, 3), (0.45, 2), (0.6, 4), (0.66, 3), (0.9, 5))
"""Points of the schematic's last panel: measure (0-1) and grade; an illustration, not data."""
_SMALL: dict[str, Any] = {"size": 7, "color": "#595959", "ha": "center", "va": "top"}


@dataclass(frozen=True)
class Schematic(Exhibit):
    """One retrieval judged twice, by a measure and by a grade, and many of them correlated."""

    kind = "schematic"
    columns = ("measure", "alpha", "value")
    uses = ()

    @property
    def title(self) -> str:
        """What it shows."""
        return "How a retrieval measure is judged"

    def caption(self, parameters: Parameters | None = None) -> str:
        """Say what is drawn."""
        return (
            "One top-K retrieval is judged twice: by a measure of the ranking alone, and "
            "by the grade of the answer that an LLM writes from it. The correlation of "
            "the two over many samples says how well the measure predicts the quality."
        )

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        """Measures of the example, at α = 1/2."""
        example = pd.DataFrame(
            {
                "n_positives": [EXAMPLE_PATTERN.count("1")],
                "K": [len(EXAMPLE_PATTERN)],
                "Np": [EXAMPLE_POSITIVES],
                "pattern": [EXAMPLE_PATTERN],
            }
        )
        rows = []
        for name in ("P", "R", "F", "nDCG", "T"):
            alpha = 0.5 if MEASURES[name].has_alpha else None
            value = float(MEASURES[name].evaluate(example, alpha)[0])
            rows.append({"measure": name, "alpha": alpha, "value": value})
        numbers = pd.DataFrame(rows).astype({"alpha": "float64"})
        return Result(self, run, numbers, notes=("The picture shows an example, not data.",))

    def _picture(self, result: Result) -> Figure:
        """Draw one retrieval judged twice, and many of them correlated."""
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
        _draw_box(
            axes, (2.72, 0.6), (2.3, 0.95), f"a measure judges the ranking\n{counts}\n{shown}"
        )
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

    def _told(self, result: Result) -> str:
        values = result.numbers.set_index("measure")["value"]
        measures = ", ".join(f"{name} {values[name]:.2f}" for name in ("F", "nDCG", "T"))
        return (
            "Diagram: a query leads to ranked documents, of which the top "
            f"{len(EXAMPLE_PATTERN)} are "
            f"used. One arrow goes to a measure of the ranking ({measures}), another to an LLM "
            "that "
            "answers from them and an LLM that grades the answer. Both end in a scatter plot of "
            "grade "
            "against measure over many samples, whose correlation judges the measure."
        )

    def _held(self, result: Result) -> Checks:
        ranges = [MEASURES[name] for name in result.numbers["measure"]]
        low, high = (np.array([getattr(one, end) for one in ranges]) for end in ("low", "high"))
        inside = result.numbers["value"].between(low - TOLERANCE, high + TOLERANCE)
        return [("each measure of the example lies in its range", bool(inside.all()))]


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
