"""The rows to answer and grade: which documents stand where, read from texts and rankings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retrieval_quality.errors import DataError
from retrieval_quality.pipeline.files import records

TEXTS = "samples_texts.json"
RANKED = "samples_ranked.json"

Record = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """One question with the documents that its answer is to be written from.

    Attributes
    ----------
    id, embedding : str
        The text sample and the code of the embedding that ranked it.
    n_candidates, n_positives : int
        N_c and N_p.
    rank : tuple of int
        The K documents shown, in order: below `n_positives` a positive, else a negative.
    control : str
        Empty for what was retrieved; else what was shown instead.
    """

    id: str
    embedding: str
    n_candidates: int
    n_positives: int
    rank: tuple[int, ...]
    control: str = ""

    @property
    def in_k(self) -> list[int]:
        """1 where the document is a positive, in order."""
        return [int(index < self.n_positives) for index in self.rank]

    def documents(self, text: Mapping[str, Any]) -> list[str]:
        """Return the texts of the documents, in order.

        Examples
        --------
        >>> row = Row("A-0", "E", 4, 2, (2, 1))
        >>> row.documents({"p": ["p0", "p1", "p2"], "n": ["n0", "n1"]})
        ['n0', 'p1']
        """
        n = self.n_positives
        return [text["p"][i] if i < n else text["n"][i - n] for i in self.rank]

    def published(self) -> Record:
        """Return the row in the published form, answers and grade still null."""
        found, top_k = sum(self.in_k), len(self.rank)
        named = {"id": self.id, "E": self.embedding, "Nc": self.n_candidates}
        shown = {"Np": self.n_positives, "K": top_k, "rank": list(self.rank), "inK": self.in_k}
        empty = dict.fromkeys(("answer_ideal", "answer_topK", "grade"))
        scores = {"P": found / top_k if top_k else None, "R": found / self.n_positives}
        control = {"control": self.control} if self.control else {}
        return {**named, **shown, **empty, **scores, **control}


def read_texts(folder: Path) -> dict[str, Record]:
    """Read ``samples_texts.json`` by id.

    Raises
    ------
    DataError
        The file is missing or broken; a sample lacks an id, a query or positives, or comes twice.
    """
    path = _existing(Path(folder) / TEXTS, "corpus")
    texts: dict[str, Record] = {}
    for where, record in records(path):
        name = record.get("id")
        if not isinstance(name, str) or name in texts:
            raise DataError(f"{where}: the id is missing or used twice ({name!r}).")
        if not isinstance(record.get("q"), str) or not record["q"].strip():
            raise DataError(f"{where}: {name} has no query.")
        for key in ("p", "n"):
            listed = record.get(key)
            if not isinstance(listed, list) or not all(isinstance(text, str) for text in listed):
                raise DataError(f"{where}: {name} needs a list of texts under {key!r}.")
        if not record["p"]:
            raise DataError(f"{where}: {name} has no positives; leave it out.")
        texts[name] = record
    return texts


def read_ranked(folder: Path, texts: Mapping[str, Record]) -> Iterator[tuple[Row, list[int]]]:
    """Yield each ranking, complete, with the numbers of documents to retrieve from it.

    Parameters
    ----------
    folder : Path
    texts : mapping
        From `read_texts`; each ranking must fit its sample.

    Yields
    ------
    Row, list of int
        A row with all N_c candidates in order, and K.

    Raises
    ------
    DataError
        A ranking without its text sample, or N_c, N_p, K or rank that cannot be.
    """
    for where, record in records(_existing(Path(folder) / RANKED, "rank")):
        missing = [key for key in ("id", "E", "Nc", "Np", "K", "rank") if key not in record]
        if missing:
            raise DataError(f"{where}: {', '.join(missing)} missing.")
        text = texts.get(record["id"])
        if text is None:
            raise DataError(f"{where}: {record['id']!r} is not in {TEXTS}; rank the folder again.")
        n, n_positives, top_k, rank = record["Nc"], record["Np"], record["K"], record["rank"]
        if not 1 <= n_positives <= len(text["p"]) or n - n_positives > len(text["n"]):
            raise DataError(f"{where}: {record['id']} has no {n_positives} + {n - n_positives}.")
        if sorted(rank) != list(range(n)):
            raise DataError(f"{where}: rank is no order of the {n} candidates of {record['id']}.")
        if not top_k or min(top_k) < 1 or max(top_k) > n:
            raise DataError(f"{where}: K of {record['id']} must lie between 1 and Nc = {n}.")
        yield Row(record["id"], record["E"], n, n_positives, tuple(rank)), list(top_k)


def _existing(path: Path, command: str) -> Path:
    if not path.is_file():
        raise DataError(f"There is no {path}: make it by `pipeline {command}`.")
    return path
