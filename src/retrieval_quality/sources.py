"""From what a person names to a dataset: the default, the paper's, a path, a pipeline's output."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from retrieval_quality.data.dataset import Dataset, Notice, open_path
from retrieval_quality.data.simulate import made_here, simulate
from retrieval_quality.errors import UsageError
from retrieval_quality.parameters import expand_home

ACCEPTED = (
    '"simulated" (the default), "miniature" (a few hundred real rows), "paper" (the published '
    "dataset), a folder or file in the published format, or a pipeline configuration (.yml, .yaml)"
)
"""What `load` takes, for messages."""


MINIATURE = Path(__file__).parent / "data" / "miniature"
"""Folder with the real miniature; its README says where it is from."""

THIN = (
    "real, but thin: {rows:,} graded rows of {ids:,} queries, answered and graded by one small "
    "language model, without human grades and without MSMARCO; with so few rows the defaults "
    "show nearly nothing (try min_samples_ratio=15, min_samples_width=15), and what is shown says "
    "little about other data"
)
"""What a reader of the miniature is told."""


def load(
    data: str | Path = "simulated",
    *,
    seed: int = 1,
    revision: str = "main",
    cache: Path | None = None,
    progress: bool = True,
) -> Dataset:
    """Give the dataset that a name or path stands for.

    Parameters
    ----------
    data : str or Path
        ``"simulated"``; ``"miniature"``, real rows that come with the package; ``"paper"``, the
        published dataset from the Hugging Face hub; a folder or file in the published format, which
        is still called simulated if it was exported from there; or a pipeline configuration
        (``.yml``, ``.yaml``), which is run, or resumed, first. A folder that is itself called
        ``paper`` is ``./paper``.
    seed : int
        Seed of the simulated dataset; the others do not use it.
    revision : str
        Branch, tag or commit of the published dataset; the others do not use it.
    cache : Path, optional
        Folder of the columnar cache instead of the user's.
    progress : bool
        Whether progress goes to stderr.

    Returns
    -------
    Dataset
        Called ``simulated``, ``miniature`` or ``paper``, or after its folder or file.

    Raises
    ------
    UsageError
        If `data` is none of these, or a configuration is wrong.
    DataError
        If the data cannot be fetched, read or made.

    Examples
    --------
    >>> load("smulated")
    Traceback (most recent call last):
    ...
    retrieval_quality.errors.UsageError: There is no data 'smulated': data can be "simulated" ...
    """
    name = str(data).strip()
    if name == "simulated":
        return simulate(seed, cache=cache)
    if name == "miniature":
        return _miniature(cache)
    if name == "paper":
        return _paper(revision, cache, progress)
    path = expand_home(name)
    if not name or not path.exists():
        raise UsageError(f"There is no data {name!r}: data can be {ACCEPTED}.")
    if path.suffix.lower() in (".yml", ".yaml"):
        from retrieval_quality.pipeline import run

        made = open_path(run.run(path), cache=cache, progress=progress)
        return dataclasses.replace(made, source=name)
    opened = open_path(path, cache=cache, progress=progress)
    return dataclasses.replace(opened, simulated=opened.simulated or made_here(opened))


def _miniature(cache: Path | None) -> Dataset:
    """Open the real rows that come with the package, and say how few they are."""
    dataset = open_path(MINIATURE, cache=cache, progress=False)
    graded = dataset.read("graded", ["id"])
    text = THIN.format(rows=len(graded), ids=graded["id"].nunique())
    notice = Notice("graded", "miniature", len(graded), text)
    return dataclasses.replace(
        dataset, name="miniature", source="miniature", notices=(notice, *dataset.notices)
    )


def _paper(revision: str, cache: Path | None, progress: bool) -> Dataset:
    """Open the published dataset, with its commit and what the fetch had to say."""
    from retrieval_quality.data import hub  # its client takes half a second to import

    fetched = hub.fetch(revision=revision, progress=progress)
    dataset = open_path(fetched.folder, cache=cache, progress=progress)
    said = tuple(Notice("graded", "fetched", 1, text) for text in fetched.notices)
    return dataclasses.replace(
        dataset,
        name="paper",
        source=f"{fetched.repo} at {revision}",
        commit=fetched.commit,
        notices=dataset.notices + said,
    )
