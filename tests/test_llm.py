"""Answers and grades by a real language model behind a server: `make test-llm`.

``LLM_BASE_URL`` and ``LLM_MODEL`` name an OpenAI-compatible server and what it calls its model.
"""

from __future__ import annotations

import json
import os

import pytest

from retrieval_quality.data import schema
from retrieval_quality.data.dataset import open_path
from retrieval_quality.data.validate import validate
from retrieval_quality.pipeline import demo
from retrieval_quality.pipeline.answer import answer
from retrieval_quality.pipeline.grade import grade
from retrieval_quality.pipeline.settings import Settings

pytestmark = [
    pytest.mark.llm,
    pytest.mark.enable_socket,
    pytest.mark.skipif("LLM_BASE_URL" not in os.environ, reason="LLM_BASE_URL is not set"),
]

N_TEXTS = 2


def test_a_real_model_answers_and_grades(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    texts = json.loads(demo.TEXTS.read_text(encoding="utf-8"))[:N_TEXTS]
    stored = json.loads((demo.TEXTS.parent / "samples_ranked.json").read_text(encoding="utf-8"))
    ids = {text["id"] for text in texts}
    ranked = [row for row in stored if row["id"] in ids]
    for part, rows in (("texts", texts), ("ranked", ranked)):
        (folder / f"samples_{part}.json").write_text(json.dumps(rows), encoding="utf-8")
    settings = Settings(
        model=os.environ.get("LLM_MODEL", "local"),
        base_url=os.environ["LLM_BASE_URL"],
        concurrency=1,
        progress=False,
    )
    answer(folder, settings, prompt="answer-small-v1")
    grade(folder, settings, few_shot=True)
    dataset = open_path(folder, cache=tmp_path / "cache", progress=False)
    assert validate(dataset).ok
    graded = dataset.read("graded")
    assert len(graded) == sum(len(row["K"]) for row in ranked)
    assert graded["answer_topK"].str.len().gt(0).all()
    assert graded["grade"].isin(schema.GRADES).all()
