"""Two systems, or two weeks, on the same queries: effect, interval, what would settle it.

Queries are paired: a query that was asked several times in a log counts once, with its mean. The
interval is a bootstrap over queries; the p-value is from randomisation, the sign of each query's
difference drawn anew: under no difference the two logs are exchangeable query by query.

A series (``--by``) compares each group of the second log with the whole first one: a reference that
stays where it is, unlike the week before, against which a slow decline never shows.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from retrieval_quality.errors import DataError
from retrieval_quality.logs.measuring import (
    ALL,
    BATCH,
    Cut,
    Rules,
    evaluate,
    group_of,
    judge,
    key_of,
)
from retrieval_quality.logs.rows import Row

FloatArray = NDArray[np.float64]

COLUMNS = (
    *("measure", "alpha", "k", "group", "a", "b", "difference", "low", "high", "p_value"),
    *("p_holm", "queries", "only_a", "only_b", "undefined", "more_queries", "reason"),
)
POWER = 0.8
_CHUNK = 4_000_000


@dataclass
class Scores:
    """Means of each query, by group: for each wanted measure, query to (sum, count)."""

    by_group: dict[str, list[dict[str, list[float]]]] = field(default_factory=dict)
    queries: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def of(self, group: str, measure: int) -> dict[str, float]:
        """Return the mean of every query that has one."""
        found = self.by_group.get(group)
        return {} if found is None else {k: s / n for k, (s, n) in found[measure].items() if n}


def score(rows: Iterable[Row], rules: Rules, by_text: bool = False) -> Scores:
    """Score the rows of a log and average by query.

    Parameters
    ----------
    rows : iterable of Row
    rules : Rules
    by_text : bool
        Queries are the same where their texts are, whatever their ids.
    """
    found = Scores()
    batch: list[Row] = []
    for row in rows:
        batch.append(row)
        if len(batch) == BATCH:
            _add(found, batch, rules, by_text)
            batch = []
    if batch:
        _add(found, batch, rules, by_text)
    if not found.queries:
        raise DataError("there is no retrieval to compare")
    return found


def _add(found: Scores, rows: list[Row], rules: Rules, by_text: bool) -> None:
    judged = [judge(row, rules.relevant_from) for row in rows]
    keys = [(row.query if by_text and row.query else key_of(row)) for row in rows]
    groups = [[ALL] if rules.by == "none" else [ALL, group_of(row, rules.by)] for row in rows]
    for key, named in zip(keys, groups, strict=True):
        for group in named:
            found.queries[group].add(key)
            if group not in found.by_group:
                found.by_group[group] = [{} for _ in rules.wanted]
    cuts = {k: Cut.of(judged, k) for k in {one.k for one in rules.wanted}}
    for i, wanted in enumerate(rules.wanted):
        values = evaluate(cuts[wanted.k], wanted, rules).value
        for key, named, value in zip(keys, groups, values.tolist(), strict=True):
            if value != value:
                continue
            for group in named:
                pair = found.by_group[group][i].setdefault(key, [0.0, 0])
                pair[0] += value
                pair[1] += 1


def compare(
    first: Scores, second: Scores, rules: Rules, *, replicates: int = 10_000, seed: int = 1
) -> pd.DataFrame:
    """Compare two logs, query by query.

    Parameters
    ----------
    first, second : Scores
        Of the logs A and B.
    rules : Rules
        Those that both were scored with.
    replicates : int
        Draws of the bootstrap, and of the randomisation.
    seed : int
        Decides the draws.

    Returns
    -------
    DataFrame
        `COLUMNS`. ``difference`` is B less A over the shared queries; ``low`` and ``high`` its 95%
        percentile interval; ``p_value`` two-sided; ``p_holm`` corrected for all lines of the table
        (Holm). ``only_a`` and ``only_b`` queries are in one log, ``undefined`` in both but without
        a value in one. ``more_queries``: how many more of the kind would show a difference of this
        size with a probability of 80%; 0 where the interval leaves out 0.

    Raises
    ------
    DataError
        The logs share no query.
    """
    shared = first.queries[ALL] & second.queries[ALL]
    if not shared:
        one, other = (next(iter(one.queries[ALL])) for one in (first, second))
        raise DataError(
            f"the logs share no query: one has {one[:60]!r}, the other {other[:60]!r}; "
            "--pair-by query compares texts instead of ids"
        )
    groups = [ALL] if rules.by == "none" else [ALL, *sorted(set(second.by_group) - {ALL})]
    lines = []
    for i, wanted in enumerate(rules.wanted):
        before = first.of(ALL, i)
        for group in groups:
            after = second.of(group, i)
            both = sorted(before.keys() & after.keys())
            common = first.queries[ALL] & second.queries[group]
            line = {
                "measure": wanted.name,
                "alpha": wanted.alpha,
                "k": wanted.k,
                "group": group,
                "queries": len(both),
                "only_a": len(first.queries[ALL] - second.queries[group]),
                "only_b": len(second.queries[group] - first.queries[ALL]),
                "undefined": len(common) - len(both),
            }
            a = np.array([before[key] for key in both])
            b = np.array([after[key] for key in both])
            lines.append({**line, **paired(a, b, replicates, seed)})
    table = pd.DataFrame(lines)
    table["p_holm"] = holm(table["p_value"].to_numpy(dtype=float))
    return table.reindex(columns=list(COLUMNS)).astype({"k": "Int64", "more_queries": "Int64"})


def paired(
    a: FloatArray, b: FloatArray, replicates: int = 10_000, seed: int = 1
) -> dict[str, object]:
    """Compare paired values.

    Parameters
    ----------
    a, b : ndarray of float64, shape (n,)
        One pair a query.

    Returns
    -------
    dict
        ``a``, ``b`` (means), ``difference``, ``low``, ``high``, ``p_value``, ``more_queries``,
        ``reason``.

    Examples
    --------
    >>> found = paired(np.zeros(40), np.tile([0.0, 0.2], 20))
    >>> round(found["difference"], 3), found["p_value"] < 0.001, found["more_queries"]
    (0.1, True, 0)
    """
    n = len(a)
    none = {"low": math.nan, "high": math.nan, "p_value": math.nan, "more_queries": None}
    if n == 0:
        empty = {"a": math.nan, "b": math.nan, "difference": math.nan}
        return {**empty, **none, "reason": "no query with a value in both"}
    d = b - a
    told = {"a": float(a.mean()), "b": float(b.mean()), "difference": float(d.mean())}
    if n < 2:
        return {**told, **none, "reason": "one query"}
    if np.ptp(d) == 0:
        return {**told, **none, "reason": "all differences are equal"}
    rng = np.random.default_rng(seed)
    drawn, flipped = np.empty(replicates), np.empty(replicates)
    step = max(1, _CHUNK // n)
    for start in range(0, replicates, step):
        size = min(step, replicates - start)
        drawn[start : start + size] = d[rng.integers(0, n, (size, n))].mean(axis=1)
        signs = rng.integers(0, 2, (size, n), dtype=np.int8) * 2 - 1
        flipped[start : start + size] = (signs * d).mean(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    extreme = np.abs(flipped) >= abs(told["difference"]) * (1 - 1e-12)
    p_value = (1 + int(extreme.sum())) / (1 + replicates)
    settled = low > 0 or high < 0
    more = 0 if settled else more_queries(d)
    return {
        **told,
        "low": low,
        "high": high,
        "p_value": p_value,
        "more_queries": more,
        "reason": "",
    }


def more_queries(differences: FloatArray, power: float = POWER, level: float = 0.95) -> int | None:
    """Say how many more queries would show the mean difference that was found.

    Parameters
    ----------
    differences : ndarray of float64, shape (n,)
    power : float
        Wanted probability that the interval leaves out 0, if the true difference is this one.

    Returns
    -------
    int or None
        None where the mean difference is 0: no number would do.

    Examples
    --------
    >>> more_queries(np.array([0.1, -0.1, 0.2, -0.1]))
    279
    """
    size = abs(float(differences.mean()))
    if size < 1e-12:
        return None
    z = float(stats.norm.ppf(0.5 + level / 2) + stats.norm.ppf(power))
    needed = math.ceil((z * float(differences.std(ddof=1)) / size) ** 2)
    return max(needed - len(differences), 1)


def holm(p_values: FloatArray) -> FloatArray:
    """Correct p-values for their number (Holm 1979); NaN stays NaN.

    Examples
    --------
    >>> holm(np.array([0.01, 0.04, np.nan])).tolist()
    [0.02, 0.04, nan]
    """
    found = np.full(len(p_values), np.nan)
    order = np.argsort(p_values)
    n = int(np.count_nonzero(~np.isnan(p_values)))
    most = 0.0
    for rank, i in enumerate(order[:n]):
        most = max(most, min(1.0, (n - rank) * float(p_values[i])))
        found[i] = most
    return found


def false_alarms(measures: int, looks: int, level: float = 0.95) -> float:
    """Give the false alarms to expect when nothing changes: intervals wholly below 0.

    Examples
    --------
    >>> round(false_alarms(3, 52), 2)
    3.9
    """
    return measures * looks * (1 - level) / 2


def sentences(table: pd.DataFrame, looks: int = 52) -> list[str]:
    """Say in words what the comparison found, and what watching it would bring."""
    said = []
    for line in table.itertuples(index=False):
        name = line.measure + ("" if pd.isna(line.alpha) else f" (alpha {line.alpha:g})")
        name += "" if pd.isna(line.k) else f" at {line.k}"
        where = "" if line.group == ALL else f", {line.group}"
        if line.reason:
            said.append(f"{name}{where}: no interval, {line.reason} ({line.queries} queries)")
            continue
        word = "B is better" if line.low > 0 else "B is worse" if line.high < 0 else "not settled"
        more = ""
        if word == "not settled":
            more = (
                "; no number of queries would settle a difference of 0"
                if pd.isna(line.more_queries)
                else f"; about {line.more_queries} more would settle a difference this large"
            )
        said.append(
            f"{name}{where}: {word}, {line.difference:+.4f} ({line.low:+.4f} to {line.high:+.4f}, "
            f"p {line.p_value:.3g}, {line.queries} queries){more}"
        )
    measures = len(table.drop_duplicates(["measure", "alpha", "k"]))
    said.append(
        f"Watched for {looks} weeks with nothing wrong, {measures} measures give about "
        f"{false_alarms(measures, looks):.1f} false alarms at 95% intervals and "
        f"{false_alarms(measures, looks, 0.99):.1f} at 99%. Keep A as it is: against the week "
        "before, a slow decline never shows."
    )
    return said
