"""What the commands of every folder share: their options, and how they say and write things."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from retrieval_quality import outputs
from retrieval_quality.errors import UsageError
from retrieval_quality.parameters import Parameters, check_place, read_pairs

if TYPE_CHECKING:
    import pandas as pd

data_option = click.option(
    "--data",
    help="simulated, miniature, paper, a folder or file in the published format, or a "
    "pipeline configuration.  [default: simulated]",
)
parameters_option = click.option(
    "-p",
    "--parameter",
    "pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter of the run; one that the command does not use is refused.",
)


def parse(
    data: str | None,
    pairs: Iterable[str],
    *,
    by: str = "this command",
    uses: Iterable[str] | None = None,
    reasons: Mapping[str, str] | None = None,
) -> Parameters:
    """Read ``--data`` and every ``-p``; refuse what the command does not use.

    Parameters
    ----------
    data : str or None
        Of `data_option`.
    pairs : iterable of str
        Of `parameters_option`.
    by, uses, reasons
        As in `parameters.check_uses`. ``seed`` is used wherever the data is simulated, for then
        it is the seed of the data too.

    Raises
    ------
    UsageError
        A parameter is unknown, unused or wrong, or the data is named twice.

    Examples
    --------
    >>> parse("elsewhere", ["seed=3"], by="data", uses=["data"])
    Traceback (most recent call last):
    ...
    retrieval_quality.errors.UsageError: data does not use seed: the data is not simulated, and \
nothing else in it is random. It uses data.
    """
    given = read_pairs(pairs)
    if data is not None and given.setdefault("data", data) != data:
        raise UsageError(f"the data is named twice: --data {data} and -p data={given['data']}")
    used = None if uses is None else list(uses)
    if used is not None and given.get("data", "simulated") == "simulated":
        used.append("seed")
    why = {
        "seed": "the data is not simulated, and nothing else in it is random",
        **(reasons or {}),
    }
    pairs = [f"{name}={value}" for name, value in given.items()]
    return Parameters.parse(pairs, uses=used, by=by, reasons=why)


def say(text: str) -> None:
    """Tell a person something, on standard error."""
    click.echo(text, err=True)


def printable(value: Any) -> str:
    r"""Show any text safely in a terminal: control and direction characters become escapes.

    Examples
    --------
    >>> print(printable("red: " + chr(27) + "[31m"))
    red: \x1b[31m
    """
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in str(value)
    )


def check_file(out: str, endings: tuple[str, ...], data: str = "simulated") -> str:
    """Check the file that a command is going to write, before it begins.

    Parameters
    ----------
    out : str
        A path, or ``-`` for standard output.
    endings : tuple of str
        That it may have.
    data : str
        What is read; it is never written over.

    Returns
    -------
    str
        The path, ``~`` replaced, or ``-``.

    Raises
    ------
    UsageError
        The ending is another one, the place cannot be written to, or it is the data itself.
    """
    if out == "-":
        if sys.stdout is None:
            raise UsageError("--out -: standard output is closed; name a file")
        return out
    path = Path(check_place(out, "--out"))
    if path.suffix not in endings:
        named = ", ".join(endings[:-1]) + " or " + endings[-1] if endings[1:] else endings[0]
        raise UsageError(f"--out {out}: the ending must be {named} (or - for standard output)")
    if path.is_dir():
        raise UsageError(f"--out {out} is a folder; name a file")
    source, place = Path(os.path.realpath(data)), Path(os.path.realpath(path))
    if place == source or (place.parent == source and place.name.startswith("samples_")):
        raise UsageError(f"--out {out} is the data itself; name another file")
    outputs.check_writable(path)
    return str(path)


FRAME_ENDINGS = (".csv", ".parquet", ".json")


def write_frame(frame: pd.DataFrame, out: str) -> None:
    """Write a table to a .csv, .parquet or .json file, or as CSV to standard output (``-``).

    Parameters
    ----------
    frame
        The table.
    out
        Path whose ending says the format, or ``-``; see `check_file` and `FRAME_ENDINGS`.

    Raises
    ------
    UsageError
        The ending is none of the three.
    DataError
        The file cannot be written; what was there before is still whole.
    """
    if check_file(out, FRAME_ENDINGS) == "-":
        frame.to_csv(sys.stdout, index=False, lineterminator="\n")
        return
    path = Path(out)
    writers: dict[str, Callable[[Path], Any]] = {
        ".csv": lambda p: frame.to_csv(p, index=False, lineterminator="\n", encoding="utf-8"),
        ".parquet": lambda p: frame.to_parquet(p, index=False),
        ".json": lambda p: frame.to_json(p, orient="records", indent=1, double_precision=15),
    }
    with outputs.placing(path) as part:
        writers[path.suffix](part)
    say(f"{len(frame)} rows: {path}")


def write_any_text(stream: Any) -> None:
    """Make a stream take any text: files and pipes as UTF-8, a terminal in its own encoding."""
    if isinstance(stream, io.TextIOWrapper):
        encoding = None if stream.isatty() else "utf-8"
        stream.reconfigure(encoding=encoding, errors="backslashreplace")
