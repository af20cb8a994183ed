"""LangSmith runs and MLflow traces with retriever spans.

Sources: langchain-ai/langsmith-sdk ``python/langsmith/schemas.py``; langchain-ai/langchain
``libs/core/langchain_core/documents/base.py``; mlflow/mlflow ``mlflow/entities/trace.py``,
``mlflow/genai/utils/trace_utils.py``. Times of LangSmith have no zone and are UTC, as its own SDK
reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

from retrieval_quality.logs.account import Account, quote
from retrieval_quality.logs.cases import dig
from retrieval_quality.logs.files import parse, records
from retrieval_quality.logs.options import Options
from retrieval_quality.logs.rows import (
    Document,
    FieldError,
    Row,
    as_id,
    as_number,
    as_text,
    as_time,
    parquet_records,
)
from retrieval_quality.logs.spans import _hex, as_object
from retrieval_quality.logs.traces import ASKED, RETRIEVER, Span, answer_of, assemble, only_text

_GROUPS = ("thread_id", "session_id", "conversation_id")


def read_langsmith(path: Path, options: Options, account: Account) -> Iterator[Row]:
    """Yield the rows of LangSmith runs: one a line, an array, trees, or a Parquet export."""
    yield from assemble(_langsmith(path, options, account), options, account)


def _langsmith(path: Path, options: Options, account: Account) -> Iterator[Span]:
    if path.suffix == ".parquet":
        source: Iterator[tuple[str, Any]] = parquet_records(path)
    else:
        source = records(path, account, "run")
    for place, record in source:
        for run in _tree(record):
            try:
                yield _run(run, place, options, account)
            except FieldError as wrong:
                said = f"run {run.get('id')}" if isinstance(run, dict) else ""
                account.fault(", ".join(p for p in (place, said) if p), wrong.field, wrong.what)


def _tree(record: Any) -> Iterator[Any]:
    """Yield a run and those below it, to any depth."""
    waiting = [record]
    while waiting:
        run = waiting.pop(0)
        if isinstance(run, dict) and "runs" in run and "run_type" not in run:
            waiting = [*(run["runs"] or ()), *waiting]
            continue
        yield run
        if isinstance(run, dict):
            waiting = [*(run.get("child_runs") or ()), *waiting]


def _opened(value: Any, field: str) -> Any:
    if isinstance(value, str) and value.lstrip().startswith(("{", "[")):
        try:
            return parse(value)
        except ValueError as error:
            raise FieldError(field, f"the JSON text is not whole ({error})") from error
    return value


def _run(run: Any, place: str, options: Options, account: Account) -> Span:
    if not isinstance(run, dict):
        raise FieldError("", "not an object")
    key = as_id(run.get("id"), "id")
    if key is None:
        raise FieldError("id", "the run has no id")
    kind = str(run.get("run_type") or "").lower()
    trace = as_id(run.get("trace_id"), "trace_id") or key
    span = Span(trace, key, as_id(run.get("parent_run_id"), "parent_run_id"), kind, place)
    outputs = _opened(run.get("outputs"), "outputs")
    span.grade = account.grade(_feedback(run), options.grade)
    extra = _opened(run.get("extra"), "extra")
    metadata = extra.get("metadata") if isinstance(extra, dict) else None
    names = (options.group,) if options.group else _GROUPS
    found = next((v for name in names if (v := dig(metadata or {}, name)) is not None), None)
    if found is None and options.group:
        found = dig(run, options.group)
    span.group = found if found is None or isinstance(found, str) else str(found)
    span.failed = run.get("error") is not None or run.get("status") == "error"
    if kind != RETRIEVER:
        span.answer = answer_of(outputs)
        return span
    span.unfinished = not span.failed and ("end_time" in run and run["end_time"] is None)
    span.unfinished |= not span.failed and run.get("status") == "pending"
    if span.failed or span.unfinished:
        return span
    span.start = as_time(run.get("start_time"), "start_time", account, options.zone or UTC)
    span.query = only_text(_opened(run.get("inputs"), "inputs"), ASKED)
    span.field = "outputs.documents[{}]"
    span.documents = _documents(outputs, options)
    return span


def _feedback(run: dict[str, Any]) -> dict[str, float]:
    stats = _opened(run.get("feedback_stats"), "feedback_stats")
    found = {}
    for name, one in (stats or {}).items() if isinstance(stats, dict) else ():
        if isinstance(one, dict) and one.get("avg") is not None:
            number = as_number(one["avg"], f"feedback_stats.{name}.avg")
            if number is not None:
                found[name] = number
    return found


def _documents(outputs: Any, options: Options) -> list[Document] | None:
    if outputs is None:
        return None
    field = "outputs.documents"
    found = outputs
    if isinstance(outputs, dict):
        if "documents" in outputs:
            found = outputs["documents"]
        elif "output" in outputs:
            field, found = "outputs.output", outputs["output"]
        else:
            return None
    if found is None:
        return None
    if not isinstance(found, list):
        raise FieldError(
            field,
            f"{'an object' if isinstance(found, dict) else quote(found)} where a list belongs",
        )
    return [_document(one, f"{field}[{i}]", options) for i, one in enumerate(found)]


def _document(one: Any, where: str, options: Options) -> Document:
    if isinstance(one, str):
        return Document(text=one)
    if isinstance(one, dict) and one.get("type") == "constructor":
        one = one.get("kwargs")  # LangChain's serialisation: the outer id is a class
    if not isinstance(one, dict):
        raise FieldError(where, f"{quote(one)} where a document belongs")
    raw = one.get("metadata")
    metadata = raw if isinstance(raw, dict) else {}
    key = as_id(one.get("id"), f"{where}.id")
    if key is None and "doc_id" in options.columns:
        key = as_id(dig(one, options.columns["doc_id"]), f"{where}.{options.columns['doc_id']}")
    text = as_text(one.get("page_content", one.get("content")), f"{where}.page_content")
    score = next(
        (metadata[name] for name in ("score", "relevance_score") if name in metadata), None
    )
    document = Document(key, text, score if isinstance(score, int | float) else None)
    document.key(where)
    return document


# --- MLflow -------------------------------------------------------------------------------------

_OUTPUTS = "mlflow.spanOutputs"


def read_mlflow(path: Path, options: Options, account: Account) -> Iterator[Row]:
    """Yield the rows of MLflow traces, one a line or an array; schema versions 2 and 3."""
    for place, record in records(path, account, "trace"):
        if not isinstance(record, dict) or not isinstance(record.get("info"), dict):
            account.fault(place, "info", "not a trace: there is no info")
            continue
        data = as_object(record.get("data"))
        if not data.get("spans"):
            account.note("traces without spans (exported without their data)", place)
            continue
        spans = []
        if not isinstance(data["spans"], list):
            what = f"{quote(data['spans'])} where a list belongs"
            account.fault(place, "data.spans", what)
            continue
        for raw in data["spans"]:
            try:
                spans.append(_span(raw, record["info"], place, options, account))
            except FieldError as wrong:
                key = _hex(_span_id(raw)) if isinstance(raw, dict) else "?"
                account.fault(f"{place}, span {key}", wrong.field, wrong.what)
        yield from assemble(spans, options, Silent(account))
    account.settle()


class Silent(Account):
    """An account that passes everything on, and leaves the settling to the other."""

    def __init__(self, other: Account) -> None:
        self.__dict__ = other.__dict__

    def settle(self) -> None:
        """Leave it to the end of the file."""


def _span_id(raw: dict[str, Any]) -> Any:
    context = as_object(raw.get("context"))
    return raw.get("span_id") or context.get("span_id")


def _span(raw: Any, info: dict[str, Any], place: str, options: Options, account: Account) -> Span:
    if not isinstance(raw, dict):
        raise FieldError("data.spans", "not an object")
    attributes = as_object(raw.get("attributes"))
    key = _hex(_span_id(raw))
    if key is None:
        raise FieldError("span_id", "the span has no id")
    trace = str(info.get("trace_id") or info.get("request_id") or place)
    kind = str(_told(attributes, "mlflow.spanType") or "").lower()
    parent = _hex(raw.get("parent_span_id", raw.get("parent_id")))
    span = Span(trace, key, parent, kind, place)
    status = raw.get("status")
    code = status.get("code") if isinstance(status, dict) else raw.get("status_code")
    span.failed = str(code).upper() in ("ERROR", "STATUS_CODE_ERROR", "2")
    if parent is None:
        span.grade = account.grade(_assessed(info), options.grade)
        metadata = info.get("trace_metadata") or info.get("request_metadata") or {}
        name = options.group or "mlflow.trace.session"
        found = dig(metadata, name) or dig(info.get("tags") or {}, name)
        span.group = None if found is None else str(found)
    if kind != RETRIEVER:
        if parent is None:
            span.answer = _said(attributes)
        return span
    if span.failed:
        return span
    start = raw.get("start_time_unix_nano", raw.get("start_time"))
    span.start = as_time(start, "start_time", account, options.zone)
    span.query = only_text(_told(attributes, "mlflow.spanInputs", whole=False), ASKED)
    span.field = f"{_OUTPUTS}[{{}}]"
    _retrieved(span, attributes, options)
    end = raw.get("end_time_unix_nano", raw.get("end_time", 1))
    span.unfinished = not span.documents and end in (None, 0)
    span.relevant = _expected(info)
    return span


def _told(attributes: dict[str, Any], name: str, whole: bool = True) -> Any:
    """Read an attribute, whose value is JSON text."""
    value = attributes.get(name)
    if not isinstance(value, str):
        return value
    try:
        return parse(value)
    except ValueError as error:
        if whole and value.lstrip()[:1] in ('"', "[", "{"):
            raise FieldError(name, f"the JSON text is not whole ({error})") from error
        return value


def _said(attributes: dict[str, Any]) -> str | None:
    return answer_of(_told(attributes, _OUTPUTS, whole=False))


def _retrieved(span: Span, attributes: dict[str, Any], options: Options) -> None:
    found = _told(attributes, _OUTPUTS)
    if found is None:
        return
    if not isinstance(found, list):
        kind = "an object" if isinstance(found, dict) else quote(found)
        raise FieldError(_OUTPUTS, f"{kind} where a list belongs")
    span.documents, span.compared = [], []
    for i, one in enumerate(found):
        document = _document(one, f"{_OUTPUTS}[{i}]", options) if _has_own(one) else _chunk(one, i)
        raw = one.get("metadata") if isinstance(one, dict) else None
        metadata = raw if isinstance(raw, dict) else {}
        if document.score is None and isinstance(metadata.get("score"), int | float):
            document.score = float(metadata["score"])
        span.documents.append(document)
        span.compared.append(as_id(metadata.get("doc_uri"), f"{_OUTPUTS}[{i}].metadata.doc_uri"))


def _has_own(one: Any) -> bool:
    return not isinstance(one, dict) or one.get("id") not in (None, "")


def _chunk(one: dict[str, Any], i: int) -> Document:
    """Read a chunk without an id: its chunk_id, else its doc_uri, else its content."""
    where = f"{_OUTPUTS}[{i}]"
    raw = one.get("metadata")
    metadata = raw if isinstance(raw, dict) else {}
    key = as_id(metadata.get("chunk_id"), f"{where}.metadata.chunk_id")
    key = key or as_id(metadata.get("doc_uri"), f"{where}.metadata.doc_uri")
    text = as_text(one.get("page_content", one.get("content")), f"{where}.page_content")
    document = Document(key, text)
    document.key(where)
    return document


def _assessments(info: dict[str, Any]) -> list[Any]:
    found = info.get("assessments")
    if not isinstance(found, list | None):
        raise FieldError("info.assessments", f"{quote(found)} where a list belongs")
    return found or []


def _assessed(info: dict[str, Any]) -> dict[str, float]:
    found: dict[str, float] = {}
    for one in _assessments(info):
        if not isinstance(one, dict) or one.get("valid") is False:
            continue
        feedback = one.get("feedback")
        value = feedback.get("value") if isinstance(feedback, dict) else None
        name = str(one.get("assessment_name"))
        if isinstance(value, bool | int | float) and name not in found and value == value:
            found[name] = float(value)
    return found


def _expected(info: dict[str, Any]) -> list[str] | None:
    """Return the addresses of all relevant documents, where somebody said them."""
    for one in _assessments(info):
        if isinstance(one, dict) and one.get("assessment_name") == "expected_retrieved_context":
            expectation = one.get("expectation")
            value = expectation.get("value") if isinstance(expectation, dict) else None
            if isinstance(value, list):
                uris = [dig(doc, "doc_uri") for doc in value if isinstance(doc, dict)]
                return [uri for uri in uris if isinstance(uri, str)]
    return None
