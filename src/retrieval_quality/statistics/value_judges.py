"""What noise in the grades allows, and whether people say the same as the LLM.

Reliability is the share of the variance of the grade's ranks that is not noise: what is graded anew
agrees to that extent. No measure can correlate with a grade by more than the square root of its
reliability; a correlation divided by that root is what it would be without the noise (Spearman's
correction for attenuation). Three sources tell the noise:

- `LIST`: rows of one query with the same documents in the same order, retrieved by several
  embeddings. Answer and grade were made anew for each, so that this noise limits every measure of a
  retrieval. Such rows tend to small K; their noise is taken for that of all rows.
- `ANSWER`: the same answer graded once more (``grade_repeat``): the noise of the judge alone.
- `PEOPLE`: several people graded the same answer. Reliability is their mean rank correlation, taken
  from one person to the mean of those who graded by the Spearman-Brown formula.

All intervals are by query, in closed form (`value_rank`); agreement by Krippendorff's alpha has
bootstrap intervals by query.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from retrieval_quality.data import schema
from retrieval_quality.statistics import agreement
from retrieval_quality.statistics.value import ALL, deal
from retrieval_quality.statistics.value_ceiling import NAMES, crossfit_scores
from retrieval_quality.statistics.value_rank import Estimate, FloatArray, IntArray, spearman

LIST, ANSWER, PEOPLE = "the same list again", "the same answer again", "several people"
SOURCES = (LIST, ANSWER, PEOPLE)
LLM = "LLM"

NOISE_COLUMNS = (
    "source",
    "dataset",
    "reliability",
    "low",
    "high",
    "highest",
    "highest_low",
    "highest_high",
    "n",
    "queries",
    "reason",
)
CORRECTED_COLUMNS = (
    "source",
    "dataset",
    "measure",
    "correlation",
    "corrected",
    "low",
    "high",
    "n",
    "queries",
    "reason",
)
JUDGE_COLUMNS = ("what", "dataset", "judge", "value", "low", "high", "n", "queries", "reason")
AGREE_COLUMNS = ("between", "dataset", "agreement", "low", "high", "n", "queries", "reason")

JUDGES = {LLM: "grade", "people": "grade_human"}
CHANGE = "people − LLM"
REPLICATES = 200
_KEYS = ["id", "Nc", "Np", "K"]


# --- noise --------------------------------------------------------------------------------------


def repeated_lists(graded: pd.DataFrame) -> pd.DataFrame:
    """Find the graded rows whose list of documents was retrieved more than once.

    Parameters
    ----------
    graded : DataFrame
        ``id``, ``Nc``, ``Np``, ``K``, ``rank`` (list of K) and ``grade``.

    Returns
    -------
    DataFrame
        ``id``, ``group`` (number of the list) and ``grade``, for lists that have two grades.

    Examples
    --------
    >>> rows = pd.DataFrame({"id": "A-0", "Nc": 4, "Np": 2, "K": 2, "grade": [4.0, 5.0, 3.0],
    ...     "rank": [[0, 1], [0, 1], [1, 0]]})
    >>> repeated_lists(rows)["grade"].tolist()
    [4.0, 5.0]
    """
    rows = graded[graded["grade"].notna() & graded.duplicated(_KEYS, keep=False)]
    as_bytes = [np.asarray(rank, np.int32).tobytes() for rank in rows["rank"]]
    rows = rows[[*_KEYS, "grade"]].assign(documents=as_bytes)
    keys = [*_KEYS, "documents"]
    rows = rows[rows.duplicated(keys, keep=False)]
    group = rows.groupby(keys, observed=True, sort=False).ngroup()
    found = rows[["id", "grade"]].assign(group=group).reset_index(drop=True)
    return found.astype({"grade": float})


def _numbered(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series, int]:
    """Give the graded rows with the number of their query, the number by id, and how many."""
    used = rows[rows["grade"].notna()].reset_index(drop=True)
    if "query" not in used:
        used = used.assign(query=used["id"])
    number, names = pd.factorize(used["query"].astype(str), sort=True)
    used = used.assign(number=number, dataset=used["dataset"].astype(str))
    by_id = used.drop_duplicates("id").set_index(used["id"].drop_duplicates().astype(str))
    return used, by_id["number"], len(names)


def _again(
    grade: FloatArray, query: IntArray, group: IntArray, every: FloatArray, own: IntArray, size: int
) -> tuple[Estimate, str]:
    """Reliability of ranks from grades that were given again: their noise beside their variance."""
    nothing = Estimate.mean(np.zeros(0), np.zeros(0, np.int64), size)
    if not len(grade):
        return nothing, "nothing was graded again"
    values, code = np.unique(every, return_inverse=True)
    ranks = rankdata(every) / len(every)
    of_value = np.full(5, np.nan)
    of_value[values.astype(np.int64) - 1] = [ranks[code == i][0] for i in range(len(values))]
    again = of_value[grade.astype(np.int64) - 1]
    spread = (ranks - ranks.mean()) ** 2
    if spread.max() < 1e-12:
        return nothing, "all grades are equal"
    members = np.bincount(group)[group]
    mean = (np.bincount(group, again) / np.maximum(np.bincount(group), 1))[group]
    residual = (again - mean) ** 2
    if residual.max() < 1e-12:
        return nothing, "all repeated grades agree: one result was kept, or made without chance"
    noise = Estimate.mean(residual, query, size).over(
        Estimate.mean((members - 1) / members, query, size)
    )
    share = noise.over(Estimate.mean(spread, own, size))
    return share.turned(1 - share.value, -1.0), ""


Reliabilities = dict[tuple[str, str], tuple[Estimate, str]]


def reliabilities(
    rows: pd.DataFrame, repeated: pd.DataFrame | None = None, human: pd.DataFrame | None = None
) -> Reliabilities:
    """Estimate the reliability of the grade from each source, by dataset and over all.

    Parameters
    ----------
    rows : DataFrame
        Scored rows, with ``grade_repeat`` where answers were graded again.
    repeated : DataFrame, optional
        From `repeated_lists`.
    human : DataFrame, optional
        Rows of ``samples_human``.

    Returns
    -------
    dict of (source, dataset) to (Estimate, str)
        With the reason where it is undefined.
    """
    used, by_id, size = _numbered(rows)
    names = schema.dataset_order(list(used["dataset"].unique()))
    found: Reliabilities = {}
    lists = pd.DataFrame(columns=["id", "grade", "group"]) if repeated is None else repeated
    lists = lists.assign(number=lists["id"].astype(str).map(by_id)).dropna(subset=["number"])
    where = lists["id"].astype(str).map(schema.dataset_of)
    people = None if human is None else _people(human, by_id)
    for name in names:
        part = used[used["dataset"] == name]
        every, own = part["grade"].to_numpy(float), part["number"].to_numpy(np.int64)
        here = lists[(where == name).to_numpy()]
        group = pd.factorize(here["group"])[0].astype(np.int64)
        given, number = here["grade"].to_numpy(float), here["number"].to_numpy(np.int64)
        found[LIST, name] = _again(given, number, group, every, own, size)
        twice = part[part["grade_repeat"].notna()] if "grade_repeat" in part else part.iloc[:0]
        pairs = np.tile(np.arange(len(twice)), 2)
        given = twice.reindex(columns=["grade", "grade_repeat"]).to_numpy(float).T.ravel()
        number = np.tile(twice["number"].to_numpy(np.int64), 2)
        found[ANSWER, name] = _again(given, number, pairs, every, own, size)
        found[PEOPLE, name] = _between_people(people, name, size)
    for source in SOURCES:
        known = [found[source, name][0] for name in names if not found[source, name][1]]
        pooled = Estimate.pool(known or [Estimate.mean(np.zeros(0), np.zeros(0, np.int64), size)])
        reasons = list(dict.fromkeys(found[source, name][1] for name in names))
        why = "" if known else (reasons[0] if len(reasons) == 1 else "undefined in every dataset")
        found[source, ALL] = pooled, why
    return found


def _people(human: pd.DataFrame, by_id: pd.Series) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Give the grades of all graders, and dataset and number of the query of each row."""
    grades = agreement.read_grades(human)
    if "id" not in human:
        return grades.iloc[:0], pd.DataFrame({"dataset": [], "number": []})
    ids = human["id"].astype(str)
    about = pd.DataFrame({"dataset": ids.map(schema.dataset_of), "number": ids.map(by_id)})
    which = about["number"].notna()
    about = about[which].astype({"number": np.int64}).reset_index(drop=True)
    return grades[which].reset_index(drop=True), about


def _between_people(
    people: tuple[pd.DataFrame, pd.DataFrame] | None, name: str, size: int
) -> tuple[Estimate, str]:
    nothing = Estimate.mean(np.zeros(0), np.zeros(0, np.int64), size)
    if people is None:
        return nothing, "the data has no grades of people"
    here = (people[1]["dataset"] == name).to_numpy()
    grades, number = people[0][here], people[1]["number"].to_numpy(np.int64)[here]
    names = [column for column in grades if column != agreement.LLM]
    pairs = []
    for pair in combinations(names, 2):
        both = grades[list(pair)].notna().all(axis=1).to_numpy()
        first, second = (grades[column].to_numpy()[both] for column in pair)
        ranked = spearman(first, second)
        pairs.append(Estimate.of(ranked.value, ranked.influence, number[both], size))
    one = Estimate.pool(pairs) if pairs else nothing
    if math.isnan(one.value):
        return nothing, "no two people graded the same answers, or all alike"
    graded = grades[names].notna().sum(axis=1)
    m = float(graded[graded > 0].mean())
    below = 1 + (m - 1) * one.value
    if below <= 0:
        return nothing, "people agree less than chance would have it"
    return one.turned(m * one.value / below, m / below**2), ""


def noise(found: Reliabilities) -> pd.DataFrame:
    """Write reliabilities, and the highest correlation that any measure could reach.

    Parameters
    ----------
    found : dict
        From `reliabilities`.

    Returns
    -------
    DataFrame
        `NOISE_COLUMNS`; ``highest`` is the square root of the reliability; NaN with a reason.

    Examples
    --------
    >>> noise({(LIST, "A"): (Estimate.mean(np.zeros(0), np.zeros(0, int), 3), "none")})[
    ...     ["reliability", "reason"]].values.tolist()
    [[nan, 'none']]
    """
    records = []
    for (source, dataset), (one, why) in found.items():
        root = one.root()
        if not why and math.isnan(root.value):
            why = "noise is all there is: no reliability above 0"
        ends = root.interval()
        records.append(
            (source, dataset, one.value, *one.interval(), root.value, *ends, *one.record()[3:], why)
        )
    frame = pd.DataFrame(records, columns=list(NOISE_COLUMNS))
    return frame.assign(key=frame["dataset"] != ALL).sort_values(
        ["source", "key"], key=_source_order, kind="stable", ignore_index=True
    )[list(NOISE_COLUMNS)]


def _source_order(column: pd.Series) -> pd.Series:
    order = {source: i for i, source in enumerate(SOURCES)}
    return column.map(order) if column.name == "source" else column


def corrected(
    rows: pd.DataFrame,
    found: Reliabilities,
    human: pd.DataFrame | None = None,
    names: Sequence[str] = NAMES,
    seed: int = 1,
) -> pd.DataFrame:
    """Correct the correlations of measures with the grade for the noise of the grade.

    Parameters
    ----------
    rows : DataFrame
        Scored rows.
    found : dict
        From `reliabilities`.
    human : DataFrame, optional
        Rows of ``samples_human``; the source `PEOPLE` corrects correlations with people's mean
        grade, the others those with the LLM's grade.
    names : sequence of str
        Measures, those with an alpha at one chosen on other queries.
    seed : int
        Of the folds.

    Returns
    -------
    DataFrame
        `CORRECTED_COLUMNS`; the measure ``LLM`` is the LLM's grade itself, beside people's. NaN
        with a reason where the lower end of the reliability is not above 0; without the sources
        that are undefined in every dataset.
    """
    used, _, size = _numbered(rows)
    plain: dict[tuple[str, str], list[tuple[str, Estimate]]] = {}
    judged = None if human is None else _judged(rows, human)
    for name in schema.dataset_order(list(used["dataset"].unique())):
        part = used[used["dataset"] == name].reset_index(drop=True)
        plain[LLM, name] = _correlations(part, "grade", names, size, seed)
        if judged is not None:
            here = judged[judged["dataset"] == name].reset_index(drop=True)
            own = _correlations(here, "grade_human", names, size, seed)
            ranked = spearman(here["grade"].to_numpy(float), here["grade_human"].to_numpy(float))
            number = here["number"].to_numpy(np.int64)
            own.append((LLM, Estimate.of(ranked.value, ranked.influence, number, size)))
            plain["people", name] = own
    records = []
    for (source, name), (one, why) in found.items():
        if name == ALL or found[source, ALL][1]:
            continue
        root = one.root()
        if not why and not one.interval()[0] > 0:
            why = "the reliability cannot be told from 0"
        for measure, plain_one in plain.get(("people" if source == PEOPLE else LLM, name), []):
            better = plain_one.over(root)
            reason = why or (
                "" if not math.isnan(plain_one.value) else "a side is constant, or no rows"
            )
            told: tuple[float, ...] = (better.value, *better.interval())
            told = (math.nan,) * 3 if reason else told
            records.append(
                (
                    source,
                    name,
                    measure,
                    plain_one.value,
                    *told,
                    plain_one.n,
                    int(plain_one.present.sum()),
                    reason,
                )
            )
    frame = pd.DataFrame(records, columns=list(CORRECTED_COLUMNS))
    return frame.sort_values("source", key=_source_order, kind="stable", ignore_index=True)


def _correlations(
    rows: pd.DataFrame, grade: str, names: Sequence[str], size: int, seed: int
) -> list[tuple[str, Estimate]]:
    found = []
    for measure in names:
        part = rows[rows["n_positives_2k"].notna()] if measure == "Fe" else rows
        x, number = _crossfitted(part, measure, grade, seed), part["number"].to_numpy(np.int64)
        ranked = spearman(x, part[grade].to_numpy(float))
        found.append((measure, Estimate.of(ranked.value, ranked.influence, number, size)))
    return found


def _crossfitted(
    rows: pd.DataFrame, measure: str, grade: str, seed: int, stratum: IntArray | None = None
) -> FloatArray:
    if rows.empty:
        return np.zeros(0)
    query, names = pd.factorize(rows["query"].astype(str), sort=True)
    fold = deal(names, seed)[query]
    y = rows[grade].to_numpy(float)
    return crossfit_scores(rows, measure, fold, y, stratum, together=True)


# --- people -------------------------------------------------------------------------------------


def _judged(rows: pd.DataFrame, human: pd.DataFrame) -> pd.DataFrame:
    """Give the scored rows that the LLM and a person graded."""
    used, _, _ = _numbered(rows)
    near = (
        used[used["id"].astype(str).isin(set(human["id"].astype(str)))] if "id" in human else used
    )
    found = agreement.human_scored(human, near.reset_index(drop=True)).rows
    return found[found["grade_human"].notna()].reset_index(drop=True)


def judges(
    rows: pd.DataFrame, human: pd.DataFrame, names: Sequence[str] = NAMES, seed: int = 1
) -> pd.DataFrame:
    """Compare measures by the grades of people and by the LLM's, on the same rows.

    Parameters
    ----------
    rows : DataFrame
        Scored rows. Columns ``known_<set>``, if there are any, hold out-of-sample predictions of
        the grade (`value.SETS`).
    human : DataFrame
        Rows of ``samples_human``; those that no scored row fits are left out.
    names : sequence of str
        Measures, those with an alpha at one chosen on the rows of other queries, for each judge.
    seed : int
        Of the folds.

    Returns
    -------
    DataFrame
        `JUDGE_COLUMNS`. ``what``: a measure (its rank correlation with the grade), ``T − R``,
        ``T − F``, or ``N_p`` and others (the gain in rank correlation of a prediction that knows
        it). ``judge``: ``LLM``, ``people`` (mean of their grades), and their difference. Over all
        datasets, ranks are taken within each. Intervals are paired, by query.
    """
    used = _judged(rows, human)
    # numbered anew: most queries have no human grade
    number = pd.factorize(used["query"].astype(str), sort=True)[0].astype(np.int64)
    size = int(number.max(initial=-1)) + 1
    stratum = pd.factorize(used["dataset"])[0].astype(np.int64)
    found: dict[tuple[str, str, str], tuple[Estimate, str]] = {}
    cells = [(ALL, np.ones(len(used), bool))]
    order = schema.dataset_order(list(used["dataset"].unique()))
    cells += [(name, (used["dataset"] == name).to_numpy()) for name in order]
    wide = used["n_positives_2k"].notna().to_numpy()
    gained = [(key, base, what) for key, base, what in _GAINS if f"known_{key}" in used]
    for judge, column in JUDGES.items():
        y = used[column].to_numpy(float)
        scores = {}
        for measure in names:
            base = wide if measure == "Fe" else np.ones(len(used), bool)
            scores[measure] = np.full(len(used), np.nan)
            scores[measure][base] = _crossfitted(used[base], measure, column, seed, stratum[base])
        for key in dict.fromkeys(k for pair in gained for k in pair[:2]):
            scores[f"known_{key}"] = used[f"known_{key}"].to_numpy(float)
        for name, which in cells:
            one = {}
            for key, x in scores.items():
                here = which & ~np.isnan(x)
                ranked = spearman(x[here], y[here], stratum[here])
                one[key] = Estimate.of(ranked.value, ranked.influence, number[here], size)
                if key in names:
                    found[key, name, judge] = one[key], ""
            for first, second in (("T", "R"), ("T", "F")):
                if first in one and second in one:
                    found[f"{first} − {second}", name, judge] = one[first].minus(one[second]), ""
            for key, base, what in gained:
                found[what, name, judge] = one[f"known_{key}"].minus(one[f"known_{base}"]), ""
    whats = list(dict.fromkeys(what for what, _, _ in found))
    records = []
    for what in whats:
        for name, _ in cells:
            own = {judge: found[what, name, judge][0] for judge in JUDGES}
            own[CHANGE] = own["people"].minus(own[LLM])
            for judge, estimate in own.items():
                value, low, high, n, queries = estimate.record()
                why = "a side is constant, or no rows" if math.isnan(value) else ""
                why = why or ("one query: no interval" if math.isnan(low) else "")
                records.append((what, name, judge, value, low, high, n, queries, why))
    return pd.DataFrame(records, columns=list(JUDGE_COLUMNS))


_GAINS = (
    ("n_relevant", "retrieved", "N_p known"),
    ("order", "retrieved", "order known"),
    ("embedding", "everything", "embedding known"),
)


def agree(rows: pd.DataFrame, human: pd.DataFrame, seed: int = 1) -> pd.DataFrame:
    """Give the agreement of the LLM with a person beside that of two persons, by dataset.

    Parameters
    ----------
    rows : DataFrame
        Scored rows, which say which ids are of one query.
    human : DataFrame
        Rows of ``samples_human``.
    seed : int
        Of the bootstrap.

    Returns
    -------
    DataFrame
        `AGREE_COLUMNS`: Krippendorff's alpha (ordinal), mean over the pairs of graders; ``between``
        ``LLM and a person``, ``two persons``, and the first minus the second, on the same rows.
        Intervals: percentiles of `REPLICATES` bootstrap samples of queries; NaN where one in twenty
        is undefined.
    """
    _, by_id, _ = _numbered(rows)
    grades, about = _people(human, by_id)
    graded = grades.to_numpy(float)
    names = list(grades.columns)
    pairs = {
        "LLM and a person": [(agreement.LLM, n) for n in names[1:] if agreement.LLM in names],
        "two persons": list(combinations([n for n in names if n != agreement.LLM], 2)),
    }
    records: list[tuple[Any, ...]] = []
    order = schema.dataset_order(list(about["dataset"].unique()))
    for name in [ALL, *order]:
        which = np.flatnonzero((about["dataset"] == name) | (name == ALL))
        query, known_queries = pd.factorize(about["number"].to_numpy()[which])
        size = len(known_queries)
        rng = np.random.default_rng(seed)
        again = REPLICATES if size > 1 else 0
        draws = rng.multinomial(size, np.full(size, 1 / size), again) if size else np.ones((0, 0))
        weights = np.vstack([np.ones((1, size)), draws])
        values = {}
        for between, members in pairs.items():
            found = []
            for pair in members:
                first, second = (graded[which, names.index(grader)] for grader in pair)
                both = ~np.isnan(first) & ~np.isnan(second)
                code = ((first - 1) * 5 + second - 1)[both].astype(np.int64)
                tables = np.bincount(query[both] * 25 + code, minlength=size * 25)
                drawn = weights @ tables.reshape(size, 25).astype(float)
                found.append(ordinal_alpha(drawn.reshape(-1, 5, 5)))
            values[between] = _mean_known(found, len(weights))
        values["difference"] = values["LLM and a person"] - values["two persons"]
        for between, sample in values.items():
            known = sample[1:][~np.isnan(sample[1:])]
            low = high = math.nan
            if len(known) >= max(2, 0.95 * REPLICATES):
                low, high = (float(v) for v in np.quantile(known, [0.025, 0.975]))
            undefined = "too few answers with two grades, or all alike"
            why = "" if not math.isnan(sample[0]) else undefined
            why = why or ("" if not math.isnan(low) else "too few queries: no interval")
            records.append((between, name, float(sample[0]), low, high, len(which), size, why))
    return pd.DataFrame(records, columns=list(AGREE_COLUMNS))


def _mean_known(values: Sequence[FloatArray], size: int) -> FloatArray:
    """Average over pairs of graders, those without a value left out."""
    table = np.array(values) if values else np.full((1, size), np.nan)
    known = ~np.isnan(table)
    count = known.sum(axis=0)
    return np.where(
        count > 0, np.where(known, table, 0.0).sum(axis=0) / np.maximum(count, 1), np.nan
    )


def ordinal_alpha(tables: FloatArray) -> FloatArray:
    """Krippendorff's alpha (ordinal) of two graders, from many tables at once.

    Parameters
    ----------
    tables : ndarray, shape (tables, 5, 5)
        Counts of answers by the grades of the first and of the second grader.

    Returns
    -------
    ndarray, shape (tables,)
        As `agreement.krippendorff_alpha`; NaN with fewer than two answers or one grade only.

    Examples
    --------
    >>> float(ordinal_alpha(np.diag([2.0, 0, 0, 0, 3])[None])[0])
    1.0
    """
    coincidence = tables + np.swapaxes(tables, 1, 2)
    margin = coincidence.sum(axis=2)
    n = margin.sum(axis=1)
    # ordinal distance: the grades in between, ends by half
    middle = np.cumsum(margin, axis=1) - margin / 2
    distance = (middle[:, :, None] - middle[:, None, :]) ** 2
    observed = (coincidence * distance).sum(axis=(1, 2))
    chance = (margin[:, :, None] * margin[:, None, :] * distance).sum(axis=(1, 2))
    usable = (n >= 4) & (chance > 0)
    ratio = (n - 1) * observed / np.where(usable, chance, 1.0)
    return np.where(usable, 1 - ratio, np.nan)
