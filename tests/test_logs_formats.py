"""Every log format against the rows that are right; broken files against the place they name."""

import gzip
import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from retrieval_quality.errors import DataError, RetrievalQualityError
from retrieval_quality.logs import rows as table
from retrieval_quality.logs.account import Account
from retrieval_quality.logs.formats import open_log, recognise
from retrieval_quality.logs.options import Options, parse_columns, parse_zone

DATA = Path(__file__).parent / "data" / "logs"
CASES = [
    (folder.name, name)
    for folder in sorted(DATA.iterdir())
    for name in json.loads((folder / "expected.json").read_text(encoding="utf-8"))["files"]
]
SAME = {"query": "query", "docs": "documents", "answer": "answer", "reference": "reference"}
SAME |= {"group": "group", "N_p": "n_relevant", "stage": "stage", "trace": "trace"}


def expected(folder):
    return json.loads((DATA / folder / "expected.json").read_text(encoding="utf-8"))["files"]


def opening(folder, name):
    """The file to read and the options that an expected entry presupposes."""
    entries = expected(folder)
    entry = entries[name]
    options = {}
    for one in (entries.get(entry.get("same_as"), {}), entry):
        mapping = dict(one.get("mapping", {}))
        if folder != "plain":
            options |= {k: mapping.pop(k) for k in ("grade", "group") if k in mapping}
        if mapping:
            options["columns"] = parse_columns(tuple(f"{k}={v}" for k, v in mapping.items()))
        for key in ("qrels", "queries", "results"):
            if key in one:
                options[key] = DATA / folder / one[key]
        for key in ("delimiter", "list_separator", "decimal", "layout"):
            if key in one:
                options[key] = one[key]
    path = DATA / folder / name
    if "run" in entry:
        options["qrels"], path = path, DATA / folder / entry["run"]
    if "with_file" in entry:
        options["labels"], path = path, DATA / folder / entry["with_file"]
    rows = entries[entry["same_as"]]["rows"] if "same_as" in entry else entry.get("rows")
    return path, options, entry, rows


def iso(ns):
    if ns is None:
        return None
    seconds, fraction = divmod(ns, 10**9)
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return text + (f".{fraction:09d}".rstrip("0") if fraction else "") + "Z"


@pytest.mark.parametrize(("folder", "name"), CASES)
def test_a_file_gives_its_rows_or_names_its_fault(folder, name):
    path, options, entry, want = opening(folder, name)
    if entry["expect"] == "error":
        with pytest.raises(RetrievalQualityError) as told:
            list(open_log(path, Options(**options)).rows())
        for line in entry.get("lines", ()):
            assert re.search(rf"\b{line}\b", str(told.value))
        assert entry.get("field", "") in str(told.value)
        assert path.name in str(told.value) or name in str(told.value)
        return
    stages = ("default", "all", "final") if "stage" in want[0] else ("default",)
    for stage in stages:
        got = list(open_log(path, Options(stage=stage, **options)).rows())
        wanted = [r for r in want if r["docs"] is not None and (stage == "all" or r.get(stage, 1))]
        assert len(got) == len(wanted)
        by_key = {(r.query_id if r.query_id is not None else r.row): r for r in got}
        in_order = len(by_key) < len(got)
        for i, right in enumerate(wanted):
            key = right["query_id"] if right["query_id"] is not None else str(right["row"])
            row = got[i] if in_order else by_key[key]
            for theirs, ours in SAME.items():
                if theirs in right:
                    assert getattr(row, ours) == right[theirs], (key, theirs)
            if "grade" in right:
                assert row.grade == right["grade"]
            if "time" in right:
                assert iso(row.time) == right["time"]
            assert (row.labels or None) == (right["labels"] or None)


def test_what_is_left_out_is_counted():
    def counted(folder, name, **more):
        path, options, _, _ = opening(folder, name)
        log = open_log(path, Options(**options, **more))
        list(log.rows())
        return log.account

    account = counted("langsmith", "failed_and_pending.jsonl")
    assert account.count("failed retriever spans left out") == 1
    assert account.count("unfinished retriever spans left out") == 1
    account = counted("otel_genai", "json_string.json")
    assert account.count("documents not recorded, spans left out") == 1
    account = counted("trec", "rank_against_score.run")
    assert account.count("queries whose ranks contradict the scores") == 2
    account = counted("trec", "graded.run")
    assert account.count("labels below 0 (judged unusable: not relevant)") == 3
    assert account.count("labels above 1 (relevant from --relevant-from on)") == 4
    account = counted("beir", "unknown_ids")
    assert account.count("judged documents not in the corpus") == 1
    assert account.count("retrieved documents not in the corpus") == 1
    assert account.count("queries without a text") == 1
    account = counted("openinference", "gap_in_indices.json")
    assert account.count("spans with missing indices (a document was lost)") == 1
    account = counted("trec", "nan_score.run", lenient=True)
    assert account.count("rows left out as broken") == 2


def test_ties_can_be_read_in_other_orders():
    for name, order in (("ties.run", "file"), ("rank_against_score.run", "rank")):
        path, options, _, want = opening("trec", name)
        got = {
            r.query_id: r.documents for r in open_log(path, Options(order=order, **options)).rows()
        }
        for right in want:
            if order in right.get("other_orders", {}):
                assert got[right["query_id"]] == right["other_orders"][order]


def test_the_table_holds_what_was_read_and_is_read_again(tmp_path):
    path, options, _, _ = opening("openinference", "phoenix_spans.jsonl")
    log = open_log(path, Options(**options))
    count = table.write(log.rows(), tmp_path / "log.parquet", log.account)
    names = pq.read_schema(tmp_path / "log.parquet").names
    assert names[:10] == list(table.COLUMNS)
    again = open_log(tmp_path / "log.parquet")
    assert again.format.name == "table"
    assert list(again.rows()) == list(open_log(path, Options(**options)).rows())
    assert count == 8


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


def test_a_broken_source_leaves_no_table(tmp_path):
    log = open_log(DATA / "ragas" / "truncated.jsonl")
    with pytest.raises(DataError, match="line 4"):
        table.write(log.rows(), tmp_path / "log.parquet", log.account)
    assert list(tmp_path.iterdir()) == []


def test_qrels_lines_of_every_kind(tmp_path):
    run = write(tmp_path / "a.run", "007 Q0 d 1 2 x\n7 Q0 d 1 2 x\n-5\tQ0 d 1 2e0 x more\n")
    qrels = '# made by us\n007 0 d "1"\r\n7\t0  d 0\n\n-5 0 d 2'
    for raw in (qrels.encode(), gzip.compress(qrels.encode(), mtime=0)):
        (tmp_path / "q").write_bytes(raw)
        got = {r.query_id: r.labels for r in open_log(run, Options(qrels=tmp_path / "q")).rows()}
        assert got == {"007": [1.0], "7": [0.0], "-5": [2.0]}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("q1 0 d1 0.9\nq1 0 d2 0.4\n", "line 1, label: the label '0.9'"),
        ("q1 0 d1 yes\n", "line 1, label: the label 'yes'"),
        ("q1 0 d1 1 1\n", "line 1: 5 fields"),
        ("q1 0 d1 1\nq1 0 d1 1\n", "lines 1 and 2"),
        ("q9 0 d1 1\n", "share no query"),
    ],
)
def test_bad_qrels_are_refused_by_line(tmp_path, text, said):
    run = write(tmp_path / "a.run", "q1 Q0 d1 1 2 x\n")
    with pytest.raises(DataError, match=re.escape(said)):
        list(open_log(run, Options(qrels=write(tmp_path / "q", text))).rows())


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("{}", "an object where a list belongs"),
        ('[{"id": "a"}, {}]', "docs[1]: neither an id nor a text"),
        ("[true]", "docs[0]: True is no id"),
        ("[1.5]", "docs[0]: 1.5 is no id"),
        ("17", "17 where a list belongs"),
        ('"[1, 2"', "no whole list"),
    ],
)
def test_documents_that_are_none_are_refused_by_line_and_field(tmp_path, cell, said):
    lines = '{"id": 1, "docs": ["a"]}\n{"id": 2, "docs": ' + cell + "}\n"
    path = write(tmp_path / "log.jsonl", lines)
    with pytest.raises(DataError, match=re.escape(said)) as told:
        list(open_log(path).rows())
    assert "line 2, docs" in str(told.value)


def test_documents_as_a_json_text_are_read(tmp_path):
    path = write(tmp_path / "log.jsonl", '{"id": "007", "query": "q", "docs": "[\\"7\\", 7]"}\n')
    (row,) = open_log(path, Options(columns={"query_id": "id"})).rows()
    assert (row.query_id, row.documents) == ("007", ["7", "7"])


def test_hostile_texts_stay_text(tmp_path):
    text = "<script>x</script>\x1b[31m\u202e" + "a" * (10 << 20)
    line = json.dumps({"query": text[:40], "documents": [{"text": text, "label": 1}]})
    path = write(tmp_path / "log.jsonl", line + "\n")
    log = open_log(path)
    table.write(log.rows(), tmp_path / "t.parquet", log.account)
    (row,) = open_log(tmp_path / "t.parquet").rows()
    assert row.texts == [text]
    with pytest.raises(DataError) as told:
        list(open_log(write(tmp_path / "b.jsonl", line[:-1] + ', "time": "\\u001b[0m"}\n')).rows())
    assert "\x1b" not in str(told.value)
    assert "time" in str(told.value)


def test_times_without_a_zone_are_not_guessed(tmp_path):
    line = '{"query": "q", "documents": ["a"], "time": "2025-03-04 10:00:00"}\n'
    path = write(tmp_path / "log.jsonl", line)
    (row,) = open_log(path).rows()
    assert row.time is None
    (row,) = open_log(path, Options(zone=parse_zone("Europe/Berlin"))).rows()
    assert iso(row.time) == "2025-03-04T09:00:00Z"


def span(key, parent, kind="RETRIEVER", **more):
    documents = [{"document.id": key}] if kind in ("RETRIEVER", "RERANKER") else None
    name = "reranker.output_documents" if kind == "RERANKER" else "retrieval.documents"
    attributes = {"input.value": "q", **({name: documents} if documents else {})}
    return {
        "context": {"trace_id": "aa", "span_id": key},
        "parent_id": parent,
        "span_kind": kind,
        "start_time": "2025-03-04T10:00:00Z",
        "end_time": "2025-03-04T10:00:01Z",
        "status_code": "OK",
        "attributes": attributes,
        **more,
    }


def read_spans(path, spans, stage="default"):
    write(path, "".join(json.dumps(one) + "\n" for one in spans))
    log = open_log(path, Options(stage=stage))
    return [row.query_id for row in log.rows()], log.account


def test_retries_circles_and_ends_that_do_not_come(tmp_path):
    spans = [
        span("01", "0a", status_code="ERROR"),
        span("02", "0a"),
        span("03", "04"),
        span("04", "03", "CHAIN"),
        span("05", "0a", end_time=None, attributes={"input.value": "q"}),
        span("02", "0a"),
        span("0a", None, "CHAIN", end_time=None),
    ]
    found, account = read_spans(tmp_path / "s.jsonl", spans)
    assert found == ["02", "03"]
    assert account.count("failed retriever spans left out") == 1
    assert account.count("unfinished retriever spans left out") == 1
    assert account.count("spans that the export repeats") == 1


def test_the_last_reranker_is_the_final_list(tmp_path):
    spans = [
        span("01", None),
        span("02", None, "RERANKER", start_time="2025-03-04T10:00:03Z"),
        span("03", None, "RERANKER", start_time="2025-03-04T10:00:02Z"),
    ]
    assert read_spans(tmp_path / "s.jsonl", spans, "final")[0] == ["02"]
    assert read_spans(tmp_path / "s.jsonl", spans)[0] == ["01"]


def test_a_grade_may_be_logged_apart_from_its_span(tmp_path):
    def attribute(key, **value):
        return {"key": key, "value": value}

    retrieval = {
        "traceId": "AA",
        "spanId": "01",
        "startTimeUnixNano": "1741079700000000000",
        "endTimeUnixNano": "1741079700000000001",
        "attributes": [
            attribute("gen_ai.operation.name", stringValue="retrieval"),
            attribute("gen_ai.retrieval.documents", stringValue='[{"id": 1}]'),
        ],
    }
    graded = {
        "eventName": "gen_ai.evaluation.result",
        "traceId": "aa",
        "spanId": "01",
        "attributes": [
            attribute("gen_ai.evaluation.name", stringValue="good"),
            attribute("gen_ai.evaluation.score.value", doubleValue=0.25),
        ],
    }
    lines = [
        {"resourceSpans": [{"scopeSpans": [{"spans": [retrieval]}]}]},
        {"resourceLogs": [{"scopeLogs": [{"logRecords": [graded]}]}]},
    ]
    path = write(tmp_path / "o.jsonl", "".join(json.dumps(one) + "\n" for one in lines))
    (row,) = open_log(path, Options(grade="good")).rows()
    assert (row.grade, row.documents) == (0.25, ["1"])


def test_larger_than_what_is_held_in_memory_gives_the_same(monkeypatch):
    from retrieval_quality.logs import files

    path, options, _, _ = opening("trec", "basic.run")
    right = list(open_log(path, Options(**options)).rows())
    monkeypatch.setattr(files.grouped, "__defaults__", (3,))
    assert list(open_log(path, Options(**options)).rows()) == right


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.run", b"", "0 bytes"),
        ("x.run", "q Q0 d 1 2 x".encode("utf-16"), "UTF-16"),
        ("x.jsonl", b"PK\x03\x04....", "zip archive"),
        ("x.parquet", b"PAR1 and no more", "no whole Parquet"),
        ("x.txt", b"hello\n", "no known format"),
        ("x.jsonl", b'{"a": 1, "a": 2}\n', "line 1"),
        ("x.csv", b"id,id,docs\n1,2,[]\n", "there twice"),
        ("x.csv", b'id,docs\n1,"[""a""]\n', "line 2"),
    ],
)
def test_files_that_are_no_log(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RetrievalQualityError, match=re.escape(said)):
        list(open_log(tmp_path / name).rows())


@pytest.mark.parametrize(
    ("folder", "name", "format"),
    [
        ("trec", "basic.qrels", "qrels"),
        ("trec", "three_columns_header.tsv", "qrels"),
        ("trec", "basic.run.gz", "trec"),
        ("beir", "museum", "beir"),
        ("otel_genai", "structured.json", "otel-genai"),
        ("openinference", "phoenix_spans.parquet", "openinference"),
        ("openinference", "phoenix_retrieved_documents.csv", "phoenix-documents"),
        ("ragas", "result_pandas.csv", "ragas"),
        ("deepeval", "test_run.json", "deepeval"),
        ("mlflow", "traces.jsonl", "mlflow"),
        ("langsmith", "runs.jsonl", "langsmith"),
        ("plain", "long.csv", "plain"),
    ],
)
def test_formats_are_told_by_their_content(folder, name, format):
    assert recognise(DATA / folder / name) == format


def test_a_message_shows_what_a_terminal_would_hide():
    account = Account("x")
    account.fault("line\x1b[0m 1", "f", "bad")
    with pytest.raises(DataError) as told:
        account.settle()
    assert "\x1b" not in str(told.value)
