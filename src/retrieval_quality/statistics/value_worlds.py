"""Worlds whose grades follow a stated law, so that what each piece of knowledge is worth is known.

Tests and benchmarks draw rows from them. Nothing here is data, and no chapter shows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from retrieval_quality.statistics.value import QUANTITIES, SETS

FloatArray = NDArray[np.float64]

N_CANDIDATES = 14
TOP_K = (2, 3, 4, 6)
N_RELEVANT = (2, 4, 8)
EMBEDDINGS = ("one", "two")
_THRESHOLDS = np.array([-1.0, 0.0, 1.0, 2.0])


@dataclass(frozen=True)
class World:
    """The law of the grade: cumulative logits of a quality, in units of one row's own noise.

    Parameters
    ----------
    count : float
        Weight of log(1 + n_p).
    share : float
        Weight of n_p / N_p: what makes it worth to know N_p.
    order : float
        Weight of a positive at rank 1.
    embedding : float
        What the first embedding's answers are better by, whatever was retrieved.
    ease : float
        Standard deviation of what a query adds to all its answers.
    skill : float
        Standard deviation between queries of how well they are searched.
    tied : float
        Weight, in the ease of a query, of how well it is searched: an effect between queries only.
    noise : float
        Scale of the judge's noise; 1 is the logistic distribution as it is.
    """

    count: float = 1.0
    share: float = 3.0
    order: float = 1.0
    embedding: float = 0.5
    ease: float = 0.5
    skill: float = 0.5
    tied: float = 0.0
    noise: float = 1.0


NOTHING = World(share=0.0, order=0.0, embedding=0.0)
"""N_p, order and embedding are worth nothing beside n_p and K."""


class _Drawn(NamedTuple):
    frame: pd.DataFrame
    quality: FloatArray
    skill: FloatArray


def _draw(world: World, queries: int, rng: np.random.Generator) -> _Drawn:
    n_emb, n_k = len(EMBEDDINGS), len(TOP_K)
    relevant = rng.choice(N_RELEVANT, queries)
    skill = rng.normal(size=queries)
    scores = rng.normal(size=(queries, n_emb, N_CANDIDATES))
    positive = np.arange(N_CANDIDATES) < relevant[:, None, None]
    scores += (1.0 + world.skill * skill)[:, None, None] * positive
    order = np.argsort(-scores, axis=2)
    hits = np.take_along_axis(np.broadcast_to(positive, scores.shape), order, axis=2)
    running = hits.cumsum(axis=2)
    found = running[:, :, np.array(TOP_K) - 1]
    wider = np.stack(
        [
            running[:, :, 2 * k - 1] if 2 * k in TOP_K else np.full(found.shape[:2], -1)
            for k in TOP_K
        ],
        axis=2,
    )
    bits = hits @ (1 << np.arange(N_CANDIDATES))
    code = np.stack([bits & ((1 << k) - 1) for k in TOP_K], axis=2) * 16 + np.array(TOP_K)
    distinct, pattern = np.unique(code.ravel(), return_inverse=True)
    names = ["".join("01"[int(c) // 16 >> i & 1] for i in range(int(c) % 16)) for c in distinct]
    query = np.repeat(np.arange(queries), n_emb * n_k)
    which_e = np.tile(np.repeat(np.arange(n_emb), n_k), queries)
    n_p, k = found.ravel(), np.tile(TOP_K, queries * n_emb)
    quality = (
        world.count * np.log1p(n_p)
        + world.share * n_p / relevant[query]
        + world.order * hits[:, :, 0].repeat(n_k, axis=1).ravel() * (n_p < k)
        + world.embedding * (which_e == 0)
        - (world.count + 0.5 * world.share)
    )
    wide = wider.ravel().astype(float)
    frame = pd.DataFrame(
        {
            "id": np.char.add("W-", query.astype(str)),
            "E": pd.Categorical.from_codes(which_e, EMBEDDINGS),
            "dataset": "W",
            "Nc": N_CANDIDATES,
            "Np": relevant[query],
            "K": k,
            "n_positives": n_p,
            "n_positives_2k": np.where(wide < 0, np.nan, wide),
            "pattern": pd.Categorical.from_codes(pattern, names),
        }
    )
    return _Drawn(frame, quality, skill[query])


def _above(quality: FloatArray, noise: float) -> FloatArray:
    return 1 / (1 + np.exp(-(quality[:, None] - _THRESHOLDS) / noise))


def draw(world: World, queries: int, seed: int) -> pd.DataFrame:
    """Draw scored rows of a world.

    Parameters
    ----------
    world : World
        Its law.
    queries : int
        Each has 8 rows: two embeddings, K of 2, 3, 4 and 6.
    seed : int
        Of the draw.

    Returns
    -------
    DataFrame
        Scored rows with ``grade``, and ``grade_repeat``, the same answer graded once more.

    Examples
    --------
    >>> draw(World(), 2, seed=1)[["K", "Np", "n_positives"]].shape
    (16, 3)
    """
    rng = np.random.default_rng(seed)
    drawn = _draw(world, queries, rng)
    number = drawn.frame["id"].str[2:].astype(int).to_numpy()
    ease = world.ease * rng.normal(size=queries)[number] + world.tied * drawn.skill
    above = _above(drawn.quality + ease, world.noise)
    grades = [1.0 + (rng.random(len(number))[:, None] < above).sum(axis=1) for _ in range(2)]
    return drawn.frame.assign(grade=grades[0], grade_repeat=grades[1])


def truth(world: World, *, queries: int = 40_000, seed: int = 0) -> pd.DataFrame:
    """Say what each quantity is worth in a world, to whoever knows its law.

    The chances of the grades follow from the law, averaged over what a set does not know; only what
    is retrieved is sampled, from very many queries.

    Parameters
    ----------
    world : World
        Its law; `World.tied` must be 0.
    queries, seed : int
        Of the sample of retrievals.

    Returns
    -------
    DataFrame
        ``quantity``, ``score``, ``gain``.

    Examples
    --------
    >>> worth = truth(NOTHING, queries=500).set_index(["quantity", "score"])["gain"]
    >>> bool(abs(worth["embedding", "log_loss"]) < 0.05)
    True
    """
    from retrieval_quality.statistics.value import prepare

    drawn = _draw(world, queries, np.random.default_rng(seed))
    nodes, weights = np.polynomial.hermite_e.hermegauss(15)
    above = sum(
        weight * _above(drawn.quality + world.ease * node, world.noise)
        for node, weight in zip(nodes, weights / weights.sum(), strict=True)
    )
    chances = -np.diff(np.asarray(above), axis=1, prepend=1.0, append=0.0)
    rows = prepare(drawn.frame.assign(grade=1.0))
    wide = rows["n_positives_2k"].notna().to_numpy()
    scores = {
        name: _worth(rows, chances, list(columns), wide if name.endswith("2k") else ~(wide & ~wide))
        for name, columns in SETS.items()
    }
    records = []
    for quantity, (with_it, without) in QUANTITIES.items():
        records.append((quantity, "log_loss", scores[without][0] - scores[with_it][0]))
        records.append((quantity, "rank_correlation", scores[with_it][1] - scores[without][1]))
    return pd.DataFrame(records, columns=["quantity", "score", "gain"])


def _worth(
    rows: pd.DataFrame, chances: FloatArray, columns: list[str], which: NDArray[np.bool_]
) -> tuple[float, float]:
    """Log loss and rank correlation of the best prediction from some columns."""
    known, true = rows[which], chances[which]
    group = known.groupby(columns, observed=True, sort=False).ngroup().to_numpy()
    n = np.bincount(group)
    best = np.column_stack([np.bincount(group, true[:, g]) for g in range(5)]) / n[:, None]
    predicted = best[group]
    loss = -float((true * np.log(predicted)).sum(axis=1).mean())
    mean = np.round(best @ np.arange(1.0, 6.0), 9)
    values, code = np.unique(mean, return_inverse=True)
    mass = np.bincount(code, n, len(values)) / n.sum()
    rank_x = (np.cumsum(mass) - mass / 2)[code][group]
    share = true.mean(axis=0)
    rank_y = np.cumsum(share) - share / 2
    covariance = float((rank_x * (true @ rank_y)).mean()) - 0.25
    x_variance = float((rank_x**2).mean()) - 0.25
    y_variance = float(share @ rank_y**2) - 0.25
    return loss, covariance / np.sqrt(x_variance * y_variance)
