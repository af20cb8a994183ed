"""What the documents add to the grade, against control answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from retrieval_quality.exhibits import ranges
from retrieval_quality.exhibits.cells import scored_rows
from retrieval_quality.exhibits.exhibit import Result
from retrieval_quality.exhibits.ranges import (
    RangeStudy,
    ordered,
    pool,
)
from retrieval_quality.exhibits.words import measure_name, number, with_interval
from retrieval_quality.measures.segments import range_of
from retrieval_quality.parameters import Parameters
from retrieval_quality.statistics import controls, evidence

if TYPE_CHECKING:
    from retrieval_quality.data.dataset import Dataset

NO_CONTROLS = (
    "The data has no control answers (samples_controls.json): the same questions answered "
    "without documents, from random ones, and from the top K in reversed order. The pipeline "
    "makes them where its configuration asks for controls."
)


@dataclass(frozen=True)
class ControlsGain(RangeStudy):
    """Mean grade gained over each control."""

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        pairs = control_pairs(dataset, run)
        if pairs is None:
            return self._nothing(dataset, run, NO_CONTROLS)
        if pairs.empty:
            return self._nothing(dataset, run, "No control answer belongs to a graded row.")
        by = ("dataset", "range", "control")
        found = controls.summarise(pairs, by, replicates=ranges.CELL_REPLICATES, seed=run.seed)
        numbers = found.rename(
            columns={"dataset": "panel", "range": "position", "control": "series", "gain": "value"}
        )
        segments_of = pairs.groupby(list(by), observed=True)["segment"].nunique()
        index = pd.MultiIndex.from_frame(found[list(by)])
        numbers["cells"] = segments_of.reindex(index).to_numpy()
        numbers["series"] = numbers["series"].map(controls.KINDS)
        order = {kind: i for i, kind in enumerate(controls.KINDS.values())}
        numbers = numbers.sort_values("series", key=lambda kinds: kinds.map(order), kind="stable")
        total = controls.summarise(
            pairs, ("control",), replicates=ranges.CELL_REPLICATES, seed=run.seed
        )
        notes = [
            f"Against {controls.KINDS[row.control]}: {number(row.grade)} with the top K, "
            f"{number(row.grade_control)} with the control, a gain of "
            f"{with_interval(row.gain, row.low, row.high)} (n = {row.n:,}, {row.queries:,} "
            "queries)."
            for row in total.itertuples()
            if not row.reason
        ]
        return self._shown(dataset, run, ordered(numbers), notes)


@dataclass(frozen=True)
class ControlsCorrelation(RangeStudy):
    """Measures against the grade less that without documents."""

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        pairs = control_pairs(dataset, run)
        if pairs is None:
            return self._nothing(dataset, run, NO_CONTROLS)
        alone = pairs[pairs["control"] == "none"]
        if alone.empty or alone["gain"].notna().sum() < run.min_samples_ratio:
            why = (
                f"{int(alone['gain'].notna().sum())} rows have a grade with the top K and one "
                "without "
                f"documents, fewer than {run.min_samples_ratio}."
            )
            return self._nothing(dataset, run, why)
        cells = evidence.gather(
            alone,
            min_samples=run.min_samples_ratio,
            measures=self.measures,
            coefficient=run.coefficient,
            alpha=evidence.FALLBACK_ALPHA,
            grade="gain",
            replicates=ranges.REPLICATES,
            seed=run.seed,
        )
        if cells.frame.empty:
            why = f"No segment has {run.min_samples_ratio} rows with both grades."
            return self._nothing(dataset, run, why)
        numbers = pool(cells, {name: cells.values[name] for name in self.measures})
        means = numbers.groupby("series", sort=False)["value"].mean()
        told = ", ".join(f"{measure_name(str(n))} {number(v)}" for n, v in means.items())
        return self._shown(dataset, run, numbers, [f"Averaged over ranges and datasets: {told}."])


def control_pairs(dataset: Dataset, run: Parameters) -> pd.DataFrame | None:
    """Give graded rows beside their controls; None where the data has no controls."""
    if "controls" not in dataset.parts:
        return None
    rows = scored_rows(dataset, run)
    given = dataset.read("controls", ["id", "E", "Nc", "Np", "K", "control", "grade"])
    pairs = controls.pair(given, rows)
    ranges = pairs["segment"].astype(str).map(range_of) if len(pairs) else ""
    return pairs.assign(range=ranges, dataset=pairs["dataset"].astype(str))
