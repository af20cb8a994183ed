"""Reading a source's records piece by piece; writing files that are whole or absent."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from retrieval_quality.data.records import LONGEST_RECORD, read_batches
from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.outputs import LOCK, replacing, sole_run

Record = dict[str, Any]

_BLOCK = 1 << 20
_AROUND = ("data", "rows", "records", "examples", "train", "validation", "dev", "test")
"""Keys under which a file that is one object has its records."""


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

    @property
    def brief(self) -> str:
        """Say it without the byte or line, which takes time to find."""
        return f"{self.file}, record {self.number}"

    def __str__(self) -> str:
        return self.tell()


def records(path: Path) -> Iterator[tuple[Place, Record]]:
    """Yield the records of a file with their places.

    Read in bounded memory, see `retrieval_quality.data.records.read_batches`; but a file that is
    one object around its rows is read whole: columns by row number (``{"query": {"0": ...}, ...}``,
    as MS MARCO v2.1 comes), columns as lists, or either, or a list of records, under one of the
    keys in `_AROUND`. A record that the hub's viewer has wrapped (``{"row_idx": 0, "row": {...}}``)
    is unwrapped.

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
    if (rows := _table(path)) is not None:
        for number, (where, record) in enumerate(rows, start=1):
            yield Place(path.name, number, where.__str__), _unwrapped(where, record)
        return
    number = 0
    for batch in read_batches(path):
        for i, record in enumerate(batch.records):
            number += 1
            if not isinstance(record, dict):
                raise DataError(f"{batch.where(i)}: a {type(record).__name__}, not an object.")
            yield (
                Place(path.name, number, partial(batch.where, i)),
                _unwrapped(f"{path.name}:{number}", record),
            )


def _table(path: Path) -> Iterator[tuple[str, Record]] | None:
    """Return the rows of a file that is one object around them; None if it is not such a file."""
    try:
        with path.open("rb") as raw:
            zipped = raw.read(2) == b"\x1f\x8b"
        with (
            gzip.open(path, "rt", encoding="utf-8-sig")
            if zipped
            else path.open(encoding="utf-8-sig") as text
        ):
            start = ""
            while not start.strip() and (line := text.readline(LONGEST_RECORD)):
                start = line
            if not start.lstrip().startswith("{"):
                return None
            try:
                json.loads(start)
            except ValueError:
                pass
            else:
                if text.read(2000).strip():
                    return None  # one object a line
            rest = text.read()
            return _rows(path.name, json.loads(start + rest))
    except (ValueError, EOFError, OSError, RecursionError):
        return None  # read_batches says what is wrong with it


def _rows(name: str, value: Any) -> Iterator[tuple[str, Record]] | None:
    """Return the rows of an object of columns, or of one that has the rows under a key."""
    if not isinstance(value, dict) or not value:
        return None
    inner = {key: part for key, part in value.items() if key in _AROUND}
    found = [(key, _listed(f"{name}, {key}", part)) for key, part in inner.items()]
    if found and all(rows is not None for _, rows in found):
        return chain.from_iterable(rows for _, rows in found if rows is not None)
    return _listed(name, value)


def _listed(name: str, value: Any) -> Iterator[tuple[str, Record]] | None:
    """Return the rows of a list of objects, of columns by row number, or of columns as lists."""
    if isinstance(value, list) and all(isinstance(row, dict) for row in value):
        if not value:
            raise DataError(f"{name}: the list is empty, there is no record in it.")
        return ((f"{name}, row {number}", row) for number, row in enumerate(value))
    if not isinstance(value, dict) or not value:
        return None
    columns = {
        key: dict(enumerate(column)) if isinstance(column, list) else column
        for key, column in value.items()
    }
    if all(isinstance(column, list) for column in value.values()):
        if len({len(column) for column in value.values()}) > 1:
            return None
    elif not all(_by_number(column) for column in value.values()):
        if any(_by_number(column) for column in value.values()):
            raise DataError(f"{name}: some keys hold columns by row number, others do not.")
        return None
    longest = max(columns.values(), key=len)
    return (
        (f"{name}, row {row}", {key: col[row] for key, col in columns.items() if row in col})
        for row in longest
    )


def _by_number(column: Any) -> bool:
    return (
        isinstance(column, dict)
        and bool(column)
        and all(re.fullmatch("[0-9]+", row) for row in column)
    )


def _unwrapped(where: str, record: Record) -> Record:
    """Return a record without the row number that the hub's viewer puts around it."""
    row = record.get("row")
    if not isinstance(row, dict) or record.keys() - {"row_idx", "row", "truncated_cells"}:
        return record
    if record.get("truncated_cells"):
        raise DataError(
            f"{where}: the viewer has cut {', '.join(map(str, record['truncated_cells']))}; "
            "get the file itself."
        )
    return row


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
def working(folder: Path, what: str) -> Iterator[None]:
    """Hold a pipeline folder for one stage; a folder that the stage made and left empty goes again.

    Stages may hold the same folder within each other (`run` holds it for all of its stages).

    Parameters
    ----------
    folder : Path
        Made where it is not there.
    what : str
        The stage, for the message that a second run gets.

    Raises
    ------
    UsageError
        Another run holds the folder.
    """
    made = not folder.exists()
    with sole_run(folder, what):
        try:
            yield
        except BaseException:
            if made and [entry.name for entry in folder.iterdir()] == [LOCK]:
                with suppress(OSError):
                    (folder / LOCK).unlink()
                    folder.rmdir()
            raise


def beside(path: Path) -> Path:
    """Return where a file is kept, complete, until its manifest is written too.

    A run that is killed between the two finds it there and puts it into its place. It lies beside
    what a link leads to, so that it can be moved.
    """
    target = Path(os.path.realpath(path))
    return target.with_name(f"{target.stem}.new{target.suffix}")


def take_place(fresh: Path, path: Path) -> None:
    """Move a complete file to its place; a link stays a link.

    Raises
    ------
    DataError
        It cannot be moved.
    """
    try:
        os.replace(fresh, os.path.realpath(path))
    except OSError as error:
        raise DataError(f"{path} could not be written: {error.strerror or error}.") from None


def existing(folder: Path | str) -> Path:
    """Return a pipeline folder as a path.

    Raises
    ------
    DataError
        There is none.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"There is no folder {folder}: make it by `pipeline corpus`.")
    return folder


def placed(text: str | Path, base: Path | None = None) -> Path:
    """Return a path as it was meant: ``~`` is a home, the rest is relative to `base`.

    Parameters
    ----------
    text : str or Path
        As it was written.
    base : Path, optional
        What a relative path starts from; the working folder by default.

    Raises
    ------
    UsageError
        There is no such home, or a path cannot be so.

    Examples
    --------
    >>> placed("runs/mine", Path("/data")).as_posix()
    '/data/runs/mine'
    """
    if "\0" in str(text):
        raise UsageError(f"{str(text)!r} is not a path: it has a null character in it.")
    try:
        path = Path(text).expanduser()
    except RuntimeError:
        home = Path(text).parts[0]
        raise UsageError(
            f"{text}: no home folder is known for {home}; write the whole path."
        ) from None
    return path if base is None else base / path


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
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path.name} is not JSON ({error}); remove it and run again.") from None
    if not isinstance(value, dict):
        raise DataError(f"{path.name} is not a JSON object; remove it and run again.")
    return value
