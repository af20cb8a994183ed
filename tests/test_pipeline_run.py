"""The whole pipeline: one configuration, kill -9 and resume, status."""

import functools
import hashlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter

import pytest
from click.testing import CliRunner

from llm_server import LlmServer, error, make_folder, say, sensible
from retrieval_quality.cli import cli
from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.outputs import sole_run
from retrieval_quality.pipeline import answer, corpus, grade, rank
from retrieval_quality.pipeline.run import export, read_config, run, status, status_text
from retrieval_quality.pipeline.settings import Settings
from retrieval_quality.pipeline.store import Store, canonical

RUN = "import sys; from retrieval_quality.pipeline.run import run; run(sys.argv[1])"
FILES = ("samples_graded.json", "samples_controls.json")


def configure(folder, server, **more):
    """Write a configuration for a folder that has its rankings already."""
    make_folder(folder / "run")
    model = {"model": "m", "base_url": server.base_url, "concurrency": 4, "progress": False}
    model |= {"back_off": 0.01, "attempts": 3, **more}
    told = {
        "out": "run",
        "answer": {**model, "controls": ["none", "random", "reversed"]},
        "grade": {**model, "few_shot": True},
    }
    path = folder / "config.yml"
    path.write_text(json.dumps(told), encoding="utf-8")  # JSON is YAML
    return path


def slow(asked):
    reply = sensible(asked)
    reply.delay = 0.01
    return reply


def key_of(asked):
    return hashlib.sha256(canonical(asked.body["messages"]).encode()).digest()


def recorded(folder):
    """Return the hashes of the messages that the store has a reply to."""
    database = sqlite3.connect(folder / "store.sqlite")
    rows = database.execute("SELECT asked FROM calls").fetchall()
    database.close()
    return {row[0] for row in rows}


def is_grading(asked):
    return "response_format" in asked.body


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    with LlmServer(sensible) as server:
        out = run(configure(folder, server))
        asked = {key_of(asked) for asked in server.asked}
        assert len(asked) == server.count
        grading = next(asked.number for asked in server.asked if is_grading(asked))
    files = {name: (out / name).read_bytes() for name in FILES}
    return files, len(asked), grading


def test_a_finished_run_asks_nothing_more(tmp_path):
    with LlmServer(sensible) as server:
        config = configure(tmp_path, server)
        out = run(config)
        before = server.count
        assert run(config) == out == tmp_path / "run"
        assert server.count == before
        written = (out / "samples_graded.json").stat().st_mtime_ns
        server.stop()
        assert run(config) == out
        assert (out / "samples_graded.json").stat().st_mtime_ns == written  # not gone through again
        (out / "samples_graded.json").unlink()
        run(config)
        assert (out / "samples_graded.json").is_file()


def test_a_finished_run_goes_on_when_the_configuration_changes(tmp_path):
    with LlmServer(sensible) as server:
        config = configure(tmp_path, server)
        run(config)
        before = server.count
        told = json.loads(config.read_text(encoding="utf-8"))
        told["grade"]["seed"] = 2
        config.write_text(json.dumps(told), encoding="utf-8")
        run(config)
        assert server.count > before
        assert all(is_grading(asked) for asked in server.asked[before:])


def test_lost_calls_are_asked_again_in_the_next_run(tmp_path):
    with LlmServer() as server:
        server.behave = lambda asked: (
            error(500) if "Negative 1 of A-2.\n</document>\n\n" in asked.text else sensible(asked)
        )
        config = configure(tmp_path, server, concurrency=1)
        run(config)
        lost = status(tmp_path / "run")["answer"]["failed"]
        assert lost["server error (HTTP 500)"] > 0
        server.behave = sensible
        run(config)
        assert status(tmp_path / "run")["answer"]["failed"] == {}
        assert status(tmp_path / "run")["graded"]["ungraded"] == 0


def test_kill_9_and_resume_gives_the_same_rows_and_asks_no_answered_call_again(
    tmp_path, undisturbed
):
    files, calls, grading = undisturbed
    kills = [5, 25, grading + 8, grading + 25]  # twice while answering, twice while grading
    known: set[bytes] = set()
    with LlmServer(slow) as server:
        config = configure(tmp_path, server)
        for after in kills:
            begun = server.count
            process = subprocess.Popen([sys.executable, "-c", RUN, str(config)])
            while server.count < after and process.poll() is None:
                time.sleep(0.005)
            os.kill(process.pid, signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
            time.sleep(0.1)
            assert not known & {key_of(asked) for asked in server.asked[begun:]}
            known = recorded(tmp_path / "run")
            assert len(known) >= after - 4 * len(kills)
        begun = server.count
        run(config)
        assert not known & {key_of(asked) for asked in server.asked[begun:]}
        twice = Counter(key_of(asked) for asked in server.asked)
        assert len(twice) == calls
        assert sum(twice.values()) - calls <= 4 * len(kills)  # the calls in flight
    for name in FILES:
        assert (tmp_path / "run" / name).read_bytes() == files[name]


def test_a_stop_in_the_middle_is_an_error_and_status_says_how_far(tmp_path):
    with LlmServer() as server:
        server.behave = lambda asked: (
            error(429, "no", code="insufficient_quota") if asked.number > 20 else sensible(asked)
        )
        config = configure(tmp_path, server, concurrency=1)
        with pytest.raises(DataError, match="quota"):
            run(config)
        told = status(tmp_path / "run")
        assert (told["texts"], told["ranked"], told["graded"]) == (3, 12, None)
        assert told["answer"]["done"] == 20
        assert told["answer"]["left"] > 0
        assert "answer: 20 done, 0 failed" in status_text(told)
        server.behave = sensible
        run(config)
        told = status(tmp_path / "run")
        assert told["answer"]["left"] == told["graded"]["left"] == told["controls"]["left"] == 0
        assert told["graded"]["graded"] == 36


def test_status_gives_failures_by_reason_and_what_was_spent(tmp_path):
    def behave(asked):
        if is_grading(asked) and "A-1" in asked.text:
            return say("Grade: 6")
        if "Negative 1 of A-2." in asked.text:
            return say("Half", finish_reason="content_filter")
        return sensible(asked)

    with LlmServer(behave) as server:
        run(configure(tmp_path, server, prices={"m": {"input": 1, "output": 1}}))
        told = status(tmp_path / "run")
        text = status_text(told)
        assert told["answer"]["failed"]["filtered"] > 0
        reasons = told["graded"]["ungraded_by_reason"]
        assert reasons["not a whole number from 1 to 5"] == 12
        assert reasons["no answer: filtered"] > 0
        assert told["graded"]["rows"] == 36
        cost = sum(told["spent"][stage]["cost"] for stage in ("answer", "grade"))
        assert cost == pytest.approx(server.count * 12 / 1e6)
    assert "filtered: " in text
    assert "spent on grade: $0.00" in text


def test_status_of_a_folder_that_has_not_begun(tmp_path):
    assert status(tmp_path)["texts"] is None
    with pytest.raises(DataError, match="no folder"):
        status(tmp_path / "missing")


def test_from_texts_to_grades_with_a_price_table_beside_the_configuration(tmp_path, monkeypatch):
    @functools.wraps(rank.rank)
    def ranked(folder, embeddings, *, top_k):
        assert (embeddings, top_k) == (["AM"], "1-2")
        texts = json.loads((folder / "samples_texts.json").read_text(encoding="utf-8"))
        rows = [
            {"id": text["id"], "E": "AML12v2", "Nc": 3, "Np": 2, "K": [1, 2], "rank": [2, 0, 1]}
            for text in texts
        ]
        (folder / "samples_ranked.json").write_text(json.dumps(rows), encoding="utf-8")

    monkeypatch.setattr(rank, "rank", ranked)
    mine = [{"q": f"Why {i}?", "p": [f"So {i}.", f"Thus {i}."], "n": [f"No {i}."]} for i in "ab"]
    (tmp_path / "mine.json").write_text(json.dumps(mine), encoding="utf-8")
    (tmp_path / "own.yml").write_text("m: {input: 1, output: 1}", encoding="utf-8")
    with LlmServer(sensible) as server:
        model = {"model": "m", "base_url": server.base_url, "prices": "own.yml", "max_cost": 1}
        model["progress"] = False
        config = tmp_path / "config.yml"
        told = {
            "out": "deep/run",
            "corpus": {"source": "texts", "input": "mine.json", "seed": 1},
            "rank": {"embeddings": "AM", "top_k": "1-2"},
            "answer": model,
            "grade": model,
        }
        config.write_text(json.dumps(told), encoding="utf-8")
        out = run(config)
    rows = json.loads((out / "samples_graded.json").read_text(encoding="utf-8"))
    assert out == tmp_path / "deep" / "run"
    assert len(rows) == 4
    assert all(row["grade"] in (1, 2, 3, 4, 5) for row in rows)
    assert status(out)["spent"]["grade"]["cost"] > 0


GOOD = {"out": "run", "answer": {"model": "m"}, "grade": {"model": "m"}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"grades": {}}, "`grades` is not a key here: out, corpus, rank, answer, grade"),
        ({"answer": {"model": "m", "modle": "x"}}, "answer: `modle` is not a setting"),
        ({"answer": {"base_url": "x"}}, "answer: `model` is missing"),
        ({"grade": {"model": "m", "few_shots": 1}}, "grade: `few_shots`.*also takes output"),
        ({"grade": None}, "`grade` must be keys and values"),
        ({"grade": {"model": "m", "max_cost": -1}}, "max_cost"),
        ({"corpus": [{"source": "nq", "inputs": "x"}]}, "corpus: `inputs` is not a key here"),
        ({"rank": {"embedding": "AM"}}, "rank: `embedding` is not a key here: embeddings"),
        ({"rank": {"embeddings": "AM", "top_k": "1-"}}, "rank: top_k: '1-'"),
        ({"corpus": {"source": "nq"}}, "corpus: `input` is missing"),
        ({"out": 3}, "`out` must name a folder"),
        ({"out": None}, "`out` must name a folder"),
    ],
)
def test_a_wrong_configuration_is_refused_by_name_before_anything_is_done(
    tmp_path, change, message
):
    path = tmp_path / "config.yml"
    path.write_text(json.dumps({**GOOD, **change}), encoding="utf-8")
    with pytest.raises(UsageError, match=message):
        run(path)
    assert list(tmp_path.iterdir()) == [path]


def test_a_configuration_that_cannot_be_read(tmp_path):
    path = tmp_path / "config.yml"
    for text in ("a: [", "- 1", ""):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(UsageError, match=r"config\.yml"):
            read_config(path)
    with pytest.raises(UsageError, match="cannot be read"):
        read_config(tmp_path / "none.yml")


# the same question is the same question, whoever asks

SAME = [  # what a configuration says of the model, and what the command says
    ({}, []),
    ({"temperature": 0}, []),
    ({"temperature": 0.0}, []),
    ({}, ["--temperature", "0"]),
    ({"temperature": 0.5}, ["--temperature", "0.5"]),
    ({"temperature": 1}, ["--temperature", "1.0"]),
    ({"seed": 7}, ["--seed", "7"]),
    ({"seed": 7.0}, ["--seed", "7"]),
    ({"max_tokens": 64}, ["--max-tokens", "64"]),
    ({"omit": "seed"}, ["--omit", "seed"]),
    ({"omit": ["seed", "temperature"]}, ["--omit", "seed", "--omit", "temperature"]),
    (
        {"rename": {"max_tokens": "max_completion_tokens"}},
        ["--rename", "max_tokens=max_completion_tokens"],
    ),
    ({"revision": "of May"}, ["--revision", "of May"]),
]


def command(stage, folder, server, *more):
    words = ["pipeline", stage, str(folder), "--model", "m", "--base-url", server.base_url, *more]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("first", ["run", "commands"])
@pytest.mark.parametrize(("told", "options"), SAME, ids=str)
def test_what_one_has_bought_the_other_does_not_buy_again(tmp_path, told, options, first):
    folder = make_folder(tmp_path / "run", samples=1)
    with LlmServer() as server:
        model = {"model": "m", "base_url": server.base_url, "progress": False, **told}
        config = tmp_path / "config.yml"
        config.write_text(json.dumps({"out": "run", "answer": model, "grade": model}))
        counts = []
        for turn in (first, "commands" if first == "run" else "run"):
            if turn == "run":
                run(config)
            else:
                command("answer", folder, server, *options)
                command("grade", folder, server, *options)
            counts.append(server.count)
        assert counts[0] == counts[1] > 0


# one run a folder

STAGES = {
    "corpus": lambda folder, config: corpus.build("texts", [folder / "mine.json"], folder),
    "corpus --append": lambda folder, config: corpus.build(
        "texts", [folder / "mine.json"], folder, append=True
    ),
    "rank": lambda folder, config: rank.rank(folder, ["AM"]),
    "answer": lambda folder, config: answer.answer(folder, Settings("m")),
    "grade": lambda folder, config: grade.grade(folder, Settings("m")),
    "export": lambda folder, config: export(folder),
    "run": lambda folder, config: run(config),
}
HOLD = """
import sys, time
from retrieval_quality.outputs import sole_run
with sole_run(sys.argv[1], "pipeline corpus"):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("stage", STAGES)
def test_a_second_run_in_a_folder_is_told_and_changes_nothing(tmp_path, stage):
    with LlmServer(sensible) as server:
        config = configure(tmp_path, server)
        folder = tmp_path / "run"
        run(config)
        told = json.loads(config.read_text(encoding="utf-8"))
        config.write_text(json.dumps({**told, "grade": {**told["grade"], "seed": 9}}))
        mine = [{"q": "Who is it?", "p": ["a b", "c d"], "n": ["e"]}]
        (folder / "mine.json").write_text(json.dumps(mine), encoding="utf-8")
        before = {path.name: path.read_bytes() for path in folder.glob("*.json")}
        asked = server.count
        held = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True
        )
        try:
            assert held.stdout.readline() == "held\n"
            with pytest.raises(UsageError, match=r"in use: pipeline corpus \(process"):
                STAGES[stage](folder, config)
        finally:
            held.kill()
            held.wait()
        assert {path.name: path.read_bytes() for path in folder.glob("*.json")} == before
        assert server.count == asked


def test_a_run_that_is_killed_leaves_the_folder_free(tmp_path):
    held = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert held.stdout.readline() == "held\n"
    os.kill(held.pid, signal.SIGKILL)
    held.wait()
    with sole_run(tmp_path, "another"):
        pass


# paths of a configuration


@pytest.mark.parametrize("place", ["inputs/mine.json", "./inputs/mine.json", "~/mine.json", "/"])
def test_paths_of_a_configuration_start_from_its_folder(tmp_path, monkeypatch, place):
    (tmp_path / "work" / "inputs").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("HOME", str(tmp_path / "work" / "inputs"))
    mine = tmp_path / "work" / "inputs" / "mine.json"
    mine.write_text(json.dumps([{"q": "Who is it?", "p": ["a b", "c d"], "n": ["e"]}]))
    (tmp_path / "work" / "models" / "mini").mkdir(parents=True)
    told = {
        **GOOD,
        "corpus": {"source": "texts", "input": str(mine) if place == "/" else place},
        "rank": {"embeddings": ["models/mini", "X=models/mini", "./new", "AM", "a/b"]},
        "answer": {"model": "m", "prices": "prices.yml"},
    }
    config = tmp_path / "work" / "config.yml"
    config.write_text(json.dumps(told), encoding="utf-8")
    read = read_config(os.path.relpath(config))
    base = tmp_path / "work"
    assert os.path.realpath(read["corpus"][0]["input"][0]) == str(mine)
    assert read["out"] == str(base / "run")
    assert read["answer"]["prices"] == str(base / "prices.yml")
    folder = str(base / "models" / "mini")
    assert read["rank"]["embeddings"] == [folder, f"X={folder}", str(base / "new"), "AM", "a/b"]


NOBODY = "~no-such-user-here"


@pytest.mark.parametrize(
    "change",
    [
        {"out": f"{NOBODY}/run"},
        {"out": "a\0b"},
        {"out": "  "},
        {"corpus": {"source": "texts", "input": f"{NOBODY}/a.json"}},
        {"corpus": {"source": "texts", "input": 3}},
        {"corpus": {"source": "texts", "input": [3]}},
        {"corpus": {"source": "wikipedia", "input": "a.json"}},
        {"corpus": {"source": "texts", "input": "a.json", "limit": 0}},
        {"corpus": {"source": "texts", "input": "a.json", "limit": "ten"}},
        {"corpus": {"source": "texts", "input": "a.json", "seed": None}},
        {"corpus": {"source": "texts", "input": "a.json", "per_category": 2}},
        {"corpus": {"source": "arxiv", "input": "a.json", "per_category": 0}},
        {"rank": {"embeddings": f"{NOBODY}/model"}},
        {"rank": {"embeddings": f"X={NOBODY}/model"}},
        {"rank": {"embeddings": 3}},
        {"rank": {"embeddings": ["AM", None]}},
        {"rank": {"embeddings": "AM", "positives": 1}},
        {"rank": {"embeddings": "AM", "positives": "1-3"}},
        {"rank": {"embeddings": "AM", "candidates": 1}},
        {"answer": {"model": "m", "prices": f"{NOBODY}/prices.yml"}},
    ],
    ids=str,
)
def test_a_value_that_cannot_be_is_one_sentence_before_anything_is_done(tmp_path, change):
    config = tmp_path / "config.yml"
    config.write_text(json.dumps({**GOOD, **change}), encoding="utf-8")
    with pytest.raises(UsageError, match=r"config\.yml|no-such-user|null character") as caught:
        run(config)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == [config]


def test_a_folder_that_is_not_there_is_named(tmp_path):
    config = tmp_path / "config.yml"
    config.write_text(json.dumps(GOOD), encoding="utf-8")
    with pytest.raises(DataError, match=r"no folder .*run: make it by `pipeline corpus`"):
        run(config)
    assert list(tmp_path.iterdir()) == [config]


def test_status_of_finished_stages_goes_through_no_row_and_says_the_same(tmp_path, monkeypatch):
    def behave(asked):
        if not is_grading(asked) and "A-1" in json.dumps(asked.body["messages"][-1]):
            return say("<think>Hm")
        return sensible(asked)

    with LlmServer(behave) as server:
        out = run(configure(tmp_path, server))
        told = status(out)
        assert list(told["answer"]["failed"]) == ["thinking without an answer"]
        assert told["graded"]["ungraded"] == 12
        for name in ("answer.json", "grade.json"):  # as if it had been made before there were any
            manifest = json.loads((out / name).read_text(encoding="utf-8"))
            kept = {key: one for key, one in manifest.items() if key not in ("counts", "inputs")}
            (tmp_path / name).write_bytes((out / name).read_bytes())
            (out / name).write_text(json.dumps(kept), encoding="utf-8")
        assert status(out) == told
        for name in ("answer.json", "grade.json"):
            (out / name).write_bytes((tmp_path / name).read_bytes())
        with monkeypatch.context() as patched:
            patched.setattr(answer.Asking, "requests", None)
            patched.setattr(answer.Asking, "rows", None)
            assert status(out) == told


@pytest.mark.parametrize("stage", ["texts", "reopened"])
def test_what_was_counted_is_counted_again_when_something_has_changed(tmp_path, stage):
    with LlmServer(sensible) as server:
        out = run(configure(tmp_path, server))
        before = status(out)
        if stage == "texts":
            path = out / "samples_texts.json"
            texts = json.loads(path.read_text(encoding="utf-8"))
            texts[0]["q"] = "Another question?"
            path.write_text(json.dumps(texts), encoding="utf-8")
        else:
            with Store(out) as store, sqlite3.connect(store.path) as base:
                key = base.execute("SELECT key FROM calls WHERE stage = 'answer'").fetchone()[0]
                store.reopen([key.hex()], "unreadable")
    told = status(out)
    assert before["answer"]["left"] == 0
    assert told["answer"] != before["answer"]
    assert told["graded"]["graded"] < before["graded"]["graded"]
