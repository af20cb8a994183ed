"""The store: one reply a request, answers for good, failures with their reasons."""

import json
import sqlite3
import subprocess
import sys

import pytest

from retrieval_quality.errors import DataError
from retrieval_quality.pipeline.client import body_of
from retrieval_quality.pipeline.settings import Settings
from retrieval_quality.pipeline.store import MAX_TRIES, Reply, Request, Store, canonical


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


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"temperature": 0}, {"temperature": 0.0}),
        ({"temperature": 1}, {"temperature": 1.0}),
        ({"temperature": 0}, {"temperature": -0.0}),
        ({"seed": 1}, {"seed": 1.0}),
        ({}, {"temperature": 0, "seed": 1}),
        ({}, {"temperature": None, "seed": None, "revision": None, "max_tokens": None}),
        ({}, {"omit": [], "rename": {}, "extra_body": {}}),
        ({}, {"omit": None, "rename": None, "extra_body": None}),
        ({"extra_body": {"top_k": 40, "a": [1]}}, {"extra_body": {"a": [1.0], "top_k": 40.0}}),
        ({}, {"extra_body": {"top_k": None}}),
        ({"max_tokens": 9}, {"max_tokens": 99}),
        ({"max_tokens": 9}, {"max_tokens": 9, "rename": {"max_tokens": "max_completion_tokens"}}),
        ({"revision": "3"}, {"revision": 3}),
        ({}, {"base_url": "http://127.0.0.1:1/v1", "concurrency": 2, "timeout": 3}),
        ({"omit": ["seed"]}, {"omit": "seed"}),
    ],
)
def test_the_same_question_has_the_same_key_however_it_is_written(one, other):
    made = [
        Settings.from_mapping({"model": "m", **told}).request(
            [{"role": "user", "content": "Hello"}], "p@1", max_tokens=8
        )
        for told in (one, other)
    ]
    assert made[0].key == made[1].key
    bodies = [{n: v for n, v in body_of(x).items() if "max" not in n} for x in made]
    assert canonical(bodies[0]) == canonical(bodies[1])


def test_a_cut_reply_settles_up_to_its_limit_and_a_whole_one_at_any(store):
    asked = {n: request_at(n) for n in (None, 5, 9, 20)}
    assert len({one.key for one in asked.values()}) == 1
    store.save("answer", asked[9], Reply("Ye", "truncated at 9 tokens", True, raw="x"))
    told = {n: store.is_settled(one) for n, one in asked.items()}
    assert told == {None: False, 5: True, 9: True, 20: False}
    store.save("answer", asked[20], Reply("Yes.", raw="x"))
    assert all(store.is_settled(one) for one in asked.values())


def request_at(limit):
    parameters = {"seed": 1, **({"max_tokens": limit} if limit else {})}
    return Request("m", [{"role": "user", "content": "Hello"}], "p@1", parameters, limit=limit)


def test_what_is_reopened_is_asked_again_and_keeps_its_costs(store):
    whole, failed = request("a"), request("b")
    store.save("grade", whole, Reply("I would say 4", raw="x", cost=1.0))
    store.save("grade", failed, Reply("Ye", "truncated at 9 tokens", True, raw="x", cost=1.0))
    store.reopen([whole.key, failed.key], "unreadable")
    assert not store.is_settled(whole)
    assert not store.is_settled(failed)
    assert store.get(whole.key).reason == "unreadable"
    store.save("grade", whole, Reply("Grade: 4", raw="y", cost=0.5))
    assert store.get(whole.key).text == "Grade: 4"
    assert store.spent().cost == 2.5


def test_a_lost_call_has_no_price_to_miss(store):
    store.save("answer", request(), Reply(None, "server error (HTTP 500)"))
    assert store.spent().unpriced == 0
    store.save("answer", request(), Reply("Yes.", raw="x", cost=0.5))
    assert store.spent().cost == 0.5


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ('{"choices": [{"message": {"content": "Ja. \\u00fc"}}]}', "Ja. ü"),
        ('{"choices": [{"message": {"content": "Ja. ü"}}]}', "Ja. ü"),
        ('{"content": "4", "other": "4"}', "4"),
        ('{"content": "a\\/b"}', "a/b"),
        ('{"content": [{"text": "Ye"}, {"text": "s"}]}', "Yes"),
        ('{"content": "a?b"}', "a?b"),
        ("no JSON", "other"),
        ('{"content": ""}', ""),
        ('{"content": null}', None),
        ('{"content": "\\ud83d\\ude00 \\"quoted\\" \\n"}', '😀 "quoted" \n'),
    ],
)
def test_the_body_comes_back_as_it_came(store, raw, text):
    store.save("answer", request(), Reply(text, raw=raw))
    assert store.get(request().key).raw == raw


OLD = """
CREATE TABLE calls (
  key TEXT PRIMARY KEY, stage TEXT NOT NULL, model TEXT NOT NULL, prompt TEXT NOT NULL,
  request TEXT NOT NULL, text TEXT, reason TEXT, final INTEGER NOT NULL, tries INTEGER NOT NULL,
  raw TEXT NOT NULL, details TEXT NOT NULL, prompt_tokens INTEGER NOT NULL,
  completion_tokens INTEGER NOT NULL, estimated INTEGER NOT NULL, cost REAL, asked_at TEXT NOT NULL
)
"""


def test_a_store_of_an_earlier_version_is_taken_over(tmp_path):
    database = sqlite3.connect(tmp_path / "store.sqlite")
    database.execute(OLD)

    def old(name, limit, temperature, text, reason, cost):
        asked = {
            "messages": [{"role": "user", "content": name}],
            "parameters": {"max_tokens": limit, "seed": 1, "temperature": temperature},
            "repeat": 0,
            "revision": "",
        }
        row = (f"{name}{limit}{temperature}", "answer", "m", "p@1", json.dumps(asked), text, reason)
        more = (reason is not None, 1, "{}", '{"attempts":2,"base_url":"http://x/v1"}', 10, 2, 0)
        database.execute(
            f"INSERT INTO calls VALUES ({', '.join('?' * 16)})",
            (*row, *more, cost, "2026-01-01T00:00:00+00:00"),
        )

    old("whole", 9, 0, "Yes.", None, 0.5)
    old("cut", 9, 0, "Ye", "truncated at 9 tokens", 0.5)
    old("both", 20, 0.0, "Yes.", None, 0.25)  # bought twice: cut, then under a higher limit
    old("both", 9, 0, "Ye", "truncated at 9 tokens", 0.25)
    database.commit()
    database.close()

    def asked(name, limit):
        settings = Settings("m", max_tokens=limit)
        return settings.request([{"role": "user", "content": name}], "p@1", max_tokens=1)

    for _ in range(2):
        with Store(tmp_path) as store:
            assert store.get(asked("whole", 9).key).text == "Yes."
            details = {"attempts": 2, "base_url": "http://x/v1"}
            assert store.get(asked("whole", 9).key).details == details
            told = [store.is_settled(asked(name, 9)) for name in ("whole", "cut", "both", "none")]
            assert told == [True, True, True, False]
            assert not store.is_settled(asked("cut", 10))
            assert store.get(asked("both", 9).key).text == "Yes."
            spent = store.spent("answer")
            assert (spent.calls, spent.tries, spent.cost) == (3, 4, 1.5)
    newer = sqlite3.connect(tmp_path / "store.sqlite")
    newer.execute("PRAGMA user_version = 99")
    newer.close()
    with pytest.raises(DataError, match="newer version"):
        Store(tmp_path)
