"""What a run can be told, and the refusal of everything else before anything runs.

Three things are apart. *What* is analysed (``data``, ``embeddings``, ``datasets``, the smallest
segments) and *how* (``coefficient``, ``alpha``, ``seed``) are the fields of `Parameters`. *Where*
results go (``out``) changes no number and is no field: notebooks and commands take it beside them,
and `check_place` says whether it can be meant.

Nobody has to use every parameter. A command, an exhibit or a notebook declares the names that it
uses; a name that was given and is not among them is refused by `check_uses`, with the reason.
"""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from retrieval_quality.errors import UsageError

COEFFICIENTS = {
    "spearman": "Spearman's ρ",
    "pearson": "Pearson's r",
    "kendall_b": "Kendall's τ-b",
    "kendall_c": "Kendall's τ-c",
}
ALPHA_MODES = ("published", "exact")
WHERE: dict[str, Any] = {
    "name": "out",
    "type": "text",
    "default": "",
    "meaning": "folder that figures and tables are written to; empty: nothing is written",
    "group": "where",
}
"""How a notebook's place for results is described, as by `Parameters.describe`."""
_NO_PLACES = {"none", "null", "nan", "true", "false", "[]", "{}", "()", "''", '""', "undefined"}


def _parameter(group: Literal["what", "how"], default: Any, kind: str, meaning: str) -> Any:
    return field(default=default, metadata={"type": kind, "meaning": meaning, "group": group})


@dataclass(frozen=True)
class Parameters:
    """What is analysed, and how: the parameters of a notebook, of the book, or of one figure.

    Every value is checked when the object is made, so that a run never starts with a
    parameter that it cannot use.

    Raises
    ------
    UsageError
        A value has the wrong type or lies outside of what is accepted.

    Examples
    --------
    >>> Parameters.parse(["min_samples_ratio=40", "embeddings=AM,EM"]).embeddings
    ('AM', 'EM')
    >>> Parameters().min_samples_width
    100
    """

    data: str = _parameter(
        "what",
        "simulated",
        "text",
        "what to analyse: simulated, miniature, paper, a folder or file in the published format, "
        "or a pipeline configuration",
    )
    min_samples_ratio: int = _parameter(
        "what",
        300,
        "whole number, 1 or more",
        "fewest graded rows of a segment of one rounded K/N_p",
    )
    min_samples_width: int = _parameter(
        "what", 100, "whole number, 1 or more", "fewest graded rows of a narrow or wide segment"
    )
    embeddings: tuple[str, ...] = _parameter(
        "what", (), "list", "embeddings to keep, by plot label (AM) or code (AML12v2); empty: all"
    )
    datasets: tuple[str, ...] = _parameter(
        "what", (), "list", "datasets to keep (A, M, N, Hs, Hp or the data's own); empty: all"
    )
    coefficient: str = _parameter(
        "how",
        "spearman",
        "one of " + ", ".join(COEFFICIENTS),
        "coefficient of every correlation that does not name its own",
    )
    alpha: str | float = _parameter(
        "how",
        "published",
        "published, exact, or a number from 0 to 1",
        "the best α of the published grid, the best of all α with ties as in exact arithmetic, "
        "or one fixed α",
    )
    seed: int = _parameter(
        "how", 1, "whole number, 0 or more", "seed of the simulation and of resampling"
    )

    def __post_init__(self) -> None:
        """Convert each value to the type of its default and refuse what does not fit."""
        for parameter in fields(self):
            value = getattr(self, parameter.name)
            object.__setattr__(self, parameter.name, _checked(parameter.name, value))

    @classmethod
    def parse(
        cls,
        given: Iterable[str] | Mapping[str, Any] = (),
        *,
        uses: Iterable[str] | None = None,
        by: str = "this run",
        reasons: Mapping[str, str] | None = None,
    ) -> Parameters:
        """Read parameters from ``name=value`` texts or from a mapping of names to values.

        Parameters
        ----------
        given
            Texts such as ``"min_samples_ratio=40"`` (a list is written ``AM,EM`` or
            ``[AM, EM]``), or a mapping whose values have their types already.
        uses, by, reasons
            As in `check_uses`; every parameter is used where `uses` is left out.

        Raises
        ------
        UsageError
            A name is unknown, not used or given twice, or a value has the wrong type.

        Examples
        --------
        >>> Parameters.parse({"seed": 7}).seed
        7
        >>> Parameters.parse(["min_sample_ratio=40"])
        Traceback (most recent call last):
        ...
        retrieval_quality.errors.UsageError: there is no parameter 'min_sample_ratio'; \
did you mean min_samples_ratio? Accepted: data, min_samples_ratio, min_samples_width, \
embeddings, datasets, coefficient, alpha, seed
        """
        if isinstance(given, Mapping):
            values = {str(name): value for name, value in given.items()}
        else:
            values = read_pairs(given)
        for name in values:
            _check_name(name)
        if uses is not None:
            check_uses(values, uses, by, reasons)
        if not isinstance(given, Mapping):
            values = {name: _read_text(name, text) for name, text in values.items()}
        return cls(**values)

    def as_dict(self) -> dict[str, Any]:
        """Give the parameters as plain values that JSON and papermill can hold.

        Examples
        --------
        >>> Parameters(datasets=("A",)).as_dict()["datasets"]
        ['A']
        """
        values = {parameter.name: getattr(self, parameter.name) for parameter in fields(self)}
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}

    @classmethod
    def describe(cls) -> list[dict[str, Any]]:
        """List the parameters: ``name``, ``type``, ``default``, ``meaning`` and ``group`` of each.

        The group is ``what`` is analysed, or ``how``.

        Examples
        --------
        >>> Parameters.describe()[1]["default"]
        300
        """
        defaults = cls().as_dict()
        return [
            {
                "name": parameter.name,
                "type": parameter.metadata["type"],
                "default": defaults[parameter.name],
                "meaning": parameter.metadata["meaning"],
                "group": parameter.metadata["group"],
            }
            for parameter in fields(cls)
        ]


_FIELDS = {parameter.name: parameter for parameter in fields(Parameters)}


def check_uses(
    given: Iterable[str],
    uses: Iterable[str],
    by: str,
    reasons: Mapping[str, str] | None = None,
) -> None:
    """Refuse a parameter that was given and would change nothing.

    Parameters
    ----------
    given : iterable of str
        Names that were given.
    uses : iterable of str
        Names that are used.
    by : str
        What uses them, as the message begins: ``"claims"``, ``"figure 5"``.
    reasons : mapping, optional
        Why a name is not used, after the colon.

    Raises
    ------
    UsageError
        One of `given` is not among `uses`.

    Examples
    --------
    >>> check_uses(["seed", "alpha"], ["data", "seed"], "claims", {"alpha": "each has its own"})
    Traceback (most recent call last):
    ...
    retrieval_quality.errors.UsageError: claims does not use alpha: each has its own. \
It uses data, seed.
    """
    used = list(dict.fromkeys(uses))
    for name in given:
        if name not in used:
            why = (reasons or {}).get(name, "it would change nothing")
            it_uses = f"It uses {', '.join(used)}." if used else "It uses no parameter."
            raise UsageError(f"{by} does not use {name}: {why}. {it_uses}")


def read_pairs(pairs: Iterable[str]) -> dict[str, str]:
    """Split ``name=value`` texts, each name once; whether they are parameters is not asked here.

    Raises
    ------
    UsageError
        A text has no ``=``, or a name is given twice.

    Examples
    --------
    >>> read_pairs(["data=a=b", " seed = 3 "])
    {'data': 'a=b', 'seed': '3'}
    """
    values: dict[str, str] = {}
    for pair in [pairs] if isinstance(pairs, str) else pairs:
        name, equals, text = pair.partition("=")
        name = name.strip()
        if not equals:
            raise UsageError(f"a parameter is written name=value, not {pair!r}")
        if name in values:
            raise UsageError(f"the parameter {name} is given twice")
        values[name] = text.strip()
    return values


def check_place(value: Any, name: str = "out") -> str:
    """Give the place that results go to as a path, and refuse what is a slip rather than a place.

    Parameters
    ----------
    value : str or path
        A folder or file; empty for none. ``~`` is the home folder.
    name : str
        What it was given as, for the message.

    Returns
    -------
    str
        Empty, or the path.

    Raises
    ------
    UsageError
        It is no text, has blanks around it or characters that no path has, begins with a home
        that is not there, or is a word for nothing, such as ``None``; ``./None`` is a folder.

    Examples
    --------
    >>> check_place("figures")
    'figures'
    >>> check_place("None")
    Traceback (most recent call last):
    ...
    retrieval_quality.errors.UsageError: out cannot be 'None'; it is a folder or empty (a folder \
of that name is ./None)
    """
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str) or "\0" in text or text != text.strip():
        raise UsageError(f"{name} cannot be {value!r}; it is a folder or empty")
    if text.lower() in _NO_PLACES:
        raise UsageError(
            f"{name} cannot be {text!r}; it is a folder or empty "
            f"(a folder of that name is ./{text})"
        )
    return str(expand_home(text)) if text else ""


def expand_home(path: str | Path) -> Path:
    """Put the home folder in the place of ``~`` or ``~name``.

    Raises
    ------
    UsageError
        There is no such home.
    """
    try:
        return Path(path).expanduser()
    except (RuntimeError, KeyError):
        raise UsageError(
            f"{path}: there is no home folder {Path(path).parts[0]}; write the path in full"
        ) from None


def _check_name(name: str) -> None:
    if name in _FIELDS:
        return
    if name == WHERE["name"]:
        raise UsageError(
            "out is no parameter of an analysis: it says where results go; write --out"
        )
    near = difflib.get_close_matches(name, _FIELDS, n=1)
    hint = f"; did you mean {near[0]}?" if near else "."
    raise UsageError(f"there is no parameter {name!r}{hint} Accepted: {', '.join(_FIELDS)}")


def _read_text(name: str, text: str) -> Any:
    """Convert a text to the type of the parameter's default; whether it fits is checked later."""
    if isinstance(_FIELDS[name].default, int):
        try:
            return int(text)
        except ValueError:
            raise _wrong(name, text) from None
    return text


def _checked(name: str, value: Any) -> Any:
    default = _FIELDS[name].default
    if name == "alpha":
        return _checked_alpha(value)
    if isinstance(default, tuple):
        return _checked_list(name, value)
    if isinstance(default, int):
        if isinstance(value, bool) or not isinstance(value, int):
            raise _wrong(name, value)
        if value < (0 if name == "seed" else 1):
            raise _wrong(name, value)
        return value
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, str):
        raise _wrong(name, value)
    if name == "data" and not value.strip():
        raise _wrong(name, value)
    if name == "coefficient" and value not in COEFFICIENTS:
        raise _wrong(name, value)
    return value


def _checked_list(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        text = value.strip()
        if text.startswith("[") != text.endswith("]"):
            raise _wrong(name, value)
        if text.startswith("["):
            text = text[1:-1]
        value = [item.strip().strip("'\"") for item in text.split(",")] if text.strip() else []
    if not isinstance(value, list | tuple) or not all(isinstance(v, str) and v for v in value):
        raise _wrong(name, value)
    return tuple(dict.fromkeys(value))


def _checked_alpha(value: Any) -> str | float:
    if isinstance(value, str) and value in ALPHA_MODES:
        return value
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number <= 1:
        raise _wrong("alpha", value)
    return number


def _wrong(name: str, value: Any) -> UsageError:
    return UsageError(
        f"the parameter {name} cannot be {value!r}; it is {_FIELDS[name].metadata['type']}"
    )
