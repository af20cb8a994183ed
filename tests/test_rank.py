"""Rankings by embedding: order, ties, what is refused, and what is encoded how often."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval_quality.cli import cli
from retrieval_quality.data.schema import EMBEDDINGS
from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.pipeline import embed, files, rank
from retrieval_quality.pipeline.rank import cosines, ordered, whole_numbers
from retrieval_quality.pipeline.run import status, status_text


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


# settings that allow no row, rows of others, links


@pytest.mark.parametrize(
    ("sizes", "asked", "message"),
    [
        ([(2, 8)], {}, "largest possible number of candidates is 10: give --candidates 10"),
        ([(2, 8), (3, 5)], {}, "candidates is 10"),
        ([(3, 8)], {}, "candidates is 11"),
        ([(3, 8)], {"positives": 2}, "candidates is 10"),
        ([(5, 9)], {"positives": "all"}, "candidates is 14"),
        ([(2, 1)], {"candidates": "4-20"}, "candidates is 3"),
        ([(2, 30)], {"positives": "3,4"}, "largest possible number of positives is 2"),
        ([(4, 30), (2, 90)], {"positives": 5}, "number of positives is 4"),
        ([(2, 8)], {"candidates": "all", "positives": 3}, "number of positives is 2"),
        ([(3, 9)], {"candidates": 3, "positives": 3}, "N_c must be larger than its N_p"),
        ([(3, 9)], {"candidates": 5, "top_k": "6-9"}, "a K no larger than N_c"),
        ([(2, 0)], {}, "number of positives is 0"),
    ],
    ids=str,
)
def test_settings_that_allow_no_row_name_the_largest_that_do(tmp_path, sizes, asked, message):
    texts = [sample(f"X-{i}", f"query {i}", p, n) for i, (p, n) in enumerate(sizes)]
    path, stub = folder(tmp_path, *texts), Stub()
    with pytest.raises(DataError, match=message):
        rank.rank(path, [stub], **asked)
    assert stub.encoded == []
    assert {entry.name for entry in path.glob("[!.]*")} == {"samples_texts.json"}


def test_no_row_is_an_error_at_the_command_line_too(tmp_path):
    path = folder(tmp_path, sample(p=2, n=8))
    done = CliRunner().invoke(cli, ["pipeline", "rank", str(path), "--embedding", "AM"])
    assert isinstance(done.exception, DataError)
    assert done.exception.exit_code == 1


def test_the_number_that_is_named_works(tmp_path):
    path = folder(tmp_path, sample(p=3, n=8))
    with pytest.raises(DataError) as caught:
        rank.rank(path, [Stub()])
    named = re.search(r"--candidates (\d+)", str(caught.value))[1]
    rank.rank(path, [Stub()], candidates=named)
    assert [row["Nc"] for row in rows(path)] == [11]


def test_a_pair_without_any_k_makes_no_row(tmp_path):
    path = folder(tmp_path, sample(p=3, n=8))
    counts = rank.rank(path, [Stub()], candidates="4,9", positives=2, top_k="5-6")["counts"]
    assert [(row["Nc"], row["K"]) for row in rows(path)] == [(9, [5, 6])]
    assert counts["rows without any K, left out"] == 1


@pytest.mark.parametrize("positives", [1, "1", "1-3", [1, 2], 0, -2, "2,1", 1.0, True, "one"])
def test_one_positive_is_refused(tmp_path, positives):
    with pytest.raises(UsageError, match="positives"):
        rank.rank(folder(tmp_path, sample()), [Stub()], positives=positives)


FOREIGN = [{"id": "X-0", "E": "other", "Nc": 4, "Np": 2, "K": [1], "rank": [0, 1, 2, 3]}]


@pytest.mark.parametrize("how", ["no record", "another record", "changed since"])
def test_rows_that_were_not_made_here_are_never_replaced(tmp_path, how):
    path = folder(tmp_path, sample())
    if how != "no record":
        rank.rank(path, [Stub()], **ASKED)
    if how == "another record":
        (path / "rank.json").write_text('{"sha256": "0"}')
    else:
        (path / "samples_ranked.json").write_text(json.dumps(FOREIGN))
    before = {entry.name: entry.read_bytes() for entry in path.glob("*.json")}
    for code in ("stub", "new"):
        with pytest.raises(DataError, match="were not made here, or were changed since"):
            rank.rank(path, [Stub(code=code)], **ASKED)
    assert {entry.name: entry.read_bytes() for entry in path.glob("*.json")} == before


@pytest.mark.parametrize("name", ["samples_ranked.json", "rank.json"])
def test_a_link_is_written_through(tmp_path, name):
    path, real = folder(tmp_path, sample()), tmp_path / "disk" / name
    real.parent.mkdir()
    (path / name).symlink_to(real)
    for _ in range(2):
        rank.rank(path, [Stub()], **ASKED)
        rank.rank(path, [Stub()], candidates=6, positives=2, top_k=1)
    assert (path / name).is_symlink()
    assert json.loads(real.read_text(encoding="utf-8")) == json.loads((path / name).read_text())
    assert [entry.name for entry in real.parent.iterdir()] == [name]


@pytest.mark.parametrize("written", [False, True])
def test_a_run_killed_around_the_manifest_goes_on(tmp_path, monkeypatch, written):
    path = folder(tmp_path, sample())
    rank.rank(path, [Stub()], **ASKED)
    before = rows(path)

    def killed(where: Path, value: dict) -> None:
        if written:
            files.write_json(where, value)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(rank, "write_json", killed)
        with pytest.raises(KeyboardInterrupt):
            rank.rank(path, [Stub()], candidates=6, positives=2, top_k=1)
    assert rows(path) == before
    rank.rank(path, [Stub()], candidates=6, positives=2, top_k=1)
    assert [row["Nc"] for row in rows(path)] == [6]


def test_embeddings_that_go_with_the_old_texts_are_counted(tmp_path):
    path = folder(tmp_path, sample())
    rank.rank(path, [Stub(code="one"), Stub(code="two")], **ASKED)
    folder(tmp_path, sample(), sample("X-1", "other"))
    counts = rank.rank(path, [Stub(code="one")], **ASKED)["counts"]
    assert counts["embeddings left out, for the texts have changed: two"] == 1


# texts that a model cuts


class Short(Stub):
    """Reads ten characters of a text."""

    def described(self) -> dict:
        return {**super().described(), "max_tokens": 10}

    def cut(self, texts: Sequence[str]) -> list[bool]:
        return [len(text.split(": ", 1)[1]) > 10 for text in texts]


def long_and_short() -> dict:
    return {"id": "X-0", "q": "short", "p": ["a long text of words", "b"], "n": ["c", "d" * 11]}


def test_texts_cut_at_the_limit_are_counted_by_model_and_shown(tmp_path):
    path = folder(tmp_path, long_and_short())
    asked = {"candidates": 4, "positives": 2, "top_k": 1}
    told = rank.rank(path, [Short(), Stub(code="all")], **asked)
    assert told["texts"] == {
        "stub": {"texts": 5, "cut": 2, "share": 0.4, "limit": 10},
        "all": {"texts": 5, "cut": None, "share": None, "limit": None},
    }
    shown = status(path)
    assert shown["embeddings"]["stub"] == told["texts"]["stub"]
    text = status_text(shown)
    assert "  stub: 2 of 5 texts (40.0%) cut at 10 tokens; no prefixes" in text
    assert "  all: not known how many texts were cut; no prefixes" in text
    again = rank.rank(path, [Stub(code="other")], **asked)
    assert again["texts"]["stub"] == told["texts"]["stub"]


def test_only_texts_that_are_used_are_counted_and_each_once(tmp_path):
    twice = {**long_and_short(), "id": "X-1", "q": "shorter"}
    path = folder(tmp_path, long_and_short(), twice)
    told = rank.rank(path, [Short()], candidates="3,4", positives=2, top_k=1)
    assert told["texts"]["stub"] == {"texts": 6, "cut": 2, "share": 2 / 6, "limit": 10}
    told = rank.rank(path, [Short()], candidates=3, positives=2, top_k=1)
    assert told["texts"]["stub"] == {"texts": 5, "cut": 1, "share": 0.2, "limit": 10}


def test_vectors_from_before_texts_were_counted_are_measured_not_encoded_again(tmp_path):
    path, stub = folder(tmp_path, long_and_short()), Short()
    asked = {"candidates": 4, "positives": 2}
    rank.rank(path, [stub], **asked, top_k=1)
    base = sqlite3.connect(path / "vectors-stub.sqlite")
    base.execute("alter table vectors drop column cut")
    base.close()
    stub.encoded.clear()
    told = rank.rank(path, [stub], **asked, top_k=2)
    assert stub.encoded == []
    assert told["texts"]["stub"]["cut"] == 2


class Tokenizer:
    """Splits at blanks, and puts two tokens around a text."""

    def __call__(self, texts: list[str], *, truncation: bool, verbose: bool) -> dict:
        assert not truncation
        return {"input_ids": [[0, *range(len(text.split())), 1] for text in texts]}


@pytest.mark.usefixtures("fake_library")
@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("", False),
        ("a b c d e", False),  # five and two: as many as the model reads
        ("a b c d e f", True),
        ("word " * 5, False),
        ("word " * 6, True),
        ("word " * 500, True),
        ("x" * 500, False),
        ("é à ç ö ü ß", True),
        ("数 学 の 本 だ", False),
        ("数 学 の 本 だ よ", True),
    ],
)
def test_a_text_is_cut_where_it_has_more_tokens_than_the_model_reads(monkeypatch, text, cut):
    monkeypatch.setattr(FakeModel, "tokenizer", Tokenizer(), raising=False)
    assert embed.load("some/model").cut([text, "a"]) == [cut, False]


@pytest.mark.parametrize("dimensions", [384, 768, 1024])
def test_a_file_of_vectors_is_little_larger_than_their_numbers(tmp_path, dimensions):
    count = 6000
    made = np.random.default_rng(1).normal(size=(count, dimensions)).astype("<f4")
    keys = [hashlib.sha256(bytes(str(i), "ascii")).digest() for i in range(count)]
    path = tmp_path / "vectors.sqlite"
    with rank.Vectors(path, {}) as vectors:
        for i in range(0, count, 2000):
            vectors.add(keys[i : i + 2000], made[i : i + 2000], [False] * 2000)
        assert np.array_equal(vectors.read(keys[::-1]), made[::-1])
    assert path.stat().st_size < 1.2 * made.nbytes
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_file_of_vectors_of_the_old_kind_is_still_used(tmp_path):
    path, stub = folder(tmp_path, sample()), Stub()
    base = sqlite3.connect(path / "vectors-stub.sqlite")
    base.execute("create table model (described text)")
    told = json.dumps(stub.described(), sort_keys=True)
    base.execute("insert into model values (?)", [told])
    base.execute("create table vectors (hash blob primary key, vector blob) without rowid")
    key = hashlib.sha256(b"query: query").digest()
    vector = stub.encode(["query: query"], 1)[0].astype("<f4").tobytes()
    base.execute("insert into vectors values (?, ?)", [key, vector])
    base.commit()
    base.close()
    stub.encoded.clear()
    rank.rank(path, [stub], **ASKED)
    assert "query: query" not in stub.encoded
    assert len(stub.encoded) == 5
    other = folder(tmp_path / "other", sample())
    rank.rank(other, [Stub()], **ASKED)
    assert rows(path) == rows(other)


# prefixes: by what a model is


E5 = ("query: ", "passage: ")


@pytest.mark.parametrize(
    ("named", "prefixes"),
    [
        ("ES", E5),
        ("EM", E5),
        ("E5Sv2=/copies/one", E5),
        ("intfloat/e5-small-v2", E5),
        ("INTFLOAT/E5-small-v2", E5),
        ("mine=intfloat/e5-small-v2", E5),
        ("intfloat/multilingual-e5-small", E5),
        ("intfloat/multilingual-e5-large", E5),
        ("intfloat/e5-base", E5),
        ("/models/e5-small-v2", E5),
        ("X=/models/e5_small_v2/", E5),
        ("/hub/models--intfloat--e5-small-v2/snapshots/0a1b", E5),
        ("AM", ("", "")),
        ("sentence-transformers/all-MiniLM-L12-v2", ("", "")),
        ("intfloat/e5-mistral-7b-instruct", (None, None)),
        ("intfloat/multilingual-e5-large-instruct", (None, None)),
        ("BAAI/bge-m3", (None, None)),
        ("/models/e5-small-v2/other", (None, None)),
    ],
)
def test_prefixes_go_with_the_model_whatever_it_was_called(named, prefixes):
    asked = embed.parse(named)
    assert (asked.query_prefix, asked.passage_prefix) == prefixes


@pytest.mark.parametrize("code", list(EMBEDDINGS))
def test_one_of_the_papers_models_has_its_code_by_every_name(code):
    one = EMBEDDINGS[code]
    assert embed.parse(one.model) == embed.parse(one.label) == embed.parse(code)


def model_folder(path: Path, card: str = "", limit: int = 512, **config: object) -> Path:
    path.mkdir(parents=True)
    facts = {"num_hidden_layers": 12, "hidden_size": 384, "vocab_size": 30522, **config}
    (path / "config.json").write_text(json.dumps(facts), encoding="utf-8")
    (path / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": limit}))
    (path / "README.md").write_text(card, encoding="utf-8")
    return path


@pytest.fixture
def silent_library(fake_library, monkeypatch):
    monkeypatch.setattr(FakeModel, "prompts", {})
    monkeypatch.setattr(Module, "pooling_mode", "mean")


@pytest.mark.usefixtures("silent_library")
@pytest.mark.parametrize(
    ("card", "config", "prefixes"),
    [
        ("# e5-small-v2\n", {}, E5),
        ("---\nmodel-index:\n- name: e5-small-v2\n---\n", {}, E5),
        ("---\nbase_model: intfloat/e5-base\n---\n", {}, E5),
        ("This model was finetuned from [intfloat/e5-base](x).", {}, E5),
        ("", {"_name_or_path": "intfloat/e5-small-v2"}, E5),
        ("", {"_name_or_path": "/home/me/multilingual-e5-small"}, E5),
        ("", {"_name_or_path": "tmp/"}, ("", "")),
        ("# all-MiniLM-L6-v2\nIt was compared with e5-small-v2.", {}, ("", "")),
        ("", {"_name_or_path": 3}, ("", "")),
        ("\x00\xff", {}, ("", "")),
    ],
)
def test_a_folder_is_known_by_what_it_says(tmp_path, card, config, prefixes):
    path = model_folder(tmp_path / "model", card, **config)
    model = embed.load(f"X={path}")
    told = model.described()
    assert (told["query_prefix"], told["passage_prefix"]) == prefixes
    assert ("none known" in model.recorded["prefixes_from"]) == (prefixes != E5)


@pytest.mark.usefixtures("silent_library")
def test_prefixes_can_be_set_and_left_out_and_stand_in_the_record(tmp_path, monkeypatch):
    path = folder(tmp_path, sample())

    def numbers(self: object, texts: list[str], **_: object) -> np.ndarray:
        return np.array([[len(text), 1.0] for text in texts])

    monkeypatch.setattr(FakeModel, "encode", numbers, raising=False)
    own = {"query_prefix": "Q ", "passage_prefix": ""}
    for name, more, prefixes, came in (
        ("ES", {}, E5, "by the model's name"),
        ("a=intfloat/e5-base", {"prefixes": False}, ("", ""), "left out"),
        ("b=intfloat/e5-base", own, ("Q ", ""), "set by the caller"),
        ("c=intfloat/e5-base", {"query_prefix": "Q "}, ("Q ", "passage: "), "set by the caller"),
        ("d=some/model", {}, ("", ""), "none known; --query-prefix"),
    ):
        told = rank.rank(path, [name], **ASKED, **more)
        one = told["embeddings"][embed.parse(name).code]
        assert (one["query_prefix"], one["passage_prefix"]) == prefixes
        assert came in one["prefixes_from"]
    shown = status_text(status(path))
    assert "prefixes 'Q ' and 'passage: ' (set by the caller)" in shown
    assert "no prefixes (left out)" in shown
    with pytest.raises(UsageError, match="one embedding at a time"):
        rank.rank(path, ["AM", "ES"], query_prefix="x", **ASKED)
    with pytest.raises(UsageError, match="left out"):
        rank.rank(path, ["ES"], query_prefix="x", prefixes=False, **ASKED)


@pytest.mark.usefixtures("silent_library")
@pytest.mark.parametrize(
    ("code", "name", "more", "message"),
    [
        ("ES", "m", {"num_hidden_layers": 6}, "6 layers, not 12"),
        ("ES", "m", {"vocab_size": 250037}, "250037 words in its vocabulary, not 30522"),
        ("EM", "m", {}, "30522 words in its vocabulary, not 250037"),
        ("QM", "m", {}, "12 layers, not 6"),
        ("AM", "m", {"hidden_size": 768}, "768 numbers in a vector, not 384"),
        ("ES", "m", {"limit": 128}, "it reads 128 tokens, not 512"),
        ("AM", "e5-small-v2", {}, "it says that it is e5-small-v2"),
        ("AM", "m", {"card": "# e5-small-v2"}, "it says that it is e5-small-v2"),
        ("AM", "m", {"card": "# e5-base"}, "it says that it is e5-base"),
        ("ES", "all-MiniLM-L12-v2", {}, "it says that it is all-MiniLM-L12-v2"),
        ("ES", "m", {"_name_or_path": "x/all-MiniLM-L12-v2"}, "x/all-MiniLM-L12-v2"),
        ("AML12v2", "m", {"num_hidden_layers": 6}, r"AML12v2 is sentence-transformers/all-Mini"),
    ],
)
def test_a_wrong_folder_behind_a_code_is_noticed(tmp_path, code, name, more, message):
    path = model_folder(tmp_path / name, **more)
    with pytest.raises(DataError, match=message):
        embed.load(f"{code}={path}")


@pytest.mark.usefixtures("silent_library")
@pytest.mark.parametrize(
    ("code", "name", "more"),
    [
        ("ES", "m", {}),
        ("ES", "e5-small-v2", {"card": "# intfloat/e5-small-v2"}),
        ("EM", "m", {"vocab_size": 250037}),
        ("QM", "multi-qa-MiniLM-L6-cos-v1", {"num_hidden_layers": 6}),
        ("AM", "m", {"limit": 128}),
        ("AM", "m", {"limit": 512}),
        ("AM", "m", {"_name_or_path": "microsoft/MiniLM-L12-H384-uncased"}),
    ],
)
def test_the_right_folder_behind_a_code_is_taken(tmp_path, code, name, more):
    assert embed.load(f"{code}={model_folder(tmp_path / name, **more)}").code


@pytest.mark.parametrize(
    "raised",
    [
        OSError("no such file"),
        ValueError("unrecognised"),
        RuntimeError("size mismatch"),
        KeyError("modernbert2"),
        ImportError("needs einops"),
        AttributeError("x"),
        TypeError("y"),
        json.JSONDecodeError("bad", "", 0),
        AssertionError("Torch not compiled with CUDA enabled"),
        Exception("SafetensorError: header too large"),
    ],
    ids=repr,
)
@pytest.mark.usefixtures("fake_library")
def test_whatever_the_library_raises_is_one_sentence(monkeypatch, raised):
    def fails(self: object, name: str, device: str | None = None) -> None:
        raise raised

    monkeypatch.setattr(FakeModel, "__init__", fails)
    with pytest.raises(DataError, match="could not be loaded") as caught:
        embed.load("some/model")
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("silent_library")
def test_memory_that_runs_out_while_encoding_is_one_sentence(monkeypatch):
    def fails(self: object, texts: list[str], **_: object) -> None:
        raise RuntimeError("CUDA out of memory.\nTried to allocate")

    monkeypatch.setattr(FakeModel, "encode", fails, raising=False)
    with pytest.raises(DataError, match="--batch-size") as caught:
        embed.load("some/model").encode(["a"], 32)
    assert "\n" not in str(caught.value)


# what people ran into elsewhere


def test_nan_for_one_document_and_zeros_for_another(tmp_path):
    record = sample(p=2, n=3)
    path = folder(tmp_path, record)
    with pytest.raises(DataError, match=r"not finite for n\[1\] of X-0"):
        rank.rank(path, [Stub({"X-0 n1": [np.nan] * 8, "X-0 n2": [0] * 8})], **ASKED)
    assert not (path / "samples_ranked.json").exists()
    rank.rank(path, [Stub({"X-0 n1": [0] * 8}, code="zeros")], **ASKED)
    assert rows(path)[0]["rank"][-1] == 3
