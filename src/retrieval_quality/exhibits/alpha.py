"""An honest α: curves over α, what choosing it on the same rows adds, and which one to pick."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from retrieval_quality.data import schema
from retrieval_quality.exhibits.cells import CELL, scored_rows
from retrieval_quality.exhibits.drawing import draw_legend, lay_out_panels
from retrieval_quality.exhibits.exhibit import Result, StudyTable
from retrieval_quality.exhibits.ranges import (
    COLUMNS,
    RangeStudy,
    StudyOfCells,
    averaged,
)
from retrieval_quality.exhibits.words import n_range, number
from retrieval_quality.measures.segments import RANGES, range_of
from retrieval_quality.parameters import Parameters
from retrieval_quality.statistics import bootstrap

if TYPE_CHECKING:
    from retrieval_quality.data.dataset import Dataset

_PICKED = np.round(np.arange(0, 1.0001, 0.05), 2)
_WITHIN = 0.01
BEST, CROSSFIT, OTHERS, HALF = "best on the same rows", "cross-fitted", "other datasets", "α = ½"


@dataclass(frozen=True)
class AlphaCurves(RangeStudy):
    """Correlation over α: a panel a dataset, a line a range, a dot at each maximum."""

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        """Position is alpha and series the range of K/N_p: a line a range."""
        cells = profile(dataset, run, self.measures[0])
        if cells.empty:
            return self._none_large_enough(dataset, run)
        cells = cells.assign(series=cells["segment"].map(range_of), position=cells["alpha"])
        keys = ["dataset", "series", "position"]
        grouped = cells.groupby(keys, sort=False)
        numbers = grouped.agg(value=("correlation", "mean"), n=("n", "sum"), cells=("n", "size"))
        numbers = numbers.reset_index().rename(columns={"dataset": "panel"})
        numbers = numbers.assign(low=math.nan, high=math.nan)
        numbers["reason"] = np.where(numbers["value"].isna(), "undefined in every segment", "")
        places = {n: i for i, n in enumerate(schema.dataset_order(list(numbers["panel"].unique())))}
        ranges = {name: i for i, name in enumerate(RANGES)}
        keyed = numbers.assign(
            panel=numbers["panel"].map(places), series=numbers["series"].map(ranges)
        )
        order = keyed.sort_values(["panel", "series", "position"], kind="stable").index
        numbers = numbers.loc[order, list(COLUMNS)]
        notes = []
        for name, part in numbers.dropna(subset="value").groupby("panel", sort=False):
            best = part.loc[part.groupby("series", sort=False)["value"].idxmax()]
            spread = part.groupby("series", sort=False)["value"].agg(lambda v: v.max() - v.min())
            notes.append(
                f"{name}: the best α is from {best['position'].min():g} to "
                f"{best['position'].max():g}; between the best and the worst α the correlation "
                f"changes by up to {number(spread.max())} (at K/N_p {spread.idxmax()})."
            )
        return self._shown(dataset, run, numbers, notes)

    def _picture(self, result: Result) -> Figure:
        """Draw values over alpha: a panel a dataset, a line a range, a dot at each maximum."""
        numbers = result.numbers
        names = list(numbers["panel"].unique())
        ranges = [name for name in RANGES if name in set(numbers["series"])]
        sheet, panels = lay_out_panels(result, names, 0.98)
        for axes, name in zip(panels, names, strict=True):
            part = numbers[numbers["panel"] == name]
            for one in ranges:
                line = part[part["series"] == one].dropna(subset="value")
                if line.empty:
                    continue
                axes.plot(line["position"], line["value"], linewidth=1.4, **_line_of(one))
                best = line.loc[[line["value"].idxmax()]]
                dot: dict[str, Any] = {
                    "marker": "o",
                    "markersize": 4.5,
                    "clip_on": False,
                    "zorder": 4,
                }
                axes.plot(best["position"], best["value"], **dot, **_line_of(one))
            axes.set(xlim=(0, 1))
            axes.set_xlabel("α", size=8, labelpad=1)
            sizes = part.drop_duplicates("series")["n"]
            axes.text(
                1.0,
                1.02,
                f"rows a line: {n_range(sizes)}",
                size=6,
                color="#595959",
                ha="right",
                va="bottom",
                transform=axes.transAxes,
            )
        handles = [Line2D([], [], marker="o", markersize=4, **_line_of(one)) for one in ranges]
        draw_legend(sheet, handles, [f"$K/N_p$ {one}" for one in ranges], 0.52)
        return sheet.figure


@dataclass(frozen=True)
class AlphaOptimism(RangeStudy):
    """What choosing α on the same rows adds."""

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        rows, measure = scored_rows(dataset, run), self.measures
        options: dict[str, Any] = {
            "min_samples": run.min_samples_ratio,
            "measures": measure,
            "coefficient": run.coefficient,
        }
        crossed = bootstrap.crossfit(rows, seed=run.seed, **options)
        if crossed.empty:
            return self._none_large_enough(dataset, run)
        foreign = bootstrap.leave_dataset_out(rows, **options)
        half = bootstrap.profile(rows, alphas=[0.5], **options)
        cells = pd.concat(
            [
                crossed.assign(series=BEST, correlation=crossed["maximum"]),
                crossed.assign(series=CROSSFIT),
                foreign.assign(series=OTHERS),
                half.assign(series=HALF),
            ],
            ignore_index=True,
        )
        optimism, loss = crossed["optimism"].dropna(), foreign["loss"].dropna()
        shared = foreign.loc[loss.index, CELL] if len(loss) else crossed[CELL]
        numbers = averaged(cells.merge(shared, on=CELL))
        gap = (crossed["maximum"] - crossed["correlation"]).dropna()
        told = "No segment has a cross-fitted value."
        if len(optimism):
            told = (
                f"The maximum on the same rows is above the cross-fitted value by "
                f"{number(gap.mean())} on average over {len(gap)} segments, at most by "
                f"{number(gap.max())}. Of the average, {number(optimism.mean())} is optimism: what "
                "a maximum over α flatters itself by on the rows that it is taken on; "
                f"{number(crossed['half_cost'].mean())} is what choosing α on half of the queries "
                f"costs, and {number(crossed['ties'].mean())} is rounding that decides ties."
            )
        notes = [told]
        if len(loss):
            notes.append(
                f"With the α of the other datasets the loss against that maximum is "
                f"{number(loss.mean())} on average and at most {number(loss.max())}, over the "
                f"{len(loss)} of {len(crossed)} segments whose embedding and ratio another "
                "dataset has "
                "too. The picture shows these segments only, so that its marks are of the same "
                "rows."
            )
        else:
            notes.append("There is no other dataset to take α from.")
        return self._shown(dataset, run, numbers, notes)


@dataclass(frozen=True)
class AlphaPick(StudyTable, StudyOfCells):
    """If one α must be picked: which, and what it loses."""

    columns = (
        "range",
        "alpha",
        "within_low",
        "within_high",
        "correlation",
        "own_best",
        "lost",
        "lost_most",
        "datasets",
        "n",
        "cells",
    )

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        cells = profile(dataset, run, self.measures[0])
        if cells.empty:
            return self._none_large_enough(dataset, run)
        cells = cells[cells["alpha"].round(2).isin(_PICKED)].dropna(subset="correlation")
        cells = cells.assign(range=cells["segment"].map(range_of), alpha=cells["alpha"].round(2))
        ranges = [(name, cells[cells["range"] == name]) for name in RANGES]
        records = [_pick_for(name, part) for name, part in [*ranges, ("all", cells)] if len(part)]
        numbers = pd.DataFrame(records, columns=list(self.columns))
        notes = [
            f"K/N_p {row.range}: α = {row.alpha:g}{_as_good(row.within_low, row.within_high)}; "
            "it loses "
            f"{number(row.lost)} on average against each segment's own best."
            for row in numbers.itertuples()
        ]
        return self._shown(dataset, run, numbers, notes)


@lru_cache(maxsize=4)
def profile(dataset: Dataset, run: Parameters, measure: str) -> pd.DataFrame:
    """Correlate one measure in every cell at every α of the grid."""
    found = bootstrap.profile(
        scored_rows(dataset, run),
        min_samples=run.min_samples_ratio,
        measures=(measure,),
        coefficient=run.coefficient,
    )
    return found.astype(dict.fromkeys([*CELL, "measure"], "str"))


def _as_good(low: float, high: float) -> str:
    return f" (anything from {low:g} to {high:g} is within {_WITHIN})" if low < high else ""


def _pick_for(name: str, cells: pd.DataFrame) -> tuple[Any, ...]:
    """Best alpha of a range: each dataset weighs the same, whatever its number of cells."""
    by_dataset = cells.pivot_table(index="alpha", columns="dataset", values="correlation")
    mean = by_dataset.mean(axis=1)
    best = float(mean.idxmax())
    near = mean.index[mean > mean.max() - _WITHIN]
    grid = cells.pivot_table(index="alpha", columns=CELL, values="correlation")
    lost = grid.max() - grid.loc[best]
    by = lost.groupby(level="dataset").mean()
    own = grid.max().groupby(level="dataset").mean().mean()
    once = cells.drop_duplicates(CELL)
    return (
        name,
        best,
        float(near.min()),
        float(near.max()),
        float(mean.max()),
        float(own),
        float(by.mean()),
        float(by.max()),
        by_dataset.shape[1],
        int(once["n"].sum()),
        len(once),
    )


def _line_of(range_: str) -> dict[str, Any]:
    """Colour of a range, darker for lower ratios, and its dashes."""
    place = list(RANGES).index(range_)
    shade = mpl.colormaps["viridis"](0.85 * place / (len(RANGES) - 1))
    return {"color": shade, "linestyle": "dashed" if place % 2 else "solid"}
