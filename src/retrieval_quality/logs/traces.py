"""Spans of a trace to rows: which list counts, whose answer it is, what is left out.

A trace may hold several retrievers, retrievers within retrievers (fusion, routers), a re-ranker,
and tries that failed. Each span with a list is a ``retriever`` (none above it), a
``nested_retriever`` (one above it) or a ``reranker``. The default rows are the retrievers, each a
row of its own; the final rows are the re-ranker's last list where there is one, else the
retrievers. A failed or unfinished span is no retrieval: left out and counted, so of a retry only
the try that succeeded counts. Answer, grade and group are those of the root, or of the span
nearest to it that has them. Lists keep the order in which they were logged; scores, some of which
are distances, never change it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from retrieval_quality.logs.account import Account
from retrieval_quality.logs.files import grouped
from retrieval_quality.logs.options import Options
from retrieval_quality.logs.rows import Document, FieldError, Row, fill, judge_complete

RETRIEVER, NESTED, RERANKER = "retriever", "nested_retriever", "reranker"
EVALUATION = "evaluation"
"""Kind of a grade that was logged apart from the span whose id it bears."""


@dataclass
class Span:
    """One span as far as it matters here.

    `documents` is None where it records no list; `unclear` where no list may mean an empty one.
    `relevant` are the ids of all relevant documents, compared with `compared` of each document.
    """

    trace: str
    id: str
    parent: str | None = None
    kind: str = ""
    place: str = ""
    query: str | None = None
    documents: list[Document] | None = None
    unclear: bool = False
    failed: bool = False
    unfinished: bool = False
    start: int | None = None
    answer: str | None = None
    grade: float | None = None
    group: str | None = None
    relevant: list[str] | None = None
    compared: list[str | None] | None = None
    field: str = "documents[{}]"


def assemble(spans: Iterable[Span], options: Options, account: Account) -> Iterator[Row]:
    """Yield the rows of all spans, trace by trace.

    Raises
    ------
    DataError
        At the end: whatever was wrong.
    """
    kinds: dict[str, int] = {}

    def keyed() -> Iterator[tuple[str, Span]]:
        for span in spans:
            kinds[span.kind or "other"] = kinds.get(span.kind or "other", 0) + 1
            yield span.trace, span

    for _, one in grouped(keyed()):
        yield from _rows(one, options, account)
    account.settle()
    if not kinds.get(RETRIEVER) and not kinds.get(RERANKER):
        for kind, count in kinds.items():
            account.note(f"spans of kind {kind}", count=count)


def _rows(spans: list[Span], options: Options, account: Account) -> Iterator[Row]:
    known: dict[str, Span] = {}
    apart = {span.id: span.grade for span in spans if span.kind == EVALUATION}
    for span in spans:
        if span.kind == EVALUATION:
            continue
        if span.grade is None:
            span.grade = apart.get(span.id)
        if span.id in known:
            account.note("spans that the export repeats", span.id)
            known[span.id] = _fuller(known[span.id], span)
        else:
            known[span.id] = span
    listed = []
    for span in known.values():
        if span.kind not in (RETRIEVER, RERANKER):
            continue
        above = list(_above(span, known))
        if span.failed:
            account.note(f"failed {span.kind} spans left out", span.id)
        elif span.unfinished:
            account.note(f"unfinished {span.kind} spans left out", span.id)
        elif span.documents is None:
            account.note("documents not recorded, spans left out", span.id)
        else:
            nested = any(one.kind == RETRIEVER for one in above)
            stage = NESTED if span.kind == RETRIEVER and nested else span.kind
            listed.append((span, above, stage))
    for span, above, stage in _chosen(listed, options.stage, account):
        try:
            yield _row(span, above, stage, account)
        except FieldError as wrong:
            account.fault(_place(span), wrong.field, wrong.what)


def _fuller(first: Span, second: Span) -> Span:
    """Take the one that ended, else the first."""
    return second if first.unfinished and not second.unfinished else first


def _place(span: Span) -> str:
    return ", ".join(part for part in (span.place, f"span {span.id}") if part)


def _above(span: Span, known: dict[str, Span]) -> Iterator[Span]:
    """Yield the spans above one, nearest first; a circle of parents ends."""
    seen = {span.id}
    parent = span.parent
    while parent in known and parent not in seen:
        seen.add(parent)
        yield known[parent]
        parent = known[parent].parent


Listed = tuple[Span, list[Span], str]


def _chosen(listed: list[Listed], stage: str, account: Account) -> list[Listed]:
    if stage == "all":
        return listed
    tops = [one for one in listed if one[2] == RETRIEVER]
    last = [one for one in listed if one[2] == RERANKER]
    if stage == "final" and last:
        timed = [one for one in last if one[0].start is not None]
        kept = [
            max(timed, key=lambda one: one[0].start or 0) if len(timed) == len(last) else last[-1]
        ]
    else:
        kept = tops
    for span, _, kind in listed:
        if all(span is not one[0] for one in kept):
            account.note(f"{kind} lists of a trace not used (--stage)", span.id)
    if len(kept) > 1:
        account.note("traces with several retrievers, each a row", kept[0][0].trace)
    return kept


def _row(span: Span, above: list[Span], stage: str, account: Account) -> Row:
    own = [*reversed(above), span]
    row = Row(
        query_id=span.id,
        query=span.query,
        answer=next(
            (one.answer for one in own if one.answer is not None and one is not span), None
        ),
        grade=next((one.grade for one in own if one.grade is not None), None),
        group=next((one.group for one in own if one.group is not None), None),
        time=span.start,
        row=_place(span),
        trace=span.trace,
        stage=stage,
    )
    documents = span.documents or []
    fill(row, documents, span.field)
    if not documents and span.unclear:
        row.retrieved = "unclear"
        account.note("nothing retrieved, or not recorded: the format cannot tell", span.id)
    if span.relevant is not None:
        _judge(row, span, account)
    return row


def _judge(row: Row, span: Span, account: Account) -> None:
    compared = span.compared or row.documents
    wanted = set(span.relevant or ())
    hits = [one for one in compared if one in wanted]
    judge_complete(row, [])
    row.labels = [1.0 if one in wanted else 0.0 for one in compared]
    row.missed = [1.0] * len(wanted.difference(hits))
    row.n_relevant = len(wanted)
    if len(hits) > len(set(hits)):
        account.note("several pieces of one relevant document: N_p in pieces is not known", span.id)
        row.n_relevant = row.missed = None


def only_text(value: Any, names: tuple[str, ...]) -> str | None:
    """Find the text of an input or output: a text, a named entry, or the only text there is.

    Examples
    --------
    >>> only_text({"k": 3, "query": "q"}, ("query",)), only_text({"x": "t", "k": 3}, ())
    ('q', 't')
    """
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        return None
    for name in names:
        if isinstance(value.get(name), str):
            return str(value[name])
    texts = [one for one in value.values() if isinstance(one, str)]
    return texts[0] if len(texts) == 1 else None


ASKED = ("query", "question", "input", "text", "q", "search_query")
ANSWERED = ("answer", "output", "response", "result", "content", "text", "completion")


def answer_of(value: Any) -> str | None:
    """Find the answer in a root's output: text, a chat completion, messages, or a named entry.

    Examples
    --------
    >>> answer_of({"choices": [{"message": {"content": "Yes."}}]})
    'Yes.'
    >>> answer_of({"messages": [{"content": "Q"}, {"content": "A"}]})
    'A'
    """
    if isinstance(value, dict):
        choices, messages = value.get("choices"), value.get("messages")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            return answer_of(choices[0].get("message"))
        if isinstance(messages, list) and messages:
            return answer_of(messages[-1])
        if isinstance(value.get("kwargs"), dict):
            return answer_of(value["kwargs"])
    if isinstance(value, list):
        texts = [one["text"] for one in value if isinstance(one, dict) and "text" in one]
        return "".join(texts) if texts and all(isinstance(t, str) for t in texts) else None
    return only_text(value, ANSWERED)
