"""What an answer owes to its documents: grades beside those of the controls.

A control row (part ``controls``) is the same question answered from other documents: ``none``
(K = 0), ``random`` (K candidates at random), ``reversed`` (the top K, worst first). Each is set
beside the row that it controls, so that what the LLM knew anyway, which both share, drops out of
the difference.

Intervals are percentile intervals of a bootstrap by query: all rows of a query stay together,
because they are not independent of each other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from retrieval_quality.errors import UsageError
from retrieval_quality.measures import segments

KINDS = {
    "none": "no documents",
    "random": "K random candidates",
    "reversed": "the top K, worst first",
}
"""The controls, and what the LLM was given instead of the top K."""

KEY = ("id", "E", "Nc", "Np")


def pair(controls: pd.DataFrame, scored: pd.DataFrame) -> pd.DataFrame:
    """Set every control row beside the row that it controls.

    Parameters
    ----------
    controls : DataFrame
        The part ``controls``: ``id, E, Nc, Np, K, control, grade``. A row without documents
        (``none``) controls every K of its ranking, the others their own K.
    scored : DataFrame
        Scored rows.

    Returns
    -------
    DataFrame
        The scored rows that have a control, once for each, with ``control``, ``segment`` (the
        ratio), ``grade_control`` (1-5, NaN where ungraded) and ``gain``, the grade less
        ``grade_control`` (-4 to 4, NaN where either is missing).

    Examples
    --------
    >>> key = {"id": "A-0", "E": "ME5S", "Nc": 9, "Np": 2}
    >>> scored = pd.DataFrame([{**key, "K": 2, "grade": 4.0}, {**key, "K": 4, "grade": 5.0}])
    >>> controls = pd.DataFrame([{**key, "K": 0, "control": "none", "grade": 2}])
    >>> pair(controls, scored)["gain"].tolist()
    [2.0, 3.0]
    """
    given = controls[[*KEY, "K", "control", "grade"]].rename(columns={"grade": "grade_control"})
    given = given.assign(
        grade_control=given["grade_control"].astype("float64"),
        **{name: given[name].astype(object) for name in ("id", "E", "control")},
    )
    rows = scored.assign(
        segment=segments.label_segments(scored, "ratio"),
        **{name: scored[name].astype(object) for name in ("id", "E")},
    )
    without = given[given["control"] == "none"].drop(columns="K")
    pairs = pd.concat(
        [
            rows.merge(without, on=list(KEY)),
            rows.merge(given[given["control"] != "none"], on=[*KEY, "K"]),
        ],
        ignore_index=True,
    )
    return pairs.assign(gain=pairs["grade"] - pairs["grade_control"])


def summarise(
    pairs: pd.DataFrame,
    by: Sequence[str] = ("control",),
    *,
    replicates: int = 1000,
    seed: int = 1,
    level: float = 0.95,
) -> pd.DataFrame:
    """Mean grades with and without the control, and their difference with its interval.

    Parameters
    ----------
    pairs : DataFrame
        From `pair`.
    by : sequence of str
        Columns to group by, of ``control``, ``dataset``, ``subset``, ``E``, ``segment``.
    replicates : int
        Bootstrap replicates, by query.
    seed : int
        Of the bootstrap.
    level : float
        Of the interval, in (0, 1).

    Returns
    -------
    DataFrame
        A row a group: `by`, ``n`` (pairs with both grades), ``n_total``, ``queries``, ``grade``,
        ``grade_control``, ``gain`` (means over the n), ``low``, ``high``, ``reason`` (why there is
        no mean or no interval, else empty).

    Raises
    ------
    UsageError
        If a column is not there, or there are no replicates.
    """
    missing = [name for name in by if name not in pairs]
    if missing or replicates < 1 or not 0 < level < 1:
        what = f"no column {missing[0]}" if missing else f"replicates {replicates}, level {level}"
        raise UsageError(f"controls: {what}; group by columns that are there, 1 replicate or more.")
    rows = []
    for position, (key, group) in enumerate(pairs.groupby(list(by), observed=True, sort=True)):
        used = group[group["gain"].notna()]
        low, high, reason = _interval(used, replicates, [seed, position], level)
        rows.append(
            {
                **dict(zip(by, key, strict=True)),
                "n": len(used),
                "n_total": len(group),
                "queries": used["id"].nunique(),
                "grade": used["grade"].mean(),
                "grade_control": used["grade_control"].mean(),
                "gain": used["gain"].mean(),
                "low": low,
                "high": high,
                "reason": reason,
            }
        )
    columns = ["n", "n_total", "queries", "grade", "grade_control", "gain", "low", "high", "reason"]
    return pd.DataFrame(rows, columns=[*by, *columns])


def _interval(
    used: pd.DataFrame, replicates: int, seed: list[int], level: float
) -> tuple[float, float, str]:
    """Percentile interval of the mean gain, queries drawn with replacement."""
    by_query = used.groupby("id", observed=True)["gain"].agg(["sum", "size"])
    queries = len(by_query)
    if queries < 2:
        return np.nan, np.nan, "no pair has both grades" if not queries else "one query only"
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(queries, np.full(queries, 1 / queries), size=replicates)
    means = drawn @ by_query["sum"].to_numpy() / (drawn @ by_query["size"].to_numpy())
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high), ""
