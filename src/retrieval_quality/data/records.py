"""Files to batches of records, in bounded memory: JSON array, JSON lines, gzip, Parquet.

A JSON array is read in blocks and cut at the last ``}``, comma, ``{`` of what has been read. The
piece up to the cut is parsed by itself, closed with ``]``: that succeeds exactly if the cut lies
between two records, for inside a text or a nested object the piece would be unbalanced. So the
parser decides and the search only proposes. NaN, Infinity, a key that is given twice, and
anything after the end of the array are refused with their position.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import jiter
import pyarrow as pa
import pyarrow.parquet as pq

from retrieval_quality.errors import DataError

BLOCK = 2**20
"""Bytes read at a time."""

LONGEST_RECORD = 64 * 2**20
"""Bytes that may be read without meeting the end of a record; bounds the memory."""

PARQUET_BATCH = 4096
"""Rows of a Parquet file that make a batch, fewer where they weigh more than `PARQUET_BYTES`."""

PARQUET_BYTES = 8 * 2**20
"""Bytes of a Parquet file's values that make a batch."""

_FEW = 128

_JSON = (".json", ".jsonl", ".ndjson")
ENDINGS = (*_JSON, *(f"{ending}.gz" for ending in _JSON), ".parquet")
"""Endings of the files that can be read."""

_REFUSED_STARTS = {
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ\x00": "compressed with xz",
    b"\x28\xb5\x2f\xfd": "compressed with Zstandard",
    b"\x04\x22\x4d\x18": "compressed with LZ4",
    b"PK\x03\x04": "a ZIP archive",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
}
_UTF8_MARK = b"\xef\xbb\xbf"
_BETWEEN_RECORDS = re.compile(rb"\}[ \t\r\n]*,[ \t\r\n]*(?=\{[ \t\r\n]*\")")
_COMMA = re.compile(r"[ \t\r\n]*,?[ \t\r\n]*")
_PLACE = re.compile(r" at line (\d+) column (\d+)$")
_SCANNER = json.JSONDecoder()


@dataclass(frozen=True)
class Batch:
    """Consecutive records of a file.

    Attributes
    ----------
    records : list
        The records as Python objects; that each is a dictionary is not checked here.
    where : callable
        ``where(i)`` is the place of ``records[i]``, for a message: file, record, byte or line.
    """

    records: list[Any]
    where: Callable[[int], str]


def read_batches(
    path: Path,
    *,
    on_bytes: Callable[[int], object] = lambda count: None,
    on_lines: Callable[[], object] = lambda: None,
) -> Iterator[Batch]:
    """Yield the records of a JSON, JSON lines or Parquet file in batches.

    Parameters
    ----------
    path : Path
        The file; gzip, Parquet and a byte-order mark are recognised by content, not by name.
    on_bytes : callable, optional
        Told how many bytes of the file each step has read, for a progress bar.
    on_lines : callable, optional
        Told once if the file holds one record a line instead of an array.

    Yields
    ------
    Batch
        At least one record each, in the order of the file.

    Raises
    ------
    DataError
        Names the file and the byte, line or record at which it cannot be read; also where the
        file has no record at all.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "two.json"
    >>> _ = path.write_text('[{"a": 1}, {"a": 2}]', encoding="utf-8")
    >>> [(batch.records, batch.where(1)) for batch in read_batches(path)]
    [([{'a': 1}, {'a': 2}], 'two.json, record 2 (byte 11)')]
    >>> folder.cleanup()
    """
    try:
        with path.open("rb") as raw:
            start = raw.read(4)
            raw.seek(0)
            if start == b"PAR1":
                yield from _parquet(path, on_bytes)
            else:
                gzipped = start.startswith(b"\x1f\x8b")
                yield from _json(path.name, _reader(raw, gzipped, on_bytes), on_lines)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(
            f"{path.name}: the gzip file is cut off or damaged ({error}). Get the file again."
        ) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}).") from None


def _refuse_start(name: str, start: bytes) -> None:
    """Refuse what its first bytes name: nothing, other compressions, other encodings."""
    if not start:
        raise DataError(f"{name}: the file is empty.")
    for magic, what in _REFUSED_STARTS.items():
        if start.startswith(magic):
            raise DataError(f"{name}: is {what}, which is not read here. Unpack it, or use gzip.")
    if start.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\x00" in start[:4]:
        raise DataError(f"{name}: is in UTF-16 or UTF-32, or no text at all. Save it as UTF-8.")


def _reader(raw: BinaryIO, gzipped: bool, on_bytes: Callable[[int], object]) -> Callable[[], bytes]:
    text = gzip.GzipFile(fileobj=raw) if gzipped else raw
    told = 0

    def read() -> bytes:
        nonlocal told
        block = text.read(BLOCK)
        on_bytes(raw.tell() - told)
        told = raw.tell()
        return block

    return read


def _json(name: str, read: Callable[[], bytes], on_lines: Callable[[], object]) -> Iterator[Batch]:
    head = read()
    _refuse_start(name, head[:8])
    mark = len(_UTF8_MARK) if head.startswith(_UTF8_MARK) else 0
    while not head[mark:].strip() and (block := read()):
        head += block
    first = head[mark:].lstrip()[:1]
    if first == b"[":
        begin = head.index(b"[") + 1
        yield from _array(name, read, head[begin:], begin)
    elif first == b"{":
        on_lines()
        yield from _lines(name, read, head[mark:])
    elif not first:
        raise DataError(f"{name}: there is nothing in the file but blanks.")
    else:
        begin = head.index(first, mark)
        raise DataError(
            f"{name}: found {first!r} at byte {begin}, where a JSON array of objects, or one JSON "
            "object a line, begins."
        )


def _array(name: str, read: Callable[[], bytes], buffer: bytes, offset: int) -> Iterator[Batch]:
    """Yield the records of a JSON array; `buffer` begins at byte `offset` of the file."""
    count = 0
    while block := read():
        buffer += block
        parsed = _cut(name, buffer, count, offset)
        if parsed:
            records, after, following = parsed
            yield Batch(records, _place_in_array(name, buffer[:after], count, offset))
            count += len(records)
            offset += following
            buffer = buffer[following:]
        elif len(buffer) > LONGEST_RECORD:
            raise DataError(
                f"{name}, record {count + 1} (byte {offset}): does not end within "
                f"{LONGEST_RECORD // 2**20} MB. Expected is an array of small objects."
            )
    try:
        records = _parse(b"[" + buffer)
    except ValueError as error:
        raise _syntax_error(name, buffer, count, offset, error) from None
    if not records and not count:
        raise DataError(f"{name}: the array is empty, there is no record in it.")
    yield Batch(records, _place_in_array(name, buffer, count, offset))


def _cut(name: str, buffer: bytes, count: int, offset: int) -> tuple[list[Any], int, int] | None:
    """Parse the records that end in the buffer: them, the byte behind, the byte of the next.

    None if no record is known to end there.
    """
    end = len(buffer)
    while (end := buffer.rfind(b"}", 0, end)) >= 0:
        cut = _BETWEEN_RECORDS.match(buffer, end)
        if cut is None:
            continue
        try:
            return _parse(b"[" + buffer[: end + 1] + b"]"), end + 1, cut.end()
        except ValueError as error:
            if not str(error).startswith("EOF"):  # EOF: balanced so far, the cut was inside
                raise _syntax_error(name, buffer, count, offset, error) from None
    return None


def _parse(piece: bytes) -> Any:
    return jiter.from_json(piece, allow_inf_nan=False, catch_duplicate_keys=True, cache_mode="keys")


def _syntax_error(name: str, piece: bytes, count: int, offset: int, error: ValueError) -> DataError:
    """Tell byte and record of an error that the parser found in ``b"[" + piece``."""
    message = str(error)
    line, column = map(int, _PLACE.search(message).groups())  # type: ignore[union-attr]
    lines = (b"[" + piece).split(b"\n")
    byte = max(sum(len(text) + 1 for text in lines[: line - 1]) + column - 2, 0)
    if message.startswith("EOF"):
        byte = len(piece)
    record = count + max(sum(start <= byte for start in _record_starts(piece)), 1)
    return DataError(
        f"{name}, record {record} (byte {offset + byte}): {_PLACE.sub('', message)}. "
        "Correct the file, or get it again if it was cut off."
    )


def _record_starts(piece: bytes) -> Iterator[int]:
    """Bytes at which the records of a piece begin, up to and with the first broken one."""
    text = piece.decode("latin-1")  # one character a byte
    position = _COMMA.match(text).end()  # type: ignore[union-attr]
    while position < len(text) and text[position] != "]":
        yield position
        try:
            _, end = _SCANNER.raw_decode(text, position)
        except (ValueError, RecursionError):  # the second: nested deeper than any parser follows
            return
        position = _COMMA.match(text, end).end()  # type: ignore[union-attr]


def _place_in_array(name: str, piece: bytes, count: int, offset: int) -> Callable[[int], str]:
    def where(index: int) -> str:
        byte = offset + list(_record_starts(piece))[index]
        return f"{name}, record {count + index + 1} (byte {byte})"

    return where


def _lines(name: str, read: Callable[[], bytes], buffer: bytes) -> Iterator[Batch]:
    """Yield the records of a file with one JSON object a line; blank lines are passed over."""
    done = 0  # lines of the file before the buffer
    while True:
        block = read()
        buffer += block
        end = buffer.rfind(b"\n") + 1 if block else len(buffer)
        if end == 0 and len(buffer) > LONGEST_RECORD:
            raise DataError(
                f"{name}, line {done + 1}: is longer than {LONGEST_RECORD // 2**20} MB."
            )
        lines = buffer[:end].split(b"\n")
        numbers = [number for number, line in enumerate(lines, done + 1) if line.strip()]
        if numbers:
            records = [_parse_line(name, lines[number - done - 1], number) for number in numbers]
            yield Batch(records, _place_in_lines(name, numbers))
        if not block:
            return
        done += len(lines) - 1
        buffer = buffer[end:]


def _place_in_lines(name: str, numbers: list[int]) -> Callable[[int], str]:
    return lambda index: f"{name}, line {numbers[index]}"


def _parse_line(name: str, line: bytes, number: int) -> Any:
    try:
        return _parse(line)
    except ValueError as error:
        column = _PLACE.search(str(error))
        raise DataError(
            f"{name}, line {number}{f', column {column[2]}' if column else ''}: "
            f"{_PLACE.sub('', str(error))}. Expected is one JSON object a line, or one array."
        ) from None


def _parquet(path: Path, on_bytes: Callable[[int], object]) -> Iterator[Batch]:
    size = path.stat().st_size
    try:
        with pq.ParquetFile(path, buffer_size=BLOCK, pre_buffer=False) as file:
            names = Counter(file.schema_arrow.names)
            if twice := [name for name, times in names.items() if times > 1]:
                raise DataError(f"{path.name}: the column {twice[0]!r} is there twice.")
            if not file.metadata.num_rows:
                raise DataError(f"{path.name}: there is no row in it.")
            done = 0
            for rows in _gathered(file):
                yield Batch(_as_records(path.name, rows, done), _place_in_rows(path.name, done))
                done += rows.num_rows
                on_bytes(size * rows.num_rows // file.metadata.num_rows)
    except pa.ArrowException as error:
        raise DataError(
            f"{path.name}: cannot be read as Parquet ({error}). Get the file again."
        ) from None


def _gathered(file: pq.ParquetFile) -> Iterator[pa.Table]:
    """Read few rows at a time, for they may be heavy, and gather them to larger batches."""
    waiting: list[pa.RecordBatch] = []
    rows = weight = 0
    for few in file.iter_batches(batch_size=_FEW):
        waiting.append(few)
        rows, weight = rows + few.num_rows, weight + few.nbytes
        if rows >= PARQUET_BATCH or weight >= PARQUET_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, rows, weight = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def _as_records(name: str, rows: pa.Table, done: int) -> list[Any]:
    """Turn rows into records; a value that Python cannot hold is refused with its place."""
    try:
        return rows.to_pylist()
    except (ValueError, OverflowError, KeyError):
        for column in rows.schema.names:
            for index, value in enumerate(rows[column], done + 1):
                try:
                    value.as_py()
                except (ValueError, OverflowError, KeyError) as error:
                    raise DataError(
                        f"{name}, row {index}: the value of {column!r} cannot be read ({error})."
                    ) from None
        raise


def _place_in_rows(name: str, done: int) -> Callable[[int], str]:
    return lambda index: f"{name}, row {done + index + 1}"
