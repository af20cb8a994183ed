"""OpenInference and OpenTelemetry GenAI spans: OTLP JSON, Phoenix exports, dataframes.

Sources: Arize-ai/openinference ``spec/semantic_conventions.md``; Arize-ai/phoenix
``src/phoenix/trace/span_json_encoder.py``; open-telemetry/semantic-conventions-genai
``docs/gen-ai/gen-ai-spans.md``. One file may hold both kinds of spans.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from retrieval_quality.errors import DataError
from retrieval_quality.logs.account import Account, quote
from retrieval_quality.logs.cases import dig
from retrieval_quality.logs.files import grouped, is_csv, parse, records, table_rows
from retrieval_quality.logs.options import Options
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
    parquet_records,
)
from retrieval_quality.logs.traces import (
    ANSWERED,
    ASKED,
    EVALUATION,
    RERANKER,
    RETRIEVER,
    Span,
    answer_of,
    assemble,
    only_text,
)

_OI = "openinference.span.kind"
_KINDS = {"RETRIEVER": RETRIEVER, "RERANKER": RERANKER}
_DOCUMENTS = {RETRIEVER: "retrieval.documents", RERANKER: "reranker.output_documents"}
_GENAI = "gen_ai.retrieval.documents"
_EVALUATIONS = tuple(
    f"{scope}{name}"
    for scope in ("", "trace.", "session.")
    for name in ("evaluations", "annotations")
)
_FAILED = (2, "2", "ERROR", "STATUS_CODE_ERROR")


def read_spans(path: Path, options: Options, account: Account) -> Iterator[Row]:
    """Yield the rows of span exports; `options.labels` adds Phoenix's document evaluations."""
    given = _evaluations(options.labels, account) if options.labels else None
    used: set[str] = set()
    for row in assemble(_spans(path, options, account), options, account):
        if given is not None:
            found = given.get(row.query_id or "", {})
            used.add(row.query_id or "")
            row.labels = [found.get(i) for i in range(len(row.documents))]
            for position in found:
                if position >= len(row.documents):
                    account.note("evaluations of positions past the list", row.query_id or "")
        yield row
    for span in (given or {}).keys() - used:
        account.note("evaluations of spans that are not among the rows", span)


# --- finding spans ------------------------------------------------------------------------------


def _spans(path: Path, options: Options, account: Account) -> Iterator[Span]:
    events: dict[tuple[str, str], float] = {}
    for place, raw in _raw(path, account):
        if not isinstance(raw, dict):
            account.fault(place, "", "not an object")
            continue
        try:
            if "body" in raw or "eventName" in raw:
                _event(raw, options, events)
                continue
            span = _span(raw, place, options, account)
        except FieldError as wrong:
            said = f"span {_id(raw)}"
            account.fault(", ".join(p for p in (place, said) if p), wrong.field, wrong.what)
            continue
        if span is not None:
            yield span
    for (trace, parent), grade in events.items():
        yield Span(trace, parent, kind=EVALUATION, grade=grade)


def _raw(path: Path, account: Account) -> Iterator[tuple[str, Any]]:
    if path.name.lower().endswith(".parquet"):
        for place, row in parquet_records(path):
            yield place, _from_columns(row)
        return
    if is_csv(path):
        for place, row in table_rows(path, account):
            yield place, _from_columns({k: v for k, v in row.items() if v != ""})
        return
    for place, record in records(path, account, "span"):
        yield from _unfolded(place, record)


def _unfolded(place: str, record: Any) -> Iterator[tuple[str, Any]]:
    """Unpack the envelopes of OTLP and of Phoenix's REST answers."""
    if not isinstance(record, dict):
        yield place, record
        return
    envelopes = (
        ("resourceSpans", "resource_spans"),
        ("scopeSpans", "scope_spans"),
        ("resourceLogs", "resource_logs"),
        ("scopeLogs", "scope_logs"),
        ("spans", "spans"),
        ("logRecords", "log_records"),
    )
    for camel, snake in envelopes:
        inner = record.get(camel, record.get(snake))
        if isinstance(inner, list):
            for one in inner:
                yield from _unfolded(place, one)
            return
    if isinstance(record.get("data"), list) and "context" not in record:
        for one in record["data"]:
            yield from _unfolded(place, one)
        return
    if not record.keys() - {"resource", "scope", "schemaUrl", "schema_url", "next_cursor"}:
        return
    yield place, record


def _from_columns(row: dict[str, Any]) -> dict[str, Any]:
    """Turn a row of a spans dataframe into the shape of a Phoenix span."""
    found: dict[str, Any] = {"attributes": {}, "context": {}}
    for name, value in row.items():
        head, _, rest = name.partition(".")
        if head in ("attributes", "context") and rest:
            if value is not None:
                found[head][rest] = value
        elif head not in ("attributes", "context"):
            found[name] = value
    return found


def as_object(value: Any) -> dict[str, Any]:
    """Return an object as it is, and an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def _pick(raw: dict[str, Any], *names: str) -> Any:
    return next((raw[name] for name in names if raw.get(name) is not None), None)


def _hex(value: Any) -> str | None:
    """Write an id without case and prefix; null and "" are none."""
    text = str(value or "").strip()
    if not text:
        return None
    text = text.removeprefix("0x")
    if re.fullmatch(r"[0-9a-fA-F-]+", text):
        return text.lower()
    if re.fullmatch(r"[A-Za-z0-9+/]{11}=|[A-Za-z0-9+/]{22}==", text):
        try:
            return base64.b64decode(text, validate=True).hex()
        except binascii.Error:
            return text
    return text


def _id(raw: dict[str, Any]) -> str:
    context = as_object(raw.get("context"))
    return _hex(_pick(raw, "spanId", "span_id") or _pick(context, "span_id", "spanId")) or "?"


def _trace(raw: dict[str, Any]) -> str:
    context = as_object(raw.get("context"))
    found = _hex(_pick(raw, "traceId", "trace_id") or _pick(context, "trace_id", "traceId"))
    return found or f"of span {_id(raw)}"


def _value(value: Any) -> Any:
    """Take an OTLP value out of its wrapping."""
    if not isinstance(value, dict):
        return value
    for name, inner in value.items():
        kind = name.replace("_", "").lower()
        if kind == "intvalue":
            return _whole(inner, name)
        if kind in ("stringvalue", "doublevalue", "boolvalue", "bytesvalue"):
            return inner
        if kind == "arrayvalue":
            values = as_object(inner).get("values")
            return [_value(one) for one in values] if isinstance(values, list) else []
        if kind == "kvlistvalue":
            return _attributes(as_object(inner).get("values"))
    return None


def _whole(value: Any, field: str) -> int:
    """Read a whole number, which protobuf writes as text where it is a long one."""
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", text):
        raise FieldError(field, f"{quote(value)} is not a whole number of 64 bits")
    return int(text)


def _nanoseconds(value: Any, field: str) -> int | None:
    """Read a time of protobuf; 0 is none."""
    found = _whole(value, field)
    if not 0 <= found < 2**63:
        raise FieldError(field, f"{quote(value)} is no time in nanoseconds since 1970")
    return found or None


def _attributes(found: Any) -> dict[str, Any]:
    if isinstance(found, list):
        return {
            str(one.get("key")): _value(one.get("value")) for one in found if isinstance(one, dict)
        }
    return found if isinstance(found, dict) else {}


# --- reading a span -----------------------------------------------------------------------------


def _span(raw: dict[str, Any], place: str, options: Options, account: Account) -> Span | None:
    attributes = _attributes(raw.get("attributes"))
    if _id(raw) == "?":
        raise FieldError("span_id", "the span has no id")
    told = dig(attributes, _OI) or raw.get("span_kind")
    told = str(told or "").upper()
    retrieval = dig(attributes, "gen_ai.operation.name") == "retrieval"
    span = Span(
        _trace(raw),
        _id(raw),
        _hex(_pick(raw, "parentSpanId", "parent_span_id", "parent_id")),
        _KINDS.get(told, RETRIEVER if retrieval else told.lower()),
        place,
    )
    status = raw.get("status")
    code = status.get("code", status.get("status_code")) if isinstance(status, dict) else None
    span.failed = (raw.get("status_code") if code is None else code) in _FAILED
    span.failed |= retrieval and dig(attributes, "error.type") is not None
    span.group = _text(
        dig(attributes, options.group)
        if options.group
        else dig(attributes, "session.id") or dig(attributes, "gen_ai.conversation.id")
    )
    span.grade = account.grade(_graded(raw, attributes), options.grade)
    if span.kind not in (RETRIEVER, RERANKER):
        span.answer = _answer(attributes)
        return span
    if span.failed:
        return span
    start = _pick(raw, "startTimeUnixNano", "start_time_unix_nano")
    if start is not None:
        span.start = _nanoseconds(start, "startTimeUnixNano")
    else:
        span.start = as_time(raw.get("start_time"), "start_time", account, options.zone)
    if _pick(raw, "droppedAttributesCount", "dropped_attributes_count") not in (None, 0, "0"):
        account.note("spans that lost attributes (lists may be cut)", span.id)
    if retrieval and told not in _KINDS:
        span.query = _text(dig(attributes, "gen_ai.retrieval.query.text"))
        span.documents = _genai(attributes)
        span.field = f"{_GENAI}[{{}}]"
    else:
        span.query = _query(attributes, span.kind)
        _openinference(span, attributes, account)
    if not span.documents:
        span.unfinished = _unfinished(raw)
    return span


def _text(value: Any) -> str | None:
    return None if value is None else value if isinstance(value, str) else str(value)


def _unfinished(raw: dict[str, Any]) -> bool:
    """Whether a span says of its end that it was not reached."""
    for name in ("endTimeUnixNano", "end_time_unix_nano", "end_time"):
        if name in raw:
            return raw[name] in (None, 0, "0", "")
    return "startTimeUnixNano" in raw


def _query(attributes: dict[str, Any], kind: str) -> str | None:
    if kind == RERANKER and isinstance(asked := dig(attributes, "reranker.query"), str):
        return asked
    value = dig(attributes, "input.value")
    return _plain(value, str(dig(attributes, "input.mime_type") or ""), ASKED)


def _plain(value: Any, mime: str, names: tuple[str, ...]) -> str | None:
    if isinstance(value, str) and "json" in mime:
        try:
            found = only_text(parse(value), names)
        except ValueError:
            found = None
        return value if found is None else found
    return _text(value)


def _answer(attributes: dict[str, Any]) -> str | None:
    messages = dig(attributes, "gen_ai.output.messages")
    if isinstance(messages, str):
        try:
            messages = parse(messages)
        except ValueError:
            return None
    if isinstance(messages, list):
        parts = [
            part.get("content")
            for message in messages
            if isinstance(message, dict)
            for part in message.get("parts") or ()
            if isinstance(part, dict) and part.get("type") == "text"
        ]
        texts = [part for part in parts if isinstance(part, str)]
        return "".join(texts) if texts else None
    value = dig(attributes, "output.value")
    mime = str(dig(attributes, "output.mime_type") or "")
    if isinstance(value, str) and "json" in mime:
        try:
            return answer_of(parse(value)) or value
        except ValueError:
            return value
    return _plain(value, mime, ANSWERED)


def entries(attributes: dict[str, Any], prefix: str) -> dict[int, dict[str, Any]] | None:
    """Gather the entries of a list of attributes, whatever shape it has.

    Parameters
    ----------
    attributes : mapping
        Flat (``prefix.0.document.id``), a list, nested objects, or a JSON text.
    prefix : str
        Name of the list.

    Returns
    -------
    dict or None
        By index; None where nothing of that name is there.

    Raises
    ------
    FieldError
        It is something else, or the JSON is cut.

    Examples
    --------
    >>> entries({"d.10.document.id": "b", "d.2.document.id": "a"}, "d")
    {2: {'document.id': 'a'}, 10: {'document.id': 'b'}}
    """
    found = dig(attributes, prefix)
    if isinstance(found, str):
        try:
            found = parse(found)
        except ValueError as error:
            raise FieldError(prefix, f"the JSON text is not whole ({error})") from error
        if not isinstance(found, list):
            raise FieldError(prefix, "an object where a list belongs")
    if isinstance(found, list):
        for i, one in enumerate(found):
            if not isinstance(one, dict):
                raise FieldError(f"{prefix}.{i}", f"{quote(one)} where an object belongs")
        return dict(enumerate(found))
    if isinstance(found, dict):
        if not all(str(key).isdigit() and isinstance(one, dict) for key, one in found.items()):
            raise FieldError(prefix, "an object where a list belongs")
        return {int(key): found[key] for key in sorted(found, key=int)}
    if found is not None:
        raise FieldError(prefix, f"{quote(found)} where a list belongs")
    flat: dict[int, dict[str, Any]] = {}
    for key, value in attributes.items():
        if key.startswith(f"{prefix}."):
            index, _, rest = key[len(prefix) + 1 :].partition(".")
            if index.isdigit():
                flat.setdefault(int(index), {})[rest] = value
    return dict(sorted(flat.items())) or None


def _openinference(span: Span, attributes: dict[str, Any], account: Account) -> None:
    prefix = _DOCUMENTS[span.kind]
    span.field = f"{prefix}.{{}}"
    found = entries(attributes, prefix)
    if found is None:
        span.documents, span.unclear = [], True
        return
    if list(found) != list(range(len(found))):
        account.note("spans with missing indices (a document was lost)", span.id)
    span.documents = []
    for index, one in found.items():
        where = f"{prefix}.{index}"
        document = Document(
            as_id(dig(one, "document.id"), f"{where}.document.id"),
            as_text(dig(one, "document.content"), f"{where}.document.content"),
            as_number(dig(one, "document.score"), f"{where}.document.score"),
        )
        document.key(where)
        span.documents.append(document)


def _genai(attributes: dict[str, Any]) -> list[Document] | None:
    value = dig(attributes, _GENAI)
    if value is None:
        return None
    if isinstance(value, str):
        try:
            value = parse(value)
        except ValueError as error:
            raise FieldError(_GENAI, f"the JSON text is not whole ({error})") from error
    if not isinstance(value, list):
        raise FieldError(_GENAI, "an object where a list belongs")
    documents = []
    for index, one in enumerate(value):
        where = f"{_GENAI}[{index}]"
        if not isinstance(one, dict):
            raise FieldError(where, f"{quote(one)} where an object belongs")
        text = one.get("content", one.get("text", one.get("page_content")))
        document = Document(
            as_id(one.get("id"), f"{where}.id"),
            as_text(text, f"{where}.content"),
            as_number(one.get("score"), f"{where}.score"),
        )
        document.key(where)
        documents.append(document)
    return documents


# --- grades and labels --------------------------------------------------------------------------


def _graded(raw: dict[str, Any], attributes: dict[str, Any]) -> dict[str, float]:
    found: dict[str, float] = {}
    for prefix in _EVALUATIONS:
        single = prefix.rpartition(".")[2].removesuffix("s")
        for one in (entries(attributes, prefix) or {}).values():
            _add(found, dig(one, f"{single}.name"), dig(one, f"{single}.score"))
    events = raw.get("events")
    for event in events if isinstance(events, list) else ():
        if isinstance(event, dict) and event.get("name") == "gen_ai.evaluation.result":
            told = _attributes(event.get("attributes"))
            name = dig(told, "gen_ai.evaluation.name")
            _add(found, name, dig(told, "gen_ai.evaluation.score.value"))
    return found


def _add(found: dict[str, float], name: Any, score: Any) -> None:
    if isinstance(name, str) and name not in found:
        number = as_number(score, name)
        if number is not None:
            found[name] = number


def _event(raw: dict[str, Any], options: Options, events: dict[tuple[str, str], float]) -> None:
    told = _attributes(raw.get("attributes"))
    if not options.grade or dig(told, "gen_ai.evaluation.name") != options.grade:
        return
    score = as_number(dig(told, "gen_ai.evaluation.score.value"), options.grade)
    if score is not None:
        events[_trace(raw), _id(raw)] = score


def _evaluations(path: Path, account: Account) -> dict[str, dict[int, float | None]]:
    """Read Phoenix's document evaluations: span, position from 0, score."""
    found: dict[str, dict[int, float | None]] = {}
    rows = parquet_records(path) if path.suffix == ".parquet" else table_rows(path, account)
    for place, row in rows:
        span = _hex(_pick(row, "context.span_id", "span_id"))
        position = _pick(row, "document_position", "position")
        if span is None or position is None:
            raise DataError(f"{path}: needs the columns span_id and document_position")
        try:
            number = as_number(position, "document_position")
            if number is None or number % 1 or number < 0:
                raise FieldError("document_position", f"{quote(position)} is no position")
            label = as_label(row.get("score"), "score")
        except FieldError as wrong:
            account.fault(place, wrong.field, wrong.what, path.name)
            continue
        if int(number) in found.setdefault(span, {}):
            account.fault(place, "document_position", "this document is evaluated twice", path.name)
        found[span][int(number)] = label
    account.settle()
    return found


def read_documents(path: Path, options: Options, account: Account) -> Iterator[Row]:
    """Yield the rows of Phoenix's retrieved documents: one line a document, contents, no ids."""
    source = parquet_records(path) if path.suffix == ".parquet" else table_rows(path, account)

    def keyed() -> Iterator[tuple[str, tuple[str, int, Document, Any, Any]]]:
        for place, row in source:
            try:
                position = as_number(row.get("document_position"), "document_position")
                if position is None or position % 1:
                    raise FieldError("document_position", "there is no position")
                text = as_text(_pick(row, "document", "reference"), "document")
                score = as_number(row.get("document_score"), "document_score")
                document = Document(None, text, score)
                document.key("document")
                span = _hex(_pick(row, "context.span_id", "span_id"))
                if span is None:
                    raise FieldError("context.span_id", "there is no span id")
            except FieldError as wrong:
                account.fault(place, wrong.field, wrong.what)
                continue
            trace = _hex(_pick(row, "context.trace_id", "trace_id"))
            yield span, (place, int(position), document, trace, row.get("input"))

    given = _evaluations(options.labels, account) if options.labels else None
    for span, lines in grouped(keyed()):
        lines.sort(key=lambda one: one[1])
        positions = [one[1] for one in lines]
        if len(set(positions)) < len(positions):
            account.fault(lines[0][0], "document_position", f"span {span} has a position twice")
            continue
        if positions != list(range(len(positions))):
            account.note("spans with missing positions (a document was lost)", span)
        row = Row(query_id=span, query=lines[0][4], trace=lines[0][3], stage=RETRIEVER)
        row.row = f"span {span}"
        fill(row, [one[2] for one in lines], "document {}")
        if given is not None:
            row.labels = [given.get(span, {}).get(position) for position in positions]
        yield row
    account.settle()
