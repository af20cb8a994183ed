"""Folders of several machines merged: once what is the same, refused what collides."""

import json
import shutil
import sqlite3

import numpy as np
import pytest
from click.testing import CliRunner

from llm_server import LlmServer, error, make_folder, sensible
from retrieval_quality.cli import cli
from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.outputs import sole_run
from retrieval_quality.pipeline import answer, grade, rank
from retrieval_quality.pipeline.merge import merge
from retrieval_quality.pipeline.run import status
from retrieval_quality.pipeline.settings import Settings
from retrieval_quality.pipeline.store import Reply, Request, Store

PARTS = ("texts", "ranked")
FILES = ("samples_graded.json", "samples_controls.json")


def settings(server, **more):
    told = {"model": "m", "base_url": server.base_url, "progress": False, "back_off": 0.01}
    return Settings.from_mapping({**told, "concurrency": 4, "attempts": 1, **more})


def read(folder, name):
    return json.loads((folder / name).read_text(encoding="utf-8"))


def cut(folder, out, names):
    """Copy what belongs to some of the samples."""
    out.mkdir()
    for part in PARTS:
        rows = [r for r in read(folder, f"samples_{part}.json") if r["id"] in names]
        (out / f"samples_{part}.json").write_text(json.dumps(rows), encoding="utf-8")
    return out


def answered(folder, server, **more):
    answer.answer(folder, settings(server, **more), controls=["none", "reversed"])
    return folder


def graded(folder, server, **more):
    answered(folder, server, **more)
    grade.grade(folder, settings(server, **more))
    return folder


@pytest.fixture
def server():
    with LlmServer(sensible) as made:
        yield made


@pytest.fixture
def halves(tmp_path):
    """A folder of four samples, and two with two of them each."""
    whole = make_folder(tmp_path / "whole", samples=4)
    first = cut(whole, tmp_path / "first", {"A-0", "A-1"})
    return whole, first, cut(whole, tmp_path / "second", {"A-2", "A-3"})


def test_the_merged_folder_is_what_one_machine_would_have_made(tmp_path, server, halves):
    whole, first, second = (graded(folder, server) for folder in halves)
    before, out = server.count, tmp_path / "out"
    merge([first, second], out)
    for name in FILES:
        assert (out / name).read_bytes() == (whole / name).read_bytes()
    for stage in ("answer", "grade"):
        with Store(out) as ours, Store(whole) as theirs:
            assert ours.spent(stage) == theirs.spent(stage)
    expected = {**status(whole), "folder": str(out)}
    assert status(out) == expected
    graded(out, server)
    assert server.count == before
    for name in FILES:
        assert (out / name).read_bytes() == (whole / name).read_bytes()


def test_after_a_merge_only_what_no_machine_has_asked_is_asked(tmp_path, server, halves):
    whole, first, second = halves
    graded(first, server)
    with LlmServer() as other:
        other.behave = lambda asked: (
            error(429, "no", code="insufficient_quota") if asked.number > 6 else sensible(asked)
        )
        with pytest.raises(DataError, match="quota"):
            answered(second, other, concurrency=1)
    out = tmp_path / "out"
    said = merge([first, second], out)
    assert any("answering is not finished" in line for line in said)
    assert not (out / FILES[0]).exists()
    with Store(out) as store:
        bought = {key for key in keys(out) if store.get(key).reason is None}
    before = server.count
    graded(out, server)
    with LlmServer(sensible) as fresh:
        graded(whole, fresh)
        assert server.count - before == fresh.count - len(bought)
    assert (out / FILES[0]).read_bytes() == (whole / FILES[0]).read_bytes()


def keys(folder):
    with sqlite3.connect(folder / "store.sqlite") as base:
        return [key.hex() for (key,) in base.execute("SELECT key FROM calls")]


def test_what_two_folders_share_is_there_once(tmp_path, server, halves):
    whole, first, _ = (graded(folder, server) for folder in halves)
    with Store(whole) as store:
        calls = store.spent().calls
    merge([first, whole], tmp_path / "out")
    ids = [row["id"] for row in read(tmp_path / "out", "samples_texts.json")]
    assert sorted(ids) == [f"A-{i}" for i in range(4)]
    assert len(read(tmp_path / "out", FILES[0])) == len(read(whole, FILES[0]))
    with Store(tmp_path / "out") as store:
        assert store.spent().calls == calls


@pytest.mark.parametrize(
    ("part", "change", "said"),
    [
        ("texts", {"q": "Another question?"}, "id A-0 stands for one thing"),
        ("ranked", {"rank": [5, 4, 3, 2, 1, 0]}, "id A-0, E one, Nc 6, Np 2 stands for one thing"),
    ],
)
def test_a_key_with_two_contents_is_refused(tmp_path, halves, part, change, said):
    whole, first, _ = halves
    path = first / f"samples_{part}.json"
    rows = read(first, path.name)
    path.write_text(json.dumps([{**rows[0], **change}, *rows[1:]]), encoding="utf-8")
    with pytest.raises(DataError, match=said):
        merge([whole, first], tmp_path / "out")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["first", "second", "whole"]


@pytest.mark.parametrize(
    ("stage", "more", "said"),
    [
        ("answer", {"temperature": 0.5}, "answer: temperature is 0 in .* and 0.5 in"),
        ("answer", {"model": "n"}, 'answer: model is "m" in .* and "n" in'),
        ("grade", {"seed": 7}, "grade: seed is 1 in .* and 7 in"),
    ],
)
def test_settings_that_differ_are_refused_by_name(tmp_path, server, halves, stage, more, said):
    _, first, second = halves
    graded(first, server)
    if stage == "grade":
        answered(second, server)
        grade.grade(second, settings(server, **more))
    else:
        answered(second, server, **more)
    with pytest.raises(UsageError, match=said):
        merge([first, second], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_another_server_is_no_other_setting(tmp_path, server, halves):
    _, first, second = halves
    graded(first, server)
    with LlmServer(sensible) as other:
        graded(second, other)
    merge([first, second], tmp_path / "out")
    assert len(read(tmp_path / "out", FILES[0])) == 48


def test_a_folder_in_use_and_a_place_that_holds_something_are_refused(tmp_path, halves):
    _, first, second = halves
    out = tmp_path / "out"
    with pytest.raises(UsageError, match="at least two folders, each once"):
        merge([first, first], out)
    out.mkdir()
    (out / "mine").write_text("kept")
    with pytest.raises(UsageError, match="not empty"):
        merge([first, second], out)
    (out / "mine").unlink()
    (second / FILES[0]).write_text("[]")
    with pytest.raises(DataError, match="was not made from the folder's store"):
        merge([first, second], out)
    assert list(out.iterdir()) == []


def test_a_folder_that_another_process_holds_is_left_alone(tmp_path, halves, monkeypatch):
    _, first, second = halves

    def held(folder, what):
        raise UsageError(f"{folder} is in use")

    monkeypatch.setattr("retrieval_quality.outputs.sole_run", held)
    with pytest.raises(UsageError, match="first is in use"):
        merge([first, second], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    monkeypatch.undo()
    merge([first, second], tmp_path / "out")
    with sole_run(first):
        pass  # it is free again


def test_replies_of_two_stores(tmp_path):
    """An answer goes before a failure, what is here before the other; what was paid adds up."""
    hello = [{"role": "user", "content": "Hello"}]
    one, two, three = (Request("m", hello, "p", repeat=i) for i in range(3))
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    lost = Reply(None, "filtered", raw="{}", prompt_tokens=3, cost=0.5)
    with Store(tmp_path / "a") as a, Store(tmp_path / "b") as b:
        a.save("answer", one, lost)
        b.save("answer", one, Reply("late", raw='{"b": 1}', prompt_tokens=4, cost=0.25))
        a.save("answer", two, Reply("mine", raw='{"a": 2}', cost=1))
        b.save("answer", two, Reply("theirs", raw='{"b": 2}', cost=1))
        b.save("grade", three, Reply("5", raw='{"content": "5"}', details={"base_url": "there"}))
        expected = b.get(three.key)
        assert a.take(b) == 1
        assert (a.get(one.key).text, a.get(one.key).prompt_tokens) == ("late", 7)
        assert a.get(two.key).text == "mine"
        assert a.get(three.key) == expected
        assert a.spent().cost == 2.75
        assert a.spent().tries == 5
        spent = b.spent()
        assert b.get(two.key).text == "theirs"
    shutil.copytree(tmp_path / "b", tmp_path / "c")
    with Store(tmp_path / "b") as b, Store(tmp_path / "c") as copy:
        assert b.take(copy) == 0
        assert b.spent() == spent  # the same reply is not paid twice


class Stub:
    """An embedder whose vectors follow from the text alone; counts what it encodes."""

    def __init__(self, code):
        self.code = code
        self.encoded = []

    def described(self):
        return {"model": self.code}

    def worded(self, text, kind):
        return text

    def encode(self, texts, batch_size):
        self.encoded += texts
        made = [np.random.default_rng(list(text.encode())).normal(size=4) for text in texts]
        return np.array(made, dtype=np.float32)


def test_embeddings_ranked_on_two_machines_are_not_encoded_again(tmp_path):
    texts = make_folder(tmp_path / "texts", samples=3) / "samples_texts.json"
    asked = {"candidates": 6, "positives": 2, "top_k": "1-3"}
    for name, codes in (("a", ["one"]), ("b", ["two", "three"])):
        (tmp_path / name).mkdir()
        shutil.copy(texts, tmp_path / name)
        rank.rank(tmp_path / name, [Stub(code) for code in codes], **asked)
    merge([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    rows = read(tmp_path / "out", "samples_ranked.json")
    assert {(row["id"], row["E"]) for row in rows} == {
        (f"A-{i}", code) for i in range(3) for code in ("one", "two", "three")
    }
    again = [Stub(code) for code in ("one", "two", "three")]
    rank.rank(tmp_path / "out", again, **asked)
    assert [stub.encoded for stub in again] == [[], [], []]
    by_key = {(row["id"], row["E"]): row for row in rows}
    for row in read(tmp_path / "out", "samples_ranked.json"):
        assert row == by_key[row["id"], row["E"]]
    rank.rank(tmp_path / "a", [Stub("one")], **{**asked, "top_k": "1-2"})
    with pytest.raises(UsageError, match=r"rank: top_k is \[1,2\] in .* and \[1,2,3\] in"):
        merge([tmp_path / "a", tmp_path / "b"], tmp_path / "other")


def test_the_command_says_how_far_the_merged_folder_is(tmp_path, server, halves):
    _, first, second = halves
    graded(first, server)
    words = ["pipeline", "merge", str(first), str(second), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0
    assert "texts: 4" in done.output
    assert "left" in done.output
