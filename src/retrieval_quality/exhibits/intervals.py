"""Which differences stand: the maps of one measure minus another, with intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Outline

from retrieval_quality.exhibits import ranges
from retrieval_quality.exhibits.cells import (
    CELL,
    DIFFERENCE_COLUMNS,
    in_order,
    scored_rows,
)
from retrieval_quality.exhibits.exhibit import Result
from retrieval_quality.exhibits.heatmap import Difference, places_of_cells
from retrieval_quality.exhibits.ranges import (
    StudyOfCells,
)
from retrieval_quality.exhibits.words import (
    measure_name,
    of_all,
)
from retrieval_quality.parameters import Parameters
from retrieval_quality.statistics import bootstrap

if TYPE_CHECKING:
    from retrieval_quality.data.dataset import Dataset

_PAIRS = (("T", "F"), ("Tu", "T"), ("nDCG", "F"), ("T", "nDCG"))
_PAIRS_2K = (("Fe", "F"),)
DISCOVERIES = 0.05
"""False discovery rate over the cells of one picture."""
MARKED_COLUMNS = (
    *DIFFERENCE_COLUMNS,
    "low",
    "high",
    "p_value",
    "q_value",
    "stands",
    "queries",
    "replicates",
    "undefined",
)
"""Columns of the differences with their intervals; ``stands``: q_value up to `DISCOVERIES`."""
_FRAME: dict[str, Any] = {"fill": False, "edgecolor": "#111111", "linewidth": 1.5, "zorder": 2}
_SQUARE = ((0, 0), (1, 0), (1, 1), (0, 1))


@dataclass(frozen=True)
class Intervals(StudyOfCells, Difference):
    """A difference with the cells that stand framed and bold."""

    columns = MARKED_COLUMNS
    kind = "difference"
    uses = StudyOfCells.uses

    def _picture(self, result: Result) -> Figure:
        figure = super()._picture(result)
        cells = places_of_cells(figure, result.numbers)
        marked = [
            cell for cell, stands in zip(cells, result.numbers["stands"], strict=True) if stands
        ]
        for axes in figure.axes:
            corners = np.array([(cell.column, cell.row) for cell in marked if cell.axes is axes])
            if len(corners):
                frames = Outline.make_compound_path_from_polys(corners[:, None] + _SQUARE)
                axes.add_artist(PathPatch(frames, **_FRAME))
            middles = set(map(tuple, corners + 0.5))
            for text in axes.texts:
                if text.get_position() in middles:
                    text.set_fontweight("bold")
        return figure

    def describe(self, result: Result) -> str:
        """Say what is seen, and how much of it stands."""
        return f"{super().describe(result)} {' '.join(result.notes)}".rstrip()

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        every = marked_differences(dataset, run, self.require_2k)
        first, second = self.measures
        pair = every[(every["first"] == first) & (every["second"] == second)]
        numbers = pair[pair["dataset"] == self.dataset]
        if numbers.empty:
            return self._none_large_enough(dataset, run)
        numbers = in_order(numbers)
        largest = float(pair["difference"].abs().fillna(0.0).max())
        limit = max(0.05, math.ceil(round(largest / 0.05, 6)) * 0.05)
        known = numbers.dropna(subset="difference")
        ahead = int((known["stands"] & (known["difference"] > 0)).sum())
        behind = int((known["stands"] & (known["difference"] < 0)).sum())
        told = (
            f"{_capital(of_all(ahead + behind, len(known), 'cell'))} "
            f"{'stands' if ahead + behind == 1 else 'stand'} at a false discovery rate of "
            f"{DISCOVERIES:.0%}"
        )
        if ahead + behind:
            told += (
                f": {measure_name(first)} is ahead in {of_all(ahead, ahead + behind)} and behind "
                f"in {of_all(behind, ahead + behind)}"
            )
        told += "."
        least = 2 / (ranges.CELL_REPLICATES + 1)
        needed = math.ceil(round(least * len(known) / DISCOVERIES, 6))
        limit_told = (
            f"With {ranges.CELL_REPLICATES:,} replicates no p-value is below {least:.4f}, so "
            "that cells only "
            f"stand where {needed} or more of these {len(known)} reach it; "
            f"{int((known['p_value'] <= least).sum())} do."
        )
        notes = [told, limit_told] if len(known) else ["No cell has a difference."]
        lacking = int(numbers["low"].isna().sum())
        if lacking:
            reasons = numbers.loc[numbers["low"].isna(), "reason"].value_counts()
            told = ", ".join(
                f"{reason or 'no interval'} ({count})" for reason, count in reasons.items()
            )
            notes.append(f"{lacking} of {len(numbers)} cells have no interval: {told}.")
        result = self._shown(dataset, run, numbers, notes, (-round(limit, 2), round(limit, 2)))
        return replace(result, n=int(numbers["n"].sum()))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def marked_differences(dataset: Dataset, run: Parameters, require_2k: bool = False) -> pd.DataFrame:
    """Differences of the paper's pairs by ratio, with intervals, at an alpha not chosen to please.

    Parameters
    ----------
    dataset : Dataset
        Loaded data.
    run : Parameters
        Of the run: at cross-fitted alpha, or at ``alpha`` where that is a number.
    require_2k : bool
        F_e minus F on the rows whose 2K row exists, instead of the other pairs.

    Returns
    -------
    DataFrame
        `MARKED_COLUMNS`, one row a dataset, embedding, segment and pair.
    """
    return _marked_differences(dataset, run, require_2k)


@lru_cache(maxsize=4)
def _marked_differences(dataset: Dataset, run: Parameters, require_2k: bool) -> pd.DataFrame:
    pairs = _PAIRS_2K if require_2k else _PAIRS
    names = tuple(dict.fromkeys(name for pair in pairs for name in pair))
    found = bootstrap.intervals(
        scored_rows(dataset, run),
        min_samples=run.min_samples_ratio,
        measures=names,
        pairs=pairs,
        coefficient=run.coefficient,
        alpha="crossfit" if isinstance(run.alpha, str) else run.alpha,
        replicates=ranges.CELL_REPLICATES,
        seed=run.seed,
        require_2k=require_2k,
    )
    found = found.astype(dict.fromkeys([*CELL, "segmentation", "measure", "minus"], "str"))
    single = found.loc[found["minus"] == "", [*CELL, "measure", "correlation"]]
    both = found[found["minus"] != ""].rename(
        columns={
            "measure": "first",
            "minus": "second",
            "alpha": "alpha_first",
            "alpha_minus": "alpha_second",
            "correlation": "difference",
        }
    )
    for side in ("first", "second"):
        named = {"measure": side, "correlation": f"correlation_{side}"}
        both = both.merge(single.rename(columns=named), on=[*CELL, side], how="left")
    both["stands"] = both["q_value"] <= DISCOVERIES
    return both[list(MARKED_COLUMNS)]


def standing(dataset: Dataset, run: Parameters) -> pd.DataFrame:
    """Count, for each pair and dataset, the cells whose difference stands.

    Returns
    -------
    DataFrame
        ``pair, dataset, cells, stand, ahead, behind, median``: ahead and behind of those that
        stand; the median is of all cells' differences.
    """
    parts = [marked_differences(dataset, run)]
    if scored_rows(dataset, run)["n_positives_2k"].notna().any():
        parts.append(marked_differences(dataset, run, require_2k=True))
    records = []
    keys = ["first", "second", "dataset"]
    for (first, second, name), part in pd.concat(parts).groupby(keys, sort=False):
        known = part.dropna(subset="difference")
        ahead = known["stands"] & (known["difference"] > 0)
        behind = known["stands"] & (known["difference"] < 0)
        records.append(
            {
                "pair": f"{measure_name(str(first))} minus {measure_name(str(second))}",
                "dataset": name,
                "cells": len(known),
                "stand": int(ahead.sum() + behind.sum()),
                "ahead": int(ahead.sum()),
                "behind": int(behind.sum()),
                "median": known["difference"].median(),
            }
        )
    columns = ["pair", "dataset", "cells", "stand", "ahead", "behind", "median"]
    return pd.DataFrame(records, columns=columns)


def coverage() -> pd.DataFrame | None:
    """Give the result of the coverage benchmark, which lies in a checkout; None without one.

    Returns
    -------
    DataFrame or None
        As ``benchmarks/interval_coverage.py`` writes it: one row a number of queries, segment and
        measure or difference.
    """
    path = Path(__file__).parents[3] / "benchmarks" / "results" / "coverage.csv"
    return pd.read_csv(path).fillna({"minus": ""}) if path.is_file() else None


def coverage_notes(found: pd.DataFrame) -> list[str]:
    """Say for each number of queries how often intervals held the true value.

    Examples
    --------
    >>> rows = pd.DataFrame({"queries": 30, "segment": ["narrow", "wide"], "sets": 1000,
    ...                      "coverage": [0.94, 0.92]})
    >>> coverage_notes(rows)
    ['30 queries a segment: 93.0% over 2 rows, from 92.0% to 94.0%; 1 of them within 93% to 97%.']
    """
    said = []
    for queries, part in found[found["segment"] != "all"].groupby("queries"):
        pooled = np.average(part["coverage"], weights=part["sets"])
        inside = int(part["coverage"].between(0.93, 0.97).sum())
        said.append(
            f"{queries} queries a segment: {pooled:.1%} over {len(part)} rows, from "
            f"{part['coverage'].min():.1%} to {part['coverage'].max():.1%}; {inside} of them "
            "within 93% to 97%."
        )
    return said
