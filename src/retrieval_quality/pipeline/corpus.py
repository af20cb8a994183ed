"""Text samples, each a query with texts that answer it and that do not, made from a source."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.pipeline.files import (
    Record,
    beside,
    placed,
    read_json,
    records,
    sha256_of,
    take_place,
    working,
    write_json,
    write_records,
)
from retrieval_quality.pipeline.readers import (
    MAX_NEGATIVES,
    MAX_POSITIVES,
    PER_CATEGORY,
    SOURCES,
    Drops,
    Query,
    Source,
    draw,
    visible,
)

Manifest = dict[str, Any]

TEXTS = "samples_texts.json"
MANIFEST = "corpus.json"
RULES_VERSION = 2
"""Raised when the same input and seed would give other texts."""


def build(
    source: str,
    inputs: Sequence[Path],
    out: Path,
    *,
    limit: int | None = None,
    seed: int = 1,
    append: bool = False,
    per_category: int | None = None,
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
    per_category : int, optional
        At most so many samples of an arXiv category, `PER_CATEGORY` by default; each has texts
        of its own. Other sources do not take it.

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
    check(source, limit=limit, seed=seed, per_category=per_category)
    if isinstance(inputs, str | Path) or not inputs:
        raise UsageError("No input file was given; `inputs` is a list of files.")
    paths = [placed(path) for path in inputs]
    out = placed(out)
    request = _request(source, paths, limit, seed)
    if source == "arxiv":
        request["per_category"] = PER_CATEGORY if per_category is None else per_category
    with working(out, "pipeline corpus"):
        return _build(request, paths, out, append=append)


def check(
    source: str, *, limit: int | None = None, seed: int = 1, per_category: int | None = None
) -> None:
    """Refuse what `build` could not do, before anything is read.

    Raises
    ------
    UsageError
        The source is not known, or a number is not whole or too small.
    """
    if source not in SOURCES:
        raise UsageError(f"Source '{source}' is not known; choose one of {', '.join(SOURCES)}.")
    named = (("limit", limit, 1), ("seed", seed, 0), ("samples per category", per_category, 1))
    for name, value, least in named:
        if value is None and name != "seed":
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise UsageError(f"The {name} must be a whole number, at least {least}, not {value}.")
    if per_category is not None and source != "arxiv":
        raise UsageError(f"Samples per category are for the source arxiv; {source} has none.")


def _build(request: Record, paths: list[Path], out: Path, *, append: bool) -> Manifest:
    source, limit, seed = (request[name] for name in ("source", "limit", "seed"))
    held, manifest = _held(out)
    if any(all(entry[key] == request[key] for key in request) for entry in manifest["sources"]):
        if append or len(manifest["sources"]) == 1:
            return manifest
    elif held and not append:
        raise UsageError(f"{out} holds another corpus: --append adds to it; or choose another.")
    drops = Drops()
    read = SOURCES[source].read
    if "per_category" in request:
        read = partial(read, per_category=request["per_category"])
    queries = _standing(read(paths, seed, drops), held, seed, SOURCES[source], drops)
    samples = _numbered(_chosen(queries, limit, seed, drops), held)
    fresh = beside(out / TEXTS)
    manifest["queries"] = write_records(fresh, [*held, *samples])
    manifest["sources"].append({**request, **_counts(samples, drops)})
    manifest["sha256"] = sha256_of(fresh)
    write_json(out / MANIFEST, manifest)
    take_place(fresh, out / TEXTS)
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
    fresh = beside(texts)
    if fresh.exists() and sha256_of(fresh) == told["sha256"]:
        take_place(fresh, texts)  # a run was killed just before this
    if not texts.exists() and not told["sources"]:
        return [], told
    if not texts.exists() or sha256_of(texts) != told["sha256"]:
        raise DataError(
            f"{texts} is not the file that {MANIFEST} describes: it was not made here, or was "
            "changed since. Nothing was changed; choose another folder."
        )
    return [record for _, record in records(texts)] if told["queries"] else [], told


def _chosen(queries: Iterator[Query], limit: int | None, seed: int, drops: Drops) -> list[Query]:
    """Return the queries that a limit keeps, in the order of the input."""
    standing = enumerate(queries)
    if limit is None:
        return [query for _, query in standing]
    kept = heapq.nsmallest(limit, standing, key=lambda item: draw(seed, "limit", item[1].key))
    drops.queries["beyond the limit"] += drops.standing - len(kept)
    return [query for _, query in sorted(kept, key=lambda item: item[0])]


def _standing(
    queries: Iterator[Query], held: list[Record], seed: int, source: Source, drops: Drops
) -> Iterator[Query]:
    """Yield the queries that have what a sample needs, cleaned; count the others by reason."""
    in_folder = {_asked(_subset(record), record["q"], record["p"], source) for record in held}
    names = {record["id"] for record in held}
    seen: set[bytes] = set()
    for query in queries:
        query.text = query.text.strip()
        if reason := _unusable(query.text):
            drops.queries[reason] += 1
            continue
        if source.asks_again:
            clean(query, drops, seed, shuffled=source.shuffled)
        asked = _asked(query.subset, query.text, query.positives, source)
        if asked in in_folder:
            drops.queries["already in the folder"] += 1
        elif asked in seen:
            drops.queries["duplicate query"] += 1
        else:
            if query.name in names:
                raise DataError(
                    f"{query.where}: the id {query.name!r} belongs to another question in the "
                    "folder; give this one another id."
                )
            if not source.asks_again:
                clean(query, drops, seed, shuffled=source.shuffled)
            if len(query.positives) < 2:
                drops.queries["fewer than two positives"] += 1
            elif not query.negatives:
                drops.queries["no negatives"] += 1
            else:
                seen.add(asked)
                drops.standing += 1
                yield query


def _subset(record: Record) -> str:
    return str(record["id"]).rpartition("-")[0]


def _asked(subset: str, text: str, positives: list[str], source: Source) -> bytes:
    """Return what tells samples apart: the question, and the positives where questions repeat."""
    told = sorted(map(visible, positives)) if source.asks_again else []
    return draw(0, subset, visible(text), *told)


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
    """Return published records; an id that was given stays, others get numbers that are free."""
    taken = {record["id"] for record in held} | {query.name for query in queries}
    following: Counter[str] = Counter()
    for record in held:
        subset, _, number = record["id"].rpartition("-")
        following[subset] = max(following[subset], int(number) + 1)
    samples = []
    for query in queries:
        name = query.name
        while name is None:
            free = f"{query.subset}-{following[query.subset]}"
            following[query.subset] += 1
            name = None if free in taken else free
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
