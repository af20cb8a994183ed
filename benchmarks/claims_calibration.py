"""How often the ledger's verdicts are right, on worlds whose law is known.

    python benchmarks/claims_calibration.py run [--worlds 200] [--work DIR] [--laws noise,support]
    python benchmarks/claims_calibration.py summarise [--work DIR] [--out claims_calibration.csv]

A world has the queries, settings and numbers of rows of the simulated default, which has the
paper's size: 535,888 graded rows of 6,112 text samples, of which those of ARXIV share 140 queries.
Retrieval is drawn (`DESIGNS` times; the worlds take turns), grades are drawn anew in each world
from a law (`LAWS`). Worlds are judged by `retrieval_quality.exhibits.claims` itself, with
`REPLICATES` replicates and every 27th alpha of the published grid.

``run`` appends one line a condition to DIR/conditions.csv, a whole world at a time, and leaves out
what is there: it can be stopped and started again. ``summarise`` reads it and gives, for each law
and claim, the worlds and the share of them in which the claim holds, with what chance leaves of it
(Wilson, 95%).

At the edge: the law stays, and the limits are moved. Under a law that supports a claim, the number
behind each of its conditions has a mean over the worlds of a design. With its limit exactly there
the law is at the edge of the claim, all other conditions being met, and the condition may hold in
2.5% of the worlds. ``edge`` is the largest such share over the conditions of the claim and its two
sides; it needs `ENOUGH` worlds of each design.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import time
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import binomtest

from retrieval_quality.data import schema
from retrieval_quality.data.simulate import BREAKDOWN, TEXTS
from retrieval_quality.exhibits import claims
from retrieval_quality.parameters import Parameters
from retrieval_quality.statistics import agreement, evidence, resampling
from retrieval_quality.statistics.correlation import ALPHAS
from retrieval_quality.statistics.counts import Counts

REPLICATES = 100
DESIGNS = 5
WEIGHTS = 20
"""Sets of weights of the queries; the worlds take turns."""

CATEGORIES = 140
"""Queries that the text samples of ARXIV share."""

ENOUGH = 8
"""Worlds of one design that its mean must rest on, to be taken for the truth."""

GRID = ALPHAS[np.unique(np.r_[np.arange(0, len(ALPHAS), 27), len(ALPHAS) // 2, len(ALPHAS) - 1])]
EMBEDDINGS = tuple(schema.EMBEDDINGS)
DATASETS = tuple(schema.DATASETS)
COLUMNS = ("law", "world", "claim", "condition", "name", "verdict", "claim_verdict", "premise")
COLUMNS += ("effect", "low", "high", "above", "below")
ASKED: dict[str, tuple[int, ...]] = {
    "saturating": (1, 2),
    "order": (13, 14),
    "gain": (11,),
    "level": (4, 15, 21),
    "even": (18,),
}
"""The claims that a law was made for; all of them where it is not named here."""

SUPPORTED: dict[str, tuple[int, ...]] = {
    "support": (1, 2, 3, 5, 6, 7, 10, 13, 16, 17, 19, 20),
    "gain": (11,),
    "order": (14,),
    "level": (4, 15, 21),
    "even": (18,),
}
"""Claims that are true under a law, by its parameters or by the mean of its worlds. None was
found that makes claim 8 or 12 true."""

REFUTED: dict[str, tuple[int, ...]] = {
    "noise": tuple(n for n in range(1, 22) if n != 9),
    "refute": (3, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 18, 20, 21),
    "saturating": (1, 2),
    "order": (13,),
}
"""Claims that are not true under a law."""

HUMAN_NOISE = {"noise": 30.0, "refute": 0.9, "support": 0.42}
"""What a grader adds to the quality of an answer, in its standard deviations."""


@dataclass(frozen=True)
class Kind:
    """What decides the grades of one dataset.

    Attributes
    ----------
    share, count, precision : float
        Weights of n_p / N_p, of log2(1 + n_p) and of n_p / K, each in standard deviations.
    order, order_high : float
        Weight of the order of the retrieved, below ratio 2 and from there.
    found, found_high : float
        Weight of n_p over the positives among the first 2K, below ratio 2 and from there.
    rise, bend, top, turn : float
        By ratio, in doublings x: rise * x - bend * (x - top)**2, and -turn * x above `top`.
    flat : float
        Doublings from which nothing changes any more with the ratio.
    embedding : float
        Spread of what an embedding adds at each ratio.
    ease, noise : float
        Spread of queries and of rows.
    """

    share: float = 0.0
    count: float = 0.0
    precision: float = 0.0
    order: float = 0.0
    order_high: float = 0.0
    found: float = 0.0
    found_high: float = 0.0
    rise: float = 0.0
    bend: float = 0.0
    top: float = 0.0
    flat: float = np.inf
    embedding: float = 0.0
    ease: float = 0.5
    noise: float = 0.8


LAWS: dict[str, dict[str, Kind]] = {
    "noise": dict.fromkeys(DATASETS, Kind()),
    "refute": {
        # the grade goes the other way with the ratio, embeddings differ at each ratio, and
        # precision decides where the paper finds the count to, the count or the order elsewhere
        "A": Kind(precision=0.5, order=0.6, rise=0.6, embedding=1.5),
        "M": Kind(count=0.8, order=0.6, rise=0.6, embedding=1.5),
        "N": Kind(count=0.9, order=0.8, order_high=0.2, rise=-0.4, embedding=1.5),
        "Hs": Kind(precision=0.1, order=0.7, order_high=0.9, rise=-0.2, embedding=1.5),
        "Hp": Kind(count=0.2, order=0.2, order_high=0.9, rise=-0.4, embedding=1.5),
    },
    "saturating": {  # more is better up to K = N_p, then nothing changes with the ratio
        name: Kind(rise=0.5, flat=0.0) for name in DATASETS
    },
    "order": {  # the order of the retrieved decides at high ratios, the positives below
        name: Kind(share=0.4, count=0.3, order_high=1.5, rise=0.1) for name in DATASETS
    },
    "support": {
        "A": Kind(share=0.2, count=0.6, order_high=1.2, bend=0.5),
        "M": Kind(share=0.7, bend=0.8, top=1.0, order=0.1),
        "N": Kind(share=0.45, count=0.35, rise=0.25),
        "Hs": Kind(share=0.2, count=0.6, rise=0.25),
        "Hp": Kind(share=0.45, count=0.35, rise=0.25),
    },
    "gain": {  # as support, with some weight of the order at high ratios of M and N
        "A": Kind(share=0.2, count=0.6, order_high=1.2, bend=0.5),
        "M": Kind(share=0.7, bend=0.8, top=1.0, order_high=0.26),
        "N": Kind(share=0.45, count=0.35, rise=0.25, order=-0.15, order_high=0.34),
        "Hs": Kind(share=0.2, count=0.6, rise=0.25),
        "Hp": Kind(share=0.45, count=0.35, rise=0.25),
    },
    "level": dict.fromkeys(DATASETS, Kind(count=0.6, rise=0.1)),
    "even": dict.fromkeys(DATASETS, Kind(share=0.5, rise=-0.1)),
}


@dataclass(frozen=True)
class Design:
    """One drawing of what is retrieved; arrays have one place a graded row."""

    dataset: NDArray[np.int64]
    embedding: NDArray[np.int64]
    query: NDArray[np.int64]
    names: tuple[str, ...]
    columns: dict[str, Any]
    ratio: NDArray[np.float64]
    features: dict[str, NDArray[np.float64]]
    counts: dict[str, tuple[Counts, NDArray[np.int64]]]


class Kept(Counts):
    """Counts that remember their keys, which do not depend on the grades."""

    memory: dict[tuple[str, ...], Any]

    def keys(self, columns: Any) -> Any:
        """As `Counts.keys`."""
        if tuple(columns) not in self.memory:
            self.memory[tuple(columns)] = super().keys(columns)
        return self.memory[tuple(columns)]


def design(seed: int) -> Design:
    """Draw the rankings of every setting, and what the measures need of them."""
    rng = np.random.default_rng([seed, 20])
    parts: dict[str, list[Any]] = {}
    first, names = 0, []
    separation = {name: rng.normal(1.4, 0.2) for name in DATASETS}
    for subset, n_texts in TEXTS.items():
        name = schema.dataset_of(subset)
        own = [f"A-{i % CATEGORIES}" if name == "A" else f"{subset}-{i}" for i in range(n_texts)]
        names += own
        skill = rng.normal(separation[name], 0.4, n_texts)
        start = 0
        for setting in (each for each in BREAKDOWN if each.subset == subset):
            texts = (start + np.arange(setting.ranked)) % n_texts
            start += setting.ranked
            for key, value in _ranked(rng, setting, skill[texts]).items():
                parts.setdefault(key, []).append(value)
            n = len(EMBEDDINGS) * len(setting.top_k)
            parts.setdefault("text", []).append(np.repeat(first + texts, n))
            size = setting.ranked * n
            parts.setdefault("dataset", []).append(np.full(size, DATASETS.index(name)))
        first += n_texts
    rows = {key: np.concatenate(value) for key, value in parts.items()}
    distinct, unit = np.unique(names, return_inverse=True)
    query = unit[rows.pop("text")].astype(np.int64)
    return _counted(rows, query, tuple(distinct.tolist()))


def _ranked(rng: np.random.Generator, setting: Any, skill: Any) -> dict[str, Any]:
    """Rows of one setting: (text, embedding, K), flattened."""
    shape = (len(skill), len(EMBEDDINGS), setting.n_candidates)
    shared = rng.normal(size=(shape[0], 1, shape[2]))
    scores = np.sqrt(0.5) * shared + np.sqrt(0.5) * rng.normal(size=shape)
    scores[:, :, : setting.n_relevant] += skill[:, None, None]
    hit = np.argsort(-scores, axis=2) < setting.n_relevant
    top_k = np.array(setting.top_k)
    cumulated = np.cumsum(hit, axis=2)
    found = cumulated[:, :, top_k - 1]
    double = np.where(np.isin(2 * top_k, top_k), 2 * top_k, 1)
    found_2k = np.where(np.isin(2 * top_k, top_k), cumulated[:, :, double - 1], np.nan)
    reach = cumulated[:, :, np.minimum(2 * top_k, shape[2]) - 1]
    weights = 1 / np.log2(1 + np.arange(1, shape[2] + 1))
    gain = np.cumsum(hit * weights, axis=2)[:, :, top_k - 1] / np.cumsum(weights)[top_k - 1]
    power = np.int64(1) << np.arange(shape[2] if shape[2] < 62 else 62, dtype=np.int64)
    bits = np.cumsum(hit[:, :, : len(power)] * power, axis=2)[:, :, top_k - 1]
    numbers = np.broadcast_to(top_k, found.shape)
    return {
        "embedding": np.broadcast_to(np.arange(len(EMBEDDINGS))[:, None], found.shape).ravel(),
        "K": numbers.ravel(),
        "Np": np.full(found.size, setting.n_relevant),
        "n_positives": found.ravel(),
        "n_positives_2k": found_2k.ravel(),
        "reach": reach.ravel(),
        "order": (gain - found / top_k).ravel(),
        "bits": bits.ravel(),
    }


def _counted(rows: dict[str, Any], query: NDArray[np.int64], names: tuple[str, ...]) -> Design:
    found, top_k, relevant = (rows[name].astype(float) for name in ("n_positives", "K", "Np"))
    code, distinct = pd.factorize(rows["bits"] * 64 + rows["K"])
    patterns = [
        "".join("01"[(int(number) >> 6 >> i) & 1] for i in range(int(number) % 64))
        for number in distinct
    ]
    columns = {name: rows[name].astype(np.int32) for name in ("n_positives", "K", "Np")}
    columns["n_positives_2k"] = rows["n_positives_2k"]
    columns["pattern"] = pd.Categorical.from_codes(code, categories=patterns)
    columns["query"] = query.astype(np.int32)
    keys = {
        (int(k), int(n)): round(int(k) / int(n), 1)
        for k, n in set(zip(top_k, relevant, strict=True))
    }
    ratio = np.array(
        [keys[k, n] for k, n in zip(rows["K"].tolist(), rows["Np"].tolist(), strict=True)]
    )
    features = {
        "share": found / relevant,
        "count": np.log2(1 + found),
        "precision": found / top_k,
        "order": rows["order"],
        "found": found / np.maximum(rows["reach"], 1),
    }
    features = {name: (value - value.mean()) / value.std() for name, value in features.items()}
    segment = np.where(top_k < relevant, "narrow", "wide").astype(object)
    label = np.array([f"{value:.1f}" for value in np.unique(ratio)], dtype=object)
    label = label[np.searchsorted(np.unique(ratio), ratio)]
    known = ~np.isnan(rows["n_positives_2k"])
    everything = np.ones(len(query), dtype=bool)
    bodies = {
        "ratio": _cells(rows, label, columns, everything, "ratio", 300),
        "ratio_2k": _cells(rows, label, columns, known, "ratio", 300),
        "width": _cells(rows, segment, columns, everything, "narrow-wide", 100),
    }
    rest = (columns, ratio, features, bodies)
    return Design(rows["dataset"], rows["embedding"], query, names, *rest)


def _cells(
    rows: dict[str, Any],
    label: Any,
    columns: dict[str, Any],
    used: NDArray[np.bool_],
    segmentation: str,
    fewest: int,
) -> tuple[Counts, NDArray[np.int64]]:
    """Give counts of one body of evidence without grades, and the rows that they count."""
    frame = pd.DataFrame(
        {"dataset": rows["dataset"], "embedding": rows["embedding"], "segment": label}
    )[used]
    groups = frame.groupby(["dataset", "embedding", "segment"], sort=True)
    cell, size = groups.ngroup().to_numpy(), groups.size()
    kept = (size >= fewest).to_numpy()
    place = np.flatnonzero(used)[kept[cell]]
    cells = size[kept].index.to_frame(index=False)
    cells["dataset"] = np.array(DATASETS, dtype=object)[cells["dataset"]]
    cells["embedding"] = np.array(EMBEDDINGS, dtype=object)[cells["embedding"]]
    cells.insert(2, "segmentation", segmentation)
    cells["n_total"] = size[kept].to_numpy()
    counts = Kept(
        cells,
        (np.cumsum(kept) - 1)[cell[kept[cell]]],
        np.zeros(len(place), dtype=np.int64),
        np.ones(len(place)),
        {name: column[place] for name, column in columns.items()},
        np.arange(1.0, 6.0),
    )
    object.__setattr__(counts, "memory", {})
    return counts, place


def grade(law: dict[str, Kind], made: Design, rng: np.random.Generator) -> NDArray[np.int64]:
    """Grades less 1 of every row under a law."""
    quality = rng.normal(size=len(made.query))
    ease = rng.normal(size=len(made.names))[made.query]
    ratios, place = np.unique(made.ratio, return_inverse=True)
    x, high = np.log2(made.ratio), made.ratio >= 2
    for number, name in enumerate(DATASETS):
        kind, mine = law[name], made.dataset == number
        own = {key: value[mine] for key, value in made.features.items()}
        steps = np.minimum(x[mine], kind.flat)
        by = rng.normal(size=(len(EMBEDDINGS), len(ratios)))[made.embedding[mine], place[mine]]
        quality[mine] = (
            kind.noise * quality[mine]
            + kind.ease * ease[mine]
            + kind.share * own["share"]
            + kind.count * own["count"]
            + kind.precision * own["precision"]
            + np.where(high[mine], kind.order_high, kind.order) * own["order"]
            + np.where(high[mine], kind.found_high, kind.found) * own["found"]
            + kind.rise * steps
            - kind.bend * (steps - kind.top) ** 2
            + kind.embedding * by
        )
        quality[mine] -= quality[mine].mean()
        quality[mine] /= quality[mine].std()
    return np.searchsorted([-1.2, -0.4, 0.4, 1.2], quality)


@lru_cache(maxsize=WEIGHTS)
def weights(names: tuple[str, ...], replicates: int, seed: int) -> evidence.Weighting:
    """Weights of all queries, in the order of their names."""
    units = {"query": np.array(names, dtype=object)}
    whole: Any = SimpleNamespace(columns=units, keys=lambda _: (None, units))
    return evidence.Weighting.draw(whole, replicates, seed, halves=True)


def _remembered(counts: Counts, measure: Any, alphas: Any) -> Any:
    """As `resampling.exact_values`, which does not depend on the grades."""
    key = measure.name, len(alphas), float(alphas[0])
    if key not in counts.memory:  # type: ignore[attr-defined]
        counts.memory[key] = _exact_values(counts, measure, alphas)  # type: ignore[attr-defined]
    return counts.memory[key]  # type: ignore[attr-defined]


_exact_values = resampling.exact_values
resampling.exact_values = _remembered


class World(claims.Ledger):
    """A ledger whose rows are drawn from a law."""

    def __init__(self, law: str, number: int, made: Design, replicates: int = REPLICATES) -> None:
        stand_in: Any = SimpleNamespace(parts=("graded", "human"), simulated=True)
        super().__init__(stand_in, Parameters(seed=number % WEIGHTS), replicates, ("foreign",))
        self.made, self.law = made, law
        self.rng = np.random.default_rng([number, *law.encode()])
        self.grades = grade(LAWS[law], made, self.rng)
        self.weights: Any = None

    def counted(self, what: str) -> Any:
        """Give counts with the grades of this world, and the weights that all of them share."""
        if what not in self._counted:
            counts, place = self.made.counts[what]
            given = replace(counts, grade=self.grades[place])
            object.__setattr__(given, "memory", counts.memory)  # type: ignore[attr-defined]
            if self.weights is None:
                run, names = self.parameters, np.array(self.made.names, dtype=object)
                whole = SimpleNamespace(
                    columns={"query": 0}, keys=lambda _: (None, {"query": names})
                )
                self.weights = evidence.Weighting.draw(whole, self.replicates, run.seed, True)
            self._counted[what] = given, replace(self.weights, query=self.made.query[place])
        return self._counted[what]

    def cells(self, what: str) -> evidence.Cells:
        """As `Ledger.cells`, on the thinner grid of alpha."""
        if what not in self._cells:
            counts, draw = self.counted(what)
            measures = claims._WHAT[what][1]
            self._cells[what] = evidence.measure_cells(
                counts, measures, draw, alphas=GRID, threads=1
            )
        return self._cells[what]

    @property
    def human(self) -> dict[str, Any]:
        """Three persons and the LLM on 320 answers: alike under support, by chance under noise."""
        noise = HUMAN_NOISE[self.law]
        truth = self.rng.normal(size=(320, 1))
        read = truth + noise * self.rng.normal(size=(320, 4))
        read /= np.sqrt(1 + noise**2)
        grades = pd.DataFrame(1.0 + np.searchsorted([-1.2, -0.4, 0.4, 1.2], read))
        grades.columns = ["grade", *(f"grade_human_{i}" for i in (1, 2, 3))]
        drawn = self.rng.poisson(1, size=(self.replicates, 320))
        picks = [np.arange(320), *(np.repeat(np.arange(320), times) for times in drawn)]
        found = agreement.pairwise(grades, picks, groups=("llm",))
        return found | {"people": np.full(len(picks), np.nan), "n": np.array([320.0])}


def judge(law: str, number: int, made: Design) -> list[dict[str, Any]]:
    """Every condition of every claim in one world."""
    world, lines = World(law, number, made), []
    for claim in claims.CLAIMS:
        if claim.number not in ASKED.get(law, (claim.number,)):
            continue
        conditions = claim.evaluate(world.at("foreign"))
        verdict, _ = claims.decide(conditions)
        for place, condition in enumerate(conditions):
            if condition.inside == claims.ANY and not condition.missing:
                continue
            low, high = condition.interval
            lines.append(
                {
                    "law": law,
                    "world": number,
                    "claim": claim.number,
                    "condition": place,
                    "name": condition.name,
                    "verdict": condition.verdict,
                    "claim_verdict": verdict,
                    "premise": int(condition.premise),
                    "effect": round(condition.effect, 6),
                    "low": round(low, 6),
                    "high": round(high, 6),
                    "above": condition.inside[0],
                    "below": condition.inside[1],
                }
            )
    return lines


def run(worlds: int, laws: list[str], work: Path, share: int, of: int) -> None:
    """Judge the worlds that are not there yet; this process takes every `of`-th."""
    work.mkdir(parents=True, exist_ok=True)
    path = work / f"conditions-{share}-of-{of}.csv"
    done = set()
    for other in work.glob("conditions-*.csv"):
        there = pd.read_csv(other, usecols=["law", "world"])
        done |= set(zip(there["law"], there["world"], strict=True))
    made: dict[int, Design] = {}
    for number in range(1 + share, worlds + 1, of):
        for law in laws:
            if (law, number) in done:
                continue
            which = number % DESIGNS
            if which not in made:
                made = {which: design(which)} if len(made) > 2 else made | {which: design(which)}
            started = time.process_time()
            lines = judge(law, number, made[which])
            text = io.StringIO(newline="")
            writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
            if not path.exists():
                writer.writeheader()
            writer.writerows(lines)
            with path.open("a", encoding="utf-8", newline="") as file:
                file.write(text.getvalue())
                file.flush()
                os.fsync(file.fileno())
            print(law, number, f"{time.process_time() - started:.1f} s", flush=True)


def summarise(work: Path) -> pd.DataFrame:
    """Share of worlds in which each claim holds, by law, and at the edge of its conditions."""
    rows = pd.concat([pd.read_csv(path) for path in sorted(work.glob("conditions-*.csv"))])
    edge = _edges(rows)
    records = []
    for (claim, law), part in rows.groupby(["claim", "law"], sort=True):
        each = part.groupby("world")["claim_verdict"].first()
        held = int((each == "holds").sum())
        chance = binomtest(held, len(each)).proportion_ci(method="wilson")
        words = each.value_counts()
        records.append(
            {
                "claim": claim,
                "law": law,
                "worlds": len(each),
                "supported": claim in SUPPORTED.get(law, ()),
                "refuted": claim in REFUTED.get(law, ()),
                "replicates": REPLICATES,
                "holds": held / len(each),
                "holds_low": chance.low,
                "holds_high": chance.high,
                **{word.replace(" ", "_"): int(words.get(word, 0)) for word in claims.VERDICTS[1:]},
                **edge.get((claim, law), {"edge": np.nan, "edge_condition": ""}),
            }
        )
    return pd.DataFrame(records).round(4)


def _edges(rows: pd.DataFrame) -> dict[Any, dict[str, Any]]:
    """Largest share of worlds in which a condition would hold with its limit at its own mean."""
    found: dict[Any, dict[str, Any]] = {}
    tested = rows[(rows["premise"] == 0) & rows["low"].notna() & (rows["claim"] != 9)]
    for (claim, law, name), part in tested.groupby(["claim", "law", "name"], sort=False):
        drawn = part.groupby(part["world"] % DESIGNS)["effect"]
        mean = drawn.transform("mean")
        if len(part) < 2 * ENOUGH or drawn.size().min() < ENOUGH:
            continue
        sides = []
        if np.isfinite(part["above"].iloc[0]):
            sides.append((part["low"] > mean).mean())
        if np.isfinite(part["below"].iloc[0]):
            sides.append((part["high"] < mean).mean())
        largest = max(sides, default=np.nan)
        if part["effect"].std() == 0:
            continue
        if not largest <= found.get((claim, law), {"edge": -1.0})["edge"]:
            found[claim, law] = {"edge": largest, "edge_condition": name}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("step", choices=["run", "summarise"])
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--laws", default=",".join(LAWS))
    parser.add_argument("--work", type=Path, default=Path("_calibration"))
    parser.add_argument("--share", default="0/1", help="this process's part of the worlds")
    out = Path(__file__).parent / "results" / "claims_calibration.csv"
    parser.add_argument("--out", type=Path, default=out)
    asked = parser.parse_args()
    if asked.step == "run":
        share, of = map(int, asked.share.split("/"))
        run(asked.worlds, asked.laws.split(","), asked.work, share, of)
    else:
        summarise(asked.work).to_csv(asked.out, index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
