"""How much of a quantity goes with the dataset, with the ratio K/N_p, and with the embedding.

The paper's fourth conclusion says that the type of document and the ratio matter more than the
embedding. Here it becomes a number: the cell values y (dataset d, ratio r, embedding e) on a
complete grid, every cell with the same weight, are decomposed as in a balanced analysis of
variance without replication,

    y = mean + dataset + ratio + embedding + dataset x ratio + the rest,

and each part's sum of squares is divided by the total. The parts are orthogonal because the grid
is complete, so the shares do not depend on an order and sum to 1. "The rest" holds what varies
with the embedding beyond its own mean, and the noise of the cells.

References
----------
.. [1] arXiv 2512.20854, conclusion 4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

PARTS = ("dataset", "ratio", "embedding", "dataset x ratio", "rest")
"""Names of the shares, in the order of every result."""


@dataclass(frozen=True)
class Support:
    """The complete grid that shares are computed on.

    Attributes
    ----------
    datasets, ratios, embeddings : tuple of str
        Every combination of these is a cell.
    n_cells : int
        Cells of the grid.
    n_total : int
        Cells that there are, on the grid or not.
    """

    datasets: tuple[str, ...]
    ratios: tuple[str, ...]
    embeddings: tuple[str, ...]
    n_total: int

    @property
    def n_cells(self) -> int:
        """Cells of the grid."""
        return len(self.datasets) * len(self.ratios) * len(self.embeddings)

    def positions(self, cells: pd.DataFrame) -> NDArray[np.int64]:
        """Row in `cells` of every grid cell, shape (datasets, ratios, embeddings)."""
        keys = zip(cells["dataset"], cells["segment"], cells["embedding"], strict=True)
        row = {key: i for i, key in enumerate(keys)}
        return np.array(
            [[[row[d, r, e] for e in self.embeddings] for r in self.ratios] for d in self.datasets],
            dtype=np.int64,
        ).reshape(len(self.datasets), len(self.ratios), len(self.embeddings))


def common_support(cells: pd.DataFrame) -> Support:
    """Find the largest complete grid: all embeddings, some datasets, the ratios these share.

    Parameters
    ----------
    cells : DataFrame
        One row a cell, with the columns ``dataset``, ``segment`` (a ratio) and ``embedding``;
        only cells whose value is defined.

    Returns
    -------
    Support
        Of all sets of datasets the one whose shared ratios give most cells; between equals the
        one of more datasets. Empty where no two cells make a grid.

    Examples
    --------
    >>> cells = pd.DataFrame([("A", "0.5", "x"), ("A", "1.0", "x"), ("M", "1.0", "x"),
    ...                       ("M", "0.5", "x"), ("N", "1.0", "x")],
    ...                      columns=["dataset", "segment", "embedding"])
    >>> common_support(cells).datasets, common_support(cells).ratios
    (('A', 'M'), ('0.5', '1.0'))
    """
    embeddings = tuple(dict.fromkeys(cells["embedding"]))
    complete = cells.groupby(["dataset", "segment"], observed=True)["embedding"].nunique()
    ratios_of: dict[str, set[str]] = {}
    for (dataset, ratio), n in complete.items():
        if n == len(embeddings):
            ratios_of.setdefault(str(dataset), set()).add(str(ratio))
    names = [name for name in dict.fromkeys(cells["dataset"].astype(str)) if name in ratios_of]
    best: tuple[int, int, tuple[str, ...], set[str]] = (0, 0, (), set())
    for subset in _subsets(names):
        shared = set.intersection(*(ratios_of[name] for name in subset))
        score = (len(subset) * len(shared), len(subset))
        if score > best[:2]:
            best = (*score, subset, shared)
    ratios = tuple(sorted(best[3], key=float))
    return Support(best[2], ratios, embeddings if ratios else (), len(cells))


def _subsets(names: list[str]) -> list[tuple[str, ...]]:
    """All sets of the names; from the thirteenth name on only the first are combined."""
    few = names[:12]
    chosen = [
        tuple(name for i, name in enumerate(few) if bits >> i & 1)
        for bits in range(1, 2 ** len(few))
    ]
    return [*chosen, tuple(names)] if len(names) > len(few) else chosen


def shares(values: FloatArray) -> FloatArray:
    """Share of the variation that goes with each of `PARTS`.

    Parameters
    ----------
    values : ndarray, shape (..., datasets, ratios, embeddings)
        The cell values on a complete grid; leading axes are replicates.

    Returns
    -------
    ndarray, shape (..., 5)
        In the order of `PARTS`, each between 0 and 1, summing to 1; NaN where a cell is undefined
        or where nothing varies.

    Examples
    --------
    >>> ratio_only = np.array([[[1.0, 1.0], [2.0, 2.0]], [[1.0, 1.0], [2.0, 2.0]]])
    >>> shares(ratio_only).tolist()
    [0.0, 1.0, 0.0, 0.0, 0.0]
    """
    grid = (-3, -2, -1)
    mean = values.mean(axis=grid, keepdims=True)
    by_dataset = values.mean(axis=(-2, -1), keepdims=True) - mean
    by_ratio = values.mean(axis=(-3, -1), keepdims=True) - mean
    by_embedding = values.mean(axis=(-3, -2), keepdims=True) - mean
    both = values.mean(axis=-1, keepdims=True) - mean - by_dataset - by_ratio
    parts = [by_dataset, by_ratio, by_embedding, both]
    rest = values - mean - by_dataset - by_ratio - by_embedding - both
    squares = np.stack(
        [np.broadcast_to(part, values.shape) ** 2 for part in [*parts, rest]], axis=0
    ).sum(axis=grid)
    total = squares.sum(axis=0)
    scale = np.square(values).sum(axis=grid)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(total > 1e-12 * scale, squares / total, np.nan)
    return np.moveaxis(share, 0, -1)


def between(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Variance between kinds of document and ratio, and between embeddings within one of these.

    Compared per degree of freedom, and with every interaction of the embedding counted for the
    embedding: the mean square of the (dataset, ratio) means less what the embeddings contribute to
    it, against the mean square within a (dataset, ratio).

    Parameters
    ----------
    values : ndarray, shape (1 + replicates, datasets, ratios, embeddings)
        The cell values on a complete grid; the data themselves first.

    Returns
    -------
    documents, embedding : ndarray, shape (1 + replicates,)
        Variance components in squared units of the values, without the noise of the cells, which
        may leave one below 0. NaN where a cell is undefined or there is one embedding only.

    Notes
    -----
    Noise is what the cells of a replicate differ by from the mean of all replicates. It has the
    dependence between cells that sharing queries brings, so both components of it are taken off
    as they are: once on the data, twice on a replicate, which holds it twice.

    Examples
    --------
    >>> grid = np.array([[1.0, 1.0], [3.0, 3.0]])[np.newaxis, :, :, np.newaxis]
    >>> same = np.repeat(np.repeat(grid, 2, axis=3), 3, axis=0)
    >>> [np.round(part, 6).tolist() for part in between(same)]
    [[1.333333, 1.333333, 1.333333], [0.0, 0.0, 0.0]]
    """
    found = _components(values)
    noise = _components(values[1:] - np.nanmean(values[1:], axis=0)).mean(axis=1)
    times = np.where(np.arange(len(values)) == 0, 1.0, 2.0)
    documents, embedding = found - noise[:, np.newaxis] * times
    return documents, embedding


def _components(values: FloatArray) -> FloatArray:
    """Variance components of documents and of the embedding, shape (2, replicates)."""
    embeddings = values.shape[-1]
    if embeddings < 2:
        return np.full((2, len(values)), np.nan)
    within = values.var(axis=-1, ddof=1).mean(axis=(-2, -1))
    means = values.mean(axis=-1).reshape(len(values), -1)
    return np.array([means.var(axis=1, ddof=1) - within / embeddings, within])
