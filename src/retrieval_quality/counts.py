"""Rows reduced to small tables of counts, and the coefficients of such a table.

In one segment the columns that determine a measure take few distinct values (n_p, K and N_p for F,
the 0/1 pattern for nDCG), and grades are few too. How often each value meets each grade is all
that a correlation needs, so rows are counted once and never looked at again.

Counts are held as float64: whole numbers up to 2**53 are exact in it, so the sums behind a
coefficient of up to about 200,000 rows are exact, larger ones are rounded in the last digit, and
none of them can overflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numba import njit
from numpy.typing import NDArray

from retrieval_quality import segments
from retrieval_quality.errors import DataError
from retrieval_quality.measures import Measure

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

COEFFICIENTS = ("spearman", "pearson", "kendall_b", "kendall_c")
"""Names of the coefficients, in the order of every result array."""


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
    """

    start: IntArray
    key: IntArray
    counts: FloatArray
    grades: FloatArray

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
        pairs, entry = np.unique(self.cell[used] * width + key[used], return_inverse=True)
        n_grades = max(len(self.grades), 1)
        counts: FloatArray = np.bincount(
            entry * n_grades + self.grade[used],
            weights=self.count[used],
            minlength=len(pairs) * n_grades,
        ).astype(np.float64, copy=False)
        counts = counts.reshape(len(pairs), n_grades)
        start = np.searchsorted(pairs // width, np.arange(len(self.cells) + 1))
        grades = self.grades if len(self.grades) else np.array([np.nan])
        return Table(start.astype(np.int64), pairs % width, counts, grades)


def count_rows(
    rows: pd.DataFrame,
    *,
    segmentation: str = "ratio",
    min_samples: int = 1,
    columns: Sequence[str] = (),
    require_2k: bool = False,
    by: str = "dataset",
    grade: str = "grade",
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
    groups = segments.group(_having(rows, [by]), by)
    two_k = ["n_positives_2k"] if require_2k else []
    _having(rows, ["E", "K", "Np", grade, *columns, *two_k])
    cells, cell = _cells(rows, groups, segmentation)
    grades = _grades(rows[grade])
    used = ~np.isnan(grades)
    if require_2k:
        used &= rows["n_positives_2k"].notna().to_numpy()
    kept = np.bincount(cell[used], minlength=len(cells)) >= min_samples
    used &= kept[cell]
    values = {name: _array(rows[name])[used] for name in columns}
    grade_codes, distinct_grades = pd.factorize(grades[used], sort=True)
    parts = [_codes(column) for column in (cell[used], *values.values(), grade_codes)]
    entry, first = _distinct(parts, int(used.sum()))
    return Counts(
        cells=cells[kept].reset_index(drop=True),
        cell=(np.cumsum(kept) - 1)[cell[used][first]],
        grade=grade_codes[first],
        count=np.bincount(entry, minlength=len(first)).astype(np.float64),
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


# --- coefficients of one table ------------------------------------------------------------------


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def centred_ranks(totals: FloatArray) -> FloatArray:
    """Twice the average rank of every grade, less n + 1: whole numbers with mean 0."""
    ranks = np.empty(len(totals))
    n = totals.sum()
    below = 0.0
    for j in range(len(totals)):
        ranks[j] = 2 * below + totals[j] - n
        below += totals[j]
    return ranks


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def rank_coefficients(
    counts: FloatArray,
    sizes: FloatArray,
    rank_sums: FloatArray,
    totals: FloatArray,
    grade_ranks: FloatArray,
    order: IntArray,
    tied: NDArray[np.bool_],
    below: FloatArray,
) -> tuple[float, float, float]:
    """Spearman, tau-b and tau-c of one table whose keys are put in order.

    Parameters
    ----------
    counts : ndarray, shape (keys, grades)
        Rows by key and grade.
    sizes, rank_sums : ndarray, shape (keys,)
        Rows of each key, and the sum of their `grade_ranks`.
    totals, grade_ranks : ndarray, shape (grades,)
        Rows of each grade, and `centred_ranks` of them.
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
    n = totals.sum()
    grade_square, grade_pairs, grade_classes = 0.0, 0.0, 0
    for j in range(n_grades):
        below[j] = 0.0
        grade_square += totals[j] * grade_ranks[j] * grade_ranks[j]
        grade_pairs += totals[j] * (totals[j] - 1) / 2
        grade_classes += totals[j] > 0
    covariance, square, pairs, net, classes, lower = 0.0, 0.0, 0.0, 0.0, 0, 0.0
    first = 0
    while first < n_keys:
        last = first + 1
        while last < n_keys and tied[last]:
            last += 1
        size, rank_sum = 0.0, 0.0
        for i in range(first, last):
            key = order[i]
            size += sizes[key]
            rank_sum += rank_sums[key]
            less, more = 0.0, lower
            for j in range(n_grades):
                more -= below[j]
                net += counts[key, j] * (less - more)
                less += below[j]
        for i in range(first, last):
            for j in range(n_grades):
                below[j] += counts[order[i], j]
        if size > 0:
            rank = 2 * lower + size - n
            covariance += rank * rank_sum
            square += size * rank * rank
            pairs += size * (size - 1) / 2
            lower += size
            classes += 1
        first = last
    if classes < 2 or grade_classes < 2:
        return np.nan, np.nan, np.nan
    all_pairs = n * (n - 1) / 2
    fewest = min(classes, grade_classes)
    spearman = covariance / np.sqrt(square) / np.sqrt(grade_square)
    tau_b = net / np.sqrt(all_pairs - pairs) / np.sqrt(all_pairs - grade_pairs)
    tau_c = 2 * net / (n * n * (fewest - 1) / fewest)
    return max(-1.0, min(1.0, spearman)), max(-1.0, min(1.0, tau_b)), max(-1.0, min(1.0, tau_c))


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def sort_keys(
    values: FloatArray, column: int, keys: IntArray, order: IntArray, tied: NDArray[np.bool_]
) -> bool:
    """Put the keys of one cell in ascending order of their values, starting from a former order.

    Parameters
    ----------
    values : ndarray, shape (all keys, columns)
        What to sort by: the given column.
    column : int
        Which one.
    keys : ndarray of int, shape (keys,)
        The rows of `values` that belong to the cell.
    order, tied : ndarray, shape (keys,)
        Positions in `keys` from lowest to highest value, and whether each has the same value as
        the one before; both are brought up to date in place.

    Returns
    -------
    bool
        Whether anything changed.
    """
    changed = False
    for i in range(1, len(keys)):
        moving = order[i]
        value = values[keys[moving], column]
        j = i
        while j > 0 and values[keys[order[j - 1]], column] > value:
            order[j] = order[j - 1]
            j -= 1
        if j < i:
            order[j] = moving
            changed = True
    for i in range(1, len(keys)):
        same = values[keys[order[i]], column] == values[keys[order[i - 1]], column]
        if same != tied[i]:
            tied[i] = same
            changed = True
    return changed


@njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def pearson(
    values: FloatArray,
    column: int,
    keys: IntArray,
    sizes: FloatArray,
    grade_sums: FloatArray,
    grade_square: float,
) -> float:
    """Pearson's coefficient of one table.

    Parameters
    ----------
    values, column, keys : as for `sort_keys`
        The measure's values.
    sizes, grade_sums : ndarray, shape (keys,)
        Rows of each key, and the sum of their grades' differences from the mean grade.
    grade_square : float
        Sum of the squares of these differences.

    Returns
    -------
    float
        In [-1, 1]; NaN where the measure or the grade is constant.
    """
    total, n = 0.0, 0.0
    constant = True
    for i in range(len(keys)):
        total += sizes[i] * values[keys[i], column]
        n += sizes[i]
        constant &= values[keys[i], column] == values[keys[0], column]
    if constant or grade_square == 0:
        return np.nan
    mean = total / n
    covariance, square = 0.0, 0.0
    for i in range(len(keys)):
        deviation = values[keys[i], column] - mean
        covariance += grade_sums[i] * deviation
        square += sizes[i] * deviation * deviation
    return max(-1.0, min(1.0, covariance / np.sqrt(square) / np.sqrt(grade_square)))


# --- reading rows -------------------------------------------------------------------------------


def _having(rows: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    missing = [name for name in names if name not in rows]
    if missing:
        raise DataError(f"The rows have no column {', '.join(missing)}; use those of `scored`.")
    return rows


def _cells(
    rows: pd.DataFrame, groups: pd.Series, segmentation: str
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
    total = np.bincount(code, minlength=n_codes)
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
