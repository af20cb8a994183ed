"""The embedded default dataset: simulated rows in the published format, made from a stated model.

Nothing here was retrieved, answered or graded. The schema and the totals are those of the
published dataset; of its breakdown only the first row of the paper's Table 1 is kept, the rest of
`BREAKDOWN` is invented. A verdict drawn from this data says something about `Model`, and nothing
about the world.

Every draw comes from the raw PCG64 stream and goes through integers and the four basic operations
only, so that a seed gives the same dataset on every machine and with every NumPy version.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from retrieval_quality import outputs
from retrieval_quality.data import schema
from retrieval_quality.data.dataset import Dataset, connect, lookup, store
from retrieval_quality.errors import DataError, UsageError

MODEL_VERSION = 1
"""Part of every draw and of the cache's name: raised when a seed is to give other rows."""

EMBEDDINGS = tuple(schema.EMBEDDINGS)
N_HUMAN = 320
"""Rows with human grades at scale 1."""


@dataclass(frozen=True)
class Model:
    """The numbers of the generating model, the same for every dataset and embedding.

    What tells datasets and embeddings apart is drawn from the seed with the spreads given here,
    from one distribution for all of them. So no number says that a dataset is hard, that one
    measure should beat another, or that order or negatives matter more here than there. What the
    model cannot show is therefore everything that the paper claims about the world.

    Scores are in standard deviations of one document's score; qualities have the unit of the
    thresholds; "spread" is the standard deviation of a draw.

    Parameters
    ----------
    separation : float
        By how much the mean score of positives exceeds that of negatives.
    separation_dataset, separation_subset, separation_embedding, separation_query : float
        Spread of that excess between datasets, between the subsets of a dataset (HotpotQA's
        levels), between embeddings within a dataset, and between queries.
    score_shared : float
        Share of a document's score variance that all embeddings have in common, in [0, 1].
    share : float
        Weight of the share of the positives that was found, n_p / N_p.
    count, count_half : float
        Weight of the number of positives found, n_p / (n_p + count_half): grows ever more slowly.
    negatives, negatives_half : float
        Weight of the negatives among the retrieved, n_n / (n_n + negatives_half), taken off.
    order : float
        Weight of the order: the 1/rank-weighted share of positives less their plain share.
    ease_dataset, ease_subset, ease_query : float
        Spread of the quality that a dataset, a subset and a query add whatever was retrieved.
    noise : float
        Spread of what differs between one graded row and the next.
    thresholds : tuple of float
        Four ascending qualities; the grade is 1 plus the number of them that are exceeded.
    human_noise : float
        Spread of one human's own reading of a row's quality.
    human_missing : float
        Share of human grades that are missing, in [0, 1).
    """

    separation: float = 1.4
    separation_dataset: float = 0.3
    separation_subset: float = 0.1
    separation_embedding: float = 0.1
    separation_query: float = 0.4
    score_shared: float = 0.5
    share: float = 1.5
    count: float = 1.5
    count_half: float = 2.0
    negatives: float = 1.0
    negatives_half: float = 4.0
    order: float = 1.0
    ease_dataset: float = 0.3
    ease_subset: float = 0.1
    ease_query: float = 0.5
    noise: float = 0.6
    thresholds: tuple[float, float, float, float] = (0.1, 0.7, 1.3, 1.9)
    human_noise: float = 0.5
    human_missing: float = 0.07


class Setting(NamedTuple):
    """How many text samples of a subset are ranked with these candidates, positives and K."""

    subset: str
    n_candidates: int
    n_relevant: int
    top_k: range
    ranked: int


TEXTS: dict[str, int] = {
    "A": 1000,
    "M": 1350,
    "N": 1332,
    "Hs-e": 480,
    "Hs-m": 480,
    "Hs-h": 480,
    "Hp-e": 330,
    "Hp-m": 330,
    "Hp-h": 330,
}
"""Text samples of each subset: invented, with the published total."""

BREAKDOWN: tuple[Setting, ...] = (
    Setting("A", 30, 2, range(2, 16), 300),  # the first row of Table 1
    Setting("A", 30, 3, range(1, 16), 320),
    Setting("A", 30, 4, range(1, 17), 320),
    Setting("A", 40, 5, range(1, 21), 358),
    Setting("A", 40, 6, range(1, 19), 320),
    Setting("A", 40, 8, range(1, 21), 300),
    Setting("A", 50, 10, range(1, 21), 300),
    Setting("A", 50, 12, range(2, 25, 2), 210),
    Setting("A", 60, 15, range(1, 22), 160),
    Setting("M", 10, 2, range(1, 9), 800),
    Setting("M", 10, 3, range(1, 10), 500),
    Setting("M", 10, 4, range(1, 10), 332),
    Setting("M", 20, 5, range(1, 16), 230),
    Setting("N", 20, 2, range(1, 9), 700),
    Setting("N", 20, 3, range(1, 13), 460),
    Setting("N", 20, 4, range(1, 13), 360),
    Setting("N", 30, 6, range(1, 19), 178),
    Setting("Hs-e", 20, 2, range(1, 11), 260),
    Setting("Hs-e", 30, 3, range(1, 13), 200),
    Setting("Hs-e", 30, 4, range(1, 17), 180),
    Setting("Hs-e", 40, 6, range(1, 17), 150),
    Setting("Hs-e", 40, 9, range(1, 19), 110),
    Setting("Hs-m", 20, 2, range(1, 11), 260),
    Setting("Hs-m", 30, 3, range(1, 13), 200),
    Setting("Hs-m", 30, 4, range(1, 17), 180),
    Setting("Hs-m", 40, 6, range(1, 17), 150),
    Setting("Hs-m", 40, 9, range(1, 19), 110),
    Setting("Hs-h", 20, 2, range(1, 11), 260),
    Setting("Hs-h", 30, 3, range(1, 13), 200),
    Setting("Hs-h", 30, 4, range(1, 17), 180),
    Setting("Hs-h", 40, 6, range(1, 17), 150),
    Setting("Hs-h", 40, 10, range(1, 21), 90),
    Setting("Hp-e", 10, 2, range(1, 9), 280),
    Setting("Hp-e", 10, 3, range(1, 10), 180),
    Setting("Hp-e", 10, 4, range(1, 10), 140),
    Setting("Hp-m", 10, 2, range(1, 9), 280),
    Setting("Hp-m", 10, 3, range(1, 10), 180),
    Setting("Hp-m", 10, 4, range(1, 10), 140),
    Setting("Hp-h", 10, 2, range(1, 9), 250),
    Setting("Hp-h", 10, 3, range(1, 10), 180),
    Setting("Hp-h", 10, 4, range(1, 10), 140),
    Setting("Hp-h", 10, 5, range(1, 10), 150),
)
"""Ranked samples of each embedding: the first row is the paper's, all else is invented, with the
published totals of ranked and graded rows."""


class _Block(NamedTuple):
    """The rows of one setting, as arrays over (text, embedding) and then K or the ranks."""

    texts: NDArray[np.int64]  # (n,) text sample numbers, counted over all subsets
    n_relevant: int
    top_k: NDArray[np.int64]  # (k,)
    rank: NDArray[np.int64]  # (n, 4, n_candidates)
    found: NDArray[np.int64]  # (n, 4, k) positives among the first K
    quality: NDArray[np.float64]  # (n, 4, k) before the row's own noise

    @property
    def n_rankings(self) -> int:
        return self.rank.shape[0] * self.rank.shape[1]


class _Stream:
    """Draws under one seed; each name has a stream of its own, so that order does not matter."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def raw(self, name: str, *shape: int) -> NDArray[np.uint64]:
        entropy = [MODEL_VERSION, self.seed, *name.encode()]
        draws = np.random.PCG64(np.random.SeedSequence(entropy)).random_raw(int(np.prod(shape)))
        return np.asarray(draws, dtype=np.uint64).reshape(shape)

    def noise(self, name: str, *shape: int) -> NDArray[np.float64]:
        """Draw sums of four 16-bit uniforms: bell-shaped, mean 0, variance 1, within 3.47."""
        raw = self.raw(name, *shape)
        mask = np.uint64(0xFFFF)
        total = sum(((raw >> np.uint64(16 * i)) & mask).astype(np.int64) for i in range(4))
        return (total - 2 * 0xFFFF) / np.sqrt((2.0**32 - 1) / 3)


def simulate(seed: int = 1, *, scale: float = 1.0, cache: Path | None = None) -> Dataset:
    """Give the simulated dataset of a seed: from the cache, or made now.

    Parameters
    ----------
    seed : int
        Non-negative; the same seed gives the same rows on every machine.
    scale : float
        In (0, 1]; 1 gives the published totals, less gives proportionally fewer text samples.
    cache : Path, optional
        Folder of the cache instead of the user's.

    Returns
    -------
    Dataset
        With ``simulated`` True and the parts ``texts``, ``ranked``, ``graded`` and ``human``.

    Raises
    ------
    UsageError
        If the seed or the scale is out of range.
    DataError
        If the cache cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = simulate(seed=1, scale=0.01, cache=Path(folder))
    ...     made.name, made.simulated, made.source
    ('simulated', True, 'simulated, seed 1, scale 0.01')
    """
    _check(seed, scale, 0)
    recipe = repr((MODEL_VERSION, Model(), TEXTS, BREAKDOWN, N_HUMAN, int(seed), float(scale)))
    digest = hashlib.sha256(recipe.encode()).hexdigest()
    found = lookup(digest, cache)
    if found is None:
        source = f"simulated, seed {seed}" + ("" if scale == 1 else f", scale {scale:g}")
        found = store(
            tables(seed, scale=scale),
            name="simulated",
            source=source,
            digest=digest,
            simulated=True,
            cache=cache,
        )
    return found


def tables(
    seed: int = 1, *, scale: float = 1.0, model: Model | None = None, null_grades: int = 0
) -> dict[str, pa.Table]:
    """Make the simulated dataset as Arrow tables in the published schema.

    Parameters
    ----------
    seed : int
        Non-negative; the same seed gives the same tables on every machine.
    scale : float
        In (0, 1]; 1 gives the published totals, less gives proportionally fewer text samples.
    model : Model, optional
        Other numbers for the generating model.
    null_grades : int
        How many grades of the graded rows are made null.

    Returns
    -------
    dict of str to pyarrow.Table
        ``texts``, ``ranked``, ``graded`` and ``human``.

    Raises
    ------
    UsageError
        If the seed, the scale or the number of null grades is out of range.

    Examples
    --------
    >>> made = tables(seed=1, scale=0.01)
    >>> made["ranked"].column_names
    ['id', 'E', 'Nc', 'Np', 'K', 'P', 'R', 'rank']
    >>> made["texts"]["p"][0].as_py()[0]
    'positive 0 of A-0 (simulated)'
    """
    _check(seed, scale, null_grades)
    model, stream = model or Model(), _Stream(seed)
    ids: list[str] = []
    sizes: list[NDArray[np.int64]] = []
    blocks: list[_Block] = []
    for subset, n_texts, settings in _scaled(scale):
        blocks += list(_subset_blocks(subset, n_texts, settings, len(ids), model, stream))
        sizes.append(_candidate_counts(n_texts, settings))
        ids += [f"{subset}-{i}" for i in range(n_texts)]
    names = pa.array(ids)
    graded, quality = _graded(names, blocks, model, stream, null_grades)
    return {
        "texts": _texts(ids, np.concatenate(sizes)),
        "ranked": _ranked(names, blocks),
        "graded": graded,
        "human": _human(graded, quality, model, stream, scale),
    }


def _check(seed: int, scale: float, null_grades: int) -> None:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise UsageError(f"seed must be a whole number from 0 up, not {seed!r}.")
    if not 0 < scale <= 1:
        raise UsageError(f"scale must be above 0 and at most 1, not {scale!r}.")
    if null_grades < 0:
        raise UsageError(f"null_grades must be 0 or more, not {null_grades!r}.")


def _scaled(scale: float) -> Iterator[tuple[str, int, list[Setting]]]:
    """Give the breakdown with proportionally fewer texts, at least two of each subset."""
    for subset, n_texts in TEXTS.items():
        n = max(2, round(n_texts * scale))
        yield (
            subset,
            n,
            [
                setting._replace(ranked=min(n, max(1, round(setting.ranked * scale))))
                for setting in BREAKDOWN
                if setting.subset == subset
            ],
        )


def _offsets(n_texts: int, settings: list[Setting]) -> Iterator[tuple[Setting, NDArray[np.int64]]]:
    """Deal the texts out to the settings in turn, so that each text serves and many serve twice."""
    start = 0
    for setting in settings:
        yield setting, (start + np.arange(setting.ranked)) % n_texts
        start += setting.ranked


def _candidate_counts(n_texts: int, settings: list[Setting]) -> NDArray[np.int64]:
    """Positives and negatives that each text needs for its settings, as an (n_texts, 2) array."""
    sizes = np.tile(np.array([2, 1]), (n_texts, 1))
    for setting, texts in _offsets(n_texts, settings):
        need = [setting.n_relevant, setting.n_candidates - setting.n_relevant]
        sizes[texts] = np.maximum(sizes[texts], need)
    return sizes


def _subset_blocks(
    subset: str,
    n_texts: int,
    settings: list[Setting],
    first: int,
    model: Model,
    stream: _Stream,
) -> Iterator[_Block]:
    """Draw the documents of a subset once, then rank and judge them under each of its settings."""
    n_positives = max(s.n_relevant for s in settings)
    n_documents = n_positives + max(s.n_candidates - s.n_relevant for s in settings)
    scores = _scores(subset, n_texts, n_positives, n_documents, model, stream)
    ease = _ease(subset, n_texts, model, stream)
    for setting, texts in _offsets(n_texts, settings):
        n_relevant = setting.n_relevant
        n_negatives = setting.n_candidates - n_relevant
        columns = np.r_[:n_relevant, n_positives : n_positives + n_negatives]
        rank = np.argsort(-scores[texts][:, :, columns], axis=-1, kind="stable")
        top_k = np.array(setting.top_k)
        found, quality = _judge(rank < n_relevant, top_k, n_relevant, model)
        quality += ease[texts, None, None]
        yield _Block(first + texts, n_relevant, top_k, rank, found, quality)


def _scores(
    subset: str,
    n_texts: int,
    n_positives: int,
    n_documents: int,
    model: Model,
    stream: _Stream,
) -> NDArray[np.float64]:
    """Latent scores of shape (text, embedding, document), the positives first."""
    dataset, n_embeddings = schema.dataset_of(subset), len(EMBEDDINGS)
    separation = (
        model.separation
        + model.separation_dataset * stream.noise(f"separation {dataset}", 1, 1)
        + model.separation_subset * stream.noise(f"separation subset {subset}", 1, 1)
        + model.separation_embedding * stream.noise(f"embedding {dataset}", 1, n_embeddings)
        + model.separation_query * stream.noise(f"query {subset}", n_texts, 1)
    )
    shared = stream.noise(f"document {subset}", n_texts, 1, n_documents)
    own = stream.noise(f"document by embedding {subset}", n_texts, n_embeddings, n_documents)
    scores = np.sqrt(model.score_shared) * shared + np.sqrt(1 - model.score_shared) * own
    scores[:, :, :n_positives] += separation[:, :, None]
    return scores


def _ease(subset: str, n_texts: int, model: Model, stream: _Stream) -> NDArray[np.float64]:
    """Give what dataset, subset and query add to the quality of every answer, one value a text."""
    return (
        model.ease_dataset * stream.noise(f"ease {schema.dataset_of(subset)}", 1)
        + model.ease_subset * stream.noise(f"ease subset {subset}", 1)
        + model.ease_query * stream.noise(f"ease query {subset}", n_texts)
    )


def _judge(
    positive: NDArray[np.bool_], top_k: NDArray[np.int64], n_relevant: int, model: Model
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Count the positives among the first K, and judge what the retrieved documents are worth."""
    weights = 1.0 / np.arange(1, positive.shape[-1] + 1)
    found = np.cumsum(positive, axis=-1, dtype=np.int64)[..., top_k - 1]
    weighted = np.cumsum(positive * weights, axis=-1)[..., top_k - 1]
    order = weighted / np.cumsum(weights)[top_k - 1] - found / top_k
    negatives = top_k - found
    quality = (
        model.share * (found / n_relevant)
        + model.count * (found / (found + model.count_half))
        - model.negatives * (negatives / (negatives + model.negatives_half))
        + model.order * order
    )
    return found, quality


def _grades(quality: NDArray[np.float64], model: Model) -> NDArray[np.int64]:
    return 1 + np.searchsorted(np.array(model.thresholds), quality, side="left")


def _lists(lengths: NDArray[np.int64], values: NDArray[np.generic]) -> pa.ListArray:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))


def _texts(ids: list[str], sizes: NDArray[np.int64]) -> pa.Table:
    """Make placeholders that say what they are; those of A have the keys c1, c2 and q2 too."""
    archive = [i if i.startswith("A-") else None for i in ids]
    columns = {
        "id": ids,
        "q": [f"query {i} (simulated)" for i in ids],
        "p": [
            [f"positive {j} of {i} (simulated)" for j in range(n)]
            for i, n in zip(ids, sizes[:, 0].tolist(), strict=True)
        ],
        "n": [
            [f"negative {j} of {i} (simulated)" for j in range(n)]
            for i, n in zip(ids, sizes[:, 1].tolist(), strict=True)
        ],
        "c1": [i and f"category 1 of {i} (simulated)" for i in archive],
        "c2": [i and f"category 2 of {i} (simulated)" for i in archive],
        "q2": [i and f"second query {i} (simulated)" for i in archive],
    }
    return pa.table(columns)


def _row_keys(names: pa.Array, blocks: list[_Block], repeat_k: bool) -> dict[str, pa.Array]:
    """Make the columns id, E, Nc, Np: a row for each text and embedding, or also for each K."""
    n_embeddings = len(EMBEDDINGS)
    times = [b.top_k.size if repeat_k else 1 for b in blocks]
    rows = [b.n_rankings * t for b, t in zip(blocks, times, strict=True)]
    text = [np.repeat(b.texts, n_embeddings * t) for b, t in zip(blocks, times, strict=True)]
    code = [
        np.tile(np.repeat(np.arange(n_embeddings), t), b.texts.size)
        for b, t in zip(blocks, times, strict=True)
    ]
    return {
        "id": names.take(pa.array(np.concatenate(text))),
        "E": pa.array(EMBEDDINGS).take(pa.array(np.concatenate(code))),
        "Nc": pa.array(np.repeat([b.rank.shape[-1] for b in blocks], rows)),
        "Np": pa.array(np.repeat([b.n_relevant for b in blocks], rows)),
    }


def _ranked(names: pa.Array, blocks: list[_Block]) -> pa.Table:
    rows = [b.n_rankings for b in blocks]
    k_lengths = np.repeat([b.top_k.size for b in blocks], rows)
    top_k = np.concatenate([np.tile(b.top_k, n) for b, n in zip(blocks, rows, strict=True)])
    precision = np.concatenate([(b.found / b.top_k).ravel() for b in blocks])
    recall = np.concatenate([(b.found / b.n_relevant).ravel() for b in blocks])
    rank_lengths = np.repeat([b.rank.shape[-1] for b in blocks], rows)
    return pa.table(
        {
            **_row_keys(names, blocks, repeat_k=False),
            "K": _lists(k_lengths, top_k),
            "P": _lists(k_lengths, precision),
            "R": _lists(k_lengths, recall),
            "rank": _lists(rank_lengths, np.concatenate([b.rank.ravel() for b in blocks])),
        }
    )


def _graded(
    names: pa.Array, blocks: list[_Block], model: Model, stream: _Stream, null_grades: int
) -> tuple[pa.Table, NDArray[np.float64]]:
    """Make the graded table; give the quality of its rows before their own noise with it."""
    keys = _row_keys(names, blocks, repeat_k=True)
    rows = [b.n_rankings for b in blocks]
    top_k = np.concatenate([np.tile(b.top_k, n) for b, n in zip(blocks, rows, strict=True)])
    rank = np.concatenate([_first_k(b) for b in blocks])
    positive = rank < np.repeat(keys["Np"].to_numpy(), top_k)
    quality = np.concatenate([b.quality.ravel() for b in blocks])
    grade = _grades(quality + model.noise * stream.noise("grade", quality.size), model)
    missing = np.zeros(quality.size, dtype=bool)
    missing[np.argsort(stream.raw("null grades", quality.size), kind="stable")[:null_grades]] = True
    k_text = pc.cast(pa.array(top_k), pa.string())
    table = {
        **keys,
        "K": pa.array(top_k),
        "rank": _lists(top_k, rank),
        "inK": _lists(top_k, positive.astype(np.int64)),
        "answer_ideal": _join("ideal answer for ", keys["id"], " (simulated)"),
        "answer_topK": _join(
            "answer for ", keys["id"], " from the top ", k_text, " of ", keys["E"], " (simulated)"
        ),
        "grade": pa.array(grade, mask=missing),
        "P": pa.array(np.concatenate([(b.found / b.top_k).ravel() for b in blocks])),
        "R": pa.array(np.concatenate([(b.found / b.n_relevant).ravel() for b in blocks])),
    }
    return pa.table(table), quality


def _first_k(block: _Block) -> NDArray[np.int64]:
    """Lay the first K of each ranking, for every K, end to end."""
    n_candidates = block.rank.shape[-1]
    within = np.arange(n_candidates) < block.top_k[:, None]
    shape = (*block.rank.shape[:2], block.top_k.size, n_candidates)
    return np.broadcast_to(block.rank[:, :, None, :], shape)[np.broadcast_to(within, shape)]


def _join(*parts: str | pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")


def _human(
    graded: pa.Table,
    quality: NDArray[np.float64],
    model: Model,
    stream: _Stream,
    scale: float,
) -> pa.Table:
    """Sample graded rows, each read by three simulated people with a noise of their own."""
    n_rows = min(graded.num_rows, max(20, round(N_HUMAN * scale)))
    chosen = np.argsort(stream.raw("human rows", graded.num_rows), kind="stable")[:n_rows]
    chosen.sort()
    keys = ["id", "E", "Nc", "Np", "K", "answer_ideal", "answer_topK", "grade"]
    sample = graded.select(keys).take(pa.array(chosen))
    limit = np.uint64(round(model.human_missing * 2**32))
    for person in (1, 2, 3):
        own = model.human_noise * stream.noise(f"human {person}", n_rows)
        missing = (stream.raw(f"human missing {person}", n_rows) >> np.uint64(32)) < limit
        grade = pa.array(_grades(quality[chosen] + own, model), mask=missing)
        sample = sample.append_column(f"grade_human_{person}", grade)
    return sample


def made_here(dataset: Dataset) -> bool:
    """Tell whether a dataset's texts say that they are simulated, as those of `write_json` do.

    Parameters
    ----------
    dataset : Dataset
        Looked at are its first answers or, where it has none, its first queries.

    Returns
    -------
    bool
        True if every text looked at ends with "(simulated)".
    """
    part, column = ("graded", "answer_ideal") if "graded" in dataset.parts else ("texts", "q")
    if part not in dataset.parts:
        return False
    first = pq.ParquetFile(dataset.path(part)).iter_batches(1000, columns=[column])
    texts = next(first, pa.record_batch({column: pa.array([], pa.string())}))[column]
    return len(texts) > 0 and all(str(text).endswith("(simulated)") for text in texts.to_pylist())


def write_json(dataset: Dataset, folder: Path) -> list[Path]:
    """Write a dataset as JSON files in the published format.

    Parameters
    ----------
    dataset : Dataset
        Any dataset; a simulated one stays recognisable by its texts.
    folder : Path
        Where the files go; made if it is not there.

    Returns
    -------
    list of Path
        ``samples_texts.json`` and so on, one for each part of the dataset.

    Raises
    ------
    UsageError
        If a file is there already.
    DataError
        If the folder cannot be written.
    """
    paths = {part: folder / f"{schema.PARTS[part].stem}.json" for part in dataset.parts}
    check_free(folder, dataset.parts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for part, path in paths.items():
            with outputs.placing(path) as new:
                _write_part(dataset, part, new)
    except (OSError, duckdb.IOException) as error:
        raise DataError(f"{folder} cannot be written: {error}.") from error
    return list(paths.values())


def check_free(folder: Path, parts: Iterable[str] = tuple(schema.PARTS)) -> None:
    """Refuse a folder that cannot be written to or has files of the published format already."""
    for part in parts:
        path = folder / f"{schema.PARTS[part].stem}.json"
        if os.path.lexists(path):
            raise UsageError(f"{path} is there already: remove it or name another folder.")
    outputs.check_writable(folder)


def _write_part(dataset: Dataset, part: str, path: Path) -> None:
    """Write one part: by DuckDB, or record by record where a record may lack a key."""
    source = dataset.path(part)
    optional = [field.name for field in schema.PARTS[part].fields if not field.required]
    if optional:
        records = pq.read_table(source).to_pylist()
        for record in records:
            for name in optional:
                if record[name] is None:
                    del record[name]
        path.write_text(json.dumps(records, ensure_ascii=False), encoding="utf-8")
        return
    grades = [name for name in dataset.columns(part) if name.startswith("grade")]
    whole = ", ".join(f'CAST("{name}" AS TINYINT) AS "{name}"' for name in grades)
    with connect() as connection:
        connection.execute(
            f"COPY (SELECT * {f'REPLACE ({whole})' if whole else ''} FROM read_parquet($source)) "
            "TO $path (FORMAT json, ARRAY true)",
            {"source": str(source), "path": str(path)},
        )
