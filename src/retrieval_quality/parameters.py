"""What a run can be told, and the refusal of everything else before anything runs."""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from retrieval_quality.errors import UsageError

COEFFICIENTS = {
    "spearman": "Spearman's ρ",
    "pearson": "Pearson's r",
    "kendall_b": "Kendall's τ-b",
    "kendall_c": "Kendall's τ-c",
}
ALPHA_MODES = ("published", "exact")


def _parameter(default: Any, kind: str, meaning: str) -> Any:
    return field(default=default, metadata={"type": kind, "meaning": meaning})


@dataclass(frozen=True)
class Parameters:
    """The parameters of a run: of a notebook, of the book, or of one figure.

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
        "simulated",
        "text",
        "what to analyse: simulated, miniature, paper, a folder or file in the published format, "
        "or a pipeline configuration",
    )
    min_samples_ratio: int = _parameter(
        300, "whole number, 1 or more", "fewest graded rows of a segment of one rounded K/N_p"
    )
    min_samples_width: int = _parameter(
        100, "whole number, 1 or more", "fewest graded rows of a narrow or wide segment"
    )
    embeddings: tuple[str, ...] = _parameter(
        (), "list", "embeddings to keep, by plot label (AM) or code (AML12v2); empty: all"
    )
    datasets: tuple[str, ...] = _parameter(
        (), "list", "datasets to keep (A, M, N, Hs, Hp or the data's own); empty: all"
    )
    coefficient: str = _parameter(
        "spearman",
        "one of " + ", ".join(COEFFICIENTS),
        "coefficient of every correlation that does not name its own",
    )
    alpha: str | float = _parameter(
        "published",
        "published, exact, or a number from 0 to 1",
        "the best α of the published grid, the best of all α with ties as in exact arithmetic, "
        "or one fixed α",
    )
    seed: int = _parameter(1, "whole number, 0 or more", "seed of the simulation and of resampling")
    out: str = _parameter(
        "", "text", "folder that figures and tables are written to; empty: nothing is written"
    )

    def __post_init__(self) -> None:
        """Convert each value to the type of its default and refuse what does not fit."""
        for parameter in fields(self):
            value = getattr(self, parameter.name)
            object.__setattr__(self, parameter.name, _checked(parameter.name, value))

    @classmethod
    def parse(cls, given: Iterable[str] | Mapping[str, Any] = ()) -> Parameters:
        """Read parameters from ``name=value`` texts or from a mapping of names to values.

        Parameters
        ----------
        given
            Texts such as ``"min_samples_ratio=40"`` (a list is written ``AM,EM`` or
            ``[AM, EM]``), or a mapping whose values have their types already.

        Raises
        ------
        UsageError
            A name is unknown or given twice, or a value has the wrong type.

        Examples
        --------
        >>> Parameters.parse({"seed": 7}).seed
        7
        >>> Parameters.parse(["min_sample_ratio=40"])
        Traceback (most recent call last):
        ...
        retrieval_quality.errors.UsageError: there is no parameter 'min_sample_ratio'; \
did you mean min_samples_ratio? Accepted: data, min_samples_ratio, min_samples_width, \
embeddings, datasets, coefficient, alpha, seed, out
        """
        if isinstance(given, Mapping):
            values = {str(name): value for name, value in given.items()}
            for name in values:
                _check_name(name)
        else:
            values = _read_pairs([given] if isinstance(given, str) else given)
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
        """List the parameters: ``name``, ``type``, ``default`` and ``meaning`` of each.

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
            }
            for parameter in fields(cls)
        ]


_FIELDS = {parameter.name: parameter for parameter in fields(Parameters)}


def _check_name(name: str) -> None:
    if name in _FIELDS:
        return
    near = difflib.get_close_matches(name, _FIELDS, n=1)
    hint = f"; did you mean {near[0]}?" if near else "."
    raise UsageError(f"there is no parameter {name!r}{hint} Accepted: {', '.join(_FIELDS)}")


def _read_pairs(pairs: Iterable[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        name = name.strip()
        if not equals:
            raise UsageError(f"a parameter is written name=value, not {pair!r}")
        _check_name(name)
        if name in values:
            raise UsageError(f"the parameter {name} is given twice")
        values[name] = _read_text(name, text.strip())
    return values


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
