"""What a log is, what is in it, what can be computed from it and what is missing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from retrieval_quality.errors import DataError
from retrieval_quality.logs import measuring, trec
from retrieval_quality.logs.account import Account
from retrieval_quality.logs.formats import FORMATS, open_log, recognise
from retrieval_quality.logs.options import Options
from retrieval_quality.text import visible

_FIELDS = ("query_id", "query", "scores", "labels", "answer", "reference", "grade", "time", "group")
ENOUGH_GRADES = 30
"""Graded queries below which `choose` does not choose."""


def check(path: Path, options: Options) -> dict[str, Any]:
    """Read a log to its end and say what is in it.

    Parameters
    ----------
    path : path
    options : Options

    Returns
    -------
    dict
        ``format``, ``rows``, ``with`` (rows that have a field, by field), ``documents``,
        ``can`` and ``missing`` (sentences), ``notices``, ``evaluations`` (rows by name of an
        evaluation that could be the grade).

    Raises
    ------
    DataError
        It is broken, or holds no retrieval.
    """
    if not path.exists():
        raise DataError(f"there is no {path}")
    if (options.format or (path.is_file() and recognise(path, options))) == "qrels":
        return _qrels(path, options)
    log = open_log(path, options)
    having: Counter[str] = Counter()
    tally = measuring.Tally()
    lengths: Counter[int] = Counter()
    queries: set[str] = set()
    with_texts = 0
    for row in log.rows():
        tally.add(row, measuring.judge(row, 1), ())
        having.update(name for name in _FIELDS if getattr(row, name) is not None)
        lengths[len(row.documents)] += 1
        with_texts += bool(row.texts)
        if row.grade is not None and len(queries) < 1000:
            queries.add(measuring.key_of(row))
    can, missing = _verdict(tally, having, with_texts, len(queries))
    return {
        "file": path.name,
        "format": log.format.name,
        "label": log.format.label,
        "rows": tally.rows,
        "with": {name: having[name] for name in _FIELDS},
        "with_texts": with_texts,
        "complete_labels": tally.complete,
        "documents": tally.documents,
        "lengths": {str(k): lengths[k] for k in sorted(lengths)[:20]},
        "counts": tally.sentences(),
        "evaluations": log.account.evaluations,
        "can": can,
        "missing": missing,
        "notices": log.account.as_list(),
    }


def _qrels(path: Path, options: Options) -> dict[str, Any]:
    account = Account(path.name, options.lenient)
    qrels = trec.read_qrels(path, account)
    account.settle()
    return {
        "file": path.name,
        "format": "qrels",
        "label": FORMATS["qrels"].label,
        "rows": 0,
        "judgements": qrels.n,
        "queries": len(qrels.labels),
        "can": [],
        "missing": ["retrieved lists: give a run as LOGS, and this file as --qrels"],
        "notices": account.as_list(),
    }


def _verdict(
    tally: measuring.Tally, having: Counter[str], with_texts: int, graded: int
) -> tuple[list[str], list[str]]:
    can, missing = [], []
    labelled = having["labels"]
    if labelled:
        names = ", ".join(measuring.WITHOUT_RELEVANT)
        can.append(f"logs measure: {names} for {labelled} rows (F_e needs labels to rank 2K)")
    else:
        missing.append("labels: without them nothing is measured; `logs label` asks for them")
    if tally.complete:
        names = ", ".join(measuring.WITH_RELEVANT)
        can.append(f"logs measure: {names} too, for {tally.complete} rows with complete labels")
    else:
        missing.append("complete labels (N_p): without them no R, F, AP, usual nDCG")
    if with_texts and having["query"]:
        can.append(f"logs label: {min(with_texts, having['query'])} rows have query and texts")
    else:
        missing.append("texts of queries and documents together: needed by `logs label`")
    if having["time"]:
        can.append("--by day, week, month")
    else:
        missing.append("times with a zone: needed for --by day")
    if graded >= ENOUGH_GRADES and labelled:
        can.append(f"logs choose: {having['grade']} graded rows")
    else:
        what = f"graded answers ({having['grade']} rows, {graded} queries)"
        missing.append(f"{what}: `logs choose` needs labels and at least {ENOUGH_GRADES} queries")
    return can, missing


def text(found: dict[str, Any]) -> str:
    """Say it in lines."""
    lines = [f"{found['file']}: {found['label']} (--format {found['format']})"]
    if found["format"] == "qrels":
        lines.append(f"{found['judgements']} judgements for {found['queries']} queries")
    else:
        lines += [
            *found["counts"],
            "rows with: "
            + ", ".join(f"{name} {count}" for name, count in found["with"].items() if count),
        ]
    if found.get("evaluations"):
        named = ", ".join(f"{name} ({n})" for name, n in found["evaluations"].items())
        lines.append(f"evaluations (--grade takes one): {named}")
    for notice in found["notices"]:
        places = f" ({', '.join(notice['places'])})" if notice["places"] else ""
        lines.append(f"noticed: {notice['kind']}: {notice['count']}{places}")
    lines += [f"can: {one}" for one in found["can"]]
    lines += [f"missing: {one}" for one in found["missing"]]
    return "\n".join(visible(line) for line in lines)
