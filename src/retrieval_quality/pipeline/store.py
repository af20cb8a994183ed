"""Every request to a language model and its reply, kept once, in one SQLite file."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from retrieval_quality.errors import DataError, UsageError

FILE_NAME = "store.sqlite"
LOCK_NAME = ".store.lock"
MAX_TRIES = 3  # replies, one a run, that may come back empty or not JSON before it is left alone

_TABLE = """
CREATE TABLE IF NOT EXISTS calls (
  key TEXT PRIMARY KEY, stage TEXT NOT NULL, model TEXT NOT NULL, prompt TEXT NOT NULL,
  request TEXT NOT NULL, text TEXT, reason TEXT, final INTEGER NOT NULL, tries INTEGER NOT NULL,
  raw TEXT NOT NULL, details TEXT NOT NULL, prompt_tokens INTEGER NOT NULL,
  completion_tokens INTEGER NOT NULL, estimated INTEGER NOT NULL, cost REAL, asked_at TEXT NOT NULL
)
"""
_SAVE = """
INSERT INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET
  text = excluded.text, reason = excluded.reason, final = excluded.final,
  tries = tries + excluded.tries,
  raw = excluded.raw, details = excluded.details,
  prompt_tokens = prompt_tokens + excluded.prompt_tokens,
  completion_tokens = completion_tokens + excluded.completion_tokens,
  estimated = estimated + excluded.estimated, cost = cost + excluded.cost,
  asked_at = excluded.asked_at
WHERE calls.reason IS NOT NULL
"""


def canonical(value: object) -> str:
    """Return JSON text that is the same for equal values, whatever the order of their keys.

    Examples
    --------
    >>> canonical({"b": 1, "a": [2.0, None]})
    '{"a":[2.0,null],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True)
class Request:
    """What is asked of a language model.

    Attributes
    ----------
    model : str
        The model's name at the server.
    messages : sequence of mapping
        Chat messages: ``role`` and ``content``.
    prompt : str
        Name and content hash of the prompt file the messages were made with.
    parameters : mapping
        Every further argument, exactly as it is sent.
    repeat : int
        0, 1, ... when the same question is asked several times.
    revision : str
        The user's own word for which weights stand behind the name; may be empty.
    limit : int or None
        The greatest number of tokens the reply may have; None where no limit is sent.
    """

    model: str
    messages: Sequence[Mapping[str, str]]
    prompt: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    repeat: int = 0
    revision: str = ""
    limit: int | None = None

    @cached_property
    def key(self) -> str:
        """Return the SHA-256 over all that determines the reply.

        Examples
        --------
        >>> hello = [{"role": "user", "content": "Hello"}]
        >>> one = Request("m", hello, "p", {"temperature": 0, "seed": 1})
        >>> one.key == Request("m", hello, "p", {"seed": 1, "temperature": 0}).key
        True
        >>> one.key == Request("m", hello, "p", {"seed": 2, "temperature": 0}).key
        False
        """
        parts = [self.model, self.revision, self.messages, self.prompt, self.parameters]
        return hashlib.sha256(canonical([*parts, self.repeat]).encode()).hexdigest()


@dataclass(frozen=True)
class Reply:
    """What came back: an answer where `reason` is None, else a failure with its reason.

    Attributes
    ----------
    text : str or None
        The text of the reply, also of one that failed, as far as there was any.
    reason : str or None
        Why this is not an answer: ``truncated at 512 tokens``, ``filtered``, ``refused: ...``.
    final : bool
        The same request would fail the same way, so it is not asked again.
    raw : str
        The body as it came, the key blotted out.
    prompt_tokens, completion_tokens : int
        As the server counted them; upper estimates where `estimated`.
    cost : float or None
        In US dollars; None where the model has no price.
    details : mapping
        What was really sent, the server, the model it named, seconds, attempts.
    """

    text: str | None
    reason: str | None = None
    final: bool = False
    raw: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: bool = False
    cost: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Spent:
    """What the recorded calls have used; `unpriced` calls have no price and are not in `cost`."""

    calls: int = 0
    tries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: int = 0
    cost: float = 0.0
    unpriced: int = 0

    def as_dict(self) -> dict[str, float]:
        """Return the fields as a plain dictionary, for a manifest."""
        return asdict(self)


class Store:
    """The calls of one pipeline folder: ``store.sqlite``, written one reply at a time.

    A reply is on file the moment `save` returns (write-ahead log, one transaction each), so a
    killed process loses at most the calls that had no reply yet. Errors and refusals are kept
    beside the answers, with their reason, and are never taken for answers.

    Parameters
    ----------
    folder : path
        The pipeline folder; it must exist.

    Raises
    ------
    DataError
        The file is damaged, or the disk is full.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.path = self.folder / FILE_NAME
        if not self.folder.is_dir():
            raise DataError(f"There is no folder {self.folder}: make it by `pipeline corpus`.")
        with self._said():
            self._database = sqlite3.connect(
                self.path, timeout=30, isolation_level=None, check_same_thread=False
            )
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = NORMAL")
            self._database.execute(_TABLE)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    @contextmanager
    def _said(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise DataError(
                f"{self.path} cannot be used: {error}. What it already holds is kept; "
                "make room or repair it, then run the same command again."
            ) from error

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the folder for one run; the lock goes with the process, however it ends.

        Raises
        ------
        UsageError
            Another process is asking into the same folder.
        """
        lock = sqlite3.connect(self.folder / LOCK_NAME, timeout=0, isolation_level=None)
        try:
            try:
                lock.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as error:
                raise UsageError(
                    f"Another run is at work in {self.folder} ({error}): wait for it, or stop it."
                ) from error
            yield
        finally:
            lock.close()

    def save(self, stage: str, request: Request, reply: Reply) -> None:
        """Write one reply; an answer that is already there is never replaced.

        Parameters
        ----------
        stage : str
            ``answer`` or ``grade``: for counting what each has spent.
        request : Request
            What was asked.
        reply : Reply
            What came back. Tokens and costs of repeated tries add up.

        Raises
        ------
        DataError
            The disk is full, or the file is damaged.
        """
        asked = {
            "messages": request.messages,
            "parameters": request.parameters,
            "repeat": request.repeat,
            "revision": request.revision,
        }
        row = (
            *(request.key, stage, request.model, request.prompt, canonical(asked)),
            *(
                reply.text,
                reply.reason,
                reply.final,
                bool(reply.raw),
                reply.raw,
                canonical(reply.details),
            ),
            *(reply.prompt_tokens, reply.completion_tokens, reply.estimated, reply.cost),
            datetime.now(UTC).isoformat(timespec="seconds"),
        )
        with self._said():
            self._database.execute(_SAVE, row)

    def get(self, key: str) -> Reply | None:
        """Return the reply to the request with this key, or None if it was never asked."""
        names = (
            "text, reason, final, raw, prompt_tokens, completion_tokens, estimated, cost, details"
        )
        with self._said():
            row = self._database.execute(
                f"SELECT {names} FROM calls WHERE key = ?", [key]
            ).fetchone()
        if row is None:
            return None
        text, reason, final, raw, prompt_tokens, completion_tokens, estimated, cost, details = row
        return Reply(
            text=text,
            reason=reason,
            final=bool(final),
            raw=raw,
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            estimated=bool(estimated),
            cost=cost,
            details=json.loads(details),
        )

    def settled(self) -> set[str]:
        """Return the keys that are not to be asked again.

        They are answered, or failed for good, or came back unusable `MAX_TRIES` times. Calls that
        were lost to server errors or time-outs had no reply and are asked in every run.
        """
        with self._said():
            rows = self._database.execute(
                "SELECT key FROM calls WHERE reason IS NULL OR final OR tries >= ?", [MAX_TRIES]
            )
            return {key for (key,) in rows}

    def lost(self) -> set[str]:
        """Return the keys of calls that were given up without any reply."""
        with self._said():
            rows = self._database.execute(
                "SELECT key FROM calls WHERE reason IS NOT NULL AND raw = ''"
            )
            return {key for (key,) in rows}

    def open_failures(self) -> int:
        """Count the calls that failed and that the next run would ask again."""
        with self._said():
            (count,) = self._database.execute(
                "SELECT count(*) FROM calls WHERE reason IS NOT NULL AND NOT final AND tries < ?",
                [MAX_TRIES],
            ).fetchone()
        return int(count)

    def spent(self, stage: str | None = None) -> Spent:
        """Add up what the calls of one stage, or of all, have used.

        Parameters
        ----------
        stage : str, optional
            ``answer`` or ``grade``.
        """
        with self._said():
            row = self._database.execute(
                "SELECT count(*), coalesce(sum(tries), 0), coalesce(sum(prompt_tokens), 0), "
                "coalesce(sum(completion_tokens), 0), coalesce(sum(estimated), 0), "
                "coalesce(sum(cost), 0.0), coalesce(sum(cost IS NULL), 0) "
                "FROM calls WHERE ? IS NULL OR stage = ?",
                [stage, stage],
            ).fetchone()
        return Spent(*row)
