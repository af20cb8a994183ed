"""What a run leaves behind: whole files, folders swapped at the end, and one run a folder.

An output changes only when the run that writes it has succeeded. A file is written beside its
place under a name of its own and moved there when it is whole; a folder of results is built beside
its place and swapped; a folder that holds what this program did not put there is refused; and two
runs that would write to the same folder do not run at the same time.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from filelock import FileLock, Timeout

from retrieval_quality.errors import DataError, UsageError

MARK = ".retrieval-quality.json"
"""File in a folder of results that says what made it, and which entries are this program's."""
_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
LOCK = ".retrieval-quality.lock"
"""File that a run holds while it writes to a folder."""


@contextmanager
def replacing(path: str | Path, mode: str = "w") -> Iterator[IO[Any]]:
    r"""Open a file that takes the place of `path` when it is whole, and not before.

    Parameters
    ----------
    path : path
        Where the file goes; its folder is made. A link is written through: it stays a link, and
        what it leads to is replaced. Permissions of a file that is there are kept.
    mode : {"w", "wb"}
        Text is UTF-8 with ``\n`` as line ending.

    Yields
    ------
    file
        Open for writing. If the block raises, `path` stays as it was and nothing else is left.

    Raises
    ------
    DataError
        The file cannot be written: the place, the disk or the rights do not allow it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "numbers.txt"
    ...     with replacing(path) as file:
    ...         _ = file.write("1\n")
    ...     path.read_text()
    '1\n'
    """
    with placing(path) as part:
        text: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
        with part.open(mode, **text) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def placing(path: str | Path) -> Iterator[Path]:
    """Give a path beside `path` to write to; what is written there takes its place at the end.

    As `replacing`, for writers that want a path instead of an open file.

    Parameters
    ----------
    path : path
        Where the file goes.

    Yields
    ------
    Path
        Unique, with the same ending as `path`, on the same disk.

    Raises
    ------
    DataError
        The file cannot be written.
    """
    target = Path(os.path.realpath(path))
    part = target.with_name(f".{target.stem[:80]}.{secrets.token_hex(8)}.part{target.suffix}")
    try:
        if target.is_dir():
            raise DataError(f"cannot write {path}: it is a folder; name a file")
        target.parent.mkdir(parents=True, exist_ok=True)
        yield part
        with contextlib.suppress(FileNotFoundError):
            part.chmod(stat.S_IMODE(target.stat().st_mode))
        part.replace(target)
    except OSError as error:
        named = (
            Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else None
        )
        ours = (part, target, *target.parents)
        if named not in ours and error.errno not in _OF_THE_DISK:
            raise
        raise DataError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def write_bytes(path: str | Path, content: bytes) -> Path:
    """Write a whole file, see `replacing`."""
    with replacing(path, "wb") as file:
        file.write(content)
    return Path(path)


def write_text(path: str | Path, content: str) -> Path:
    """Write a whole file of UTF-8 text, see `replacing`."""
    with replacing(path) as file:
        file.write(content)
    return Path(path)


@contextmanager
def sole_run(folder: str | Path, what: str = "run") -> Iterator[Path]:
    """Hold a folder for one run; a second run that wants to write there is told at once.

    Parameters
    ----------
    folder : path
        Made where it is not there. It stays held until the block ends or the process does.
    what : str
        What is running, for the message that the second run gives.

    Raises
    ------
    UsageError
        Another run holds the folder, or it cannot be made.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(os.path.realpath(folder / LOCK), timeout=0, is_singleton=True)
        lock.acquire()
    except Timeout:
        raise UsageError(
            f"{folder} is in use: {_holder(folder)} writes to it; "
            "wait for it, or name another folder"
        ) from None
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror or error}") from error
    try:
        if lock.lock_counter == 1:
            told = json.dumps({"process": os.getpid(), "what": what})
            (folder / LOCK).write_text(told + "\n", encoding="utf-8")
        yield folder
    finally:
        lock.release()


@contextmanager
def sole_file(path: str | Path) -> Iterator[Path]:
    """Hold one file for one run, as `sole_run` holds a folder, and leave nothing beside it.

    Two runs may write two files of one folder; two that would write the same file may not. The
    lock lies among the temporary files of this machine and user.

    Parameters
    ----------
    path : path
        The file that is going to be written.

    Raises
    ------
    UsageError
        Another run of this user is going to write it.
    """
    user = os.getuid() if hasattr(os, "getuid") else 0
    name = hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:24]
    lock = FileLock(
        Path(tempfile.gettempdir()) / f"retrieval-quality-{user}-{name}.lock",
        timeout=0,
        is_singleton=True,
    )
    try:
        lock.acquire()
    except Timeout:
        raise UsageError(
            f"{path} is in use: another run writes it; wait for it, or name another file"
        ) from None
    except OSError as error:
        where = tempfile.gettempdir()
        raise UsageError(f"cannot write to {where}: {error.strerror or error}") from error
    try:
        yield Path(path)
    finally:
        lock.release()


def check_writable(path: str | Path) -> None:
    """Refuse a file or folder that cannot be made or written, before any work; touch nothing.

    Parameters
    ----------
    path : path
        It may not be there yet; what is there of its parents is looked at.

    Raises
    ------
    UsageError
        A parent is a file, or the rights do not allow it.
    """
    place = Path(os.path.realpath(path))
    try:
        there = place
        while not os.path.lexists(there):
            there = there.parent
        if there != place and not there.is_dir():
            why = f"{there} is a file"
        elif os.access(there, os.W_OK if there.is_file() else os.W_OK | os.X_OK):
            return
        else:
            why = os.strerror(errno.EACCES)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
    raise UsageError(f"cannot write to {path}: {why}; name another place")


def _holder(folder: Path) -> str:
    """Say which run holds a folder, as far as its lock tells."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        told = json.loads((folder / LOCK).read_text(encoding="utf-8"))
        return f"{told['what']} (process {int(told['process'])})"
    return "another run"


def check_ours(
    folder: str | Path,
    entries: tuple[str, ...],
    recognised: Callable[[Path], bool] | None = None,
) -> None:
    """Refuse to replace entries of a folder that this program did not put there.

    Parameters
    ----------
    folder : path
        Folder of results; it may not be there yet.
    entries : tuple of str
        Names in it that the run is going to replace.
    recognised : callable, optional
        Whether a path that the mark does not name was made by a version that left no mark.

    Raises
    ------
    UsageError
        One of them is there and the folder's mark does not name it.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; name a folder to write to")
    known = _marked(folder)
    foreign = [
        name
        for name in entries
        if os.path.lexists(folder / name)
        and name not in known
        and not (recognised and recognised(folder / name))
    ]
    if foreign:
        raise UsageError(
            f"{folder / foreign[0]} is there and was not made by this program; "
            "nothing was changed: name another folder, or move it away"
        )


def mark_ours(folder: str | Path, entries: tuple[str, ...]) -> None:
    """Note in a folder that these entries are this program's, beside those that were noted."""
    folder = Path(folder)
    names = sorted({*_marked(folder), *entries})
    write_text(folder / MARK, json.dumps({"made_by": "retrieval-quality", "entries": names}) + "\n")


def _marked(folder: Path) -> set[str]:
    try:
        told = json.loads((folder / MARK).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return set()
    entries = told.get("entries") if isinstance(told, dict) else None
    return {str(name) for name in entries} if isinstance(entries, list) else set()


def swap(built: str | Path, place: str | Path) -> None:
    """Put a finished folder (or file) in its place; what was there goes when the new one is in.

    Parameters
    ----------
    built : path
        Complete, on the same disk as `place`.
    place : path
        Where it goes. A link to a folder is written through.

    Raises
    ------
    DataError
        It cannot be moved; `place` is then as it was.
    """
    built, place = Path(built), Path(os.path.realpath(place))
    old = place.with_name(f".{place.name}.{secrets.token_hex(8)}.old")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        there = os.path.lexists(place)
        if there:
            place.rename(old)
        try:
            built.rename(place)
        except OSError:
            if there:
                old.rename(place)
            raise
    except OSError as error:
        raise DataError(f"cannot write {place}: {error.strerror or error}") from error
    if there:
        shutil.rmtree(old, ignore_errors=True) if old.is_dir() else old.unlink(missing_ok=True)
