"""OpenAI's Batch API as another way of asking: half the price, replies within a day.

Each step is written into the store before it is taken and after, so a run that is killed at any
moment goes on from there: a batch whose making was cut off is recognised at the server by the
token in its metadata, and a file by the token in its name. Replies are read by the rules of
`retrieval_quality.pipeline.client` and kept under the same keys.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from tqdm import tqdm

from retrieval_quality.errors import DataError, RetrievalQualityError, UsageError, needing
from retrieval_quality.pipeline import replies
from retrieval_quality.pipeline.client import (
    LONGEST_BACK_OFF,
    Budget,
    ChatExecutor,
    body_of,
    http_client,
    retry_after,
)
from retrieval_quality.pipeline.settings import Price, Settings, shown
from retrieval_quality.pipeline.store import Batch, Reply, Request, Store

with needing("pipeline"):
    from openai import APIConnectionError, APIError, APIStatusError, AsyncOpenAI, NotFoundError

MOST_ITEMS = 50_000  # requests in one batch
MOST_BYTES = 200_000_000  # of its file
METADATA = "retrieval_quality"  # the key under which a batch carries our token
ENDED = ("completed", "failed", "expired", "cancelled")
QUEUE_FULL = "token_limit_exceeded"
_WITHOUT = {
    "expired": "expired before it was asked",
    "cancelled": "cancelled before it was asked",
    "completed": "no reply in the files of its batch",
}


def line_of(request: Request) -> bytes:
    """Return the line of a batch's file that asks a request.

    Examples
    --------
    >>> told = json.loads(line_of(Request("m", [], "p", {"seed": 1})))
    >>> told["method"], told["url"], told["body"]
    ('POST', '/v1/chat/completions', {'model': 'm', 'messages': [], 'seed': 1})
    >>> told["custom_id"] == Request("m", [], "p", {"seed": 1}).key
    True
    """
    told = {
        **{"custom_id": request.key, "method": "POST", "url": "/v1/chat/completions"},
        "body": body_of(request),
    }
    return json.dumps(told, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def file_name(batch: Batch) -> str:
    """Return the name of a batch's file at the server."""
    return f"retrieval-quality-{batch.token}.jsonl"


class BatchExecutor(ChatExecutor):
    """Send requests as batches, wait for them, and hand over their replies.

    A batch holds at most 50,000 requests and 200 MB. One that is refused because the server's
    queue is full is sent again at half the size, when the others have ended; one that is refused
    for another reason stops the run with the server's code and line. Neither is paid. What was
    not asked before a batch expired or was cancelled has no reply: the next run asks it again.
    Files at the server are deleted when their replies are here; those that cannot be are named,
    and tried again by the next run.

    Parameters
    ----------
    settings : Settings
    price : Price or None
        Of a call in a batch.
    budget : Budget
        The upper bounds of all that is sent are held against the limit.
    store : Store
        Where the batches are written down.
    stage : str
        ``answer`` or ``grade``.
    """

    client: AsyncOpenAI

    def __init__(
        self, settings: Settings, price: Price | None, budget: Budget, store: Store, stage: str
    ) -> None:
        super().__init__(settings, price, budget)
        self.store = store
        self.stage = stage
        self.where = str(shown(self.base_url))
        self._back: deque[Request] = deque()
        self._open: dict[str, Batch] = {}
        self._told: dict[str, str] = {}
        self._alone = False
        self._most = self._most_now()

    async def execute(
        self, requests: Iterator[Request], deliver: Callable[[Request, Reply], None]
    ) -> None:
        """Ask all requests; see `Executor`."""
        try:
            async with AsyncOpenAI(
                api_key=self.key,
                base_url=self.base_url,
                http_client=http_client(self.base_url, self.settings.timeout),
                timeout=self.settings.timeout,
                max_retries=0,  # making a thing twice is not for the client to decide
            ) as self.client:
                self._patient = self.client.with_options(max_retries=self.settings.attempts)
                await self._recover()
                await self._go(requests, deliver)
        except asyncio.CancelledError:
            self._say_stopped()
            raise
        except APIError as error:
            raise self._explained(error) from error
        if self._error is not None:
            raise self._error

    async def _go(
        self, requests: Iterator[Request], deliver: Callable[[Request, Reply], None]
    ) -> None:
        while True:
            if self._error is None and not (self._alone and self._open):
                chunk, lines = self._fill(requests)
                if chunk:
                    await self._send(chunk, b"".join(lines))
                    continue
            if not self._open:
                break
            await self._look(deliver)
        if self._back and self._error is None:
            raise self._limit_reached()

    # ----------------------------------------------------------------- sending

    def _most_now(self) -> int:
        """Return how many requests a batch may hold: fewer since the queue was full."""
        most = MOST_ITEMS
        for one in self.store.batches():
            if one.base_url == self.where and one.state == "done":
                most = MOST_ITEMS
            elif one.base_url == self.where and QUEUE_FULL in one.note:
                most = max(1, one.lines // 2)
        return most

    def _next(self, requests: Iterator[Request]) -> Request | None:
        if self._back:
            return self._back.popleft()
        return next((one for one in requests if not self.store.is_in_batch(one)), None)

    def _fill(self, requests: Iterator[Request]) -> tuple[list[Request], list[bytes]]:
        """Take as many requests as fit into one batch and into the budget."""
        chunk: list[Request] = []
        lines: list[bytes] = []
        size = 0
        while len(chunk) < self._most and (request := self._next(requests)) is not None:
            line = line_of(request)
            if len(line) > MOST_BYTES:
                raise DataError(
                    f"A request of {len(line)} bytes is longer than a batch may be "
                    f"({MOST_BYTES}): ask it by `--engine chat`, or leave its sample out."
                )
            if size + len(line) > MOST_BYTES or not self.budget.reserve(request):
                self._back.appendleft(request)
                break
            chunk.append(request)
            lines.append(line)
            size += len(line)
        return chunk, lines

    async def _send(self, chunk: Sequence[Request], data: bytes) -> None:
        batch = self.store.begin_batch(self.stage, self.where, chunk)
        try:
            file = await self._post(
                lambda: self.client.files.create(
                    file=(file_name(batch), data, "application/jsonl"), purpose="batch"
                ),
                lambda: self._find_file(batch),
            )
            batch = self._note(replace(batch, state="uploaded", files=(self._id(file),)))
            remote = await self._post(
                lambda: self.client.batches.create(
                    completion_window="24h",
                    endpoint="/v1/chat/completions",
                    input_file_id=batch.files[0],
                    metadata={METADATA: batch.token},
                ),
                lambda: self._find_batch(batch),
            )
        except APIStatusError as error:
            if not _passing(error.status_code):  # a plain no: nothing was made
                await self._clean(self._note(replace(batch, state="dropped"), release=True))
            raise
        self._created(batch, remote)
        self._say(f"batch {self._id(remote)}: {len(chunk)} requests sent")

    async def _post(
        self, call: Callable[[], Awaitable[Any]], find: Callable[[], Awaitable[Any]]
    ) -> Any:
        """Make a thing at the server once; look for it there before trying again."""
        attempt = 0
        while True:
            attempt += 1
            try:
                return await call()
            except (APIConnectionError, APIStatusError) as error:
                answered = isinstance(error, APIStatusError)
                headers = error.response.headers if isinstance(error, APIStatusError) else {}
                wait = retry_after(headers, time.time())
                if answered and not _passing(getattr(error, "status_code", 0)):
                    raise
                if attempt >= self.settings.attempts or (wait or 0) > self.settings.max_wait:
                    raise
            own = min(LONGEST_BACK_OFF, self.settings.back_off * 2 ** (attempt - 1))
            await asyncio.sleep(own * random.uniform(0.5, 1) if wait is None else wait)
            found = await find()
            if found is not None:
                return found

    async def _find_file(self, batch: Batch) -> Any:
        async for one in self._patient.files.list(purpose="batch"):
            if one.filename == file_name(batch):
                return one
        return None

    async def _find_batch(self, batch: Batch) -> Any:
        async for one in self._patient.batches.list(limit=100):
            if (one.metadata or {}).get(METADATA) == batch.token:
                return one
        return None

    async def _recover(self) -> None:
        """Take up what earlier runs left: batches at work, half-made ones, files."""
        for batch in self.store.batches(self.stage):
            if batch.state == "created":
                self._created(batch, None)
            elif batch.is_open:
                remote = await self._find_batch(batch)
                if remote is not None:
                    self._created(batch, remote)
                    continue
                file = None if batch.files else await self._find_file(batch)
                files = batch.files or ((file.id,) if file else ())
                dropped = replace(batch, state="dropped", files=files)
                await self._clean(self._note(dropped, release=True))
            elif batch.files and batch.base_url == self.where:
                await self._clean(batch)

    def _created(self, batch: Batch, remote: Any) -> None:
        if remote is not None:
            files = batch.files or (remote.input_file_id,)
            made = replace(batch, state="created", batch_id=self._id(remote), files=files)
            batch = self._note(made)
        self._open[batch.token] = batch
        for request in self.store.batched(batch).values() if self.budget.limit is not None else ():
            self.budget.reserve(request, sent=True)

    def _note(self, batch: Batch, *, release: bool = False) -> Batch:
        self.store.note_batch(batch, release=release)
        return batch

    # ----------------------------------------------------------------- fetching

    async def _look(self, deliver: Callable[[Request, Reply], None]) -> None:
        """Look at all batches; fetch those that have ended, otherwise wait."""
        ended = False
        for batch in list(self._open.values()):
            remote = await self._patient.batches.retrieve(batch.batch_id)
            self._id(remote)
            self._say_progress(batch, remote)
            if remote.status not in ENDED:
                continue
            ended = True
            if remote.status == "failed":
                await self._failed(batch, remote)
            else:
                await self._fetch(batch, remote, deliver)
        if not ended:
            await asyncio.sleep(self.settings.poll)

    async def _fetch(
        self, batch: Batch, remote: Any, deliver: Callable[[Request, Reply], None]
    ) -> None:
        items = self.store.batched(batch)
        answered, refusal = 0, None
        written = await self._lines(remote.output_file_id)
        counts = remote.request_counts
        if counts is not None and counts.completed > len(written):
            raise DataError(
                f"The file {remote.output_file_id} of the batch {batch.batch_id} holds "
                f"{len(written)} of {counts.completed} replies: nothing of it was taken. Run the "
                "same command to fetch it again."
            )
        for told in [*written, *await self._lines(remote.error_file_id)]:
            request = items.pop(str(told.get("custom_id")), None)
            if request is None:
                continue  # here since an earlier run
            outcome = self._read(told, request)
            if isinstance(outcome, RetrievalQualityError):
                refusal = refusal or outcome
                outcome = Reply(None, "refused by the server", details={"said": str(outcome)})
            answered += outcome.reason is None
            self._deliver(batch, request, outcome, deliver)
        for request in items.values():
            self._deliver(batch, request, Reply(None, _WITHOUT[remote.status]), deliver)
        if refusal is not None and not answered:
            self._halt(refusal)
        self._end(batch)
        await self._clean(self._note(replace(batch, state="done", files=_files(batch, remote))))

    def _deliver(
        self,
        batch: Batch,
        request: Request,
        reply: Reply,
        deliver: Callable[[Request, Reply], None],
    ) -> None:
        reply = replace(reply, details={**reply.details, "batch": batch.batch_id})
        self.budget.settle(request, reply)
        deliver(request, reply)

    async def _lines(self, file_id: str | None) -> list[dict[str, Any]]:
        if not file_id:
            return []
        content = await self._patient.files.content(file_id)
        lines = [line for line in content.content.split(b"\n") if line.strip()]
        try:
            told = [replies.parsed(line.decode()) for line in lines]
        except ValueError:
            told = [None]
        if not all(isinstance(one, dict) for one in told):
            raise DataError(
                f"The file {file_id} of a batch is not lines of JSON: nothing of it was taken. "
                "Run the same command to fetch it again."
            )
        return told

    def _read(self, told: dict[str, Any], request: Request) -> Reply | RetrievalQualityError:
        """Read one line by the rules for single calls."""
        response = told.get("response")
        if not isinstance(response, dict):
            error = told.get("error") if isinstance(told.get("error"), dict) else {}
            code = str((error or {}).get("code") or "no reason given")
            reason = _WITHOUT["expired"] if code == "batch_expired" else f"not asked ({code})"
            return Reply(None, reason, details={"said": replies.words(json.dumps(told))})
        status = response.get("status_code")
        raw = json.dumps(response.get("body"), ensure_ascii=False)
        self.price = self.settings.rate(request.model)
        if status == 200:
            outcome = self._reply(request, raw, SimpleNamespace(headers={}))
        else:
            status = status if isinstance(status, int) else 500
            outcome = self._refusal(status, {}, self._blotted(raw), request)
        if isinstance(outcome, Reply | RetrievalQualityError):
            return outcome
        return Reply(None, outcome.reason, details={"said": outcome.said} if outcome.said else {})

    async def _failed(self, batch: Batch, remote: Any) -> None:
        """Take back a batch that was refused as a whole: nothing in it was asked or paid."""
        errors = (remote.errors.data if remote.errors else None) or []
        note = "; ".join(
            f"{one.code or 'no code'}{f' (line {one.line})' if one.line else ''}: "
            f"{replies.words(one.message or '')}"
            for one in errors[:3]
        )
        note = self._blotted(note) or "no reason given"
        requests = list(self.store.batched(batch).values())
        for request in requests:
            self.budget.settle(request, None)
        self._end(batch)
        refused = replace(batch, state="failed", note=note, files=_files(batch, remote))
        await self._clean(self._note(refused, release=True))
        full = any(one.code == QUEUE_FULL for one in errors)
        if full and (len(requests) > 1 or self._open):
            self._alone, self._most = True, max(1, len(requests) // 2)
            self._back.extendleft(reversed(requests))
            self._say(f"batch {batch.batch_id} failed: {note}; sent again in smaller ones")
            return
        self._say(f"batch {batch.batch_id} failed: {note}")
        when = "when the queue has room" if full else "when that is mended"
        self._halt(
            DataError(
                f"The batch {batch.batch_id} failed: {note}. Nothing in it was asked or paid; "
                f"run the same command {when}."
            )
        )

    def _end(self, batch: Batch) -> None:
        del self._open[batch.token]

    async def _clean(self, batch: Batch) -> None:
        """Delete a batch's files at the server; name those that stay."""
        left = []
        for file_id in batch.files:
            try:
                await self._patient.files.delete(file_id)
            except NotFoundError:
                continue
            except APIError:
                left.append(file_id)
        self._note(replace(batch, files=tuple(left)))
        if left:
            self._say(f"files left at {self.where}, to be deleted: {', '.join(left)}", always=True)

    # ----------------------------------------------------------------- words

    def _id(self, made: Any) -> str:
        """Return the server's name of what it made; refuse what is no such thing."""
        found = getattr(made, "id", None)
        if not isinstance(found, str) or not found:
            raise UsageError(
                f"{self.where} does not answer as a Batch API: leave `--engine batch` out, or "
                "check `base_url`."
            )
        return found

    def _explained(self, error: APIError) -> RetrievalQualityError:
        kept = "All answers are kept, and so is what was sent; run the same command to go on."
        if not isinstance(error, APIStatusError):
            said = self._blotted(replies.words(str(error.__cause__ or error)))
            return DataError(f"The server {self.where} does not answer: {said}. {kept}")
        raw = self._blotted(error.response.content.decode(errors="replace"))
        said, path = replies.words(raw), error.request.url.path
        if error.status_code in (404, 405, 501):
            return UsageError(
                f"{self.where} has no {path} (HTTP {error.status_code}); it says: {said}. Is it a "
                "server with a Batch API, and the key that of the same project? "
                "`--engine chat` needs neither."
            )
        about = Request(self.settings.model, [], "")
        found = self._refusal(error.status_code, error.response.headers, raw, about)
        if isinstance(found, RetrievalQualityError):
            return found
        return DataError(f"{path} is refused (HTTP {error.status_code}): {said}. {kept}")

    def _say(self, text: str, *, always: bool = False) -> None:
        if self.settings.progress or always:
            tqdm.write(text, file=sys.stderr)

    def _say_progress(self, batch: Batch, remote: Any) -> None:
        counts = remote.request_counts
        done = f", {counts.completed + counts.failed} of {counts.total}" if counts else ""
        text = f"batch {batch.batch_id}: {remote.status}{done}"
        if self._told.get(batch.token) != text:
            self._told[batch.token] = text
            self._say(text)

    def _say_stopped(self) -> None:
        names = ", ".join(one.batch_id for one in self._open.values())
        at_work = f" The server works on {names}." if names else ""
        self._say(
            f"Stopped.{at_work} All that was sent is written down: run the same command to "
            "fetch it; nothing is paid twice.",
            always=True,
        )


def _passing(status: int) -> bool:
    return status in (408, 409, 425, 429) or (status >= 500 and status not in (501, 505))


def _files(batch: Batch, remote: Any) -> tuple[str, ...]:
    """Return all files of a batch, each once."""
    named = (*batch.files, remote.output_file_id, remote.error_file_id)
    return tuple(dict.fromkeys(name for name in named if name))
