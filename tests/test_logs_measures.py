"""Values of a log against those that are right, trec_eval's and ir_measures'."""

import json
import math
from pathlib import Path

import ir_measures
import numpy as np
import pandas as pd
import pytest

from retrieval_quality.errors import UsageError
from retrieval_quality.logs import measuring, report
from retrieval_quality.logs.formats import open_log
from retrieval_quality.logs.measuring import Rules, Wanted, measure, parse_measures
from retrieval_quality.logs.options import Options
from retrieval_quality.logs.rows import Row
from test_logs_formats import CASES, DATA, opening

TREC = Path(__file__).parent / "data" / "trec_eval"
NAMES = {"P": "P", "nDCG_paper": "nDCG_paper", "hit": "hit", "RR": "RR", "R": "R", "AP": "AP"}
NAMES |= {"nDCG": "nDCG_usual"}
EVERY = parse_measures("P,nDCG_paper,nDCG_usual,hit,RR,R,AP,F,T,T_u", [0.1, 0.5, 0.9])
MEASURED = [
    case
    for case in CASES
    if any((row.get("measures") or {}) for row in opening(*case)[3] or ())
    and opening(*case)[2]["expect"] != "error"
]


def scored(log, tmp_path, **rules):
    path = tmp_path / "per_query.csv"
    measure(log.rows(), Rules(tuple(rules.pop("wanted", EVERY)), **rules), path)
    return pd.read_csv(path, dtype={"query_id": str, "row": str})


def agrees(lines, right):
    def one(name, alpha=None):
        same = lines[lines["measure"] == name]
        same = same[same["alpha"].isna() if alpha is None else same["alpha"] == alpha]
        assert len(same) == 1
        return same.iloc[0]

    for theirs, ours in NAMES.items():
        if theirs in right:
            got = one(ours)
            if right[theirs] is None:
                assert math.isnan(got["value"])
                assert isinstance(got["reason"], str)
            else:
                assert got["value"] == pytest.approx(right[theirs], abs=1e-12), ours
    for name in ("T", "T_u"):
        for alpha, value in (right.get(name) or {}).items():
            got = one(name, float(alpha))["value"]
            assert math.isnan(got) if value is None else got == pytest.approx(value, abs=1e-12)
    if right.get("F") is not None:
        assert one("F", 0.5)["value"] == pytest.approx(right["F"], abs=1e-12)
    got = one("P")
    assert (got["retrieved"], got["positives"]) == (right["K"], right["n_p"])
    assert got["unlabelled"] == right["unlabelled"]


@pytest.mark.parametrize(("folder", "name"), MEASURED)
def test_values_are_those_that_are_right(folder, name, tmp_path):
    path, options, _, want = opening(folder, name)
    lines = scored(open_log(path, Options(**options)), tmp_path)
    right = [row for row in want if row.get("measures")]
    assert right
    if lines.groupby("row")["query_id"].nunique().sum() > lines["query_id"].nunique():
        groups = [group for _, group in lines.groupby("row", sort=False)]
        for row, group in zip(want, groups, strict=True):
            agrees(group, row["measures"])
        return
    for row in right:
        key = row["query_id"] if row["query_id"] is not None else str(row["row"])
        agrees(lines[lines["query_id"] == key], row["measures"])


def test_labels_can_be_cut_elsewhere(tmp_path):
    path, options, _, want = opening("trec", "graded.run")
    lines = scored(open_log(path, Options(**options)), tmp_path, relevant_from=2)
    for row in want:
        if "measures_at_threshold" in row:
            same = lines[lines["query_id"] == row["query_id"]]
            agrees(same, row["measures_at_threshold"]["2"])


TREC_NAMES = {
    **{f"P_{k}": Wanted("P", None, k) for k in (5, 10, 15, 20, 30, 100)},
    **{f"recall_{k}": Wanted("R", None, k) for k in (5, 10, 20, 100)},
    **{f"ndcg_cut_{k}": Wanted("nDCG", None, k) for k in (5, 10, 20, 100)},
    **{f"map_cut_{k}": Wanted("AP", None, k) for k in (5, 10, 20)},
    **{f"success_{k}": Wanted("hit", None, k) for k in (1, 5, 10)},
    "map": Wanted("AP"),
    "recip_rank": Wanted("RR"),
}


@pytest.mark.parametrize(
    ("run", "out"), [("results.test", "out.test.aq"), ("results.trunc", "out.test.aqc")]
)
def test_values_are_those_of_trec_eval(run, out, tmp_path):
    log = open_log(TREC / run, Options(qrels=TREC / "qrels.test"))
    path = tmp_path / "per_query.csv"
    found = measure(log.rows(), Rules(tuple(TREC_NAMES.values()), trec=True), path)
    lines = pd.read_csv(path, dtype={"query_id": str})
    means = found.summary
    checked = 0
    for line in (TREC / out).read_text().splitlines():
        name, query, value = line.split()
        if name not in TREC_NAMES:
            continue
        wanted = TREC_NAMES[name]
        table = means if query == "all" else lines[lines["query_id"] == query]
        same = table[table["measure"] == wanted.name]
        same = same[same["k"].isna() if wanted.k is None else same["k"] == wanted.k]
        got = same["mean" if query == "all" else "value"].iloc[0]
        assert got == pytest.approx(float(value), abs=5.1e-5), line
        checked += 1
    assert checked > 60


def test_values_are_those_of_ir_measures(tmp_path):
    wanted = [Wanted("P", None, 5), Wanted("R", None, 10), Wanted("AP"), Wanted("RR")]
    wanted += [Wanted("nDCG", None, 10), Wanted("nDCG")]
    log = open_log(DATA / "trec" / "basic.run", Options(qrels=DATA / "trec" / "basic.qrels"))
    lines = scored(log, tmp_path, wanted=wanted, trec=True)
    theirs = ir_measures.iter_calc(
        [ir_measures.parse_measure(str(one)) for one in wanted],
        list(ir_measures.read_trec_qrels(str(DATA / "trec" / "basic.qrels"))),
        list(ir_measures.read_trec_run(str(DATA / "trec" / "basic.run"))),
    )
    checked = 0
    for metric in theirs:
        name, _, k = str(metric.measure).partition("@")
        same = lines[(lines["query_id"] == metric.query_id) & (lines["measure"] == name)]
        same = same[same["k"] == int(k)] if k else same[same["k"].isna()]
        if not math.isnan(same["value"].iloc[0]):  # nothing is relevant: they say 0
            assert same["value"].iloc[0] == pytest.approx(metric.value, abs=1e-9)
            checked += 1
    assert checked > 45


def test_judged_queries_without_results_are_counted_and_in_the_mean(tmp_path):
    (tmp_path / "q").write_text("q1 0 a 1\nq2 0 a 1\nq3 0 a 1\n")
    (tmp_path / "r.json").write_text('{"q1": {"a": 2.0}, "q2": {}, "q9": {"a": 1}}')
    log = open_log(tmp_path / "r.json", Options(qrels=tmp_path / "q"))
    found = measure(log.rows(), Rules((Wanted("R"), Wanted("T", 0.5)), trec=True))
    recall, t = found.summary.to_dict("records")
    assert recall["mean"] == pytest.approx(1 / 3)
    assert (recall["n_used"], t["n_used"], t["n_total"]) == (3, 1, 4)
    assert log.account.count("queries only in the qrels (nothing retrieved for them)") == 1
    assert log.account.count("queries only in the run (no labels, no measures)") == 1
    assert found.undefined["nothing retrieved"] == 2


def test_a_repeated_document_counts_once():
    row = Row("q", documents=["a", "a", "b"], labels=[1.0, 1.0, 0.0], n_relevant=1)
    found = measure([row], Rules(tuple(parse_measures("AP,nDCG_usual,hit,R"))))
    assert found.summary["mean"].tolist() == [1.0, 1.0, 1.0, 1.0]
    assert found.tally.repeated == 1


def test_fe_needs_labels_to_rank_2k():
    def one(labels, k=1):
        row = Row("q", documents=[f"d{i}" for i in range(len(labels))], labels=labels)
        found = measure([row], Rules((Wanted("F_e", 0.5, k),)))
        return found.summary["mean"].iloc[0], list(found.undefined)

    assert one([1.0, 1.0])[0] == pytest.approx(1 / (0.5 + 0.5 * 2), abs=1e-9)
    assert one([1.0])[1] == [measuring.SHORT]
    assert one([1.0, None])[1] == [measuring.NOT_2K]
    assert one([1.0, 1.0], None)[1] == [measuring.NO_CUT]


def test_unlabelled_documents_can_leave_a_query_out():
    rows = [Row("q", documents=["a", "b"], labels=[1.0, None])]
    wanted = (Wanted("P"),)
    assert measure(rows, Rules(wanted)).summary["mean"].iloc[0] == 0.5
    found = measure(rows, Rules(wanted, unlabelled="leave-out"))
    assert found.undefined == {measuring.PART: 1}


def test_intervals_by_query_cover_their_nominal_share():
    rng = np.random.default_rng(5)
    wanted, hits, draws = (Wanted("P"),), 0, 300
    for _ in range(draws):
        ease = rng.beta(2, 2, 40)
        rows = [
            Row(f"q{q}", documents=list("abcde"), labels=(rng.random(5) < p).astype(float).tolist())
            for q, p in enumerate(ease)
            for _ in range(rng.integers(1, 4))
        ]
        line = measure(rows, Rules(wanted)).summary.iloc[0]
        hits += line["low"] <= 0.5 <= line["high"]
    assert 0.92 <= hits / draws <= 0.98


def test_groups_have_their_own_means():
    day = 86_400 * 10**9
    rows = [
        Row("a", documents=["x"], labels=[1.0], time=1741079700 * 10**9),
        Row("b", documents=["x"], labels=[0.0], time=1741079700 * 10**9 + day),
        Row("c", documents=["x"], labels=[0.0]),
    ]
    found = measure(rows, Rules((Wanted("P"),), by="day")).summary
    assert dict(zip(found["group"], found["mean"], strict=True)) == {
        "all": pytest.approx(1 / 3),
        "2025-03-04": 1.0,
        "2025-03-05": 0.0,
        "unknown": 0.0,
    }


def test_measures_are_spelt_as_ir_measures_spells_them():
    assert parse_measures("T(alpha=0.5)@10") == [Wanted("T", 0.5, 10)]
    for wrong in ("Q@5", "P(alpha=1)", "P@0", "T(alpha=2)", "P@"):
        with pytest.raises(UsageError):
            parse_measures(wrong)


def test_a_report_replaces_only_its_own_files(tmp_path):
    path, options, _, _ = opening("plain", "log.csv")

    def write():
        log = open_log(path, Options(**options))
        rules = Rules(tuple(parse_measures("T,P", [0.5], [5])), by="day")
        return report.write(log, rules, tmp_path / "out")

    write()
    first = (tmp_path / "out" / "measures.csv").read_bytes()
    write()
    assert (tmp_path / "out" / "measures.csv").read_bytes() == first
    assert set(report.FILES) <= {one.name for one in (tmp_path / "out").iterdir()}
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "<svg" in page
    assert "http" not in page
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "measures.csv").write_text("mine")
    with pytest.raises(UsageError, match="was not made by this program"):
        report.write(open_log(path, Options(**options)), Rules((Wanted("P"),)), tmp_path / "other")
    assert (tmp_path / "other" / "measures.csv").read_text() == "mine"


def test_a_broken_log_leaves_the_last_report_as_it_was(tmp_path):
    path, options, _, _ = opening("plain", "log.csv")
    rules = Rules((Wanted("P"),))
    report.write(open_log(path, Options(**options)), rules, tmp_path)
    before = {one.name: one.read_bytes() for one in tmp_path.iterdir() if one.is_file()}
    with pytest.raises(Exception, match="line 4"):
        report.write(open_log(DATA / "ragas" / "truncated.jsonl"), rules, tmp_path)
    after = {one.name: one.read_bytes() for one in tmp_path.iterdir() if one.is_file()}
    assert {k: v for k, v in before.items() if "lock" not in k} == {
        k: v for k, v in after.items() if "lock" not in k
    }


def test_texts_of_a_log_are_escaped_in_its_page(tmp_path):
    line = {"query": "q", "documents": ["a"], "labels": [1], "group": "<script>x</script>"}
    (tmp_path / "log.jsonl").write_text(json.dumps(line) + "\n")
    log = open_log(tmp_path / "log.jsonl")
    report.write(log, Rules((Wanted("P"),), by="group"), tmp_path / "out")
    assert "<script" not in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
