"""Whether a measure chooses right, and follows the grade between queries or within them.

All intervals are by query (`value_rank`): what each query adds to a ratio or a correlation is known
in closed form. Measures with an alpha are taken at 1/2, which nobody has chosen on these rows; at
one query, N_p and K no alpha changes the order of F or T.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from retrieval_quality.measures import MEASURES
from retrieval_quality.measures.segments import RANGES
from retrieval_quality.statistics.value import ALL, prepare
from retrieval_quality.statistics.value_rank import FloatArray, IntArray, spread, totals

NAMES = ("P", "R", "F", "T", "nDCG", "Fe")
ALPHA = 0.5

PAIR_COLUMNS = (
    "dataset",
    "range",
    "gap",
    "measure",
    "concordance",
    "low",
    "high",
    "n",
    "tied_score",
    "tied_grade",
    "queries",
    "reason",
)
CHOICE_COLUMNS = ("dataset", "measure", "grade", "lost", "low", "high", "n", "queries", "reason")
LEVEL_COLUMNS = ("dataset", "measure", "level", "correlation", "low", "high", "n", "queries")


def _ratio(top: FloatArray, bottom: FloatArray, query: IntArray) -> tuple[float, float, float, int]:
    """Give the ratio of two sums over rows, its interval by query, and the queries that count."""
    which = bottom != 0
    if not which.any():
        return math.nan, math.nan, math.nan, 0
    names, position = np.unique(query[which], return_inverse=True)
    total = float(bottom.sum())
    ratio = float(top.sum()) / total
    sums = totals(position, (top - ratio * bottom)[which], len(names))
    half = spread(sums, total)[1]
    return ratio, ratio - half, ratio + half, len(names)


def _scores(rows: pd.DataFrame, names: Sequence[str]) -> dict[str, FloatArray]:
    alphas = {name: ALPHA if MEASURES[name].has_alpha else None for name in names}
    # equal in exact arithmetic is a tie
    return {name: np.round(MEASURES[name].evaluate(rows, alphas[name]), 9) for name in names}


def _whole(rows: pd.DataFrame, names: Sequence[str]) -> tuple[pd.DataFrame, list[str]]:
    """Prepare the rows; F_e is compared elsewhere where most rows have no 2K row."""
    used = prepare(rows)
    used = used.assign(number=pd.factorize(used["query"].astype(str), sort=True)[0])
    return used, [name for name in names if name != "Fe"]


def concordance(rows: pd.DataFrame, names: Sequence[str] = NAMES) -> pd.DataFrame:
    """Ask of two retrievals of one query, N_p and K if the better-scored has the better grade.

    Parameters
    ----------
    rows : DataFrame
        Scored rows; pairs are of two embeddings, for F_e of rows that have their 2K row.
    names : sequence of str
        Measures.

    Returns
    -------
    DataFrame
        `PAIR_COLUMNS`: ``concordance`` is the share of the pairs that differ in score and in grade
        (``n``) in which both differ in the same direction: 0.5 is a coin. ``tied_score`` and
        ``tied_grade`` are shares of all pairs. ``gap``: ``all``, ``small`` or ``large``, at or
        below the median difference in score of the dataset's pairs that differ, or above.

    Examples
    --------
    >>> from retrieval_quality.statistics.value_worlds import World, draw
    >>> found = concordance(draw(World(), 50, seed=1), ["P"])
    >>> bool(found.query("range == 'all' and gap == 'all'")["concordance"].iloc[0] > 0.5)
    True
    """
    used, _ = _whole(rows, names)
    keys = ["dataset", "number", "id", "Nc", "Np", "K"]
    used = used.sort_values([*keys, "E"], kind="stable").reset_index(drop=True)
    group = used.groupby(keys, observed=True, sort=False).ngroup().to_numpy()
    lags = range(1, int(np.bincount(group).max(initial=1)))
    first = [np.flatnonzero(group[lag:] == group[:-lag]) for lag in lags]
    left = np.concatenate([np.zeros(0, np.int64), *first])
    right = np.concatenate(
        [np.zeros(0, np.int64), *(at + lag for at, lag in zip(first, lags, strict=True))]
    )
    grade = used["grade"].to_numpy(float)
    by_grade = np.sign(grade[left] - grade[right])
    dataset = used["dataset"].astype(str).to_numpy()[left]
    place, query = used["range"].to_numpy()[left], used["number"].to_numpy()[left]
    records: list[tuple[Any, ...]] = []
    for measure, scores in _scores(used, names).items():
        gaps = scores[left] - scores[right]
        known = ~np.isnan(gaps)
        for name in dict.fromkeys(dataset):
            here = known & (dataset == name)
            sizes = np.abs(gaps[here & (gaps != 0)])
            median = float(np.median(sizes)) if len(sizes) else math.nan
            with np.errstate(invalid="ignore"):
                cells = [
                    (ALL, ALL, here),
                    (ALL, "small", here & (gaps != 0) & (np.abs(gaps) <= median)),
                    (ALL, "large", here & (np.abs(gaps) > median)),
                    *((key, ALL, here & (place == at)) for at, key in enumerate(RANGES)),
                ]
            for key, gap, which in cells:
                records.append((name, key, gap, measure, *_agree(gaps, by_grade, query, which)))
    return pd.DataFrame(records, columns=list(PAIR_COLUMNS))


def _agree(gaps: FloatArray, by_grade: FloatArray, query: IntArray, which: Any) -> tuple[Any, ...]:
    by_score, graded, number = np.sign(gaps[which]), by_grade[which], query[which]
    told = (by_score != 0) & (graded != 0)
    share, low, high, queries = _ratio((told & (by_score == graded)) * 1.0, told * 1.0, number)
    ties = [float(np.mean(side == 0)) if len(number) else math.nan for side in (by_score, graded)]
    why = "" if told.any() else "no two retrievals differ in score and in grade"
    return share, low, high, int(told.sum()), *ties, queries, why


def choose(rows: pd.DataFrame, names: Sequence[str] = NAMES) -> pd.DataFrame:
    """Say how much grade is lost by taking the K of the best score, against the best K.

    Parameters
    ----------
    rows : DataFrame
        Scored rows; the choice is among the K of one query, N_p and embedding. F_e is left out: it
        has no score for the larger K.
    names : sequence of str
        Measures.

    Returns
    -------
    DataFrame
        `CHOICE_COLUMNS`; ``grade`` is the mean grade of the choice (the mean over K that tie),
        ``lost`` the best grade less that. The best is known in hindsight only, and a noisy judge
        raises it: so the losses are to be compared with each other and with ``any K``.
    """
    used, kept = _whole(rows, names)
    keys = ["dataset", "number", "id", "Nc", "Np", "E"]
    group = used.groupby(keys, observed=True, sort=True).ngroup().to_numpy()
    order = np.argsort(group, kind="stable")
    used, group = used.iloc[order].reset_index(drop=True), group[order]
    start = np.flatnonzero(np.diff(group, prepend=-1))
    grade = used["grade"].to_numpy(float)
    several = np.diff(np.append(start, len(group))) > 1
    head = used.iloc[start]
    dataset, query = head["dataset"].astype(str).to_numpy(), head["number"].to_numpy()
    best = np.maximum.reduceat(grade, start) if len(start) else np.zeros(0)
    records: list[tuple[Any, ...]] = []
    for measure, scores in {**_scores(used, kept), "any K": np.zeros(len(used))}.items():
        top = np.maximum.reduceat(scores, start) if len(start) else np.zeros(0)
        taken = (scores == top[group]) * 1.0
        sums = [np.add.reduceat(v, start) if len(start) else top for v in (taken * grade, taken)]
        got = sums[0] / np.maximum(sums[1], 1)
        for name in dict.fromkeys(dataset):
            which = (dataset == name) & several
            weight = which * 1.0
            lost = _ratio((best - got) * weight, weight, query)
            mean = float(got[which].mean()) if which.any() else math.nan
            why = "" if which.any() else "one K for each query"
            records.append((name, measure, mean, *lost[:3], int(which.sum()), lost[3], why))
    return pd.DataFrame(records, columns=list(CHOICE_COLUMNS))


def levels(rows: pd.DataFrame, names: Sequence[str] = NAMES) -> pd.DataFrame:
    """Take a rank correlation apart: between queries, within them, and at equal K and N_p.

    Parameters
    ----------
    rows : DataFrame
        Scored rows.
    names : sequence of str
        Measures; F_e is left out.

    Returns
    -------
    DataFrame
        `LEVEL_COLUMNS`. Measure and grade are ranked within the dataset and correlated: ``pooled``
        as they are (Spearman), ``between`` as means of queries (each with the weight of its rows),
        ``within`` less the mean of their query, ``partial`` less the mean of their K and N_p.
        Intervals hold the ranks and means fixed. NaN where a side is constant.

    Examples
    --------
    >>> from retrieval_quality.statistics.value_worlds import World, draw
    >>> levels(draw(World(), 50, seed=1), ["P"])["level"].tolist()
    ['pooled', 'between', 'within', 'partial']
    """
    used, kept = _whole(rows, names)
    records: list[tuple[Any, ...]] = []
    for name, part in used.groupby(used["dataset"].astype(str), sort=False):
        query = pd.factorize(part["number"])[0]
        cell = part.groupby(["K", "Np"], sort=False).ngroup().to_numpy()
        y = rankdata(part["grade"].to_numpy(float))
        for measure, scores in _scores(part, kept).items():
            x = rankdata(scores)
            x, z = x - x.mean(), y - y.mean()
            sides = {
                "pooled": (x, z),
                "between": (_mean(x, query), _mean(z, query)),
                "within": (x - _mean(x, query), z - _mean(z, query)),
                "partial": (x - _mean(x, cell), z - _mean(z, cell)),
            }
            for level, (u, v) in sides.items():
                found = _correlation(u, v, query)
                records.append((name, measure, level, *found, len(part), query.max() + 1))
    return pd.DataFrame(records, columns=list(LEVEL_COLUMNS))


def _mean(values: FloatArray, group: IntArray) -> FloatArray:
    return (np.bincount(group, values) / np.bincount(group))[group]


def _correlation(u: FloatArray, v: FloatArray, query: IntArray) -> tuple[float, float, float]:
    a, b = float((u * u).mean()), float((v * v).mean())
    if min(a, b) < 1e-9:
        return math.nan, math.nan, math.nan
    value = float((u * v).mean()) / math.sqrt(a * b)
    influence = u * v / math.sqrt(a * b) - value / 2 * (u * u / a + v * v / b)
    half = spread(totals(query, influence, int(query.max()) + 1), len(u))[1]
    return value, value - half, value + half
