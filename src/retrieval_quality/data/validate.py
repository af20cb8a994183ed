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
from retrieval_quality.data.relations import RELATIONS, Check, Relation, look, open_views
from retrieval_quality.errors import DataError


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


_PUBLISHED_NP = Relation(
    "published-Np",
    "ranked",
    "Np is from 2 to 15, as in the paper",
    f"""SELECT row, id, 'Np ' || Np AS found FROM ranked
    WHERE Np NOT BETWEEN {schema.PUBLISHED_NP_RANGE[0]} AND {schema.PUBLISHED_NP_RANGE[1]}""",
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
    ('samples_graded record 1, id A-0, K 1: R 1.0, sum(inK) 1, Np 2',)
    >>> folder.cleanup()
    """
    if published is None:
        published = dataset.commit is not None and not dataset.simulated
    with intact(dataset), connect() as connection:
        rows = open_views(connection, {part: dataset.path(part) for part in dataset.parts})
        relations = [*RELATIONS, *([_PUBLISHED_NP] if published else [])]
        checks = [
            look(connection, relation, rows) for relation in relations if relation.part in rows
        ]
        if published:
            checks += _check_counts(connection, rows)
    return Report(dataset.source, tuple(checks))


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
