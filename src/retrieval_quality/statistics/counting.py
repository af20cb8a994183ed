"""Graded rows counted in a database: a small file from which correlations are the same numbers.

A correlation needs only how often each combination of the columns in `KEYS` occurs. DuckDB counts
them within a limit of memory, and spills to disk beyond it. Counts of parts of the data that were
made on several machines add up. The segment is no column of the file: it follows from K and N_p by
`measures.segments`, which is the one place where a ratio is rounded.

Each combination keeps the place of its first row, so that sums run in the same order, and
correlations are the same to the last bit, as from the rows.

What counts cannot say: which rows were of one query (no intervals, no cross-fitting), and whether
a row was counted in two parts. Only whole parts that are given twice are recognised.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from retrieval_quality import outputs
from retrieval_quality.data import schema
from retrieval_quality.data.dataset import Dataset, category_order, connect
from retrieval_quality.errors import DataError, UsageError

VERSION = 1
"""Of the file's format."""

WEIGHT = "n"
"""Column that says how many rows a combination stands for."""

MEMORY = "1GB"
"""What the database may hold in memory; beyond it, it writes to disk."""

_FIELDS = [
    ("E", pa.string()),
    ("dataset", pa.string()),
    ("subset", pa.string()),
    ("K", pa.int32()),
    ("Np", pa.int32()),
    ("n_positives", pa.int32()),
    ("n_positives_2k", pa.float64()),
    ("pattern", pa.string()),
    ("grade", pa.float64()),
]
KEYS = tuple(name for name, _ in _FIELDS)
"""The columns that rows are counted by: all that segments and measures are made from."""

_SCHEMA = pa.schema([*_FIELDS, (WEIGHT, pa.int64())])
_NOTE = b"retrieval-quality counts"
_BATCH = 65_536
_PART = 1 << 40  # more rows than a part has, so that places of two parts do not mix


@dataclass(frozen=True)
class Part:
    """Data that was counted.

    Attributes
    ----------
    name, digest : str
        Of the `Dataset`.
    rows : int
        Its graded rows, null grades among them.
    simulated : bool
        Whether they were made by a model.
    """

    name: str
    digest: str
    rows: int
    simulated: bool


def write(dataset: Dataset, out: str | Path, *, memory: str = MEMORY) -> Part:
    """Count the graded rows of a dataset into a file.

    Parameters
    ----------
    dataset : Dataset
        Has a graded part. Its rows are read piece by piece.
    out : path
        A Parquet file: `KEYS`, and ``n``.
    memory : str
        What DuckDB may hold, such as ``500MB``. What does not fit is spilled beside `out`.

    Returns
    -------
    Part
        What was counted.

    Raises
    ------
    DataError
        The dataset has no graded rows, the file cannot be written, or neither memory nor disk
        suffices.
    UsageError
        `memory` is no size.
    """
    with dataset.scored_batches() as rows, _database(out, memory) as connection:
        connection.register("counted_rows", rows)
        keys = ", ".join(KEYS)
        found = connection.sql(
            f"SELECT {keys}, count(*) AS {WEIGHT} FROM counted_rows "
            f"GROUP BY {keys} ORDER BY min(row)"
        )
        part = Part(dataset.name, dataset.digest, dataset.row_counts()["graded"], dataset.simulated)
        _save(found, out, (part,))
    return part


def add(files: Sequence[str | Path], out: str | Path, *, memory: str = MEMORY) -> tuple[Part, ...]:
    """Add up the counts of several parts of the data.

    The numbers from the sum are those from all the rows, file after file. Rows that two parts have
    in common are counted twice: that cannot be seen in counts. A row's 2K row is looked for within
    its own part, so all K of one ranking belong into one part.

    Parameters
    ----------
    files : sequence of path
        Made by `write` or `add`.
    out : path
        The sum; it may be one of `files`.
    memory : str
        As in `write`.

    Returns
    -------
    tuple of Part
        All that is counted in the sum.

    Raises
    ------
    UsageError
        One part comes twice, or simulated rows would be added to real ones.
    DataError
        A file is damaged or of another format; one embedding has two names.
    """
    if not files:
        raise UsageError("name at least one file of counts")
    paths = [Path(file) for file in files]
    parts: dict[str, tuple[Part, Path]] = {}
    for path in paths:
        for part in parts_of(path):
            if part.digest in parts:
                raise UsageError(
                    f"{path} counts {part.name} ({part.digest[:12]}), which "
                    f"{parts[part.digest][1]} counts already: each part can be added once"
                )
            parts[part.digest] = part, path
    made = [one for one in parts.values() if one[0].simulated]
    if made and len(made) < len(parts):
        raise UsageError(f"{made[0][1]} counts simulated rows, other files real ones: keep apart")
    keys = ", ".join(KEYS)
    each = " UNION ALL ".join(
        f"SELECT {keys}, {WEIGHT}, {number * _PART} + file_row_number AS row "
        "FROM read_parquet(?, file_row_number=true)"
        for number in range(len(paths))
    )
    with _database(out, memory) as connection:
        found = connection.sql(
            f"SELECT {keys}, CAST(sum({WEIGHT}) AS BIGINT) AS {WEIGHT} FROM ({each}) "
            f"GROUP BY {keys} ORDER BY min(row)",
            params=[str(path) for path in paths],
        )
        told = tuple(part for part, _ in parts.values())
        _save(found, out, told)
    return told


def parts_of(path: str | Path) -> tuple[Part, ...]:
    """Tell what a file of counts was made from.

    Raises
    ------
    DataError
        It is no file of counts, or one of a newer version.
    """
    try:
        stored = pq.read_schema(path)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path} cannot be read as a file of counts: {error}.") from None
    note = (stored.metadata or {}).get(_NOTE)
    if note is None:
        raise DataError(f"{path} is no file of counts; make one by `counts write`.")
    told: Any = json.loads(note)
    if told["version"] > VERSION:
        raise DataError(f"{path} was written by a newer version of this program.")
    if stored.remove_metadata() != _SCHEMA:
        raise DataError(f"{path} has columns {', '.join(stored.names)}; make it anew.")
    return tuple(Part(**part) for part in told["parts"])


def read(path: str | Path) -> pd.DataFrame:
    """Read counts as rows that each stand for ``n`` rows, for `correlation.correlate`.

    Parameters
    ----------
    path : path
        Made by `write` or `add`.

    Returns
    -------
    DataFrame
        Columns `KEYS`, as in the scored rows (`Dataset.scored`), and ``n`` (int64).

    Raises
    ------
    DataError
        The file is damaged or of another format, or one embedding has two names.
    """
    parts = parts_of(path)
    try:
        rows = pq.read_table(path, read_dictionary=_TEXTS).to_pandas()
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path} cannot be read: {error}.") from None
    if (rows[WEIGHT] < 1).any() or rows[WEIGHT].sum() != sum(part.rows for part in parts):
        raise DataError(f"{path} is damaged: it does not count the rows that it says it does.")
    for column in _TEXTS:
        values = rows[column].astype("category")
        rows[column] = values.cat.set_categories(category_order(column, values.cat.categories))
    _refuse_two_names(rows["E"].cat.categories, path)
    return rows


_TEXTS = [name for name, kind in _FIELDS if kind == pa.string()]


def _refuse_two_names(codes: Sequence[str], path: str | Path) -> None:
    for code in codes:
        if (other := schema.embedding_code(code)) != code and other in codes:
            raise DataError(
                f"{path} names one embedding both {code} and {other}: write one of the two in the "
                "data, and count it again."
            )


@contextmanager
def _database(out: str | Path, memory: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database that holds `memory` at most, and spills beside `out`."""
    if not re.fullmatch(r"[1-9][0-9]*(\.[0-9]+)? ?[KMGT]i?B", memory):
        raise UsageError(f"memory {memory!r}: write a size such as 500MB or 2GB")
    beside = Path(out).resolve().parent
    outputs.check_writable(out)
    beside.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix=".unfinished-", dir=beside) as spill,
        connect() as connection,
    ):
        connection.execute(f"SET memory_limit = '{memory}'")
        connection.execute("SET temp_directory = ?", [spill])
        connection.execute("SET preserve_insertion_order = false")
        try:
            yield connection
        except (duckdb.OutOfMemoryException, duckdb.IOException) as error:
            said = str(error).splitlines()[0]
            raise DataError(
                f"cannot count within {memory}: {said}. Allow more memory, or make room in {beside}"
            ) from error


def _save(found: duckdb.DuckDBPyRelation, out: str | Path, parts: Sequence[Part]) -> None:
    """Write counts in the order of their first rows, piece by piece."""
    note = {"version": VERSION, "keys": KEYS, "parts": [asdict(part) for part in parts]}
    kept = _SCHEMA.with_metadata({_NOTE: json.dumps(note).encode()})
    with outputs.placing(out) as path, pq.ParquetWriter(path, kept, compression="zstd") as file:
        for batch in found.to_arrow_reader(_BATCH):
            file.write_table(pa.Table.from_batches([batch]).select(_SCHEMA.names).cast(kept))
