"""The relations of the published format, between values of one row and between rows and files.

Each is declared once, as SQL over the columnar cache that finds the rows that break it. Opening a
dataset looks at all of them and tells of those that break (`retrieval_quality.data.dataset`);
`retrieval_quality.data.validate` reports on all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

from retrieval_quality.data import schema

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
class Relation:
    """A relation as SQL.

    Attributes
    ----------
    name, part, text : str
        Short name, the part whose rows are looked at, and what must hold.
    broken : str
        Query that selects ``row``, ``id`` and ``found`` of what breaks it.
    needs : tuple of str
        Other parts that must be there.
    columns : tuple of str
        Columns of the part that must be there, where the format does not promise them.
    consequence : str
        What becomes of rows that break it, for a notice; empty if they are used as they are.
    """

    name: str
    part: str
    text: str
    broken: str
    needs: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    consequence: str = ""


def _simple(name: str, part: str, text: str, holds: str, found: str) -> Relation:
    """Make a relation between the values of one row."""
    broken = f"SELECT row, id, {found} AS found FROM {part} WHERE ({holds}) IS NOT TRUE"
    return Relation(name, part, text, broken)


def _unique(part: str) -> Relation:
    key = ", ".join(f'"{name}"' for name in schema.PARTS[part].key)
    return Relation(
        f"{part}-unique",
        part,
        f"({', '.join(schema.PARTS[part].key)}) is unique",
        f"""SELECT row, id, 'the key is there ' || times || ' times' AS found
        FROM (SELECT row, id, count(*) OVER (PARTITION BY {key}) AS times FROM {part})
        WHERE times > 1""",
    )


def _known_id(part: str) -> Relation:
    return Relation(
        f"{part}-id-in-texts",
        part,
        "the id is one of texts",
        f"SELECT row, id, 'no such text sample' AS found FROM {part} ANTI JOIN texts USING (id)",
        ("texts",),
    )


def _sizes(part: str) -> tuple[Relation, ...]:
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
_KEY = schema.PARTS["graded"].key
_WITH_TWICE = """
    SELECT one.row, one.id, one.K, one.rank, two.rank AS twice
    FROM graded AS one JOIN graded AS two
        ON one.id = two.id AND one.E = two.E AND one.Nc = two.Nc AND one.Np = two.Np
        AND 2 * one.K = two.K"""
_WITH_RANKED = "graded LEFT JOIN ranked USING (id, E, Nc, Np)"
_WITH_TEXTS = "ranked JOIN texts USING (id)"

RELATIONS: tuple[Relation, ...] = (
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
    Relation(
        "ranked-candidates",
        "ranked",
        "Nc is at most len(p) + len(n)",
        f"""SELECT ranked.row, id,
            'Nc ' || Nc || ', texts ' || (len(texts.p) + len(texts.n)) AS found
        FROM {_WITH_TEXTS} WHERE Nc > len(texts.p) + len(texts.n)""",
        ("texts",),
    ),
    Relation(
        "ranked-positives",
        "ranked",
        "Np is at most len(p)",
        f"""SELECT ranked.row, id, 'Np ' || Np || ', positives ' || len(texts.p) AS found
        FROM {_WITH_TEXTS} WHERE Np > len(texts.p)""",
        ("texts",),
    ),
    Relation(
        "ranked-negatives",
        "ranked",
        "Nc - Np is at most len(n)",
        f"""SELECT ranked.row, id,
            'Nc - Np ' || (Nc - Np) || ', negatives ' || len(texts.n) AS found
        FROM {_WITH_TEXTS} WHERE Nc - Np > len(texts.n)""",
        ("texts",),
    ),
    Relation(
        "ranked-P",
        "ranked",
        "P is positives retrieved / K",
        f"""SELECT row, id, 'P ' || p || ' at K ' || k AS found FROM ({_RANKED_MEASURES})
        WHERE (abs(p - found_k / k) <= {TOLERANCE}) IS NOT TRUE""",
    ),
    Relation(
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
    Relation(
        "graded-in-ranked",
        "graded",
        "a ranked row has the same id, E, Nc and Np",
        f"""SELECT graded.row, id, 'no such ranked row' AS found FROM {_WITH_RANKED}
        WHERE ranked.row IS NULL""",
        ("ranked",),
    ),
    Relation(
        "graded-K",
        "graded",
        "K is one of the ranked row's K",
        f"""SELECT graded.row, id,
            'K ' || graded.K || ' not in ' || CAST(ranked.K AS VARCHAR) AS found
        FROM {_WITH_RANKED} WHERE NOT list_contains(ranked.K, graded.K)""",
        ("ranked",),
    ),
    Relation(
        "graded-rank",
        "graded",
        "rank is the ranked row's rank[:K]",
        f"""SELECT graded.row, id, 'rank ' || CAST(graded.rank AS VARCHAR) AS found
        FROM {_WITH_RANKED} WHERE graded.rank <> ranked.rank[:graded.K]""",
        ("ranked",),
    ),
    Relation(
        "graded-2K",
        "graded",
        "the top 2K begins with the top K",
        f"""SELECT row, id, 'rank ' || CAST(rank AS VARCHAR) || ', of 2K ' || CAST(twice AS VARCHAR)
            AS found
        FROM ({_WITH_TWICE}) WHERE rank <> twice[:K]""",
        consequence="such rows count as without a row of 2K",
    ),
    _known_id("controls"),
    Relation(
        "human-unique",
        "human",
        f"({', '.join(_KEY)}) is unique",
        f"""SELECT row, id, 'the key is there ' || times || ' times' AS found
        FROM (SELECT row, id, count(*) OVER (PARTITION BY {", ".join(_KEY)}) AS times FROM human)
        WHERE times > 1""",
        columns=_KEY,
    ),
    Relation(
        "human-in-graded",
        "human",
        "a graded row has the same id, E, Nc, Np and K",
        f"""SELECT row, id, 'no such graded row' AS found
        FROM human ANTI JOIN graded USING ({", ".join(_KEY)})""",
        ("graded",),
        _KEY,
    ),
    Relation(
        "human-grade",
        "human",
        "the LLM's grade is that of the graded row",
        f"""SELECT human.row, id, 'grade ' || coalesce(CAST(human.grade AS VARCHAR), 'null')
            || ', in samples_graded ' || coalesce(CAST(graded.grade AS VARCHAR), 'null') AS found
        FROM human JOIN graded USING ({", ".join(_KEY)})
        WHERE human.grade IS DISTINCT FROM graded.grade""",
        ("graded",),
        (*_KEY, "grade"),
    ),
)
"""What must hold in any dataset of the published format."""


def open_views(connection: duckdb.DuckDBPyConnection, files: Mapping[str, Path]) -> dict[str, int]:
    """Let SQL see the parts under their names, with the number of each ``row``.

    Parameters
    ----------
    connection : DuckDBPyConnection
        Where the views are made.
    files : mapping of str to Path
        The Parquet file of each part. The keys of human grades, which may be of any type, are
        made those of graded rows; what is no number is null.

    Returns
    -------
    dict of str to int
        Rows of each part.
    """
    rows = {}
    for part, file in files.items():
        path = str(file).replace("'", "''")
        source = f"read_parquet('{path}', file_row_number=true)"
        keys = []
        if part == "human":
            there = pq.read_schema(file).names
            keys = [
                f"TRY_CAST({name} AS {'VARCHAR' if name in ('id', 'E') else 'INTEGER'}) AS {name}"
                for name in _KEY
                if name in there
            ]
        typed = f"REPLACE ({', '.join(keys)})" if keys else ""
        connection.execute(
            f"""CREATE VIEW {part} AS SELECT * EXCLUDE (file_row_number) {typed},
            file_row_number + 1 AS row FROM {source}"""
        )
        rows[part] = pq.read_metadata(file).num_rows
    return rows


def look(
    connection: duckdb.DuckDBPyConnection, relation: Relation, rows: Mapping[str, int]
) -> Check:
    """Look at every row of a part for one relation.

    Parameters
    ----------
    connection : DuckDBPyConnection
        With the views of `open_views`.
    relation : Relation
        What must hold of a part that is there.
    rows : mapping of str to int
        Rows of each part that is there.

    Returns
    -------
    Check
        Rows that break it, the first by file, record, id and K; or why it was not looked at.
    """
    stem = schema.PARTS[relation.part].stem
    if reason := _hindered(connection, relation, rows):
        return Check(relation.name, relation.part, relation.text, 0, 0, skipped=reason)
    depth = "K" if relation.part in ("graded", "controls") or "K" in relation.columns else "NULL"
    # one line a row: a relation that looks at each K of a row counts the row once
    found = connection.execute(
        f"""WITH broken AS (
            SELECT row, any_value(id) AS id, first(found) AS found
            FROM ({relation.broken}) GROUP BY row),
        named AS (
            SELECT row, id, found, (SELECT count(*) FROM broken) AS times FROM broken
            ORDER BY row LIMIT {EXAMPLES})
        SELECT row, named.id, {depth}, found, times FROM named JOIN {relation.part} USING (row)
        ORDER BY row"""
    ).fetchall()
    examples = tuple(
        f"{stem} record {row}, id {sample}{'' if top is None else f', K {top}'}: {what}"
        for row, sample, top, what, _ in found
    )
    failures = found[0][4] if found else 0
    return Check(
        relation.name, relation.part, relation.text, rows[relation.part], failures, examples
    )


def _hindered(
    connection: duckdb.DuckDBPyConnection, relation: Relation, rows: Mapping[str, int]
) -> str:
    """Say why a relation cannot be looked at; empty if it can."""
    for part in relation.needs:
        if part not in rows:
            return f"there is no {schema.PARTS[part].stem} file"
    if relation.columns:
        described = connection.execute(f"DESCRIBE {relation.part}").fetchall()
        names = {name for name, *_ in described}
        for name in relation.columns:
            if name not in names:
                stem = schema.PARTS[relation.part].stem
                return f"{stem} has no {name}, so its rows cannot be matched"
    return ""


def broken(
    connection: duckdb.DuckDBPyConnection, rows: Mapping[str, int]
) -> Iterator[tuple[str, int, str]]:
    """Find the relations that do not hold.

    Parameters
    ----------
    connection : DuckDBPyConnection
        With the views of `open_views`.
    rows : mapping of str to int
        Rows of each part that is there.

    Yields
    ------
    tuple of str, int and str
        The part, the number of its rows that break a relation, and a sentence on them.
    """
    for relation in RELATIONS:
        if relation.part in rows:
            found = look(connection, relation, rows)
            if found.failures:
                follows = f"; {relation.consequence}" if relation.consequence else ""
                text = (
                    f"{relation.text}: {found.failures:,} of {found.rows:,} rows break it, the "
                    f"first is {found.examples[0]}{follows}"
                )
                yield relation.part, found.failures, text
