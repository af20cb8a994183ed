"""What part of the reachable correlation a measure reaches, and gains in grade points.

The reachable is what a model reaches out of sample that is given all there is to see of a
retrieval: the set of knowledge with the highest rank correlation of its predicted mean, in each
dataset. A measure may exceed it, where the model has learned badly; the share is then above 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from retrieval_quality.measures import MEASURES
from retrieval_quality.measures.segments import RANGES
from retrieval_quality.statistics.value import ALL, ON_2K, QUANTITIES, Fitted, inseparable
from retrieval_quality.statistics.value_rank import Estimate, FloatArray, IntArray, spearman

NAMES = ("P", "R", "F", "T", "nDCG", "Fe")

_POWERS = 0.95 ** np.arange(1.0, 351.0, 20.0)
ALPHAS = np.unique(np.concatenate([[0.0, 1.0], _POWERS, 1 - _POWERS]))
"""Every 20th of the published values of alpha, for choices that are made over and over."""

CEILING_COLUMNS = (
    "dataset",
    "range",
    "measure",
    "correlation",
    "ceiling",
    "known",
    "share",
    "low",
    "high",
    "n",
    "queries",
    "reason",
)
POINT_SCORES = ("squared_error", "absolute_error", "choice")
POINT_COLUMNS = ("quantity", "dataset", "score", "gain", "low", "high", "n", "queries", "reason")
LABEL_COLUMNS = (
    "quantity",
    "dataset",
    "labels",
    "gain",
    "low",
    "high",
    "per_1000_labels",
    "labels_a_point",
    "n",
    "queries",
    "reason",
)


# --- the share of the ceiling -------------------------------------------------------------------


def crossfit_scores(
    rows: pd.DataFrame,
    measure: str,
    fold: IntArray,
    grade: FloatArray,
    stratum: IntArray | None = None,
    together: bool = False,
) -> FloatArray:
    """Evaluate a measure at an alpha that was chosen on the rows of the other folds.

    Parameters
    ----------
    rows : DataFrame
        With the columns of the measure.
    measure : str
        A name in `MEASURES`; one without alpha is evaluated as it is.
    fold : ndarray of int, shape (rows,)
    grade : ndarray, shape (rows,)
        What the alpha of `ALPHAS` is to correlate with best; the smallest of several.
    stratum : ndarray of int, shape (rows,), optional
        Ranks are taken within each.
    together : bool
        Give ranks among all rows at the alpha of the row's fold, so that values of several folds
        can be compared; else values, to be ranked within a fold.

    Returns
    -------
    ndarray, shape (rows,)
        Values that are equal in exact arithmetic are equal.
    """
    one = MEASURES[measure]
    if not one.has_alpha:
        return np.round(one.evaluate(rows), 9)
    group = np.zeros(len(rows), np.int64) if stratum is None else stratum
    columns = list(one.columns)
    cell = pd.factorize(pd.MultiIndex.from_frame(rows[columns].assign(g=group)))[0]
    first = np.unique(cell, return_index=True)[1]
    cells, own = rows.iloc[first].reset_index(drop=True), group[first]
    graded, code = np.unique(grade, return_inverse=True)
    size, n_folds = len(graded), int(fold.max()) + 1 if len(fold) else 0
    counts = np.bincount(
        (fold * len(cells) + cell) * size + code, minlength=n_folds * first.size * size
    )
    counts = counts.reshape(n_folds, len(cells), size).astype(float)
    values = [np.round(one.evaluate(cells, float(alpha)), 9) for alpha in ALPHAS]
    codes = [np.unique(v, return_inverse=True)[1] for v in values]
    found = np.empty(len(rows))
    for held in range(n_folds):
        train = counts.sum(axis=0) - counts[held]
        best = max(range(len(ALPHAS)), key=lambda i: (_counted(train, codes[i], own), -i))
        which = fold == held
        if together:
            mass = np.bincount(codes[best], counts.sum(axis=(0, 2)))
            found[which] = (np.cumsum(mass) - mass / 2)[codes[best]][cell[which]]
        else:
            found[which] = values[best][cell[which]]
    return found


def _counted(counts: FloatArray, code: IntArray, group: IntArray) -> float:
    """Rank correlation of a count table's rows (by their codes) and columns, within groups."""
    covariance = x_variance = y_variance = 0.0
    for one in np.unique(group):
        part, own = counts[group == one], code[group == one]
        n, weight, margin = part.sum(), part.sum(axis=1), part.sum(axis=0)
        if n == 0:
            continue
        mass = np.bincount(own, weight)
        x = ((np.cumsum(mass) - mass / 2) / n - 0.5)[own]
        y = (np.cumsum(margin) - margin / 2) / n - 0.5
        covariance += float(x @ part @ y)
        x_variance += float(weight @ x**2)
        y_variance += float(margin @ y**2)
    product = x_variance * y_variance
    return covariance / math.sqrt(product) if product > 0 else -math.inf


def ceiling(fitted: Sequence[Fitted], names: Sequence[str] = NAMES) -> pd.DataFrame:
    """Say what part of the best prediction's rank correlation each measure reaches.

    Parameters
    ----------
    fitted : sequence of Fitted
        From `value.fit`.
    names : sequence of str
        Measures. F_e, and the ceiling beside it, are on the rows that have a 2K row.

    Returns
    -------
    DataFrame
        `CEILING_COLUMNS`. ``correlation`` of the measure with the grade, ranked within folds, its
        alpha (one a dataset) chosen on the queries of the other folds; ``ceiling`` that of the best
        model on the same rows, which knows ``known``; ``share`` the ratio, with its paired 95%
        interval by query.

    Examples
    --------
    >>> ceiling([]).empty
    True
    """
    queries = 1 + max((int(one.query.max(initial=0)) for one in fitted), default=0)
    found: dict[tuple[int, str], list[tuple[str, Estimate, Estimate, str, str]]] = {}
    for one in fitted:
        wide = one.rows["n_positives_2k"].notna().to_numpy()
        place = one.rows["range"].to_numpy()
        best = {narrow: _best(one, wide, narrow) for narrow in (False, True)}
        bases: dict[tuple[int, bool], Estimate] = {}
        for measure in names:
            known = best[measure == "Fe"]
            base = wide if measure == "Fe" else np.ones(len(wide), bool)
            scores = np.full(len(wide), np.nan)
            if known:
                scores[base] = crossfit_scores(
                    one.rows[base], measure, one.fold[base], one.rows["grade"].to_numpy()[base]
                )
            for at in range(-1, len(RANGES)):
                which = base if at < 0 else base & (place == at)
                if known and (at, measure == "Fe") not in bases:
                    bases[at, measure == "Fe"] = _ranked(
                        one, one.predictions[known].mean, which, queries
                    )
                nothing = Estimate.of(math.nan, np.zeros(0), np.zeros(0, np.int64), queries)
                top = bases[at, measure == "Fe"] if known else nothing
                own = _ranked(one, scores, which, queries) if known else nothing
                why = one.reason or ("" if which.any() else "no such row")
                why = why or ("" if known else "too few queries have rows with 2K")
                found.setdefault((at, measure), []).append((one.dataset, own, top, known, why))
    records = []
    for (at, measure), parts in found.items():
        name = ALL if at < 0 else list(RANGES)[at]
        both = [p for p in parts if not math.isnan(p[1].value) and not math.isnan(p[2].value)]
        own, top = (Estimate.pool([part[i] for part in both or parts]) for i in (1, 2))  # type: ignore[misc]
        why = "" if both else "undefined in every dataset"
        records.append((ALL, name, measure, *_share(own, top, "of each dataset", why)))
        records += [(part[0], name, measure, *_share(*part[1:])) for part in parts]
    frame = pd.DataFrame(records, columns=list(CEILING_COLUMNS))
    order = {name: i for i, name in enumerate([ALL, *(one.dataset for one in fitted)])}
    return frame.sort_values(
        "dataset", key=lambda column: column.map(order), kind="stable", ignore_index=True
    )


def _best(one: Fitted, wide: NDArray[np.bool_], narrow: bool) -> str:
    """Name the set of highest rank correlation, on all rows or on those with a 2K row."""
    sets = [key for key in one.predictions if narrow or key not in ON_2K]
    if narrow and "top_2k" not in one.predictions:
        return ""
    grade = one.rows["grade"].to_numpy(float)
    which = wide if narrow else np.ones(len(wide), bool)
    values = {
        key: spearman(one.predictions[key].mean[which], grade[which], one.fold[which]).value
        for key in sets
        if key in ("n_relevant", "order", "everything", "embedding", "top_2k")
    }
    known = {key: found for key, found in values.items() if not math.isnan(found)}
    return max(known, key=lambda key: known[key]) if known else ""


def _ranked(one: Fitted, scores: FloatArray, which: NDArray[np.bool_], queries: int) -> Estimate:
    grade = one.rows["grade"].to_numpy(float)[which]
    found = spearman(scores[which], grade, one.fold[which])
    return Estimate.of(found.value, found.influence, one.query[which], queries)


def _share(own: Estimate, top: Estimate, known: str, why: str) -> tuple[Any, ...]:
    share = own.over(top)
    if not why and math.isnan(own.value):
        why = "constant: the measure or the grade is here"
    elif not why and math.isnan(top.value):
        why = "constant: the best prediction is here"
    elif not why and not top.interval()[0] > 0:
        why = "the best prediction is not surely above 0: no share of it"
        share = Estimate(math.nan, share.sums, share.present, share.n)
    value, low, high, n, queries = share.record()
    return own.value, top.value, known, value, low, high, n, queries, why


# --- grade points and labels --------------------------------------------------------------------


def points(fitted: Sequence[Fitted]) -> pd.DataFrame:
    """Say what each quantity is worth in grade points.

    Parameters
    ----------
    fitted : sequence of Fitted
        From `value.fit`.

    Returns
    -------
    DataFrame
        `POINT_COLUMNS`. Gains of knowing the quantity: ``squared_error`` and ``absolute_error``,
        how much lower the mean error of the predicted mean grade is (squared points, points);
        ``choice``, how much higher the mean grade is if, of the retrievals of one query and N_p
        (all K and embeddings), that of the highest predicted mean is taken (ties by their mean).
        Choices that have one retrieval only do not count. Paired 95% intervals by query.

    Examples
    --------
    >>> points([]).empty
    True
    """
    queries = 1 + max((int(one.query.max(initial=0)) for one in fitted), default=0)
    records = []
    for quantity, (with_it, without) in QUANTITIES.items():
        for score in POINT_SCORES:
            parts: list[tuple[str, Estimate | None, str]] = []
            for one in fitted:
                which = np.ones(len(one.rows), bool)
                if with_it in ON_2K:
                    which = one.rows["n_positives_2k"].notna().to_numpy()
                why = inseparable(one, quantity, which)
                if why:
                    parts.append((one.dataset, None, why))
                    continue
                pair = [_GAINED[score](one, key, queries) for key in (with_it, without)]
                gain = pair[0].minus(pair[1]) if score == "choice" else pair[1].minus(pair[0])
                why = "" if gain.n else "one retrieval for each query and N_p"
                parts.append((one.dataset, gain, why))
            known = [gain for _, gain, _ in parts if gain is not None and gain.n]
            if known:
                records.append((quantity, ALL, score, *Estimate.pool(known).record(), ""))
            else:
                records.append((quantity, ALL, score, *_NOTHING, "undefined in every dataset"))
            for name, part, why in parts:
                told = _NOTHING if part is None else part.record()
                records.append((quantity, name, score, *told, why))
    frame = pd.DataFrame(records, columns=list(POINT_COLUMNS))
    return frame if fitted else frame.iloc[:0]


_NOTHING = (math.nan, math.nan, math.nan, 0, 0)


def _errors(one: Fitted, key: str, queries: int, power: int) -> Estimate:
    prediction = one.predictions[key]
    which = prediction.which
    errors = np.abs(one.rows["grade"].to_numpy(float)[which] - prediction.mean[which]) ** power
    return Estimate.mean(errors, one.query[which], queries)


def _chosen(one: Fitted, key: str, queries: int) -> Estimate:
    prediction = one.predictions[key]
    rows, query = one.rows[prediction.which], one.query[prediction.which]
    group, start, order = _choices(rows)
    grade, mean = rows["grade"].to_numpy(float)[order], prediction.mean[prediction.which][order]
    if not len(start):
        return Estimate.mean(np.zeros(0), np.zeros(0, np.int64), queries)
    taken = (mean == np.maximum.reduceat(mean, start)[group[order]]) * 1.0
    got = np.add.reduceat(taken * grade, start) / np.add.reduceat(taken, start)
    several = np.diff(np.append(start, len(grade))) > 1
    return Estimate.mean(got[several], query[order][start][several], queries)


def _choices(rows: pd.DataFrame) -> tuple[IntArray, IntArray, IntArray]:
    """Group the retrievals of one query and N_p: numbers, where each begins, and the order."""
    group = rows.groupby(["id", "Nc", "Np"], observed=True, sort=True).ngroup().to_numpy()
    order = np.argsort(group, kind="stable")
    return group, np.flatnonzero(np.diff(group[order], prepend=-1)), order


_GAINED: dict[str, Callable[[Fitted, str, int], Estimate]] = {
    "squared_error": lambda one, key, queries: _errors(one, key, queries, 2),
    "absolute_error": lambda one, key, queries: _errors(one, key, queries, 1),
    "choice": _chosen,
}


def labels(fitted: Sequence[Fitted], found: pd.DataFrame) -> pd.DataFrame:
    """Say what labels cost that tell N_p or the top 2K, and what grade they buy.

    Parameters
    ----------
    fitted : sequence of Fitted
        From `value.fit`.
    found : DataFrame
        From `points`.

    Returns
    -------
    DataFrame
        `LABEL_COLUMNS`, for the quantities that take labels beyond the top K. ``labels``: mean
        number of documents of a choice that must be labelled beside those of the largest top K: the
        rest of the candidates for N_p (a real base has more: a lower bound), as many again for the
        top 2K. ``gain``: grade points that the choice gains. ``per_1000_labels``: grade points that
        1000 labels gain in all, over the choices that they serve. ``labels_a_point``: the price of
        one grade point in labels; labelling is worth it where a point is worth more than that.
        NaN where the interval of the gain holds 0.
    """
    cost: dict[tuple[str, str], tuple[float, int]] = {}
    for one in fitted:
        for quantity in ("n_relevant", "top_2k"):
            wide = one.rows["n_positives_2k"].notna().to_numpy()
            rows = one.rows[wide] if quantity == "top_2k" else one.rows
            _, start, order = _choices(rows)
            if not len(start):
                continue
            largest = np.maximum.reduceat(rows["K"].to_numpy(float)[order], start)
            several = np.diff(np.append(start, len(rows))) > 1
            left = rows["Nc"].to_numpy(float)[order][start] - largest
            extra = largest if quantity == "top_2k" else np.maximum(left, 0.0)
            if several.any():
                cost[quantity, one.dataset] = float(extra[several].mean()), int(several.sum())
    records = []
    for _, row in found[found["score"] == "choice"].iterrows():
        key = row["quantity"]
        if key not in ("n_relevant", "top_2k"):
            continue
        known = [v for (q, d), v in cost.items() if q == key and row["dataset"] in (d, ALL)]
        total = sum(n for _, n in known)
        needed = sum(n * mean for mean, n in known) / total if total else math.nan
        why = row["reason"]
        told = row["low"] > 0
        if not why and not told:
            why = "the gain cannot be told from 0: no price"
            why = "choosing with it is worse: no price" if row["high"] < 0 else why
        if not why and not needed > 0:
            why = "no document is left to label"
        rate = row["gain"] / needed if told and needed > 0 else math.nan
        price = 1 / rate if rate > 0 else math.nan
        gain = (row["gain"], row["low"], row["high"])
        sizes = (row["n"], row["queries"])
        records.append((key, row["dataset"], needed, *gain, 1000 * rate, price, *sizes, why))
    return pd.DataFrame(records, columns=list(LABEL_COLUMNS))
