"""Reading a source's records piece by piece; writing files that are whole or absent."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from retrieval_quality.data.records import read_batches
from retrieval_quality.errors import DataError

Record = dict[str, Any]

_BLOCK = 1 << 20
_COLUMNS = re.compile(r'\s*\{\s*"[^"]*"\s*:\s*\{\s*"\d+"\s*:')


@dataclass(frozen=True)
class Place:
    """Where a record stands: `number` counts from 1, `str` says it in full, for a message."""

    file: str
    number: int
    tell: Callable[[], str]

    @property
    def name(self) -> str:
        """A short name for a record that has no id of its own."""
        return f"{self.file}:{self.number}"

    def __str__(self) -> str:
        return self.tell()


def records(path: Path) -> Iterator[tuple[Place, Record]]:
    """Yield the records of a file with their places.

    Read in bounded memory, see `retrieval_quality.data.records.read_batches`; but a file that is
    one object of columns by row number (``{"query": {"0": ...}, ...}``, as MS MARCO v2.1 comes) is
    read whole.

    Parameters
    ----------
    path : Path
        JSON array, one JSON object a line, Parquet; gzip or not; UTF-8.

    Yields
    ------
    Place, dict
        Where the record stands, and the record.

    Raises
    ------
    DataError
        The file is missing, empty, cut off, or holds something other than objects.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "two.json")
    ...     _ = path.write_text('{"q": {"0": "a", "7": "b"}}', encoding="utf-8")
    ...     [(str(place), record) for place, record in records(path)]
    [('two.json, row 0', {'q': 'a'}), ('two.json, row 7', {'q': 'b'})]
    """
    if not path.is_file():
        raise DataError(f"{path} is not a file.")
    if _is_columns(path):
        yield from _rows(path)
        return
    number = 0
    for batch in read_batches(path):
        for i, record in enumerate(batch.records):
            number += 1
            if not isinstance(record, dict):
                raise DataError(f"{batch.where(i)}: a {type(record).__name__}, not an object.")
            yield Place(path.name, number, partial(batch.where, i)), record


def _open(path: Path) -> TextIO:
    with path.open("rb") as raw:
        zipped = raw.read(2) == b"\x1f\x8b"
    if zipped:
        return gzip.open(path, "rt", encoding="utf-8-sig")
    return path.open(encoding="utf-8-sig")


def _is_columns(path: Path) -> bool:
    try:
        with _open(path) as text:
            return bool(_COLUMNS.match(text.read(2000)))
    except (UnicodeDecodeError, EOFError, OSError):
        return False  # read_batches says what is wrong with it


def _rows(path: Path) -> Iterator[tuple[Place, Record]]:
    """Yield the rows of one object of columns by row number."""
    try:
        with _open(path) as text:
            table: Record = json.load(text)
    except (json.JSONDecodeError, UnicodeDecodeError, EOFError, OSError) as error:
        raise DataError(f"{path.name}: not readable ({error}). Get the file again.") from None
    if not all(isinstance(column, dict) for column in table.values()):
        raise DataError(f"{path.name}: some keys hold columns by row number, others do not.")
    longest: Record = max(table.values(), key=len)
    for number, row in enumerate(longest, start=1):
        record = {name: column[row] for name, column in table.items() if row in column}
        yield Place(path.name, number, f"{path.name}, row {row}".__str__), record


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's content as hexadecimal digits.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "empty")
    ...     _ = path.write_bytes(b"")
    ...     sha256_of(path)[:8]
    'e3b0c442'
    """
    digest = hashlib.sha256()
    with Path(path).open("rb") as source:
        while block := source.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


@contextmanager
def replacing(path: Path) -> Iterator[TextIO]:
    """Open a text file for writing that takes its place only when it is complete.

    Parameters
    ----------
    path : Path
        The file to make or replace. Until the block ends without an error it stays as it was.
    """
    part = path.with_name(path.name + ".part")
    try:
        with part.open("w", encoding="utf-8", newline="\n") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        os.replace(part, path)
    except OSError as error:
        raise DataError(f"{path.name} could not be written: {error.strerror}.") from None
    finally:
        part.unlink(missing_ok=True)


def write_records(path: Path, rows: Iterable[Record]) -> int:
    r"""Write records as a JSON array, one a line, and return how many there were.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "rows.json")
    ...     write_records(path, [{"q": "a"}, {"q": "ä"}])
    ...     path.read_text(encoding="utf-8").splitlines()
    2
    ['[', '{"q": "a"},', '{"q": "ä"}', ']']
    """
    count = 0
    with replacing(path) as out:
        for row in rows:
            out.write(",\n" if count else "[\n")
            out.write(json.dumps(row, ensure_ascii=False))
            count += 1
        out.write("\n]\n" if count else "[]\n")
    return count


def write_json(path: Path, value: Record) -> None:
    """Write one object, indented."""
    with replacing(path) as out:
        json.dump(value, out, ensure_ascii=False, indent=1)
        out.write("\n")


def read_json(path: Path) -> Record:
    """Return the one object of a file.

    Raises
    ------
    DataError
        The file is not a JSON object.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path.name} is not JSON ({error}); remove it and run again.") from None
    if not isinstance(value, dict):
        raise DataError(f"{path.name} is not a JSON object; remove it and run again.")
    return value
