"""Bytes of a log to records: gzip, byte-order marks, line ends, JSON, CSV; memory stays flat."""

from __future__ import annotations

import csv
import gzip
import io
import json
import pickle
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import duckdb
import jiter
import pyarrow as pa

from retrieval_quality.errors import DataError
from retrieval_quality.logs.account import Account, quote

BOM = b"\xef\xbb\xbf"
IN_MEMORY = 200_000
"""Entries that are grouped in memory; more go to a file."""
LONGEST_CELL = 1 << 30
_PACKED = {
    b"\x28\xb5\x2f\xfd": "Zstandard",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"PK\x03\x04": "a zip archive",
}

Place = str
Record = tuple[Place, Any]


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file's bytes behind gzip and a byte-order mark.

    Raises
    ------
    DataError
        It cannot be read, is empty, or is in an encoding or packing that is not read.
    """
    try:
        with path.open("rb") as raw:
            start = raw.read(8)
            raw.seek(0)
            if not start:
                raise DataError(f"{path}: the file holds no rows (0 bytes)")
            for magic, name in _PACKED.items():
                if start.startswith(magic):
                    raise DataError(f"{path} is packed as {name}: unpack it, or use gzip")
            packed = start.startswith(b"\x1f\x8b")
            source = gzip.GzipFile(fileobj=raw) if packed else raw
            file = io.BufferedReader(source)  # type: ignore[arg-type]
            head = file.peek(4)[:4]
            if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
                raise DataError(f"{path} is in UTF-16: save it as UTF-8")
            if head.startswith(BOM):
                file.read(3)
            yield file
    except FileNotFoundError as error:
        raise DataError(f"there is no file {path}") from error
    except (OSError, EOFError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error


def text_of(name: str, raw: bytes, place: str) -> str:
    """Decode one line.

    Raises
    ------
    DataError
        It is not UTF-8; says where.
    """
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name}, {place}: byte {error.start + 1} is not UTF-8; save the file as UTF-8"
        ) from error


def lines(path: Path) -> Iterator[tuple[int, str]]:
    r"""Yield the lines of a file with their numbers, blank ones left out.

    A line ends at ``\n`` or ``\r\n`` and nowhere else.
    """
    with opened(path) as file:
        for number, raw in enumerate(file, start=1):
            text = text_of(path.name, raw, f"line {number}").rstrip("\r\n")
            if text.strip():
                yield number, text


def first_line(path: Path) -> str:
    """Return the first line that is not blank and no comment; empty where there is none."""
    for _, text in lines(path):
        if not text.startswith("#"):
            return text
    return ""


def parse(text: str | bytes) -> Any:
    """Parse JSON strictly: a key given twice is refused; a bare NaN is let through.

    Raises
    ------
    ValueError
        It is no JSON; says the line and column.
    """
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return jiter.from_json(raw, allow_inf_nan=True, catch_duplicate_keys=True)


def is_lines(path: Path) -> bool:
    """Whether a JSON file has one record a line."""
    with opened(path) as file:
        found = [line.strip() for line in islice((one for one in file if one.strip()), 2)]
    if not found:
        return False
    first = found[0]
    if len(found) == 1:
        named = path.name.lower().removesuffix(".gz").endswith(("jsonl", "ndjson"))
        return named and not first.startswith(b"[")
    try:
        return isinstance(parse(first), dict)
    except ValueError:
        # one document over several lines breaks off where something is to follow
        return found[1].startswith(b"{") and not first.endswith((b"{", b"[", b","))


def records(path: Path, account: Account, noun: str = "record") -> Iterator[Record]:
    """Yield the records of a JSON file with their places.

    One object a line, an array of objects (`noun` and number name them), one object, or indented
    objects one after another.
    """
    if is_lines(path):
        for number, text in lines(path):
            try:
                yield f"line {number}", parse(text)
            except ValueError as error:
                account.fault(f"line {number}", "", f"not whole JSON ({error})")
        return
    with opened(path) as file:
        content = file.read()
    try:
        whole = parse(content)
    except ValueError as error:
        several = _one_after_another(content) if "trailing" in str(error) else []
        if not several:
            where = "ends early" if "EOF" in str(error) else "is broken"
            raise DataError(f"{path}: the JSON document {where} ({error})") from error
        whole = several
    if isinstance(whole, list):
        for number, one in enumerate(whole, start=1):
            yield f"{noun} {number}", one
    else:
        yield "", whole


def _one_after_another(content: bytes) -> list[Any]:
    text, position, found = content.decode("utf-8", "replace"), 0, []
    decoder = json.JSONDecoder()
    while position < len(text):
        try:
            one, position = decoder.raw_decode(text, position)
        except ValueError:
            return []
        found.append(one)
        while position < len(text) and text[position] in " \t\r\n,":
            position += 1
    return found


def table_rows(
    path: Path, account: Account, delimiter: str | None = None
) -> Iterator[tuple[Place, dict[str, str]]]:
    """Yield the rows of a CSV file as dictionaries of text, with the line each begins on.

    Raises
    ------
    DataError
        The header names a column twice, or the quoting does not close.
    """
    csv.field_size_limit(LONGEST_CELL)
    with opened(path) as raw, io.TextIOWrapper(raw, encoding="utf-8", newline="") as file:
        try:
            head = file.readline()
        except UnicodeDecodeError as error:
            raise DataError(f"{path} is not UTF-8 ({error.reason}); save it as UTF-8") from error
        sign = delimiter or delimiter_of(head)
        header = next(csv.reader([head], delimiter=sign, strict=True), [])
        header = [name.strip() for name in header]
        twice = [name for name in header if header.count(name) > 1]
        if twice:
            raise DataError(f"{path}, line 1: the column {quote(twice[0])} is there twice")
        reader = csv.reader(file, delimiter=sign, strict=True)
        begins = 2
        while True:
            try:
                cells = next(reader, None)
            except UnicodeDecodeError as error:
                raise DataError(f"{path}, line {begins}: not UTF-8 ({error.reason})") from error
            except csv.Error as error:
                raise DataError(f"{path}, line {begins}: {error}") from error
            if cells is None:
                return
            place, begins = f"line {begins}", reader.line_num + 2
            if not cells or (len(cells) == 1 and not cells[0].strip() and len(header) > 1):
                continue
            if len(cells) != len(header):
                account.fault(place, "", f"{len(cells)} cells for {len(header)} columns")
                continue
            yield place, dict(zip(header, cells, strict=True))


def delimiter_of(head: str) -> str:
    """Guess what stands between the columns from the header.

    Examples
    --------
    >>> delimiter_of("a;b,c;d")
    ';'
    """
    return max(",;\t", key=head.count)


def is_csv(path: Path) -> bool:
    """Whether a file is a table of text: by its name, else because it does not begin as JSON."""
    name = path.name.lower().removesuffix(".gz")
    if name.endswith((".csv", ".tsv", ".txt")):
        return True
    if name.endswith((".json", ".jsonl", ".ndjson", ".parquet")):
        return False
    return first_line(path).lstrip()[:1] not in ("{", "[")


def columns_of(path: Path, delimiter: str | None = None) -> list[str]:
    """Return the names in the header of a CSV file."""
    head = next(lines(path), (1, ""))[1]
    sign = delimiter or delimiter_of(head)
    return [name.strip() for name in next(csv.reader([head], delimiter=sign), [])]


def grouped(
    entries: Iterable[tuple[str, Any]], in_memory: int = IN_MEMORY
) -> Iterator[tuple[str, list[Any]]]:
    """Gather entries by key, keys in the order in which they first come; larger than memory too.

    Parameters
    ----------
    entries : iterable of (str, object)
        The objects can be pickled.
    in_memory : int
        How many are held in memory; more go through a DuckDB file in the temporary folder.

    Examples
    --------
    >>> list(grouped([("b", 1), ("a", 2), ("b", 3)]))
    [('b', [1, 3]), ('a', [2])]
    >>> list(grouped([("b", 1), ("a", 2), ("b", 3)], in_memory=1))
    [('b', [1, 3]), ('a', [2])]
    """
    source = iter(entries)
    held: dict[str, list[Any]] = defaultdict(list)
    for count, (key, value) in enumerate(source, start=1):
        held[key].append(value)
        if count > in_memory:
            break
    else:
        yield from held.items()
        return
    with tempfile.TemporaryDirectory() as folder:
        base = duckdb.connect(str(Path(folder) / "entries.duckdb"))
        try:
            base.execute("SET memory_limit = '512MB'")
            base.execute("SET threads = 1")
            base.execute("CREATE TABLE entries (seq BIGINT, key VARCHAR, value BLOB)")
            begun = [(key, value) for key, values in held.items() for value in values]
            held.clear()
            _spill(base, begun, source)
            base.execute(
                "CREATE TABLE firsts AS SELECT key, min(seq) first FROM entries GROUP BY 1"
            )
            found = base.execute(
                "SELECT key, value FROM entries JOIN firsts USING (key) ORDER BY first, seq"
            )
            yield from _gathered(found)
        finally:
            base.close()


def _spill(base: Any, begun: list[tuple[str, Any]], rest: Iterator[tuple[str, Any]]) -> None:
    """Put all entries into the table, numbered, a batch at a time."""
    source = chain(begun, rest)
    seq = 0
    while batch := list(islice(source, 50_000)):
        rows = pa.table(
            {
                "seq": range(seq, seq + len(batch)),
                "key": [key for key, _ in batch],
                "value": [pickle.dumps(value, protocol=5) for _, value in batch],
            }
        )
        base.register("batch", rows)
        base.execute("INSERT INTO entries SELECT seq, key, value FROM batch")
        base.unregister("batch")
        seq += len(batch)


def _gathered(found: Any) -> Iterator[tuple[str, list[Any]]]:
    current: str | None = None
    values: list[Any] = []
    while batch := found.fetchmany(10_000):
        for key, value in batch:
            if key != current and current is not None:
                yield current, values
                values = []
            current = key
            values.append(pickle.loads(value))
    if current is not None:
        yield current, values
