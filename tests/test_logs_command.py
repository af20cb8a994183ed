"""The commands of `retrieval-quality logs` as they are typed."""

import json

import pandas as pd
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from llm_server import LlmServer, say
from retrieval_quality.cli import cli
from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.logs import example
from test_logs_formats import DATA

PLAIN = (
    "query_id=frage_id,query=frage,docs=treffer,labels=relevant,n_relevant=gesamt_relevant,"
    "answer=antwort,grade=note,time=zeitpunkt,group=abteilung"
)


def run(*arguments):
    found = CliRunner().invoke(cli, ["logs", *map(str, arguments)])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found


def test_check_says_what_can_be_computed():
    found = json.loads(run("check", DATA / "otel_genai" / "json_string.json", "--json").stdout)
    assert (found["format"], found["rows"]) == ("otel-genai", 7)
    assert found["with"]["grade"] == 7
    assert any(one.startswith("labels") for one in found["missing"])
    assert "15 judgements for 9 queries" in run("check", DATA / "trec" / "basic.qrels").stdout


def test_import_writes_the_table(tmp_path):
    out = tmp_path / "log.parquet"
    run("import", DATA / "langsmith" / "runs.jsonl", "--grade", "correctness", "--out", out)
    assert pq.read_table(out).num_rows == 7
    with pytest.raises(UsageError, match="parquet"):
        run("import", DATA / "langsmith" / "runs.jsonl", "--out", tmp_path / "x.csv")


LOG = '{"query_id": "1", "query": "q", "documents": ["a", "b"], "labels": [1, 0], "grade": 4}\n'


@pytest.mark.parametrize(
    ("command", "name"), [("import", "x.parquet"), ("compare", "x.csv"), ("choose", "x.csv")]
)
def test_out_replaces_neither_what_is_read_nor_what_is_not_ours(tmp_path, command, name):
    log = tmp_path / "log.jsonl"
    log.write_text(LOG, encoding="utf-8")
    logs = [log, log] if command == "compare" else [log]
    out = tmp_path / name
    run(command, *logs, "--out", out)
    run(command, *logs, "--out", out)
    out.write_text("mine\n", encoding="utf-8")
    with pytest.raises(UsageError, match="not made by this command"):
        run(command, *logs, "--out", out)
    assert out.read_text(encoding="utf-8") == "mine\n"
    out.unlink()
    out.symlink_to(log)
    with pytest.raises(UsageError, match="is what is read"):
        run(command, *logs, "--out", out)
    assert log.read_text(encoding="utf-8") == LOG


def test_import_leaves_the_table_of_another_alone(tmp_path):
    out = tmp_path / "log.parquet"
    pd.DataFrame({"a": [1]}).to_parquet(out)
    with pytest.raises(UsageError, match="no table of this program"):
        run("import", DATA / "langsmith" / "runs.jsonl", "--out", out)
    assert pd.read_parquet(out)["a"].tolist() == [1]


def test_measure_of_a_log_by_day(tmp_path):
    arguments = ["--top-k", "5,10", "--alpha", "0.5", "--by", "day", "--out", tmp_path / "report"]
    run("measure", DATA / "plain" / "log.csv", "--columns", PLAIN, *arguments)
    found = pd.read_csv(tmp_path / "report" / "measures.csv")
    names = ["measure", "alpha", "k", "group", "mean", "low", "high", "n_used", "n_total"]
    assert found.columns.tolist() == names
    assert set(found["k"]) == {5, 10}
    assert {"T", "T_u", "P", "nDCG", "F_e", "hit", "RR", "R", "F", "AP"} <= set(found["measure"])
    lines = pd.read_csv(tmp_path / "report" / "per_query.csv")
    assert lines[lines["value"].isna()]["reason"].notna().all()


def test_measure_of_a_run_with_qrels(tmp_path):
    trec = DATA / "trec"
    run(
        *("measure", "--run", trec / "basic.run", "--qrels", trec / "basic.qrels"),
        *("--measures", "P@5,R@10,nDCG@10,AP,RR,T@10", "--out", tmp_path),
    )
    found = pd.read_csv(tmp_path / "measures.csv")
    assert found["measure"].tolist() == ["P", "R", "nDCG", "AP", "RR", "T"]
    for wrong in (
        ["measure", "--run", trec / "basic.run", "--out", tmp_path],
        ["measure", "--out", tmp_path],
        ["measure", trec / "basic.qrels", "--out", tmp_path],
    ):
        with pytest.raises(UsageError):
            run(*wrong)


def test_compare_choose_and_report_on_the_made_up_log(tmp_path):
    path = example.write(tmp_path)
    found = run("compare", path, path, "--measures", "T,nDCG", "--top-k", 5)
    assert "all differences are equal" in found.stdout
    assert "false alarms" in found.stderr
    found = run("choose", path, "--top-k", 5, "--replicates", 100, "--data", "simulated")
    assert "follows the grades best" in found.stdout
    assert "say nothing of any retriever" in found.stdout
    run("report", path, "--top-k", 5, "--by", "week", "--out", tmp_path / "page.html")
    assert "<svg" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_label_asks_a_server_and_its_table_can_be_measured(tmp_path):
    line = {"query_id": "1", "query": "q", "documents": [{"id": "a", "text": "t"}]}
    (tmp_path / "log.jsonl").write_text(json.dumps(line) + "\n")
    with LlmServer(lambda asked: say("3")) as server:
        given = ["--model", "m", "--base-url", server.base_url, "--out", tmp_path / "labels"]
        found = run("label", tmp_path / "log.jsonl", *given, "--depth", "2k", "--dry-run")
        assert "1 calls to make" in found.stdout
        run("label", tmp_path / "log.jsonl", *given, "--sample", 200, "--depth", "2k")
    run("measure", tmp_path / "labels" / "labelled.parquet", "--out", tmp_path / "report")
    found = pd.read_csv(tmp_path / "report" / "measures.csv").set_index("measure")
    assert found.loc["P", "mean"] == 1


def test_a_fault_is_one_message_with_its_place(tmp_path):
    with pytest.raises(DataError, match=r"nan_score\.run: line 2, score"):
        run("import", DATA / "trec" / "nan_score.run", "--out", tmp_path / "x.parquet")
    found = run(
        *("import", DATA / "trec" / "nan_score.run", "--skip-broken"),
        *("--out", tmp_path / "x.parquet"),
    )
    assert "rows left out as broken: 2" in found.stderr


def test_a_result_without_any_value_is_no_success(tmp_path):
    log = tmp_path / "log.jsonl"
    row = {"query_id": "q1", "query": "who", "documents": ["a", "b"]}
    log.write_text(json.dumps(row) + "\n", encoding="utf-8")
    with pytest.raises(DataError, match="no measure has a value for any query"):
        run("measure", log, "--out", tmp_path / "report", "--unlabelled", "leave-out")
    assert (tmp_path / "report" / "per_query.csv").is_file()
    with pytest.raises(DataError, match="no measure has a value in both logs"):
        run("compare", log, log, "--measures", "T")
