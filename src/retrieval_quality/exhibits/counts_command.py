"""The commands ``counts write`` and ``counts add``: graded rows counted, and counts added up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from retrieval_quality.commandline import check_file, parse, say
from retrieval_quality.errors import UsageError

if TYPE_CHECKING:
    from retrieval_quality.statistics.counting import Part


@click.group()
def counts() -> None:
    """Count graded rows into a small file, and add up the counts of several machines.

    `correlations --counts FILE` gives the same numbers from it as from the rows.
    """


_memory = click.option(
    "--memory", default="1GB", show_default=True, help="What the database may hold in memory."
)
_out = click.option("--out", required=True, help="FILE.parquet.")


@counts.command("write")
@click.argument("data", metavar="DATA")
@_memory
@_out
def write_counts(data: str, memory: str, out: str) -> None:
    """Count the graded rows of DATA (what --data takes elsewhere)."""
    from retrieval_quality import outputs, sources
    from retrieval_quality.statistics import counting

    parameters = parse(data, (), by="counts write", uses=["data"])
    out = _checked(out, parameters.data)
    with outputs.sole_file(out):
        part = counting.write(sources.load(parameters.data), out, memory=memory)
    _tell((part,), out)


@counts.command("add")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@_memory
@_out
def add_counts(files: tuple[Path, ...], memory: str, out: str) -> None:
    """Add up files of counts. Rows that two of them have in common are counted twice."""
    from retrieval_quality import outputs
    from retrieval_quality.statistics import counting

    out = _checked(out)
    with outputs.sole_file(out):
        parts = counting.add(files, out, memory=memory)
    _tell(parts, out)
    if parts[1:]:
        say("rows that are in two of the files, if any, are counted twice: counts cannot tell")


def _checked(out: str, data: str = "") -> str:
    if out == "-":
        raise UsageError("--out -: counts are a Parquet file; name a file")
    return check_file(out, (".parquet",), data)


def _tell(parts: tuple[Part, ...], out: str) -> None:
    made = " (simulated)" if parts[0].simulated else ""
    rows, what = sum(part.rows for part in parts), "parts" if parts[1:] else "part"
    say(f"{rows} graded rows{made} of {len(parts)} {what}: {out}")
