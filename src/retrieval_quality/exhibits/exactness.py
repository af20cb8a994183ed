"""What the published grid of α and float ties do to the numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from retrieval_quality.data import schema
from retrieval_quality.exhibits.cells import CELL, scored_rows
from retrieval_quality.exhibits.exhibit import Exhibit, Result, StudyTable
from retrieval_quality.exhibits.heatmap import Difference
from retrieval_quality.exhibits.ranges import (
    COLUMNS,
    RangeStudy,
    StudyOfCells,
)
from retrieval_quality.exhibits.words import counted, measure_name, number, signed_in_full
from retrieval_quality.measures.segments import RANGES, range_of
from retrieval_quality.parameters import Parameters
from retrieval_quality.statistics import correlation

if TYPE_CHECKING:
    from retrieval_quality.data.dataset import Dataset

TIES, GRID = "ties as in exact arithmetic", "every α, not a grid"
_NOTABLE = 0.01
CHANGED = 1e-6
"""From which a correlation counts as changed."""


@dataclass(frozen=True)
class ExactCauses(RangeStudy):
    """Largest change by exact ties, then by every α."""

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        cells = exact_cells(dataset, run)
        if cells.empty:
            return self._none_large_enough(dataset, run)
        records, notes = [], []
        for measure in self.measures:
            own = cells[cells["measure"] == measure].dropna(subset="published")
            for name in RANGES:
                part = own[own["segment"].map(range_of) == name]
                for cause, column in ((TIES, "ties"), (GRID, "grid")):
                    if part.empty:
                        continue
                    change = part[column].abs()
                    worst = float(part.loc[change.idxmax(), column])
                    lacking = (math.nan, math.nan)
                    n, count = int(part["n"].sum()), len(part)
                    records.append(
                        (measure_name(measure), name, cause, worst, *lacking, n, count, "")
                    )
            if len(own):
                notes.append(_told_of(measure, own))
        return self._shown(dataset, run, pd.DataFrame(records, columns=list(COLUMNS)), notes)


@dataclass(frozen=True)
class ExactFigures(StudyTable, StudyOfCells):
    """What exact ties and all α change in figures of the paper.

    Attributes
    ----------
    figures
        The exhibits that are compared.
    """

    figures: tuple[Exhibit, ...] = ()

    columns = (
        "figure",
        "shows",
        "cells",
        "changed",
        "largest_change",
        "where",
        "published",
        "exact",
        "n",
    )

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        records = []
        for figure in self.figures:
            if record := _change_of(figure, dataset, run):
                records.append(record)
        numbers = pd.DataFrame(records, columns=list(self.columns))
        order = numbers["largest_change"].abs().sort_values(ascending=False, kind="stable").index
        numbers = numbers.loc[order]
        changed = numbers[numbers["changed"] > 0]
        told = (
            f"{len(changed)} of {len(numbers)} figures change in at least one cell; "
            f"{int(numbers['changed'].sum())} of {int(numbers['cells'].sum())} cells in all."
        )
        notes = [told] + [
            f"{row.figure}, {row.where}: {number(row.published)} becomes {number(row.exact)}."
            for row in changed.head(5).itertuples()
        ]
        return self._shown(dataset, run, numbers, notes)


@lru_cache(maxsize=2)
def exact_cells(dataset: Dataset, run: Parameters) -> pd.DataFrame:
    """Every ratio segment's best correlation in three ways.

    Parameters
    ----------
    dataset : Dataset
        The data.
    run : Parameters
        Of the run.

    Returns
    -------
    DataFrame
        ``dataset, embedding, segment, n, measure``; ``published``: grid and float ties;
        ``exact_ties``: the same grid, ties as in exact arithmetic; ``exact``: all alpha, exact
        ties; ``ties`` and ``grid``: the changes from one to the next.
    """
    rows = scored_rows(dataset, run)
    parts = []
    for names, require_2k in ((("F", "T", "Tu"), False), (("Fe",), True)):
        options: dict[str, Any] = {
            "min_samples": run.min_samples_ratio,
            "measures": names,
            "coefficients": (run.coefficient,),
            "require_2k": require_2k,
        }
        cells = correlation.correlate(rows, **options)
        keys = [*CELL, "n", "measure"]
        part = cells[keys].assign(published=cells["correlation"])
        part["exact_ties"] = correlation.correlate(rows, ties="exact", **options)["correlation"]
        part["exact"] = correlation.correlate(rows, alpha="exact", **options)["correlation"]
        parts.append(part)
    found = pd.concat(parts, ignore_index=True)
    found = found.astype(dict.fromkeys([*CELL, "measure"], "str"))
    return found.assign(
        ties=found["exact_ties"] - found["published"], grid=found["exact"] - found["exact_ties"]
    )


def _told_of(measure: str, cells: pd.DataFrame) -> str:
    ties, grid = cells["ties"], cells["grid"]
    return (
        f"{measure_name(measure)}: of {len(cells)} cells, float noise in ties had raised "
        f"{_how_many(-ties)} and lowered {_how_many(ties)}; the grid missed the maximum in "
        f"{_how_many(grid)}."
    )


def _how_many(changes: pd.Series) -> str:
    """Say in how many cells there is a change, and the largest that three decimals show."""
    count = int((changes > CHANGED).sum())
    if not count:
        return "none"
    largest = float(changes.max())
    size = f"by up to {number(largest)}" if largest >= 0.0005 else "by less than 0.0005"
    return f"{count} ({size})"


def _change_of(figure: Exhibit, dataset: Dataset, run: Parameters) -> tuple[Any, ...] | None:
    """Compare one figure's cells at the published and at the exact alpha; None without cells."""
    value = "difference" if isinstance(figure, Difference) else "correlation"
    keys = [*CELL, *(["measure"] if value == "correlation" else [])]
    old, new = (
        figure.compute(dataset, replace(run, alpha=alpha)) for alpha in ("published", "exact")
    )
    if old.missing or old.numbers[value].isna().all():
        return None
    both = old.numbers.merge(new.numbers[[*keys, value]], on=keys, suffixes=("", "_exact"))
    change = (both[f"{value}_exact"] - both[value]).abs()
    worst = both.loc[change.idxmax()]
    where = f"{schema.embedding_label(worst['embedding'])} at {worst['segment']}"
    if value == "correlation":
        where += f", {measure_name(worst['measure'])}"
    name = figure.label if figure.number else f"{figure.label} ({figure.title})"
    return (
        name,
        figure.title,
        int(change.notna().sum()),
        int((change > CHANGED).sum()),
        float(worst[f"{value}_exact"] - worst[value]),
        where if not figure.dataset else f"{figure.dataset}, {where}",
        float(worst[value]),
        float(worst[f"{value}_exact"]),
        int(worst["n"]),
    )


def beside_exact(
    cells: pd.DataFrame, pair: tuple[str, str], marked: pd.DataFrame | None = None
) -> list[str]:
    """Say how much of a difference of two measures is owed to the grid of α and to float ties.

    Parameters
    ----------
    cells : DataFrame
        From `exact_cells`: correlations on the published grid (``published``), and at the
        best of all α with ties as in exact arithmetic (``exact``).
    pair : (str, str)
        The measures, both among those of `cells`.
    marked : DataFrame, optional
        From `intervals.marked_differences`: which cells stand, at another α.

    Returns
    -------
    list of str
        Sentences; none where no cell has both measures.

    Examples
    --------
    >>> cells = pd.DataFrame({"dataset": "A", "embedding": "ME5S", "segment": "5.0",
    ...     "measure": ["Tu", "T"], "published": [0.38, 0.49], "exact": [0.48, 0.49]})
    >>> for sentence in beside_exact(cells, ("Tu", "T")): print(sentence)
    T_u minus T in 1 cell: from −0.110 to −0.110 on the published grid, from −0.010 to −0.010 \
at the best of all α with exact ties.
    In 1 of them the two differ by more than 0.01; most of all on A, EM at K/N_p = 5.0: −0.110 \
becomes −0.010.
    """
    first, second = pair
    both = cells[cells["measure"].isin(pair)].pivot_table(
        index=CELL, columns="measure", values=["published", "exact"]
    )
    if not {first, second} <= set(both.columns.get_level_values("measure")):
        return []
    gaps = pd.DataFrame(
        {way: both[way][first] - both[way][second] for way in ("published", "exact")}
    ).dropna()
    if gaps.empty:
        return []
    name = f"{measure_name(first)} minus {measure_name(second)}"
    ranges = [
        f"from {signed_in_full(gaps[way].min())} to {signed_in_full(gaps[way].max())}"
        for way in gaps
    ]
    told = (
        f"{name} in {counted(len(gaps), 'cell')}: {ranges[0]} on the published grid, {ranges[1]} "
        "at the best of all α with exact ties."
    )
    said = [told]
    change = (gaps["exact"] - gaps["published"]).abs()
    if (moved := int((change > _NOTABLE).sum())) > 0:
        dataset, embedding, segment = change.idxmax()
        label = schema.embedding_label(str(embedding))
        old, new = gaps.loc[change.idxmax(), ["published", "exact"]]
        said.append(
            f"In {moved} of them the two differ by more than {_NOTABLE}; most of all on {dataset}, "
            f"{label} at K/N_p = {segment}: {signed_in_full(old)} becomes {signed_in_full(new)}."
        )
    else:
        said.append(f"In none of them the two differ by more than {_NOTABLE}.")
    return said if marked is None else [*said, *_standing_beside(name, gaps, pair, marked)]


def _standing_beside(
    name: str, gaps: pd.DataFrame, pair: tuple[str, str], marked: pd.DataFrame
) -> list[str]:
    """Say how many of the cells that stand shrink to less than half where every α is tried."""
    own = marked[(marked["first"] == pair[0]) & (marked["second"] == pair[1]) & marked["stands"]]
    standing = own.set_index(CELL)["difference"]
    if standing.empty:
        return [f"{name}: no cell stands."]
    exact = gaps["exact"].reindex(standing.index)
    shrunk = int((exact * np.sign(standing) < standing.abs() / 2).sum())
    told = (
        f"{name} stands in {counted(len(standing), 'cell')}; in {shrunk} of them the difference at "
        "the best of all α with exact ties is less than half as large, or has the other sign."
    )
    return [told]
