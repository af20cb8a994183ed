"""Companion to "How important is Recall for Measuring Retrieval Quality?" (arXiv 2512.20854).

The names below are what people use; each is loaded when it is first asked for.

Examples
--------
>>> import retrieval_quality
>>> retrieval_quality.score({"n_positives": [2], "K": [5], "Np": [4]}, ["P", "R"])
     P    R
0  0.4  0.5
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "MEASURES": "measures",
    "Parameters": "parameters",
    "catalogue": "exhibits",
    "correlate": "statistics.correlation",
    "cut": "measures",
    "judge": "measures",
    "load": "sources",
    "measure": "measures",
    "score": "measures",
    "start": "book.pages",
}
_MODULES = {"correlation": "statistics.correlation"}
"""Modules that once stood at the top."""

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{_MODULES[name]}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = import_module(f"{__name__}.{_HOMES[name]}")
    if name == "catalogue":
        return import_module(f"{home.__name__}.{name}")
    return getattr(home, name)


def __dir__() -> list[str]:
    return [*__all__, *_MODULES]
