"""Our measures against the published test values of other tools, and against ir_measures."""

from __future__ import annotations

from collections import defaultdict

import ir_measures
import numpy as np
import pytest

from retrieval_quality import measures as m
from stored_data import read_json, read_text

Relevant = dict[str, set[str]]
Rankings = dict[str, list[str]]


def relevant_of(text: str, level: int = 1) -> Relevant:
    """Relevant documents by query, of a qrels file; a query with none keeps an empty set."""
    found: Relevant = defaultdict(set)
    for line in text.strip().splitlines():
        query, _, document, relevance = line.split()[:4]
        found[query] |= {document} if float(relevance) >= level else set()
    return dict(found)


def rankings_of(text: str) -> Rankings:
    """Rankings by query, of a run file: by score, ties by document id, both descending."""
    scored = defaultdict(list)
    for line in text.strip().splitlines():
        query, _, document, _, score = line.split()[:5]
        scored[query].append((float(score), document))
    return {query: [d for _, d in sorted(pairs, reverse=True)] for query, pairs in scored.items()}


def score(measure: str, retrieved: list[str], relevant: set[str]) -> float:
    """Value of a measure that is named as trec_eval names it."""
    name, cut = name_and_cut(measure)
    top = retrieved[:cut]
    pattern = m.judge(top, relevant)
    n_positives, top_k, n_relevant = pattern.count("1"), len(top), len(relevant)
    return float(
        {
            "P": lambda: m.precision(n_positives, cut or top_k),
            "set_P": lambda: m.precision(n_positives, top_k),
            "recall": lambda: m.recall(n_positives, n_relevant),
            "set_recall": lambda: m.recall(n_positives, n_relevant),
            "set_F": lambda: m.f1(n_positives, top_k, n_relevant),
            "set_map": lambda: m.precision(n_positives, top_k) * m.recall(n_positives, n_relevant),
            "success": lambda: m.hit_rate(n_positives),
            "recip_rank": lambda: m.reciprocal_rank(pattern),
            "map": lambda: m.average_precision(pattern, n_relevant),
            "map_cut": lambda: m.average_precision(pattern, n_relevant),
            "ndcg": lambda: m.ndcg_usual(padded(pattern, n_relevant), n_relevant),
            "ndcg_cut": lambda: m.ndcg_usual(padded(pattern, cut or 0), n_relevant),
        }[name]()
    )


def padded(pattern: str, length: int) -> str:
    """Pattern with negatives at the end: trec_eval's ideal may be longer than the ranking."""
    return pattern.ljust(length, "0")


COMPARED = {
    *("P", "recall", "success", "set_P", "set_recall", "set_F", "set_map"),
    *("recip_rank", "map", "map_cut", "ndcg", "ndcg_cut"),
}


def name_and_cut(measure: str) -> tuple[str, int | None]:
    """Split ``ndcg_cut_10`` into its name and its cut."""
    name, _, cut = measure.rpartition("_")
    return (name, int(cut)) if cut.isdigit() else (measure, None)


def trec_lines(name: str, graded: bool) -> list[tuple[str, str, float]]:
    lines = read_text(f"peers/trec_eval/{name}").splitlines()
    found = []
    for line in lines:
        measure, query, value = line.split()
        base, _ = name_and_cut(measure)
        if base in COMPARED and not (graded and base.startswith("ndcg")):
            found.append((measure, query, float(value)))
    return found


@pytest.mark.parametrize(
    ("expected", "qrels", "run", "level", "depth", "lines"),
    [
        ("out.test", "qrels.test", "results.test", 1, None, 11),
        ("out.test.a", "qrels.test", "results.test", 1, None, 46),
        ("out.test.aq", "qrels.test", "results.test", 1, None, 184),
        ("out.test.aqc", "qrels.test", "results.trunc", 1, None, 184),
        ("out.test.aqcM", "qrels.test", "results.trunc", 1, 100, 184),
        ("out.test.aql", "qrels.rel_level", "results.test", 2, None, 144),
        ("out.test.meas_params", "qrels.test", "results.test", 1, None, 44),
    ],
)
def test_trec_eval(expected, qrels, run, level, depth, lines):
    relevant = relevant_of(read_text(f"peers/trec_eval/{qrels}"), level)
    ranked = rankings_of(read_text(f"peers/trec_eval/{run}"))
    cases = trec_lines(expected, graded=level > 1)
    assert len(cases) == lines
    for measure, query, value in cases:
        queries = relevant if query == "all" else [query]
        scores = [score(measure, ranked.get(q, [])[:depth], relevant[q]) for q in queries]
        assert m.mean(scores).value == pytest.approx(value, abs=5.1e-5), (measure, query)


def test_pytrec_eval():
    cases = read_json("peers/pytrec_eval/expected_values.json")
    assert len(cases) == 8
    for case in cases:
        query = case["query"]
        relevant = {d for d, relevance in case["qrel"][query].items() if relevance > 0}
        run = case["run"][query]
        ranked = sorted(run, key=lambda d: (run[d], d), reverse=True)
        assert score(case["measure"], ranked, relevant) == pytest.approx(case["expected"]), case


IR_MEASURES = {
    "Success": "success", "SetP": "set_P", "SetR": "set_recall", "SetF": "set_F",
    "SetAP": "set_map", "P": "P", "R": "recall", "RR": "recip_rank", "AP": "map",
}  # fmt: skip


def test_ir_measures_expected_values():
    cases = read_json("peers/ir_measures/expected_values.json")
    compared = 0
    for case in cases:
        measure = ir_measures.parse_measure(case["measure"].replace(" ", ""))
        if measure.NAME not in IR_MEASURES or set(measure.params) & {"beta", "relative"}:
            continue
        cut = measure.params.get("cutoff")
        name = IR_MEASURES[measure.NAME]
        relevant = relevant_of(case["qrels"], measure.params.get("rel", 1))
        ranked = rankings_of(case["run"])
        for query, value in case["per_query"].items():
            top = ranked[query][:cut]
            if not relevant[query] and name in ("recall", "set_recall", "map", "set_map", "set_F"):
                assert value == 0  # theirs; ours is undefined
                assert np.isnan(score(name, top, relevant[query]))
                continue
            wanted = f"P_{cut}" if name == "P" else name
            assert score(wanted, top, relevant[query]) == pytest.approx(value, abs=5.1e-5), case
            compared += 1
    assert compared == 52


def test_ir_measures_set_f_weights_are_not_squared():
    cases = read_json("peers/ir_measures/expected_values.json")
    weighted = [case for case in cases if "beta" in case["measure"]]
    assert len(weighted) == 2
    for case in weighted:
        beta = ir_measures.parse_measure(case["measure"].replace(" ", "")).params["beta"]
        relevant, ranked = relevant_of(case["qrels"]), rankings_of(case["run"])
        for query, value in case["per_query"].items():
            pattern = m.judge(ranked[query], relevant[query])
            counts = pattern.count("1"), len(pattern), len(relevant[query])
            assert m.f_measure(*counts, alpha=1 / (1 + beta)) == pytest.approx(value, abs=5.1e-5)


def test_cwl():
    expected = read_json("peers/ir_measures/expected_cwl.json")
    relevant = relevant_of(read_text("peers/ir_measures/cwl.qrels"))
    ranked = rankings_of(read_text("peers/ir_measures/cwl.run"))
    names = {"AP": "map", "RR": "recip_rank", "P@1": "P_1", "P@5": "P_5", "P@10": "P_10"}
    for theirs, ours in names.items():
        for query, value in zip(expected["queries"], expected["expected"][theirs], strict=True):
            assert score(ours, ranked[query], relevant[query]) == pytest.approx(value, abs=1e-4)


def test_ranx_f1():
    case = read_json("peers/ranx/f1_case.json")
    for query, run in case["run"].items():
        relevant = {d for d, relevance in case["qrels"][query].items() if relevance > 0}
        ranked = sorted(run, key=run.get, reverse=True)
        p, r, f = (score(name, ranked, relevant) for name in ("set_P", "set_recall", "set_F"))
        assert f == pytest.approx(2 * p * r / (p + r) if p + r else 0)
    assert f == 0  # q4, the last


def test_ir_measures_on_random_rankings():
    rng = np.random.default_rng(1)
    documents = [f"d{i}" for i in range(30)]
    relevant = {f"q{i}": set(rng.choice(documents, rng.integers(1, 15), False)) for i in range(40)}
    ranked = {query: list(rng.permutation(documents)) for query in relevant}
    qrels = [ir_measures.Qrel(query, d, 1) for query, found in relevant.items() for d in found]
    run = [
        ir_measures.ScoredDoc(query, d, -float(rank))
        for query, ranking in ranked.items()
        for rank, d in enumerate(ranking)
    ]
    ours = {"P": "P", "R": "R", "nDCG": "nDCG_usual", "RR": "RR", "AP": "AP", "Success": "hit"}
    rows = {cut: table(ranked, relevant, cut) for cut in (1, 3, 10, 25)}
    asked = [ir_measures.parse_measure(f"{name}@{cut}") for name in ours for cut in rows]
    results = list(ir_measures.iter_calc(asked, qrels, run))
    assert len(results) == len(asked) * len(relevant)
    for result in results:
        measure, cut = m.MEASURES[ours[result.measure.NAME]], result.measure.params["cutoff"]
        row = {name: values[int(result.query_id[1:])] for name, values in rows[cut].items()}
        assert measure.evaluate(row) == pytest.approx(result.value, abs=1e-12), result


def table(ranked: Rankings, relevant: Relevant, cut: int) -> dict[str, list]:
    patterns = [m.judge(ranked[query][:cut], relevant[query], query) for query in relevant]
    return {
        "pattern": patterns,
        "n_positives": [pattern.count("1") for pattern in patterns],
        "K": [cut] * len(patterns),
        "Np": [len(relevant[query]) for query in relevant],
    }
