"""How often the 95% intervals of what a quantity is worth hold the true value, in known worlds.

    python benchmarks/value_coverage.py [--worlds 200] [--queries 300] [--out FILE]

Each world is drawn from a stated law (`value_worlds`), 8 graded rows a query. The true value is
that of who knows the law. `coverage` is the share of the worlds whose interval holds it, with what
chance leaves of that share (Wilson, 95%); `above` is the share whose interval lies above 0, which
is a false find where the true value is 0, and the power elsewhere. Every world is stored as soon
as it is done, so that a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd
from scipy.stats import binomtest

from retrieval_quality.statistics import value
from retrieval_quality.statistics.value_worlds import NOTHING, World, draw, truth

WORLDS = {
    "all matter": World(),
    "nothing matters": NOTHING,
    "N_p only": World(order=0.0, embedding=0.0),
    "order only": World(share=0.0, embedding=0.0, order=1.5),
    "noisy judge": World(noise=3.0),
}
KEYS = ["world", "queries", "quantity", "score"]


def one(name: str, queries: int, seed: int) -> pd.DataFrame:
    """Estimate in one drawn world."""
    found = value.value(draw(WORLDS[name], queries, seed), seed=1)
    found = found[(found["dataset"] == value.ALL) & (found["range"] == value.ALL)]
    found = found[["quantity", "score", "gain", "low", "high"]]
    return found.assign(world=name, queries=queries, seed=seed)


def summarise(draws: pd.DataFrame, true: pd.DataFrame) -> pd.DataFrame:
    """Count coverage by world, size, quantity and score."""
    draws = draws.merge(true.rename(columns={"gain": "true"}), on=["world", "quantity", "score"])
    records = []
    for key, group in draws.groupby(KEYS, sort=False):
        holds = (group["low"] <= group["true"]) & (group["true"] <= group["high"])
        chance = binomtest(int(holds.sum()), len(group)).proportion_ci(method="wilson")
        told = dict(zip(KEYS, key, strict=True))
        told |= {"worlds": len(group), "true": group["true"].iloc[0], "mean": group["gain"].mean()}
        told |= {"coverage": holds.mean(), "coverage_low": chance.low, "coverage_high": chance.high}
        records.append(told | {"above": (group["low"] > 0).mean()})
    return pd.DataFrame(records)


def main() -> None:
    """Draw, store, summarise."""
    results = Path(__file__).parent / "results"
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--queries", default="300")
    parser.add_argument("--only", default=",".join(WORLDS), help="Names of worlds.")
    parser.add_argument("--out", type=Path, default=results / "value_coverage.csv")
    parser.add_argument("--draws", type=Path, default=Path("value_coverage_draws.csv"))
    given = parser.parse_args()
    done = set()
    if given.draws.exists():
        before = pd.read_csv(given.draws)
        done = set(zip(before["world"], before["queries"], before["seed"], strict=True))
    for seed in range(given.worlds):
        for queries in map(int, given.queries.split(",")):
            for name in given.only.split(","):
                if (name, queries, seed) not in done:
                    new = not given.draws.exists()
                    one(name, queries, seed).to_csv(given.draws, mode="a", header=new, index=False)
    true = pd.concat([truth(world).assign(world=name) for name, world in WORLDS.items()])
    found = summarise(pd.read_csv(given.draws), true)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    found.round(5).to_csv(given.out, index=False)
    print(found.round(4).to_string())


if __name__ == "__main__":
    main()
