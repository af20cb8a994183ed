"""Text samples, each a query with texts that answer it and that do not, made from a source."""

from __future__ import annotations

import heapq
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.pipeline.files import (
    Record,
    read_json,
    records,
    sha256_of,
    write_json,
    write_records,
)
from retrieval_quality.pipeline.readers import (
    MAX_NEGATIVES,
    MAX_POSITIVES,
    SOURCES,
    Drops,
    Query,
    draw,
    visible,
)

Manifest = dict[str, Any]

TEXTS = "samples_texts.json"
MANIFEST = "corpus.json"
_FRESH = "samples_texts.new.json"  # complete, but its manifest may not have been written yet
RULES_VERSION = 1
"""Raised when the same input and seed would give other texts."""


def build(
    source: str,
    inputs: Sequence[Path],
    out: Path,
    *,
    limit: int | None = None,
    seed: int = 1,
    append: bool = False,
) -> Manifest:
    """Make text samples of a source: ``samples_texts.json`` and its manifest ``corpus.json``.

    The same inputs, limit and seed give the same bytes. Queries are kept in the order of the
    input; a limit keeps those with the smallest draw of the seed. Building again what a folder
    already holds changes nothing.

    Parameters
    ----------
    source : str
        ``arxiv``, ``hotpotqa-paragraphs``, ``hotpotqa-sentences``, ``msmarco``, ``nq``, or
        ``texts`` for one's own (records with ``q``, ``p`` and ``n``).
    inputs : sequence of Path
        Files of the source, see `retrieval_quality.pipeline.files.records`.
    out : Path
        Folder of the pipeline; made if need be.
    limit : int, optional
        At most so many queries; all by default.
    seed : int
        Decides which queries a limit keeps and in what order the texts of a query stand.
    append : bool
        Add to the samples that the folder already holds.

    Returns
    -------
    dict
        The manifest: for each source its input files with their SHA-256, licence, seed, limit,
        counts, and drops by reason.

    Raises
    ------
    UsageError
        The source is not known, the limit is below 1, or the folder holds another corpus and
        `append` is not set.
    DataError
        An input is missing or not of that source; the message names file and record.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mine = Path(folder, "mine.json")
    ...     _ = mine.write_text('[{"q": "Why?", "p": ["So.", "Thus."], "n": ["No.", "So."]}]')
    ...     manifest = build("texts", [mine], Path(folder, "run"))
    >>> manifest["queries"], manifest["sources"][0]["drops"]["queries"]
    (0, {'fewer than two positives': 1})
    """
    if source not in SOURCES:
        raise UsageError(f"Source '{source}' is not known; choose one of {', '.join(SOURCES)}.")
    if limit is not None and limit < 1:
        raise UsageError(f"The limit must be at least 1, not {limit}.")
    if not inputs:
        raise UsageError("No input file was given.")
    paths = [Path(path) for path in inputs]
    request = _request(source, paths, limit, seed)
    held, manifest = _held(out)
    if any(all(entry[key] == request[key] for key in request) for entry in manifest["sources"]):
        if append or len(manifest["sources"]) == 1:
            return manifest
    elif held and not append:
        raise UsageError(f"{out} holds another corpus: --append adds to it; or choose another.")
    drops = Drops()
    samples = _numbered(_chosen(source, paths, limit, seed, held, drops), held)
    out.mkdir(parents=True, exist_ok=True)
    manifest["queries"] = write_records(out / _FRESH, [*held, *samples])
    manifest["sources"].append({**request, **_counts(samples, drops)})
    manifest["sha256"] = sha256_of(out / _FRESH)
    write_json(out / MANIFEST, manifest)
    os.replace(out / _FRESH, out / TEXTS)
    return manifest


def _request(source: str, paths: list[Path], limit: int | None, seed: int) -> Record:
    """Return all that determines what a source gives."""
    for path in paths:
        if not path.is_file():
            raise DataError(f"The input {path} is not a file.")
    return {
        "source": source,
        "inputs": [
            {"name": path.name, "bytes": path.stat().st_size, "sha256": sha256_of(path)}
            for path in paths
        ],
        "licence": SOURCES[source].licence,
        "rule": SOURCES[source].rule,
        "rules_version": RULES_VERSION,
        "limit": limit,
        "seed": seed,
    }


def _held(out: Path) -> tuple[list[Record], Manifest]:
    """Return the samples and the manifest of a folder; nothing and a new one if it has none."""
    texts, manifest = out / TEXTS, out / MANIFEST
    told = read_json(manifest) if manifest.exists() else {"queries": 0, "sha256": "", "sources": []}
    fresh = out / _FRESH
    if fresh.exists() and sha256_of(fresh) == told["sha256"]:
        os.replace(fresh, texts)  # a run was killed just before this
    if not texts.exists() and not told["sources"]:
        return [], told
    if not texts.exists() or sha256_of(texts) != told["sha256"]:
        raise DataError(
            f"{texts} is not the file that {MANIFEST} describes; choose another folder, "
            "or remove both and build again."
        )
    return [record for _, record in records(texts)] if told["queries"] else [], told


def _chosen(
    source: str, paths: list[Path], limit: int | None, seed: int, held: list[Record], drops: Drops
) -> list[Query]:
    """Return the queries that stand, in the order of the input."""
    shuffled = SOURCES[source].shuffled
    queries = SOURCES[source].read(paths, seed, drops)
    standing = enumerate(_standing(queries, held, seed, shuffled, drops))
    if limit is None:
        return [query for _, query in standing]
    kept = heapq.nsmallest(limit, standing, key=lambda item: draw(seed, "limit", item[1].key))
    drops.queries["beyond the limit"] += drops.standing - len(kept)
    return [query for _, query in sorted(kept, key=lambda item: item[0])]


def _standing(
    queries: Iterator[Query], held: list[Record], seed: int, shuffled: bool, drops: Drops
) -> Iterator[Query]:
    """Yield the queries that have what a sample needs, cleaned; count the others by reason."""
    in_folder = {(record["id"].rpartition("-")[0], visible(record["q"])) for record in held}
    seen: set[tuple[str, bytes]] = set()
    for query in queries:
        query.text = query.text.strip()
        asked = (query.subset, draw(0, visible(query.text)))
        if reason := _unusable(query.text):
            drops.queries[reason] += 1
        elif (query.subset, visible(query.text)) in in_folder:
            drops.queries["already in the folder"] += 1
        elif asked in seen:
            drops.queries["duplicate query"] += 1
        else:
            clean(query, drops, seed, shuffled=shuffled)
            if len(query.positives) < 2:
                drops.queries["fewer than two positives"] += 1
            elif not query.negatives:
                drops.queries["no negatives"] += 1
            else:
                seen.add(asked)
                drops.standing += 1
                yield query


def _unusable(text: str) -> str:
    """Return why a query cannot be asked, nothing if it can."""
    letters = sum(c.isalnum() for c in visible(text))
    if not visible(text):
        return "blank query"
    if letters < 3:
        return "query of fewer than three letters or digits"
    return "" if _is_unicode(text) else "query is not valid Unicode"


def _is_unicode(text: str) -> bool:
    """Return whether a text has no half of a surrogate pair: it could not be written."""
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in set(text))


def clean(query: Query, drops: Drops, seed: int, *, shuffled: bool = True) -> None:
    r"""Remove what cannot stand from a query's texts, order them, and count it by reason.

    Texts are compared without invisible characters and with blanks joined. A text that is both
    positive and negative contradicts itself and is removed from both.

    Parameters
    ----------
    query : Query
        Changed in place; afterwards `easy` is empty and at the end of `negatives`.
    drops : Drops
        Where the texts left out are counted.
    seed : int
        Decides the order.
    shuffled : bool
        Whether the order is drawn, or stays.

    Examples
    --------
    >>> query = Query("1", "T", "Why?", ["a", "a ", "b", "\u200b"], ["c", "b", "d"])
    >>> drops = Drops()
    >>> clean(query, drops, 1, shuffled=False)
    >>> query.positives, query.negatives, dict(+drops.texts)
    (['a'], ['c', 'd'], {'duplicate': 1, 'blank': 1, 'both positive and negative': 2})
    """
    groups = [_distinct(texts, drops) for texts in (query.positives, query.negatives, query.easy)]
    positives, negatives, easy = groups
    again = negatives.keys() & easy.keys()
    drops.texts["duplicate"] += len(again)
    both = positives.keys() & (negatives.keys() | easy.keys())
    drops.texts["both positive and negative"] += 2 * len(both)
    for group in groups:
        for told in both | (again if group is easy else set()):
            group.pop(told, None)
    ordered = [list(group.values()) for group in groups]
    if shuffled:
        for texts in ordered:
            texts.sort(key=lambda text: draw(seed, query.key, text))
    query.positives, query.negatives, query.easy = ordered[0], ordered[1] + ordered[2], []
    if shuffled:
        extra = max(0, len(query.positives) - MAX_POSITIVES)
        extra += max(0, len(query.negatives) - MAX_NEGATIVES)
        drops.texts["beyond the most that a sample keeps"] += extra
        del query.positives[MAX_POSITIVES:], query.negatives[MAX_NEGATIVES:]


def _distinct(texts: list[str], drops: Drops) -> dict[str, str]:
    """Return the texts by how they are compared: no blank ones, none twice."""
    kept: dict[str, str] = {}
    for text in texts:
        told = visible(text)
        if not told:
            drops.texts["blank"] += 1
        elif not _is_unicode(text):
            drops.texts["not valid Unicode"] += 1
        elif told in kept:
            drops.texts["duplicate"] += 1
        else:
            kept[told] = text.strip()
    return kept


def _numbered(queries: list[Query], held: list[Record]) -> list[Record]:
    """Return published records; numbers go on where those of the folder end."""
    following: Counter[str] = Counter()
    for record in held:
        subset, _, number = record["id"].rpartition("-")
        following[subset] = max(following[subset], int(number) + 1)
    samples = []
    for query in queries:
        name = f"{query.subset}-{following[query.subset]}"
        following[query.subset] += 1
        record = {"id": name, "q": query.text, "p": query.positives, "n": query.negatives}
        samples.append({**record, **query.extra})
    return samples


def _counts(samples: list[Record], drops: Drops) -> Record:
    subsets = Counter(sample["id"].rpartition("-")[0] for sample in samples)
    return {
        "queries": len(samples),
        "subsets": dict(sorted(subsets.items())),
        "positives": sum(len(sample["p"]) for sample in samples),
        "negatives": sum(len(sample["n"]) for sample in samples),
        "drops": {
            kind: {reason: n for reason, n in sorted(getattr(drops, kind).items()) if n}
            for kind in ("queries", "texts", "labels")
        },
    }
