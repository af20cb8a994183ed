"""Controls: no documents, random ones, the same ones backwards."""

import json

import pytest

from llm_server import LlmServer, make_folder, sensible
from retrieval_quality.errors import UsageError
from retrieval_quality.pipeline.answer import answer
from retrieval_quality.pipeline.controls import KINDS, control_rows
from retrieval_quality.pipeline.grade import grade
from retrieval_quality.pipeline.rows import Row
from retrieval_quality.pipeline.settings import Settings

RANKING = Row("A-0", "one", 6, 2, (3, 0, 5, 1, 4, 2))


def test_random_documents_are_candidates_nested_seeded_and_the_same_for_all_embeddings():
    rows = list(control_rows(RANKING, [1, 3, 6], ["random"], 1))
    assert [len(row.rank) for row in rows] == [1, 3, 6]
    assert rows[0].rank == rows[1].rank[:1]
    assert rows[1].rank == rows[2].rank[:3]
    assert sorted(rows[2].rank) == [0, 1, 2, 3, 4, 5]
    other = Row("A-0", "two", 6, 2, (0, 1, 2, 3, 4, 5))
    assert [row.rank for row in control_rows(other, [6], ["random"], 1)] == [rows[2].rank]
    drawn = {next(control_rows(RANKING, [6], ["random"], seed)).rank for seed in range(30)}
    assert len(drawn) > 20


def test_random_documents_favour_no_place():
    firsts = [next(control_rows(RANKING, [1], ["random"], seed)).rank[0] for seed in range(3000)]
    for index in range(6):
        assert firsts.count(index) == pytest.approx(500, abs=100)  # 5 standard deviations


def test_reversed_shows_the_same_documents_worst_first():
    rows = list(control_rows(RANKING, [1, 2, 4], ["reversed"], 1))
    assert [row.rank for row in rows] == [(0, 3), (1, 5, 0, 3)]


def test_a_kind_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(UsageError, match="none, random, reversed"):
        answer(make_folder(tmp_path), Settings("m"), controls=["shuffled"])


def test_controls_have_a_file_of_their_own_and_leave_the_main_one_alone(tmp_path):
    with LlmServer(sensible) as server:
        settings = Settings("m", server.base_url, progress=False)
        folder, plain = make_folder(tmp_path / "with"), make_folder(tmp_path / "without")
        answer(folder, settings, controls=list(KINDS))
        grade(folder, settings)
        answer(plain, settings)
        grade(plain, settings)
        closed = [
            one for one in server.asked if "<document>" not in one.text and "know" in one.text
        ]
    main = (folder / "samples_graded.json").read_bytes()
    assert main == (plain / "samples_graded.json").read_bytes()
    assert not (plain / "samples_controls.json").exists()
    rows = json.loads((folder / "samples_controls.json").read_text(encoding="utf-8"))
    rankings = 3 * 2 * 2
    assert {kind: sum(row["control"] == kind for row in rows) for kind in KINDS} == {
        "none": rankings,
        "random": 3 * rankings,
        "reversed": 2 * rankings,
    }
    published = set(json.loads(main)[0])
    assert all(set(row) == published | {"control"} for row in rows)
    none = [row for row in rows if row["control"] == "none"]
    assert all((row["K"], row["rank"], row["inK"], row["P"], row["R"]) == (0, [], [], None, 0)
               for row in none)  # fmt: skip
    ideals = {(row["id"], row["Np"]): row["answer_ideal"] for row in json.loads(main)}
    assert all(row["answer_ideal"] == ideals[row["id"], row["Np"]] for row in rows)
    assert all(row["grade"] in (1, 2, 3, 4, 5) for row in rows)
    assert {one.body["messages"][-1]["content"].split("\n")[0] for one in closed} == {
        f"<question>What is said of A-{i}?</question>" for i in range(3)
    }
