r"""The correlation as a function of alpha, with ties decided as in exact arithmetic.

T and T_u are linear in alpha, and so is -1/F: each key of a measure (a distinct combination of
the whole numbers behind it) is a straight line

.. math:: y(\alpha) = (A + \alpha B) / D, \qquad A, B, D \text{ whole}, D > 0

that orders rows as the measure does. F and F_e take the 1e-10 of the published F_e away; rows with
n_p = 0 have F = 0 at every alpha and stand below all others. Two lines cross at one fraction

.. math:: \alpha_{ij} = (A_j D_i - A_i D_j) / (B_i D_j - B_j D_i)

so the order of the rows changes at finitely many alphas. A rank coefficient is constant between two
neighbouring ones; its values there and at the crossings themselves are all that it takes on [0, 1].

Why float64 suffices. Numerators and denominators of the crossings are whole numbers below
Q = 2**26, which `exact_lines` checks. Two different fractions of that kind are at least
1/Q**2 = 2**-52 apart, two numbers in [0, 1] that round to the same float64 at most 2**-53. Division
is correctly rounded, so different crossings give different floats, in the right order, and equal
crossings give equal floats. No further decision is made by floats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.measures import Measure
from retrieval_quality.statistics.counts import (
    ALPHAS,
    COEFFICIENTS,
    Counts,
    FloatArray,
    IntArray,
    Prepared,
    Table,
    compiled,
    pearson,
    prepare,
    rank_coefficients,
)

LIMIT = 2**26
"""Numerators and denominators of crossings stay below this; see the proof above."""

TOLERANCE = 1e-12
"""Values of a coefficient that are this close count as equal when the smallest alpha is sought."""

SEARCH_WIDTH = 1e-9
"""Pearson's maximum for F and F_e is bracketed to this width in alpha."""


@dataclass(frozen=True)
class Lines:
    """One line a key; keys with the same line are one.

    Attributes
    ----------
    level : ndarray of int64, shape (lines,)
        0 for the line below all others (F where n_p = 0), else 1.
    constant, slope, divisor : ndarray of int64, shape (lines,)
        A, B and D.
    reciprocal : bool
        Whether the measure is -1/y (F and F_e) or y itself (T and T_u).
    """

    level: IntArray
    constant: IntArray
    slope: IntArray
    divisor: IntArray
    reciprocal: bool

    def pearson(self, cell: Prepared, alphas: FloatArray) -> FloatArray:
        """Pearson's coefficient of a cell whose keys are these lines, at each alpha."""
        values: FloatArray = _pearson(
            cell, self.level, self.constant, self.slope, self.divisor, self.reciprocal, alphas
        )
        return values


@dataclass(frozen=True)
class Curve:
    """The rank coefficients of one cell as functions of alpha on [0, 1].

    Attributes
    ----------
    crossings : ndarray of float64, shape (m,)
        Where the order of the keys changes, ascending; each stands for one fraction.
    values : ndarray, shape (2 m + 1, 3)
        Spearman, tau-b, tau-c: row 2i between crossings i - 1 and i, row 2i + 1 at crossing i. NaN
        where undefined, and for pieces outside [0, 1].

    Examples
    --------
    >>> curve = Curve(np.array([0.25]), np.array([[0.1] * 3, [0.5] * 3, [0.2] * 3]))
    >>> curve.maximum(0), curve.at([Fraction(1, 4), 0.3])[:, 0]
    ((Fraction(1, 4), 0.5), array([0.5, 0.2]))
    """

    crossings: FloatArray
    values: FloatArray

    def fraction(self, i: int) -> Fraction:
        """Crossing i, exactly."""
        return Fraction(float(self.crossings[i])).limit_denominator(LIMIT)

    def at(self, alphas: Sequence[float | Fraction]) -> FloatArray:
        """Spearman, tau-b, tau-c at alphas in [0, 1], ties decided exactly: shape (alphas, 3)."""
        rounded = np.array([float(alpha) for alpha in alphas])
        crossing = np.searchsorted(self.crossings, rounded)
        piece = 2 * crossing
        near = np.append(self.crossings, np.nan)[crossing] == rounded
        for a in np.flatnonzero(near).tolist():
            alpha, exact = Fraction(alphas[a]), self.fraction(int(crossing[a]))
            piece[a] += int(alpha >= exact) + int(alpha > exact)
        return self.values[piece]

    def maximum(self, coefficient: int) -> tuple[Fraction | None, float]:
        """Greatest value over all alpha in [0, 1], and where it is attained first.

        Parameters
        ----------
        coefficient : int
            0 for Spearman, 1 for tau-b, 2 for tau-c.

        Returns
        -------
        alpha : Fraction or None
            The smallest crossing that attains it, or the middle of the first interval that does
            (0 if that interval begins at 0), whichever comes first; None where undefined.
        value : float
            NaN where undefined.
        """
        values = self.values[:, coefficient]
        if np.isnan(values).all():
            return None, np.nan
        best = float(np.nanmax(values))
        piece = int(np.argmax(values >= best - TOLERANCE))
        i = piece // 2
        if piece % 2:
            return self.fraction(i), best
        if i == 0:
            return Fraction(0), best
        following = self.fraction(i) if i < len(self.crossings) else Fraction(1)
        return (self.fraction(i - 1) + following) / 2, best


def exact_lines(measure: Measure, distinct: Mapping[str, Any]) -> tuple[IntArray, Lines]:
    """Lines of a measure's keys.

    Parameters
    ----------
    measure : Measure
        F, Fe, T or Tu.
    distinct : mapping of str to ndarray, each of shape (keys,)
        The columns of the measure.

    Returns
    -------
    line : ndarray of int64, shape (keys,)
        Which line each key has; -1 where the measure is undefined.
    lines : Lines
        The distinct lines.

    Raises
    ------
    UsageError
        If the measure is not known to be ordered by lines.
    DataError
        If the numbers are so large that the proof for float64 does not hold.

    Examples
    --------
    >>> from retrieval_quality.measures import MEASURES
    >>> keys = {"n_positives": np.array([1, 2]), "K": np.array([2, 4]), "Np": np.array([4, 8])}
    >>> line, lines = exact_lines(MEASURES["F"], keys)
    >>> line, lines.constant, lines.slope, lines.divisor
    (array([0, 0]), array([-4]), array([2]), array([1]))
    """
    if measure.name not in _LINES:
        raise UsageError(f"No exact alpha is known for {measure.name}; it is for {[*_LINES]}.")
    columns = [np.asarray(distinct[name], dtype=np.float64) for name in measure.columns]
    defined: Any = np.asarray(~np.isnan(np.array(columns)).any(axis=0))
    if "Np" in measure.columns:
        defined &= columns[measure.columns.index("Np")] > 0
    whole = [np.where(defined, column, 1).astype(np.int64) for column in columns]
    level, constant, slope, divisor = _LINES[measure.name](*whole)
    shared = np.gcd(np.gcd(constant, slope), divisor)
    each = np.stack([level, constant // shared, slope // shared, divisor // shared], axis=1)
    found, code = np.unique(each[defined], axis=0, return_inverse=True)
    line = np.full(len(defined), -1, dtype=np.int64)
    line[defined] = code.ravel()
    level, constant, slope, divisor = np.ascontiguousarray(found.T)
    lines = Lines(level, constant, slope, divisor, reciprocal=measure.name in ("F", "Fe"))
    largest = np.abs(found[:, 1:3]).max(initial=0)
    if 2 * int(largest) * int(lines.divisor.max(initial=1)) >= LIMIT:
        raise DataError(
            f"K or N_p is too large for exact ties of {measure.name}: they are certain up to "
            "about K = 300. Leave out longer retrievals, or use the published alpha."
        )
    return line, lines


def curves(counts: Counts, measure: Measure) -> tuple[Lines, Table, list[Curve]]:
    """Rank coefficients of every cell as functions of alpha.

    Parameters
    ----------
    counts : Counts
        Has the columns of `measure`.
    measure : Measure
        F, Fe, T or Tu.

    Returns
    -------
    lines : Lines
        The keys of `table`.
    table : Table
        Counts by cell, line and grade.
    curves : list of Curve
        One a cell.
    """
    key, distinct = counts.keys(measure.columns)
    line, lines = exact_lines(measure, distinct)
    table = counts.table(line[key])
    return lines, table, [_curve(lines, table, cell) for cell in range(len(table))]


def maxima(counts: Counts, measure: Measure) -> tuple[Table, FloatArray, FloatArray]:
    """Greatest coefficients over all alpha in [0, 1], and where.

    Rank coefficients by `Curve.maximum`. Pearson for T and T_u in closed form; for F and F_e by
    golden-section search between neighbours of every local maximum on the published grid, to a
    width of `SEARCH_WIDTH` in alpha (the coefficient is flat there, so its error is far smaller).

    Parameters
    ----------
    counts : Counts
        Has the columns of `measure`.
    measure : Measure
        F, Fe, T or Tu.

    Returns
    -------
    table : Table
        Counts by cell, line and grade.
    alpha, value : ndarray of float64, shape (cells, 4)
        In the order of `COEFFICIENTS`; NaN where undefined.
    """
    lines, table, found = curves(counts, measure)
    alpha, value = np.full((2, len(table), len(COEFFICIENTS)), np.nan)
    for cell, curve in enumerate(found):
        alpha[cell, 1], value[cell, 1] = _best_pearson(lines, table, cell)
        for place, coefficient in zip(_RANK_PLACES, range(3), strict=True):
            at, value[cell, place] = curve.maximum(coefficient)
            alpha[cell, place] = np.nan if at is None else float(at)
    return table, alpha, value


def at_alphas(
    counts: Counts, measure: Measure, alphas: Sequence[float | Fraction]
) -> tuple[Table, FloatArray]:
    """Every coefficient at given alphas, ties decided exactly.

    Parameters
    ----------
    counts : Counts
        Has the columns of `measure`.
    measure : Measure
        F, Fe, T or Tu.
    alphas : sequence of float or Fraction
        In [0, 1]; a float is taken as the fraction that it is.

    Returns
    -------
    table : Table
        Counts by cell, line and grade.
    values : ndarray, shape (cells, alphas, 4)
        In the order of `COEFFICIENTS`; NaN where undefined.
    """
    lines, table, found = curves(counts, measure)
    values = np.full((len(table), len(alphas), len(COEFFICIENTS)), np.nan)
    rounded = np.array([float(alpha) for alpha in alphas])
    for cell, curve in enumerate(found):
        prepared, own = _cell(lines, table, cell)
        values[cell][:, _RANK_PLACES] = curve.at(alphas)
        values[cell, :, 1] = own.pearson(prepared, rounded)
    return table, values


# --- lines of each measure ----------------------------------------------------------------------

_RANK_PLACES = [COEFFICIENTS.index(name) for name in ("spearman", "kendall_b", "kendall_c")]


def _f_lines(n_positives: IntArray, top_k: IntArray, n_relevant: IntArray) -> tuple[IntArray, ...]:
    found = n_positives > 0
    constant = np.where(found, -n_relevant, 0)
    slope = np.where(found, n_relevant - top_k, 0)
    return found.astype(np.int64), constant, slope, np.where(found, n_positives, 1)


def _t_lines(n_positives: IntArray, top_k: IntArray) -> tuple[IntArray, ...]:
    slope = -(n_positives * top_k + top_k - n_positives)
    return np.ones_like(top_k), n_positives * top_k, slope, np.maximum(top_k, 1)


def _tu_lines(n_positives: IntArray, top_k: IntArray) -> tuple[IntArray, ...]:
    return np.ones_like(top_k), n_positives, -top_k, np.ones_like(top_k)


_LINES: dict[str, Callable[..., tuple[IntArray, ...]]] = {
    "F": _f_lines,
    "Fe": _f_lines,
    "T": _t_lines,
    "Tu": _tu_lines,
}


# --- one cell -----------------------------------------------------------------------------------


def _cell(lines: Lines, table: Table, cell: int) -> tuple[Prepared, Lines]:
    entries = slice(table.start[cell], table.start[cell + 1])
    keys = table.key[entries]
    own = (lines.level[keys], lines.constant[keys], lines.slope[keys], lines.divisor[keys])
    return prepare(table.counts[entries], table.grades), Lines(*own, lines.reciprocal)


def _curve(lines: Lines, table: Table, cell: int) -> Curve:
    prepared, own = _cell(lines, table, cell)
    counts = table.counts[table.start[cell] : table.start[cell + 1]]
    crossing = _crossings(own.level, own.constant, own.slope, own.divisor)
    order = _order_before_0(own.level, own.constant, own.slope, own.divisor)
    alphas = np.unique(crossing[crossing >= 0])
    return Curve(alphas, _sweep(prepared, counts, order, crossing, alphas))


@compiled
def _crossings(
    level: IntArray, constant: IntArray, slope: IntArray, divisor: IntArray
) -> FloatArray:
    """Alpha in [0, 1] where lines i and j cross, shape (lines, lines); -1 where they do not."""
    n = len(level)
    crossing = np.full((n, n), -1.0)
    for i in range(n):
        for j in range(i):
            numerator = constant[j] * divisor[i] - constant[i] * divisor[j]
            denominator = slope[i] * divisor[j] - slope[j] * divisor[i]
            if denominator < 0:
                numerator, denominator = -numerator, -denominator
            if level[i] == level[j] and denominator > 0 and 0 <= numerator <= denominator:
                crossing[i, j] = crossing[j, i] = numerator / denominator
    return crossing


@compiled
def _order_before_0(
    level: IntArray, constant: IntArray, slope: IntArray, divisor: IntArray
) -> IntArray:
    """Lines from lowest to highest at an alpha just below 0."""
    order = np.arange(len(level))
    for place in range(1, len(order)):
        i, j = order[place], place
        while j > 0:
            other = order[j - 1]
            above = level[other] - level[i]
            if above == 0:
                above = constant[other] * divisor[i] - constant[i] * divisor[other]
            if above == 0:
                above = slope[i] * divisor[other] - slope[other] * divisor[i]
            if above <= 0:
                break
            order[j] = other
            j -= 1
        order[j] = i
    return order


@compiled
def _sweep(
    cell: Prepared, counts: FloatArray, order: IntArray, crossing: FloatArray, alphas: FloatArray
) -> FloatArray:
    """Coefficients between and at the crossings; the lines that meet at one are neighbours there.

    Before a crossing its lines stand next to each other, at it they are tied, and after it they
    stand the other way round.
    """
    n, m = len(order), len(alphas)
    values = np.full((2 * m + 1, 3), np.nan)
    below, tied = np.empty(counts.shape[1]), np.zeros(n, dtype=np.bool_)
    for piece in range(2 * m + 1):
        a, at_crossing = piece // 2, piece % 2 == 1
        if at_crossing:
            for i in range(1, n):
                tied[i] = crossing[order[i - 1], order[i]] == alphas[a]
        elif piece > 0:
            _reverse_tied(order, tied)
            tied[:] = False
        before_0 = m > 0 and piece == 0 and alphas[0] == 0
        after_1 = m > 0 and piece == 2 * m and alphas[m - 1] == 1
        if not (before_0 or after_1):
            spearman, tau_b, tau_c = rank_coefficients(cell, counts, order, tied, below)
            values[piece, 0], values[piece, 1], values[piece, 2] = spearman, tau_b, tau_c
    return values


@compiled
def _reverse_tied(order: IntArray, tied: NDArray[np.bool_]) -> None:
    first = 0
    while first < len(order):
        last = first + 1
        while last < len(order) and tied[last]:
            last += 1
        for i in range((last - first) // 2):
            left, right = first + i, last - 1 - i
            order[left], order[right] = order[right], order[left]
        first = last


# --- Pearson ------------------------------------------------------------------------------------


@compiled
def _pearson(
    cell: Prepared,
    level: IntArray,
    constant: IntArray,
    slope: IntArray,
    divisor: IntArray,
    reciprocal: bool,
    alphas: FloatArray,
) -> FloatArray:
    values, scores = np.empty(len(alphas)), np.zeros(len(level))
    for a in range(len(alphas)):
        for i in range(len(level)):
            if not reciprocal:  # differences from the first line, exact where all are equal
                at_0 = constant[i] / divisor[i] - constant[0] / divisor[0]
                at_1 = (constant[i] + slope[i]) / divisor[i]
                at_1 -= (constant[0] + slope[0]) / divisor[0]
                scores[i] = (1 - alphas[a]) * at_0 + alphas[a] * at_1
            elif level[i] > 0:
                scores[i] = -divisor[i] / (constant[i] + alphas[a] * slope[i])
        values[a] = pearson(cell, scores)
    return values


def _best_pearson(lines: Lines, table: Table, cell: int) -> tuple[float, float]:
    prepared, own = _cell(lines, table, cell)
    if own.reciprocal:
        found = _search(
            prepared, own.level, own.constant, own.slope, own.divisor, ALPHAS, SEARCH_WIDTH
        )
        return float(found[0]), float(found[1])
    at = np.array([0.0, *_stationary(prepared, own), 1.0])
    values = own.pearson(prepared, at)
    if np.isnan(values).all():
        return np.nan, np.nan
    best = float(np.nanmax(values))
    return float(at[np.argmax(values >= best - TOLERANCE)]), best


def _stationary(cell: Prepared, lines: Lines) -> list[float]:
    r"""Alpha in (0, 1) where Pearson's coefficient of u + alpha w with the grade has slope 0.

    With :math:`a, b` the covariances of u and w with the grade, and :math:`q, s, t` the variance
    of u, its covariance with w, and the variance of w, the coefficient is
    :math:`(a + \alpha b) / \sqrt{q + 2 \alpha s + \alpha^2 t}` up to a constant; its derivative is
    0 at :math:`\alpha = (b q - a s) / (a t - b s)` alone.
    """
    u, w = lines.constant / lines.divisor, lines.slope / lines.divisor
    if not len(u):
        return []
    u, w = (values - cell.sizes @ values / cell.n for values in (u, w))
    a, b = cell.grade_sums @ u, cell.grade_sums @ w
    q, s, t = cell.sizes @ (u * u), cell.sizes @ (u * w), cell.sizes @ (w * w)
    numerator, denominator = b * q - a * s, a * t - b * s
    inside = abs(denominator) > 0 and 0 < numerator / denominator < 1
    return [float(numerator / denominator)] if inside else []


@compiled
def _search(
    cell: Prepared,
    level: IntArray,
    constant: IntArray,
    slope: IntArray,
    divisor: IntArray,
    grid: FloatArray,
    width: float,
) -> tuple[float, float]:
    """Maximum of Pearson's coefficient of -1/y: golden sections around every peak on a grid."""
    values = _pearson(cell, level, constant, slope, divisor, True, grid)
    probes = np.empty(2)
    best_at, best = np.nan, -np.inf
    for a in range(len(grid)):
        if np.isnan(values[a]):
            continue
        if values[a] > best + TOLERANCE:
            best_at, best = grid[a], values[a]
        before, after = max(a - 1, 0), min(a + 1, len(grid) - 1)
        low, high = grid[before], grid[after]
        peak = not (values[before] > values[a] or values[after] > values[a])
        while peak and high - low > width:
            probes[0] = high - _GOLDEN * (high - low)
            probes[1] = low + _GOLDEN * (high - low)
            pair = _pearson(cell, level, constant, slope, divisor, True, probes)
            better = 0 if pair[0] >= pair[1] else 1
            at, value = probes[better], pair[better]
            if better == 0:
                high = probes[1]
            else:
                low = probes[0]
            if value > best + TOLERANCE:
                best_at, best = at, value
    return best_at, (np.nan if np.isnan(best_at) else best)


_GOLDEN = (np.sqrt(5) - 1) / 2
