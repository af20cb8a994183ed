"""BEIR folders: corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv, and lists in a JSON file or a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from retrieval_quality.errors import DataError
from retrieval_quality.logs.account import Account, quote
from retrieval_quality.logs.files import first_line, records
from retrieval_quality.logs.options import Options
from retrieval_quality.logs.rows import FieldError, Row, as_id, as_number
from retrieval_quality.logs.trec import _judge, read_qrels, read_run

CORPUS, QUERIES, RESULTS = "corpus.jsonl", "queries.jsonl", "results.json"


def is_folder(path: Path) -> bool:
    """Whether a folder looks like one of BEIR."""
    return any((path / name).exists() for name in (CORPUS, QUERIES, f"{QUERIES}.gz", "qrels"))


def query_texts(path: Path, account: Account, texts: bool = True) -> dict[str, str]:
    """Read ids and texts of JSON lines with ``_id`` and ``text``; the ids alone without `texts`."""
    found: dict[str, str] = {}
    for place, one in records(path, account):
        try:
            key = as_id(one.get("_id", one.get("id")), "_id") if isinstance(one, dict) else None
        except FieldError as wrong:
            account.fault(place, wrong.field, wrong.what, path.name)
            continue
        if key is None:
            account.fault(place, "_id", "there is no id", path.name)
        elif key in found:
            account.fault(place, "_id", f"the id {quote(key)} is there twice", path.name)
        else:
            found[key] = str(one.get("text", "")) if texts else ""
    return found


def read_folder(path: Path, options: Options, account: Account) -> Iterator[Row]:
    """Yield the rows of a BEIR folder; the lists are in ``--results``, else in results.json.

    Raises
    ------
    DataError
        A part is missing; says which, and which splits there are.
    """
    splits = sorted(one.stem for one in (path / "qrels").glob("*.tsv"))
    qrels_path = options.qrels or path / "qrels" / f"{options.split}.tsv"
    if not qrels_path.is_file():
        raise DataError(
            f"{path}: there is no qrels/{options.split}.tsv; splits found: "
            f"{', '.join(splits) or 'none'} (--split names another, --qrels another file)"
        )
    results = options.results or path / RESULTS
    if not results.is_file():
        raise DataError(
            f"{path} holds no retrieved lists: give them with --results, as a run or as JSON "
            "{query: {document: score}}"
        )
    texts = next(
        (path / name for name in (QUERIES, f"{QUERIES}.gz") if (path / name).exists()), None
    )
    asked = query_texts(texts, account) if texts else {}
    corpus = path / CORPUS
    known = set(query_texts(corpus, account, texts=False)) if corpus.is_file() else None
    qrels = read_qrels(qrels_path, account)
    account.settle()
    if known is not None:
        _compare("judged documents not in the corpus", qrels.labels, known, account)
    for query in qrels.labels:
        if texts and query not in asked:
            account.note("queries without a text", query)
    if first_line(results).lstrip().startswith("{"):
        rows = read_scores(results, account)
    else:
        rows = read_run(results, Options(order=options.order), account)
    seen = set()
    for row in rows:
        seen.add(row.query_id)
        row.query = asked.get(row.query_id or "")
        if texts and row.query is None and row.query_id not in qrels.labels:
            account.note("queries without a text", row.query_id or "")
        if known is not None:
            _compare(
                "retrieved documents not in the corpus",
                {row.query_id or "": dict.fromkeys(row.documents, 0.0)},
                known,
                account,
            )
        if row.query_id in qrels.labels:
            _judge(row, qrels.labels[row.query_id or ""])
        else:
            account.note("queries only in the run (no labels, no measures)", row.query_id or "")
        yield row
    if not seen & set(qrels.labels):
        raise DataError(f"{results.name} and {qrels_path.name} share no query; ids are text")
    for query, labels in qrels.labels.items():
        if query not in seen:
            account.note("queries only in the qrels (nothing retrieved for them)", query)
            row = Row(query, asked.get(query), labels=[], row=query, retrieved="missing")
            _judge(row, labels)
            yield row


def _compare(
    kind: str, found: dict[str, dict[str, float]], known: set[str], account: Account
) -> None:
    for query, documents in found.items():
        for document in documents:
            if document not in known:
                account.note(kind, f"{query} {document}")


def read_scores(path: Path, account: Account) -> Iterator[Row]:
    """Yield rows of ``{query: {document: score}}``, put in order as trec_eval does it."""
    for _, whole in records(path, account):
        if not isinstance(whole, dict):
            raise DataError(f"{path}: no object {{query: {{document: score}}}}")
        for query, scores in whole.items():
            try:
                yield _scored(query, scores, account)
            except FieldError as wrong:
                account.fault(f"query {quote(query)}", wrong.field, wrong.what, path.name)
    account.settle()


def _scored(query: str, scores: Any, account: Account) -> Row:
    if not isinstance(scores, dict):
        raise FieldError("", f"{quote(scores)} where an object of documents and scores belongs")
    numbers: dict[str, float] = {}
    for document, score in scores.items():
        number = as_number(score, f"document {document}")
        if number is None:
            raise FieldError(f"document {document}", "the score is no finite number")
        numbers[document] = number
    order = sorted(numbers, key=lambda one: one.encode(), reverse=True)
    order.sort(key=lambda one: -numbers[one])
    if len(set(numbers.values())) < len(numbers):
        account.note("queries with equal scores (put by document id, highest first)", query)
    return Row(query, documents=order, scores=[numbers[one] for one in order], row=query)


def looks_scored(content: Any) -> bool:
    """Whether parsed JSON is ``{query: {document: score}}``."""
    if not isinstance(content, dict) or not content:
        return False
    return all(
        isinstance(one, dict) and all(isinstance(v, int | float) for v in one.values())
        for one in list(content.values())[:20]
    )
