"""The errors that this package raises on purpose; each has the exit code of the command line."""


class RetrievalQualityError(Exception):
    """Base of every error that is raised on purpose: one or two sentences for a person."""

    exit_code = 1


class DataError(RetrievalQualityError):
    """The data, or a check on it, failed: says what, where (file, row, id) and what to do."""

    exit_code = 1


class UsageError(RetrievalQualityError):
    """A command, parameter or argument is wrong: says which and what is accepted."""

    exit_code = 2
