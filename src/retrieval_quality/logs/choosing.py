"""Which measure and alpha predict the grade of the answers, on one's own graded log.

The paper's method: correlate each measure with the grade over the retrievals. Alpha is chosen on
one half of the queries and judged on the other (cross-fitting), and every interval is by query.
Without N_p all rows form one segment; with it, narrow and wide retrieval are looked at apart too,
and F and recall beside the rest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from retrieval_quality.errors import DataError
from retrieval_quality.exhibits import ranges
from retrieval_quality.logs.checking import ENOUGH_GRADES
from retrieval_quality.logs.measuring import Cut, judge, key_of
from retrieval_quality.logs.rows import Row
from retrieval_quality.statistics import bootstrap

FREE = ("P", "nDCG", "RR", "hit", "T", "Tu")
COMPLETE = ("F", "R", "AP", "nDCG_usual")
WANTED_WIDTH = 0.2
"""An interval no wider than this (0.1 to either side) is called enough for a level."""
_SHOWN = {"Tu": "T_u"}
COLUMNS = ("segment", "measure", "n", "queries", "alpha", "correlation", "low", "high", "reason")


@dataclass
class Choice:
    """What was found: the correlations, the differences to the best, and sentences."""

    table: pd.DataFrame
    differences: pd.DataFrame
    sentences: list[str]
    alpha_low: float = math.nan
    alpha_high: float = math.nan


def scored(rows: Iterable[Row], relevant_from: float = 1, top_k: int | None = None) -> pd.DataFrame:
    """Return the graded, labelled rows in the columns that `retrieval_quality.statistics` takes.

    Returns
    -------
    DataFrame
        ``id`` (the query), ``dataset`` and ``E`` (one name), ``K``, ``Np`` (NaN: not known),
        ``n_positives``, ``pattern``, ``grade``. Rows with nothing retrieved, a label missing or no
        grade are left out; ``attrs["left_out"]`` counts them by reason.
    """
    kept, left = [], {"no grade": 0, "no labels": 0, "nothing retrieved": 0, "a label missing": 0}
    for row in rows:
        judged = judge(row, relevant_from)
        if row.grade is None:
            left["no grade"] += 1
        elif judged.flags is None:
            left["no labels"] += 1
        elif not judged.flags:
            left["nothing retrieved"] += 1
        elif judged.n_relevant is None and None in judged.flags[:top_k]:
            left["a label missing"] += 1
        else:
            cut = Cut.of([judged], top_k)
            kept.append(
                (
                    key_of(row),
                    int(cut.retrieved[0]),
                    judged.n_relevant,
                    int(cut.positives[0]),
                    cut.pattern[0],
                    row.grade,
                )
            )
    names = ["id", "K", "Np", "n_positives", "pattern", "grade"]
    table = pd.DataFrame(kept, columns=names).astype({"Np": "float64"})
    table.insert(1, "E", "log")
    table.insert(1, "dataset", "log")
    table.attrs["left_out"] = {why: n for why, n in left.items() if n}
    return table


def choose(
    table: pd.DataFrame, *, replicates: int = 1000, seed: int = 1, min_queries: int = ENOUGH_GRADES
) -> Choice:
    """Correlate measures with the grade, and recommend one.

    Parameters
    ----------
    table : DataFrame
        From `scored`.
    replicates, seed : int
        Of the bootstrap by query.
    min_queries : int
        With fewer graded queries nothing is recommended, and it is said how many are needed.

    Returns
    -------
    Choice

    Raises
    ------
    DataError
        No row is graded and labelled.
    """
    if table.empty:
        told = ", ".join(f"{n} {why}" for why, n in table.attrs["left_out"].items())
        raise DataError(f"no row has a grade and labels ({told}): grade some answers first")
    queries = table["id"].nunique()
    if queries < min_queries or table["grade"].nunique() < 2:
        return Choice(pd.DataFrame(columns=list(COLUMNS)), pd.DataFrame(), _too_few(table, queries))
    one_k = table["K"].nunique() == 1
    free = [name for name in FREE if not (one_k and name in ("T", "Tu"))]
    together = table.assign(Np=1)
    frames = [_correlate(together, free, "all rows", replicates, seed)]
    best = _best(frames[0])
    pairs = [(best, name) for name in free if name != best]
    differences = _intervals(together, [], pairs, replicates, seed)
    if table["Np"].notna().all() and (table["Np"] > 0).all():
        whole = table.astype({"Np": "int64"})
        names = [*free, *COMPLETE]
        frames.append(_correlate(whole, names, None, replicates, seed))
    found = pd.concat(frames, ignore_index=True)
    low = high = math.nan
    if "T" in free:
        crossed = bootstrap.crossfit(
            together, segmentation="narrow-wide", min_samples=2, measures=["T"], seed=seed
        )
        low, high = float(crossed["alpha_low"].iloc[0]), float(crossed["alpha_high"].iloc[0])
    for frame in (found, differences):
        frame["measure"] = frame["measure"].replace(_SHOWN)
    differences["minus"] = differences["minus"].replace(_SHOWN)
    said = _advise(found, differences, _SHOWN.get(best, best), one_k, (low, high), queries)
    return Choice(found, differences, said, low, high)


def _intervals(
    rows: pd.DataFrame, names: list[str], pairs: list[tuple[str, str]], replicates: int, seed: int
) -> pd.DataFrame:
    return bootstrap.intervals(
        rows,
        segmentation="narrow-wide",
        min_samples=2,
        measures=names,
        pairs=pairs,
        alpha="crossfit",
        replicates=replicates,
        seed=seed,
    )


def _correlate(
    rows: pd.DataFrame, names: list[str], segment: str | None, replicates: int, seed: int
) -> pd.DataFrame:
    found = _intervals(rows, names, [], replicates, seed)
    if segment is not None:
        found["segment"] = segment
    found["segment"] = found["segment"].astype(str)
    return found[list(COLUMNS)]


def _best(found: pd.DataFrame) -> str:
    known = found[found["correlation"].notna()]
    if known.empty:
        return "P"
    return str(known.sort_values("correlation", ascending=False)["measure"].iloc[0])


def needed(correlation: float, width: float = WANTED_WIDTH) -> int:
    """Say how many graded queries make the 95% interval of a Spearman correlation so narrow.

    Parameters
    ----------
    correlation : float
        As it may turn out to be.
    width : float
        From end to end.

    Examples
    --------
    >>> needed(0.0), needed(0.5)
    (388, 247)
    """
    rho2 = correlation * correlation
    spread = (1 - rho2) * math.sqrt(1 + rho2 / 2)
    return math.ceil((2 * 1.959964 * spread / width) ** 2) + 3


def _too_few(table: pd.DataFrame, queries: int) -> list[str]:
    if table["grade"].nunique() < 2:
        return [f"All {len(table)} grades are equal: nothing predicts what does not vary."]
    few = f"{queries} graded queries are too few to choose by: {ENOUGH_GRADES} are a beginning."
    more = (
        f"About {needed(0.4)} would give a correlation near 0.4 to 0.1 on either side; to tell two "
        "measures apart that differ by less takes more."
    )
    return [few, more, "Until then P (one K) or T at alpha 0.5 (several K) is a mere default."]


def _advise(
    found: pd.DataFrame,
    differences: pd.DataFrame,
    best: str,
    one_k: bool,
    alphas: tuple[float, float],
    queries: int,
) -> list[str]:
    top = found[(found["segment"] == "all rows") & (found["measure"] == best)].iloc[0]
    if math.isnan(top["correlation"]):
        return ["No measure varies over the graded rows: there is nothing to choose between."]
    weight = f" at alpha {top['alpha']:.2g}" if best in ("T", "T_u") else ""
    first = (
        f"Of the measures that need no N_p, {best}{weight} follows the grades best: correlation "
        f"{top['correlation']:.2f} (95% from {top['low']:.2f} to {top['high']:.2f}, {queries} "
        "queries)."
    )
    said = [first]
    if len(differences):
        said.append(
            "It was picked as the best of several on these rows, so its own number is a little "
            "flattered; the differences below are what decides."
        )
    behind = [r.minus for r in differences.itertuples() if r.low > 0]
    open_ = [r for r in differences.itertuples() if not (r.low > 0 or math.isnan(r.low))]
    if behind:
        said.append(f"It is ahead of {', '.join(behind)} beyond chance.")
    if open_:
        named = ", ".join(r.minus for r in open_)
        said.append(f"Against {named} this log does not decide: take the one easiest to explain.")
        wide = max(open_, key=lambda one: abs(one.correlation))
        half = (wide.high - wide.low) / 2
        if abs(wide.correlation) > 1e-9:
            more = math.ceil(queries * (half / abs(wide.correlation)) ** 2)
            said.append(
                f"To tell it from {wide.minus} about {more} graded queries would do, if the "
                "difference is as large as it looks here."
            )
    if one_k:
        said.append("There is one K: T and T_u order retrievals as P does, so no alpha to choose.")
    elif best in ("T", "T_u") and not math.isnan(alphas[0]):
        said.append(
            f"Over random halves of the queries the alpha chosen for T went from {alphas[0]:.2g} "
            f"to {alphas[1]:.2g}: do not read more digits into it."
        )
    if top["low"] <= 0:
        said.append("Its interval holds 0: on this log no measure is shown to follow the grades.")
    width = float(top["high"] - top["low"])
    if width > WANTED_WIDTH:
        said.append(
            f"The interval is {width:.2f} wide; about {needed(float(top['correlation']))} graded "
            f"queries would bring it to {WANTED_WIDTH:g}."
        )
    return said


def companion(data: str = "simulated") -> tuple[pd.DataFrame, str]:
    """Return the companion's own table: the best measure and alpha by dataset and K/N_p.

    Parameters
    ----------
    data : str
        As `retrieval_quality.sources.load` takes it.

    Returns
    -------
    (DataFrame, str)
        The table, and a sentence that says what it is.
    """
    from retrieval_quality import sources
    from retrieval_quality.exhibits import catalogue

    dataset = sources.load(data)
    numbers = catalogue.STUDIES["study-which-measure"].compute(dataset).numbers
    alphas = catalogue.STUDIES["study-alpha-pick"].compute(dataset).numbers
    table = numbers.pivot(index="position", columns="panel", values="series")
    order = [name for name in ranges.RANGES if name in table.index]
    table = table.reindex(order).rename_axis("K/N_p").rename_axis(None, axis=1).reset_index()
    if len(alphas):
        table["alpha of T"] = table["K/N_p"].map(alphas.set_index("range")["alpha"])
    made = (
        "simulated data, which say nothing of any retriever"
        if dataset.simulated
        else f"the data {dataset.name}, other texts than yours"
    )
    said = (
        f"For comparison, the companion's table of the best measure by dataset and K/N_p, from "
        f"{made}:"
    )
    return table, said


def bounds(rows: Iterable[Row], top_k: int) -> pd.DataFrame:
    """Say what the top 2K tell of N_p, for the rows that are labelled so deep.

    Parameters
    ----------
    rows : iterable of Row
    top_k : int
        K.

    Returns
    -------
    DataFrame
        ``found`` among the top K, ``found_2k`` among the top 2K: N_p is no less, as far as the
        labels are right. ``ratio`` = K / found_2k, NaN where nothing was found: K/N_p is no more.

    Examples
    --------
    >>> row = Row("q", documents=["a", "b"], labels=[1.0, 1.0])
    >>> bounds([row], 1).values.tolist()
    [[1.0, 2.0, 0.5]]
    """
    cut = Cut.of([one for row in rows if (one := judge(row)).flags is not None], top_k)
    deep = pd.DataFrame({"found": cut.positives, "found_2k": cut.positives_2k})
    deep = deep[deep["found_2k"].notna()].astype("float64").reset_index(drop=True)
    deep["ratio"] = top_k / deep["found_2k"].where(deep["found_2k"] > 0)
    return deep


def advice_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Return where a log stands by K/N_p, for the companion's table by range.

    Parameters
    ----------
    rows : DataFrame
        From `scored`, with ``Np`` where known.
    """
    known = rows[rows["Np"] > 0]
    ratio = (known["K"] / known["Np"]).to_numpy()
    counts = pd.Series([ranges.range_of(round(one, 1)) for one in ratio], dtype=object)
    found = counts.value_counts().reindex(list(ranges.RANGES), fill_value=0)
    return pd.DataFrame({"K/N_p": found.index, "rows": found.to_numpy()})
