"""Data, ratio or embedding: what the variation between segments goes with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from retrieval_quality.exhibits.cells import CELL
from retrieval_quality.exhibits.exhibit import Result
from retrieval_quality.exhibits.ranges import (
    COLUMNS,
    PAPER,
    PAPER_2K,
    RangeStudy,
    interval,
    measured,
)
from retrieval_quality.parameters import Parameters
from retrieval_quality.statistics import attribution
from retrieval_quality.statistics.counts import FloatArray
from retrieval_quality.statistics.evidence import Cells

if TYPE_CHECKING:
    from retrieval_quality.data.dataset import Dataset

QUANTITIES: dict[str, tuple[str, ...]] = {
    "mean grade": (),
    "correlation of T": ("T",),
    "T minus F": ("T", "F"),
    "nDCG minus F": ("nDCG", "F"),
    "T minus nDCG": ("T", "nDCG"),
    "T_u minus T": ("Tu", "T"),
    "F_e minus F": ("Fe", "F"),
}
"""What is decomposed: the grade, a measure's correlation, or the difference of two."""


@dataclass(frozen=True)
class Attribution(RangeStudy):
    """Shares of the variation, for the grade, correlations and differences."""

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        records, notes = [], []
        for quantity, names in QUANTITIES.items():
            two_k = "Fe" in names
            cells = measured(dataset, run, PAPER_2K if two_k else PAPER, require_2k=two_k)
            found = _shares_of(cells, names)
            if isinstance(found, str):
                notes.append(f"{quantity}: {found}")
                continue
            sample, support, n = found
            for i, part in enumerate(attribution.PARTS):
                ends = interval(sample[1:, i])
                records.append((quantity, part, "", sample[0, i], *ends, n, support.n_cells, ""))
            by = dict(zip(attribution.PARTS, sample[0], strict=True))
            told = ", ".join(f"{name} {share:.0%}" for name, share in by.items())
            notes.append(
                f"{quantity}: {told} ({len(support.datasets)} datasets, {len(support.ratios)} "
                "ratios "
                f"and {len(support.embeddings)} embeddings: {support.n_cells} of "
                f"{support.n_total} segments)."
            )
        numbers = pd.DataFrame(records, columns=list(COLUMNS))
        if numbers.empty:
            return self._nothing(dataset, run, " ".join(notes))
        return self._shown(dataset, run, numbers, notes, (0.0, 1.0))


def _shares_of(
    cells: Cells, names: tuple[str, ...]
) -> tuple[FloatArray, attribution.Support, int] | str:
    """Shares on the data and each replicate, or why there are none."""
    values = cells.grade
    if names:
        values = cells.difference(*names) if len(names) == 2 else cells.values[names[0]]
    kept = np.flatnonzero(~np.isnan(values).any(axis=0))
    frame = cells.frame.iloc[kept].astype(dict.fromkeys(CELL, "str"))
    if frame.empty:
        return "no segment is defined in the data and in every replicate."
    support = attribution.common_support(frame)
    shape = (len(support.datasets), len(support.ratios), len(support.embeddings))
    if min(shape, default=0) < 2:
        return (
            f"too small a grid to tell ({shape[0]} datasets, {shape[1]} ratios and {shape[2]} "
            "embeddings in common; two of each are needed)."
        )
    places = kept[support.positions(frame)]
    sample = attribution.shares(values[:, places])
    if np.isnan(sample[0]).any():
        return "it is the same in every segment, so there is no variation to share out."
    n = int(cells.frame["n"].to_numpy()[places].sum())
    return sample, support, n
