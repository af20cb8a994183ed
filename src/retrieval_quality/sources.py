"""From what a person names to a dataset: the default, the paper's, a path, a pipeline's output."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from retrieval_quality.data.dataset import Dataset, Notice, open_path
from retrieval_quality.data.simulate import made_here, simulate
from retrieval_quality.errors import UsageError

ACCEPTED = (
    '"simulated" (the default), "paper" (the published dataset), a folder or file in the published '
    "format, or a pipeline configuration ending in .yml or .yaml"
)
"""What `load` takes, for messages."""


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
        ``"simulated"``; ``"paper"``, the published dataset from the Hugging Face hub; a folder or
        file in the published format, which is still called simulated if it was exported from
        there; or a pipeline configuration (``.yml``, ``.yaml``), which is run, or resumed, first.
        A folder that is itself called ``paper`` is ``./paper``.
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
        Called ``simulated`` or ``paper``, or after its folder or file.

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
    if name == "paper":
        return _paper(revision, cache, progress)
    path = Path(name).expanduser()
    if not name or not path.exists():
        raise UsageError(f"There is no data {name!r}: data can be {ACCEPTED}.")
    if path.suffix.lower() in (".yml", ".yaml"):
        from retrieval_quality.pipeline import run

        made = open_path(run.run(path), cache=cache, progress=progress)
        return dataclasses.replace(made, source=name)
    opened = open_path(path, cache=cache, progress=progress)
    return dataclasses.replace(opened, simulated=opened.simulated or made_here(opened))


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
