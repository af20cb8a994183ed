"""What a measure is, and the registry ``MEASURES``: a new one is a function below `measure`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import pandas as pd

from retrieval_quality.errors import UsageError
from retrieval_quality.measures.reading import (
    FloatArray,
)

Function = TypeVar("Function", bound=Callable[..., FloatArray])


@dataclass(frozen=True)
class Measure:
    """A measure, declared once: what it is called, what it needs and how it is computed.

    Attributes
    ----------
    name : str
        Name on the command line and in result tables.
    symbol, formula : str
        LaTeX.
    label : str
        Plain text, for axes and tables.
    low, high : float
        Bounds over every possible row and alpha; infinite where there is none.
    source : str
        Where the definition is from.
    columns : tuple of str
        Smallest set of scored columns that determines the measure, in the order in which
        `compute` takes them.
    compute : callable
        The function on arrays: the columns, then alpha where the measure has one.
    has_alpha : bool
        Whether there is a weight alpha to choose.
    summary : str
        One sentence.
    """

    name: str
    symbol: str
    label: str
    formula: str
    low: float
    high: float
    source: str
    columns: tuple[str, ...]
    compute: Callable[..., FloatArray]
    has_alpha: bool
    summary: str

    @property
    def needs_relevant(self) -> bool:
        """Whether N_p, the number of relevant documents in all, must be known."""
        return "Np" in self.columns

    def evaluate(self, table: Any, alpha: float | None = None) -> FloatArray:
        """Compute the measure for every row of a table.

        Parameters
        ----------
        table : mapping or DataFrame
            Has `columns`, named as in the scored rows.
        alpha : float, optional
            Weight in [0, 1]: required where the measure has one, ignored where it has none.

        Returns
        -------
        ndarray of float64, shape (n,)
            NaN where undefined.

        Raises
        ------
        UsageError
            If a column or a required alpha is missing.

        Examples
        --------
        >>> MEASURES["T"].evaluate({"n_positives": [2], "K": [5]}, alpha=0.5)
        array([0.7])
        """
        missing = [column for column in self.columns if column not in table]
        if missing:
            raise UsageError(f"{self.name} needs the column(s) {', '.join(missing)}.")
        if self.has_alpha and alpha is None:
            raise UsageError(f"{self.name} needs an alpha in [0, 1].")
        weight = (alpha,) if self.has_alpha else ()
        return self.compute(*(table[column] for column in self.columns), *weight)


MEASURES: dict[str, Measure] = {}
"""Every measure by its name, in the order in which tables list them."""


def measure(
    *,
    name: str,
    symbol: str,
    label: str,
    formula: str,
    source: str,
    columns: tuple[str, ...],
    summary: str,
    low: float = 0,
    high: float = 1,
    has_alpha: bool = False,
) -> Callable[[Function], Function]:
    """Declare the function below as a measure: it is then correlated, drawn and offered.

    The parameters are the attributes of `Measure`; the function takes `columns` in their order,
    then alpha where it has one.

    Raises
    ------
    UsageError
        If the name is taken.

    Examples
    --------
    >>> import numpy as np
    >>> @measure(name="miss", symbol="m", label="miss rate", formula="[n_p = 0]", source="here",
    ...          columns=("n_positives",), summary="Whether nothing relevant was retrieved.")
    ... def miss(n_positives):
    ...     return (np.asarray(n_positives) == 0).astype(float)
    >>> score({"n_positives": [0, 2]}, ["miss"])["miss"].tolist()
    [1.0, 0.0]
    >>> del MEASURES["miss"]
    """

    def declare(function: Function) -> Function:
        register(
            Measure(
                name,
                symbol,
                label,
                formula,
                low,
                high,
                source,
                columns,
                function,
                has_alpha,
                summary,
            )
        )
        return function

    return declare


def register(measure: Measure) -> Measure:
    """Add a measure to `MEASURES`.

    Parameters
    ----------
    measure : Measure
        Its name must be new.

    Returns
    -------
    Measure
        The same.

    Raises
    ------
    UsageError
        If the name is taken.

    Examples
    --------
    >>> register(MEASURES["F"])
    Traceback (most recent call last):
    ...
    retrieval_quality.errors.UsageError: There is already a measure named F.
    """
    if measure.name in MEASURES:
        raise UsageError(f"There is already a measure named {measure.name}.")
    MEASURES[measure.name] = measure
    return measure


def lookup(names: Iterable[str]) -> tuple[Measure, ...]:
    """Measures by name.

    Parameters
    ----------
    names : iterable of str
        Names as in `MEASURES`.

    Returns
    -------
    tuple of Measure
        In the order of `names`.

    Raises
    ------
    UsageError
        If there is no measure of that name; says which there are.

    Examples
    --------
    >>> [measure.label for measure in lookup(["T", "Fe"])]
    ['T', 'F_e']
    """
    names = tuple(names)
    unknown = [name for name in names if name not in MEASURES]
    if unknown:
        raise UsageError(
            f"No measure is named {', '.join(map(str, unknown))}; there are {', '.join(MEASURES)}."
        )
    return tuple(MEASURES[name] for name in names)


def score(table: Any, names: Iterable[str] = (), alpha: float | None = None) -> pd.DataFrame:
    """Compute several measures for every row of a table.

    Parameters
    ----------
    table : mapping or DataFrame
        Columns named as in the scored rows.
    names : iterable of str, optional
        Names in `MEASURES`; by default every measure whose columns the table has, those with a
        weight only if `alpha` is given.
    alpha : float, optional
        Weight in [0, 1] of the measures that have one.

    Returns
    -------
    DataFrame of float64
        One row a row of `table`, one column a measure; NaN where undefined.

    Raises
    ------
    UsageError
        If a name is unknown, or a column or a required alpha is missing.

    Examples
    --------
    >>> from retrieval_quality.measures import cut
    >>> score(cut("1010010010", [5, 10], n_relevant=10), ["P", "R", "F1"]).round(3)
         P    R     F1
    0  0.4  0.2  0.267
    1  0.4  0.4  0.400
    """
    chosen = lookup(names) or tuple(
        measure
        for measure in MEASURES.values()
        if all(column in table for column in measure.columns)
        and not (measure.has_alpha and alpha is None)
    )
    return pd.DataFrame({measure.name: measure.evaluate(table, alpha) for measure in chosen})
