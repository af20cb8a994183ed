"""Rankings by embedding: order, ties, what is refused, and what is encoded how often."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.pipeline import embed, rank
from retrieval_quality.pipeline.rank import cosines, ordered, whole_numbers


class Stub:
    """An embedder whose vectors follow from the text, or from a table; counts what it encodes."""

    def __init__(self, table: dict[str, Sequence[float]] | None = None, code: str = "stub") -> None:
        self.code = code
        self.table = table or {}
        self.encoded: list[str] = []
        self.noise = 0.0
        self.version = 1

    def described(self) -> dict:
        return {"model": "stub", "version": self.version}

    def worded(self, text: str, kind: str) -> str:
        return f"{kind}: {text}"

    def encode(self, texts: Sequence[str], batch_size: int) -> np.ndarray:
        self.encoded += texts
        rows = []
        for text in texts:
            bare = text.split(": ", 1)[1]
            seed = int.from_bytes(hashlib.sha256(bare.encode()).digest()[:8], "big")
            drawn = np.random.default_rng(seed).normal(size=8)
            rows.append(np.asarray(self.table.get(bare, drawn), dtype=np.float32))
        # what batching does to real vectors: a change in the last digits, by the company
        return np.array(rows) + np.float32(self.noise * len(texts)) * np.arange(len(rows[0]))


def folder(tmp_path: Path, *samples: dict) -> Path:
    path = tmp_path / "run"
    path.mkdir(parents=True, exist_ok=True)
    (path / "samples_texts.json").write_text(json.dumps(list(samples)), encoding="utf-8")
    return path


def sample(name: str = "X-0", q: str = "query", p: int = 3, n: int = 7) -> dict:
    return {
        "id": name,
        "q": q,
        "p": [f"{name} p{i}" for i in range(p)],
        "n": [f"{name} n{i}" for i in range(n)],
    }


def rows(path: Path) -> list[dict]:
    return json.loads((path / "samples_ranked.json").read_text(encoding="utf-8"))


ASKED = {"candidates": 5, "positives": 2, "top_k": "1-3"}


def test_rank_precision_and_recall_by_hand(tmp_path):
    angles = {"p0": 10, "p1": 50, "n0": 30, "n1": 20, "n2": 60}
    table = {
        f"X-0 {name}": [np.cos(np.radians(a)), np.sin(np.radians(a))] for name, a in angles.items()
    }
    path = folder(tmp_path, sample(p=2, n=3))
    rank.rank(path, [Stub({"query": [3, 0], **table})], candidates=5, positives=2, top_k="1-5")
    assert rows(path) == [
        {
            "id": "X-0",
            "E": "stub",
            "Nc": 5,
            "Np": 2,
            "K": [1, 2, 3, 4, 5],
            "P": [1.0, 0.5, 1 / 3, 0.5, 0.4],
            "R": [0.5, 0.5, 0.5, 1.0, 1.0],
            "rank": [0, 3, 2, 1, 4],
        }
    ]


def test_candidates_are_the_first_of_p_and_of_n(tmp_path):
    path = folder(tmp_path, sample(p=3, n=7))
    stub = Stub()
    rank.rank(path, [stub], candidates="4,6", positives="2,3", top_k="1-2")
    made = {(row["Nc"], row["Np"]): row["rank"] for row in rows(path)}
    assert set(made) == {(4, 2), (6, 2), (4, 3), (6, 3)}
    record = sample(p=3, n=7)
    query = stub.encode(["query: query"], 1)[0]
    for (nc, np_), order in made.items():
        texts = record["p"][:np_] + record["n"][: nc - np_]
        vectors = stub.encode([f"passage: {t}" for t in texts], 1)
        expected = np.argsort(-cosines(query, vectors), kind="stable")
        assert order == expected.tolist()


def test_rows_hold_the_relations_of_the_published_format(tmp_path):
    path = folder(tmp_path, *(sample(f"X-{i}", f"query {i}", p=2 + i % 4) for i in range(12)))
    rank.rank(path, [Stub()], candidates="3-9", positives="2-6", top_k="1-15")
    made = rows(path)
    assert len({(r["id"], r["E"], r["Nc"], r["Np"]) for r in made}) == len(made) > 100
    for row in made:
        assert sorted(row["rank"]) == list(range(row["Nc"]))
        assert 2 <= row["Np"] < row["Nc"]
        assert row["K"] == list(range(1, min(15, row["Nc"]) + 1))
        hits = np.cumsum([i < row["Np"] for i in row["rank"]])
        assert row["P"] == [hits[k - 1] / k for k in row["K"]]
        assert row["R"] == [hits[k - 1] / row["Np"] for k in row["K"]]


def test_all_takes_as_many_as_a_sample_has(tmp_path):
    path = folder(tmp_path, sample("X-0", p=2, n=5), sample("X-1", p=6, n=3))
    rank.rank(path, [Stub()], candidates="all", positives="all", top_k=1)
    assert [(r["Nc"], r["Np"]) for r in rows(path)] == [(7, 2), (9, 6)]


def test_samples_with_too_few_texts_are_counted_not_dropped_unseen(tmp_path):
    path = folder(tmp_path, sample("X-0", p=2, n=2), sample("X-1", p=3, n=7))
    counts = rank.rank(path, [Stub()], candidates=8, positives="3", top_k="7-9")["counts"]
    assert [(r["id"], r["K"]) for r in rows(path)] == [("X-1", [7, 8])]
    assert counts["samples with too few texts for every setting"] == 1
    assert counts["numbers K above N_c, left out"] == 1


def test_each_distinct_text_is_encoded_once(tmp_path):
    first, second = sample("X-0", "one"), sample("X-1", "two")
    second["n"] = first["n"]
    path, stub = folder(tmp_path, first, second), Stub()
    rank.rank(path, [stub], candidates="5,9", positives="2,3", top_k=1)
    assert len(stub.encoded) == len(set(stub.encoded)) == 2 + 3 + 3 + 7
    stub.encoded.clear()
    rank.rank(path, [stub], candidates="4-10", positives="2,3", top_k="1-3")
    assert stub.encoded == []
    assert len(rows(path)) == 2 * 13


def test_only_what_a_setting_needs_is_encoded(tmp_path):
    path, stub = folder(tmp_path, sample(p=3, n=7)), Stub()
    rank.rank(path, [stub], candidates=4, positives=2, top_k=1)
    assert stub.encoded == [
        "query: query",
        "passage: X-0 p0",
        "passage: X-0 p1",
        "passage: X-0 n0",
        "passage: X-0 n1",
    ]


def test_a_query_and_a_passage_of_the_same_words_are_two_texts(tmp_path):
    record = sample(q="X-0 p0")
    path, stub = folder(tmp_path, record), Stub()
    rank.rank(path, [stub], **ASKED)
    assert {"query: X-0 p0", "passage: X-0 p0"} <= set(stub.encoded)


def test_a_repeated_request_does_nothing_and_a_changed_corpus_ranks_anew(tmp_path):
    path = folder(tmp_path, sample())
    first = rank.rank(path, [Stub()], **ASKED)
    before = (path / "samples_ranked.json").stat().st_mtime_ns
    assert rank.rank(path, [Stub()], **ASKED) == first
    assert (path / "samples_ranked.json").stat().st_mtime_ns == before
    folder(tmp_path, sample(), sample("X-1"))
    rank.rank(path, [Stub()], **ASKED)
    assert len(rows(path)) == 2


def test_another_embedding_keeps_the_rows_that_are_there(tmp_path):
    path = folder(tmp_path, sample())
    rank.rank(path, [Stub(code="one")], **ASKED)
    one = rows(path)
    told = rank.rank(path, [Stub(code="two")], **ASKED)
    assert [r["E"] for r in rows(path)] == ["one", "two"]
    assert rows(path)[0] == one[0]
    assert set(told["embeddings"]) == {"one", "two"}


def test_order_does_not_depend_on_batches_or_on_the_company_of_a_text(tmp_path, monkeypatch):
    samples = [sample(f"X-{i}", f"query {i}", p=4, n=16) for i in range(30)]
    made, held = [], []
    for name, listed, chunk in (("a", samples, 2048), ("b", samples[::-1], 50)):
        monkeypatch.setattr(rank, "CHUNK", chunk)
        path, stub = folder(tmp_path / name, *listed), Stub()
        stub.noise = 1e-10  # 1e-8 to 4e-7 in a vector, as batches change real ones
        rank.rank(path, [stub], candidates=20, positives=4, top_k=1, batch_size=7)
        made.append({r["id"]: r["rank"] for r in rows(path)})
        base = sqlite3.connect(path / "vectors-stub.sqlite")
        held.append(dict(base.execute("select hash, vector from vectors")))
    assert held[0].keys() == held[1].keys()
    assert held[0] != held[1]
    assert made[0] == made[1]


# ties, zeros, NaN


def test_ties_do_not_favour_positives(tmp_path):
    samples = [sample(f"X-{i}", f"query {i}", p=5, n=5) for i in range(200)]
    same = {s["q"]: [1, 0] for s in samples}
    same |= {text: [1, 1] for s in samples for text in s["p"] + s["n"]}
    path = folder(tmp_path, *samples)
    rank.rank(path, [Stub(same)], candidates=10, positives=5, top_k=1)
    first = np.mean([row["P"][0] for row in rows(path)])
    assert 0.36 < first < 0.64  # 0.5 and four standard errors; by index it would be 1
    assert len({tuple(row["rank"]) for row in rows(path)}) > 190


def test_ties_are_broken_alike_whichever_texts_are_positives(tmp_path):
    record = sample(p=4, n=4)
    turned = {**record, "p": record["n"], "n": record["p"]}
    same = {"query": [1, 0]} | {text: [1, 1] for text in record["p"] + record["n"]}
    orders = []
    for name, one in (("a", record), ("b", turned)):
        path = folder(tmp_path / name, one)
        rank.rank(path, [Stub(same)], candidates=8, positives=4, top_k=1)
        texts = one["p"] + one["n"]
        orders.append([texts[i] for i in rows(path)[0]["rank"]])
    assert orders[0] == orders[1]


def test_a_zero_vector_ranks_last_even_behind_the_opposite_of_the_query(tmp_path):
    table = {"query": [1, 0], "X-0 p0": [0, 0], "X-0 p1": [-1, 0], "X-0 n0": [0, 1]}
    path = folder(tmp_path, sample(p=2, n=1))
    counts = rank.rank(path, [Stub(table)], candidates=3, positives=2, top_k=1)["counts"]
    assert rows(path)[0]["rank"] == [2, 1, 0]
    assert counts["zero vectors, ranked last"] == 1


def test_a_zero_query_is_refused_by_id(tmp_path):
    table = {"query": [0, 0]} | {f"X-0 {kind}{i}": [1, i] for kind in "pn" for i in range(7)}
    with pytest.raises(DataError, match=r"query of X-0 got a zero vector"):
        rank.rank(folder(tmp_path, sample()), [Stub(table)], **ASKED)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_vector_that_is_not_finite_is_refused_by_document(tmp_path, bad):
    path = folder(tmp_path, sample("X-0"), sample("X-1"))
    with pytest.raises(DataError, match=r"not finite for n\[1\] of X-1"):
        rank.rank(path, [Stub({"X-1 n1": [bad] * 8})], **ASKED)
    assert not (path / "samples_ranked.json").exists()
    assert not (path / "rank.json").exists()
    held = sqlite3.connect(path / "vectors-stub.sqlite").execute("select count(*) from vectors")
    assert held.fetchone() == (0,)


@given(
    st.lists(
        st.lists(st.floats(-1e3, 1e3, width=32), min_size=3, max_size=3), min_size=1, max_size=9
    )
)
@settings(max_examples=60, deadline=None)
def test_cosines_are_bounded_and_never_nan(vectors):
    values = cosines(np.array([1.0, -2.0, 0.5]), np.array(vectors))
    assert not np.isnan(values).any()
    assert ((values == -np.inf) | (np.abs(values) <= 1)).all()
    order = ordered(values, [bytes([i]) for i in range(len(values))])
    assert sorted(order) == list(range(len(values)))
    assert (np.diff(values[order][np.isfinite(values[order])]) <= 0).all()


# what is refused


@pytest.mark.parametrize("blank", ["", "   ", "\u200b"])
def test_a_blank_text_is_refused_by_id(tmp_path, blank):
    record = sample()
    record["n"][1] = blank
    with pytest.raises(DataError, match=r"n\[1\] of X-0 is blank"):
        rank.rank(folder(tmp_path, record), [Stub()], **ASKED)


@pytest.mark.parametrize("broken", [{"id": 3}, {"p": "text"}, {"n": [1]}, {"q": None}])
def test_a_record_that_is_no_text_sample_is_refused(tmp_path, broken):
    with pytest.raises(DataError, match=r"samples_texts\.json, record 2"):
        rank.rank(folder(tmp_path, sample(), {**sample("X-1"), **broken}), [Stub()], **ASKED)


def test_vectors_of_another_model_are_not_used(tmp_path):
    path, stub = folder(tmp_path, sample()), Stub()
    rank.rank(path, [stub], **ASKED)
    stub.version = 2
    with pytest.raises(DataError, match="vectors of another model"):
        rank.rank(path, [stub], candidates=4, positives=2, top_k=1)


def test_a_damaged_store_of_vectors_is_named(tmp_path):
    path = folder(tmp_path, sample())
    (path / "vectors-stub.sqlite").write_bytes(b"not a database" * 100)
    with pytest.raises(DataError, match=r"vectors-stub\.sqlite: file is not a database"):
        rank.rank(path, [Stub()], **ASKED)


def test_a_killed_run_goes_on_where_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(rank, "CHUNK", 10)
    path = folder(tmp_path, *(sample(f"X-{i}", f"query {i}") for i in range(6)))
    stub = Stub()
    whole, calls = stub.encode, []

    def killed(texts: Sequence[str], batch_size: int) -> np.ndarray:
        if len(calls) == 2:
            raise KeyboardInterrupt
        calls.append(len(texts))
        return whole(texts, batch_size)

    stub.encode = killed
    with pytest.raises(KeyboardInterrupt):
        rank.rank(path, [stub], **ASKED)
    done = list(stub.encoded)
    stub.encode = whole
    rank.rank(path, [stub], **ASKED)
    assert len(stub.encoded) == len(set(stub.encoded))
    assert len(done) == sum(calls) > 0
    other = folder(tmp_path / "undisturbed", *(sample(f"X-{i}", f"query {i}") for i in range(6)))
    rank.rank(other, [Stub()], **ASKED)
    assert rows(path) == rows(other)


def test_requests_that_make_no_sense(tmp_path):
    path = folder(tmp_path, sample())
    with pytest.raises(UsageError, match="each code once"):
        rank.rank(path, [Stub(), Stub()], **ASKED)
    with pytest.raises(UsageError, match="at least one embedding"):
        rank.rank(path, [], **ASKED)
    with pytest.raises(UsageError, match="batch size"):
        rank.rank(path, [Stub()], batch_size=0, **ASKED)
    with pytest.raises(DataError, match="pipeline corpus"):
        rank.rank(tmp_path, [Stub()], **ASKED)


@pytest.mark.parametrize("text", ["", "0", "x", "3-1", "1,,2", "-2", "1.5", "１", "all", [0], []])
def test_numbers_that_are_none(text):
    with pytest.raises(UsageError):
        whole_numbers(text, "top-k")


def test_numbers():
    assert whole_numbers(" 3, 1-2 ", "top-k") == (1, 2, 3)
    assert whole_numbers(20, "candidates") == (20,)
    assert whole_numbers("all", "positives", all_allowed=True) == "all"


# the models


def test_the_papers_models_by_code_and_label():
    for label, code in {"AM": "AML12v2", "EM": "ME5S", "ES": "E5Sv2", "QM": "MQML6Cv1"}.items():
        assert embed.parse(label) == embed.parse(code)
        assert embed.parse(label).code == code
        assert embed.parse(label).pooling == "mean"
    assert embed.parse("EM").passage_prefix == "passage: "
    assert embed.parse("AM").query_prefix == ""
    assert embed.parse("QM").model == "sentence-transformers/multi-qa-MiniLM-L6-cos-v1"


@pytest.mark.parametrize("text", ["", "=x", "x=", "a b=model", "../=model", "///"])
def test_embeddings_that_name_nothing(text):
    with pytest.raises(UsageError):
        embed.parse(text)


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(UsageError, match=r"retrieval-quality\[models\].*CPU build"):
        embed.load("AM")


class Module:
    pooling_mode = "cls"


class FakeModel(list):
    """Stands for sentence_transformers.SentenceTransformer."""

    prompts: dict[str, str] = {"query": "Q> ", "document": "D> "}  # noqa: RUF012
    max_seq_length = 7

    def __init__(self, name: str, device: str | None = None) -> None:
        if name == "no/such":
            raise OSError("We couldn't connect\nto a host with a long traceback")
        super().__init__([Module()])


@pytest.fixture
def fake_library(monkeypatch):
    module = type(sys)("sentence_transformers")
    module.SentenceTransformer = FakeModel
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)


@pytest.mark.usefixtures("fake_library")
def test_a_model_that_cannot_be_loaded_is_one_sentence():
    with pytest.raises(DataError, match="give the folder") as caught:
        embed.load("X=no/such")
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("fake_library")
def test_a_model_that_pools_otherwise_than_its_card_says_is_refused():
    with pytest.raises(DataError, match="pooled by 'mean'"):
        embed.load("AM=some/copy")


@pytest.mark.usefixtures("fake_library")
def test_prefixes_a_model_declares_are_used_unless_turned_off():
    model = embed.load("some/model")
    assert (model.worded("a", "query"), model.worded("a", "passage")) == ("Q> a", "D> a")
    bare = embed.load("some/model", prefixes=False)
    assert (bare.worded("a", "query"), bare.worded("a", "passage")) == ("a", "a")
    assert model.described() != bare.described()
