"""The demonstration corpus and its stored run hold what they say."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest

from llm_server import LlmServer, sensible
from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.pipeline import corpus, demo, rank


@pytest.fixture
def no_live(monkeypatch):
    for name in demo.LIVE:
        monkeypatch.delenv(name, raising=False)


def test_the_texts_stand_as_they_are(tmp_path):
    manifest = corpus.build("texts", [demo.TEXTS], tmp_path)
    assert json.loads((tmp_path / "samples_texts.json").read_text("utf-8")) == demo.read(demo.TEXTS)
    assert manifest["sources"][0]["drops"] == {"queries": {}, "texts": {}, "labels": {}}


def test_twenty_questions_with_two_to_six_positives():
    texts = demo.read(demo.TEXTS)
    assert [t["id"] for t in texts] == [f"D-{i}" for i in range(20)]
    assert {len(t["p"]) for t in texts} == {2, 3, 4, 5, 6}
    assert min(len(t["n"]) for t in texts) >= 12


def test_the_stored_run_fits_the_texts():
    run = demo.stored()
    texts = {t["id"]: t for t in run.texts}
    ranked = {(r["id"], r["E"], r["Nc"], r["Np"]): r for r in run.ranked}
    assert {key[0] for key in ranked} == set(texts)
    assert len(run.graded) == sum(len(r["K"]) for r in run.ranked)
    for row in run.graded:
        ranking = ranked[row["id"], row["E"], row["Nc"], row["Np"]]
        assert row["rank"] == ranking["rank"][: row["K"]]
        assert row["inK"] == [int(i < row["Np"]) for i in row["rank"]]
        assert row["grade"] in (1, 2, 3, 4, 5, None)
        assert row["answer_ideal"]
    assert run.provenance["graded rows"] == sum(r["grade"] is not None for r in run.graded)


def test_the_stored_grades_rise_with_what_was_found():
    run = demo.stored()
    means = []
    for low, high in ((0, 0.34), (0.34, 0.7), (0.7, 1)):
        grades = [r["grade"] for r in run.graded if r["grade"] and low <= r["R"] <= high]
        means.append(sum(grades) / len(grades))
    assert all(a < b for a, b in pairwise(means)), means


@pytest.mark.usefixtures("no_live")
def test_without_models_the_stored_run_is_shown_and_says_so():
    run = demo.load()
    assert not run.live
    assert "Stored run" in repr(run)
    assert "Stored run" in run._repr_html_()
    assert demo.BASE_URL in repr(run)


class Letters:
    """An embedder that counts letters."""

    code = "letters"

    def described(self) -> dict:
        return {"model": "letters"}

    def worded(self, text: str, kind: str) -> str:
        return text

    def encode(self, texts: list[str], batch_size: int) -> np.ndarray:
        return np.array([[text.count(c) + 0.1 for c in "abcdefghij"] for text in texts])


def test_a_live_run_makes_what_the_stored_one_holds(monkeypatch):
    monkeypatch.setattr(rank, "load", lambda *_, **__: Letters())
    monkeypatch.setenv(demo.EMBEDDING, "letters")
    monkeypatch.setenv(demo.MODEL, "local")
    with LlmServer(sensible) as server:
        monkeypatch.setenv(demo.BASE_URL, server.base_url)
        run = demo.load()
    assert run.live, run.note
    assert repr(run) == "Live run. Made just now."
    assert run.provenance["language model"] == "local"
    stored = demo.stored()
    assert [(g["id"], g["K"]) for g in run.graded] == [(g["id"], g["K"]) for g in stored.graded]
    assert all(g["grade"] in (1, 2, 3, 4, 5) for g in run.graded)


def test_a_live_run_that_fails_is_said_and_the_stored_one_shown(monkeypatch):
    for name in demo.LIVE:
        monkeypatch.setenv(name, "x")

    def fails(*_: str) -> None:
        raise DataError("The server is <b>down</b>.")

    monkeypatch.setattr(demo, "live", fails)
    run = demo.load()
    assert not run.live
    assert "could not be run here and now: The server is" in repr(run)
    assert "<b>down" not in run._repr_html_()


def test_what_is_shown_is_escaped():
    run = demo.stored()
    run.texts[0]["p"][0] = "<script>alert(1)</script>"
    shown = run.retrieved("D-0")._repr_html_()
    assert "&lt;script&gt;" in shown
    assert "<script" not in shown


def test_each_table_shows_its_rows():
    run = demo.stored()
    assert run.questions().html.count("<tr>") == 21
    assert run.retrieved("D-2").html.count("<tr>") == 1 + run.ranked[2]["Nc"]
    assert run.answers("D-2").html.count("<tr>") == 2 + len(run.ranked[2]["K"])
    with pytest.raises(UsageError, match="D-0 to D-19"):
        run.retrieved("D-99")


def test_the_mean_grade_counts_graded_rows_alone():
    rows = [{"K": 2, "R": 1.0, "grade": 5}, {"K": 2, "R": 1.0, "grade": None}]
    run = demo.Demo(False, "", {}, [], [], [*rows, {"K": 2, "R": 0.0, "grade": 1}])
    assert [line.split() for line in run.grades().text.splitlines()[1:]] == [
        ["2", "0", "1", "1", "1.0"],
        ["2", "1", "2", "1", "5.0"],
    ]


def test_the_stored_run_says_how_many_texts_were_cut():
    texts = {text for t in demo.read(demo.TEXTS) for text in (t["q"], *t["p"], *t["n"])}
    longest = max(len(text.encode()) for text in texts)
    assert longest + 2 <= 256  # a token is at least a byte, and two stand around a text
    told = demo.stored().provenance["texts cut by the embedding"]
    assert told == f"0 of {len(texts)} (0.0%), at 256 tokens"
    assert "texts cut by the embedding" in repr(demo.stored().which()) + demo.stored()._repr_html_()
