"""What a number about a retrieval is worth: how much better it lets the grade be predicted.

No formula is chosen. The grade of a row is predicted from sets of what is known of its retrieval
(`SETS`), by models that have not seen its query, and the predictions are scored (`SCORES`). What a
piece of knowledge is worth is the gain in score over the set without it (`QUANTITIES`). The gain of
knowing N_p beside n_p and K is the importance of recall: any measure that needs N_p, recall and F
among them, is a function of these three numbers, and can give no more than they do.

Two models, both from scikit-learn, both fitted on counts (rows that agree in all that a model sees
are one weighted row, so that the cost of a fit follows the distinct rows):

- `boosting`: histogram gradient boosting; no shape is assumed. Grades are cumulative: each row asks
  "is the grade above t?" for t from 1 to 4, with t as an input on which the answer may only fall.
- `odds`: proportional odds, as a logistic regression of the same four questions with an intercept
  for each. These are the estimating equations of an ordinal GEE with independence.

Of the two and the mean of their chances, the one with the lowest log loss out of sample, summed
over the sets, serves all sets of a dataset, so that a gain compares like with like. With few rows
that is the model that assumes a shape.

Intervals are by query, paired, and given the fitted models: they say how far the mean over the
queries may be off, and not what other training data would have fitted.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from retrieval_quality.data import schema
from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.measures.segments import RANGES
from retrieval_quality.statistics.value_rank import (
    FloatArray,
    IntArray,
    spearman,
    spread,
    totals,
)

Family = Literal["boosting", "odds"]
FAMILIES: tuple[Family, ...] = ("boosting", "odds")
BOTH = "mean of both"

_RETRIEVED = ("n_positives", "K")
_ORDER = ("order", "first")
SETS: dict[str, tuple[str, ...]] = {
    "k": ("K",),
    "retrieved": _RETRIEVED,
    "n_relevant": (*_RETRIEVED, "Np"),
    "order": (*_RETRIEVED, *_ORDER),
    "everything": (*_RETRIEVED, "Np", *_ORDER),
    "embedding": (*_RETRIEVED, "Np", *_ORDER, "E"),
    "retrieved_2k": _RETRIEVED,
    "top_2k": (*_RETRIEVED, "n_positives_2k"),
}
"""What a prediction is made from. The last two are fitted on the rows that have a 2K row."""

ON_2K = ("retrieved_2k", "top_2k")

QUANTITIES: dict[str, tuple[str, str]] = {
    "n_relevant": ("n_relevant", "retrieved"),
    "order": ("order", "retrieved"),
    "embedding": ("embedding", "everything"),
    "top_2k": ("top_2k", "retrieved_2k"),
}
"""What is valued: the set with it, and the set without."""

SCORES = ("log_loss", "rank_correlation")
FOLDS = 5
GRADES = np.arange(1.0, 6.0)
ALL = "all"

RECORD = (
    "quantity",
    "dataset",
    "range",
    "score",
    "gain",
    "low",
    "high",
    "n",
    "queries",
    "reason",
)

_FLOOR = 1e-4
"""Least probability of a grade that a prediction may give."""
_BOOSTING: dict[str, Any] = {
    "learning_rate": 0.4,
    "max_iter": 20,
    "max_leaf_nodes": 16,
    "min_samples_leaf": 2,
    "l2_regularization": 20.0,
    "early_stopping": False,
    "random_state": 0,
}


# --- rows ---------------------------------------------------------------------------------------


def prepare(rows: pd.DataFrame) -> pd.DataFrame:
    """Give the graded rows what the models see, and their range of K/N_p.

    Parameters
    ----------
    rows : DataFrame
        Scored rows; a column ``query`` names the unit of resampling (the id where there is none).

    Returns
    -------
    DataFrame
        Rows with a grade, with ``query``, ``range`` (position in `RANGES`), ``order`` (the
        DCG of the pattern between the worst, 0, and the best order, 1, of its n_p positives among
        K, to the nearest 8th; 0.5 where there is only one order) and ``first`` (rank of the first
        positive, 4 standing for all later ones, 0 without any).

    Examples
    --------
    >>> rows = pd.DataFrame({"id": "A-0", "E": "x", "dataset": "A", "Np": 2, "K": 3,
    ...     "n_positives": [1, 2], "n_positives_2k": np.nan, "pattern": ["010", "110"],
    ...     "grade": [2.0, 4.0]})
    >>> prepare(rows)[["order", "first", "range"]].to_numpy().tolist()
    [[0.25, 2.0, 3.0], [1.0, 1.0, 3.0]]
    """
    used = rows[rows["grade"].notna()].reset_index(drop=True)
    if "query" not in used:
        used = used.assign(query=used["id"])
    odd = ~used["grade"].isin(GRADES)
    if odd.any():
        row = used[odd].iloc[0]
        raise DataError(f"grade {row['grade']} of {row['id']}: grades are whole, from 1 to 5.")
    pattern = used["pattern"].astype("category")
    seen = pd.DataFrame([_order(str(p)) for p in pattern.cat.categories], columns=list(_ORDER))
    codes = pattern.cat.codes.to_numpy()
    ratio = np.round(used["K"].to_numpy(float) / used["Np"].to_numpy(float), 1)
    ends = np.array([high for _, high in RANGES.values()])
    extra: dict[str, Any] = {name: seen[name].to_numpy()[codes] for name in _ORDER}
    return used.assign(**extra, range=np.searchsorted(ends, ratio - 1e-9))


def _order(pattern: str) -> tuple[float, int]:
    k, found = len(pattern), pattern.count("1")
    discounts = [1 / math.log2(2 + i) for i in range(k)]
    if found in (0, k):
        return 0.5, min(pattern.find("1") + 1, 4)
    dcg = sum(d for d, hit in zip(discounts, pattern, strict=True) if hit == "1")
    best, worst = sum(discounts[:found]), sum(discounts[k - found :])
    order = round(8 * (dcg - worst) / (best - worst)) / 8
    return order, min(pattern.find("1") + 1, 4)


def deal(queries: Iterable[Any], seed: int, folds: int = FOLDS) -> IntArray:
    """Deal queries into folds of equal size, in an order that only the seed and the names decide.

    Examples
    --------
    >>> np.bincount(deal(["a", "b", "c", "d"], seed=1, folds=2)).tolist()
    [2, 2]
    """
    names = [str(query) for query in queries]
    order = sorted(
        range(len(names)), key=lambda i: (zlib.crc32(f"{seed} {names[i]}".encode()), names[i])
    )
    fold = np.empty(len(names), np.int64)
    fold[order] = np.arange(len(names)) % folds
    return fold


# --- models -------------------------------------------------------------------------------------


def _columns(cells: pd.DataFrame) -> FloatArray:
    """Give the proportional-odds model counts as they are, in logs and as shares."""
    k = cells["K"].to_numpy(float)
    columns = [k, np.log(k)]
    if "n_positives" in cells:
        found = cells["n_positives"].to_numpy(float)
        columns += [found, np.log1p(found), found / k, (found == 0) * 1.0]
    if "Np" in cells:
        relevant = cells["Np"].to_numpy(float)
        columns += [np.log(relevant), found / relevant, np.log(k / relevant)]
    if "n_positives_2k" in cells:
        wider = cells["n_positives_2k"].to_numpy(float)
        columns += [np.log1p(wider), found / np.maximum(wider, 1)]
    if "order" in cells:
        first = cells["first"].to_numpy(float)
        columns += [cells["order"].to_numpy(float), 1 / np.maximum(first, 1) * (first > 0)]
    if "E" in cells:
        columns += list((cells["E"].to_numpy()[:, None] == np.unique(cells["E"])).T * 1.0)
    seen = np.column_stack(columns)
    return (seen - seen.mean(axis=0)) / np.maximum(seen.std(axis=0), 1e-9)


def _plain(cells: pd.DataFrame) -> FloatArray:
    """Give the trees the columns as they are, and the shares of n_p, which are slow to grow."""
    columns = list(cells.to_numpy(float).T)
    if "n_positives" in cells:
        found, k = cells["n_positives"].to_numpy(float), cells["K"].to_numpy(float)
        columns.append(found / k)
        if "Np" in cells:
            relevant = cells["Np"].to_numpy(float)
            columns += [found / relevant, k / relevant]
        if "n_positives_2k" in cells:
            columns.append(found / np.maximum(cells["n_positives_2k"].to_numpy(float), 1))
    return np.column_stack(columns)


def _stacked(seen: FloatArray, counts: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Four questions a cell: inputs with the threshold last, answers and weights."""
    above = counts[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]
    below = counts.cumsum(axis=1)[:, :-1]
    inputs = np.column_stack([np.repeat(seen, 4, axis=0), np.tile(np.arange(4.0), len(seen))])
    weights = np.concatenate([above.ravel(), below.ravel()])
    answers = np.repeat([1.0, 0.0], above.size)
    used = weights > 0
    return np.vstack([inputs, inputs])[used], answers[used], weights[used]


def _fit(
    family: Family, seen: FloatArray, counts: FloatArray, categorical: list[int]
) -> FloatArray:
    """Fit on the counts of the grades of each cell; give the grades' chances in every cell."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    asked = counts.sum(axis=1) > 0
    inputs, answers, weights = _stacked(seen[asked], counts[asked])
    every = np.column_stack([np.repeat(seen, 4, axis=0), np.tile(np.arange(4.0), len(seen))])
    if len(np.unique(answers)) < 2:
        above = np.full((len(seen), 4), answers[0] if len(answers) else 0.5)
    elif family == "boosting":
        model = HistGradientBoostingClassifier(
            **_BOOSTING,
            monotonic_cst=[0] * seen.shape[1] + [-1],
            categorical_features=categorical or None,
        )
        above = model.fit(inputs, answers, weights).predict_proba(every)[:, 1].reshape(-1, 4)
    else:

        def intercepts(x: FloatArray) -> FloatArray:
            return np.column_stack([x[:, :-1], x[:, -1:] == np.arange(1.0, 4)])

        odds = LogisticRegression(C=1.0, solver="newton-cholesky")
        odds.fit(intercepts(inputs), answers, weights)
        above = odds.predict_proba(intercepts(every))[:, 1].reshape(-1, 4)
    above = np.minimum.accumulate(above, axis=1)
    chances = -np.diff(above, axis=1, prepend=1.0, append=0.0)
    chances = np.maximum(chances, _FLOOR)
    return np.asarray(chances / chances.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class Prediction:
    """Predictions of one set of knowledge for the rows of one dataset, out of sample.

    Attributes
    ----------
    which : ndarray of bool, shape (rows,)
        Rows that it is for; all but for the sets on the 2K rows.
    mean : ndarray, shape (rows,)
        Predicted mean grade, NaN outside `which`.
    loss : ndarray, shape (rows,)
        Minus the log of the chance that was given to the grade that came, in nats; NaN likewise.
    chances : ndarray, shape (units, 5), and unit : ndarray, shape (rows,)
        The predicted chances of the grades, and which of them each row has (-1 outside).
    """

    which: NDArray[np.bool_]
    mean: FloatArray
    loss: FloatArray
    chances: FloatArray
    unit: IntArray


def _predict(
    rows: pd.DataFrame, fold: IntArray, names: Sequence[str], family: Family, on_2k: bool
) -> Prediction:
    which = rows["n_positives_2k"].notna().to_numpy() if on_2k else np.ones(len(rows), bool)
    part, part_fold = rows[which], fold[which]
    cell, cells = _distinct(part, names)
    grade = part["grade"].to_numpy(dtype=np.int64) - 1
    n_cells = len(cells)
    flat = (part_fold * n_cells + cell) * 5 + grade
    counts = np.bincount(flat, minlength=FOLDS * n_cells * 5).reshape(FOLDS, n_cells, 5) * 1.0
    seen = _plain(cells) if family == "boosting" else _columns(cells)
    categorical = [i for i, name in enumerate(names) if name == "E"]
    chances = np.zeros((FOLDS, n_cells, 5))
    total = counts.sum(axis=0)
    for held in range(FOLDS):
        if counts[held].any():
            chances[held] = _fit(family, seen, total - counts[held], categorical)
    unit = np.full(len(rows), -1)
    unit[which] = part_fold * n_cells + cell
    return _prediction(rows, chances.reshape(-1, 5), unit)


def _distinct(rows: pd.DataFrame, names: Sequence[str]) -> tuple[IntArray, pd.DataFrame]:
    """Give each row the number of its like in some columns, and the distinct rows."""
    code = np.zeros(len(rows), np.int64)
    for name in names:
        values = rows[name]
        if isinstance(values.dtype, pd.CategoricalDtype):
            own, size = values.cat.codes.to_numpy().astype(np.int64), len(values.cat.categories)
        else:
            own, distinct = pd.factorize(values.to_numpy(), sort=False)
            size = len(distinct)
        code = pd.factorize(code * max(size, 1) + own)[0]
    first = np.unique(code, return_index=True)[1]
    cells = rows.iloc[first][list(names)].reset_index(drop=True)
    if "E" in cells:
        cells = cells.assign(E=cells["E"].astype("category").cat.codes)
    return code.astype(np.int64), cells


@dataclass(frozen=True)
class Fitted:
    """All predictions for one dataset.

    Attributes
    ----------
    dataset : str
    rows : DataFrame
        Its graded rows, from `prepare`.
    query, fold : ndarray of int, shape (rows,)
        Number of the query, over all datasets; fold that the row was held out in.
    family : str
        Model that served; empty if none could.
    losses : dict of str to float
        Mean log loss over the sets without 2K rows, by family.
    predictions : dict of str to Prediction
        By name of the set.
    reason : str
        Why there are none, else empty.
    """

    dataset: str
    rows: pd.DataFrame
    query: IntArray
    fold: IntArray
    family: str
    losses: dict[str, float]
    predictions: dict[str, Prediction]
    reason: str


def fit(
    rows: pd.DataFrame, *, seed: int = 1, families: Sequence[Family] = FAMILIES
) -> list[Fitted]:
    """Predict the grade of every row from each set of knowledge, its query held out.

    Parameters
    ----------
    rows : DataFrame
        Scored rows, of any number of datasets; each dataset has models of its own.
    seed : int
        Of the folds.
    families : sequence of str
        Models to try, of `FAMILIES`.

    Returns
    -------
    list of Fitted
        One a dataset, in the paper's order. A dataset with fewer queries than folds, or with one
        grade only, has no predictions and a reason.

    Raises
    ------
    DataError
        If a grade is not a whole number from 1 to 5.
    UsageError
        If a model is not known.
    """
    unknown = [name for name in families if name not in FAMILIES]
    if unknown or not families:
        raise UsageError(f"models are {' and '.join(FAMILIES)}, not {', '.join(unknown) or 'none'}")
    from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: F401 (loads its threads)
    from threadpoolctl import threadpool_limits

    used = prepare(rows)
    query, names = pd.factorize(used["query"].astype(str), sort=True)
    dealt = deal(names, seed)
    dataset = used["dataset"].astype(str).to_numpy()
    fitted = []
    with threadpool_limits(1):
        for name in schema.dataset_order(list(dict.fromkeys(dataset))):
            which = dataset == name
            part = used[which].reset_index(drop=True)
            fitted.append(_fit_dataset(name, part, query[which], dealt[query[which]], families))
    return fitted


def _fit_dataset(
    name: str, rows: pd.DataFrame, query: IntArray, fold: IntArray, families: Sequence[Family]
) -> Fitted:
    queries = len(np.unique(query))
    if queries < FOLDS or len(np.unique(fold)) < 2:
        why = f"{queries} queries: at least {FOLDS} are needed to hold some out"
        return Fitted(name, rows, query, fold, "", {}, {}, why)
    if rows["grade"].nunique() < 2:
        return Fitted(name, rows, query, fold, "", {}, {}, "all grades are equal")
    wide = rows["n_positives_2k"].notna().to_numpy()
    sets = [name for name in SETS if name not in ON_2K]
    if len(np.unique(query[wide])) >= FOLDS and len(np.unique(fold[wide])) > 1:
        sets += ON_2K
    found: dict[str, dict[str, Prediction]] = {
        family: {key: _predict(rows, fold, SETS[key], family, key in ON_2K) for key in sets}
        for family in families
    }
    if len(families) > 1:
        found[BOTH] = {
            key: _mixed(rows, [predictions[key] for predictions in found.values()]) for key in sets
        }
    losses = {
        family: float(np.mean([predictions[key].loss.mean() for key in SETS if key not in ON_2K]))
        for family, predictions in found.items()
    }
    best = min(losses, key=lambda family: losses[family])
    return Fitted(name, rows, query, fold, best, losses, found[best], "")


def _mixed(rows: pd.DataFrame, parts: Sequence[Prediction]) -> Prediction:
    """Average the chances of several models."""
    chances = np.mean([part.chances for part in parts], axis=0)
    return _prediction(rows, chances, parts[0].unit)


def _prediction(rows: pd.DataFrame, chances: FloatArray, unit: IntArray) -> Prediction:
    which = unit >= 0
    grade = rows["grade"].to_numpy(dtype=np.int64)[which] - 1
    mean, loss = np.full((2, len(rows)), np.nan)
    mean[which] = np.round(chances @ GRADES, 10)[unit[which]]
    loss[which] = -np.log(chances[unit[which], grade])
    return Prediction(which, mean, loss, chances, unit)


# --- gains --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sums:
    """What the queries of one dataset and range add to a score of one set.

    Attributes
    ----------
    value : float
        Mean log loss, or rank correlation of the predicted mean with the grade (within folds).
    query : ndarray of int, shape (queries,)
        Queries that have rows here.
    sums : ndarray, shape (queries,)
        Sums of the rows' influences on the value.
    n : int
        Rows.
    """

    value: float
    query: IntArray
    sums: FloatArray
    n: int


def _sums(
    value: float, influence: FloatArray, query: IntArray, queries: IntArray, position: IntArray
) -> Sums:
    return Sums(value, queries, totals(position, influence, len(queries)), len(query))


def score(fitted: Fitted, key: str, which: NDArray[np.bool_]) -> dict[str, Sums]:
    """Score a prediction on some rows of its dataset.

    Parameters
    ----------
    fitted : Fitted
        With predictions.
    key : str
        A key of `SETS` that it has.
    which : ndarray of bool, shape (rows,)
        Rows to score on; those that the set is not for are left out.

    Returns
    -------
    dict of str to Sums
        By name of the score, of `SCORES`.
    """
    prediction = fitted.predictions[key]
    used = which & prediction.which
    query = fitted.query[used]
    queries, position = np.unique(query, return_inverse=True)
    loss = prediction.loss[used]
    mean = float(loss.mean()) if len(loss) else math.nan
    ranked = spearman(
        prediction.mean[used], fitted.rows["grade"].to_numpy(float)[used], fitted.fold[used]
    )
    return {
        "log_loss": _sums(mean, loss - mean, query, queries, position),
        "rank_correlation": _sums(ranked.value, ranked.influence, query, queries, position),
    }


def inseparable(fitted: Fitted, quantity: str, which: NDArray[np.bool_]) -> str:
    """Say why nothing can be said of a quantity on these rows, or give an empty text."""
    if fitted.reason:
        return fitted.reason
    if quantity == "top_2k" and "top_2k" not in fitted.predictions:
        wide = fitted.rows["n_positives_2k"].notna().to_numpy()
        if not wide.any():
            return "no row has a row with 2K"
        return f"{len(np.unique(fitted.query[wide]))} queries have rows with 2K: too few"
    if not which.any():
        return "no row has a row with 2K" if quantity == "top_2k" else "no graded row"
    rows = fitted.rows
    if quantity == "n_relevant":
        if rows["Np"].nunique() == 1:
            return "one N_p in the whole dataset: nothing to know"
        if not _varies_given(rows, "Np", list(_RETRIEVED)):
            return "n_p and K determine N_p in this dataset: nothing tells them apart"
        here = rows[which]
        if here["Np"].nunique() == 1 and here["K"].nunique() == 1:
            return "one K and one N_p: nothing tells recall from precision"
    if quantity == "order" and not _varies_given(rows[which], "order", list(_RETRIEVED)):
        return "no two rows with the same n_p and K differ in order"
    if quantity == "embedding" and rows["E"].nunique() == 1:
        return "one embedding"
    return ""


def _varies_given(rows: pd.DataFrame, name: str, given: list[str]) -> bool:
    known = rows[[*given, name]].drop_duplicates()
    return bool(known.duplicated(given).any())


def _gain(with_it: Sums, without: Sums, name: str) -> tuple[float, FloatArray]:
    """How much better, and the sums of the paired influences."""
    sign = -1.0 if name == "log_loss" else 1.0
    return sign * (with_it.value - without.value), sign * (with_it.sums - without.sums)


def gains(fitted: Sequence[Fitted], *, level: float = 0.95) -> pd.DataFrame:
    """Say what each quantity is worth, by dataset and range of K/N_p.

    Parameters
    ----------
    fitted : sequence of Fitted
        From `fit`.
    level : float
        Of the intervals, in (0, 1).

    Returns
    -------
    DataFrame
        `RECORD`, and ``without`` and ``with_it``, the two scores. ``dataset`` is `ALL` for all of
        them: the mean over their rows, each dataset's rank correlation being its own. ``gain`` is
        positive where knowing helps: nats a row, or rank correlation. NaN with a ``reason`` where
        undefined; a dataset where it is undefined is left out of `ALL`.

    Examples
    --------
    >>> gains([]).empty
    True
    """
    records = []
    for quantity, (with_it, without) in QUANTITIES.items():
        for place, name in [(-1, ALL), *enumerate(RANGES)]:
            cells: dict[str, list[tuple[Sums, Sums]]] = {key: [] for key in SCORES}
            for one in fitted:
                here = one.rows["range"].to_numpy()
                which = np.ones(len(here), bool) if place < 0 else here == place
                if with_it in ON_2K:
                    which &= one.rows["n_positives_2k"].notna().to_numpy()
                why = inseparable(one, quantity, which)
                both = [] if why else [score(one, key, which) for key in (with_it, without)]
                n, queries = int(which.sum()), len(np.unique(one.query[which]))
                for key in SCORES:
                    pair = [(both[0][key], both[1][key])] if both else []
                    cells[key] += pair
                    records.append(
                        (quantity, one.dataset, name, key, *_estimate(pair, key, level), n, queries)
                        if pair
                        else _undefined(quantity, one.dataset, name, key, n, queries, why)
                    )
            for key in SCORES:
                pairs = [pair for pair in cells[key] if not math.isnan(pair[0].value)]
                pairs = [pair for pair in pairs if not math.isnan(pair[1].value)]
                n = sum(pair[0].n for pair in pairs)
                queries = len({int(query) for pair in pairs for query in pair[0].query})
                records.append(
                    (quantity, ALL, name, key, *_estimate(pairs, key, level), n, queries)
                    if pairs
                    else _undefined(quantity, ALL, name, key, 0, 0, "undefined in every dataset")
                )
    columns = ["quantity", "dataset", "range", "score", "gain", "low", "high"]
    columns += ["without", "with_it", "reason", "n", "queries"]
    frame = pd.DataFrame(records, columns=columns)
    order = {name: i for i, name in enumerate([ALL, *(one.dataset for one in fitted)])}
    place_of = {name: i for i, name in enumerate([ALL, *RANGES])}
    keys = frame.assign(
        quantity=frame["quantity"].map({q: i for i, q in enumerate(QUANTITIES)}),
        dataset=frame["dataset"].map(order),
        range=frame["range"].map(place_of),
    ).sort_values(["quantity", "dataset", "range", "score"], kind="stable")
    frame = frame.loc[keys.index, [*RECORD, "without", "with_it"]].reset_index(drop=True)
    return frame if fitted else frame.iloc[:0]


def _undefined(
    quantity: str, dataset: str, name: str, key: str, n: int, queries: int, why: str
) -> tuple[Any, ...]:
    return (quantity, dataset, name, key, *[math.nan] * 5, why, n, queries)


def _estimate(
    pairs: Sequence[tuple[Sums, Sums]], key: str, level: float
) -> tuple[float, float, float, float, float, str]:
    """Gain, its interval, both scores, and why something of it is undefined."""
    n = sum(pair[0].n for pair in pairs)
    without = sum(pair[1].n * pair[1].value for pair in pairs) / n
    with_it = sum(pair[0].n * pair[0].value for pair in pairs) / n
    if math.isnan(with_it) or math.isnan(without):
        which = (
            "grade or both predictions are" if math.isnan(with_it) else "prediction without it is"
        )
        return math.nan, math.nan, math.nan, without, with_it, f"constant: the {which} here"
    found = [_gain(*pair, key) for pair in pairs]
    gain = sum(pair[0].n * one[0] for pair, one in zip(pairs, found, strict=True)) / n
    query = np.concatenate([pair[0].query for pair in pairs])
    queries, position = np.unique(query, return_inverse=True)
    sums = totals(position, np.concatenate([one[1] for one in found]), len(queries))
    _, half = spread(sums, n, level)
    if math.isnan(half):
        return gain, math.nan, math.nan, without, with_it, "one query: no interval"
    return gain, gain - half, gain + half, without, with_it, ""


def value(rows: pd.DataFrame, *, seed: int = 1, level: float = 0.95) -> pd.DataFrame:
    """Give the records of the command ``value``: what each quantity is worth.

    Parameters
    ----------
    rows : DataFrame
        Scored rows.
    seed : int
        Of the folds.
    level : float
        Of the intervals, in (0, 1).

    Returns
    -------
    DataFrame
        `RECORD`.
    """
    return gains(fit(rows, seed=seed), level=level)[list(RECORD)]
