"""Every reply of a language model, kept once under the question's key, in one SQLite file.

A question's texts are not kept: they follow from the folder's samples and the prompt. What is
kept is the key, a hash of the messages, the reply with all that the server said around its text,
and, once for all calls that share them, the model and the parameters.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

from retrieval_quality import outputs
from retrieval_quality.errors import DataError

FILE_NAME = "store.sqlite"
MAX_TRIES = 3  # replies, one a run, that may come back unusable before a question is left alone
CUT = "truncated at"  # how the reason of a reply begins that reached its limit of tokens
_VERSION = 3

_TABLES = """
CREATE TABLE IF NOT EXISTS makers (
  id INTEGER PRIMARY KEY, what TEXT NOT NULL UNIQUE
);
CREATE TABLE IF NOT EXISTS calls (
  key BLOB NOT NULL UNIQUE, stage TEXT NOT NULL, maker INTEGER NOT NULL, asked BLOB NOT NULL,
  most INTEGER, text TEXT, reason TEXT, final INTEGER NOT NULL, tries INTEGER NOT NULL,
  raw BLOB NOT NULL, place INTEGER NOT NULL, details TEXT NOT NULL, prompt_tokens INTEGER NOT NULL,
  completion_tokens INTEGER NOT NULL, estimated INTEGER NOT NULL, cost REAL, asked_at TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS files (
  name TEXT NOT NULL, sha256 TEXT NOT NULL, UNIQUE (name, sha256)
);
CREATE TABLE IF NOT EXISTS batches (
  token TEXT PRIMARY KEY, stage TEXT NOT NULL, base_url TEXT NOT NULL, state TEXT NOT NULL,
  batch_id TEXT NOT NULL, files TEXT NOT NULL, lines INTEGER NOT NULL, note TEXT NOT NULL,
  made_at REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS batch_items (
  key BLOB PRIMARY KEY, token TEXT NOT NULL, request BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS batch_of ON batch_items (token);
"""
_SAVE = """
INSERT INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET
  maker = excluded.maker, most = excluded.most, text = excluded.text, reason = excluded.reason,
  final = excluded.final, tries = tries + excluded.tries,
  raw = excluded.raw, place = excluded.place, details = excluded.details,
  prompt_tokens = prompt_tokens + excluded.prompt_tokens,
  completion_tokens = completion_tokens + excluded.completion_tokens,
  estimated = estimated + excluded.estimated,
  cost = CASE WHEN cost IS NULL AND excluded.cost IS NULL THEN NULL
    ELSE coalesce(cost, 0.0) + coalesce(excluded.cost, 0.0) END,
  asked_at = excluded.asked_at
WHERE calls.reason IS NOT NULL
"""
_OF_ONE_REPLY = (
    "maker", "most", "text", "reason", "final", "raw", "place", "details", "asked_at",
)  # fmt: skip
_ADDED = ("tries", "prompt_tokens", "completion_tokens", "estimated")
_BETTER = "calls.reason IS NOT NULL AND excluded.reason IS NULL"  # an answer for a failure
_TAKE = f"""
INSERT INTO calls
SELECT key, stage, ours.id, asked, most, text, reason, final, tries, raw, place, details,
  prompt_tokens, completion_tokens, estimated, cost, asked_at
FROM other.calls JOIN other.makers AS theirs ON theirs.id = maker
  JOIN main.makers AS ours ON ours.what = theirs.what
WHERE true
ON CONFLICT (key) DO UPDATE SET
  {
    ", ".join(
        f"{name} = CASE WHEN {_BETTER} THEN excluded.{name} ELSE calls.{name} END"
        for name in _OF_ONE_REPLY
    )
},
  {", ".join(f"{name} = calls.{name} + excluded.{name}" for name in _ADDED)},
  cost = CASE WHEN calls.cost IS NULL AND excluded.cost IS NULL THEN NULL
    ELSE coalesce(calls.cost, 0.0) + coalesce(excluded.cost, 0.0) END
WHERE calls.raw <> excluded.raw OR calls.text IS NOT excluded.text
  OR calls.asked_at <> excluded.asked_at
"""
_READ = (
    "text, reason, final, raw, place, prompt_tokens, completion_tokens, estimated, cost, details, "
    "(SELECT what FROM makers WHERE id = maker)"
)
_OF_A_MAKER = ("base_url", "served_model")  # details that many calls share


def canonical(value: object) -> str:
    """Return JSON text that is the same for equal values.

    The order of keys says nothing, nor does it whether a whole number is written 1 or 1.0.

    Examples
    --------
    >>> canonical({"b": 1.0, "a": [-0.0, 0.5, True, None]})
    '{"a":[0,0.5,true,null],"b":1}'
    """
    return json.dumps(normal(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def normal(value: Any) -> Any:
    """Return a value of JSON with whole numbers as integers, all the way down.

    Examples
    --------
    >>> normal({"temperature": 0.0, "top_k": [40.0, 0.5]})
    {'temperature': 0, 'top_k': [40, 0.5]}
    """
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, Mapping):
        return {str(name): normal(one) for name, one in value.items()}
    return [normal(one) for one in value] if isinstance(value, list | tuple) else value


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
    limit_name : str
        The parameter that sends it.
    """

    model: str
    messages: Sequence[Mapping[str, str]]
    prompt: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    repeat: int = 0
    revision: str = ""
    limit: int | None = None
    limit_name: str = "max_tokens"

    @cached_property
    def key(self) -> str:
        """Return the SHA-256 over all that determines the reply.

        The limit of tokens is no part of it: an answer that ended by itself is the same under
        every limit that lets it end, and one that was cut off is asked again under a higher one.

        Examples
        --------
        >>> hello = [{"role": "user", "content": "Hello"}]
        >>> one = Request("m", hello, "p", {"temperature": 0, "seed": 1})
        >>> one.key == Request("m", hello, "p", {"seed": 1, "temperature": 0}).key
        True
        >>> one.key == Request("m", hello, "p", {"seed": 2, "temperature": 0}).key
        False
        >>> same = {"seed": 1.0, "temperature": 0, "max_tokens": 9}
        >>> one.key == Request("m", hello, "p", same).key
        True
        """
        told = {name: one for name, one in self.parameters.items() if name != self.limit_name}
        parts = [self.model, self.revision, self.messages, self.prompt, told, self.repeat]
        return hashlib.sha256(canonical(parts).encode()).hexdigest()

    @property
    def asked(self) -> bytes:
        """Return the SHA-256 of the messages alone."""
        return hashlib.sha256(canonical(self.messages).encode()).digest()


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


@dataclass(frozen=True)
class Batch:
    """Requests that are sent together, and how far that has come.

    Attributes
    ----------
    token : str
        Our own name for it, known before the server's: in the file's name and the metadata.
    stage, base_url : str
        Whose it is, and where.
    state : {'new', 'uploaded', 'created', 'done', 'failed', 'dropped'}
        Nothing is known to be sent; the file is; the batch is made; its replies are here; the
        server refused it as a whole; it was never made.
    batch_id : str
        The server's name, empty before it is known.
    files : tuple of str
        Files at the server that have not been deleted yet.
    lines : int
        How many requests it was made of.
    note : str
        Why it failed.
    made_at : float
        Seconds since 1970.
    """

    token: str
    stage: str
    base_url: str
    state: str
    batch_id: str
    files: tuple[str, ...]
    lines: int
    note: str
    made_at: float

    @property
    def is_open(self) -> bool:
        """Whether it may hold replies that are not here."""
        return self.state in ("new", "uploaded", "created")


class Store:
    """The calls of one pipeline folder: ``store.sqlite``, written one reply at a time.

    A reply is on file the moment `save` returns (write-ahead log, one transaction each), so a
    killed process loses at most the calls that had no reply yet. Errors and refusals are kept
    beside the answers, with their reason, and are never taken for answers. A file of an earlier
    version of this program is rewritten on opening; nothing in it is lost.

    Parameters
    ----------
    folder : path
        The pipeline folder; it must exist.

    Attributes
    ----------
    saved : int
        Replies that were written since it was opened.

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
        self._makers: dict[str, int] = {}
        self.saved = 0
        with self._said():
            self._database = sqlite3.connect(
                self.path, timeout=30, isolation_level=None, check_same_thread=False
            )
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = NORMAL")
            self._upgrade()

    def _upgrade(self) -> None:
        """Make the tables, or take over what an earlier version of this program wrote."""
        (version,) = self._database.execute("PRAGMA user_version").fetchone()
        if version > _VERSION:
            raise DataError(f"{self.path} was written by a newer version of this program.")
        if version == _VERSION:
            return
        self._database.execute("BEGIN IMMEDIATE")
        try:
            columns = [row[1] for row in self._database.execute("PRAGMA table_info(calls)")]
            if "request" in columns:
                self._database.execute("ALTER TABLE calls RENAME TO calls_1")
            for statement in _TABLES.split(";"):
                self._database.execute(statement)
            if "request" in columns:
                self._take_over()
                self._database.execute("DROP TABLE calls_1")
            self._database.execute(f"PRAGMA user_version = {_VERSION}")
            self._database.execute("COMMIT")
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        if "request" in columns:
            self._database.execute("VACUUM")

    def _take_over(self) -> None:
        names = "stage, model, prompt, request, text, reason, final, tries, raw, details"
        numbers = "prompt_tokens, completion_tokens, estimated, cost, asked_at"
        rows = self._database.execute(  # answers last: they take the place of failures
            f"SELECT {names}, {numbers} FROM calls_1 ORDER BY reason IS NULL, asked_at"
        )
        for stage, model, prompt, asked, text, reason, final, tries, raw, details, *used in rows:
            told = json.loads(asked)
            parameters = told["parameters"]
            name = next((one for one in parameters if one.endswith("_tokens")), "max_tokens")
            request = Request(
                model, told["messages"], prompt, parameters, told["repeat"], told["revision"],
                parameters.get(name), name,
            )  # fmt: skip
            prompt_tokens, completion_tokens, estimated, cost, asked_at = used
            reply = Reply(
                text, reason, bool(final), raw, prompt_tokens, completion_tokens, estimated, cost,
                json.loads(details),
            )  # fmt: skip
            self._save(stage, request, reply, tries, asked_at)

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
    def _at_once(self) -> Iterator[None]:
        """Write all of it or nothing."""
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._database.execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:  # a full disk has rolled it back already
                self._database.execute("ROLLBACK")
            raise

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the folder for one run; the lock goes with the process, however it ends.

        Raises
        ------
        UsageError
            Another process writes to the same folder.
        """
        with outputs.sole_run(self.folder, "a run that asks a model"):
            yield

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
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._said(), self._at_once():
            self._save(stage, request, reply, int(bool(reply.raw)), now)
            self._database.execute(
                "DELETE FROM batch_items WHERE key = ?", [bytes.fromhex(request.key)]
            )
        self.saved += 1

    def _save(self, stage: str, request: Request, reply: Reply, tries: int, now: str) -> None:
        shared = {name: reply.details[name] for name in _OF_A_MAKER if name in reply.details}
        details = {name: one for name, one in reply.details.items() if name not in shared}
        rest, place = _without_text(reply.raw, reply.text)
        row = (
            *(bytes.fromhex(request.key), stage, self._maker(request, shared), request.asked),
            *(request.limit, reply.text, reply.reason, reply.final, tries, _packed(rest), place),
            canonical(details) if details else "",
            *(reply.prompt_tokens, reply.completion_tokens, reply.estimated, reply.cost, now),
        )
        self._database.execute(_SAVE, row)

    def _maker(self, request: Request, shared: Mapping[str, Any]) -> int:
        """Return the number of what a call shares with many: model, parameters, server."""
        what = canonical(
            {
                **{"model": request.model, "revision": request.revision, "prompt": request.prompt},
                **{"parameters": request.parameters, "details": shared},
            }
        )
        if what not in self._makers:
            self._database.execute("INSERT OR IGNORE INTO makers (what) VALUES (?)", [what])
            found = self._database.execute("SELECT id FROM makers WHERE what = ?", [what])
            self._makers[what] = found.fetchone()[0]
        return self._makers[what]

    def get(self, key: str) -> Reply | None:
        """Return the reply to the request with this key, or None if it was never asked."""
        with self._said():
            row = self._database.execute(
                f"SELECT {_READ} FROM calls WHERE key = ?", [bytes.fromhex(key)]
            ).fetchone()
        if row is None:
            return None
        text, reason, final, raw, place, prompt, completion, estimated, cost, details, what = row
        return Reply(
            text=text,
            reason=reason,
            final=bool(final),
            raw=_with_text(_unpacked(raw), text, place),
            prompt_tokens=prompt,
            completion_tokens=completion,
            estimated=bool(estimated),
            cost=cost,
            details={**json.loads(details or "{}"), **json.loads(what)["details"]},
        )

    def outcome(self, key: str) -> Reply | None:
        """Return the text and the reason of a reply, without what the server said around it."""
        with self._said():
            row = self._database.execute(
                "SELECT text, reason FROM calls WHERE key = ?", [bytes.fromhex(key)]
            ).fetchone()
        return None if row is None else Reply(*row)

    def noting(self, requests: Iterable[Request]) -> Iterator[Request]:
        """Pass requests on, and note their keys for `noted`, outside of memory.

        Parameters
        ----------
        requests : iterable of Request
            What was noted before is forgotten when the first of them is taken.
        """
        with self._said():
            self._database.execute("DROP TABLE IF EXISTS temp.noted")
            self._database.execute(
                "CREATE TEMP TABLE noted (key BLOB NOT NULL PRIMARY KEY) WITHOUT ROWID"
            )
        for request in requests:
            with self._said():
                self._database.execute(
                    "INSERT OR IGNORE INTO noted VALUES (?)", [bytes.fromhex(request.key)]
                )
            yield request

    def noted(self) -> Iterator[Reply | None]:
        """Yield text and reason for each distinct request that `noting` passed on; None: none."""
        with self._said():
            rows = self._database.execute(
                "SELECT calls.key IS NOT NULL, text, reason FROM noted LEFT JOIN calls USING (key)"
            )
            for there, text, reason in rows:
                yield Reply(text, reason) if there else None

    def is_settled(self, request: Request) -> bool:
        """Whether a request is not to be asked again.

        It is answered, or failed for good, or came back unusable `MAX_TRIES` times. A reply that
        was cut off settles it up to the limit at which it was cut. Calls that were lost to a
        fault of the server had no reply and are asked in every run.
        """
        with self._said():
            row = self._database.execute(
                "SELECT reason, final, tries, most FROM calls WHERE key = ?",
                [bytes.fromhex(request.key)],
            ).fetchone()
        if row is None:
            return False
        reason, final, tries, most = row
        if reason is not None and reason.startswith(CUT):
            higher = request.limit is None or (most is not None and request.limit > most)
            return most is None or not higher
        return bool(reason is None or final or tries >= MAX_TRIES)

    def lost(self) -> set[str]:
        """Return the keys of calls that were given up without any reply."""
        with self._said():
            rows = self._database.execute(
                "SELECT key FROM calls WHERE reason IS NOT NULL AND raw = x''"
            )
            return {key.hex() for (key,) in rows}

    def reopen(self, keys: Iterable[str], reason: str) -> None:
        """Let calls be asked again whose reply is of no use, whatever the reason.

        Parameters
        ----------
        keys : iterable of str
            Keys of failures, or of replies that nobody could read.
        reason : str
            For those that have none: what was wrong with the reply.
        """
        with self._said():
            self._database.executemany(
                "UPDATE calls SET reason = coalesce(reason, ?), final = 0, tries = 0, most = 0 "
                "WHERE key = ?",
                ((reason, bytes.fromhex(key)) for key in keys),
            )

    def open_failures(self) -> int:
        """Count the calls that failed and that the next run would ask again."""
        with self._said():
            (count,) = self._database.execute(
                "SELECT count(*) FROM calls WHERE reason IS NOT NULL AND NOT final AND tries < ?",
                [MAX_TRIES],
            ).fetchone()
        return int(count)

    def take(self, other: Store) -> int:
        """Take over what another folder's store holds; one transaction, in constant memory.

        The same reply is kept once. Where both have asked, an answer goes before a failure and the
        reply that is here before the other; tokens and costs add up, for both were paid.

        Parameters
        ----------
        other : Store
            It stays as it is.

        Returns
        -------
        int
            Questions that both have answered differently; the answer that was here stays.

        Raises
        ------
        DataError
            A file is damaged, or the disk is full.
        """
        with self._said():
            self._database.execute("ATTACH ? AS other", [str(other.path)])
            try:
                self._database.execute("BEGIN IMMEDIATE")
                try:
                    (differing,) = self._database.execute(
                        "SELECT count(*) FROM calls JOIN other.calls AS theirs USING (key) WHERE "
                        "calls.reason IS NULL AND theirs.reason IS NULL AND calls.text "
                        "IS NOT theirs.text"
                    ).fetchone()
                    for statement in (
                        "INSERT OR IGNORE INTO makers (what) SELECT what FROM other.makers",
                        _TAKE,
                        "INSERT OR IGNORE INTO files SELECT * FROM other.files",
                    ):
                        self._database.execute(statement)
                    self._database.execute("COMMIT")
                except BaseException:
                    self._database.execute("ROLLBACK")
                    raise
            finally:
                self._database.execute("DETACH other")
        return int(differing)

    def note_file(self, name: str, sha256: str) -> None:
        """Note that a file of this content was made from this store."""
        with self._said():
            self._database.execute("INSERT OR IGNORE INTO files VALUES (?, ?)", [name, sha256])

    def made_file(self, name: str, sha256: str) -> bool:
        """Whether a file of this name and content was made from this store."""
        with self._said():
            found = self._database.execute(
                "SELECT 1 FROM files WHERE name = ? AND sha256 = ?", [name, sha256]
            )
            return found.fetchone() is not None

    # ------------------------------------------------------------- batches

    def begin_batch(self, stage: str, base_url: str, requests: Sequence[Request]) -> Batch:
        """Write down what a batch is going to hold, before anything of it is sent."""
        batch = Batch(uuid4().hex, stage, base_url, "new", "", (), len(requests), "", time.time())
        with self._said(), self._at_once():
            self._database.execute(
                "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [batch.token, stage, base_url, "new", "", "[]", batch.lines, "", batch.made_at],
            )
            self._database.executemany(
                "INSERT INTO batch_items VALUES (?, ?, ?)",
                (
                    (bytes.fromhex(one.key), batch.token, _packed(json.dumps(asdict(one))))
                    for one in requests
                ),
            )
        return batch

    def note_batch(self, batch: Batch, *, release: bool = False) -> None:
        """Write down how far a batch has come; `release` lets its requests be asked again."""
        with self._said(), self._at_once():
            self._database.execute(
                "UPDATE batches SET state = ?, batch_id = ?, files = ?, note = ? WHERE token = ?",
                [batch.state, batch.batch_id, json.dumps(batch.files), batch.note, batch.token],
            )
            if release:
                self._database.execute("DELETE FROM batch_items WHERE token = ?", [batch.token])

    def batches(self, stage: str | None = None) -> list[Batch]:
        """Return the batches of a stage, or of all, oldest first, those that are over included."""
        with self._said():
            rows = self._database.execute(
                "SELECT * FROM batches WHERE ? IS NULL OR stage = ? ORDER BY rowid", [stage, stage]
            ).fetchall()
        return [
            Batch(token, whose, base_url, state, batch_id, tuple(json.loads(files)), *rest)
            for token, whose, base_url, state, batch_id, files, *rest in rows
        ]

    def batched(self, batch: Batch) -> dict[str, Request]:
        """Return the requests of a batch that have no reply yet, by key."""
        with self._said():
            rows = self._database.execute(
                "SELECT request FROM batch_items WHERE token = ? ORDER BY rowid", [batch.token]
            ).fetchall()
        requests = (Request(**json.loads(_unpacked(row))) for (row,) in rows)
        return {one.key: one for one in requests}

    def is_in_batch(self, request: Request) -> bool:
        """Whether a request is in a batch whose replies have not been fetched."""
        with self._said():
            found = self._database.execute(
                "SELECT 1 FROM batch_items WHERE key = ?", [bytes.fromhex(request.key)]
            )
            return found.fetchone() is not None

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
                "coalesce(sum(cost), 0.0), coalesce(sum(cost IS NULL AND tries > 0), 0) "
                "FROM calls WHERE ? IS NULL OR stage = ?",
                [stage, stage],
            ).fetchone()
        return Spent(*row)


# --------------------------------------------------------------------------- raw replies

_USUAL = (  # what bodies are full of; part of the file's format, so never to be changed
    b'"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":'
    b'{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,'
    b'"rejected_prediction_tokens":0}},"service_tier":"default","system_fingerprint":"fp_'
    b'{"id": "chatcmpl-", "object": "chat.completion", "created": 17, "model": "", "choices": '
    b'[{"index": 0, "message": {"role": "assistant", "content": , "refusal": null, "annotations": '
    b'[]}, "logprobs": null, "finish_reason": "stop"}], "usage": {"prompt_tokens": , '
    b'"completion_tokens": , "total_tokens": }}'
)


def _packed(raw: str) -> bytes:
    if not raw:
        return b""
    packer = zlib.compressobj(6, zlib.DEFLATED, -15, zdict=_USUAL)
    return packer.compress(raw.encode("utf-8", "surrogatepass")) + packer.flush()


def _unpacked(packed: bytes) -> str:
    if not packed:
        return ""
    unpacker = zlib.decompressobj(-15, zdict=_USUAL)
    return (unpacker.decompress(packed) + unpacker.flush()).decode("utf-8", "surrogatepass")


def _without_text(raw: str, text: str | None) -> tuple[str, int]:
    """Cut the text out of a body that holds it; return where it stood, sign for how written.

    0 stands for a body as it is; n for the text at n - 1 as JSON writes it with all characters,
    -n for the same in ASCII.
    """
    for ascii_only in (True, False) if text else ():
        inside = json.dumps(text, ensure_ascii=ascii_only)
        at = raw.find(inside)
        if at >= 0:
            return raw[:at] + raw[at + len(inside) :], -(at + 1) if ascii_only else at + 1
    return raw, 0


def _with_text(rest: str, text: str | None, place: int) -> str:
    r"""Undo `_without_text`.

    Examples
    --------
    >>> rest, place = _without_text('{"content": "yes", "n": 1}', "yes")
    >>> rest, place, _with_text(rest, "yes", place)
    ('{"content": , "n": 1}', -13, '{"content": "yes", "n": 1}')
    """
    if not place:
        return rest
    at = abs(place) - 1
    return rest[:at] + json.dumps(text, ensure_ascii=place < 0) + rest[at:]
