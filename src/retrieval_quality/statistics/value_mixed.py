"""A check of the chapter's findings by models with coefficients, on a sample of queries.

The check asked for is a cumulative-link mixed model: ordered grades, and an effect of the query. No
kept library of this project fits one, so its two halves are fitted by statsmodels:

- `LINK`: cumulative logits by generalised estimating equations (``OrdinalGEE``, independence), with
  standard errors that allow for rows of one query being alike. Its grades are ordered; it has no
  effect of the query.
- `MIXED`: a linear mixed model with a random intercept for each query (``MixedLM``). It has the
  effect of the query; it takes the steps between grades for equal.

What both say holds for either reason; where they differ, the difference is the assumption.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pandas as pd

from retrieval_quality.data import schema
from retrieval_quality.statistics.value import deal
from retrieval_quality.statistics.value_rank import FloatArray, IntArray

LINK, MIXED = "cumulative link (GEE)", "linear, random query"
N_RELEVANT, WITHIN, BETWEEN, SHARE = "log N_p", "R within", "R between", "share of the query"
QUERIES, ROWS = 60, 1500
MIXED_COLUMNS = ("dataset", "model", "term", "estimate", "low", "high", "n", "queries", "reason")
_Z = 1.959964
_FEW = 10


def mixed(
    rows: pd.DataFrame, *, queries: int = QUERIES, most: int = ROWS, seed: int = 1
) -> pd.DataFrame:
    """Fit both models to a sample of each dataset.

    Parameters
    ----------
    rows : DataFrame
        Scored rows.
    queries, most : int
        Queries, and rows, to sample in each dataset.
    seed : int
        Of the sample.

    Returns
    -------
    DataFrame
        `MIXED_COLUMNS`. Terms: ``log N_p`` beside log(1 + n_p) and log K (log odds of a better
        grade, or grade points, for one standard deviation); ``R within`` and ``R between``, grade
        points for one standard deviation of recall less the query's mean, and of that mean;
        ``share of the query``, the part of the variance left that is between queries (no interval).
        NaN with a reason.

    Examples
    --------
    >>> from retrieval_quality.statistics.value_worlds import World, draw
    >>> found = mixed(draw(World(), 80, seed=1)).set_index(["model", "term"])
    >>> bool(found.loc[(LINK, N_RELEVANT), "high"] < 0)
    True
    """
    used = rows[rows["grade"].notna()].reset_index(drop=True)
    query = used["query"] if "query" in used else used["id"]
    records: list[tuple[Any, ...]] = []
    for name in schema.dataset_order([str(name) for name in used["dataset"].unique()]):
        which = (used["dataset"] == name).to_numpy()
        part, own = _sample(used[which], query[which], queries, most, seed)
        n, size = len(part), len(np.unique(own))
        for (model, term), told in _fit_both(part, own, size).items():
            records.append((name, model, term, *told[:3], n, size, told[3]))
    return pd.DataFrame(records, columns=list(MIXED_COLUMNS))


def _sample(
    rows: pd.DataFrame, query: pd.Series, queries: int, most: int, seed: int
) -> tuple[pd.DataFrame, IntArray]:
    code, names = pd.factorize(query)
    turn = deal(names, seed, max(len(names), 1))
    taken = np.flatnonzero((turn < queries)[code])
    if len(taken) > most:
        taken = np.sort(np.random.default_rng(seed).choice(taken, most, replace=False))
    order = taken[np.argsort(code[taken], kind="stable")]
    return rows.iloc[order].reset_index(drop=True), code[order].astype(np.int64)


Told = dict[tuple[str, str], tuple[float, float, float, str]]


def _fit_both(rows: pd.DataFrame, query: IntArray, size: int) -> Told:
    terms = [(LINK, N_RELEVANT), (MIXED, N_RELEVANT)]
    terms += [(MIXED, WITHIN), (MIXED, BETWEEN), (MIXED, SHARE)]
    why = ""
    if size < _FEW:
        why = f"{size} queries: at least {_FEW} are needed"
    elif rows["grade"].nunique() < 2:
        why = "all grades are equal"
    elif len(rows) == size:
        why = "one row a query: no effect of the query can be told"
    if why:
        return dict.fromkeys(terms, (math.nan, math.nan, math.nan, why))
    found, relevant, k, grade = (
        rows[name].to_numpy(float) for name in ("n_positives", "Np", "K", "grade")
    )
    recall = found / relevant
    mean = (np.bincount(query, recall) / np.maximum(np.bincount(query), 1))[query]
    told: Told = {}
    told |= _terms(
        grade,
        query,
        {"n_p": np.log1p(found), "K": np.log(k), N_RELEVANT: np.log(relevant)},
        [(LINK, N_RELEVANT), (MIXED, N_RELEVANT)],
    )
    told |= _terms(
        grade,
        query,
        {WITHIN: recall - mean, BETWEEN: mean},
        [(MIXED, n) for n in (WITHIN, BETWEEN)],
    )
    told[MIXED, SHARE] = told.pop((MIXED, SHARE))
    return told


def _terms(
    grade: FloatArray, query: IntArray, sides: dict[str, FloatArray], wanted: list[tuple[str, str]]
) -> Told:
    """Fit each wanted model once, on the inputs that vary."""
    varying = {name: x for name, x in sides.items() if x.std() > 1e-9}
    x = np.column_stack([(v - v.mean()) / v.std() for v in varying.values()] or [grade * 0])
    full = np.linalg.matrix_rank(x) == len(varying) > 0
    told: Told = {}
    for model, term in wanted:
        if term not in varying:
            told[model, term] = math.nan, math.nan, math.nan, f"{term} does not vary here"
        elif not full:
            told[model, term] = math.nan, math.nan, math.nan, "n_p and K determine N_p here"
        else:
            at = list(varying).index(term)
            told[model, term] = _coefficient(model, grade, query, x, at)
    if (MIXED, WITHIN) in wanted:
        told[MIXED, SHARE] = (
            _share(grade, query, x) if full else (*(math.nan,) * 3, "no input varies here")
        )
    return told


def _coefficient(
    model: str, grade: FloatArray, query: IntArray, x: FloatArray, at: int
) -> tuple[float, float, float, str]:
    from statsmodels.genmod.cov_struct import Independence
    from statsmodels.genmod.generalized_estimating_equations import OrdinalGEE

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if model == LINK:
                fit = OrdinalGEE(grade, x, groups=query, cov_struct=Independence()).fit(maxiter=50)
                at += len(np.unique(grade)) - 1
            else:
                fit, at = _linear(grade, query, x), at + 1
        except (ValueError, np.linalg.LinAlgError) as error:
            return math.nan, math.nan, math.nan, f"the fit failed: {str(error).splitlines()[0]}"
    value, error_of = float(np.asarray(fit.params)[at]), float(np.asarray(fit.bse)[at])
    settled = getattr(fit, "converged", True)
    if not (settled and math.isfinite(value) and math.isfinite(error_of)):
        return math.nan, math.nan, math.nan, "the fit did not converge"
    return value, value - _Z * error_of, value + _Z * error_of, ""


def _linear(grade: FloatArray, query: IntArray, x: FloatArray) -> Any:
    """Fit a random intercept; where its variance is 0, what is left of the model: least squares.

    At that edge the information matrix of the mixed model is singular. The errors then come from
    the sandwich by query, so that rows of one query still do not count as independent.
    """
    from statsmodels.regression.linear_model import OLS
    from statsmodels.regression.mixed_linear_model import MixedLM

    inputs = np.column_stack([np.ones(len(x)), x])
    try:  # not lbfgs: it may step onto a variance of 0 and stop there
        return MixedLM(grade, inputs, groups=query).fit(reml=True, method=["bfgs", "powell", "cg"])
    except np.linalg.LinAlgError:
        return OLS(grade, inputs).fit(cov_type="cluster", cov_kwds={"groups": query})


def _share(grade: FloatArray, query: IntArray, x: FloatArray) -> tuple[float, float, float, str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            fit = _linear(grade, query, x)
        except (ValueError, np.linalg.LinAlgError) as error:
            return math.nan, math.nan, math.nan, f"the fit failed: {str(error).splitlines()[0]}"
    if not hasattr(fit, "cov_re"):
        return 0.0, math.nan, math.nan, ""
    between = float(np.asarray(fit.cov_re)[0, 0])
    return between / (between + float(fit.scale)), math.nan, math.nan, ""
