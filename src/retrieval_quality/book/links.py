"""Where the files of a page lie on the web: the build writes it down, the page reads it.

Files belong to a page: a build gives each notebook a folder of its own as ``out``. In it lies a
small file with the address that the folder has, seen from the pages. A page links to its files by
that address; in a folder without one it is not a page of a book.
"""

from __future__ import annotations

import json
import posixpath
from pathlib import Path

from retrieval_quality import outputs

FILE = ".address.json"


def write_address(folder: str | Path, address: str) -> None:
    """Note in a folder of results the address that it has on the web, such as ``../figures/one``.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_address(folder, "../figures/one")
    ...     address_of(folder), address_of(folder, "two")
    ('../figures/one', '../figures/two')
    """
    outputs.write_text(Path(folder) / FILE, json.dumps({"address": address}) + "\n")


def address_of(folder: str | Path, notebook: str = "") -> str | None:
    """Give the address of a page's files.

    Parameters
    ----------
    folder : path
        The ``out`` of the page; may be empty.
    notebook : str
        Another page of the same book, whose files are meant.

    Returns
    -------
    str or None
        Without a slash at the end; None where the folder is not of a book.
    """
    if not str(folder):
        return None
    try:
        told = json.loads((Path(folder) / FILE).read_text(encoding="utf-8"))
        address = str(told["address"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return posixpath.join(posixpath.dirname(address), notebook) if notebook else address
