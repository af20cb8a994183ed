"""Small made datasets in the published format, for the tests of what is computed and drawn."""

import json
import random
from pathlib import Path
from typing import Any

from retrieval_quality.data.dataset import Dataset, open_path

EMBEDDINGS = ("AML12v2", "ME5S")


def records(
    subsets: tuple[str, ...] = ("A", "M", "N", "Hs-e", "Hp-h"),
    embeddings: tuple[str, ...] = EMBEDDINGS,
    n_texts: int = 6,
    positives: tuple[int, ...] = (2, 3),
    top: int = 6,
    seed: int = 1,
) -> dict[str, list[dict[str, Any]]]:
    """Rows of texts, ranked and graded samples; grades follow the positives found, with noise."""
    random_ = random.Random(seed)
    made: dict[str, list[dict[str, Any]]] = {"texts": [], "ranked": [], "graded": []}
    for subset in subsets:
        for number in range(n_texts):
            name = f"{subset}-{number}"
            made["texts"].append(
                {
                    "id": name,
                    "q": f"query of {name}",
                    "p": [f"positive {i} of {name}" for i in range(max(positives))],
                    "n": [f"negative {i} of {name}" for i in range(8)],
                }
            )
            for embedding in embeddings:
                for n_relevant in positives:
                    _add_ranking(made, name, embedding, n_relevant, n_relevant + 6, top, random_)
    return made


def _add_ranking(
    made: dict[str, list[dict[str, Any]]],
    name: str,
    embedding: str,
    n_relevant: int,
    n_candidates: int,
    top: int,
    random_: random.Random,
) -> None:
    order = list(range(n_candidates))
    order.sort(key=lambda i: random_.gauss(0 if i < n_relevant else 1, 1))
    found = [sum(i < n_relevant for i in order[:k]) for k in range(1, top + 1)]
    key = {"id": name, "E": embedding, "Nc": n_candidates, "Np": n_relevant}
    ks = list(range(1, top + 1))
    precision = [n / k for n, k in zip(found, ks, strict=True)]
    recall = [n / n_relevant for n in found]
    made["ranked"].append(key | {"K": ks, "P": precision, "R": recall, "rank": order})
    for k, n, p, r in zip(ks, found, precision, recall, strict=True):
        grade = min(5, max(1, round(1 + 3 * r + p + random_.gauss(0, 0.7))))
        made["graded"].append(
            key
            | {
                "K": k,
                "rank": order[:k],
                "inK": [int(i < n_relevant) for i in order[:k]],
                "answer_ideal": "ideal",
                "answer_topK": f"answer from {k}, {n} of them positive",
                "grade": grade,
                "P": p,
                "R": r,
            }
        )


def write(folder: Path, made: dict[str, list[dict[str, Any]]]) -> Dataset:
    """Write rows in the published format and load them through a cache of their own."""
    source = folder / "data"
    source.mkdir(parents=True)
    for part, rows in made.items():
        text = json.dumps(rows, ensure_ascii=False)
        (source / f"samples_{part}.json").write_text(text, encoding="utf-8")
    return open_path(source, cache=folder / "cache", progress=False)
