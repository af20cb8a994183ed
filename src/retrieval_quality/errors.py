"""The errors that this package raises on purpose; each has the exit code of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class RetrievalQualityError(Exception):
    """Base of every error that is raised on purpose: one or two sentences for a person."""

    exit_code = 1


class DataError(RetrievalQualityError):
    """The data, or a check on it, failed: says what, where (file, row, id) and what to do."""

    exit_code = 1


class UsageError(RetrievalQualityError):
    """A command, parameter or argument is wrong: says which and what is accepted."""

    exit_code = 2


class MissingExtraError(UsageError, ImportError):
    """A part of this package is used whose packages are not installed."""


@contextmanager
def needing(extra: str) -> Iterator[None]:
    """Import what an extra of this package brings; where it is missing, say how to install it.

    Parameters
    ----------
    extra : str
        Name of the extra in ``pyproject.toml``, such as ``book``.

    Raises
    ------
    MissingExtraError
        If a package that the body imports is not installed.

    Examples
    --------
    >>> with needing("book"):
    ...     import no_such_package
    Traceback (most recent call last):
    ...
    retrieval_quality.errors.MissingExtraError: no_such_package is not installed, which this ...
    """
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name in ("", "retrieval_quality"):
            raise
        raise MissingExtraError(
            f"{name} is not installed, which this needs: type `pip install "
            f"'retrieval-quality[{extra}]'`, or in a clone `pip install -e '.[{extra}]'`."
        ) from None
