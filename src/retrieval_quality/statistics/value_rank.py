"""Rank correlations and means of clustered rows, with intervals by query, without resampling.

Rows of one query are not independent of each other. Each statistic here is a smooth function of
averages, so what one row adds to it (its influence) is known in closed form; the spread of the
sums over queries gives the standard error (the infinitesimal jackknife). That is what a
bootstrap by query estimates too, at the cost of one pass. Differences of two statistics on the same
rows are paired: their influences are subtracted before they are summed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Ranked(NamedTuple):
    """A rank correlation and what each row adds to it.

    Attributes
    ----------
    value : float
        In [-1, 1]; NaN where a side is constant.
    influence : ndarray, shape (rows,)
        Mean 0; the statistic on slightly other rows is `value` plus the mean of it over them.
    """

    value: float
    influence: FloatArray


def _above(stratum: IntArray, codes: IntArray, size: int, weight: FloatArray) -> FloatArray:
    """For each row: the weight of the rows of its stratum with a greater value, ties by half."""
    table = np.bincount(stratum * size + codes, weight, (stratum.max() + 1) * size)
    table = table.reshape(-1, size)
    above = table.sum(axis=1, keepdims=True) - np.cumsum(table, axis=1) + table / 2
    return np.asarray(above.ravel()[stratum * size + codes])


def spearman(
    x: NDArray[np.floating], y: NDArray[np.floating], stratum: IntArray | None = None
) -> Ranked:
    """Spearman's rank correlation, or its mean within strata, with the influence of each row.

    Parameters
    ----------
    x, y : ndarray, shape (rows,)
        Without NaN. Ties have their mean rank.
    stratum : ndarray of int, shape (rows,), optional
        Ranks are taken within each; covariances and variances are then averaged by rows.

    Returns
    -------
    Ranked
        NaN and zeros where `x` or `y` is constant in every stratum.

    Examples
    --------
    >>> spearman(np.array([1.0, 2, 3, 4]), np.array([1.0, 3, 2, 4])).value
    0.8
    """
    n = len(x)
    if n == 0:
        return Ranked(math.nan, np.zeros(0))
    group = np.zeros(n, np.int64) if stratum is None else stratum
    rows = np.bincount(group).astype(float)
    share = rows[group]
    codes, sizes, ranks = [], [], []
    for values in (x, y):
        distinct, code = np.unique(values, return_inverse=True)
        codes.append(code.astype(np.int64))
        sizes.append(len(distinct))
        above = _above(group, codes[-1], sizes[-1], np.ones(n))
        ranks.append(1 - above / share)
    f, g = ranks

    def within(values: FloatArray) -> FloatArray:
        return (np.bincount(group, values) / np.maximum(rows, 1))[group]

    def later(side: int, weight: FloatArray) -> FloatArray:
        return _above(group, codes[side], sizes[side], weight) / share

    products = f * g, f * f, g * g
    covariance, x_variance, y_variance = (float((p - 0.25).mean()) for p in products)
    if min(x_variance, y_variance) < 1e-12:
        return Ranked(math.nan, np.zeros(n))
    # a row moves the ranks of those above it as well as adding its own product
    of_covariance = products[0] + later(0, g) + later(1, f) - 3 * within(products[0])
    of_x = products[1] + 2 * later(0, f) - 3 * within(products[1])
    of_y = products[2] + 2 * later(1, g) - 3 * within(products[2])
    root = math.sqrt(x_variance * y_variance)
    value = covariance / root
    influence = of_covariance / root - value / 2 * (of_x / x_variance + of_y / y_variance)
    return Ranked(round(value, 12), influence)


def totals(query: IntArray, influence: FloatArray, queries: int) -> FloatArray:
    """Sum by query: ndarray of shape (queries,)."""
    return np.bincount(query, influence, queries).astype(np.float64)


def spread(sums: FloatArray, n: float, level: float = 0.95) -> tuple[float, float]:
    """Give the standard error of a mean influence, and half the width of its interval.

    Parameters
    ----------
    sums : ndarray, shape (queries,)
        Sums of the influence over the rows of each query that has any.
    n : float
        Rows.
    level : float
        Of the interval, in (0, 1); Student's t with one degree of freedom less than queries.

    Returns
    -------
    error, half : float
        NaN with fewer than two queries.

    Examples
    --------
    >>> error, half = spread(np.array([-1.0, 1.0, -1.0, 1.0]), 4)
    >>> round(error, 4), round(half, 3)
    (0.5774, 1.837)
    """
    queries = len(sums)
    if queries < 2 or n <= 0:
        return math.nan, math.nan
    error = math.sqrt(float((sums**2).sum()) * queries / (queries - 1)) / n
    return error, error * float(student.ppf((1 + level) / 2, queries - 1))


@dataclass(frozen=True)
class Estimate:
    """A statistic, and what each query adds to it: estimates can be subtracted and divided.

    Attributes
    ----------
    value : float
        NaN where undefined.
    sums : ndarray, shape (queries,)
        Influence of each query, over the rows; estimates that are combined share the numbering.
    present : ndarray of bool, shape (queries,)
        Queries that the statistic rests on.
    n : int
        Rows.

    Examples
    --------
    >>> query = np.arange(4)
    >>> one = Estimate.of(2.0, np.array([-1.0, 1.0, -1.0, 1.0]), query, 4)
    >>> one.minus(one).interval(), one.over(one).value, int(one.present.sum())
    ((0.0, 0.0), 1.0, 4)
    """

    value: float
    sums: FloatArray
    present: NDArray[np.bool_]
    n: int

    @staticmethod
    def of(value: float, influence: FloatArray, query: IntArray, queries: int) -> Estimate:
        """Give the estimate of a statistic whose rows have an influence of mean 0."""
        n = len(influence)
        sums = totals(query, influence, queries) / max(n, 1)
        return Estimate(value, sums, np.bincount(query, minlength=queries) > 0, n)

    @staticmethod
    def mean(values: FloatArray, query: IntArray, queries: int) -> Estimate:
        """Give the mean of some rows."""
        value = float(values.mean()) if len(values) else math.nan
        return Estimate.of(value, values - value, query, queries)

    @staticmethod
    def pool(parts: Sequence[Estimate]) -> Estimate:
        """Give the mean of several, weighted by rows; those that are undefined are left out."""
        known = [part for part in parts if not math.isnan(part.value)]
        if not known:
            zeros = np.zeros(len(parts[0].sums)) if parts else np.zeros(0)
            return Estimate(math.nan, zeros, zeros > 0, 0)
        n = sum(part.n for part in known)
        return Estimate(
            sum(part.n * part.value for part in known) / n,
            np.sum([part.n * part.sums for part in known], axis=0) / n,
            np.any([part.present for part in known], axis=0),
            n,
        )

    def minus(self, other: Estimate) -> Estimate:
        """Give the difference, paired by query."""
        present = self.present | other.present
        return Estimate(
            self.value - other.value, self.sums - other.sums, present, min(self.n, other.n)
        )

    def over(self, other: Estimate) -> Estimate:
        """Give the ratio, paired by query (delta method); NaN where the divisor is not above 0."""
        present = self.present | other.present
        if not other.value > 0:
            return Estimate(math.nan, np.zeros(len(present)), present, min(self.n, other.n))
        ratio = self.value / other.value
        sums = (self.sums - ratio * other.sums) / other.value
        return Estimate(ratio, sums, present, min(self.n, other.n))

    def turned(self, value: float, slope: float) -> Estimate:
        """Give a function of the statistic, by its value and its slope here."""
        return Estimate(value, slope * self.sums, self.present, self.n)

    def root(self) -> Estimate:
        """Give the square root; NaN where the value is not above 0."""
        if not self.value > 0:
            return self.turned(math.nan, 0.0)
        root = math.sqrt(self.value)
        return self.turned(root, 1 / (2 * root))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Give the ends of its interval; NaN with fewer than two queries."""
        half = spread(self.sums[self.present], 1, level)[1]
        if math.isnan(self.value):
            half = math.nan
        return self.value - half, self.value + half

    def record(self) -> tuple[float, float, float, int, int]:
        """Give value, ends of its 95% interval, rows and queries."""
        return self.value, *self.interval(), self.n, int(self.present.sum())
