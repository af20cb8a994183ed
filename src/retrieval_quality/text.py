"""Text to be shown: that of others made safe, what is not seen spelled out; signed numbers."""

from __future__ import annotations

import html
import unicodedata
from typing import Any

_HIDDEN = {"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"}
_JOINERS = "\u200c\u200d"  # needed to write some languages, and harmless


def visible(text: Any, longest: int | None = None, *, keep: str = "\n\t") -> str:
    r"""Spell out characters that are not seen, or that change how others are seen.

    Parameters
    ----------
    text
        Anything; what is no text is written as text first.
    longest : int, optional
        Cut to that many characters, the last of them an ellipsis.
    keep : str
        Control characters that stay as they are; none where the text must fill one line.

    Examples
    --------
    >>> visible("red" + chr(27) + "[0m " + chr(0x202E) + "txt")
    'red\\x1b[0m \\u202etxt'
    >>> visible("a\tb", keep=""), visible("abcdef", 4)
    ('a\\tb', 'abc…')
    """
    given = str(text) if longest is None else str(text)[: longest + 1]
    shown = "".join(
        c.encode("unicode_escape").decode("ascii")
        if unicodedata.category(c) in _HIDDEN and c not in keep and c not in _JOINERS
        else c
        for c in given
    )
    return shown if longest is None or len(shown) <= longest else shown[: longest - 1] + "…"


def line(text: Any, longest: int = 90) -> str:
    r"""Make text fit one line of a listing or a picture.

    Examples
    --------
    >>> line("a\tb\x1b[0m")
    'a\\tb\\x1b[0m'
    """
    return visible(text, longest, keep="")


def escape(text: Any) -> str:
    """Make any text safe inside an element or an attribute of HTML.

    Examples
    --------
    >>> escape('<b title="x">')
    '&lt;b title=&quot;x&quot;&gt;'
    """
    return html.escape(visible(text))


def signed(value: float) -> str:
    """Write a difference with its sign.

    Examples
    --------
    >>> signed(0.0312), signed(-0.5), signed(0.0)
    ('+0.031', '−0.500', '0.000')
    """
    text = f"{abs(value):.3f}"
    if float(text) == 0:
        return text
    return ("+" if value > 0 else "−") + text
