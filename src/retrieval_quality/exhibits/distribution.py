"""The share of each grade by ratio (Figures 2 to 4, 19 and 20)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from retrieval_quality.data import schema
from retrieval_quality.exhibits.cells import (
    CELL,
    in_order,
    notes_on_rows,
    scored_rows,
    select,
    sizes_of_segments,
    why_none,
)
from retrieval_quality.exhibits.drawing import (
    GREY,
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
    size_of,
    stand_upright,
)
from retrieval_quality.exhibits.exhibit import TOLERANCE, Checks, Exhibit, Result, all_of
from retrieval_quality.exhibits.words import counted, rows_a_cell
from retrieval_quality.measures import segments
from retrieval_quality.parameters import Parameters

if TYPE_CHECKING:
    from retrieval_quality.data.dataset import Dataset

GRADE_COLOURS = ("#b2482f", "#eba36b", "#f3ead3", "#8dbcd3", "#2a6a9e")
"""Grades 1 to 5: ordered, told apart by people with each kind of colour blindness."""


@dataclass(frozen=True)
class Distribution(Exhibit):
    """A stack of shares of the grades for each ratio, a panel for each embedding."""

    kind = "distribution"
    columns = ("dataset", "embedding", "segment", "grade", "count", "n", "n_total", "share")
    value = "share"
    uses = ("min_samples_ratio", "embeddings", "datasets")

    @property
    def title(self) -> str:
        """What it shows."""
        return f"Grades by K/N_p on {self.dataset_name}"

    def caption(self, parameters: Parameters | None = None) -> str:
        """Say what is drawn."""
        fewest = (parameters or Parameters()).min_samples_ratio
        return (
            f"Share of each grade on {self.dataset_name}, for each embedding (vertical) and "
            "rounded ratio K/N_p (horizontal): each bar is one "
            "ratio, the height of a colour is the share of its grade, 1 at the bottom "
            "and 5 on top, and the shares add up to 1. "
            f"Segments of fewer than {fewest} graded rows are left out."
        )

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        """Count the grades in every ratio segment that is large enough."""
        rows = scored_rows(dataset, run)
        rows = rows[rows["dataset"].astype("str") == self.dataset]
        selected = select(run, (), ())
        sizes = sizes_of_segments(dataset, run, selected)
        kept = sizes[(sizes["dataset"] == self.dataset) & (sizes["n"] >= run.min_samples_ratio)]
        if kept.empty:
            return self._nothing(dataset, run, why_none(dataset, run, selected, self.dataset))
        graded = pd.DataFrame(
            {
                "dataset": self.dataset,
                "embedding": rows["E"].astype("str"),
                "segment": segments.label_segments(rows, "ratio").astype("str"),
                "grade": rows["grade"],
            }
        ).dropna(subset="grade")
        counts = graded.astype({"grade": "int64"}).value_counts().rename("count").reset_index()
        grades = pd.DataFrame({"grade": schema.GRADES})
        numbers = kept.merge(grades, how="cross").merge(counts, on=[*CELL, "grade"], how="left")
        numbers["count"] = numbers["count"].fillna(0).astype("int64")
        numbers["share"] = numbers["count"] / numbers["n"]
        return self._result(
            dataset,
            run,
            in_order(numbers[list(self.columns)], ["grade"]),
            n=int(kept["n"].sum()),
            limits=(0.0, 1.0),
            notes=notes_on_rows(kept),
        )

    def _picture(self, result: Result) -> Figure:
        """Draw a panel for each embedding: a stack a ratio, with the mean grade above."""
        numbers = result.numbers
        embeddings, segments = grid_of(numbers)
        deep, left = 1.0, label_room(embeddings)
        cell = columns_width(len(segments), left, 0.155)
        gap = 0.34 if stand_upright(["0.0"], cell) else 0.28
        below = ratio_room(column_sizes(numbers, segments), segments, cell)
        inner = cell * len(segments)
        top = HEADER + 0.42
        height = top + len(embeddings) * (deep + gap) - gap + below + 0.1
        sheet = Sheet(result, max(left + inner + 0.15, NARROWEST_SHEET), height)
        for row, embedding in enumerate(embeddings):
            axes = sheet.axes(left, top + row * (deep + gap), inner, deep)
            rows = numbers[numbers["embedding"] == embedding]
            _draw_stacks(axes, rows, segments)
            axes.set_ylabel(embedding_tick(embedding), rotation=0, ha="right", va="center")
            axes.set_xticks([])
        label_ratios(axes, numbers, segments)
        handles = [Patch(fc=c, ec="#8c8c8c", lw=0.4) for c in GRADE_COLOURS]
        labels = [f"grade {grade}" for grade in schema.GRADES]
        sheet.figure.legend(
            handles,
            labels,
            loc="upper center",
            bbox_to_anchor=(0.5, 1 - (HEADER - 0.05) / height),
            ncols=5,
            frameon=False,
            fontsize=8,
            handlelength=1.1,
            handletextpad=0.4,
            columnspacing=1.0,
            borderpad=0,
        )
        return sheet.figure

    def _told(self, result: Result) -> str:
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
            f"Stacked shares of grades 1 to 5 for {len(means.index.unique('embedding'))} "
            "embeddings "
            f"at {len(means.index.unique('segment'))} ratios K/N_p. Mean grade of "
            f"{'; of '.join(told)}. {rows_a_cell(sizes)}"
        )

    def _seen(self, result: Result) -> list[str]:
        best = best_ratios(result)
        said = [
            f"{schema.embedding_label(row.embedding)}: the mean grade is highest at "
            f"K/N_p = {row.best_ratio} ({row.mean_grade:.2f}, n = {row.n:,}); it is "
            f"{row.at_lowest:.2f} at the lowest ratio shown and {row.at_highest:.2f} at the "
            "highest."
            for row in best.itertuples()
        ]
        graded = counted(result.n, "graded answer")
        return [f"{graded}, {counted(len(best), 'embedding')}.", *said]

    def _held(self, result: Result) -> Checks:
        bars = result.numbers.groupby(["embedding", "segment"])
        sums, n = bars["share"].sum(), bars["n"].first()
        return [
            (
                f"shares of each of {len(sums)} bars add up to 1",
                all_of((sums - 1).abs() <= TOLERANCE),
            ),
            ("counts of each bar add up to its n", all_of(bars["count"].sum() == n)),
            (
                "no bar has fewer rows than the minimum",
                all_of(n >= result.parameters.min_samples_ratio),
            ),
        ]


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
    rotation = 90 if stand_upright(["0.0"], size_of(axes)[0] / len(segments)) else 0
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
    axes.spines["left"].set_color(GREY)
    axes.yaxis.set_label_coords(-0.24 / size_of(axes)[0], 0.5)


def mean_grades(result: Result) -> pd.DataFrame:
    """Mean grade of each segment of a distribution.

    Parameters
    ----------
    result : Result
        Of a figure of kind ``distribution``.

    Returns
    -------
    DataFrame
        ``dataset, embedding, segment, n, mean_grade`` (1-5).
    """
    numbers = result.numbers
    weighted = numbers.assign(mean_grade=numbers["grade"] * numbers["share"])
    keys = ["dataset", "embedding", "segment", "n"]
    return weighted.groupby(keys, sort=False)["mean_grade"].sum().reset_index()


def lone_bars(rows: pd.DataFrame, fewest: int) -> str:
    """Say how many bars hold questions of one N_p only, and which of the best ratios do.

    Parameters
    ----------
    rows : DataFrame
        Scored rows.
    fewest : int
        Graded rows that a bar must have.

    Examples
    --------
    >>> bars = {"dataset": "A", "E": "AM", "K": [1, 2], "Np": 2, "grade": [1, 5]}
    >>> lone_bars(pd.DataFrame(bars), 1)
    '2 of 2 bars hold questions of one N_p only, and 1 of the 1 best ratios are such bars: \
A at 1.0 (AM).'
    """
    keys = ["dataset", "E", "segment"]
    graded = rows[rows["grade"].notna()]
    graded = graded.assign(segment=segments.label_segments(graded, "ratio"))
    bars = graded.groupby(keys, observed=True).agg(
        n=("grade", "size"), sizes=("Np", "nunique"), mean=("grade", "mean")
    )
    bars = bars[bars["n"] >= fewest].reset_index()
    if bars.empty:
        return "No bar has enough graded answers."
    best = bars.sort_values("mean", ascending=False).drop_duplicates(["dataset", "E"])
    alone = best[best["sizes"] == 1].astype(dict.fromkeys(keys, "str"))
    alone = alone.assign(E=alone["E"].map(schema.embedding_label)).sort_values("E")
    named = "; ".join(
        f"{dataset} at {ratio} ({', '.join(part['E'])})"
        for (dataset, ratio), part in alone.groupby(["dataset", "segment"])
    )
    return (
        f"{(bars['sizes'] == 1).sum()} of {len(bars)} bars hold questions of one N_p only, and "
        f"{len(alone)} of the {len(best)} best ratios are such bars"
        + (f": {named}." if named else ".")
    )


def best_ratios(result: Result) -> pd.DataFrame:
    """Ratio with the highest mean grade, for each embedding of a distribution.

    Parameters
    ----------
    result : Result
        Of a figure of kind ``distribution``.

    Returns
    -------
    DataFrame
        ``dataset, embedding, best_ratio, mean_grade, n``, and the mean grade at the lowest and the
        highest ratio shown: ``at_lowest, at_highest``.
    """
    rows = []
    for (dataset, embedding), part in mean_grades(result).groupby(
        ["dataset", "embedding"], sort=False
    ):
        part = part.sort_values("segment", key=lambda names: names.astype(float))
        best = part.loc[part["mean_grade"].idxmax()]
        ends = part["mean_grade"].iloc[[0, -1]]
        rows.append((dataset, embedding, best["segment"], best["mean_grade"], best["n"], *ends))
    columns = ["dataset", "embedding", "best_ratio", "mean_grade", "n", "at_lowest", "at_highest"]
    return pd.DataFrame(rows, columns=columns)
