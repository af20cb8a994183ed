"""JSON lines, CSV and Parquet with columns of the user's own, named through a mapping."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.logs.account import Account, quote
from retrieval_quality.logs.cases import as_list, dig
from retrieval_quality.logs.files import Record, columns_of, grouped, is_csv, records, table_rows
from retrieval_quality.logs.options import LONG, WIDE, Options
from retrieval_quality.logs.rows import (
    Document,
    FieldError,
    Row,
    as_id,
    as_label,
    as_number,
    as_text,
    as_time,
    fill,
    opened_parquet,
    parquet_records,
)

_IDS = ("id", "doc_id", "document_id", "docid", "_id")
_TEXTS = ("text", "content", "page_content", "document")
_LABELS = ("label", "relevance", "relevant")
_SCORES = ("score",)
GUESSES: dict[str, tuple[str, ...]] = {
    "query_id": ("query_id", "qid"),
    "query": ("query", "question"),
    "documents": ("documents", "docs", "retrieved"),
    "document": ("document", "doc", "docid", "document_id"),
    **{name: (name,) for name in (*WIDE[3:], "rank", "label", "score")},
}
"""Names that are taken for ours where the user names none."""


def read_plain(path: Path, options: Options, account: Account) -> Iterator[Row]:
    """Yield the rows of a log with columns of its own, one a query or (long) one a document.

    Raises
    ------
    DataError
        A named column is not there; or at the end: whatever was wrong.
    """
    names = columns(path, options)
    long = options.layout == "long" or (
        not options.layout and "documents" not in names and "document" in names
    )
    wanted = "document" if long else "documents"
    if wanted not in names and not (long and "doc_text" in names):
        found = f"found: {', '.join(map(quote_name, found_columns(path, options)))}"
        raise UsageError(
            f"{path.name}: no column for the {wanted}; name it with --columns {wanted}=…; {found}"
        )
    yield from (_long if long else _wide)(path, names, options, account)
    account.settle()


def quote_name(name: str) -> str:
    """Show a column's name in a message."""
    return quote(name)[1:-1]


def found_columns(path: Path, options: Options) -> list[str]:
    """Return the names of the columns, of JSON lines those of the first record."""
    kind = path.name.lower().removesuffix(".gz")
    if kind.endswith(".parquet"):
        with opened_parquet(path) as file:
            return list(file.schema_arrow.names)
    if is_csv(path):
        return columns_of(path, options.delimiter)
    for _, record in records(path, Account(path.name)):
        return list(record) if isinstance(record, dict) else []
    return []


def columns(path: Path, options: Options) -> dict[str, str]:
    """Return our names and the log's: as told, else by the usual names that are there.

    Raises
    ------
    DataError
        A column that was told is not there; lists those that are.
    """
    given = dict(options.columns)
    if options.grade:
        given["grade"] = options.grade
    if options.group:
        given["group"] = options.group
    found = found_columns(path, options)
    nested = not is_csv(path)
    for ours, theirs in given.items():
        if ours in ("doc_id", "doc_text", "label", "score") and "documents" in given:
            continue  # within a document
        head = theirs.partition(".")[0] if nested else theirs
        if theirs not in found and head not in found and not (nested and _json(path)):
            raise DataError(
                f"{path}: there is no column {quote(theirs)} (for {ours}); "
                f"columns found: {', '.join(map(quote_name, found)) or 'none'}"
            )
    for ours, usual in GUESSES.items():
        if ours in given or (ours in LONG and "documents" in given):
            continue
        name = next((one for one in usual if one in found), None)
        if name is not None and name not in given.values():
            given[ours] = name
    return given


def _json(path: Path) -> bool:
    return not path.name.lower().endswith(".parquet")


def _source(path: Path, options: Options, account: Account) -> Iterator[Record]:
    kind = path.name.lower().removesuffix(".gz")
    if kind.endswith(".parquet"):
        yield from parquet_records(path)
    elif is_csv(path):
        yield from table_rows(path, account, options.delimiter)
    else:
        for place, record in records(path, account, "row"):
            if isinstance(record, dict):
                yield place, record
            else:
                account.fault(place, "", "not an object")


def _wide(path: Path, names: dict[str, str], options: Options, account: Account) -> Iterator[Row]:
    seen: set[str] | None = set()
    for place, record in _source(path, options, account):
        try:
            row = _row(record, place, names, options, account)
        except FieldError as wrong:
            account.fault(place, wrong.field, wrong.what)
            continue
        if row is None:
            continue
        if seen is not None and row.query_id is not None:
            if row.query_id in seen:
                account.note("query ids that come again (each row stands)", place)
            seen.add(row.query_id)
            if len(seen) > 1_000_000:
                account.note("repeated query ids not looked for after a million of them")
                seen = None
        yield row


def _common(
    record: dict[str, Any], names: dict[str, str], options: Options, account: Account
) -> Row:
    def told(name: str) -> Any:
        return dig(record, names[name]) if name in names else None

    def read(name: str, reader: Callable[[Any, str], Any]) -> Any:
        return reader(told(name), names.get(name, name))

    group = told("group")
    return Row(
        query_id=read("query_id", as_id),
        query=read("query", as_text),
        answer=read("answer", as_text) or None,
        reference=read("reference", as_text) or None,
        grade=as_number(told("grade"), names.get("grade", "grade"), options.decimal),
        time=as_time(told("time"), names.get("time", "time"), account, options.zone),
        group=group if isinstance(group, str) else as_id(group, names.get("group", "group")),
    )


def _row(
    record: dict[str, Any], place: str, names: dict[str, str], options: Options, account: Account
) -> Row | None:
    row = _common(record, names, options, account)
    row.row = place
    field = names["documents"]
    cell = dig(record, field)
    if cell == "" and options.list_separator is not None:
        found: list[Any] | None = []
    else:
        found = as_list(cell, field, options.list_separator)
    if found is None:
        account.note("documents not recorded, left out", place)
        return None
    if found and all(type(one) is str and one for one in found):
        row.documents = found
    else:
        documents = [_document(one, f"{field}[{i}]", names, options) for i, one in enumerate(found)]
        fill(row, documents, f"{field}[{{}}]")
    for name, reader in (("labels", as_label), ("scores", as_number), ("texts", None)):
        if name not in names:
            continue
        theirs = names[name]
        cell = dig(record, theirs)
        values = as_list(cell, theirs, options.list_separator)
        if values is None and not row.documents:
            values = []
        if values is None:
            continue
        if len(values) != len(row.documents):
            what = f"{len(values)} {name} for {len(row.documents)} documents"
            raise FieldError(theirs, what)
        if reader is None:
            row.texts = [as_text(one, f"{theirs}[{i}]") for i, one in enumerate(values)]
            continue
        if all(type(one) is int or (type(one) is float and one % 1 == 0) for one in values):
            numbers: list[float | None] = [float(one) for one in values]
        else:
            numbers = [
                reader(one, f"{theirs}[{i}]", options.decimal) for i, one in enumerate(values)
            ]
        if name == "labels":
            row.labels = numbers
        else:
            row.scores = numbers
    if "n_relevant" in names:
        _complete(row, as_number(dig(record, names["n_relevant"]), names["n_relevant"]), names)
    if not row.documents and row.labels is None and ("labels" in names or "label" in names):
        row.labels = []
    return row


def _complete(row: Row, number: float | None, names: dict[str, str]) -> None:
    if number is None:
        return
    found = {d for d, one in zip(row.documents, row.labels or [], strict=False) if one and one >= 1}
    if number % 1 or number < 0:
        raise FieldError(names["n_relevant"], f"{number:g} is no number of documents")
    if number < len(found):
        what = f"{number:g} relevant in all, but {len(found)} of the retrieved are labelled so"
        raise FieldError(names["n_relevant"], what)
    row.n_relevant = int(number)


def _document(one: Any, where: str, names: dict[str, str], options: Options) -> Document:
    """Read a document of a list: an id, or an object with an id, a text, a score, a label."""
    if not isinstance(one, dict):
        return Document(as_id(one, where))

    def told(name: str, usual: tuple[str, ...]) -> Any:
        if name in names:
            return dig(one, names[name])
        return next((one[key] for key in usual if one.get(key) is not None), None)

    return Document(
        as_id(told("doc_id", _IDS), f"{where}.id"),
        as_text(told("doc_text", _TEXTS), f"{where}.text"),
        as_number(told("score", _SCORES), f"{where}.score", options.decimal),
        as_label(told("label", _LABELS), f"{where}.label", options.decimal),
    )


Line = tuple[str, float | None, Document, Row]


def _long(path: Path, names: dict[str, str], options: Options, account: Account) -> Iterator[Row]:
    if "query_id" not in names and "query" not in names:
        raise UsageError(f"{path.name}: name the query with --columns query_id=… (or query=…)")
    if "rank" not in names and "score" not in names:
        account.note("neither rank nor score: the order of the lines counts")

    def keyed() -> Iterator[tuple[str, Line]]:
        for place, record in _source(path, options, account):
            try:
                key, line = _line(record, place, names, options, account)
            except FieldError as wrong:
                account.fault(place, wrong.field, wrong.what)
                continue
            yield key, line

    for _, lines in grouped(keyed()):
        if "rank" in names:
            ranks = [line[1] for line in lines]
            if len(set(ranks)) < len(ranks):
                what = f"a rank is there twice for query {quote(lines[0][3].query_id or '')}"
                account.fault(lines[0][0], names["rank"], what)
                continue
            lines.sort(key=lambda line: line[1] or 0.0)
            scores = [line[2].score for line in lines if line[2].score is not None]
            if scores != sorted(scores, reverse=True) and scores != sorted(scores):
                account.note("queries whose ranks contradict the scores", lines[0][0])
        elif "score" in names:
            lines.sort(key=lambda line: -(line[2].score if line[2].score is not None else 0.0))
        row = lines[0][3]
        row.row = lines[0][0]
        if any(line[3].time != row.time for line in lines):
            account.note("queries whose lines differ in time (the first counts)", row.row)
            row.time = min((line[3].time for line in lines if line[3].time), default=None)
        fill(row, [line[2] for line in lines], "document {}")
        if "label" in names:
            row.labels = [line[2].label for line in lines]
        yield row


def _line(
    record: dict[str, Any], place: str, names: dict[str, str], options: Options, account: Account
) -> tuple[str, Line]:
    row = _common(record, names, options, account)
    key = row.query_id if "query_id" in names else row.query
    if key is None:
        raise FieldError(names.get("query_id", names.get("query", "query")), "there is no query")

    def told(name: str) -> Any:
        return dig(record, names[name]) if name in names else None

    document = Document(
        as_id(told("document"), names.get("document", "document")),
        as_text(told("doc_text"), names.get("doc_text", "doc_text")),
        as_number(told("score"), names.get("score", "score"), options.decimal),
        as_label(told("label"), names.get("label", "label"), options.decimal),
    )
    document.key(names.get("document", names.get("doc_text", "document")))
    rank = as_number(told("rank"), names.get("rank", "rank"), options.decimal)
    if "rank" in names and rank is None:
        raise FieldError(names["rank"], "there is no rank")
    return key, (place, rank, document, row)


def is_own_table(path: Path) -> bool:
    """Whether a Parquet file has the ten columns of our table, with their types."""
    from retrieval_quality.logs.rows import COLUMNS

    with opened_parquet(path) as file:
        schema = file.schema_arrow
        return all(name in schema.names for name in COLUMNS) and pa.types.is_list(
            schema.field("documents").type
        )
