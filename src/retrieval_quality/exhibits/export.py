"""Figures and tables as files, each with its numbers and where they come from.

The same inputs give the same bytes in .svg and .csv; only the .json holds a date.
"""

from __future__ import annotations

import datetime
import io
import json
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from retrieval_quality import outputs
from retrieval_quality.errors import DataError
from retrieval_quality.exhibits import drawing
from retrieval_quality.exhibits.exhibit import Exhibit, Result
from retrieval_quality.parameters import Parameters
from retrieval_quality.text import line

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from retrieval_quality.data.dataset import Dataset

PNG_DPI = 160
"""Dots per inch of the bitmaps."""
VERSIONED = (
    "retrieval-quality",
    "numpy",
    "pandas",
    "scipy",
    "numba",
    "duckdb",
    "matplotlib",
    "seaborn",
)
"""Packages whose version the provenance names."""


def write(
    exhibit: Exhibit, dataset: Dataset, parameters: Parameters | None, out: Path | str
) -> list[Path]:
    """Write a figure or table with its numbers and provenance.

    Parameters
    ----------
    exhibit
        From the catalogue, or made like one.
    dataset
        Loaded data.
    parameters
        Of the run; the paper's when left out.
    out
        Folder to write to; made if it is not there.

    Returns
    -------
    list of Path
        The files, in the order of its ``suffixes``. What the data cannot show is written too: a
        picture with the reason, numbers without rows, and ``missing`` in the provenance.

    Raises
    ------
    DataError
        The folder or a file cannot be written. What was there before is still whole then.
    """
    return write_result(exhibit.compute(dataset, parameters), dataset, out)


def write_result(
    result: Result, dataset: Dataset, out: Path | str, picture: Figure | None = None
) -> list[Path]:
    """Write a figure or table that is computed already, and drawn perhaps; see `write`.

    Parameters
    ----------
    result
        From `Exhibit.compute`.
    dataset
        The data that it was computed from.
    out
        Folder to write to; made if it is not there.
    picture
        From `Exhibit.draw`; drawn here when left out.

    Raises
    ------
    DataError
        The folder or a file cannot be written.
    """
    folder, stem = Path(out), result.exhibit.anchor
    return [
        outputs.write_bytes(folder / f"{stem}{suffix}", content)
        for suffix, content in _contents(result, dataset, picture).items()
    ]


def recognised(path: Path) -> bool:
    """Tell whether a file beside its provenance was written by this program, with a mark or not."""
    try:
        told = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        return set(told) >= {"label", "caption", "parameters", "versions"} and "data" in told
    except (OSError, ValueError, TypeError):
        return False


def write_claims(verdicts: list[dict[str, Any]], path: Path | str) -> Path:
    """Write the claims ledger as JSON, whole or not at all.

    Parameters
    ----------
    verdicts
        From `claims.evaluate`.
    path
        File to write; its folder is made if it is not there.

    Raises
    ------
    DataError
        The file cannot be written.
    """
    return outputs.write_text(path, f"{json.dumps(verdicts, indent=1, ensure_ascii=False)}\n")


def _contents(result: Result, dataset: Dataset, picture: Figure | None) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    wanted = result.exhibit.suffixes
    if ".svg" in wanted:
        picture = picture or result.exhibit.draw(result)
        contents[".svg"] = svg_bytes(picture)
        contents[".png"] = png_bytes(picture)
    if ".csv" in wanted:
        contents[".csv"] = csv_bytes(result.numbers)
    if ".txt" in wanted:
        contents[".txt"] = (result.missing + "\n" if result.missing else result.text).encode()
    described = json.dumps(provenance(result, dataset), indent=1, ensure_ascii=False)
    # a path may hold bytes that are no text in any encoding; JSON knows their escapes
    contents[".json"] = f"{described}\n".encode(errors="backslashreplace")
    return contents


def svg_bytes(picture: Figure) -> bytes:
    """Give a figure as SVG: text as outlines, no date, the same bytes for the same figure."""
    buffer = io.BytesIO()
    with drawing.style():
        picture.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def png_bytes(picture: Figure) -> bytes:
    """Give a figure as PNG of `PNG_DPI` dots per inch."""
    buffer = io.BytesIO()
    with drawing.style():
        picture.savefig(buffer, format="png", dpi=PNG_DPI)
    return buffer.getvalue()


def csv_bytes(numbers: pd.DataFrame) -> bytes:
    r"""Give numbers as CSV in UTF-8: shortest digits that read back to the same number.

    Examples
    --------
    >>> csv_bytes(pd.DataFrame({"a": [0.1, float("nan")]}))
    b'a\n0.1\n""\n'
    """
    return numbers.to_csv(index=False, lineterminator="\n").encode()


def provenance(result: Result, dataset: Dataset) -> dict[str, Any]:
    """Say what a figure or table shows, from which data, parameters and versions, and when.

    Returns
    -------
    dict
        Plain values for JSON: ``label``, ``title``, ``caption``, ``alt``, ``kind``, ``measures``,
        ``coefficient``, ``n``, ``limits``, ``notes``, ``missing``, ``data``, ``parameters``,
        ``versions``, ``date``.
    """
    exhibit = result.exhibit
    return {
        "label": exhibit.label,
        "title": exhibit.title,
        "caption": exhibit.caption(result.parameters),
        "alt": exhibit.describe(result),
        "kind": exhibit.kind,
        "dataset": exhibit.dataset,
        "measures": list(exhibit.measures),
        "coefficient": result.coefficient,
        "n": result.n,
        "limits": list(result.limits) if result.limits else None,
        "notes": list(result.notes),
        "missing": result.missing,
        "data": {
            "name": dataset.name,
            "source": dataset.source,
            "simulated": dataset.simulated,
            "digest": dataset.digest,
            "commit": dataset.commit,
        },
        "parameters": result.parameters.as_dict(),
        "versions": versions(),
        "date": run_date(),
    }


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that the numbers and pictures rest on."""
    return {"python": platform.python_version()} | {
        name: metadata.version(name) for name in VERSIONED
    }


def run_date() -> str:
    """Date and time of the run in UTC; that of ``SOURCE_DATE_EPOCH`` where it is set.

    Raises
    ------
    DataError
        ``SOURCE_DATE_EPOCH`` is not a number of seconds.
    """
    given = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        now = (
            datetime.datetime.fromtimestamp(int(given), datetime.UTC)
            if given
            else datetime.datetime.now(datetime.UTC)
        )
    except (ValueError, OverflowError, OSError):
        raise DataError(
            f"the environment's SOURCE_DATE_EPOCH is {given!r}; it must be whole seconds since 1970"
        ) from None
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def provenance_line(dataset: Dataset, parameters: Parameters | None = None) -> str:
    """Say in one line of plain text which data, parameters and versions a page rests on.

    Parameters
    ----------
    dataset
        Loaded data.
    parameters
        Of the run; only those that differ from the paper's are named.

    Returns
    -------
    str
        Data, its digest (and commit), parameters, versions, date.
    """
    data = "simulated data" if dataset.simulated else "data"
    source = line(dataset.source, 120)
    commit = f", commit {dataset.commit}" if dataset.commit else ""
    default = Parameters().as_dict()
    given = (parameters or Parameters()).as_dict()
    changed = [
        f"{name} {', '.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in given.items()
        if value != default[name] and name != "data"
    ]
    said = f"parameters: {'; '.join(changed)}" if changed else "the paper's parameters"
    package = f"retrieval-quality {metadata.version('retrieval-quality')}"
    return f"{data}: {source} ({dataset.digest[:12]}{commit}); {said}; {package}; {run_date()}"
