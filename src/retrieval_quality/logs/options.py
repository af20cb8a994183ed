"""What a user may say about a log when it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from retrieval_quality.errors import UsageError

STAGES = ("default", "final", "all")
ORDERS = ("score", "rank", "file")
WIDE = (
    *("query_id", "query", "documents", "scores", "labels", "answer", "reference", "grade"),
    *("time", "group", "n_relevant", "texts"),
)
LONG = ("document", "rank", "label", "score", "doc_id", "doc_text")
_OTHER_NAMES = {"docs": "documents", "doc": "document", "text": "doc_text"}


@dataclass(frozen=True)
class Options:
    """How to read a log.

    Attributes
    ----------
    format : str
        One of `retrieval_quality.logs.formats.FORMATS`; empty: told by the content.
    columns : mapping
        Our name to the log's: ``{"query": "question", "documents": "hits"}``; dots lead into
        nested objects.
    qrels, queries, results, labels : path, optional
        TREC judgements; the queries' texts; retrieved lists of a BEIR folder; document
        evaluations of Phoenix.
    split : str
        Which qrels of a BEIR folder.
    grade, group : str, optional
        Name of the evaluation or column that is the grade; where the group is.
    stage : {"default", "final", "all"}
        Which lists of a trace: retrievers with no retriever above them; the last list, which is
        the re-ranker's where there is one; every one.
    order : {"score", "rank", "file"}
        What orders a TREC run: scores with ties by document id, ranks, or scores with ties as
        they stand in the file.
    delimiter, list_separator : str, optional
        Between the columns of a CSV; between the entries of a list cell that is not JSON.
    decimal : str
        ``.`` or ``,``.
    layout : {"", "wide", "long"}
        One row a query, or one a document; empty: long where a document or rank is named.
    zone : tzinfo, optional
        What times without a zone are in.
    lenient : bool
        Leave broken rows out, counted.
    """

    format: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    qrels: Path | None = None
    queries: Path | None = None
    results: Path | None = None
    labels: Path | None = None
    split: str = "test"
    grade: str | None = None
    group: str | None = None
    stage: str = "default"
    order: str = "score"
    delimiter: str | None = None
    list_separator: str | None = None
    decimal: str = "."
    layout: str = ""
    zone: tzinfo | None = None
    lenient: bool = False


def parse_columns(pairs: tuple[str, ...]) -> dict[str, str]:
    """Read ``query=question,documents=hits``; may be given several times.

    Raises
    ------
    UsageError
        A name of ours is unknown, or there is no ``=``.

    Examples
    --------
    >>> parse_columns(("query=question,docs=hits",))
    {'query': 'question', 'documents': 'hits'}
    """
    found: dict[str, str] = {}
    for pair in ",".join(pairs).split(","):
        ours, equals, theirs = pair.strip().partition("=")
        ours = _OTHER_NAMES.get(ours.strip(), ours.strip())
        if not pair.strip():
            continue
        if not equals or not theirs.strip():
            raise UsageError(f"--columns {pair.strip()!r}: write OURS=THEIRS, as query=question")
        if ours not in (*WIDE, *LONG):
            raise UsageError(f"--columns {ours}: there are {', '.join((*WIDE, *LONG))}")
        if ours in found:
            raise UsageError(f"--columns: {ours} is given twice")
        found[ours] = theirs.strip()
    return found


def parse_zone(name: str | None) -> tzinfo | None:
    """Read the name of a time zone, such as ``UTC`` or ``Europe/Berlin``.

    Raises
    ------
    UsageError
        There is none of that name.
    """
    if not name:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError(f"--assume-zone {name!r}: no such time zone") from error
