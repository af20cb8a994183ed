"""Recall beside the measures that do without it: the question of the paper's title."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from retrieval_quality.data import schema
from retrieval_quality.exhibits.cells import places_of, scored_rows
from retrieval_quality.exhibits.exhibit import Result, StudyTable
from retrieval_quality.exhibits.ranges import (
    PAPER,
    PAPER_2K,
    RangeStudy,
    StudyOfCells,
    averaged,
    comparable,
    groups_of,
    interval,
    mean_over,
    measured,
    ordered,
    pool,
    that_coincide,
)
from retrieval_quality.exhibits.words import measure_name, number
from retrieval_quality.measures.segments import RANGES
from retrieval_quality.parameters import Parameters
from retrieval_quality.statistics import correlation, evidence
from retrieval_quality.statistics.evidence import Cells, steady

if TYPE_CHECKING:
    from retrieval_quality.data.dataset import Dataset


@dataclass(frozen=True)
class RecallPredicts(RangeStudy):
    """How well recall and the others go along with the grade."""

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        cells = measured(dataset, run, PAPER)
        numbers = pool(cells, {name: cells.values[name] for name in self.measures})
        notes = []
        for name in dict.fromkeys(numbers["panel"]):
            samples, which = comparable(cells, self.measures, cells.of([name]))
            if not {"R", "P"} <= set(samples):
                continue
            best = max(samples, key=lambda measure: samples[measure][0])
            ahead = "the highest of them" if best == "R" else f"{measure_name(best)}, the highest,"
            told = f"R has {number(samples['R'][0])}, "
            told += ahead if best == "R" else f"{ahead} {number(samples[best][0])}"
            notes.append(f"{name}, mean over all {int(which.sum())} segments: {told}.")
        return self._shown(dataset, run, numbers, [*notes, *that_coincide(cells, self.measures)])


@dataclass(frozen=True)
class RecallDifference(RangeStudy):
    """What is lost without recall: measures that need no N_p, less recall on the same rows."""

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        numbers = self._less_recall(dataset, run)
        notes = []
        for series, part in numbers.dropna(subset="low").groupby("series", sort=False):
            ahead, behind = int((part["low"] > 0).sum()), int((part["high"] < 0).sum())
            notes.append(
                f"{measure_name(str(series))} against R: clearly ahead in {ahead} of {len(part)} "
                f"ranges and datasets, clearly behind in {behind}, the interval holds 0 in "
                f"{len(part) - ahead - behind}."
            )
        return self._shown(dataset, run, numbers, notes)

    def _less_recall(self, dataset: Dataset, run: Parameters) -> pd.DataFrame:
        """Differences to recall, each on its own rows: those with a 2K row for F_e."""
        cells = measured(dataset, run, PAPER)
        free = [name for name in self.measures if name != "Fe"]
        parts = [pool(cells, {name: cells.difference(name, "R") for name in free})]
        cells = measured(dataset, run, PAPER_2K, require_2k=True)
        if len(cells.frame):
            parts.append(pool(cells, {"Fe": cells.difference("Fe", "R")}))
        return ordered(pd.concat(parts, ignore_index=True))


@dataclass(frozen=True)
class RecallKept(StudyTable, StudyOfCells):
    """How much of recall's correlation a measure keeps, as a share."""

    columns = (
        "dataset",
        "range",
        "measure",
        "kept",
        "low",
        "high",
        "correlation",
        "recall",
        "n",
        "cells",
        "reason",
    )

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        base = measured(dataset, run, PAPER)
        wide = measured(dataset, run, PAPER_2K, require_2k=True)
        records = []
        for measure in self.measures:
            cells = wide if measure == "Fe" else base
            groups = groups_of(cells)
            whole = [
                (name, "all", np.logical_or.reduce([g for d, _, g in groups if d == name]))
                for name in dict.fromkeys(d for d, _, _ in groups)
            ]
            records += [_share_kept(cells, measure, *group) for group in (*groups, *whole)]
        numbers = pd.DataFrame(records, columns=list(self.columns))
        order = places_of(["all", *RANGES])
        places = places_of(schema.dataset_order(list(numbers["dataset"].unique())))
        keys = numbers.assign(
            dataset=numbers["dataset"].map(places), range=numbers["range"].map(order)
        ).sort_values(["dataset", "range"], kind="stable")
        numbers = numbers.loc[keys.index]
        known = numbers[(numbers["range"] == "all")].dropna(subset="kept")
        notes = [
            f"{measure_name(str(name))} keeps, over all ratios, from {part['kept'].min():.0%} "
            f"({part.loc[part['kept'].idxmin(), 'dataset']}) to {part['kept'].max():.0%} "
            f"({part.loc[part['kept'].idxmax(), 'dataset']}) of recall's correlation."
            for name, part in known.groupby("measure", sort=False)
        ]
        if "Fe" in self.measures and len(wide.frame):
            notes.append(_beside_precision_on_its_rows(wide))
        lacking = int(numbers["kept"].isna().sum())
        if lacking:
            notes.append(
                f"{lacking} of {len(numbers)} rows have no value: recall's own correlation there "
                "cannot be told from 0, or nothing is defined."
            )
        return self._shown(dataset, run, numbers, notes)


@dataclass(frozen=True)
class RecallAcross(RangeStudy):
    """How far the measures go along with recall itself."""

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        alphas = measured(dataset, run, PAPER).alphas
        alphas |= measured(dataset, run, PAPER_2K, require_2k=True).alphas
        rows = scored_rows(dataset, run)
        rows = rows[rows["grade"].notna()]
        rows = rows.assign(recall=rows["n_positives"] / rows["Np"])
        found = []
        for name in rows["dataset"].astype(str).unique():
            own = rows[rows["dataset"] == name]
            for measure in self.measures:
                alpha = alphas.get((name, measure), evidence.FALLBACK_ALPHA)
                found.append(
                    correlation.correlate(
                        own,
                        min_samples=run.min_samples_ratio,
                        measures=(measure,),
                        coefficients=(run.coefficient,),
                        alpha=alpha,
                        grade="recall",
                    )
                )
        cells = pd.concat(found, ignore_index=True) if found else pd.DataFrame()
        if cells.empty:
            return self._none_large_enough(dataset, run)
        numbers = averaged(cells.assign(series=cells["measure"].astype(str)))
        notes = [
            f"{measure_name(str(name))}: from {number(part['value'].min())} to "
            f"{number(part['value'].max())} over {len(part)} ranges and datasets."
            for name, part in numbers.dropna(subset="value").groupby("series", sort=False)
        ]
        notes.append(
            "In a segment of one exact ratio P and R order rows alike, so that their correlation "
            "is 1 "
            "by construction. Where a segment rounds several ratios into one it can be below 1."
        )
        return self._shown(dataset, run, numbers, notes)


def _beside_precision_on_its_rows(cells: Cells) -> str:
    """Set F_e beside precision on the rows that F_e has."""
    names, which = ("Fe", "P", "R"), np.ones(len(cells.frame), dtype=bool)
    samples, which = comparable(cells, names, which)
    if len(samples) < len(names):
        return "F_e is not defined on all rows that have a 2K row."
    fe, precision, recall = (number(samples[name][0]) for name in names)
    return (
        f"F_e has fewer rows than the others, those whose 2K row exists, and recall is another "
        f"there: over all {int(which.sum())} segments of these rows F_e has {fe}, P {precision} "
        f"and R {recall}."
    )


def _share_kept(
    cells: Cells, measure: str, dataset: str, name: str, group: NDArray[np.bool_]
) -> tuple[Any, ...]:
    which = group & steady(cells.values[measure]) & steady(cells.values["R"])
    own, recall = mean_over(cells.values[measure], which), mean_over(cells.values["R"], which)
    n, count = int(cells.frame["n"].to_numpy()[which].sum()), int(which.sum())
    low, _ = interval(recall[1:])
    if not count:
        reason = "undefined in every segment"
    elif not low > 0:
        reason = "recall's own correlation cannot be told from 0"
    else:
        with np.errstate(divide="ignore", invalid="ignore"):
            kept = own / recall
        ends = interval(kept[1:])
        return (dataset, name, measure, kept[0], *ends, own[0], recall[0], n, count, "")
    lacking = (math.nan, math.nan, math.nan)
    return (dataset, name, measure, *lacking, own[0], recall[0], n, count, reason)
