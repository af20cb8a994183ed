"""What every figure, table and study is: declared once, it owns all of itself.

An `Exhibit` computes its numbers, draws them, describes the picture for those who do not see it,
says in sentences what is to be seen, and lists what must hold. A kind of exhibit is a subclass in a
module of its own that fills in `_numbers`, `_picture`, `_told`, `_seen` and `_held`; the catalogue
declares which exhibits of each kind there are. How to add one: ``design/how-to-add.md``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pandas as pd

from retrieval_quality.data import schema
from retrieval_quality.exhibits import drawing
from retrieval_quality.exhibits.words import counted
from retrieval_quality.parameters import COEFFICIENTS, Parameters

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from retrieval_quality.data.dataset import Dataset

Checks = list[tuple[str, bool]]
"""Statements of plain text, and whether each holds."""

TOLERANCE = 1e-9
PICTURE = (".svg", ".png", ".csv", ".json")
TABLE = (".csv", ".json")
LISTING = (".txt", ".json")


@dataclass(frozen=True)
class Result:
    """The numbers of one exhibit, and what a reader must know about them.

    Attributes
    ----------
    exhibit
        What was computed.
    parameters
        Of the run.
    numbers
        Tidy table, one row a cell; empty with its columns where nothing can be shown.
    coefficient
        Coefficient of the correlations; empty where there are none.
    n
        Graded rows (for Table 1 and Figure 22 ranked rows) that the numbers rest on.
    limits
        Ends of the scale of the values: the same for all pictures that are to be compared.
    notes
        Sentences: what was left out, what is undefined and why, and how often.
    missing
        Why nothing can be shown; empty where something can.
    text
        For code: the listing and what it gave.
    simulated
        Whether the data is simulated.
    """

    exhibit: Exhibit
    parameters: Parameters
    numbers: pd.DataFrame
    coefficient: str = ""
    n: int = 0
    limits: tuple[float, float] | None = None
    notes: tuple[str, ...] = ()
    missing: str = ""
    text: str = ""
    simulated: bool = False

    @property
    def scale(self) -> tuple[float, float]:
        """Ends of the scale; those of a correlation where none are given."""
        return self.limits or (-1.0, 1.0)


@dataclass(frozen=True)
class Exhibit(ABC):
    """One figure, table or study.

    Attributes
    ----------
    anchor
        Its id on the page, and the stem of its files: ``figure-07``, ``table-1``,
        ``extra-t-minus-f-hp`` (a cell that the paper left out).
    notebook
        Name of the notebook that shows it.
    number
        Its number in the paper; None for what the paper does not have.
    dataset
        The dataset it is about; empty where it is about all.
    measures
        The measures it shows, names in `measures.MEASURES`.
    coefficient
        The coefficient that the paper uses.
    require_2k
        Whether only rows whose 2K row exists count.
    place
        Its number among the extras or studies; 0 for what has none.
    axis
        What the values of panels are; ``{coefficient}`` stands for that of a run.
    kind, noun, suffixes, columns, value, uses
        Of the class: the name of the kind in the provenance, what a numbered one is called, the
        endings of its files, the columns of its numbers, which of them is the value that is
        drawn, and the parameters of a run that it heeds, beside the data themselves.
    """

    anchor: str
    notebook: str
    number: int | None = None
    dataset: str = ""
    measures: tuple[str, ...] = ()
    coefficient: str = "spearman"
    require_2k: bool = False
    place: int = 0
    axis: str = ""

    kind: ClassVar[str] = "figure"
    noun: ClassVar[str] = "Figure"
    suffixes: ClassVar[tuple[str, ...]] = PICTURE
    columns: ClassVar[tuple[str, ...]] = ()
    value: ClassVar[str] = "value"
    uses: ClassVar[tuple[str, ...]] = ("embeddings", "datasets")

    # --- what it is called --------------------------------------------------------------------

    @property
    def label(self) -> str:
        """How it is referred to: ``Figure 7``; ``Extra 1`` where the paper left it out."""
        if self.number is None:
            return f"Extra {self.place}" if self.place else "Extra"
        return f"{self.noun} {self.number}"

    @property
    @abstractmethod
    def title(self) -> str:
        """What it shows, in a few words of plain text."""

    @abstractmethod
    def caption(self, parameters: Parameters | None = None) -> str:
        """Say in one or two sentences of plain text what is drawn.

        Parameters
        ----------
        parameters
            Of the run; the paper's when left out.
        """

    def coefficient_for(self, parameters: Parameters) -> str:
        """Give the coefficient that it shows in a run; most are of one by definition."""
        return self.coefficient

    @property
    def dataset_name(self) -> str:
        """Full name of the dataset; an unknown one is named by its own code."""
        return schema.dataset_name(self.dataset)

    @property
    def drawn(self) -> bool:
        """Whether it is a picture: neither a table nor a listing."""
        return ".svg" in self.suffixes

    def values_named(self, result: Result) -> str:
        """Say what the values of its panels are, with the coefficient of the run."""
        return self.axis.format(coefficient=COEFFICIENTS[result.parameters.coefficient])

    # --- what can be asked of it --------------------------------------------------------------

    def compute(self, dataset: Dataset, parameters: Parameters | None = None) -> Result:
        """Compute its numbers.

        Parameters
        ----------
        dataset
            Loaded data.
        parameters
            Of the run; the paper's when left out.

        Returns
        -------
        Result
            Where the data cannot show anything (no such dataset, no segment large enough) its
            ``missing`` says so and ``numbers`` is empty: that is not an error.

        Raises
        ------
        DataError
            The data breaks its format.
        """
        return self._numbers(dataset, parameters or Parameters())

    def draw(self, result: Result) -> Figure:
        """Draw its numbers; a panel with the reason where there is nothing to draw.

        Raises
        ------
        ValueError
            It is a table or a listing.
        """
        if not self.drawn:
            raise ValueError(f"{self.label} is a table or a listing, which is not drawn")
        with drawing.style():
            return drawing.draw_message(result) if result.missing else self._picture(result)

    def describe(self, result: Result) -> str:
        """Say in plain text what is seen: the range, where the ends are, rows, what is missing."""
        opening = "Simulated data. " if result.simulated else ""
        stop = "" if self.title.endswith("?") else "."
        return f"{opening}{self.title}{stop} {result.missing or self._told(result)}"

    def observe(self, result: Result) -> list[str]:
        """Say in computed sentences what its numbers show, then what was left out and why."""
        return [result.missing] if result.missing else [*self._seen(result), *result.notes]

    def checks(self, result: Result) -> Checks:
        """List what must hold of its numbers; nothing where there are none."""
        name = self.title if self.number is None else self.label
        found = [] if result.missing else self._held(result)
        return [(f"{name}: {statement}", holds) for statement, holds in found]

    # --- what a kind fills in -----------------------------------------------------------------

    @abstractmethod
    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        """Work out the numbers."""

    def _picture(self, result: Result) -> Figure:
        """Draw the numbers, of which there are some."""
        raise NotImplementedError(f"{type(self).__name__} has no picture")

    @abstractmethod
    def _told(self, result: Result) -> str:
        """Describe the picture, table or listing."""

    def _seen(self, result: Result) -> list[str]:
        """Say what is to be seen."""
        return []

    @abstractmethod
    def _held(self, result: Result) -> Checks:
        """Give what must hold."""

    def _result(
        self,
        dataset: Dataset,
        run: Parameters,
        numbers: pd.DataFrame,
        *,
        coefficient: str = "",
        n: int = 0,
        limits: tuple[float, float] | None = None,
        notes: Sequence[str] = (),
        text: str = "",
    ) -> Result:
        """Put numbers into a result."""
        return Result(
            self, run, numbers, coefficient, n, limits, tuple(notes), "", text, dataset.simulated
        )

    def _nothing(
        self, dataset: Dataset, run: Parameters, why: str, coefficient: str = ""
    ) -> Result:
        """Give a result without numbers that says why."""
        empty = pd.DataFrame(columns=list(self.columns))
        return Result(self, run, empty, coefficient, missing=why, simulated=dataset.simulated)


@dataclass(frozen=True)
class Study(Exhibit):
    """An exhibit that goes beyond the paper.

    Attributes
    ----------
    place
        Its number: studies are counted in the order in which the book shows them.
    heading
        Its title.
    words
        Its caption; ``{alpha}`` stands for the α of a run.
    """

    heading: str = ""
    words: str = ""
    kind: ClassVar[str] = "study"
    uses: ClassVar[tuple[str, ...]] = ("min_samples_ratio", "embeddings", "datasets", "coefficient")

    @property
    def label(self) -> str:
        """How it is referred to: ``Study 1``."""
        return f"Study {self.place}"

    @property
    def title(self) -> str:
        """What it shows."""
        return self.heading

    def caption(self, parameters: Parameters | None = None) -> str:
        """Say what is drawn and which segments are left out."""
        run = parameters or Parameters()
        alpha = "cross-fitted α" if isinstance(run.alpha, str) else f"α = {run.alpha:g}"
        said = self.words.replace("{alpha}", alpha)
        return f"{said} Segments of fewer than {run.min_samples_ratio} graded rows are left out."


class StudyTable(Study):
    """A study that is a table."""

    kind = "study-table"
    suffixes = TABLE

    def _told(self, result: Result) -> str:
        return f"Table of {len(result.numbers)} rows."

    def _held(self, result: Result) -> Checks:
        return values_held(result)


def values_held(result: Result) -> Checks:
    """Check that values are in the picture, that ends are in order, and reasons given."""
    numbers = result.numbers
    known = numbers[_with_value(numbers)]
    rest = "rests" if len(known) == 1 else "rest"
    found = [(f"{counted(len(known), 'value')} {rest} on graded answers", all_of(known["n"] > 0))]
    if {"low", "high"} <= set(numbers):
        ends = numbers.dropna(subset=["low", "high"])
        in_order = all_of(ends["low"] <= ends["high"] + TOLERANCE)
        none = f"none of {counted(len(ends), 'interval')} ends below where it begins"
        found += [(none, in_order)] if len(ends) else []
    if result.limits and "value" in numbers:
        low, high = result.limits
        inside = numbers["value"].dropna().between(low - TOLERANCE, high + TOLERANCE)
        found.append(("no value lies beyond the scale", all_of(inside)))
    if "reason" in numbers:
        found += reasons_given(numbers.drop(known.index), "row")
    return found


def all_of(holds: pd.Series) -> bool:
    """Whether something holds in every row."""
    return bool(holds.all())


def reasons_given(undefined: pd.DataFrame, noun: str) -> Checks:
    """Check that whatever has no value says why; nothing where all is defined."""
    if undefined.empty:
        return []
    says = "says" if len(undefined) == 1 else "say"
    given = all_of(undefined["reason"].fillna("") != "")
    return [(f"{counted(len(undefined), noun)} without a value {says} why", given)]


def _with_value(numbers: pd.DataFrame) -> pd.Series:
    columns = ("value", "kept", "correlation", "gain", "reliability", "agreement")
    names = [name for name in columns if name in numbers]
    return numbers[names[0]].notna() if names else pd.Series(True, index=numbers.index)
