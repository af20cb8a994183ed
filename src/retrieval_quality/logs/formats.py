"""Which format a log is in, told by its content, and the rows that are in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.logs import beir, cases, plain, runs, spans, trec
from retrieval_quality.logs.account import Account
from retrieval_quality.logs.files import columns_of, first_line, is_lines, opened, parse, records
from retrieval_quality.logs.options import Options
from retrieval_quality.logs.rows import FieldError, Row, as_number, opened_parquet, read

Reader = Callable[[Path, Options, Account], Iterator[Row]]


@dataclass(frozen=True)
class Format:
    """A format: its name with ``--format``, what it is, and its reader."""

    name: str
    label: str
    read: Reader


def _table(path: Path, options: Options, account: Account) -> Iterator[Row]:
    yield from read(path)


def _qrels(path: Path, options: Options, account: Account) -> Iterator[Row]:
    qrels = trec.read_qrels(path, account)
    account.settle()
    raise UsageError(
        f"{path.name} is a file of judgements ({qrels.n} for {len(qrels.labels)} queries) and "
        "holds no retrieved lists: give the run as LOGS (or --run), and this as --qrels"
    )
    yield Row()  # pragma: no cover


def _scores(path: Path, options: Options, account: Account) -> Iterator[Row]:
    if options.qrels is None:
        yield from beir.read_scores(path, account)
        return
    qrels = trec.read_qrels(options.qrels, account)
    account.settle()
    seen = set()
    for row in beir.read_scores(path, account):
        seen.add(row.query_id)
        if row.query_id in qrels.labels:
            trec._judge(row, qrels.labels[row.query_id])
        else:
            account.note("queries only in the run (no labels, no measures)", row.query_id or "")
        yield row
    for query, labels in qrels.labels.items():
        if query not in seen:
            account.note("queries only in the qrels (nothing retrieved for them)", query)
            row = Row(query, labels=[], row=query, retrieved="missing")
            trec._judge(row, labels)
            yield row


FORMATS: dict[str, Format] = {
    one.name: one
    for one in (
        Format("table", "a table of `logs import`", _table),
        Format("trec", "a TREC run", trec.read_run),
        Format("qrels", "TREC qrels", _qrels),
        Format("scores", "retrieved lists as JSON {query: {document: score}}", _scores),
        Format("beir", "a BEIR folder", beir.read_folder),
        Format("ragas", "Ragas samples", cases.read_ragas),
        Format("deepeval", "DeepEval cases", cases.read_deepeval),
        Format("openinference", "OpenInference spans", spans.read_spans),
        Format("otel-genai", "OpenTelemetry GenAI spans", spans.read_spans),
        Format("phoenix-documents", "Phoenix's retrieved documents", spans.read_documents),
        Format("langsmith", "LangSmith runs", runs.read_langsmith),
        Format("mlflow", "MLflow traces", runs.read_mlflow),
        Format("plain", "a log with columns of its own", plain.read_plain),
    )
}
"""Every format by its name."""


@dataclass
class Log:
    """A log that was recognised, and not yet read.

    Attributes
    ----------
    path : Path
    format : Format
    options : Options
    account : Account
        Filled while `rows` are taken.
    """

    path: Path
    format: Format
    options: Options
    account: Account

    def rows(self) -> Iterator[Row]:
        """Yield the rows; what is wrong is raised at the latest after the last of them.

        Raises
        ------
        DataError
            Something is wrong, or there is no row at all.
        """
        from retrieval_quality.logs.rows import nothing

        some = False
        for row in self.format.read(self.path, self.options, self.account):
            some = True
            self._look(row)
            yield row
        self.account.settle()
        if not some:
            raise DataError(nothing(self.account))

    def peek(self, count: int) -> list[Row]:
        """Return the first rows, and count nothing."""
        account = Account(self.path.name, self.options.lenient)
        return list(islice(self.format.read(self.path, self.options, account), count))

    def _look(self, row: Row) -> None:
        account = self.account
        if len(set(row.documents)) < len(row.documents):
            kind = "repeated documents (the best place counts)"
            if self.format.name not in ("trec", "beir"):
                count = len(row.documents) - len(set(row.documents))
                account.note(kind, row.query_id or row.row, count)
        labels = [one for one in (*(row.labels or ()), *(row.missed or ())) if one is not None]
        if labels and (min(labels) < 0 or max(labels) > 1):
            below, above = sum(one < 0 for one in labels), sum(one > 1 for one in labels)
            if below:
                account.note("labels below 0 (judged unusable: not relevant)", count=below)
            if above:
                kind = "labels above 1 (relevant from --relevant-from on)"
                account.note(kind, count=above)


def open_log(path: Path | str, options: Options | None = None) -> Log:
    """Recognise a log.

    Parameters
    ----------
    path : path
        A file or a folder.
    options : Options, optional
        `Options.format` says the format instead of the content.

    Returns
    -------
    Log

    Raises
    ------
    DataError, UsageError
        It is not there, empty, broken from the first record on, or of no known format.
    """
    path, options = Path(path), options or Options()
    if options.format and options.format not in FORMATS:
        raise UsageError(f"--format {options.format}: there are {', '.join(FORMATS)}")
    if not path.exists():
        raise DataError(f"there is no {path}")
    name = options.format or recognise(path, options)
    return Log(path, FORMATS[name], options, Account(path.name, options.lenient))


def recognise(path: Path, options: Options | None = None) -> str:
    """Say which format a file or folder is in.

    Raises
    ------
    DataError
        None of the known ones; says what was seen.
    """
    options = options or Options()
    if path.is_dir():
        if beir.is_folder(path):
            return "beir"
        raise DataError(f"{path} is a folder without corpus.jsonl, queries.jsonl or qrels: no log")
    with path.open("rb") as file:
        start = file.read(4)
    if start == b"PAR1":
        return _of_parquet(path)
    kind = path.name.lower().removesuffix(".gz")
    if kind.endswith(".parquet"):
        raise DataError(f"{path} is no whole Parquet file")
    line = first_line(path)
    if not line:
        raise DataError(f"{path}: the file holds no rows")
    if line.lstrip()[:1] in ("{", "["):
        return _of_json(path)
    return _of_lines(path, line, options)


def _of_parquet(path: Path) -> str:
    if plain.is_own_table(path):
        return "table"
    with opened_parquet(path) as file:
        return _of_columns(path, list(file.schema_arrow.names))


def _of_columns(path: Path, names: list[str]) -> str:
    found = set(names)
    if any(name.startswith("attributes.") for name in names) or "span_kind" in found:
        return "openinference"
    if "document_position" in found and found & {"document", "reference"}:
        return "phoenix-documents"
    if found & {"document_position", "position"} and found & {"context.span_id", "span_id"}:
        raise UsageError(
            f"{path.name} holds document evaluations, labels without lists: give the spans (or "
            "retrieved documents) as LOGS, and this file as --labels"
        )
    if {"run_type", "inputs"} <= found:
        return "langsmith"
    if "user_input" in found or {"question", "contexts"} <= found:
        return "ragas"
    if "retrieval_context" in found or {"input", "actual_output"} <= found:
        return "deepeval"
    return "plain"


def _of_lines(path: Path, line: str, options: Options) -> str:
    cells = trec.words(line)
    if len(cells) >= 6 and _numeric(cells[4]) and "," not in cells[0]:
        return "trec"
    if len(cells) == 4 and trec._is_label(cells[3]):
        return "qrels"
    if len(cells) == 3 and (trec._is_label(cells[2]) or cells[0].lower() in trec.HEADERS):
        return "qrels"
    if len(cells) == 4 and cells[0].lower() in trec.HEADERS and "," not in line:
        return "qrels"
    if any(sign in line for sign in ",;\t") or options.columns:
        return _of_columns(path, columns_of(path, options.delimiter))
    raise DataError(
        f"{path}: of no known format; it begins with {line[:60]!r}. Name it with --format: "
        f"{', '.join(FORMATS)}"
    )


def _numeric(text: str) -> bool:
    if text.lower().lstrip("+-") in ("nan", "inf", "infinity"):
        return True
    with suppress(FieldError):
        return as_number(text, "") is not None
    return False


def _of_json(path: Path) -> str:
    for place, record in _beginning(path):
        if not isinstance(record, dict):
            where = f", {place}" if place else ""
            raise DataError(f"{path.name}{where}: a JSON log is made of objects; this is none")
        return of_record(record)
    raise DataError(f"{path}: the file holds no rows")


def _beginning(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the first record: of JSON lines without reading on."""
    if is_lines(path):
        with opened(path) as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    try:
                        yield "", parse(line)
                    except ValueError as error:
                        raise DataError(
                            f"{path.name}: line {number}: not whole JSON ({error})"
                        ) from error
        return
    yield from records(path, Account(path.name))


def of_record(record: Any) -> str:
    """Say which format a JSON record belongs to.

    Examples
    --------
    >>> of_record({"user_input": "q", "retrieved_contexts": []}), of_record({"id": 1})
    ('ragas', 'plain')
    """
    if not isinstance(record, dict):
        raise DataError("a JSON log is made of objects; the first entry is none")
    found = set(record)
    if found & {"resourceSpans", "resource_spans", "scopeSpans", "scope_spans"}:
        return _of_spans(record)
    if isinstance(record.get("context"), dict) and found & {"span_kind", "attributes", "parent_id"}:
        return _of_spans(record)
    if "next_cursor" in found and isinstance(record.get("data"), list):
        return _of_spans(record)
    if isinstance(record.get("info"), dict) and ("data" in found or "trace_id" in record["info"]):
        return "mlflow"
    if "run_type" in found or ("runs" in found and isinstance(record["runs"], list)):
        return "langsmith"
    if found & {"user_input", "retrieved_contexts", "retrieved_context_ids"}:
        return "ragas"
    if {"question", "contexts"} <= found:
        return "ragas"
    if found & {"testCases", "testRunData", "testRunLink"}:
        return "deepeval"
    if "input" in found and found & {"retrieval_context", "actual_output", "retrievalContext"}:
        return "deepeval"
    if beir.looks_scored(record):
        return "scores"
    return "plain"


def _of_spans(record: dict[str, Any]) -> str:
    for _, raw in spans._unfolded("", record):
        if isinstance(raw, dict):
            attributes = spans._attributes(raw.get("attributes"))
            if raw.get("span_kind") or any("openinference" in str(key) for key in attributes):
                return "openinference"
            if any(str(key).startswith("gen_ai.") for key in attributes):
                return "otel-genai"
    return "openinference"
