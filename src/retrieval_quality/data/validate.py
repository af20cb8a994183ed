"""Every relation of the published format, checked on a `Dataset`.

`validate` looks at all rows of all parts with SQL over the columnar cache and says of each
relation how many rows were looked at, how many break it, and which are the first.
Figures 21, 22 and 30 of the paper show a few of these relations as plain code
(`retrieval_quality.exhibits.analysis`); here are all of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import duckdb
import pandas as pd

from retrieval_quality.data import schema
from retrieval_quality.data.dataset import Dataset, connect, intact
from retrieval_quality.errors import DataError

EXAMPLES = 3
"""Rows that are named for each relation that does not hold."""

TOLERANCE = 1e-9
"""Greatest difference of P and R from their definitions."""


@dataclass(frozen=True)
class Check:
    """One relation and what was found.

    Attributes
    ----------
    name : str
        Short name, unique in a report.
    part : str
        The part whose rows were looked at.
    relation : str
        What must hold.
    rows : int
        Rows looked at; 0 where the check was not made.
    failures : int
        Rows that break the relation.
    examples : tuple of str
        The first of them: file, row, id and what is wrong.
    skipped : str
        Why the check was not made; empty if it was.
    """

    name: str
    part: str
    relation: str
    rows: int
    failures: int
    examples: tuple[str, ...] = ()
    skipped: str = ""


@dataclass(frozen=True)
class Report:
    """The checks of a dataset."""

    source: str
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether no row breaks any relation."""
        return not any(check.failures for check in self.checks)

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks with rows that break the relation."""
        return tuple(check for check in self.checks if check.failures)

    def table(self) -> pd.DataFrame:
        """Give one row a check: ``check part relation rows failures examples skipped``."""
        return pd.DataFrame(
            {
                "check": [check.name for check in self.checks],
                "part": [check.part for check in self.checks],
                "relation": [check.relation for check in self.checks],
                "rows": [check.rows for check in self.checks],
                "failures": [check.failures for check in self.checks],
                "examples": ["; ".join(check.examples) for check in self.checks],
                "skipped": [check.skipped for check in self.checks],
            }
        )

    def as_dict(self) -> dict[str, Any]:
        """Give the report as plain values that JSON can hold."""
        checks = [dataclasses.asdict(check) for check in self.checks]
        return {"source": self.source, "ok": self.ok, "checks": checks}

    def lines(self) -> list[str]:
        """Give the report as lines of text, one a check and one an example of a failure."""
        lines = [f"{self.source}: {'every relation holds' if self.ok else 'relations break'}"]
        for check in self.checks:
            found = (
                f"not checked: {check.skipped}"
                if check.skipped
                else f"{check.failures} of {check.rows} rows break it"
                if check.failures
                else f"holds for {check.rows} rows"
            )
            lines.append(f"  {check.part}: {check.relation}: {found}")
            lines += [f"    {example}" for example in check.examples]
        return lines

    def require(self) -> None:
        """Raise a DataError that names the first rows of each relation that does not hold."""
        if not self.ok:
            broken = [
                f"{check.relation}: broken by {check.failures} of {check.rows} rows "
                f"({'; '.join(check.examples)})"
                for check in self.failed
            ]
            raise DataError(f"{self.source} breaks its format. {' '.join(broken)}")


@dataclass(frozen=True)
class _Relation:
    """A relation as SQL: ``broken`` selects ``row``, ``id`` and ``found`` of what breaks it."""

    name: str
    part: str
    text: str
    broken: str
    needs: tuple[str, ...] = ()


def _simple(name: str, part: str, text: str, holds: str, found: str) -> _Relation:
    """Make a relation between the values of one row."""
    broken = f"SELECT row, id, {found} AS found FROM {part} WHERE ({holds}) IS NOT TRUE"
    return _Relation(name, part, text, broken)


def _unique(part: str) -> _Relation:
    key = ", ".join(f'"{name}"' for name in schema.PARTS[part].key)
    return _Relation(
        f"{part}-unique",
        part,
        f"({', '.join(schema.PARTS[part].key)}) is unique",
        f"""SELECT row, id, 'the key is there ' || times || ' times' AS found
        FROM (SELECT row, id, count(*) OVER (PARTITION BY {key}) AS times FROM {part})
        WHERE times > 1""",
    )


def _known_id(part: str) -> _Relation:
    return _Relation(
        f"{part}-id-in-texts",
        part,
        "the id is one of texts",
        f"SELECT row, id, 'no such text sample' AS found FROM {part} ANTI JOIN texts USING (id)",
        ("texts",),
    )


def _sizes(part: str) -> tuple[_Relation, ...]:
    return (
        _simple(f"{part}-Nc", part, "Nc is at least 2", "Nc >= 2", "'Nc ' || Nc"),
        _simple(f"{part}-Np", part, "Np is at least 2", "Np >= 2", "'Np ' || Np"),
        _simple(
            f"{part}-Np-Nc",
            part,
            "Np is smaller than Nc",
            "Np < Nc",
            "'Np ' || Np || ', Nc ' || Nc",
        ),
    )


_RANKED_MEASURES = """
    SELECT row, id, k, p, r, Np, len(list_filter(rank[:k], lambda i: i < Np)) AS found_k
    FROM (SELECT row, id, Np, rank, unnest(K) AS k, unnest(P) AS p, unnest(R) AS r FROM ranked)"""
_WITH_RANKED = "graded LEFT JOIN ranked USING (id, E, Nc, Np)"
_WITH_TEXTS = "ranked JOIN texts USING (id)"

RELATIONS: tuple[_Relation, ...] = (
    _unique("texts"),
    _simple(
        "texts-id",
        "texts",
        "the id is a subset name, a hyphen and a number",
        "regexp_full_match(id, '.+-[0-9]+')",
        "'another form'",
    ),
    _simple(
        "texts-categories",
        "texts",
        "c1, c2 and q2 are there together or not at all",
        "(c1 IS NULL) = (c2 IS NULL) AND (c1 IS NULL) = (q2 IS NULL)",
        "'some are missing'",
    ),
    _unique("ranked"),
    _known_id("ranked"),
    *_sizes("ranked"),
    _simple(
        "ranked-lengths",
        "ranked",
        "P, R and K are equally long",
        "len(P) = len(K) AND len(R) = len(K)",
        "'lengths ' || len(P) || ', ' || len(R) || ', ' || len(K)",
    ),
    _simple(
        "ranked-K",
        "ranked",
        "K is ascending, from 1 to Nc",
        "list_sort(list_distinct(K)) = K AND K[1] >= 1 AND K[-1] <= Nc",
        "'K ' || CAST(K AS VARCHAR)",
    ),
    _simple(
        "ranked-rank",
        "ranked",
        "rank has each index from 0 to Nc - 1 once",
        "list_sort(rank) = CAST(range(Nc) AS INTEGER[])",
        "'rank ' || CAST(rank AS VARCHAR)",
    ),
    _Relation(
        "ranked-candidates",
        "ranked",
        "Nc is at most len(p) + len(n)",
        f"""SELECT ranked.row, id,
            'Nc ' || Nc || ', texts ' || (len(texts.p) + len(texts.n)) AS found
        FROM {_WITH_TEXTS} WHERE Nc > len(texts.p) + len(texts.n)""",
        ("texts",),
    ),
    _Relation(
        "ranked-positives",
        "ranked",
        "Np is at most len(p)",
        f"""SELECT ranked.row, id, 'Np ' || Np || ', positives ' || len(texts.p) AS found
        FROM {_WITH_TEXTS} WHERE Np > len(texts.p)""",
        ("texts",),
    ),
    _Relation(
        "ranked-negatives",
        "ranked",
        "Nc - Np is at most len(n)",
        f"""SELECT ranked.row, id,
            'Nc - Np ' || (Nc - Np) || ', negatives ' || len(texts.n) AS found
        FROM {_WITH_TEXTS} WHERE Nc - Np > len(texts.n)""",
        ("texts",),
    ),
    _Relation(
        "ranked-P",
        "ranked",
        "P is positives retrieved / K",
        f"""SELECT row, id, 'P ' || p || ' at K ' || k AS found FROM ({_RANKED_MEASURES})
        WHERE (abs(p - found_k / k) <= {TOLERANCE}) IS NOT TRUE""",
    ),
    _Relation(
        "ranked-R",
        "ranked",
        "R is positives retrieved / Np",
        f"""SELECT row, id, 'R ' || r || ' at K ' || k AS found FROM ({_RANKED_MEASURES})
        WHERE (abs(r - found_k / Np) <= {TOLERANCE}) IS NOT TRUE""",
    ),
    _unique("graded"),
    _known_id("graded"),
    *_sizes("graded"),
    _simple(
        "graded-lengths",
        "graded",
        "rank and inK have K places",
        "len(rank) = K AND len(inK) = K",
        "'K ' || K || ', lengths ' || len(rank) || ', ' || len(inK)",
    ),
    _simple(
        "graded-positives",
        "graded",
        "sum(inK) is at most Np",
        "list_sum(inK) <= Np",
        "'sum ' || list_sum(inK) || ', Np ' || Np",
    ),
    _simple(
        "graded-inK",
        "graded",
        "inK is 1 where rank is below Np",
        "inK = list_transform(rank, lambda i: CAST(i < Np AS TINYINT))",
        "'inK ' || CAST(inK AS VARCHAR) || ', rank ' || CAST(rank AS VARCHAR)",
    ),
    _simple(
        "graded-P",
        "graded",
        "P is sum(inK) / K",
        f"abs(P - list_sum(inK) / K) <= {TOLERANCE}",
        "'P ' || P || ', sum(inK) ' || list_sum(inK) || ', K ' || K",
    ),
    _simple(
        "graded-R",
        "graded",
        "R is sum(inK) / Np",
        f"abs(R - list_sum(inK) / Np) <= {TOLERANCE}",
        "'R ' || R || ', sum(inK) ' || list_sum(inK) || ', Np ' || Np",
    ),
    _simple(
        "graded-grade",
        "graded",
        "the grade is 1, 2, 3, 4, 5 or null",
        "grade IS NULL OR grade IN (1, 2, 3, 4, 5)",
        "'grade ' || grade",
    ),
    _Relation(
        "graded-in-ranked",
        "graded",
        "a ranked row has the same id, E, Nc and Np",
        f"""SELECT graded.row, id, 'no such ranked row' AS found FROM {_WITH_RANKED}
        WHERE ranked.row IS NULL""",
        ("ranked",),
    ),
    _Relation(
        "graded-K",
        "graded",
        "K is one of the ranked row's K",
        f"""SELECT graded.row, id,
            'K ' || graded.K || ' not in ' || CAST(ranked.K AS VARCHAR) AS found
        FROM {_WITH_RANKED} WHERE NOT list_contains(ranked.K, graded.K)""",
        ("ranked",),
    ),
    _Relation(
        "graded-rank",
        "graded",
        "rank is the ranked row's rank[:K]",
        f"""SELECT graded.row, id, 'rank ' || CAST(graded.rank AS VARCHAR) AS found
        FROM {_WITH_RANKED} WHERE graded.rank <> ranked.rank[:graded.K]""",
        ("ranked",),
    ),
    _known_id("controls"),
)
"""What must hold in any dataset of the published format."""

_HUMAN = _Relation(
    "human-in-graded",
    "human",
    "a graded row has the same id, E, Nc, Np and K",
    """SELECT row, id, 'no such graded row' AS found
    FROM human ANTI JOIN graded USING (id, E, Nc, Np, K)""",
    ("graded",),
)

_PUBLISHED_NP = _simple(
    "published-Np",
    "ranked",
    "Np is from 2 to 15, as in the paper",
    f"Np BETWEEN {schema.PUBLISHED_NP_RANGE[0]} AND {schema.PUBLISHED_NP_RANGE[1]}",
    "'Np ' || Np",
)


def validate(dataset: Dataset, *, published: bool | None = None) -> Report:
    """Check every relation of the format on all rows.

    Parameters
    ----------
    dataset : Dataset
        What to check. Types, lengths and ranges within a record were checked when it was opened
        from files and are checked again, for tables that were stored by code.
    published : bool, optional
        Whether the dataset claims to be the paper's, so that its numbers of rows are checked too.
        By default it does if it was downloaded (has a commit) and is not simulated.

    Returns
    -------
    Report
        One check a relation. Relations with a part that is missing are listed as skipped.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from retrieval_quality.data.dataset import store
    >>> folder = tempfile.TemporaryDirectory()
    >>> graded = pd.DataFrame({
    ...     "id": ["A-0"], "E": "ME5S", "Nc": 5, "Np": 2, "K": 1, "rank": [[1]], "inK": [[1]],
    ...     "answer_ideal": "", "answer_topK": "", "grade": 4, "P": 1.0, "R": 1.0})
    >>> dataset = store({"graded": graded}, name="one", source="one row", digest="0" * 64,
    ...                 cache=Path(folder.name))
    >>> validate(dataset).failed[0].examples
    ('samples_graded record 1, id A-0: R 1.0, sum(inK) 1, Np 2',)
    >>> folder.cleanup()
    """
    if published is None:
        published = dataset.commit is not None and not dataset.simulated
    rows = dataset.row_counts()
    with intact(dataset), connect() as connection:
        for part in dataset.parts:
            path = str(dataset.path(part)).replace("'", "''")
            connection.execute(
                f"""CREATE VIEW {part} AS SELECT * EXCLUDE (file_row_number),
                file_row_number + 1 AS row FROM read_parquet('{path}', file_row_number=true)"""
            )
        relations = [*RELATIONS, *([_PUBLISHED_NP] if published else [])]
        checks = [
            _check(connection, relation, rows) for relation in relations if relation.part in rows
        ]
        if "human" in rows:
            checks.append(_check_human(connection, dataset, rows))
        if published:
            checks += _check_counts(connection, rows)
    return Report(dataset.source, tuple(checks))


def _check(
    connection: duckdb.DuckDBPyConnection, relation: _Relation, rows: Mapping[str, int]
) -> Check:
    missing = [part for part in relation.needs if part not in rows]
    if missing:
        reason = f"there is no {schema.PARTS[missing[0]].stem} file"
        return Check(relation.name, relation.part, relation.text, 0, 0, skipped=reason)
    # one line a row: a relation that looks at each K of a row counts the row once
    found = connection.execute(
        f"""WITH broken AS (
            SELECT row, any_value(id) AS id, first(found) AS found
            FROM ({relation.broken}) GROUP BY row)
        SELECT row, id, found, (SELECT count(*) FROM broken) FROM broken
        ORDER BY row LIMIT {EXAMPLES}"""
    ).fetchall()
    stem = schema.PARTS[relation.part].stem
    return Check(
        relation.name,
        relation.part,
        relation.text,
        rows[relation.part],
        found[0][3] if found else 0,
        tuple(f"{stem} record {row}, id {sample}: {what}" for row, sample, what, _ in found),
    )


def _check_human(
    connection: duckdb.DuckDBPyConnection, dataset: Dataset, rows: Mapping[str, int]
) -> Check:
    """Match human grades with graded rows, if they have the keys for it."""
    missing = [name for name in schema.PARTS["graded"].key if name not in dataset.columns("human")]
    if missing:
        reason = f"samples_human has no {missing[0]}, so its rows cannot be matched"
        return Check(_HUMAN.name, _HUMAN.part, _HUMAN.text, 0, 0, skipped=reason)
    return _check(connection, _HUMAN, rows)


def _check_counts(connection: duckdb.DuckDBPyConnection, rows: Mapping[str, int]) -> list[Check]:
    """Compare the numbers of rows with the published ones."""
    expected = {(part, ""): count for part, count in schema.PUBLISHED_ROWS.items()}
    there = {(part, ""): rows.get(part, 0) for part in schema.PUBLISHED_ROWS}
    for code in schema.EMBEDDINGS:
        expected["ranked", code] = schema.PUBLISHED_RANKED_PER_EMBEDDING
        there["ranked", code] = 0
    if "ranked" in rows:
        counted = connection.execute("SELECT E, count(*) FROM ranked GROUP BY E").fetchall()
        there.update({("ranked", code): count for code, count in counted})
    checks = []
    for (part, code), count in expected.items():
        name = f"published-{part}{'-' if code else ''}{code}"
        relation = f"{count} rows{' of ' if code else ''}{code}, as in the paper"
        found = there[part, code]
        example = (f"{schema.PARTS[part].stem} has {found}",) if found != count else ()
        checks.append(Check(name, part, relation, found, abs(found - count), example))
    return checks


def describe(dataset: Dataset) -> dict[str, Any]:
    """Say what a dataset is: origin, rows beside the published counts, subsets, grades, notices.

    Parameters
    ----------
    dataset : Dataset
        The dataset.

    Returns
    -------
    dict
        Plain values that JSON can hold.
    """
    facts: dict[str, Any] = {
        "name": dataset.name,
        "simulated": dataset.simulated,
        "source": dataset.source,
        "digest": dataset.digest,
        "commit": dataset.commit,
        "rows": {
            part: {"here": rows, "published": schema.PUBLISHED_ROWS.get(part)}
            for part, rows in dataset.row_counts().items()
        },
    }
    counts = dataset.table_counts()
    facts["embeddings"] = {
        part: {
            schema.embedding_label(code): int(rows)
            for code, rows in group.groupby("embedding")["rows"].sum().items()
        }
        for part, group in counts[counts["embedding"] != ""].groupby("part", sort=False)
    }
    facts["subsets"] = {
        part: {subset: int(rows) for subset, rows in group.groupby("subset")["rows"].sum().items()}
        for part, group in counts.groupby("part", sort=False)
    }
    if "graded" in dataset.parts:
        grades = dataset.grade_counts()
        facts["grades"] = {
            "null" if grade is None else str(grade): n for grade, n in grades.items()
        }
        varying, ids = dataset.ideal_answers_that_vary()
        facts["ideal answers"] = f"vary within {varying} of {ids} ids"
    facts["notices"] = [f"{notice.part}: {notice.text}" for notice in dataset.notices]
    return facts
