"""Test cases of evaluation tools: Ragas samples and DeepEval cases.

Ragas: ``src/ragas/dataset_schema.py``; DeepEval: ``deepeval/dataset/dataset.py`` (save_as) and
``deepeval/test_run/test_run.py``. Neither is installed; only their files are read.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from retrieval_quality.errors import DataError
from retrieval_quality.logs.account import Account, quote
from retrieval_quality.logs.files import Record, is_csv, parse, records, table_rows
from retrieval_quality.logs.options import Options
from retrieval_quality.logs.rows import (
    Document,
    FieldError,
    Row,
    as_id,
    as_number,
    as_text,
    as_time,
    content_id,
    fill,
    judge_complete,
    parquet_records,
)

_RAGAS_OLD = {
    "question": "user_input",
    "contexts": "retrieved_contexts",
    "answer": "response",
    "ground_truth": "reference",
}
_NO_REFERENCE = "samples without reference contexts (no labels)"


def dig(record: Any, path: str) -> Any:
    """Follow a dotted path into nested objects; a key with dots in it comes first; else None.

    Examples
    --------
    >>> dig({"a": {"b": 1}, "c.d": 2}, "a.b"), dig({"c.d": 2}, "c.d"), dig({}, "x.y")
    (1, 2, None)
    """
    if not isinstance(record, dict):
        return None
    if path in record:
        return record[path]
    head, dot, rest = path.partition(".")
    while dot:
        if head in record and (found := dig(record[head], rest)) is not None:
            return found
        more, dot, rest = rest.partition(".")
        head = f"{head}.{more}"
    return None


def as_list(value: Any, field: str, separator: str | None = None) -> list[Any] | None:
    """Read a list: a list, JSON or Python text of one, or a text cut at `separator`.

    Raises
    ------
    FieldError
        It is an object, a number, or a text that is no list.

    Examples
    --------
    >>> as_list('["a", "b"]', "x"), as_list("['a']", "x"), as_list("a|b", "x", "|")
    (['a', 'b'], ['a'], ['a', 'b'])
    """
    if value is None or (isinstance(value, float) and value != value):
        return None
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, str):
        text = value.strip()
        if text.startswith(("[", "{")):
            return _parsed(value, text, field, separator)
        if separator is not None:
            return text.split(separator) if text else []
        if not text:
            return None
    kind = "an object" if isinstance(value, dict) else quote(value)
    raise FieldError(field, f"{kind} where a list belongs")


def _parsed(value: str, text: str, field: str, separator: str | None) -> list[Any]:
    try:
        found = parse(text)
    except ValueError as error:
        if "'" in text and ("'," in text or "']" in text) and "' '" not in text.replace("\n", " "):
            try:
                found = ast.literal_eval(text)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                raise FieldError(field, f"{quote(text)} is no whole list") from error
        elif separator is not None and text.startswith("["):
            return value.split(separator)
        else:
            raise FieldError(field, f"{quote(text)} is no whole list ({error})") from error
    if not isinstance(found, list):
        raise FieldError(field, "an object where a list belongs")
    return found


def texts_of(value: Any, field: str, separator: str | None = None) -> list[str] | None:
    """Read a list of texts; an entry that is none is named by its index from 0.

    Raises
    ------
    FieldError
        Something in it is not a text.
    """
    found = as_list(value, field, separator)
    if found is None:
        return None
    wrong = [i for i, one in enumerate(found) if not isinstance(one, str)]
    if wrong:
        kinds = ", ".join(f"{quote(found[i])} at [{i}]" for i in wrong[:3])
        raise FieldError(f"{field}[{wrong[0]}]", f"{kinds} where a text belongs")
    return found


def _records(path: Path, account: Account, options: Options, noun: str) -> Iterator[Record]:
    name = path.name.lower().removesuffix(".gz")
    if name.endswith(".parquet"):
        yield from parquet_records(path)
    elif is_csv(path):
        yield from table_rows(path, account, options.delimiter)
    else:
        yield from records(path, account, noun)


# --- Ragas --------------------------------------------------------------------------------------


def read_ragas(path: Path, options: Options, account: Account) -> Iterator[Row]:
    """Yield the rows of Ragas samples: JSON lines, an array, ``to_csv``, or Parquet.

    Multi-turn samples hold no retrieved list: left out and counted. A sample has no id; `row`
    is its number in the file.
    """
    for number, (place, sample) in enumerate(_records(path, account, options, "sample"), start=1):
        if not isinstance(sample, dict):
            account.fault(place, "", "not an object")
            continue
        try:
            row = _ragas(sample, place, options, account)
        except FieldError as wrong:
            account.fault(place, wrong.field, wrong.what)
            continue
        if row is not None:
            row.row = str(number)
            yield row
    account.settle()


def _ragas(sample: dict[str, Any], place: str, options: Options, account: Account) -> Row | None:
    known = {**{_RAGAS_OLD.get(name, name): value for name, value in sample.items()}, **sample}
    if isinstance(known.get("user_input"), list):
        account.note("multi-turn samples, left out (user_input is a list of messages)", place)
        return None
    contexts = texts_of(known.get("retrieved_contexts"), "retrieved_contexts")
    ids = as_list(known.get("retrieved_context_ids"), "retrieved_context_ids")
    if contexts is None and ids is None:
        account.note("retrieved documents not recorded, left out", place)
        return None
    if contexts is not None and ids is not None and len(contexts) != len(ids):
        what = f"{len(ids)} ids for {len(contexts)} contexts"
        raise FieldError("retrieved_context_ids", what)
    size = len(ids if ids is not None else contexts or [])
    documents = []
    for i in range(size):
        key = as_id(ids[i], f"retrieved_context_ids[{i}]") if ids is not None else None
        documents.append(Document(key, contexts[i] if contexts is not None else None))
    row = Row(
        query=as_text(known.get("user_input"), "user_input"),
        answer=as_text(known.get("response"), "response") or None,
        reference=as_text(known.get("reference"), "reference") or None,
    )
    fill(row, documents, "retrieved_contexts[{}]")
    wanted = as_list(known.get("reference_context_ids"), "reference_context_ids")
    ideal = texts_of(known.get("reference_contexts"), "reference_contexts")
    if wanted is not None and ids is not None:
        keys = [as_id(one, f"reference_context_ids[{i}]") for i, one in enumerate(wanted)]
        judge_complete(row, [key for key in keys if key is not None])
    elif ideal is not None and contexts is not None:
        if ids is None:
            judge_complete(row, [content_id(one) for one in ideal])
        else:
            _by_text(row, contexts, ideal)
    else:
        account.note(_NO_REFERENCE, place)
    row.grade = _named(known, options.grade)
    row.group = _group(known, options.group)
    row.time = as_time(_mapped(known, options, "time"), "time", account, options.zone)
    return row


def _by_text(row: Row, texts: list[str], ideal: list[str]) -> None:
    """Label documents with ids by equal texts; every missing text is one missed document."""
    wanted = set(ideal)
    found = {text: key for key, text in zip(row.documents, texts, strict=True) if text in wanted}
    judge_complete(row, [found.get(text, content_id(text)) for text in dict.fromkeys(ideal)])
    row.labels = [1.0 if text in wanted else 0.0 for text in texts]


def _mapped(record: dict[str, Any], options: Options, name: str) -> Any:
    return dig(record, options.columns[name]) if name in options.columns else None


def _named(record: dict[str, Any], name: str | None) -> float | None:
    return as_number(dig(record, name), name, ".") if name else None


def _group(record: dict[str, Any], name: str | None) -> str | None:
    if not name:
        return None
    value = dig(record, name)
    return value if value is None or isinstance(value, str) else as_id(value, name)


# --- DeepEval -----------------------------------------------------------------------------------

_DEEPEVAL = {
    "actualOutput": "actual_output",
    "expectedOutput": "expected_output",
    "retrievalContext": "retrieval_context",
    "additionalMetadata": "additional_metadata",
    "metricsData": "metrics_data",
}


def read_deepeval(path: Path, options: Options, account: Account) -> Iterator[Row]:
    """Yield the rows of DeepEval cases: ``save_as`` (json, jsonl, csv) or a test run."""
    number = 0
    for place, found in _records(path, account, options, "case"):
        for inner, case in _cases(place, found, path, account):
            number += 1
            try:
                row = _deepeval(case, inner, options, account)
            except FieldError as wrong:
                account.fault(inner, wrong.field, wrong.what)
                continue
            if row is not None:
                row.row = str(number)
                yield row
    account.settle()


def _cases(place: str, found: Any, path: Path, account: Account) -> Iterator[Record]:
    if not isinstance(found, dict):
        account.fault(place, "", "not an object")
        return
    found = found.get("testRunData", found)
    if not isinstance(found, dict):
        account.fault(place, "testRunData", f"{quote(found)} where an object belongs")
    elif "testCases" in found:
        several, cases = found.get("conversationalTestCases"), found["testCases"]
        if isinstance(several, list) and several:
            kind = "conversational cases, left out (no retrieved list)"
            account.note(kind, count=len(several))
        if not isinstance(cases, list | None):
            account.fault(place, "testCases", f"{quote(cases)} where a list belongs")
            return
        for number, case in enumerate(cases or (), start=1):
            yield f"case {number}", case
    elif "testRunLink" in found and "input" not in found:
        raise DataError(f"{path} holds only a link to a test run, not its cases")
    else:
        yield place or "case 1", found


def _deepeval(case: Any, place: str, options: Options, account: Account) -> Row | None:
    if not isinstance(case, dict):
        raise FieldError("", f"{quote(case)} where a case belongs")
    known: dict[str, Any] = {
        _DEEPEVAL.get(str(name), str(name)): value for name, value in case.items()
    }
    if "input" not in known and ("scenario" in known or "turns" in known):
        account.note("conversational cases, left out (no retrieved list)", place)
        return None
    if isinstance(known.get("retrieval_context"), str) and "|" in known["retrieval_context"]:
        account.note(
            "lists joined with '|', which a text may hold too: the cut is ambiguous", place
        )
    contexts = texts_of(known.get("retrieval_context"), "retrieval_context", "|")
    ideal = texts_of(known.get("context"), "context", "|")
    if contexts is None:
        account.note("retrieved documents not recorded, left out", place)
        return None
    row = Row(
        query=as_text(known.get("input"), "input"),
        answer=as_text(known.get("actual_output"), "actual_output") or None,
        reference=as_text(known.get("expected_output"), "expected_output") or None,
    )
    texts = [_context(one) for one in contexts]
    fill(row, [Document(text=one) for one in texts], "retrieval_context[{}]")
    blank = isinstance(known.get("context"), str) and not known["context"].strip()
    if ideal is not None and not blank:
        judge_complete(row, [content_id(_context(one)) for one in ideal])
    else:
        account.note("cases without ideal contexts (no labels)", place)
    row.grade = _metric(known, options.grade)
    row.group = _group(_opened(known), options.group)
    row.time = as_time(_mapped(_opened(known), options, "time"), "time", account, options.zone)
    return row


def _context(text: str) -> str:
    """Take the context out of ``deepeval_source=S,deepeval_context=C``."""
    head, found, context = text.partition(",deepeval_context=")
    return context if found and head.startswith("deepeval_source=") else text


def _opened(case: dict[str, Any]) -> dict[str, Any]:
    metadata = case.get("additional_metadata")
    if isinstance(metadata, str) and metadata.lstrip().startswith("{"):
        try:
            return {**case, "additional_metadata": parse(metadata)}
        except ValueError:
            try:
                return {**case, "additional_metadata": ast.literal_eval(metadata)}
            except (ValueError, SyntaxError):
                return case
    return case


def _metric(case: dict[str, Any], name: str | None) -> float | None:
    if not name:
        return None
    for metric in case.get("metrics_data") or ():
        if isinstance(metric, dict) and metric.get("name") == name:
            score = as_number(metric.get("score"), name)
            success = metric.get("success")
            return float(success) if score is None and isinstance(success, bool) else score
    return _named(_opened(case), name)
