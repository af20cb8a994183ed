"""Rows reduced to small tables of counts, and the coefficients of such a table.

In one segment the columns that determine a measure take few distinct values (n_p, K and N_p for F,
the 0/1 pattern for nDCG), and grades are few too. How often each value meets each grade is all
that a correlation needs, so rows are counted once and never looked at again.

Counts are held as float64: whole numbers up to 2**53 are exact in it, so the sums behind a
coefficient of up to about 200,000 rows are exact, larger ones are rounded in the last digit, and
none of them can overflow.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numba import njit
from numpy.typing import NDArray

from retrieval_quality.errors import DataError
from retrieval_quality.measures import Measure, segments

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

COEFFICIENTS = ("spearman", "pearson", "kendall_b", "kendall_c")
"""Names of the coefficients, in the order of every result array."""


def _published_alphas() -> FloatArray:
    powers = np.logspace(1, 350, num=350, base=0.95)
    alphas = np.sort(np.concatenate([[0.0], powers, 1 - powers, [1.0]]))
    alphas.flags.writeable = False
    return alphas


ALPHAS: FloatArray = _published_alphas()
"""The published grid, ascending: 0, the powers 0.95 to 0.95**350, one minus each of them, and 1."""


def compiled(function: Any) -> Any:
    """Compile a loop, and keep the machine code where a folder for it can be written.

    In a read-only installation without a writable home there is none; then it is compiled anew in
    each process.
    """
    try:
        return njit(cache=True, nogil=True)(function)
    except RuntimeError:
        return njit(nogil=True)(function)


def number(values: IntArray) -> tuple[IntArray, IntArray]:
    """Assign numbers to the distinct values, ascending, as `numpy.unique` but faster.

    Parameters
    ----------
    values : ndarray of int64, shape (n,)
        Whole numbers.

    Returns
    -------
    code : ndarray of int64, shape (n,)
        Which of the distinct values each is.
    distinct : ndarray of int64
        Ascending.

    Examples
    --------
    >>> code, distinct = number(np.array([7, 3, 7]))
    >>> code.tolist(), distinct.tolist()
    ([1, 0, 1], [3, 7])
    """
    code, distinct = pd.factorize(values)
    order = np.argsort(distinct)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return place[code], np.asarray(distinct)[order]


@dataclass(frozen=True)
class Table:
    """How often each key of each cell meets each grade.

    Attributes
    ----------
    start : ndarray of int64, shape (cells + 1,)
        The entries of cell i are ``start[i]`` up to ``start[i + 1]``.
    key : ndarray of int64, shape (entries,)
        Which key an entry is of; ascending in each cell.
    counts : ndarray of float64, shape (entries, grades)
        Rows of that cell and key by grade.
    grades : ndarray of float64, shape (grades,)
        The grades, ascending.
    entry : ndarray of int64, shape (entries of the `Counts`,)
        Where each of them was counted; -1 where it was left out.
    """

    start: IntArray
    key: IntArray
    counts: FloatArray
    grades: FloatArray
    entry: IntArray

    def __len__(self) -> int:
        return len(self.start) - 1

    @cached_property
    def sizes(self) -> IntArray:
        """Rows of every cell."""
        return self.grade_totals.sum(axis=1).astype(np.int64)

    @cached_property
    def grade_totals(self) -> FloatArray:
        """Rows of every cell by grade, shape (cells, grades)."""
        filled = np.zeros((len(self.counts) + 1, self.counts.shape[1]))
        np.cumsum(self.counts, axis=0, out=filled[1:])
        return np.diff(filled[self.start], axis=0)


@dataclass(frozen=True)
class Counts:
    """Rows, counted by cell, by the columns asked for and by grade.

    Attributes
    ----------
    cells : DataFrame
        One row a cell: ``dataset, embedding, segmentation, segment, n_total``, in the order of the
        categories; ``n_total`` counts every row of the segment, used or not.
    cell, grade : ndarray of int64, shape (entries,)
        Position in `cells` and in `grades`.
    count : ndarray of float64, shape (entries,)
        Rows that are alike in everything here.
    columns : dict of str to array, each of shape (entries,)
        The columns asked for.
    grades : ndarray of float64
        The grades that occur, ascending.
    """

    cells: pd.DataFrame
    cell: IntArray
    grade: IntArray
    count: FloatArray
    columns: dict[str, Any]
    grades: FloatArray

    def keys(self, columns: Sequence[str]) -> tuple[IntArray, dict[str, Any]]:
        """Tell the distinct values of some columns.

        Parameters
        ----------
        columns : sequence of str
            Some of those counted.

        Returns
        -------
        key : ndarray of int64, shape (entries,)
            Number of each entry's combination of values.
        distinct : dict of str to array, each of shape (keys,)
            The values of every combination.
        """
        key, first = _distinct([_codes(self.columns[name]) for name in columns], len(self.cell))
        return key, {name: self.columns[name][first] for name in columns}

    def table(self, key: IntArray) -> Table:
        """Count by cell, key and grade.

        Parameters
        ----------
        key : ndarray of int64, shape (entries,)
            Key of each entry, 0 and above; entries with -1 are left out.

        Returns
        -------
        Table
            With every cell of `cells`, also those that keep no row.
        """
        used = key >= 0
        width = int(key.max(initial=0)) + 1
        found, pairs = number(self.cell[used] * width + key[used])
        entry = np.full(len(key), -1, dtype=np.int64)
        entry[used] = found
        n_grades = max(len(self.grades), 1)
        counts: FloatArray = np.bincount(
            found * n_grades + self.grade[used],
            weights=self.count[used],
            minlength=len(pairs) * n_grades,
        ).astype(np.float64, copy=False)
        counts = counts.reshape(len(pairs), n_grades)
        start = np.searchsorted(pairs // width, np.arange(len(self.cells) + 1))
        grades = self.grades if len(self.grades) else np.array([np.nan])
        return Table(start.astype(np.int64), pairs % width, counts, grades, entry)


def count_rows(
    rows: pd.DataFrame,
    *,
    segmentation: str = "ratio",
    min_samples: int = 1,
    columns: Sequence[str] = (),
    require_2k: bool = False,
    by: str = "dataset",
    grade: str = "grade",
    weight: str | None = None,
) -> Counts:
    """Count rows by cell (dataset, embedding, segment), the given columns and grade.

    Parameters
    ----------
    rows : DataFrame
        Scored rows: `by`, ``E``, ``K``, ``Np``, `grade`, `columns`, and ``n_positives_2k`` under
        `require_2k`.
    segmentation : {"ratio", "narrow-wide"}
        How rows are cut into segments.
    min_samples : int
        Cells with fewer rows that can be used are left out.
    columns : sequence of str
        What to count by: the columns of the measures, ``id`` to keep queries apart.
    require_2k : bool
        Use only rows whose 2K row exists.
    by : {"dataset", "subset"}
        What a cell spans; its value stands in the column ``dataset``.
    grade : str
        Column of the grades; they need not be whole. Rows without a grade are not used.
    weight : str, optional
        Column that says how many rows each one stands for (see `counting`); one each by default.

    Returns
    -------
    Counts
        The counts and the cells.

    Raises
    ------
    DataError
        If a column is missing, a row has no dataset or embedding, or a grade is text or infinite.
    UsageError
        If the segmentation or `by` is unknown.

    Examples
    --------
    >>> rows = pd.DataFrame({"dataset": ["A"] * 3, "E": ["ME5S"] * 3, "K": [2] * 3, "Np": [4] * 3,
    ...                      "n_positives": [1, 1, 2], "grade": [3, 3, None]})
    >>> counted = count_rows(rows, columns=["n_positives"])
    >>> counted.cells.values.tolist(), counted.count.tolist()
    ([['A', 'ME5S', 'ratio', '0.5', 3]], [2.0])
    """
    group = [by] if by in segments.GROUPINGS else []
    two_k = ["n_positives_2k"] if require_2k else []
    weights = [weight] if weight else []
    _having(rows, [*group, "E", "K", "Np", grade, *columns, *two_k, *weights])
    times = rows[weight].to_numpy(dtype=np.float64) if weight else np.ones(len(rows))
    cells, cell = _cells(rows, segments.group(rows, by), segmentation, times)
    grades = _grades(rows[grade])
    used = ~np.isnan(grades)
    if require_2k:
        used &= rows["n_positives_2k"].notna().to_numpy()
    kept = np.bincount(cell[used], times[used], minlength=len(cells)) >= min_samples
    used &= kept[cell]
    values = {name: _array(rows[name])[used] for name in columns}
    grade_codes, distinct_grades = pd.factorize(grades[used], sort=True)
    parts = [_codes(column) for column in (cell[used], *values.values(), grade_codes)]
    entry, first = _distinct(parts, int(used.sum()))
    return Counts(
        cells=cells[kept].reset_index(drop=True),
        cell=(np.cumsum(kept) - 1)[cell[used][first]],
        grade=grade_codes[first],
        count=np.bincount(entry, times[used], minlength=len(first)).astype(np.float64, copy=False),
        columns={name: column[first] for name, column in values.items()},
        grades=distinct_grades,
    )


def evaluate(counts: Counts, measure: Measure, alphas: FloatArray) -> tuple[FloatArray, Table]:
    """Values of a measure for every key and alpha, and the table that counts those keys.

    Parameters
    ----------
    counts : Counts
        Has the columns of `measure`.
    measure : Measure
        What to evaluate.
    alphas : ndarray of float64, shape (m,)
        The values of alpha; a measure without one is evaluated once.

    Returns
    -------
    values : ndarray of float64, shape (keys, m) or (keys, 1)
        Keys of a measure without alpha are its distinct values, ascending.
    table : Table
        Without the rows on which the measure is undefined.
    """
    key, distinct = counts.keys(measure.columns)
    if measure.has_alpha:
        grid: Any = alphas[:, np.newaxis]
        values = np.ascontiguousarray(measure.evaluate(distinct, grid).T)
        defined = np.asarray(~np.isnan(values).any(axis=1))
        return values, counts.table(np.where(defined[key], key, -1))
    code, ascending = pd.factorize(measure.evaluate(distinct), sort=True)
    return ascending[:, np.newaxis], counts.table(code[key])


def in_threads(work: Callable[[int, int], None], start: IntArray, threads: int | None) -> None:
    """Call ``work(first, last)`` for ranges of cells of about the same number of entries.

    Parameters
    ----------
    work : callable
        Does cells `first` up to `last`, out of Python's lock; no cell's result depends on another.
    start : ndarray of int64, shape (cells + 1,)
        As in `Table`.
    threads : int, optional
        By default one for each processor.
    """
    n = threads or os.cpu_count() or 1
    bounds = np.searchsorted(start, np.linspace(0, start[-1], n + 1))
    bounds[0], bounds[-1] = 0, len(start) - 1
    with ThreadPoolExecutor(n) as pool:
        list(pool.map(work, bounds[:-1].tolist(), bounds[1:].tolist()))


# --- coefficients of one table ------------------------------------------------------------------


class Prepared(NamedTuple):
    """What the coefficients of one cell need, whatever the order of its keys.

    Attributes
    ----------
    sizes, rank_sums, grade_sums : ndarray, shape (keys,)
        Rows of each key; sums over them of the centred grade ranks and of the centred grades.
    tilts : ndarray, shape (keys, grades)
        Rows of the key with a higher grade, less those with a lower one.
    n, grade_classes : float
        Rows, and different grades.
    grade_square, rank_root, pair_root : float
        Sum of the squared centred grades; square roots of that of the centred ranks, and of the
        number of pairs of rows whose grades differ.
    """

    sizes: FloatArray
    rank_sums: FloatArray
    grade_sums: FloatArray
    tilts: FloatArray
    n: float
    grade_classes: float
    grade_square: float
    rank_root: float
    pair_root: float


@compiled
def prepare(counts: FloatArray, grades: FloatArray) -> Prepared:
    """Compute what does not depend on the order of the keys.

    Parameters
    ----------
    counts : ndarray, shape (keys, grades)
        Rows of one cell by key and grade.
    grades : ndarray, shape (grades,)
        The grades, ascending.

    Returns
    -------
    Prepared
        Ranks are doubled and centred (twice the average rank less n + 1): whole numbers.
    """
    n_keys, n_grades = counts.shape
    totals = np.zeros(n_grades)
    for i in range(n_keys):
        for j in range(n_grades):
            totals[j] += counts[i, j]
    n, mean, classes = totals.sum(), 0.0, 0.0
    for j in range(n_grades):
        mean += totals[j] * grades[j] / max(n, 1.0)
        classes += totals[j] > 0
    ranks = np.empty(n_grades)
    below, rank_square, grade_square, pairs = 0.0, 0.0, 0.0, n * (n - 1) / 2
    for j in range(n_grades):
        ranks[j] = 2 * below + totals[j] - n
        below += totals[j]
        rank_square += totals[j] * ranks[j] * ranks[j]
        grade_square += totals[j] * (grades[j] - mean) ** 2
        pairs -= totals[j] * (totals[j] - 1) / 2
    sizes, rank_sums, grade_sums = np.zeros(n_keys), np.zeros(n_keys), np.zeros(n_keys)
    tilts = np.empty((n_keys, n_grades))
    for i in range(n_keys):
        for j in range(n_grades):
            sizes[i] += counts[i, j]
            rank_sums[i] += counts[i, j] * ranks[j]
            grade_sums[i] += counts[i, j] * (grades[j] - mean)
        lower = 0.0
        for j in range(n_grades):
            tilts[i, j] = sizes[i] - counts[i, j] - 2 * lower
            lower += counts[i, j]
    return Prepared(
        sizes,
        rank_sums,
        grade_sums,
        tilts,
        n,
        classes,
        grade_square,
        np.sqrt(rank_square),
        np.sqrt(pairs),
    )


@compiled
def rank_coefficients(
    cell: Prepared,
    counts: FloatArray,
    order: IntArray,
    tied: NDArray[np.bool_],
    below: FloatArray,
) -> tuple[float, float, float]:
    """Spearman, tau-b and tau-c of one cell whose keys are put in order.

    Parameters
    ----------
    cell : Prepared
        Of `counts`.
    counts : ndarray, shape (keys, grades)
        Rows by key and grade; a key may have none.
    order : ndarray of int, shape (keys,)
        Keys from the lowest value of the measure to the highest.
    tied : ndarray of bool, shape (keys,)
        Whether ``order[i]`` has the same value as ``order[i - 1]``.
    below : ndarray, shape (grades,)
        Working space.

    Returns
    -------
    tuple of float
        As scipy defines them, in [-1, 1]; NaN where the measure or the grade is constant.
    """
    n_keys, n_grades = counts.shape
    below[:] = 0.0
    covariance, square, net, lower, first = 0.0, 0.0, 0.0, 0.0, 0
    pairs, classes = cell.n * (cell.n - 1) / 2, 0.0
    while first < n_keys:
        last, size, rank_sum = first, 0.0, 0.0
        while last == first or (last < n_keys and tied[last]):
            key = order[last]
            size += cell.sizes[key]
            rank_sum += cell.rank_sums[key]
            for j in range(n_grades):
                net += below[j] * cell.tilts[key, j]
            last += 1
        for i in range(first, last):
            for j in range(n_grades):
                below[j] += counts[order[i], j]
        rank = 2 * lower + size - cell.n
        covariance += rank * rank_sum
        square += size * rank * rank
        pairs -= size * (size - 1) / 2
        classes += size > 0
        lower += size
        first = last
    fewest = min(classes, cell.grade_classes)
    if fewest < 2:
        return np.nan, np.nan, np.nan
    spearman = covariance / np.sqrt(square) / cell.rank_root
    tau_b = net / np.sqrt(pairs) / cell.pair_root
    tau_c = 2 * net / (cell.n * cell.n * (fewest - 1) / fewest)
    return max(-1.0, min(1.0, spearman)), max(-1.0, min(1.0, tau_b)), max(-1.0, min(1.0, tau_c))


@compiled
def in_order(values: FloatArray, order: IntArray, tied: NDArray[np.bool_]) -> bool:
    """Say whether `order` and `tied` describe the values, none of them NaN."""
    for i in range(1, len(order)):
        value, former = values[order[i]], values[order[i - 1]]
        if value < former or (value == former) != tied[i]:
            return False
    return True


@compiled
def put_in_order(values: FloatArray, order: IntArray, tied: NDArray[np.bool_]) -> None:
    """Bring `order` and `tied` up to date with the values, in place.

    By insertion, which costs little where the former order was nearly right.

    Parameters
    ----------
    values : ndarray, shape (keys,)
        The measure's value for each key.
    order : ndarray of int, shape (keys,)
        A former order; on return the keys from the lowest value to the highest.
    tied : ndarray of bool, shape (keys,)
        On return, whether each has the same value as the one before it.
    """
    for i in range(1, len(order)):
        moving, j = order[i], i
        while j > 0 and values[order[j - 1]] > values[moving]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = moving
    for i in range(1, len(order)):
        tied[i] = values[order[i]] == values[order[i - 1]]


@compiled
def pearson(cell: Prepared, values: FloatArray) -> float:
    """Pearson's coefficient of one cell.

    Parameters
    ----------
    cell : Prepared
        Of its counts.
    values : ndarray, shape (keys,)
        The measure's value for each key.

    Returns
    -------
    float
        In [-1, 1]; NaN where the measure or the grade is constant.
    """
    start = 0
    while start < len(values) and cell.sizes[start] == 0:
        start += 1
    total, square, covariance = 0.0, 0.0, 0.0
    for i in range(start, len(values)):
        # differences from a value that occurs: the sums lose no digits, and are 0 if constant
        deviation = values[i] - values[start]
        total += cell.sizes[i] * deviation
        square += cell.sizes[i] * deviation * deviation
        covariance += cell.grade_sums[i] * deviation
    if square == 0 or cell.grade_classes < 2:
        return np.nan
    variance = square - total * total / cell.n
    return max(-1.0, min(1.0, covariance / np.sqrt(variance * cell.grade_square)))


# --- reading rows -------------------------------------------------------------------------------


def _having(rows: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    missing = [name for name in names if name not in rows]
    if missing:
        raise DataError(f"The rows have no column {', '.join(missing)}; use those of `scored`.")
    return rows


def _cells(
    rows: pd.DataFrame, groups: pd.Series, segmentation: str, times: FloatArray
) -> tuple[pd.DataFrame, IntArray]:
    """Every cell that occurs, and which one each row is in."""
    labels: list[tuple[str, Any]] = [
        ("dataset", _categorical(groups)),
        ("embedding", _categorical(rows["E"])),
        ("segment", segments.label_segments(rows, segmentation).array),
    ]
    code = np.zeros(len(rows), dtype=np.int64)
    for name, label in labels:
        if (label.codes < 0).any():
            row = int(np.argmax(label.codes < 0))
            raise DataError(f"Row {row} has no {name}: every row needs one.")
        code = code * len(label.categories) + label.codes
    n_codes = int(np.prod([len(label.categories) for _, label in labels]))
    total = np.bincount(code, times, minlength=n_codes).astype(np.int64)
    occurring = np.flatnonzero(total)
    position = np.cumsum(total > 0) - 1
    rest, columns = occurring, {}
    for name, label in reversed(labels):
        rest, which = np.divmod(rest, max(len(label.categories), 1))
        columns[name] = np.asarray(label.categories, dtype=object)[which]
    cells = pd.DataFrame(
        {
            "dataset": columns["dataset"],
            "embedding": columns["embedding"],
            "segmentation": segmentation,
            "segment": columns["segment"],
            "n_total": total[occurring],
        }
    )
    return cells, position[code]


def _grades(column: pd.Series) -> FloatArray:
    """Grades as float64, NaN where there is none."""
    kind = getattr(column.dtype, "kind", "O")
    if kind == "O" and column.map(lambda grade: isinstance(grade, str)).any():
        raise DataError(f"The column {column.name} holds text; grades must be numbers or null.")
    if kind in "bmM":
        raise DataError(
            f"The column {column.name} holds {column.dtype}; grades must be numbers or null."
        )
    grades = pd.to_numeric(column).to_numpy(dtype=np.float64, na_value=np.nan)
    if np.isinf(grades).any():
        row = int(np.argmax(np.isinf(grades)))
        raise DataError(f"Row {row} has an infinite value in {column.name}; grades are 1 to 5.")
    return grades


def _categorical(column: pd.Series) -> pd.Categorical:
    values = column.array
    return values if isinstance(values, pd.Categorical) else pd.Categorical(values)


def _array(column: pd.Series) -> Any:
    """Give a column as a NumPy array, or as a Categorical where it is text."""
    if isinstance(column.dtype, pd.CategoricalDtype) or column.dtype.kind not in "iuf":
        return _categorical(column)
    return column.to_numpy()


def _codes(values: Any) -> tuple[IntArray, int]:
    """Whole numbers from 0 that tell the values apart, and how many there may be."""
    if isinstance(values, pd.Categorical):
        return values.codes.astype(np.int64) + 1, len(values.categories) + 1
    if values.dtype.kind == "f":
        codes, distinct = pd.factorize(values)
        return codes.astype(np.int64) + 1, len(distinct) + 1
    if not len(values):
        return np.zeros(0, dtype=np.int64), 1
    low = int(values.min())
    return values.astype(np.int64) - low, int(values.max()) - low + 1


def _distinct(parts: Sequence[tuple[IntArray, int]], n: int) -> tuple[IntArray, IntArray]:
    """Assign numbers to the distinct combinations of codes; also the first position of each."""
    code, size = np.zeros(n, dtype=np.int64), 1
    for codes, width in parts:
        if size * width >= 2**62:
            code, distinct = pd.factorize(code)
            size = max(len(distinct), 1)
        code, size = code * width + codes, size * width
    number, distinct = pd.factorize(code)
    first = np.empty(len(distinct), dtype=np.int64)
    first[number[::-1]] = np.arange(n - 1, -1, -1)
    return number.astype(np.int64), first
