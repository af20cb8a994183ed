"""How often nominal 95% intervals hold the true value, on simulated sets from a known model.

    python benchmarks/interval_coverage.py [--sets 1000] [--queries 10,30,60] [--out coverage.csv]

A set has a number of queries in each of two segments (narrow and wide), four rows a query. Queries
differ in how easy they are and in how well they are searched, so the rows of a query are alike.
The true correlation at alpha = 1/2 is that of a very large set. `coverage` is the share of sets
whose interval holds it; `coverage_low` and `coverage_high` are what chance leaves of that share
(Wilson, 95%).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from retrieval_quality.statistics import bootstrap

ROWS_PER_QUERY = 4
POPULATION = 60_000
"""Queries of the very large set, a segment."""

MEASURES = ("F", "T", "nDCG", "P")
PAIRS = (("T", "F"), ("nDCG", "F"))


def draw(rng: np.random.Generator, sets: int, queries: int, name: str) -> pd.DataFrame:
    """Rows of many sets, the set standing in the column ``dataset``."""
    n_queries = sets * queries * 2
    query = np.repeat(np.arange(n_queries), ROWS_PER_QUERY)
    n = len(query)
    wide = query % 2 == 1
    relevant = rng.integers(3, 7, n)
    top_k = np.where(wide, relevant + rng.integers(0, 4, n), relevant - rng.integers(1, 3, n))
    skill, ease = rng.beta(4, 3, n_queries)[query], rng.normal(0, 0.7, n_queries)[query]
    bits = (rng.random((n, 9)) < skill[:, None]) & (np.arange(9) < top_k[:, None])
    bits &= np.cumsum(bits, axis=1) <= relevant[:, None]
    found = bits.sum(axis=1)
    quality = 2.2 * found / relevant - 0.25 * (top_k - found) + ease + rng.normal(0, 0.8, n)
    code, distinct = pd.factorize(top_k * 512 + bits @ (1 << np.arange(9)))
    patterns = [
        "".join("01"[int(number) >> i & 1] for i in range(int(number) // 512))
        for number in distinct
    ]
    dataset = np.char.add(name, (query // (2 * queries)).astype(str))
    return pd.DataFrame(
        {
            "id": np.char.add(name, query.astype(str)),
            "dataset": dataset,
            "E": "simulated",
            "K": top_k,
            "Np": relevant,
            "n_positives": found,
            "pattern": pd.Categorical.from_codes(code, categories=patterns),
            "grade": np.clip(np.floor(quality + 2.5), 1, 5),
        }
    )


def estimate(rows: pd.DataFrame, replicates: int) -> pd.DataFrame:
    """Intervals of every set at alpha = 1/2."""
    return bootstrap.intervals(
        rows,
        segmentation="narrow-wide",
        min_samples=1,
        measures=MEASURES,
        pairs=PAIRS,
        replicates=replicates,
    )


def cover(found: pd.DataFrame, truth: pd.DataFrame) -> pd.DataFrame:
    """Coverage of each segment, measure and pair, and over all."""
    keys = ["segment", "measure", "minus"]
    both = found.merge(truth[[*keys, "correlation"]], on=keys, suffixes=("", "_true"))
    both["held"] = (both["low"] <= both["correlation_true"]) & (
        both["correlation_true"] <= both["high"]
    )
    both["defined"] = both["low"].notna()
    groups = [*both.groupby(keys, sort=False), (("all", "all", ""), both)]
    results = []
    for names, cells in groups:
        held, defined = int(cells["held"].sum()), int(cells["defined"].sum())
        chance = binomtest(held, defined).proportion_ci(method="wilson")
        results.append(
            {
                **dict(zip(keys, names, strict=True)),
                "true": cells["correlation_true"].iloc[0] if names[0] != "all" else np.nan,
                "sets": len(cells),
                "undefined": len(cells) - defined,
                "coverage": held / defined,
                "coverage_low": chance.low,
                "coverage_high": chance.high,
                "mean_width": (cells["high"] - cells["low"]).mean(),
            }
        )
    return pd.DataFrame(results)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=1000)
    parser.add_argument("--queries", default="10,30,60", help="queries of a segment, by comma")
    parser.add_argument("--replicates", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default=str(Path(__file__).parent / "results" / "coverage.csv"))
    asked = parser.parse_args()
    rng = np.random.default_rng(asked.seed)
    truth = estimate(draw(rng, 1, POPULATION, "P-"), replicates=1)
    frames = []
    for queries in map(int, asked.queries.split(",")):
        found = estimate(draw(rng, asked.sets, queries, f"S{queries}-"), asked.replicates)
        frame = cover(found, truth)
        frame.insert(0, "queries", queries)
        frames.append(frame)
        print(frame.round(3).to_string(), flush=True)
    result = pd.concat(frames, ignore_index=True).round(5)
    result.to_csv(asked.out, index=False, lineterminator="\n", encoding="utf-8")


if __name__ == "__main__":
    main()
