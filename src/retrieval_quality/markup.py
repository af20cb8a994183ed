"""HTML that a page is put together from: text made safe, tables, things that fold."""

from __future__ import annotations

import math
import re
from typing import Any

import pandas as pd

from retrieval_quality.text import escape, signed, visible

__all__ = ["details", "escape", "prose", "scrolling", "shade", "table", "visible"]

_LONG = 60  # characters from which a cell of a table may break into lines
_SUBSCRIPT = re.compile(r"\b([A-Za-z]{1,4})_([A-Za-z]{1,2})\b")
_BELOW, _ABOVE = (240, 165, 80), (170, 150, 215)  # light enough for dark text at full strength


def prose(text: str) -> str:
    """Escape a sentence and set its subscripts, such as ``N_p``.

    Examples
    --------
    >>> prose("K < N_p")
    'K &lt; N<sub>p</sub>'
    """
    return _SUBSCRIPT.sub(r"\1<sub>\2</sub>", escape(text))


def details(summary: str, body: str, *, opened: bool = False) -> str:
    """Fold HTML away under a line of plain text."""
    opening = "<details open>" if opened else "<details>"
    return f"{opening}<summary>{prose(summary)}</summary>{body}</details>"


def table(frame: pd.DataFrame, name: str) -> str:
    """Write a table in a box that scrolls; text is escaped, what is undefined is a dash.

    Parameters
    ----------
    frame : DataFrame
        Numbers are set right and cut to a readable length, everything else is text. A column
        without any text, such as reasons where all is defined, is left out.
    name : str
        What the table is, for those who do not see it.

    Returns
    -------
    str
        HTML.
    """
    said = [name for name in frame.columns if not _says_nothing(frame[name])]
    columns = [_column(frame[column]) for column in said]
    head = "".join(f'<th scope="col">{prose(str(column))}</th>' for column in said)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in zip(*columns, strict=True))
    return scrolling(f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>", name)


def scrolling(rows: str, name: str) -> str:
    """Put the rows of a table into a box that scrolls and that a keyboard reaches."""
    return (
        f'<div class="rq-scroll" tabindex="0" role="group" aria-label="{escape(name)}">'
        f"<table>{rows}</table></div>"
    )


def _says_nothing(values: pd.Series) -> bool:
    return len(values) > 0 and all(isinstance(value, str) and not value for value in values)


def _column(values: pd.Series) -> list[str]:
    """Write the cells of one column."""
    kinds = pd.api.types
    if kinds.is_numeric_dtype(values.dtype) and not kinds.is_bool_dtype(values.dtype):
        whole = kinds.is_integer_dtype(values.dtype)
        return [f'<td class="rq-value">{_number(value, whole)}</td>' for value in values]
    texts = ["" if value is None or value is pd.NA else str(value) for value in values]
    kind = ' class="rq-long"' if max(map(len, texts), default=0) > _LONG else ""
    return [f"<td{kind}>{escape(text)}</td>" for text in texts]


def _number(value: Any, whole: bool) -> str:
    if pd.isna(value):
        return "–"
    small = 0 < abs(value) < 1e-3
    text = f"{value:,}" if whole else f"{value:.2e}" if small else f"{value:.4f}"
    return text.replace("-", "−")


def shade(value: float, scale: float) -> str:
    """Shade a cell: towards orange below zero, towards purple above, white at zero."""
    if math.isnan(value):
        return '<td class="rq-value">–</td>'
    strength = min(abs(value) / scale, 1.0) * 0.75
    full = _BELOW if value < 0 else _ABOVE
    mixed = [round(255 + (channel - 255) * strength) for channel in full]
    colour = "#" + "".join(f"{channel:02x}" for channel in mixed)
    return f'<td class="rq-value" style="background:{colour};color:#111">{signed(value)}</td>'
