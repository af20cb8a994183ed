"""Reading large files of records piece by piece, and writing files that are whole or absent."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from retrieval_quality.errors import DataError

Record = dict[str, Any]

_BLOCK = 1 << 20
_LONGEST = 1 << 28  # characters of one record: beyond it the file is taken to be broken
_BLANK = " \t\r\n"


def records(path: Path) -> Iterator[tuple[int, Record]]:
    r"""Yield the records of a file with their number, first is 1.

    Read piece by piece: a JSON array, one JSON object a line, Parquet, and the first two
    compressed by gzip. A single JSON object of columns (``{"query": {"7": ...}, ...}``, as
    MS MARCO v2.1 comes) cannot be: it is read whole.

    Parameters
    ----------
    path : Path
        The file; UTF-8, with or without a byte-order mark.

    Yields
    ------
    int, dict
        The record's number and the record.

    Raises
    ------
    DataError
        The file is missing, empty, cut off, not UTF-8, or holds something other than objects;
        the message names the file and the record.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "two.json")
    ...     _ = path.write_text('[{"q": "a"},\n {"q": "b"}]', encoding="utf-8")
    ...     list(records(path))
    [(1, {'q': 'a'}), (2, {'q': 'b'})]
    """
    path = Path(path)
    number = 0
    try:
        for number, value in enumerate(_values(path), start=1):
            if not isinstance(value, dict):
                raise DataError(
                    f"{path.name}, record {number}: expected an object, found "
                    f"{type(value).__name__}."
                )
            yield number, value
    except FileNotFoundError:
        raise DataError(f"{path} does not exist.") from None
    except IsADirectoryError:
        raise DataError(f"{path} is a folder; a file is needed.") from None
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path.name}, after record {number}: not UTF-8 ({error.reason}); convert the file."
        ) from None
    except (json.JSONDecodeError, EOFError, gzip.BadGzipFile) as error:
        raise DataError(f"{path.name}, after record {number}: not readable ({error}).") from None
    if number == 0:
        raise DataError(f"{path.name} holds no records.")


def _values(path: Path) -> Iterator[Any]:
    with path.open("rb") as raw:
        magic = raw.read(4)
    if magic == b"PAR1":
        yield from _parquet(path)
        return
    opened = gzip.open if magic[:2] == b"\x1f\x8b" else open
    with opened(path, "rb") as raw_text:
        text = io.TextIOWrapper(raw_text, encoding="utf-8-sig")
        first = text.read(1)
        while first and first in _BLANK:
            first = text.read(1)
        if first == "[":
            yield from _array(text)
        elif first:
            yield from _lines(text, first)


def _parquet(path: Path) -> Iterator[Any]:
    import pyarrow.parquet as pq

    for batch in pq.ParquetFile(path).iter_batches(batch_size=256):
        yield from batch.to_pylist()


def _array(text: TextIO) -> Iterator[Any]:
    """Yield the values of a JSON array whose opening bracket has been read."""
    source = _Buffer(text)
    if source.peek() == "]":
        source.take()
    else:
        while True:
            yield source.value()
            mark = source.take()
            if mark == "]":
                break
            if mark != ",":
                raise json.JSONDecodeError("expected ',' or ']'", source.shown(), 0)
    if source.peek():
        raise json.JSONDecodeError("text after the end of the array", source.shown(), 0)


class _Buffer:
    """Text read block by block, from which JSON values are taken one at a time."""

    def __init__(self, text: TextIO) -> None:
        self._text, self._held, self._at, self._ended = text, "", 0, False
        self._decoder = json.JSONDecoder()

    def _more(self, size: int = _BLOCK) -> bool:
        block = "" if self._ended else self._text.read(size)
        self._ended = not block
        self._held, self._at = self._held[self._at :] + block, 0
        return bool(block)

    def peek(self) -> str:
        """Return the next character that is not blank, or nothing at the end."""
        while True:
            while self._at < len(self._held):
                if self._held[self._at] not in _BLANK:
                    return self._held[self._at]
                self._at += 1
            if not self._more():
                return ""

    def take(self) -> str:
        mark = self.peek()
        self._at += 1
        return mark

    def shown(self) -> str:
        return self._held[self._at : self._at + 40]

    def value(self) -> Any:
        """Return the next JSON value; a value cut by the end of a block is read further."""
        self.peek()
        size = _BLOCK
        while True:
            try:
                value, end = self._decoder.raw_decode(self._held, self._at)
            except json.JSONDecodeError:
                if len(self._held) - self._at > _LONGEST or not self._more(size):
                    raise
                size *= 2
                continue
            self._at = end
            return value


def _lines(text: TextIO, first: str) -> Iterator[Any]:
    line = first + text.readline()
    try:
        value = json.loads(line)
    except json.JSONDecodeError:
        value = json.loads(line + text.read())  # one object over several lines
    if (
        isinstance(value, dict)
        and value
        and all(isinstance(v, dict | list) for v in value.values())
    ):
        yield from _columns(value)
        return
    yield value
    for line in text:
        if line.strip():
            yield json.loads(line)


def _columns(table: Record) -> Iterator[Record]:
    """Yield the rows of a table that is given column by column."""
    columns = {
        name: dict(enumerate(column)) if isinstance(column, list) else column
        for name, column in table.items()
    }
    longest = max(columns.values(), key=len)
    for row in longest:
        yield {name: column[row] for name, column in columns.items() if row in column}


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
