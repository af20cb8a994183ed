"""Labels of rows: the ratio K / N_p to one decimal, and narrow against wide retrieval.

The ratio is rounded as Python's ``round`` does it (1.25 -> 1.2, 0.75 -> 0.8), because the published
method does; NumPy's ``round`` and SQL's differ in some cases.

References
----------
.. [1] S. Schwartz, O. Vasilyev, R. Sawaya, "How important is Recall for Measuring Retrieval
   Quality?", arXiv 2512.20854, figures 5 and 6.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from retrieval_quality.errors import DataError, UsageError

NARROW, WIDE = "narrow", "wide"

GROUPINGS = ("dataset", "subset")
"""What a segment can be drawn from: a dataset (Hp) or one difficulty of it (Hp-e)."""


def ratio_label(top_k: ArrayLike, n_relevant: ArrayLike) -> pd.Categorical:
    """Ratio of retrieved to relevant documents, K / N_p, rounded to one decimal, as text.

    Parameters
    ----------
    top_k, n_relevant : array_like of int, shape (n,)
        K, 0 and above, and N_p, 1 and above.

    Returns
    -------
    pandas.Categorical, shape (n,)
        Ordered; the categories are the ratios that occur, in numeric order.

    Raises
    ------
    DataError
        If K is negative or N_p below 1.

    Examples
    --------
    >>> list(ratio_label([5, 3, 10], [4, 4, 10]))
    ['1.2', '0.8', '1.0']
    """
    retrieved, relevant = _pair(top_k, n_relevant)
    width = int(relevant.max(initial=0)) + 1
    codes, pairs = pd.factorize(retrieved * width + relevant)
    ratios = np.array([round(int(pair) // width / (int(pair) % width), 1) for pair in pairs])
    values, position = np.unique(ratios, return_inverse=True)
    labels = [str(value) for value in values.tolist()]
    return pd.Categorical.from_codes(position[codes], categories=labels, ordered=True)


def width_label(top_k: ArrayLike, n_relevant: ArrayLike) -> pd.Categorical:
    """Say whether a retrieval is narrow (K < N_p) or wide (K >= N_p).

    Parameters
    ----------
    top_k, n_relevant : array_like of int, shape (n,)
        K, 0 and above, and N_p, 1 and above.

    Returns
    -------
    pandas.Categorical, shape (n,)
        Ordered, with the categories narrow and wide.

    Raises
    ------
    DataError
        If K is negative or N_p below 1.

    Examples
    --------
    >>> list(width_label([3, 4, 5], [4, 4, 4]))
    ['narrow', 'wide', 'wide']
    """
    retrieved, relevant = _pair(top_k, n_relevant)
    codes = (retrieved >= relevant).astype(np.int8)
    return pd.Categorical.from_codes(codes, categories=[NARROW, WIDE], ordered=True)


@dataclass(frozen=True)
class Segmentation:
    """A way to cut rows into segments.

    Attributes
    ----------
    name : str
        Name on the command line and in result tables.
    label : callable
        From K and N_p to one label a row.
    min_samples : int
        Rows that a segment must have, as published.
    summary : str
        One sentence.
    """

    name: str
    label: Callable[[ArrayLike, ArrayLike], pd.Categorical]
    min_samples: int
    summary: str


SEGMENTATIONS: dict[str, Segmentation] = {
    "ratio": Segmentation("ratio", ratio_label, 300, "K / N_p rounded to one decimal."),
    "narrow-wide": Segmentation("narrow-wide", width_label, 100, "K below N_p, or not below."),
}


def lookup(name: str) -> Segmentation:
    """Segmentation by name.

    Parameters
    ----------
    name : str
        As in `SEGMENTATIONS`.

    Returns
    -------
    Segmentation
        The one of that name.

    Raises
    ------
    UsageError
        If there is none; says which there are.

    Examples
    --------
    >>> lookup("ratio").min_samples
    300
    """
    if name not in SEGMENTATIONS:
        raise UsageError(f"No segmentation is named {name}; there are {', '.join(SEGMENTATIONS)}.")
    return SEGMENTATIONS[name]


def label_segments(rows: pd.DataFrame, segmentation: str) -> pd.Series:
    """Segment of every row.

    Parameters
    ----------
    rows : DataFrame
        Has the columns ``K`` and ``Np`` of the scored rows.
    segmentation : {"ratio", "narrow-wide"}
        Name in `SEGMENTATIONS`.

    Returns
    -------
    Series of ordered category, named ``segment``
        With the index of `rows`; the categories are in numeric order.

    Raises
    ------
    UsageError
        If the segmentation is unknown.
    DataError
        If K is negative or N_p below 1.

    Examples
    --------
    >>> label_segments(pd.DataFrame({"K": [10, 2], "Np": [2, 2]}), "ratio").cat.categories.tolist()
    ['1.0', '5.0']
    """
    labels = lookup(segmentation).label(rows["K"], rows["Np"])
    return pd.Series(labels, index=rows.index, name="segment")


def group(rows: pd.DataFrame, by: str = "dataset") -> pd.Series:
    """Column of the scored rows that segments are drawn from.

    Parameters
    ----------
    rows : DataFrame
        Scored rows.
    by : {"dataset", "subset"}
        ``subset`` tells the difficulties of HotpotQA apart.

    Returns
    -------
    Series
        One name a row.

    Raises
    ------
    UsageError
        If `by` is neither.

    Examples
    --------
    >>> rows = pd.DataFrame({"dataset": ["Hp", "A"], "subset": ["Hp-e", "A"]})
    >>> list(group(rows, "subset"))
    ['Hp-e', 'A']
    """
    if by not in GROUPINGS:
        raise UsageError(f"Segments are drawn by {' or '.join(GROUPINGS)}, not by {by}.")
    return rows[by]


def segment_sizes(
    rows: pd.DataFrame, segmentation: str, by: str = "dataset", weight: str | None = None
) -> pd.DataFrame:
    """Count the rows of every segment, graded ones and all.

    Parameters
    ----------
    rows : DataFrame
        Scored rows: ``K``, ``Np``, ``E``, ``grade`` and the column `by`.
    segmentation : {"ratio", "narrow-wide"}
        Name in `SEGMENTATIONS`.
    by : {"dataset", "subset"}
        What the segments are drawn from.
    weight : str, optional
        Column that says how many rows each one stands for; one each by default.

    Returns
    -------
    DataFrame
        One row a segment that occurs: ``dataset`` (the value of `by`), ``embedding``, ``segment``,
        ``n`` (rows with a grade), ``n_total`` (all rows).

    Raises
    ------
    UsageError
        If `segmentation` or `by` is unknown.

    Examples
    --------
    >>> rows = pd.DataFrame({"dataset": ["A", "A"], "E": ["ME5S", "ME5S"],
    ...                      "K": [2, 2], "Np": [4, 4], "grade": [5.0, float("nan")]})
    >>> segment_sizes(rows, "ratio").values.tolist()
    [['A', 'ME5S', '0.5', 1, 2]]
    """
    keys = [
        group(rows, by).rename("dataset"),
        rows["E"].rename("embedding"),
        label_segments(rows, segmentation),
    ]
    times = rows[weight] if weight else pd.Series(1, index=rows.index)
    sizes = pd.DataFrame({"n": times.where(rows["grade"].notna(), 0), "n_total": times})
    return sizes.groupby(keys, observed=True).sum().reset_index()


def _pair(top_k: ArrayLike, n_relevant: ArrayLike) -> tuple[Any, Any]:
    retrieved = np.asarray(top_k).astype(np.int64)
    relevant = np.asarray(n_relevant).astype(np.int64)
    wrong = (retrieved < 0) | (relevant < 1)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"Row {row}: K = {retrieved[row]} with N_p = {relevant[row]} has no ratio; "
            "K must be 0 or more and N_p 1 or more."
        )
    return retrieved, relevant


RANGES: dict[str, tuple[float, float]] = {
    "≤ 0.5": (0.0, 0.5),
    "0.6–0.9": (0.6, 0.9),
    "1.0": (1.0, 1.0),
    "1.1–2.0": (1.1, 2.0),
    "2.1–4.0": (2.1, 4.0),
    "> 4.0": (4.1, math.inf),
}
"""Ranges of the rounded ratio K/N_p, ends included."""


def range_of(segment: str | float) -> str:
    """Give the range that a rounded ratio lies in.

    Parameters
    ----------
    segment : str or float
        Label of a ratio segment, such as ``1.2``.

    Returns
    -------
    str
        A key of `RANGES`.

    Examples
    --------
    >>> [range_of(ratio) for ratio in ("0.5", "0.6", "1.0", "4.1")]
    ['≤ 0.5', '0.6–0.9', '1.0', '> 4.0']
    """
    ratio = round(float(segment), 1)
    return next(name for name, (low, high) in RANGES.items() if low <= ratio <= high)


def segment_order(labels: Sequence[str]) -> list[str]:
    """Sort segment labels: ratios by value, narrow before wide.

    Examples
    --------
    >>> segment_order(["10.0", "2.0"]), segment_order(["wide", "narrow"])
    (['2.0', '10.0'], ['narrow', 'wide'])
    """

    def place(label: str) -> tuple[float, str]:
        try:
            return float(label), label
        except ValueError:
            return math.inf, label

    return sorted(labels, key=place)
