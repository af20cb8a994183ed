"""How numbers, measures and places are written in captions, sentences and pictures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from retrieval_quality.data import schema
from retrieval_quality.measures import MEASURES
from retrieval_quality.text import signed

_RATIOS_LISTED = 8


def measure_name(measure: str) -> str:
    """Name a measure in plain text: ``T_u`` for ``Tu``."""
    return MEASURES[measure].label


def alpha_text(alpha: str | float) -> str:
    """Say which α a correlation is taken at.

    Examples
    --------
    >>> alpha_text("exact"), alpha_text(0.5)
    ('at the best of all α', 'at α = 0.5')
    """
    if alpha == "published":
        return "at the best α of the published grid"
    return "at the best of all α" if alpha == "exact" else f"at α = {alpha:g}"


def at_alpha(measures: Sequence[str], alpha: str | float) -> str:
    """Say at which α those of some measures are that have one.

    Examples
    --------
    >>> at_alpha(("T", "F", "P"), 0.5)
    'T and F each at α = 0.5'
    """
    names = [measure_name(name) for name in measures if MEASURES[name].has_alpha]
    each = "each " if len(names) > 1 else ""
    return f"{' and '.join(names)} {each}{alpha_text(alpha)}"


def number(value: float) -> str:
    """Write a correlation or a mean with three decimals.

    Examples
    --------
    >>> number(-0.5)
    '−0.500'
    """
    return f"{value:.3f}".replace("-", "−")


def with_interval(value: float, low: float, high: float) -> str:
    """Write a value with its interval.

    Examples
    --------
    >>> with_interval(0.5, 0.4, 0.6)
    '0.500 [0.400, 0.600]'
    """
    return f"{number(value)} [{number(low)}, {number(high)}]"


def signed_in_full(value: float) -> str:
    """Write a difference with its sign, and one digit of what would be rounded away.

    Examples
    --------
    >>> signed_in_full(-0.25), signed_in_full(0.00004)
    ('−0.250', '+0.00004')
    """
    if value == 0 or float(f"{value:.3f}") != 0:
        return signed(value)
    digit = np.format_float_positional(abs(value), precision=1, fractional=False)
    return ("+" if value > 0 else "−") + digit


def decimal(value: float) -> str:
    """Write a value in full with two decimals, as the words for a figure do.

    Examples
    --------
    >>> decimal(-0.05)
    '−0.05'
    """
    return f"{value:.2f}".replace("-", "−")


def short(value: float) -> str:
    """Write a value from -1 to 1 in the least room: no leading zero, 0 only where it is exact.

    What is not 0 but rounds to it is a dot: its sign would tell nothing.

    Examples
    --------
    >>> short(0.426), short(-0.05), short(0.0), short(-0.001), short(1.0)
    ('.43', '−.05', '0', '·', '1')
    """
    if value in (-1, 0, 1):
        return f"{value:.0f}".replace("-", "−").replace("−0", "0")
    if round(abs(value), 2) == 0:
        return "·"
    return f"{value:.2f}".replace("-", "−").replace("0.", ".", 1)


def n_range(sizes: Sequence[int]) -> str:
    """Write how many rows several values rest on: one number, or the lowest and the highest.

    Examples
    --------
    >>> n_range([40, 43, 41]), n_range([40, 40])
    ('40–43', '40')
    """
    low, high = min(sizes), max(sizes)
    return f"{low}" if low == high else f"{low}–{high}"


VISIBLE = 0.005
"""What two decimals show: a difference below it is nobody's lead."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """Write a number with its noun.

    Examples
    --------
    >>> counted(1, "cell"), counted(1200, "cell"), counted(0, "query", "queries")
    ('1 cell', '1,200 cells', '0 queries')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def of_all(count: int, total: int, noun: str = "") -> str:
    """Say how many of all, with forms of their own for none and all.

    Examples
    --------
    >>> of_all(0, 13, "cell"), of_all(1, 13), of_all(13, 13, "cell"), of_all(1, 1, "cell")
    ('none of 13 cells', '1', 'all 13 cells', 'the only cell')
    """
    if count == 0:
        return f"none of {counted(total, noun)}" if noun else "none"
    if count == total:
        if total == 1:
            return f"the only {noun}" if noun else "it"
        return f"all {counted(total, noun)}" if noun else f"all {total:,}"
    return f"{count:,} of {counted(total, noun)}" if noun else f"{count:,}"


def listed_ratios(ratios: Sequence[str]) -> str:
    """List ratios, a long list cut.

    Examples
    --------
    >>> listed_ratios(["0.5", "1.0"])
    '0.5 and 1.0'
    """
    if len(ratios) == 1:
        return ratios[0]
    if len(ratios) <= _RATIOS_LISTED:
        return f"{', '.join(ratios[:-1])} and {ratios[-1]}"
    shown = ", ".join(ratios[:_RATIOS_LISTED])
    more = len(ratios) - _RATIOS_LISTED
    return f"{shown} and {more} other ratio{'' if more == 1 else 's'}"


def cell_with(known: pd.DataFrame, column: str, value: float) -> str:
    """Say in which cell of a table a value is found, or how many cells share it.

    Examples
    --------
    >>> cells = pd.DataFrame({"embedding": "ME5S", "segment": ["0.5"], "n": 400, "x": 0.1})
    >>> cell_with(cells, "x", 0.1)
    'EM at K/N_p = 0.5, n = 400'
    """
    cells = known[known[column] == value]
    if len(cells) > 1:
        return f"in {len(cells)} cells"
    cell = cells.iloc[0]
    label = schema.embedding_label(str(cell["embedding"]))
    return f"{label} at K/N_p = {cell['segment']}, n = {int(cell['n']):,}"


def lowest_and_highest(numbers: pd.DataFrame, column: str) -> tuple[str, str]:
    """Write the lowest and the highest value, each with the cell that it stands in."""
    cells = (numbers.loc[numbers[column].idxmin()], numbers.loc[numbers[column].idxmax()])
    low, high = (f"{decimal(cell[column])} ({_place(cell)})" for cell in cells)
    return low, high


def _place(cell: pd.Series) -> str:
    label = schema.embedding_label(str(cell["embedding"]))
    if cell["segmentation"] == "narrow-wide":
        return f"{cell['dataset']} {cell['segment']}, {label}"
    return f"{label} at {cell['segment']}"


def rows_a_cell(sizes: pd.Series) -> str:
    """Say how many rows the cells rest on."""
    return f"{n_range(sizes)} rows a cell."


def without_value(values: pd.Series) -> str:
    """Say how many cells have no value; nothing where all have one."""
    count = int(values.isna().sum())
    return f" {count} of {len(values)} cells have no value." if count else ""
