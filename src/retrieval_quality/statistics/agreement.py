"""Graders against graders: the LLM's grade, the grades of people, and what both say of a measure.

All functions take the rows of ``samples_human`` as they were published: ``grade`` is the LLM's,
each ``grade_human_<n>`` a person's, null where that person did not grade the answer. A missing
grade is left out and counted, never filled in.

References
----------
.. [1] S. Schwartz, O. Vasilyev, R. Sawaya, "How important is Recall for Measuring Retrieval
   Quality?", arXiv 2512.20854, version 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import krippendorff
import numpy as np
import pandas as pd

from retrieval_quality.data import schema
from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.measures import MEASURES
from retrieval_quality.statistics.correlation import correlate

LLM = "grade"
"""Column of the LLM's grade."""

EVERYONE, PEOPLE = "LLM and humans", "humans"
"""Groups of graders: all of them, and all but the LLM."""

ALL_DATASETS = "all"
"""Stands in the column ``dataset`` for the rows of all datasets together."""

Level = Literal["nominal", "ordinal", "interval"]

LEVELS: tuple[Level, ...] = ("nominal", "ordinal", "interval")
"""Levels of measurement: what Krippendorff's alpha takes the distance of two grades to be."""


def graders(human: pd.DataFrame) -> list[str]:
    """Find the columns that hold grades, the LLM's first.

    Parameters
    ----------
    human : DataFrame
        Rows of ``samples_human``.

    Returns
    -------
    list of str
        ``grade`` where it is there, then ``grade_human_<n>`` in numeric order.

    Raises
    ------
    DataError
        If there is no grade of a person.

    Examples
    --------
    >>> graders(pd.DataFrame(columns=["grade_human_10", "grade_human_2", "grade", "id"]))
    ['grade', 'grade_human_2', 'grade_human_10']
    """
    people = [name for name in human.columns if name.startswith(schema.HUMAN_GRADE_PREFIX)]
    if not people:
        raise DataError(
            f"samples_human has no column {schema.HUMAN_GRADE_PREFIX}<n>; "
            f"it has {', '.join(map(str, human.columns)) or 'none'}."
        )
    llm = [LLM] if LLM in human.columns else []
    return llm + sorted(people, key=lambda name: (len(name), name))


def grader_label(grader: str) -> str:
    """Plain name of a grader.

    Parameters
    ----------
    grader : str
        Column of ``samples_human``.

    Returns
    -------
    str
        ``LLM``, or ``human`` with the number.

    Examples
    --------
    >>> grader_label("grade"), grader_label("grade_human_2")
    ('LLM', 'human 2')
    """
    return "LLM" if grader == LLM else f"human {grader.removeprefix(schema.HUMAN_GRADE_PREFIX)}"


def read_grades(human: pd.DataFrame) -> pd.DataFrame:
    """Grades alone, as numbers.

    Parameters
    ----------
    human : DataFrame
        Rows of ``samples_human``.

    Returns
    -------
    DataFrame of float64
        One column a grader, as `graders` orders them; 1-5, NaN where null. Whole numbers written
        as text are converted.

    Raises
    ------
    DataError
        If a grade is not one of 1 to 5, naming column, row and id; or if no person graded.

    Examples
    --------
    >>> read_grades(pd.DataFrame({"grade_human_1": ["4", None]}))["grade_human_1"].tolist()
    [4.0, nan]
    """
    grades = pd.DataFrame(index=human.index)
    for name in graders(human):
        grades[name] = pd.to_numeric(human[name], errors="coerce").astype(np.float64)
        wrong = (human[name].notna() & ~grades[name].isin(schema.GRADES)).to_numpy()
        if wrong.any():
            row = int(wrong.argmax())
            sample = f" (id {human['id'].iloc[row]})" if "id" in human else ""
            raise DataError(
                f"samples_human, record {row + 1}{sample}: {name} is {human[name].iloc[row]!r}; "
                f"a grade is one of {', '.join(map(str, schema.GRADES))}, or null."
            )
    return grades


def krippendorff_alpha(grades: pd.DataFrame, level: Level = "ordinal") -> tuple[float, int, str]:
    """Krippendorff's alpha of some graders.

    Parameters
    ----------
    grades : DataFrame of float, shape (samples, graders)
        1-5, NaN where missing.
    level : {"nominal", "ordinal", "interval"}
        Whether grades are only equal or not, are ordered, or are equally far apart.

    Returns
    -------
    alpha : float
        1 for full agreement, 0 for what chance gives, below 0 for less; NaN where undefined.
    n : int
        Samples used: those with two grades or more.
    reason : str
        Why alpha is undefined, else empty.

    Raises
    ------
    UsageError
        If `level` is none of the three.

    Examples
    --------
    >>> pair = pd.DataFrame({"a": [1, 2, 5, None], "b": [1, 3, 5, 4]})
    >>> alpha, n, reason = krippendorff_alpha(pair, "interval")
    >>> round(alpha, 4), n, reason
    (0.9505, 3, '')
    """
    if level not in LEVELS:
        raise UsageError(f"The level is one of {', '.join(LEVELS)}, not {level}.")
    paired = grades[grades.notna().sum(axis=1) >= 2]
    if len(paired) < 2:
        return np.nan, len(paired), "fewer than two samples with two grades"
    if len(np.unique(paired.to_numpy()[paired.notna().to_numpy()])) < 2:
        return np.nan, len(paired), "all grades are the same"
    alpha = krippendorff.alpha(paired.to_numpy().T, level_of_measurement=level)
    return float(alpha), len(paired), ""


def agree(human: pd.DataFrame, levels: tuple[Level, ...] = LEVELS) -> pd.DataFrame:
    """Agreement of every group of graders, over all rows and in each dataset.

    Parameters
    ----------
    human : DataFrame
        Rows of ``samples_human``; datasets are told apart where there is an ``id``.
    levels : tuple of str
        Levels of measurement, out of `LEVELS`.

    Returns
    -------
    DataFrame
        One row a dataset (``all`` first), group and level: ``dataset``, ``graders``, ``level``,
        ``alpha`` (NaN where undefined), ``n`` (samples with two grades or more within the group),
        ``n_total`` (samples), ``reason``. Groups: the LLM and all humans, the humans, the LLM
        with each human, each two humans.

    Raises
    ------
    DataError
        As for `read_grades`.
    UsageError
        If a level is unknown.

    Examples
    --------
    >>> human = pd.DataFrame({"grade": [1, 2, 5], "grade_human_1": [1, 3, 5]})
    >>> agree(human, ("ordinal",))[["dataset", "graders", "n"]].values.tolist()
    [['all', 'LLM, human 1', 3]]
    """
    grades = read_grades(human)
    rows = []
    for dataset, part in _parts(human, grades):
        for group, members in _groups(list(grades.columns)).items():
            for level in levels:
                alpha, n, reason = krippendorff_alpha(part[members], level)
                rows.append((dataset, group, level, alpha, n, len(part), reason))
    columns = ["dataset", "graders", "level", "alpha", "n", "n_total", "reason"]
    return pd.DataFrame(rows, columns=columns)


def pairwise(
    grades: pd.DataFrame, picks: Sequence[Any], groups: Sequence[str] = ("llm", "people")
) -> dict[str, Any]:
    """Mean agreement of the LLM with a person, and of two persons, on several samples of rows.

    Parameters
    ----------
    grades : DataFrame of float, shape (samples, graders)
        From `read_grades`.
    picks : sequence of ndarray of int
        Positions of the rows to take, which may occur several times.
    groups : sequence of str
        Which of the two to give.

    Returns
    -------
    dict of str to ndarray, each of shape (picks,)
        ``llm`` and ``people``: Krippendorff's alpha (ordinal), mean over the pairs in which it is
        defined; NaN where there is none.

    Examples
    --------
    >>> grades = pd.DataFrame({"grade": [1.0, 2, 5], "grade_human_1": [1.0, 2, 5]})
    >>> {name: found.tolist() for name, found in pairwise(grades, [[0, 1, 2]]).items()}
    {'llm': [1.0], 'people': [nan]}
    """
    people = [name for name in grades.columns if name != LLM]
    pairs = {
        "llm": [(LLM, name) for name in people if LLM in grades],
        "people": list(combinations(people, 2)),
    }
    found: dict[str, Any] = {}
    for group, members in ((name, pairs[name]) for name in groups):
        values = np.full((len(picks), max(len(members), 1)), np.nan)
        for i, pick in enumerate(picks):
            drawn = grades.iloc[pick]
            for j, pair in enumerate(members):
                values[i, j] = krippendorff_alpha(drawn[list(pair)], "ordinal")[0]
        known = ~np.isnan(values)
        total = np.where(known, values, 0.0).sum(axis=1)
        count = known.sum(axis=1)
        found[group] = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return found


def confusion(human: pd.DataFrame, first: str = LLM, second: str = PEOPLE) -> pd.DataFrame:
    """Count the samples by the grades of two graders.

    Parameters
    ----------
    human : DataFrame
        Rows of ``samples_human``.
    first, second : str
        Columns of grades, or ``humans`` for every person: each of their grades counts once.

    Returns
    -------
    DataFrame of int, shape (5, 5)
        Grade of `first` down, of `second` across. Samples without one of the two are left out;
        the sum is the number used.

    Raises
    ------
    DataError
        As for `read_grades`.
    UsageError
        If there is no such grader.

    Examples
    --------
    >>> human = pd.DataFrame({"grade": [1, 5, 5], "grade_human_1": [1, 4, 4]})
    >>> int(confusion(human, "grade", "grade_human_1").loc[5, 4])
    2
    """
    grades = read_grades(human)
    table = np.zeros((len(schema.GRADES), len(schema.GRADES)), dtype=np.int64)
    for one in _members(first, grades):
        for other in _members(second, grades):
            both = grades[[one, other]].dropna().to_numpy(dtype=np.int64)
            np.add.at(table, (both[:, 0] - schema.GRADES[0], both[:, -1] - schema.GRADES[0]), 1)
    down, across = (pd.Index(schema.GRADES, name=_title(name)) for name in (first, second))
    return pd.DataFrame(table, index=down, columns=across)


def mean_human_grade(human: pd.DataFrame) -> pd.DataFrame:
    """Mean of the grades that people gave, with their number.

    Parameters
    ----------
    human : DataFrame
        Rows of ``samples_human``.

    Returns
    -------
    DataFrame
        With the index of `human`: ``grade_human`` (float64, 1-5, NaN where nobody graded) and
        ``n_humans`` (grades it is the mean of).

    Raises
    ------
    DataError
        As for `read_grades`.

    Examples
    --------
    >>> human = pd.DataFrame({"grade_human_1": [4, None], "grade_human_2": [5, None]})
    >>> mean_human_grade(human).values.tolist()
    [[4.5, 2.0], [nan, 0.0]]
    """
    people = read_grades(human).drop(columns=LLM, errors="ignore")
    return pd.DataFrame({"grade_human": people.mean(axis=1), "n_humans": people.count(axis=1)})


@dataclass(frozen=True)
class HumanScored:
    """Scored rows that people graded, and what could not be matched.

    Attributes
    ----------
    rows : DataFrame
        Columns of the scored rows, with ``grade_human`` (mean of the people's grades) and
        ``n_humans``; one row a matched row of ``samples_human``. ``grade`` is that of the scored
        row.
    n_total : int
        Rows of ``samples_human``.
    absent, ambiguous : int
        Rows of ``samples_human`` that fit no scored row, or more than one.
    ungraded : int
        Matched rows that no person graded (``grade_human`` is NaN).
    regraded : int
        Matched rows whose LLM grade differs from that of the scored row.
    reason : str
        What was left out and why, for a person; empty if nothing was.
    """

    rows: pd.DataFrame
    n_total: int
    absent: int
    ambiguous: int
    ungraded: int
    regraded: int
    reason: str


def human_scored(human: pd.DataFrame, scored: pd.DataFrame) -> HumanScored:
    """Match the rows that people graded with the scored rows, on the keys that both have.

    Parameters
    ----------
    human : DataFrame
        Rows of ``samples_human``; what it has of ``id``, ``E``, ``Nc``, ``Np`` and ``K`` is used.
        Embeddings may be written as codes or as plot labels.
    scored : DataFrame
        Scored rows.

    Returns
    -------
    HumanScored
        Rows for `correlation.correlate(rows, grade="grade_human")`, with counts of what is left
        out. A row that fits several scored rows is left out: which of them was graded is not known.

    Raises
    ------
    DataError
        As for `read_grades`.

    Examples
    --------
    >>> scored = pd.DataFrame({"id": ["A-1", "A-1"], "K": [2, 3], "grade": [4.0, 5.0]})
    >>> human = pd.DataFrame({"id": ["A-1", "A-9"], "K": [3, 3], "grade_human_1": [4, 4]})
    >>> matched = human_scored(human, scored)
    >>> matched.rows[["id", "K", "grade", "grade_human"]].values.tolist(), matched.reason
    ([['A-1', 3, 5.0, 4.0]], '1 of 2 human-graded rows: no scored row has the same id, K.')
    """
    means = mean_human_grade(human)
    keys = [key for key in schema.PARTS["graded"].key if key in human and key in scored]
    if not keys:
        return HumanScored(
            scored.iloc[:0].assign(grade_human=np.nan, n_humans=0),
            *(len(human), len(human), 0, 0, 0),
            f"none of {len(human)} human-graded rows can be matched: samples_human has none of "
            f"the keys {', '.join(schema.PARTS['graded'].key)}.",
        )
    wanted, known = _key_index(human, keys), _key_index(scored, keys)
    fits = known.value_counts().reindex(wanted, fill_value=0).to_numpy()
    single = fits == 1
    first = pd.Series(np.arange(len(known)), index=known)[~known.duplicated()]
    position = first.reindex(wanted[single]).to_numpy(dtype=np.int64)
    rows = scored.iloc[position].reset_index(drop=True)
    rows = rows.assign(**{name: means[name].to_numpy()[single] for name in means})
    counts = {"absent": int((fits == 0).sum()), "ambiguous": int((fits > 1).sum())}
    counts["ungraded"] = int(rows["grade_human"].isna().sum())
    counts["regraded"] = _count_regraded(human[single], rows)
    return HumanScored(rows, len(human), **counts, reason=_explain(len(human), keys, **counts))


def correlate_graders(
    rows: pd.DataFrame,
    *,
    measures: Sequence[str] = tuple(MEASURES),
    coefficients: Sequence[str] = ("spearman",),
    alpha: str | float = "published",
    min_samples: int = 10,
) -> pd.DataFrame:
    """Correlate measures with the grades of people, and with the LLM's on the same rows.

    Embeddings are pooled, because few answers are graded by people; so are all datasets in the rows
    ``all``, where differences between datasets add to the correlation.

    Parameters
    ----------
    rows : DataFrame
        `HumanScored.rows`; those without a grade of a person or of the LLM are left out.
    measures : sequence of str
        Names in `MEASURES`.
    coefficients : sequence of str
        As in `correlation.correlate`.
    alpha : str or float
        As in `correlation.correlate`; chosen for each grader anew if it is ``published``.
    min_samples : int
        Rows a cell must have.

    Returns
    -------
    DataFrame
        One row a cell, measure and coefficient: ``dataset`` (``all`` first), ``segment`` (narrow
        or wide), ``measure``, ``coefficient``, ``n``, ``people`` and ``llm`` (correlations, NaN
        where undefined), ``alpha_people`` and ``alpha_llm``, ``reason`` (why one is undefined).

    Raises
    ------
    UsageError
        If a name or alpha is not accepted.
    DataError
        If the rows lack a column.

    Examples
    --------
    >>> rows = pd.DataFrame({"dataset": ["A"] * 3, "E": ["ME5S"] * 3, "K": [4] * 3, "Np": [2] * 3,
    ...     "n_positives": [0, 1, 2], "grade": [1.0, 3.0, 3.0], "grade_human": [1.5, 4.0, 3.0]})
    >>> table = correlate_graders(rows, measures=["R"], min_samples=3)
    >>> table[["dataset", "segment", "n", "people", "llm"]].round(3).values.tolist()
    [['all', 'wide', 3, 0.5, 0.866], ['A', 'wide', 3, 0.5, 0.866]]
    """
    both = rows[rows["grade_human"].notna() & rows[LLM].notna()].assign(E=ALL_DATASETS)
    pooled = pd.concat([both.assign(dataset=ALL_DATASETS), both.astype({"dataset": str})])
    options: dict[str, Any] = {
        "segmentation": "narrow-wide",
        "min_samples": min_samples,
        "measures": measures,
        "coefficients": coefficients,
        "alpha": alpha,
    }
    keys = ["dataset", "segment", "measure", "coefficient"]
    people = correlate(pooled, grade="grade_human", **options)
    llm = correlate(pooled, grade=LLM, **options)[[*keys, "alpha", "correlation", "reason"]]
    table = people.merge(llm, on=keys, suffixes=("_people", "_llm"))
    table["reason"] = table["reason_people"].where(
        table["reason_people"] != "", table["reason_llm"]
    )
    names = {"correlation_people": "people", "correlation_llm": "llm"}
    columns = [*keys, "n", "people", "llm", "alpha_people", "alpha_llm", "reason"]
    order = [ALL_DATASETS, *schema.dataset_order(sorted(set(table["dataset"]) - {ALL_DATASETS}))]
    table = table.rename(columns=names)[columns]
    return table.sort_values(
        "dataset", key=lambda names: names.map(order.index), kind="stable", ignore_index=True
    )


# --- internals ----------------------------------------------------------------------------------


def _parts(human: pd.DataFrame, grades: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """All grades, then those of each dataset where there are ids."""
    parts = [(ALL_DATASETS, grades)]
    if "id" in human:
        datasets = human["id"].astype(str).map(schema.dataset_of)
        names = schema.dataset_order(list(datasets.unique()))
        parts += [(name, grades[(datasets == name).to_numpy()]) for name in names]
    return parts


def _groups(names: list[str]) -> dict[str, list[str]]:
    """Name the groups of graders; groups of the same members come once."""
    people = [name for name in names if name != LLM]
    groups: dict[str, list[str]] = {}
    if len(people) > 1:
        if LLM in names:
            groups[EVERYONE] = names
        groups[PEOPLE] = people
    for pair in combinations(names, 2):
        if list(pair) not in groups.values():
            groups[", ".join(map(grader_label, pair))] = list(pair)
    return groups


def _members(name: str, grades: pd.DataFrame) -> list[str]:
    if name == PEOPLE:
        return [grader for grader in grades if grader != LLM]
    if name not in grades:
        raise UsageError(f"No grader is {name}; there are {', '.join(grades)} and {PEOPLE}.")
    return [name]


def _title(name: str) -> str:
    return name if name == PEOPLE else grader_label(name)


def _key_index(rows: pd.DataFrame, keys: list[str]) -> pd.MultiIndex:
    parts = []
    for key in keys:
        values = (
            rows[key].astype(str)
            if key in ("id", "E")
            else pd.to_numeric(rows[key], errors="coerce")
        )
        parts.append(values.map(schema.embedding_code) if key == "E" else values)
    return pd.MultiIndex.from_arrays(parts, names=keys)


def _count_regraded(human: pd.DataFrame, rows: pd.DataFrame) -> int:
    if LLM not in human:
        return 0
    before, now = read_grades(human)[LLM].to_numpy(), rows[LLM].to_numpy()
    return int(((before != now) & ~(np.isnan(before) & np.isnan(now))).sum())


def _explain(
    n_total: int, keys: list[str], absent: int, ambiguous: int, ungraded: int, regraded: int
) -> str:
    same = f"scored row has the same {', '.join(keys)}"
    cases = {
        f"no {same}": absent,
        f"more than one {same}, and there is no other key": ambiguous,
        "matched, but graded by no person": ungraded,
        "the LLM's grade differs from that of the scored row, which is kept": regraded,
    }
    said = [
        f"{count} of {n_total} human-graded rows: {what}." for what, count in cases.items() if count
    ]
    return " ".join(said)
