"""TREC runs and qrels, as trec_eval reads them, but refusing what it turns into 0.

Documents are ordered by score, highest first; equal scores by document id in byte order, highest
first; the rank column is not used. See usnistgov/trec_eval, ``get_trec_results.c`` and
``form_res_rels.c``. Scores are 64-bit floats.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from retrieval_quality.errors import DataError
from retrieval_quality.logs.account import Account, quote
from retrieval_quality.logs.files import grouped, lines
from retrieval_quality.logs.options import Options
from retrieval_quality.logs.rows import FieldError, Row, as_label, as_number

HEADERS = {"query-id", "query_id", "qid", "topic", "q_id", "queryid", "query"}
_WORD = re.compile(r"[^ \t\v\f\r\n]+")

Entry = tuple[int, str, float, str]  # line, document, score, rank


def words(text: str) -> list[str]:
    """Split at blanks and tabs, and nothing else that Unicode calls a space."""
    return _WORD.findall(text)


@dataclass
class Qrels:
    """Judgements: for each query the labels of its documents; counts for messages."""

    labels: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def n(self) -> int:
        """How many judgements there are."""
        return sum(len(one) for one in self.labels.values())


def read_qrels(path: Path, account: Account) -> Qrels:
    """Read judgements with 4 columns, or 3, with a header or none.

    Raises
    ------
    DataError
        A label is no whole number, a document has two labels, a line has other columns.
    """
    qrels = Qrels()
    seen: dict[tuple[str, str], int] = {}
    name = "" if path.name == account.source else path.name
    for number, text in lines(path):
        place = f"line {number}"
        cells = words(text)
        if text.startswith("#"):
            account.note("comment lines", f"{path.name} {place}")
            continue
        if len(cells) not in (3, 4):
            what = f"{len(cells)} fields where a line of qrels has 4 (or 3)"
            account.fault(place, "", what, name)
            continue
        query, document, label = cells[0], cells[-2], cells[-1]
        if not seen and cells[0].lower() in HEADERS and not _is_label(label):
            continue
        try:
            value = as_label(label.strip('"'), "label")
            if value is None:
                raise FieldError("label", f"the label {quote(label)} is not a whole number")
        except FieldError as wrong:
            account.fault(place, wrong.field, wrong.what, name)
            continue
        key = (query, document)
        if key in seen:
            same = qrels.labels[query][document] == value
            what = (
                f"document {quote(document)} of query {quote(query)} is judged twice, also in line "
                f"{seen[key]}" + ("" if same else f", and otherwise ({quote(label)})")
            )
            account.fault(f"lines {seen[key]} and {number}", "label", what, name)
            continue
        seen[key] = number
        qrels.labels.setdefault(query, {})[document] = value
    if not qrels.labels and not account.faults:
        raise DataError(f"{path}: the file holds no judgements")
    return qrels


def _is_label(text: str) -> bool:
    try:
        return as_label(text.strip('"'), "") is not None
    except FieldError:
        return False


def read_queries(path: Path, account: Account) -> dict[str, str]:
    """Read the texts of queries: an id, a tab (or the first blank), the text; or JSON lines."""
    from retrieval_quality.logs.beir import query_texts

    with_json = next(iter(lines(path)), (0, ""))[1].lstrip().startswith("{")
    if with_json:
        return query_texts(path, account)
    found: dict[str, str] = {}
    for number, text in lines(path):
        query, _, said = text.partition("\t") if "\t" in text else text.strip().partition(" ")
        if query in found:
            what = f"the query {quote(query)} is there twice"
            account.fault(f"line {number}", "query_id", what, path.name)
        found[query] = said.strip()
    return found


def read_run(path: Path, options: Options, account: Account) -> Iterator[Row]:
    """Yield one row a query of a run, and one for each judged query that the run lacks.

    Queries come in the order of the run. Labels are whole numbers of the qrels; a document that
    is not judged has none.

    Raises
    ------
    DataError
        Run and qrels share no query; or at the end: whatever was wrong in either.
    """
    qrels = read_qrels(options.qrels, account) if options.qrels else None
    texts = read_queries(options.queries, account) if options.queries else {}
    account.settle()
    asked: set[str] = set()
    unjudged = shared = 0
    for query, entries in grouped(_entries(path, account)):
        asked.add(query)
        row = _row(query, entries, options.order, account)
        row.query = texts.get(query)
        if qrels is not None:
            if query in qrels.labels:
                shared += 1
                _judge(row, qrels.labels[query])
            else:
                unjudged += 1
                account.note("queries only in the run (no labels, no measures)", query)
        yield row
    account.settle()
    if not asked:
        raise DataError(f"{path}: the file holds no rows")
    if qrels is not None and not shared:
        raise DataError(
            f"{path.name} and {options.qrels.name if options.qrels else ''} share no query: the "
            f"run has {quote(next(iter(asked)))}, the qrels {quote(next(iter(qrels.labels)))}. "
            "Ids are compared as text."
        )
    for query, labels in (qrels.labels if qrels else {}).items():
        if query not in asked:
            account.note("queries only in the qrels (nothing retrieved for them)", query)
            row = Row(query, texts.get(query), labels=[], row=query, retrieved="missing")
            _judge(row, labels)
            yield row


def _entries(path: Path, account: Account) -> Iterator[tuple[str, Entry]]:
    for number, text in lines(path):
        if text.startswith("#"):
            account.note("comment lines", f"line {number}")
            continue
        cells = words(text)
        what = f"{len(cells)} fields where a line of a run has 6"
        if "\r" in text:
            what = "a carriage return within the line; lines end at \\n or \\r\\n"
        elif len(cells) > 6 and _rank(cells[3]) is None:
            what += f", and {quote(cells[3])} is no rank: does an id hold a blank?"
        elif len(cells) >= 6:
            what = ""
        if what:
            account.fault(f"line {number}", "", what)
            continue
        try:
            score = as_number(cells[4], "score")
            if score is None:
                raise FieldError("score", f"{quote(cells[4])} is not a finite number")
        except FieldError as wrong:
            account.fault(f"line {number}", wrong.field, wrong.what)
            continue
        yield cells[0], (number, cells[2], score, cells[3])


def _row(query: str, entries: list[Entry], order: str, account: Account) -> Row:
    by_score = sorted(entries, key=lambda one: one[1].encode(), reverse=True)
    by_score.sort(key=lambda one: -one[2])
    if len({entry[2] for entry in entries}) < len(entries):
        account.note("queries with equal scores (put by document id, highest first)", query)
    ranks = [_rank(entry[3]) for entry in entries]
    if None not in ranks and len(set(ranks)) == len(ranks):
        ranked = sorted(entries, key=lambda one: _rank(one[3]) or 0.0)
        if any(a[2] < b[2] for a, b in pairwise(ranked)):
            account.note("queries whose ranks contradict the scores", query)
    elif order == "rank":
        account.fault(query, "rank", "the ranks of this query are no distinct numbers")
    in_file = sorted(entries, key=lambda one: -one[2])
    used = {"score": by_score, "file": in_file}.get(order) or sorted(
        entries, key=lambda one: _rank(one[3]) or 0.0
    )
    documents = [entry[1] for entry in used]
    repeats = len(documents) - len(set(documents))
    if repeats:
        lines_of: dict[str, int] = {}
        for line, document, *_ in sorted(entries):
            if document in lines_of:
                account.note("repeated documents (the best place counts)", f"line {line}")
            lines_of[document] = line
    return Row(query, documents=documents, scores=[entry[2] for entry in used], row=query)


def _rank(text: str) -> float | None:
    try:
        return as_number(text, "rank")
    except FieldError:
        return None


def _judge(row: Row, labels: dict[str, float]) -> None:
    row.labels = [labels.get(one) for one in row.documents]
    found = set(row.documents)
    row.missed = [label for document, label in labels.items() if document not in found]
    row.n_relevant = sum(label >= 1 for label in labels.values())
