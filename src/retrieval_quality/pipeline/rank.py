"""Rankings of text samples by embedding: the published ``samples_ranked.json``."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from tqdm import tqdm

from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.pipeline.corpus import TEXTS
from retrieval_quality.pipeline.embed import Embedder, Kind, load
from retrieval_quality.pipeline.files import (
    Place,
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
from retrieval_quality.pipeline.readers import visible

Manifest = dict[str, Any]
Numbers = tuple[int, ...] | Literal["all"]

RANKED = "samples_ranked.json"
MANIFEST = "rank.json"

DECIMALS = 6
"""Decimals of a cosine that decide a ranking.

The same text gets a vector that differs by about 1e-7 when it is encoded in another company, so
what lies below is noise. Two documents less than this apart count as tied.
"""

RULES_VERSION = 2
"""Raised when the same texts, models and settings would give another file or record."""

PAGE = 65536
"""Bytes of a page of the file of vectors: small beside one page, they fill it to the end."""

CHUNK = 2048
"""Texts encoded and stored at a time: a run that is killed loses no more than these."""


@dataclass(frozen=True)
class Settings:
    """What is ranked: all combinations of these that a text sample allows.

    Attributes
    ----------
    candidates, positives : tuple of int, or "all"
        Numbers of candidates and of positives among them; ``all`` for as many as a sample has.
    top_k : tuple of int
        Numbers of retrieved documents; those above the number of candidates are left out.
    """

    candidates: Numbers
    positives: Numbers
    top_k: tuple[int, ...]

    def of(self, n_positives: int, n_negatives: int) -> Iterator[tuple[int, int]]:
        """Yield the pairs (candidates, positives) that a sample of so many texts allows.

        Examples
        --------
        >>> list(Settings((5, 9), (2, 3, 4), (1,)).of(n_positives=3, n_negatives=4))
        [(5, 2), (5, 3)]
        >>> list(Settings("all", "all", (1,)).of(n_positives=3, n_negatives=4))
        [(7, 3)]
        """
        for np_ in (n_positives,) if self.positives == "all" else self.positives:
            if np_ > n_positives:
                continue
            most = np_ + n_negatives
            for nc in (most,) if self.candidates == "all" else self.candidates:
                if np_ < nc <= most:
                    yield nc, np_


def whole_numbers(
    value: str | int | Iterable[int], what: str, *, low: int = 1, all_allowed: bool = False
) -> Numbers:
    """Return whole numbers ascending, none twice.

    Parameters
    ----------
    value : str, int or iterable of int
        Numbers, or a text that lists numbers and ranges: ``20``, ``2,3``, ``1-10``, ``2,5-7``;
        or ``all`` where allowed.
    what : str
        What they are, for the message.
    low : int
        The least that is accepted.
    all_allowed : bool
        Whether ``all`` is.

    Raises
    ------
    UsageError
        Anything else.

    Examples
    --------
    >>> whole_numbers("2,5-7,5", "top-k"), whole_numbers([3, 2], "positives")
    ((2, 5, 6, 7), (2, 3))
    """
    if all_allowed and value == "all":
        return "all"
    listed: Iterable[Any] = value if isinstance(value, Iterable) else [value]
    parts = value.split(",") if isinstance(value, str) else listed
    numbers: set[int] = set()
    for part in parts:
        match = re.fullmatch(r"\s*([0-9]{1,6})\s*(?:-\s*([0-9]{1,6})\s*)?", str(part))
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last or first < low:
            also = ", or all" if all_allowed else ""
            raise UsageError(
                f"{what}: '{value}' should be numbers from {low} up such as 20, 2,3 or 1-10{also}."
            )
        numbers.update(range(first, last + 1))
    if not numbers:
        raise UsageError(f"{what}: no number was given.")
    return tuple(sorted(numbers))


def rank(
    folder: Path,
    embeddings: Sequence[str | Embedder],
    *,
    candidates: str | int | Iterable[int] = 20,
    positives: str | int | Iterable[int] = (2, 3),
    top_k: str | int | Iterable[int] = "1-10",
    prefixes: bool = True,
    query_prefix: str | None = None,
    passage_prefix: str | None = None,
    batch_size: int = 32,
    device: str | None = None,
) -> Manifest:
    """Rank the candidates of every text sample: ``samples_ranked.json`` and ``rank.json``.

    A row is made for each embedding, sample and pair (N_c, N_p) that the sample allows; its
    candidates are the first N_p of `p` and the first N_c - N_p of `n`. They are ordered by cosine
    to the query, rounded to `DECIMALS`. Ties are broken by a hash of query and document: the
    order of the candidates would favour positives, which come first, and an order by text alone
    would favour the same document under every query. A zero vector comes after all others.

    Each distinct text is encoded once for a model and kept by its content hash in
    ``vectors-<E>.sqlite``, so further settings cost no encoding, and a run that was stopped goes
    on. Rows of embeddings that are not named are kept if the texts have not changed. A
    ``samples_ranked.json`` that was not made here is never replaced. Texts that are longer than
    what a model reads are cut by it; how many is counted for each model.

    Parameters
    ----------
    folder : Path
        Holds ``samples_texts.json``.
    embeddings : sequence of str or Embedder
        See `retrieval_quality.pipeline.embed.parse`.
    candidates, positives : str, int or iterable of int
        Numbers N_c and N_p, see `whole_numbers`; ``all`` for as many as a sample has.
    top_k : str, int or iterable of int
        Numbers K.
    prefixes : bool
        Whether texts get the prefixes that a model's card asks for; the paper does not say.
    query_prefix, passage_prefix : str, optional
        What to put before texts instead; for one embedding at a time.
    batch_size : int
        Texts encoded at once; rankings do not depend on it beyond the rounding.
    device : str, optional
        Where to encode, such as ``cpu`` or ``cuda``.

    Returns
    -------
    dict
        The manifest: settings, models with prefixes and pooling, texts and texts cut by model,
        versions, counts.

    Raises
    ------
    UsageError
        A setting is wrong, two embeddings have one code, or sentence-transformers is missing.
    DataError
        There are no texts, one is blank, a vector is not finite (the message names the document),
        no sample allows the settings (it names the largest numbers that do), the vectors kept in
        the folder come from another model, or its rankings were made elsewhere.
    """
    settings = check(candidates=candidates, positives=positives, top_k=top_k)
    if not isinstance(batch_size, int) or batch_size < 1:
        raise UsageError(f"The batch size must be a whole number, at least 1, not {batch_size}.")
    if isinstance(embeddings, str):
        raise UsageError("`embeddings` is a list: give [NAME] instead of NAME.")
    set_ = {"query_prefix": query_prefix, "passage_prefix": passage_prefix}
    if set_ != dict.fromkeys(set_) and (len(embeddings) > 1 or not prefixes):
        raise UsageError(
            "Set prefixes for one embedding at a time, and not where they are left out."
        )
    folder = placed(folder)
    texts = folder / TEXTS
    if not texts.is_file():
        raise DataError(f"{texts} does not exist; make it with 'pipeline corpus'.")
    with working(folder, "pipeline rank"):
        request = {
            "texts_sha256": sha256_of(texts),
            "rules_version": RULES_VERSION,
            "settings": asdict(settings),
            "prefixes": prefixes,
            **set_,
            "asked": [item if isinstance(item, str) else item.code for item in embeddings],
            "decimals": DECIMALS,
            "ties": "by a hash of query and document",
        }
        request = json.loads(json.dumps(request))  # as it will be read again
        told = _told(folder)
        if told and request.items() <= told.items():
            return told
        _refuse_impossible(texts, settings)
        models = [
            load(item, prefixes=prefixes, device=device, **set_) if isinstance(item, str) else item
            for item in embeddings
        ]
        return _rank(folder, request, told, settings, models, batch_size)


def check(
    candidates: str | int | Iterable[int] = 20,
    positives: str | int | Iterable[int] = (2, 3),
    top_k: str | int | Iterable[int] = "1-10",
) -> Settings:
    """Return the settings of a ranking, or refuse them.

    Raises
    ------
    UsageError
        A number is not whole or too small: N_c and N_p begin at 2, K at 1.
    """
    top = whole_numbers(top_k, "top-k")
    return Settings(
        whole_numbers(candidates, "candidates", low=2, all_allowed=True),
        whole_numbers(positives, "positives", low=2, all_allowed=True),
        tuple(top) if top != "all" else (),
    )


def _rank(
    folder: Path,
    request: Manifest,
    told: Manifest,
    settings: Settings,
    models: Sequence[Embedder],
    batch_size: int,
) -> Manifest:
    codes = [model.code for model in models]
    if not codes or len(set(codes)) < len(codes):
        raise UsageError("Give at least one embedding, and each code once.")
    kept = _kept(told, request["texts_sha256"], codes)
    cut: dict[str, Any] = {code: told["texts"][code] for code in kept if code in told["texts"]}
    for model in models:
        with Vectors(folder / f"vectors-{model.code}.sqlite", model.described()) as vectors:
            _encode(folder / TEXTS, model, vectors, settings, batch_size)
            cut[model.code] = {**vectors.counted(), "limit": model.described().get("max_tokens")}
    counts: Counter[str] = Counter()
    fresh = beside(folder / RANKED)
    write_records(fresh, _rows(folder, models, settings, list(kept), counts))
    if gone := [code for code in told.get("embeddings", {}) if code not in (*kept, *codes)]:
        counts[f"embeddings left out, for the texts have changed: {', '.join(gone)}"] = len(gone)
    described = {
        model.code: {**model.described(), **getattr(model, "recorded", {})} for model in models
    }
    manifest = {
        **request,
        "embeddings": {**kept, **described},
        "texts": cut,
        "versions": _versions(),
        "counts": dict(sorted(counts.items())),
        "sha256": sha256_of(fresh),
    }
    write_json(folder / MANIFEST, manifest)
    take_place(fresh, folder / RANKED)
    return manifest


def _refuse_impossible(texts: Path, settings: Settings) -> None:
    """Refuse settings that no text sample allows, with the largest numbers that one does."""
    most_positives = most_candidates = samples = 0
    for record in _samples(texts):
        samples += 1
        n_positives, n_negatives = len(record["p"]), len(record["n"])
        pairs = settings.of(n_positives, n_negatives)
        if any(k <= nc for nc, _ in pairs for k in settings.top_k):
            return
        most_positives = max(most_positives, n_positives if n_negatives else 0)
        fitting = (
            [n_positives]
            if settings.positives == "all"
            else [n for n in settings.positives if n <= n_positives]
        )
        if fitting and n_negatives:
            most_candidates = max(most_candidates, max(fitting) + n_negatives)
    if not samples:
        why = "there is no text sample in it"
    elif not most_candidates:
        why = (
            f"the largest possible number of positives is {most_positives}: give --positives "
            f"{most_positives} or fewer, or 'all'"
        )
    elif settings.candidates != "all" and min(settings.candidates) > most_candidates:
        why = (
            f"the largest possible number of candidates is {most_candidates}: give --candidates "
            f"{most_candidates} or fewer, or 'all' for as many as each sample has"
        )
    else:
        why = (
            "each N_c must be larger than its N_p, and a K no larger than N_c; the largest "
            f"possible number of candidates is {most_candidates}"
        )
    raise DataError(f"{texts}: no row can be made with these settings; {why}.")


def _versions() -> dict[str, str]:
    told = {"python": platform.python_version(), "numpy": np.__version__}
    for name in ("sentence-transformers", "transformers", "torch"):
        try:
            told[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return told


def _told(folder: Path) -> Manifest:
    """Return the manifest of the rankings that a folder holds; nothing where it has none.

    Raises
    ------
    DataError
        There are rankings that the manifest does not describe: they were not made here.
    """
    ranked, fresh = folder / RANKED, beside(folder / RANKED)
    told = read_json(folder / MANIFEST) if (folder / MANIFEST).exists() else {}
    if fresh.exists() and told.get("sha256") == sha256_of(fresh):
        take_place(fresh, ranked)  # a run was killed just before this
    if not ranked.exists():
        return {}
    if told.get("sha256") != sha256_of(ranked):
        raise DataError(
            f"{ranked} is not the file that {MANIFEST} describes: its rows were not made here, or "
            "were changed since. Nothing was changed; move it away, or rank in another folder."
        )
    return {"texts": {}, **told}


def _kept(told: Manifest, texts: str, codes: list[str]) -> dict[str, Any]:
    """Return the embeddings of an earlier call whose rows stay."""
    if told.get("texts_sha256") != texts:
        return {}
    return {code: what for code, what in told["embeddings"].items() if code not in codes}


class Vectors:
    """Vectors of one model by content hash, in a file that survives a kill.

    Parameters
    ----------
    path : Path
        SQLite file, made if need be.
    described : dict
        What determines the vectors; a file made under another description is refused.

    Raises
    ------
    DataError
        The file comes from another model or cannot be read or written.
    """

    def __init__(self, path: Path, described: dict[str, Any]) -> None:
        self._path = path
        try:
            self._base = sqlite3.connect(path)
            self._base.execute(f"pragma page_size = {PAGE}")  # of a file that is not there yet
            self._base.execute("pragma journal_mode = wal")
            self._base.execute("create table if not exists model (described text)")
            # a row that a page does not hold whole spills over, and a vector would take a page
            self._base.execute(
                "create table if not exists vectors (number integer primary key, "
                "hash blob unique, vector blob, cut integer)"
            )
            columns = {row[1] for row in self._base.execute("pragma table_info(vectors)")}
            if "cut" not in columns:  # made before texts that are cut were counted
                self._base.execute("alter table vectors add column cut integer")
            self._base.execute("create temp table used (hash blob primary key) without rowid")
            told = json.dumps(described, sort_keys=True, ensure_ascii=False)
            row = self._base.execute("select described from model").fetchone()
            if row is None:
                with self._base:
                    self._base.execute("insert into model values (?)", (told,))
        except sqlite3.Error as error:
            raise DataError(f"{path.name}: {error}; remove the file to encode anew.") from None
        if row is not None and row[0] != told:
            self._base.close()
            raise DataError(
                f"{path.name} holds vectors of another model or other prefixes ({row[0]}); remove "
                "it, or give this model another code with CODE=MODEL."
            )

    def __enter__(self) -> Vectors:
        return self

    def __exit__(self, *_: object) -> None:
        self._base.close()

    def holds(self, key: bytes) -> bool:
        """Return whether there is a vector for a content hash."""
        return self._one(key) is not None

    def measured(self, key: bytes) -> bool:
        """Return whether it is known of a text that has a vector if the model cut it."""
        found = self._one(key)
        return found is not None and found[0] is not None

    def _one(self, key: bytes) -> tuple[int | None] | None:
        row: tuple[int | None] | None = self._base.execute(
            "select cut from vectors where hash = ?", (key,)
        ).fetchone()
        return row

    def add(self, keys: Sequence[bytes], vectors: np.ndarray, cut: Sequence[bool] | None) -> None:
        """Store vectors, all or none, with whether each text was cut, if that is known."""
        known = [None] * len(keys) if cut is None else [int(one) for one in cut]
        made = (v.astype("<f4").tobytes() for v in vectors)
        self._write(
            "insert or replace into vectors (hash, vector, cut) values (?, ?, ?)",
            list(zip(keys, made, known, strict=True)),
        )

    def take(self, rows: Sequence[tuple[bytes, bytes, int | None]]) -> None:
        """Store vectors as another file holds them: hash, vector, cut; those that are here stay."""
        self._write("insert or ignore into vectors (hash, vector, cut) values (?, ?, ?)", rows)

    def measure(self, keys: Sequence[bytes], cut: Sequence[bool]) -> None:
        """Note which of the texts that have vectors were cut."""
        self._write(
            "update vectors set cut = ? where hash = ?",
            list(zip(map(int, cut), keys, strict=True)),
        )

    def use(self, keys: Sequence[bytes]) -> None:
        """Note which texts a ranking uses, each once."""
        self._write("insert or ignore into used values (?)", [(key,) for key in keys])

    def counted(self) -> dict[str, Any]:
        """Return how many distinct texts are used and cut, and the share; None: not known."""
        texts, cut, unknown = self._base.execute(
            "select count(*), coalesce(sum(cut), 0), coalesce(sum(cut is null), 0) "
            "from used join vectors using (hash)"
        ).fetchone()
        known = {"cut": cut, "share": cut / texts if texts else 0.0}
        return {"texts": texts, **(dict.fromkeys(known) if unknown else known)}

    def _write(self, command: str, rows: Sequence[tuple[Any, ...]]) -> None:
        try:
            with self._base:
                self._base.executemany(command, rows)
        except sqlite3.Error as error:
            raise DataError(f"{self._path.name} could not be written: {error}.") from None

    def read(self, keys: Sequence[bytes]) -> np.ndarray:
        """Return vectors in the order of their content hashes, shape (keys, dimensions)."""
        found = [
            self._base.execute("select vector from vectors where hash = ?", (key,)).fetchone()[0]
            for key in keys
        ]
        return np.stack([np.frombuffer(vector, dtype="<f4") for vector in found])


def _key(worded: str) -> bytes:
    return hashlib.sha256(worded.encode("utf-8", "surrogatepass")).digest()


def _samples(texts: Path) -> Iterator[Record]:
    """Yield the text samples; refuse one that cannot be ranked."""
    for place, record in records(texts):
        if not _is_sample(record):
            raise DataError(f"{place}: a text sample needs id, q, and the lists p and n of texts.")
        _refuse_blank(place, record)
        yield record


def _is_sample(record: Record) -> bool:
    lists = [record.get("p"), record.get("n")]
    return (
        isinstance(record.get("id"), str)
        and isinstance(record.get("q"), str)
        and all(isinstance(v, list) and all(isinstance(t, str) for t in v) for v in lists)
    )


def _refuse_blank(place: Place, record: Record) -> None:
    named = [("q", record["q"])]
    named += [(f"{key}[{i}]", text) for key in ("p", "n") for i, text in enumerate(record[key])]
    for name, text in named:
        if not visible(text):
            raise DataError(
                f"{place}: {name} of {record['id']} is blank; a blank text has no rank."
            )


def _used(record: Record, settings: Settings) -> tuple[list[tuple[int, int]], int, int]:
    """Return the pairs (N_c, N_p) of a sample, and how many of p and n they need."""
    pairs = list(settings.of(len(record["p"]), len(record["n"])))
    most_p = max((np_ for _, np_ in pairs), default=0)
    most_n = max((nc - np_ for nc, np_ in pairs), default=0)
    return pairs, most_p, most_n


def _documents(record: Record, most_p: int, most_n: int) -> Iterator[tuple[str, Kind, str]]:
    """Yield what a sample needs encoded: its name, whether query or passage, the text."""
    yield "q", "query", record["q"]
    for i, text in enumerate(record["p"][:most_p]):
        yield f"p[{i}]", "passage", text
    for i, text in enumerate(record["n"][:most_n]):
        yield f"n[{i}]", "passage", text


def _encode(
    texts: Path, model: Embedder, vectors: Vectors, settings: Settings, batch_size: int
) -> None:
    """Encode every distinct text that has no vector yet."""
    waiting: dict[bytes, tuple[str, str]] = {}
    unmeasured: dict[bytes, str] = {}
    cut = getattr(model, "cut", None)
    with tqdm(desc=f"encode {model.code}", unit=" texts", disable=None) as progress:

        def flush() -> None:
            _encode_chunk(model, vectors, waiting, batch_size)
            progress.update(len(waiting))
            waiting.clear()

        def measure() -> None:
            if cut is not None and (told := cut(list(unmeasured.values()))) is not None:
                vectors.measure(list(unmeasured), told)
            unmeasured.clear()

        for record in _samples(texts):
            pairs, most_p, most_n = _used(record, settings)
            if not pairs:
                continue
            used: list[bytes] = []
            for name, kind, text in _documents(record, most_p, most_n):
                worded = model.worded(text, kind)
                key = _key(worded)
                used.append(key)
                if key in waiting or key in unmeasured:
                    continue
                if not vectors.holds(key):
                    waiting[key] = (f"{name} of {record['id']}", worded)
                elif cut is not None and not vectors.measured(key):
                    unmeasured[key] = worded
            vectors.use(used)
            if len(waiting) >= CHUNK:
                flush()
            if len(unmeasured) >= CHUNK:
                measure()
        if waiting:
            flush()
        if unmeasured:
            measure()


def _encode_chunk(
    model: Embedder, vectors: Vectors, waiting: dict[bytes, tuple[str, str]], batch_size: int
) -> None:
    names, worded = zip(*waiting.values(), strict=True)
    made = np.asarray(model.encode(worded, batch_size), dtype=np.float32)
    if made.ndim != 2 or len(made) != len(names):
        raise DataError(
            f"Embedding {model.code} gave an array of shape {made.shape} for {len(names)} texts."
        )
    bad = np.flatnonzero(~np.isfinite(made).all(axis=1))
    if len(bad):
        more = f" (and {len(bad) - 1} others)" if len(bad) > 1 else ""
        raise DataError(
            f"Embedding {model.code} gave a vector that is not finite for {names[bad[0]]}{more}; "
            "nothing was ranked. A smaller batch or another device may help."
        )
    cut = getattr(model, "cut", None)
    vectors.add(list(waiting), made, None if cut is None else cut(worded))


def _rows(
    folder: Path,
    models: Sequence[Embedder],
    settings: Settings,
    kept: list[str],
    counts: Counter[str],
) -> Iterator[Record]:
    """Yield the ranked rows: first those that stay, then each model's in the order of the texts."""
    if kept:
        for _, row in records(folder / RANKED):
            if row.get("E") in kept:
                counts["rows kept from an earlier call"] += 1
                yield row
    for model in models:
        with Vectors(folder / f"vectors-{model.code}.sqlite", model.described()) as vectors:
            samples = tqdm(_samples(folder / TEXTS), desc=f"rank {model.code}", disable=None)
            for record in samples:
                yield from _sample_rows(record, model, vectors, settings, counts)


def _sample_rows(
    record: Record, model: Embedder, vectors: Vectors, settings: Settings, counts: Counter[str]
) -> Iterator[Record]:
    pairs, most_p, most_n = _used(record, settings)
    if not pairs:
        counts["samples with too few texts for every setting"] += 1
        return
    documents = list(_documents(record, most_p, most_n))
    read = vectors.read([_key(model.worded(text, kind)) for _, kind, text in documents])
    similarity = cosines(read[0], read[1:], f"{model.code}: the query of {record['id']}")
    counts["zero vectors, ranked last"] += int(np.isneginf(similarity).sum())
    ties = [_key(f"{record['q']}\0{text}") for _, _, text in documents[1:]]
    for nc, np_ in pairs:
        index = [*range(np_), *range(most_p, most_p + nc - np_)]
        order = ordered(similarity[index], [ties[i] for i in index])
        k = [k for k in settings.top_k if k <= nc]
        counts["numbers K above N_c, left out"] += len(settings.top_k) - len(k)
        if not k:
            counts["rows without any K, left out"] += 1
            continue
        found = np.cumsum([i < np_ for i in order])
        counts["rows"] += 1
        yield {
            "id": record["id"],
            "E": model.code,
            "Nc": nc,
            "Np": np_,
            "K": k,
            "P": [int(found[n - 1]) / n for n in k],
            "R": [int(found[n - 1]) / np_ for n in k],
            "rank": order,
        }


def cosines(query: np.ndarray, documents: np.ndarray, name: str = "the query") -> np.ndarray:
    """Return the cosine of a query to each document, rounded to `DECIMALS`.

    Parameters
    ----------
    query : array, shape (dimensions,)
    documents : array, shape (documents, dimensions)
    name : str
        The query, for the message.

    Returns
    -------
    array, shape (documents,)
        In [-1, 1]; minus infinity for a document whose vector is zero: it has no direction, and
        so ranks after every document that has one.

    Raises
    ------
    DataError
        The query's vector is zero.

    Examples
    --------
    >>> cosines(np.array([1.0, 0.0]), np.array([[2.0, 0.0], [0.0, 0.0], [-3.0, 4.0]])).tolist()
    [1.0, -inf, -0.6]
    """
    q, d = query.astype(np.float64), documents.astype(np.float64)
    if not q.any():
        raise DataError(f"{name} got a zero vector: nothing can be ranked by it.")
    lengths = np.linalg.norm(d, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        similarity = np.round((d @ q) / (lengths * np.linalg.norm(q)), DECIMALS)
    return np.where(lengths > 0, similarity, -np.inf)


def ordered(similarity: Iterable[float], ties: Sequence[bytes]) -> list[int]:
    """Return the indices of documents, the most similar first; equal ones by their hash.

    Examples
    --------
    >>> ordered([0.5, 0.9, 0.5], [b"z", b"m", b"a"])
    [1, 2, 0]
    """
    values = list(similarity)
    return sorted(range(len(values)), key=lambda i: (-values[i], ties[i]))
