"""How often nominal 95% intervals hold the true value where alpha is chosen from the data.

    python benchmarks/chosen_coverage.py [--sets 300] [--queries 40,150] [--out chosen_coverage.csv]

Sets are those of ``interval_coverage.py``. At alpha from other queries (``crossfit``) the cells are
those of single sets; at alpha from the other datasets (``foreign``) three sets are the datasets of
one frame, and the mean of a difference over its cells is what the ledger of claims judges.

The true value is that of the estimate itself: its mean over all sets of that size, for an alpha
that is chosen from few queries is part of what is estimated. Its own error is about the width of
an interval divided by four times the root of the number of sets.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from interval_coverage import draw
from scipy.stats import binomtest

from retrieval_quality.statistics import bootstrap, evidence
from retrieval_quality.statistics.resampling import Replicates

MEASURES = ("F", "T", "P")
PAIRS = (("T", "F"), ("T", "P"))


def crossfitted(rng: np.random.Generator, sets: int, queries: int, replicates: int) -> pd.DataFrame:
    """One row a set, segment and number: estimate and interval."""
    rows = draw(rng, sets, queries, f"C{queries}-")
    found = bootstrap.intervals(
        rows,
        segmentation="narrow-wide",
        min_samples=1,
        measures=MEASURES,
        pairs=PAIRS,
        alpha="crossfit",
        replicates=replicates,
    )
    return found[["segment", "measure", "minus", "correlation", "low", "high"]]


def foreign(rng: np.random.Generator, sets: int, queries: int, replicates: int) -> pd.DataFrame:
    """Give the same at alpha of the other datasets, and for the mean over the cells."""
    records = []
    for number in range(sets):
        rows = draw(rng, 3, queries, f"O{queries}-{number}-")
        cells = evidence.gather(
            rows,
            segmentation="narrow-wide",
            min_samples=1,
            measures=MEASURES,
            replicates=replicates,
            seed=number,
        )
        names = [(name, "") for name in MEASURES] + list(PAIRS)
        for measure, minus in names:
            values = cells.difference(measure, minus) if minus else cells.values[measure]
            samples = {"mean of all": values.mean(axis=1)}
            samples |= {name: values[:, i] for i, name in enumerate(cells.frame["segment"][:2])}
            for segment, sample in samples.items():
                both = Replicates(np.asarray(sample[0]), sample[1:])
                low, high = both.interval(centred=True)
                records.append((segment, measure, minus, sample[0], float(low), float(high)))
    columns = ["segment", "measure", "minus", "correlation", "low", "high"]
    return pd.DataFrame(records, columns=columns)


def cover(found: pd.DataFrame) -> pd.DataFrame:
    """Coverage of each number of its mean over the sets."""
    results = []
    for names, part in found.groupby(["segment", "measure", "minus"], sort=False):
        known = part[part["low"].notna()]
        truth = known["correlation"].mean()
        held = int(((known["low"] <= truth) & (truth <= known["high"])).sum())
        chance = binomtest(held, len(known)).proportion_ci(method="wilson")
        results.append(
            {
                **dict(zip(("segment", "measure", "minus"), names, strict=True)),
                "true": truth,
                "sets": len(part),
                "undefined": len(part) - len(known),
                "coverage": held / len(known),
                "coverage_low": chance.low,
                "coverage_high": chance.high,
                "error": known["correlation"].std(),
                "mean_width": (known["high"] - known["low"]).mean(),
            }
        )
    return pd.DataFrame(results)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=300)
    parser.add_argument("--queries", default="40,150", help="queries of a segment, by comma")
    parser.add_argument("--replicates", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    out = Path(__file__).parent / "results" / "chosen_coverage.csv"
    parser.add_argument("--out", default=str(out))
    asked = parser.parse_args()
    rng = np.random.default_rng(asked.seed)
    frames = []
    for queries in map(int, asked.queries.split(",")):
        for name, way in (("crossfit", crossfitted), ("foreign", foreign)):
            frame = cover(way(rng, asked.sets, queries, asked.replicates))
            frame.insert(0, "queries", queries)
            frame.insert(0, "alpha", name)
            frames.append(frame)
            print(frame.round(3).to_string(), flush=True)
            result = pd.concat(frames, ignore_index=True).round(5)
            result.to_csv(asked.out, index=False, lineterminator="\n", encoding="utf-8")


if __name__ == "__main__":
    main()
