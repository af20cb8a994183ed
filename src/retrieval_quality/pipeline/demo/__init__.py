"""The demonstration corpus, and a run of the pipeline on it: live where it can be, else stored.

Twenty questions over short documents about five invented places, written for this project and
under its licence; no model can know them. Each question has 2 to 6 documents that answer it; its
negatives are the documents on other matters of the same place.

``texts.json`` holds the texts. Beside it lies what a real run made of them: ``samples_ranked.json``
and ``samples_graded.json`` in the published form, and ``provenance.json``.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from retrieval_quality import markup
from retrieval_quality.errors import RetrievalQualityError, UsageError
from retrieval_quality.text import escape

FOLDER = Path(__file__).parent
TEXTS = FOLDER / "texts.json"

EMBEDDING = "RETRIEVAL_QUALITY_DEMO_EMBEDDING"
BASE_URL = "RETRIEVAL_QUALITY_DEMO_BASE_URL"
MODEL = "RETRIEVAL_QUALITY_DEMO_MODEL"
LIVE = (EMBEDDING, BASE_URL, MODEL)
"""Environment variables that make the run live: an embedding as `pipeline rank` takes it, the
address of an OpenAI-compatible server, and the name of its model."""

Record = dict[str, Any]


@dataclass(frozen=True)
class Shown:
    """A table or sentence to look at; texts in it are escaped."""

    html: str
    text: str

    def _repr_html_(self) -> str:
        return f'<div class="rq">{self.html}</div>'

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True, repr=False)
class Demo:
    """A run on the demonstration corpus.

    Attributes
    ----------
    live : bool
        Whether it was made just now.
    note : str
        Which run this is, and why.
    provenance : dict
        The models, settings and counts.
    texts, ranked, graded : list of dict
        Records in the published form.
    """

    live: bool
    note: str
    provenance: Record
    texts: list[Record]
    ranked: list[Record]
    graded: list[Record]

    def _repr_html_(self) -> str:
        return self.which()._repr_html_()

    def __repr__(self) -> str:
        return repr(self.which())

    def which(self) -> Shown:
        """Say which run is shown, and what it was made with."""
        frame = pd.DataFrame(
            [(key, str(value)) for key, value in self.provenance.items()],
            columns=["what", "value"],
        )
        kind = "Live run." if self.live else "Stored run."
        body = f"<p><strong>{kind}</strong> {escape(self.note)}</p>"
        return Shown(body + markup.table(frame, "provenance of the run"), f"{kind} {self.note}")

    def questions(self) -> Shown:
        """List the questions with their numbers of documents."""
        rows = [(t["id"], t["q"], len(t["p"]), len(t["n"])) for t in self.texts]
        return _table(rows, ["id", "question", "positives", "negatives"])

    def retrieved(self, name: str) -> Shown:
        """List the documents of a question as the embedding ranked them."""
        text, row = self._text(name), next(r for r in self.ranked if r["id"] == name)
        rows = [
            (
                place,
                "positive" if index < row["Np"] else "negative",
                text["p"][index] if index < row["Np"] else text["n"][index - row["Np"]],
            )
            for place, index in enumerate(row["rank"], start=1)
        ]
        return _table(rows, ["rank", "kind", "document"])

    def answers(self, name: str) -> Shown:
        """List the answers to a question from its first K documents, with their grades."""
        rows = [
            (f"first {g['K']}", g["P"], g["R"], _text_or_none(g["grade"]), g["answer_topK"] or "")
            for g in self.graded
            if g["id"] == name
        ]
        ideal = next((g["answer_ideal"] for g in self.graded if g["id"] == name), "")
        rows.append(("all positives", float("nan"), float("nan"), "ideal", ideal or ""))
        return _table(rows, ["documents", "P", "R", "grade", "answer"])

    def grades(self) -> Shown:
        """Give the mean grade by the number of documents and by what share of them was found."""
        frame = pd.DataFrame(self.graded, columns=["K", "R", "grade"])
        share = pd.cut(frame["R"], [-1, 0, 0.5, 0.999, 1], labels=["0", "to 1/2", "above", "1"])
        rows = [
            (k, found, len(part), int(part["grade"].notna().sum()), part["grade"].mean())
            for (k, found), part in frame.groupby(["K", share], observed=True)
        ]
        return _table(rows, ["K", "share of positives found", "rows", "graded", "mean grade"])

    def _text(self, name: str) -> Record:
        for text in self.texts:
            if text["id"] == name:
                return text
        raise UsageError(f"there is no question {name!r}: D-0 to D-{len(self.texts) - 1}")


def load() -> Demo:
    """Run the pipeline on the demonstration corpus if it can be, else give the stored run.

    It can be where the three environment variables in `LIVE` are set, the embedding loads and
    the server answers.

    Returns
    -------
    Demo
        `note` says which of the two it is, and why.
    """
    missing = [name for name in LIVE if not os.environ.get(name)]
    if missing:
        return stored(f"Set {', '.join(missing)} to run it here and now.")
    try:
        return live(*(os.environ[name] for name in LIVE))
    except RetrievalQualityError as error:
        return stored(f"It could not be run here and now: {error}")


def stored(note: str = "") -> Demo:
    """Give the run that comes with the package.

    Examples
    --------
    >>> demo = stored()
    >>> demo.live, len(demo.texts), len(demo.ranked)
    (False, 20, 20)
    """
    return Demo(False, note, read(FOLDER / "provenance.json"), read(TEXTS), *_results(FOLDER))


def live(embedding: str, base_url: str, model: str) -> Demo:
    """Run corpus, rank, answer and grade on the demonstration texts, in a folder that goes away.

    Raises
    ------
    RetrievalQualityError
        The embedding cannot be loaded, or the server does not answer.
    """
    from retrieval_quality.pipeline import answer, corpus, grade, rank
    from retrieval_quality.pipeline.settings import Settings

    settings = Settings(model, base_url=base_url, concurrency=2, progress=False)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        corpus.build("texts", [TEXTS], folder)
        ranking = rank.rank(folder, [embedding], candidates="all", positives="all", top_k=(2, 4))
        answer.answer(folder, settings, prompt="answer-small-v1")
        grade.grade(folder, settings, few_shot=True)
        (code, described), *_ = ranking["embeddings"].items()
        told = {
            "embedding": f"{code}: {described['model']}",
            "texts cut by the embedding": _cut(ranking["texts"][code]),
            "language model": model,
            **ranking["versions"],
        }
        return Demo(True, "Made just now.", told, read(TEXTS), *_results(folder))


def _cut(told: Record) -> str:
    """Say how many texts were longer than what the embedding reads.

    Examples
    --------
    >>> _cut({"texts": 40, "cut": 10, "share": 0.25, "limit": 128})
    '10 of 40 (25.0%), at 128 tokens'
    """
    if told["cut"] is None:
        return "not known"
    return f"{told['cut']} of {told['texts']} ({told['share']:.1%}), at {told['limit']} tokens"


def read(path: Path) -> Any:
    """Read a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def _results(folder: Path) -> tuple[list[Record], list[Record]]:
    return read(folder / "samples_ranked.json"), read(folder / "samples_graded.json")


def _text_or_none(grade: int | None) -> str:
    return "none" if grade is None else str(grade)


def _table(rows: list[tuple[Any, ...]], columns: list[str]) -> Shown:
    frame = pd.DataFrame(rows, columns=columns)
    return Shown(markup.table(frame, ", ".join(columns)), frame.to_string(index=False))
