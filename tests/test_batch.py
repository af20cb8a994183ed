"""The Batch API as an executor, against a local server of its protocol."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from batch_server import BatchServer
from llm_server import Answer, LlmServer, error, make_folder, say, sensible
from retrieval_quality.cli import cli
from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.pipeline import batch as batching
from retrieval_quality.pipeline.answer import answer
from retrieval_quality.pipeline.client import Estimate, Tally, ask
from retrieval_quality.pipeline.grade import grade
from retrieval_quality.pipeline.settings import BATCH_SHARE, Settings
from retrieval_quality.pipeline.store import Request, Store

PRICES = {"m": {"input": 100.0, "output": 1000.0}}
CALL = (10 * 100 + 2 * 1000) / 1e6  # what the server counts: 10 and 2 tokens


@pytest.fixture
def server():
    with BatchServer() as one:
        yield one


def settings(server: BatchServer | LlmServer, **more: object) -> Settings:
    quick = {"progress": False, "poll": 0.01, "back_off": 0.01, "attempts": 3, "engine": "batch"}
    return Settings("m", server.base_url, **{**quick, **more})


def questions(n: int, size: int = 0) -> list[Request]:
    asked = Settings("m")
    return [
        asked.request([{"role": "user", "content": f"{i}" + "x" * size}], "p", max_tokens=9)
        for i in range(n)
    ]


def run(folder: Path, server: BatchServer, requests: list[Request], **more: object) -> Tally:
    with Store(folder) as store:
        return ask(requests, store, settings(server, **more), stage="answer")


def rows(folder: Path) -> list[tuple[object, ...]]:
    with sqlite3.connect(folder / "store.sqlite") as database:
        return database.execute(
            "SELECT hex(key), stage, text, reason, tries, prompt_tokens, completion_tokens "
            "FROM calls ORDER BY key"
        ).fetchall()


def test_the_same_rows_as_by_single_calls(tmp_path, server):
    one, other = make_folder(tmp_path / "batch"), make_folder(tmp_path / "chat")
    with LlmServer() as chat:
        for folder, to, engine in ((one, server, "batch"), (other, chat, "chat")):
            answer(folder, settings(to, engine=engine))
            grade(folder, settings(to, engine=engine))
    assert rows(one) == rows(other)
    assert len(rows(one)) == len(server.paid) == chat.count
    for name in ("samples_graded.json",):
        assert (one / name).read_bytes() == (other / name).read_bytes()
    assert set(server.paid.values()) == {1}
    assert not server.files


def test_half_price_in_the_ledger_and_in_the_dry_run(tmp_path, server):
    folder = make_folder(tmp_path)
    whole = answer(folder, settings(server, engine="chat", prices=PRICES), dry_run=True)
    half = answer(folder, settings(server, prices=PRICES), dry_run=True)
    assert isinstance(half, Estimate)
    assert isinstance(whole, Estimate)
    assert half.cost == pytest.approx(BATCH_SHARE * whole.cost)
    assert "0.5 of the usual price" in str(half)
    assert "batches" not in str(whole)
    tally = run(folder, server, questions(4), prices=PRICES)
    assert tally.spent.cost == pytest.approx(4 * CALL * BATCH_SHARE)


def test_split_below_both_limits(tmp_path, server, monkeypatch):
    assert (batching.MOST_ITEMS, batching.MOST_BYTES) == (50_000, 200_000_000)
    monkeypatch.setattr(batching, "MOST_ITEMS", 500)
    run(tmp_path, server, questions(501))
    assert server.uploaded == [500, 1]
    server.batches.clear()
    monkeypatch.setattr(batching, "MOST_BYTES", 200_000)
    run(tmp_path, server, questions(300, size=1000))
    assert sum(server.uploaded) == 300
    assert len(server.uploaded) == 2
    with pytest.raises(DataError, match="longer than a batch may be"):
        run(tmp_path, server, questions(1, size=200_000))
    assert set(server.paid.values()) == {1}
    assert not server.files


def test_a_full_queue_is_asked_again_in_smaller_batches(tmp_path, server):
    full = {"code": "token_limit_exceeded", "message": "Enqueued token limit reached."}
    server.validate = lambda lines: [full] if len(lines) > 3 else []
    tally = run(tmp_path, server, questions(12))
    assert tally.answered == 12
    assert set(server.paid.values()) == {1}
    assert server.uploaded == [12, 6, 3, 3, 3, 3]
    assert not server.files


def test_a_full_queue_costs_nothing_and_the_next_run_is_smaller(tmp_path, server):
    full = {"code": "token_limit_exceeded", "message": "Enqueued token limit reached."}
    server.validate = lambda lines: [full]
    with pytest.raises(DataError, match=r"token_limit_exceeded.*reached.*Nothing.*paid"):
        run(tmp_path, server, questions(4), prices=PRICES, max_cost=1)
    with Store(tmp_path) as store:
        assert store.spent().calls == 0
        assert store.spent().cost == 0
    assert not server.files
    assert not server.paid
    server.batches.clear()
    server.validate = lambda lines: []
    assert run(tmp_path, server, questions(4)).answered == 4
    assert server.uploaded == [1, 1, 1, 1]


def test_a_refused_batch_names_code_and_line(tmp_path, server):
    twice = {"code": "duplicate_custom_id", "line": 12, "message": "The id is there twice."}
    server.validate = lambda lines: [twice]
    with pytest.raises(DataError, match=r"duplicate_custom_id \(line 12\): The id is there twice"):
        run(tmp_path, server, questions(4))
    assert rows(tmp_path) == []
    assert not server.files
    server.validate = lambda lines: []
    assert run(tmp_path, server, questions(4)).answered == 4


@pytest.mark.parametrize("status", ["expired", "cancelled"])
def test_what_was_not_asked_in_time_is_asked_by_the_next_run(tmp_path, server, status):
    late = {one.key for one in questions(6)[::2]}
    server.status, server.asked_of = lambda looks: status, lambda name: name not in late
    tally = run(tmp_path, server, questions(6))
    assert (tally.answered, tally.failed.total()) == (3, 3)
    assert [row[3] for row in rows(tmp_path)].count("expired before it was asked") == 3
    server.status, server.asked_of = lambda looks: "completed", lambda name: True
    assert run(tmp_path, server, questions(6)).answered == 3
    assert set(server.paid.values()) == {1}
    assert len(server.paid) == 6


def test_failures_of_single_requests_are_read_as_those_of_calls(tmp_path, server):
    told = {
        "0": say("half", finish_reason="length"),
        "1": error(400, "maximum context length is 9", code="context_length_exceeded"),
        "2": error(500, "something broke"),
        "3": say("No.", finish_reason="content_filter"),
        "4": Answer({"error": {"message": "model is loading"}}),
    }
    server.behave = lambda asked: told.get(asked.text) or sensible(asked)
    tally = run(tmp_path, server, questions(6))
    assert tally.answered == 1
    with Store(tmp_path) as store:
        found = {request.messages[0]["content"]: request for request in questions(6)}
        reasons = {name: store.get(one.key).reason for name, one in found.items()}
        settled = [name for name, one in found.items() if store.is_settled(one)]
    assert reasons["0"] == "truncated at 9 tokens"
    assert reasons["5"] is None
    assert reasons["1"] == "context too long for the model"
    assert reasons["2"] == "server error (HTTP 500)"
    assert "loading" in str(reasons["4"])
    assert "filter" in str(reasons["3"])
    assert "2" not in settled
    assert "4" not in settled
    assert {"0", "1", "5"} <= set(settled)


def test_a_parameter_refused_everywhere_stops_and_is_named(tmp_path, server):
    server.behave = lambda asked: error(
        400, "Unsupported value", code="unsupported_value", param="temperature"
    )
    with pytest.raises(UsageError, match=r"omit: \[temperature\]"):
        run(tmp_path, server, questions(3))
    assert not server.files


STEPS = [
    *[(when, "POST", "/files") for when in ("before", "after")],
    *[(when, "POST", "/batches") for when in ("before", "after")],
    *[("before", "GET", "/batches/"), ("before", "GET", "/files/"), ("after", "DELETE", "/files")],
]


@pytest.mark.parametrize(("when", "method", "path"), STEPS)
@pytest.mark.parametrize("once", [True, False])
def test_a_connection_lost_at_any_step(tmp_path, server, when, method, path, once):
    """Lost once, the run goes on; lost for good, the next run does; nothing is bought twice.

    What was made though no answer came is found at the server, so it is no fault of the run.
    """
    hit = []

    def trouble(asked: str, where: str) -> str | None:
        if asked != method or not where.startswith(path) or (once and hit):
            return None
        hit.append(where)
        return when

    server.trouble = trouble
    if once or when == "after":
        run(tmp_path, server, questions(5))
    else:
        with pytest.raises(DataError, match="run the same command"):
            run(tmp_path, server, questions(5))
    assert hit
    server.trouble = lambda asked, where: None
    run(tmp_path, server, questions(5))
    assert len(rows(tmp_path)) == 5
    assert all(row[2] for row in rows(tmp_path))
    assert set(server.paid.values()) == {1}
    assert len(server.batches) == 1
    assert not server.files


KILL = """
import os
from retrieval_quality.pipeline.client import ask
from retrieval_quality.pipeline.settings import Settings
from retrieval_quality.pipeline import store as storing
steps = 0
def dying(name):
    whole = getattr(storing.Store, name)
    def step(self, *given, **more):
        global steps
        for moment in ("before", "after"):
            if moment == "after":
                out = whole(self, *given, **more)
            steps += 1
            if steps == {step}:
                os._exit(9)
        return out
    setattr(storing.Store, name, step)
for name in ("begin_batch", "note_batch", "save"):
    dying(name)
with storing.Store({folder!r}) as store:
    s = Settings("m", {url!r}, progress=False, poll=0.01, engine="batch", prices={prices!r})
    asked = [
        s.request([{{"role": "user", "content": str(i)}}], "p", max_tokens=9) for i in range(3)
    ]
    ask(asked, store, s, stage="answer")
print(steps)
"""


def test_killed_before_and_after_every_step(tmp_path):
    """The process dies at each point where something is written down, in turn."""
    step = 0
    while True:
        step += 1
        folder = tmp_path / str(step)
        folder.mkdir()
        with BatchServer() as server:
            server.behave = lambda asked: (
                say("cut", finish_reason="length") if asked.text == "1" else sensible(asked)
            )
            code = KILL.format(
                **{"step": step, "folder": str(folder), "url": server.base_url},
                prices=PRICES,
            )
            died = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
            assert died.returncode in (0, 9), died.stderr.decode()
            run(folder, server, questions(3), prices=PRICES)
            assert set(server.paid.values()) == {1}, step
            assert len(server.paid) == 3, step
            assert not server.files, step
            with Store(folder) as store:
                assert store.spent().cost == pytest.approx(3 * CALL * BATCH_SHARE), step
                assert not any(one.is_open for one in store.batches())
        if died.returncode == 0:
            break
    assert step > 12


def test_single_calls_do_not_buy_what_a_batch_holds(tmp_path, server):
    server.trouble = lambda method, path: (
        Answer({"error": {"message": "no"}}, 403) if path.startswith("/batches/") else None
    )
    with pytest.raises(UsageError, match="refuses the key"):
        run(tmp_path, server, questions(2))
    with LlmServer() as chat, Store(tmp_path) as store:
        for engine in ("chat", "batch"):
            with pytest.raises(UsageError, match="pay for them twice"):
                ask(questions(2), store, settings(chat, engine=engine), stage="answer")
        assert chat.count == 0
    server.trouble = lambda method, path: None
    assert run(tmp_path, server, questions(2)).answered == 2


def test_a_cost_limit_holds_over_batches(tmp_path, server):
    with Store(tmp_path) as store:
        one = settings(server, prices=PRICES).price()
        assert one is not None
        assert store.spent().cost == 0
    spent = []
    for limit in (0.05, 0.06):
        with pytest.raises(DataError, match="cost limit"):
            run(tmp_path, server, questions(200), prices=PRICES, max_cost=limit)
        with Store(tmp_path) as store:
            spent.append(store.spent().cost)
        assert 0.8 * limit < spent[-1] <= limit
    with pytest.raises(DataError, match="cost limit"):
        run(tmp_path, server, questions(200), prices=PRICES, max_cost=0)
    assert set(server.paid.values()) == {1}
    assert not server.files


def test_a_cut_file_of_replies_is_fetched_again(tmp_path, server):
    real = server._do

    def cut(method, path, content, headers):
        status, body = real(method, path, content, headers)
        if path.endswith("/content"):
            return status, b"\n".join(body.splitlines()[:-1]) + b"\n"
        return status, body

    server._do = cut
    with pytest.raises(DataError, match="3 of 4 replies"):
        run(tmp_path, server, questions(4))
    assert rows(tmp_path) == []
    server._do = real
    assert run(tmp_path, server, questions(4)).answered == 4
    assert set(server.paid.values()) == {1}
    assert not server.files


def test_a_file_that_cannot_be_deleted_is_named_and_tried_again(tmp_path, server, capsys):
    server.trouble = lambda method, path: (
        Answer({"error": {"message": "no"}}, 403) if method == "DELETE" else None
    )
    run(tmp_path, server, questions(2))
    said = capsys.readouterr().err
    assert len(server.files) == 2
    assert all(name in said for name in server.files)
    server.trouble = lambda method, path: None
    run(tmp_path, server, questions(3))
    assert not server.files


def test_a_server_without_batches_is_told(tmp_path):
    with LlmServer(lambda asked: error(404, "not found")) as chat:
        chat.behave = lambda asked: error(404, "not found")
    with BatchServer() as server:
        server.trouble = lambda method, path: Answer({"detail": "Not Found"}, 404)
        with pytest.raises(UsageError, match="Batch API"):
            run(tmp_path, server, questions(2))
        server.trouble = lambda method, path: Answer({"hello": 1}, 200)
        with pytest.raises(UsageError, match="Batch API"):
            run(tmp_path, server, questions(2))


def test_stopped_by_hand_it_says_how_to_go_on(tmp_path, server):
    folder = make_folder(tmp_path)
    server.status = lambda looks: "in_progress"
    command = [sys.executable, "-m", "retrieval_quality", "pipeline", "answer", str(folder)]
    command += ["--model", "m", "--base-url", server.base_url, "--engine", "batch"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while ("GET", "/batches/batch_1") not in server.seen and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(2)
    said = process.communicate(timeout=30)[1]
    assert process.returncode != 0
    assert "Traceback" not in said
    assert "works on batch_1" in said
    assert "nothing is paid twice" in said
    server.status = lambda looks: "completed"
    answer(folder, settings(server))
    assert set(server.paid.values()) == {1}
    assert len(server.batches) == 1


def test_the_command_and_a_configuration(tmp_path, server):
    folder = make_folder(tmp_path / "run")
    asked = ["pipeline", "answer", str(folder), "--model", "gpt-4o-mini", "--dry-run"]
    told = CliRunner().invoke(cli, [*asked, "--engine", "batch", "--base-url", server.base_url])
    assert told.exit_code == 0
    assert "0.5 of the usual price" in told.output
    with pytest.raises(UsageError, match="chat or batch"):
        Settings("m", engine="queue")
    part = {"model": "m", "base_url": server.base_url, "engine": "batch", "poll": 0.01}
    config = tmp_path / "c.yml"
    config.write_text(json.dumps({"out": str(folder), "answer": part, "grade": part}))
    told = CliRunner().invoke(cli, ["pipeline", "run", str(config)])
    assert told.exit_code == 0, told.output
    assert len(json.loads((folder / "samples_graded.json").read_text())) == 36
