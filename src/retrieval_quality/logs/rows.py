"""The one table that every log becomes, and what its cells may hold.

==============  ====================  ==============================================================
column          type                  meaning
==============  ====================  ==============================================================
query_id        text                  as the log has it, "007" is not "7"; null where it has none
query           text                  the question; null where it is not recorded
documents       list of text          ids in rank order; no id: ``sha256:`` and the hash of the text
scores          list of float         as logged; they never change the order of a trace
labels          list of float         relevance as logged; null: this document has no label;
                                      the whole list null: nothing is labelled
answer          text                  what was answered
reference       text                  the ideal answer
grade           float                 the quality of the answer
time            timestamp in UTC, ns  when; null where the zone is not known
group           text                  session, department, …
n_relevant      int                   documents in all with a label of at least 1; null: the labels
                                      cover only what was retrieved
missed          list of float         labels of judged documents that were not retrieved
texts           list of text          the documents' texts, where recorded
row             text                  where the row is in its source
trace, stage    text                  of a trace: its id, and retriever, nested_retriever, reranker
retrieved       text                  ``missing``: judged, but not in the run; ``unclear``: the log
                                      does not tell nothing retrieved from nothing recorded
==============  ====================  ==============================================================
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from retrieval_quality import outputs
from retrieval_quality.errors import DataError
from retrieval_quality.logs.account import Account, quote

SCHEMA = pa.schema(
    [
        ("query_id", pa.string()),
        ("query", pa.string()),
        ("documents", pa.list_(pa.string())),
        ("scores", pa.list_(pa.float64())),
        ("labels", pa.list_(pa.float64())),
        ("answer", pa.string()),
        ("reference", pa.string()),
        ("grade", pa.float64()),
        ("time", pa.timestamp("ns", tz="UTC")),
        ("group", pa.string()),
        ("n_relevant", pa.int64()),
        ("missed", pa.list_(pa.float64())),
        ("texts", pa.list_(pa.string())),
        ("row", pa.string()),
        ("trace", pa.string()),
        ("stage", pa.string()),
        ("retrieved", pa.string()),
    ]
)
COLUMNS = tuple(SCHEMA.names[:10])
"""The columns that a table of one's own has to have to be read as it is."""
BATCH_ROWS, BATCH_BYTES = 5_000, 64 << 20


@dataclass
class Row:
    """One retrieval: see the module for what its fields mean. `time` is in ns since 1970."""

    query_id: str | None = None
    query: str | None = None
    documents: list[str] = field(default_factory=list)
    scores: list[float | None] | None = None
    labels: list[float | None] | None = None
    answer: str | None = None
    reference: str | None = None
    grade: float | None = None
    time: int | None = None
    group: str | None = None
    n_relevant: int | None = None
    missed: list[float] | None = None
    texts: list[str | None] | None = None
    row: str = ""
    trace: str | None = None
    stage: str | None = None
    retrieved: str | None = None

    @property
    def size(self) -> int:
        """About how many bytes of text it holds."""
        texts = sum(len(text or "") for text in self.texts or ())
        return texts + len(self.query or "") + len(self.answer or "") + 64 * len(self.documents)


NAMES = tuple(one.name for one in fields(Row))


class FieldError(ValueError):
    """A value that cannot be what it should be; the reader adds the place."""

    def __init__(self, field: str, what: str) -> None:
        super().__init__(what)
        self.field = field
        self.what = what


# --- values -------------------------------------------------------------------------------------


def content_id(text: str) -> str:
    """Tell documents without ids apart by their exact text.

    Examples
    --------
    >>> content_id("a")[:14]
    'sha256:ca97811'
    """
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def as_id(value: object, field: str) -> str | None:
    """Read an id: text stays as it is, a whole number becomes its digits; null and "" are none.

    Raises
    ------
    FieldError
        It is a boolean, a fraction, a list or an object.

    Examples
    --------
    >>> as_id("007", "id"), as_id(7, "id"), as_id("104.0", "id"), as_id("", "id")
    ('007', '7', '104.0', None)
    """
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if hasattr(value, "item") and isinstance(value.item(), int):
        return str(value.item())
    raise FieldError(field, f"{quote(value)} is no id: text or a whole number")


def as_text(value: object, field: str) -> str | None:
    """Read a text; null is none.

    Raises
    ------
    FieldError
        It is not text.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, str):
        return value
    raise FieldError(field, f"{quote(value)} where a text belongs")


_NUMBER = re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)


def as_number(value: object, field: str, decimal: str = ".") -> float | None:
    """Read a finite number, as number or text; null, "" and nan are none.

    Raises
    ------
    FieldError
        It is something else.

    Examples
    --------
    >>> as_number("1e-3", "score"), as_number(".5", "score"), as_number("nan", "grade")
    (0.001, 0.5, None)
    """
    if value is None or value == "":
        return None
    if isinstance(value, str):
        text = value.replace(decimal, ".") if decimal != "." and "." not in value else value
        if text.strip().lower() in ("nan", "null", "none", "na"):
            return None
        if text.strip().lower().lstrip("+-") in ("inf", "infinity"):
            raise FieldError(field, f"{quote(value)} is not a finite number")
        if not _NUMBER.fullmatch(text):
            raise FieldError(field, f"{quote(value)} is not a number")
        number = float(text)
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise FieldError(field, f"{quote(value)} is not a number")
    else:
        number = float(value)
    if math.isnan(number):
        return None
    if math.isinf(number):
        raise FieldError(field, f"{quote(value)} is not a finite number")
    return number


_WORDS = {"true": 1.0, "false": 0.0}


def as_label(value: object, field: str, decimal: str = ".") -> float | None:
    """Read a label: a whole number, true or false; null and "" are no label.

    Raises
    ------
    FieldError
        It is a fraction, or no number.

    Examples
    --------
    >>> [as_label(value, "label") for value in (3, "1.0", True, None, -1)]
    [3.0, 1.0, 1.0, None, -1.0]
    >>> as_label("0.5", "label")
    Traceback (most recent call last):
    ...
    retrieval_quality.logs.rows.FieldError: the label '0.5' is no whole number; cut it to 0 and 1
    """
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and value.strip().lower() in _WORDS:
        return _WORDS[value.strip().lower()]
    try:
        number = as_number(value, field, decimal)
    except FieldError as error:
        raise FieldError(field, f"the label {quote(value)} is not a whole number") from error
    if number is not None and number % 1:
        raise FieldError(field, f"the label {quote(value)} is no whole number; cut it to 0 and 1")
    return number


_ISO = re.compile(
    r"\s*(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9})\d*)?)?)?\s*"
    r"(Z|z|UTC|[+-]\d\d(?::?\d\d)?)?\s*"
)
_EPOCHS = ((1e11, 10**9), (1e14, 10**6), (1e17, 10**3), (math.inf, 1))
NO_ZONE = "times without a zone, not used (--assume-zone gives one)"


def as_time(
    value: object, field: str, account: Account | None, zone: tzinfo | None = None
) -> int | None:
    """Read a time: ISO 8601 with a zone, or an epoch in s, ms, us or ns, told by its size.

    Parameters
    ----------
    value : object
        Text, number or datetime.
    field : str
        For the message.
    account : Account or None
        Where a time without a zone is counted; it is not guessed.
    zone : tzinfo, optional
        What a time without a zone is in.

    Returns
    -------
    int or None
        Nanoseconds since 1970 in UTC.

    Raises
    ------
    FieldError
        It is no time.

    Examples
    --------
    >>> as_time("2025-03-04T11:15:00+02:00", "at", None)
    1741079700000000000
    >>> as_time(1741079700, "at", None) == as_time("1741079700000", "at", None)
    True
    """
    if value is None or value == "":
        return None
    if isinstance(value, datetime):
        value = value.isoformat()
    if isinstance(value, str) and not value.strip().lstrip("-").isdigit():
        found = _ISO.fullmatch(value)
        if not found:
            return _epoch(as_number(value, field), field)
        year, month, day, hour, minute, second, fraction, offset = found.groups()
        try:
            moment = datetime(
                *(int(one or 0) for one in (year, month, day, hour, minute, second))  # type: ignore[arg-type]
            )
        except ValueError as error:
            raise FieldError(field, f"{quote(value)} is no time: {error}") from error
        if offset is None and zone is None:
            if account is not None:
                account.note(NO_ZONE)
            return None
        if offset is None:
            moment = moment.replace(tzinfo=zone)
        else:
            moment = moment.replace(tzinfo=UTC) - _offset(offset)
        delta = moment - datetime(1970, 1, 1, tzinfo=UTC)
        seconds = delta.days * 86_400 + delta.seconds
        return seconds * 10**9 + int((fraction or "0").ljust(9, "0"))
    if isinstance(value, str):
        return _epoch(int(value), field)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _epoch(value, field)
    raise FieldError(field, f"{quote(value)} is no time")


def _offset(text: str) -> timedelta:
    if text in ("Z", "z", "UTC"):
        return timedelta()
    digits = text[1:].replace(":", "").ljust(4, "0")
    size = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return -size if text[0] == "-" else size


def _epoch(value: float | None, field: str) -> int | None:
    if value is None:
        return None
    unit = next(unit for bound, unit in _EPOCHS if abs(value) < bound)
    nanoseconds = round(value * unit) if isinstance(value, float) else value * unit
    if not 0 <= nanoseconds < 2**63:
        raise FieldError(field, f"{quote(value)} is no time after 1970")
    return int(nanoseconds)


# --- documents ----------------------------------------------------------------------------------


@dataclass
class Document:
    """A retrieved document as far as a log tells."""

    id: str | None = None
    text: str | None = None
    score: float | None = None
    label: float | None = None

    def key(self, field: str) -> str:
        """Its id, else the hash of its text.

        Raises
        ------
        FieldError
            It has neither.
        """
        if self.id is not None:
            return self.id
        if self.text:
            return content_id(self.text)
        raise FieldError(field, "neither an id nor a text: it cannot be told from other documents")


def fill(row: Row, documents: list[Document], field: str) -> Row:
    """Put documents into a row.

    Raises
    ------
    FieldError
        One of them has no identity; names it by its index from 0.
    """
    row.documents = [one.key(field.format(i)) for i, one in enumerate(documents)]
    if any(one.score is not None for one in documents):
        row.scores = [one.score for one in documents]
    if any(one.text is not None for one in documents):
        row.texts = [one.text for one in documents]
    if any(one.label is not None for one in documents):
        row.labels = [one.label for one in documents]
    return row


def judge_complete(row: Row, relevant: Iterable[str]) -> None:
    """Label a row by the ids of all that is relevant: a document not among them is not."""
    wanted = list(dict.fromkeys(relevant))
    known = set(wanted)
    row.labels = [1.0 if one in known else 0.0 for one in row.documents]
    row.missed = [1.0] * len(known.difference(row.documents))
    row.n_relevant = len(known)


# --- the table ----------------------------------------------------------------------------------


def as_table(rows: list[Row]) -> pa.Table:
    """Return rows as an Arrow table."""
    columns = {name: [getattr(row, name) for row in rows] for name in SCHEMA.names}
    columns["row"] = [row.row for row in rows]
    for name in ("query", "answer", "reference", "texts"):
        columns[name] = [_whole(value) for value in columns[name]]
    return pa.table(columns, schema=SCHEMA)


def _whole(value: Any) -> Any:
    """Replace halves of characters, which no file can hold."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode() if not value.isascii() else value
    if isinstance(value, list):
        return [_whole(one) for one in value]
    return value


def batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Cut rows into lists that are bounded in number and in bytes."""
    batch: list[Row] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += row.size
        if len(batch) >= BATCH_ROWS or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def write(rows: Iterable[Row], path: Path, account: Account) -> int:
    """Write rows to a Parquet file, a batch at a time; it is put in its place when whole.

    Returns
    -------
    int
        Rows written.

    Raises
    ------
    DataError
        The rows are broken, or the file cannot be written.
    """
    count = 0
    with outputs.placing(path) as part:
        with pq.ParquetWriter(part, SCHEMA, compression="zstd") as writer:
            for batch in batches(rows):
                writer.write_table(as_table(batch))
                count += len(batch)
        account.settle()
        if not count:
            raise DataError(nothing(account))
    return count


def nothing(account: Account) -> str:
    """Say that a source gave no row, and what was in it."""
    told = "; ".join(str(notice) for notice in account.notices.values())
    return f"{account.source}: no retrieval in it that can be used" + (f" ({told})" if told else "")


def read(path: Path) -> Iterator[Row]:
    """Yield the rows of a table that `write` made, or that has its first ten columns.

    Raises
    ------
    DataError
        The file is broken, or a row's lists differ in length.
    """
    with opened_parquet(path) as file:
        names = [name for name in SCHEMA.names if name in file.schema_arrow.names]
        number = 0
        for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=names):
            try:
                batch = pa.Table.from_batches([batch]).cast(
                    pa.schema([SCHEMA.field(name) for name in names])
                )
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise DataError(f"{path}: not the table of `logs import` ({error})") from error
            columns = {
                name: (batch[name].cast(pa.int64()) if name == "time" else batch[name]).to_pylist()
                for name in names
            }
            for i in range(len(batch)):
                number += 1
                row = Row(**{name: columns[name][i] for name in names})
                row.row = row.row or f"row {number}"
                row.documents = row.documents or []
                for name in ("labels", "scores", "texts"):
                    found = getattr(row, name)
                    if found is not None and len(found) != len(row.documents):
                        raise DataError(
                            f"{path}, row {number}, {name}: {len(found)} for "
                            f"{len(row.documents)} documents"
                        )
                yield row


def opened_parquet(path: Path) -> pq.ParquetFile:
    """Open a Parquet file.

    Raises
    ------
    DataError
        It is missing or broken.
    """
    try:
        return pq.ParquetFile(path)
    except FileNotFoundError as error:
        raise DataError(f"there is no file {path}") from error
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{path} is no whole Parquet file: {error}") from error


def parquet_records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of any Parquet file as dictionaries; timestamps are ns since 1970."""
    with opened_parquet(path) as file:
        number = 0
        for batch in file.iter_batches(batch_size=2_000):
            columns: dict[str, list[Any]] = {}
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                if pa.types.is_timestamp(column.type):
                    if column.type.tz is None:  # a zone is not guessed
                        columns[name] = [one and str(one) for one in column.to_pylist()]
                        continue
                    column = column.cast(pa.timestamp("ns", tz="UTC")).cast(pa.int64())
                columns[name] = column.to_pylist()
            for values in zip(*columns.values(), strict=True):
                number += 1
                yield f"row {number}", dict(zip(columns, values, strict=True))


def first(rows: Iterable[Row], count: int) -> list[Row]:
    """Return the first rows."""
    return list(islice(rows, count))
