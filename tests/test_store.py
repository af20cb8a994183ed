"""The store: one reply a request, answers for good, failures with their reasons."""

import sqlite3
import subprocess
import sys

import pytest

from retrieval_quality.errors import DataError
from retrieval_quality.pipeline.store import MAX_TRIES, Reply, Request, Store


def request(text="Hello", **more):
    return Request("m", [{"role": "user", "content": text}], "p@1", {"seed": 1}, **more)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path) as opened:
        yield opened


def test_keeps_request_and_reply_across_openings(tmp_path):
    reply = Reply("Ja. ü", None, False, "{}", 3, 1, True, 0.5, {"attempts": 2})
    with Store(tmp_path) as store:
        store.save("answer", request(), reply)
    with Store(tmp_path) as store:
        assert store.get(request().key) == reply
        assert store.get(request("Other").key) is None
    database = sqlite3.connect(tmp_path / "store.sqlite")
    assert '"seed":1' in database.execute("SELECT what FROM makers").fetchone()[0]
    assert b"Hello" not in (tmp_path / "store.sqlite").read_bytes()  # the texts are in the samples
    database.close()


def test_an_answer_is_never_replaced(store):
    store.save("answer", request(), Reply("Yes.", raw="1", cost=1.0))
    store.save("answer", request(), Reply(None, "empty", raw="2", cost=1.0))
    store.save("answer", request(), Reply("No.", raw="3", cost=1.0))
    assert store.get(request().key).text == "Yes."
    assert store.spent().cost == 1.0


def test_a_failure_is_replaced_and_its_costs_add_up(store):
    store.save("answer", request(), Reply(None, "empty", raw="1", prompt_tokens=2, cost=1.0))
    store.save("answer", request(), Reply("Yes.", raw="2", prompt_tokens=3, cost=0.5))
    assert store.get(request().key).text == "Yes."
    spent = store.spent("answer")
    assert (spent.calls, spent.tries, spent.prompt_tokens, spent.cost) == (1, 2, 5, 1.5)
    assert store.spent("grade").calls == 0


def test_settled_are_answers_final_failures_and_those_tried_often(store):
    answered, final, empty, lost = (request(name) for name in "abcd")
    store.save("answer", answered, Reply("Yes.", raw="x"))
    store.save("answer", final, Reply("Ye", "truncated at 9 tokens", True, raw="x"))
    for _ in range(MAX_TRIES):
        assert not store.is_settled(empty)
        store.save("answer", empty, Reply("", "empty", raw="x"))
        store.save("answer", lost, Reply(None, "server error (HTTP 500)"))
    settled = [store.is_settled(one) for one in (answered, final, empty, lost)]
    assert settled == [True, True, True, False]


def test_a_full_disk_is_said_and_keeps_what_was_there(store):
    store.save("answer", request("first"), Reply("Yes.", raw="x"))
    pages = store._database.execute("PRAGMA page_count").fetchone()[0]
    store._database.execute(f"PRAGMA max_page_count = {pages + 1}")
    with pytest.raises(DataError, match=r"store\.sqlite.*full.*kept"):
        store.save("answer", request("second"), Reply("x" * 50_000, raw="x"))
    assert store.get(request("first").key).text == "Yes."


def test_a_file_that_is_no_database_is_refused_by_name(tmp_path):
    (tmp_path / "store.sqlite").write_bytes(b"not a database, " * 100)
    with pytest.raises(DataError, match=r"store\.sqlite cannot be used"):
        Store(tmp_path)
    with pytest.raises(DataError, match="no folder"):
        Store(tmp_path / "missing")


def test_two_runs_in_one_folder_are_refused(tmp_path, store):
    code = (
        "import sys\n"
        "from retrieval_quality.pipeline.store import Store\n"
        "with Store(sys.argv[1]).writing(): print('got it')\n"
    )
    run = [sys.executable, "-c", code, str(tmp_path)]
    with store.writing():
        second = subprocess.run(run, check=False, capture_output=True, text=True)
    assert "UsageError" in second.stderr
    assert "is in use" in second.stderr
    free = subprocess.run(run, check=True, capture_output=True, text=True)
    assert free.stdout == "got it\n"


def test_a_killed_process_leaves_every_saved_reply_and_no_lock(tmp_path):
    code = (
        "import os, signal, sys\n"
        "from retrieval_quality.pipeline.store import *\n"
        "store = Store(sys.argv[1])\n"
        "with store.writing():\n"
        "    for i in range(50):\n"
        "        store.save('answer', Request('m', [], f'{i}'), Reply('Yes.', raw='x'))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode == -9
    with Store(tmp_path) as store, store.writing():
        assert store.spent().calls == 50


def test_the_key_tells_apart_all_that_determines_the_reply():
    base = request()
    others = [
        request("hello"),
        request(repeat=1),
        request(revision="2"),
        Request("n", base.messages, "p@1", {"seed": 1}),
        Request("m", base.messages, "p@2", {"seed": 1}),
        Request("m", base.messages, "p@1", {"seed": 1, "temperature": 0}),
        Request("m", [{"role": "system", "content": "Hello"}], "p@1", {"seed": 1}),
    ]
    assert len({one.key for one in [base, *others]}) == 8
    assert base.key == Request("m", base.messages, "p@1", {"seed": 1}, limit=7).key
