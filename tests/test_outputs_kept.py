"""Outputs of answer and grade change only when the stage has succeeded; nothing is bought twice."""

import json
import subprocess
import sys

import pytest

from llm_server import LlmServer, error, make_folder, say, sensible
from retrieval_quality.errors import DataError, RetrievalQualityError, UsageError
from retrieval_quality.pipeline import run as running
from retrieval_quality.pipeline.answer import answer, declines
from retrieval_quality.pipeline.grade import grade
from retrieval_quality.pipeline.settings import Settings

GRADED, CONTROLS = "samples_graded.json", "samples_controls.json"


@pytest.fixture
def server():
    with LlmServer(sensible) as running_server:
        yield running_server


@pytest.fixture
def folder(tmp_path):
    return make_folder(tmp_path / "run", samples=1)


def quick(server, model="m", **more):
    more = {"back_off": 0.01, "attempts": 2, "progress": False, **more}
    return Settings(model, server.base_url, **more)


def is_grading(asked):
    return "reference answer" in asked.body["messages"][0]["content"]


def contents(folder):
    return {
        path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix == ".json"
    }


REFUSED = [
    error(404, "model not found", code="model_not_found"),
    error(401, "bad key"),
    error(402, "pay"),
    error(429, "no", code="insufficient_quota"),
    error(429, "no", retry_after="9999"),
    error(500, "broken"),
    error(400, "temperature is fixed", param="temperature"),
    error(400, "what?"),
    say("", finish_reason="stop"),
    say("Hm", finish_reason="length"),
    say("Hm", finish_reason="abort"),
    say("I cannot grade this."),
]


@pytest.mark.parametrize("refusal", REFUSED)
def test_a_grade_that_fails_leaves_everything_as_it_was(server, folder, refusal):
    answer(folder, quick(server), controls=["none"])
    grade(folder, quick(server))
    before = contents(folder)
    server.behave = lambda asked: refusal
    with pytest.raises(RetrievalQualityError):
        grade(folder, quick(server, "other"))
    after = contents(folder)
    after.pop("grade.unfinished.json", None)
    assert after == before
    server.behave = sensible
    grade(folder, quick(server))
    assert contents(folder)[GRADED] == before[GRADED]


@pytest.mark.parametrize("refusal", REFUSED[:-1])
def test_an_answer_that_fails_leaves_everything_as_it_was(server, folder, refusal):
    answer(folder, quick(server))
    grade(folder, quick(server))
    before = contents(folder)
    count = server.count
    server.behave = lambda asked: refusal
    with pytest.raises(RetrievalQualityError):
        answer(folder, quick(server, "other"))
    after = contents(folder)
    after.pop("answer.unfinished.json", None)
    assert after == before
    server.behave = sensible
    asked = server.count
    answer(folder, quick(server))
    grade(folder, quick(server))
    assert server.count == asked > count
    assert contents(folder)[GRADED] == before[GRADED]


def test_rows_that_this_store_did_not_make_are_never_replaced(server, folder):
    foreign = '[{"id": "A-0", "grade": 5}]'
    answer(folder, quick(server), controls=["none"])
    before = server.count
    for name in (GRADED, CONTROLS):
        (folder / name).write_text(foreign, encoding="utf-8")
        with pytest.raises(UsageError, match=f"{name} is there and was not made from this folder"):
            grade(folder, quick(server))
        assert (folder / name).read_text(encoding="utf-8") == foreign
        (folder / name).unlink()
    assert server.count == before
    grade(folder, quick(server))
    (folder / GRADED).write_text(foreign, encoding="utf-8")  # put there since
    with pytest.raises(UsageError, match="changed since"):
        grade(folder, quick(server))
    assert (folder / GRADED).read_text(encoding="utf-8") == foreign


def test_controls_of_another_model_do_not_stay_beside_new_grades(server, folder):
    answer(folder, quick(server), controls=["none"])
    grade(folder, quick(server))
    assert (folder / CONTROLS).is_file()
    answer(folder, quick(server, "other"))
    with pytest.raises(DataError, match="of other answers"):
        running.export(folder)
    grade(folder, quick(server, "other"))
    assert not (folder / CONTROLS).exists()


def test_run_and_single_commands_ask_the_same_questions(server, tmp_path, folder):
    model = {"model": "m", "base_url": server.base_url, "progress": False}
    config = tmp_path / "config.yml"
    told = {"out": "run", "answer": model, "grade": {**model, "temperature": 0, "seed": None}}
    config.write_text(json.dumps(told), encoding="utf-8")
    running.run(config)
    before = server.count
    code = "from retrieval_quality.cli import main; main()"
    for stage in ("answer", "grade"):
        command = [sys.executable, "-c", code, "pipeline", stage, str(folder), "--model", "m"]
        subprocess.run([*command, "--base-url", server.base_url], check=True, capture_output=True)
    running.run(config)
    assert server.count == before


def test_a_higher_limit_asks_only_what_was_cut_off(server, folder):
    def behave(asked):
        if "Negative 2" in asked.text and not is_grading(asked):
            return say("Half", finish_reason="length" if asked.body["max_tokens"] < 600 else "stop")
        return sensible(asked)

    server.behave = behave
    answer(folder, quick(server))
    begun = server.count
    answer(folder, quick(server, max_tokens=512))
    answer(folder, quick(server, max_tokens=100))
    assert server.count == begun
    tally = answer(folder, quick(server, max_tokens=1024))
    assert tally.answered == server.count - begun > 0
    assert all("Negative 2" in asked.text for asked in server.asked[begun:])


def test_failed_and_unreadable_rows_are_asked_again_on_demand(server, folder):
    def behave(asked):
        if is_grading(asked):
            return say("About 4") if "Negative" not in asked.text else sensible(asked)
        return say("No", refusal="No.") if "Negative 2" in asked.text else sensible(asked)

    server.behave = behave
    answer(folder, quick(server))
    server.behave = sensible
    begun = server.count
    answer(folder, quick(server))
    assert server.count == begun
    wanted = answer(folder, quick(server), again="failed", dry_run=True).calls
    tally = answer(folder, quick(server), again="failed")
    assert tally.answered == server.count - begun == wanted > 0
    assert answer(folder, quick(server), again="failed").answered == 0
    server.behave = lambda asked: say("About 4" if asked.number % 2 else "Grade: 3")
    grade(folder, quick(server, concurrency=1))
    ungraded = running.status(folder)["graded"]["ungraded"]
    assert ungraded > 0
    begun = server.count
    server.behave = sensible
    grade(folder, quick(server))
    assert server.count == begun
    grade(folder, quick(server), again="failed")
    assert server.count > begun
    assert running.status(folder)["graded"]["ungraded"] == 0
    with pytest.raises(UsageError, match="`again` is 'all'"):
        grade(folder, quick(server), again="all")


def test_an_ideal_answer_that_declines_is_flagged_and_counted(tmp_path, server):
    folder = make_folder(tmp_path / "two", samples=2)
    all_of_it = "\n".join(f"<document>\nPositive {i} of A-1.\n</document>" for i in range(3))

    def behave(asked):
        if not is_grading(asked) and all_of_it in asked.text and "Negative" not in asked.text:
            return say("The documents do not answer this.")
        return sensible(asked)

    server.behave = behave
    answer(folder, quick(server))
    grade(folder, quick(server))
    told = running.status(folder)
    assert told["graded"]["ideal_declines"] == {"rows": 12, "ids": ["A-1"]}
    assert "against an ideal answer that declines: 12" in running.status_text(told)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The documents do not answer this.", True),
        ("**The documents do not answer this.**", True),
        ("They do not answer the question.", True),
        ("The provided documents don't contain that", True),
        ("None of the documents do not help", True),
        ("I do not know this.", True),
        ("I don’t know.", True),
        ("The question cannot be answered from these texts.", True),
        ("There is no information on it.", True),
        ("Unfortunately, the context does not say.", True),
        ("Lead melts at 327 degrees.", False),
        ("Lead melts at 327 degrees. The documents do not say when it was found.", False),
        ("I do not know a better example than lead. It melts at 327 degrees.", False),
        ("Documents of 1911 name two bakers.", False),
        ("", False),
        (None, False),
    ],
)
def test_what_declines(text, expected):
    assert declines(text) is expected


OWN = """
system: ""
user: |
  Query: {{query}}
  References: {{documents}}
"""
OWN_GRADE = """
system: Grade from 1 to 5.
user: "reference answer {{ideal}} against {{answer}} for {{query}}; reply Grade: N"
"""


def test_prompts_of_ones_own_are_taken_from_a_file(tmp_path, server, folder):
    for name, text in (("authors.yml", OWN), ("authors-grade.yml", OWN_GRADE)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    model = {"model": "m", "base_url": server.base_url, "progress": False}
    told = {
        "out": "run",
        "answer": {**model, "prompt": "authors.yml"},
        "grade": {**model, "prompt": "authors-grade.yml", "output": "text"},
    }
    config = tmp_path / "config.yml"
    config.write_text(json.dumps(told), encoding="utf-8")
    server.behave = lambda asked: say("Grade: 4") if "Grade from" in asked.text else sensible(asked)
    running.run(config)
    assert [one["role"] for one in server.asked[0].body["messages"]] == ["user"]
    assert server.asked[0].text.startswith("Query: What is said of A-0?\nReferences: <document>")
    assert {row["grade"] for row in json.loads((folder / GRADED).read_text())} == {4}
    before = server.count
    running.run(config)
    assert server.count == before
    (tmp_path / "authors.yml").write_text(OWN + "  Be brief.\n", encoding="utf-8")
    running.run(config)
    assert server.count > before


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("user: x", "needs `system` and `user`"),
        ("- 1", "needs `system` and `user`"),
        ("a: [", "cannot be read"),
        ("system: x\nuser: '{{query}}'", "has no {{documents}}"),
        ("system: x\nuser: '{{documents}}'", "has no {{query}}"),
        ("system: x\nuser: '{{query}} {{documents}} {{context}}'", "nothing fills {{context}}"),
        ("system: x\nuser: ''", "`user` must be text"),
        ("system: 1\nuser: x", "`system` must be text"),
        ("system: x\nuser: x\nsytem: x", "`sytem` is not a key"),
        ("system: x\nuser: x\nexamples: [{query: a}]", "example 1 needs"),
        ("system: x\nuser: x\nexamples: 3", "example 1 needs"),
    ],
)
def test_a_prompt_that_cannot_be_used_is_refused_by_name(tmp_path, server, folder, text, told):
    path = tmp_path / "own.yml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=r"own\.yml") as caught:
        answer(folder, quick(server), prompt=str(path))
    assert told in str(caught.value)
    assert server.count == 0
    with pytest.raises(UsageError, match="cannot be read"):
        answer(folder, quick(server), prompt=str(tmp_path / "none.yml"))
