"""One client for every language model: any server that speaks the OpenAI chat protocol.

`ask` takes requests, asks each one that has no reply yet, and puts every reply into the store.
How the asking is done is an `Executor`; `ChatExecutor` sends one call a request. A batch
interface, or another machine's queue, is another class with the same one method.

The key is read from ``OPENAI_API_KEY`` and goes nowhere but to the server.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import os
import random
import re
import ssl
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from itertools import chain
from typing import Any, NoReturn, Protocol
from urllib.parse import quote, urlsplit
from urllib.request import getproxies, proxy_bypass_environment  # type: ignore[attr-defined]

from tqdm import tqdm

from retrieval_quality.errors import DataError, RetrievalQualityError, UsageError, needing
from retrieval_quality.pipeline import replies
from retrieval_quality.pipeline.settings import (
    BATCH_SHARE,
    SENT,
    Price,
    Settings,
    address_of,
    api_key,
    check_address,
    shown,
)
from retrieval_quality.pipeline.store import Reply, Request, Spent, Store, canonical

with needing("pipeline"):
    from openai import (
        APIConnectionError,
        APIStatusError,
        APITimeoutError,
        AsyncOpenAI,
        DefaultAsyncHttpxClient,
        HttpxBinaryResponseContent,
    )

LONGEST_BACK_OFF = 30.0  # seconds
LOST_IN_A_ROW = 3  # calls given up, none answered between them: the fault is the server's
FEW = 3  # tries of a call whose replies, with HTTP 200, hold nothing but an error that may pass
CHARACTERS_PER_TOKEN = 4  # the usual rule of thumb for English, for estimates only


# --------------------------------------------------------------------------- estimates


def likely_tokens(request: Request) -> int:
    """Estimate a prompt's tokens: its characters divided by 4, rounded up."""
    characters = sum(len(message["content"]) for message in request.messages)
    return math.ceil(characters / CHARACTERS_PER_TOKEN)


def most_tokens(request: Request) -> int:
    """Bound a prompt's tokens from above: no tokenizer makes more tokens than bytes.

    The bytes of the texts and of the parameters (a schema is part of the prompt), and 16 a
    message for what the chat format puts around it.
    """
    texts = sum(len(message["content"].encode()) + 16 for message in request.messages)
    return texts + len(canonical(request.parameters))


@dataclass(frozen=True)
class Estimate:
    """What a run would ask and cost, before anything is asked.

    Attributes
    ----------
    calls : int
        Distinct requests without a reply.
    settled : int
        Distinct requests that are answered or failed for good.
    prompt_tokens : int
        Characters divided by 4.
    completion_tokens : int
        All replies at their limit.
    cost : float or None
        US dollars for these tokens; None where the price is not known.
    sent : int
        Distinct requests that wait in batches, sent by an earlier run; not in `calls`.
    engine : str
        ``batch`` where the cost is that of batches.
    """

    calls: int
    settled: int
    prompt_tokens: int
    completion_tokens: int
    cost: float | None
    sent: int = 0
    engine: str = "chat"

    def __str__(self) -> str:
        cost = "price not known" if self.cost is None else f"at most about ${self.cost:.4f}"
        if self.engine == "batch" and self.cost is not None:
            cost += f" (in batches, at {BATCH_SHARE:g} of the usual price)"
        sent = f", {self.sent} already sent in batches" if self.sent else ""
        return (
            f"{self.calls} calls to make ({self.settled} already settled{sent}), about "
            f"{self.prompt_tokens} prompt tokens (characters / {CHARACTERS_PER_TOKEN}), "
            f"at most {self.completion_tokens} reply tokens (every reply at its limit): {cost}"
        )


def estimate(
    requests: Iterable[Request], store: Store, settings: Settings, again: Set[str] = frozenset()
) -> Estimate:
    """Say what asking these requests would take, and ask nothing.

    Parameters
    ----------
    requests : iterable of Request
    store : Store
        Where the replies would go; what is settled there costs nothing.
    settings : Settings
        For the price.
    again : set of str
        Keys that would be asked again though they are settled.

    Returns
    -------
    Estimate
    """
    price = settings.rate(settings.model)
    seen: set[str] = set()
    sent = old = calls = prompt_tokens = completion_tokens = 0
    for request in requests:
        if request.key in seen:
            continue
        seen.add(request.key)
        if request.key not in again and store.is_settled(request):
            old += 1
            continue
        if store.is_in_batch(request):
            sent += 1
            continue
        calls += 1
        prompt_tokens += likely_tokens(request)
        completion_tokens += request.limit or 0
    cost = price.cost(prompt_tokens, completion_tokens) if price else None
    return Estimate(calls, old, prompt_tokens, completion_tokens, cost, sent, settings.engine)


# --------------------------------------------------------------------------- asking


class Executor(Protocol):
    """How requests are asked: one call each, in batches, elsewhere.

    `execute` takes requests from the iterator as it has room for them, and hands over each reply
    the moment it is there. It raises when it cannot go on; what it handed over is kept.
    """

    async def execute(
        self, requests: Iterator[Request], deliver: Callable[[Request, Reply], None]
    ) -> None:
        """Ask all requests; call `deliver` once for each that got a reply."""
        ...


@dataclass
class Tally:
    """What one run of `ask` did.

    Attributes
    ----------
    settled : int
        Requests that were not asked: settled before, or the same as another.
    answered : int
        Answers received.
    failed : Counter
        Replies that are no answers, by reason.
    seconds : float
        How long it took.
    spent : Spent
        What the stage has used in this folder, earlier runs included.
    """

    settled: int = 0
    answered: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    spent: Spent = field(default_factory=Spent)


def ask(
    requests: Iterable[Request],
    store: Store,
    settings: Settings,
    *,
    stage: str,
    total: int | None = None,
    executor: Executor | None = None,
    again: Set[str] = frozenset(),
) -> Tally:
    """Ask every request that has no reply yet; keep each reply as it comes.

    Identical requests are asked once. Stopped at any point, the next call goes on from there.

    Parameters
    ----------
    requests : iterable of Request
        Taken one by one, so it may be longer than memory.
    store : Store
        Where replies are looked up and kept.
    settings : Settings
        The model, its server and the limits.
    stage : str
        ``answer`` or ``grade``: whose costs these are.
    total : int, optional
        How many requests there are, for the progress bar.
    executor : Executor, optional
        `ChatExecutor` by default, `BatchExecutor` where the engine is ``batch``.
    again : set of str
        Keys of replies that are of no use and are to be asked for again.

    Returns
    -------
    Tally

    Raises
    ------
    UsageError
        No key; a refused key, model or parameter; an address where no such server is; a limit
        without a price; another run at work.
    DataError
        The server is down, out of quota, answers with faults only or asks for a longer wait than
        `max_wait`; the cost limit is reached; the disk is full. Everything that was answered is
        on file.
    """
    started = time.monotonic()
    price = settings.price()
    tally = Tally()
    budget = Budget(settings.max_cost, store.spent(stage).cost, price)
    with store.writing(), _bar(stage, total, settings) as bar:
        _check_batches(store, stage, settings)
        store.reopen(again, "of no use")
        waiting: set[str] = set()  # in flight, or failed in this run

        def deliver(request: Request, reply: Reply) -> None:
            store.save(stage, request, reply)
            if reply.reason is None:
                waiting.discard(request.key)
            if reply.reason is None:
                tally.answered += 1
            else:
                tally.failed[reply.reason] += 1
            bar.set_postfix_str(f"${budget.spent:.4f}" if price else "", refresh=False)
            bar.update()

        left = _unsettled(requests, store, waiting, tally, bar)
        first = next(left, None)
        try:
            begun = [] if first is None else [first]
            if begun or _has_batches(store, stage, settings):  # else no server is needed
                executor = executor or _executor(settings, price, budget, store, stage)
                _run(executor.execute(chain(begun, left), deliver))
        finally:
            tally.seconds = time.monotonic() - started
            tally.spent = store.spent(stage)
    return tally


def _executor(
    settings: Settings, price: Price | None, budget: Budget, store: Store, stage: str
) -> Executor:
    if settings.engine == "batch":
        from retrieval_quality.pipeline.batch import BatchExecutor

        return BatchExecutor(settings, price, budget, store, stage)
    return ChatExecutor(settings, price, budget, store.lost())


def _has_batches(store: Store, stage: str, settings: Settings) -> bool:
    """Whether something of earlier batches is still to be fetched or tidied up."""
    batches = store.batches(stage) if settings.engine == "batch" else []
    return any(one.is_open or one.files for one in batches)


def _check_batches(store: Store, stage: str, settings: Settings) -> None:
    """Refuse to buy what a batch that this run would not look at may hold already."""
    where = str(shown(address_of(settings.base_url)))
    for one in store.batches(stage):
        other = one.base_url != where
        if one.is_open and (settings.engine != "batch" or other):
            raise UsageError(
                f"{one.lines} requests are in the batch {one.batch_id or one.token} at "
                f"{one.base_url}, and asking them elsewhere would pay for them twice. Run the "
                "stage with `--engine batch` and that `base_url` first, to fetch their replies."
            )


def _bar(stage: str, total: int | None, settings: Settings) -> Any:
    every = 0.5 if sys.stderr.isatty() else 30  # a log gets a line now and then
    hidden = not settings.progress
    return tqdm(total=total, desc=stage, unit="call", disable=hidden, mininterval=every)


def _unsettled(
    requests: Iterable[Request], store: Store, waiting: set[str], tally: Tally, bar: Any
) -> Iterator[Request]:
    for request in requests:
        if request.key in waiting or store.is_settled(request):
            tally.settled += 1
            bar.total = bar.total - 1 if bar.total else bar.total
            continue
        waiting.add(request.key)
        yield request


def _run(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end, also where a loop is running already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(coroutine)
        return
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, coroutine).result()


class Budget:
    """Money: what is spent, what the calls in flight may still cost, and the limit.

    A call goes out only if its upper bound fits beside all that; otherwise it waits until calls
    in flight have turned out cheaper. When none is in flight and it still does not fit, the
    limit is reached: it is never exceeded by a call that was answered.
    """

    def __init__(self, limit: float | None, spent: float, price: Price | None) -> None:
        self.limit = limit
        self.spent = spent
        self.price = price
        self._reserved: dict[str, float] = {}
        self._freed = asyncio.Event()

    async def admit(self, request: Request) -> bool:
        """Reserve a request's upper bound; False where the limit has no room for it."""
        if self.limit is None or self.price is None:
            return True
        while not self.reserve(request):
            if not self._reserved or self.limit <= 0:
                return False
            self._freed.clear()
            await self._freed.wait()
        return True

    def reserve(self, request: Request, *, sent: bool = False) -> bool:
        """Reserve a request's upper bound if there is room for it now, or it is `sent` anyhow."""
        if self.limit is None or self.price is None:
            return True
        most = self.price.cost(most_tokens(request), request.limit or 0)
        over = self.spent + sum(self._reserved.values()) + most > self.limit
        if not sent and (self.limit <= 0 or over):
            return False
        self._reserved[request.key] = most
        return True

    def settle(self, request: Request, reply: Reply | None) -> None:
        """Replace what was reserved for a request by what it did cost."""
        self._reserved.pop(request.key, None)
        self.spent += (reply.cost or 0.0) if reply else 0.0
        self._freed.set()


@dataclass(frozen=True)
class _Again:
    """A failure that may pass.

    `wait` is what the server asked for, `limited` a rate limit, `gone` that nobody listens there,
    `said` the server's own words, `most` how often at most it is worth trying.
    """

    reason: str
    wait: float | None = None
    limited: bool = False
    gone: bool = False
    said: str = ""
    most: int | None = None


@dataclass(frozen=True)
class _Lost:
    """A call that has no reply and is not tried again in this run.

    `stop` is the error that ends the run where no call was answered yet, or several in a row
    are lost.
    """

    reason: str
    said: str = ""
    stop: RetrievalQualityError | None = None
    at_once: bool = False


class ChatExecutor:
    """One chat completion a request, a bounded number in flight, with our own retries.

    Rate limits, time-outs, lost connections and server errors are tried again with growing,
    jittered pauses. A wait the server asks for holds for all calls, not only for the one that
    was told. A call that keeps failing, or that gets no reply of a model but a page, an error or
    a refusal, is recorded as lost and the next run asks it again; when nobody listens any more,
    or three new calls in a row are lost, the run stops with the server's own words. Calls in
    flight are always waited for, since they may have to be paid.

    What is charged: what the server counts; an answer without a count at its upper bound, so that
    a limit holds; and nothing for a body that holds no reply of a model. A call that timed out
    or broke off has no known cost and is not charged.

    Parameters
    ----------
    settings : Settings
    price : Price or None
        For the cost of each reply.
    budget : Budget
        Says which calls may still go out.
    lost_before : set of str
        Keys of requests that earlier runs gave up: when they fail again, it says nothing of
        the server.
    """

    def __init__(
        self,
        settings: Settings,
        price: Price | None,
        budget: Budget,
        lost_before: Set[str] = frozenset(),
    ) -> None:
        self.settings = settings
        self.price = price
        self.budget = budget
        self.lost_before = lost_before
        self.base_url = address_of(settings.base_url)
        check_address(self.base_url)
        self.address = f"{str(shown(self.base_url)).rstrip('/')}/chat/completions"
        self.key = api_key(self.base_url)
        self._secret = _written(self.key)
        self._error: RetrievalQualityError | None = None
        self._stop = asyncio.Event()
        self._resume_at = 0.0
        self._last_success = -math.inf
        self._lost = 0

    async def execute(
        self, requests: Iterator[Request], deliver: Callable[[Request, Reply], None]
    ) -> None:
        """Ask all requests; see `Executor`."""
        async with AsyncOpenAI(
            api_key=self.key,
            base_url=self.base_url,
            http_client=http_client(self.base_url, self.settings.timeout),
            timeout=self.settings.timeout,
            max_retries=0,
        ) as client:
            workers = [
                self._work(client, requests, deliver) for _ in range(self.settings.concurrency)
            ]
            await asyncio.gather(*workers)
        if self._error is not None:
            raise self._error

    async def _work(
        self,
        client: AsyncOpenAI,
        requests: Iterator[Request],
        deliver: Callable[[Request, Reply], None],
    ) -> None:
        try:
            while not self._stop.is_set() and (request := next(requests, None)) is not None:
                if not await self.budget.admit(request):
                    self._halt(self._limit_reached())
                    return
                reply = None
                try:
                    reply = await self._ask(client, request)
                finally:
                    self.budget.settle(request, reply)
                if reply is not None:
                    deliver(request, reply)
        except RetrievalQualityError as error:
            self._halt(error)

    def _halt(self, error: RetrievalQualityError) -> None:
        self._error = self._error or error
        self._stop.set()

    def _limit_reached(self) -> DataError:
        return DataError(
            f"Stopped at the cost limit: ${self.budget.spent:.4f} of ${self.budget.limit:.4f} "
            "are spent and the next call might exceed it. All answers are kept; "
            "raise `max_cost` and run the same command to go on."
        )

    async def _ask(self, client: AsyncOpenAI, request: Request) -> Reply | None:
        started = time.monotonic()
        began = [started]
        while True:
            await self._gate()
            if self._stop.is_set():
                return None
            began.append(time.monotonic())
            outcome = await self._call(client, request)
            if isinstance(outcome, RetrievalQualityError):
                self._halt(outcome)
                return None
            if isinstance(outcome, Reply):
                self._last_success = time.monotonic()
                self._lost = 0
                seconds = round(self._last_success - started, 3)
                told = {"seconds": seconds, "attempts": len(began) - 1}
                return replace(outcome, details={**outcome.details, **told})
            if isinstance(outcome, _Lost):
                return self._lose(request, outcome, len(began) - 1)
            attempts = min(self.settings.attempts, outcome.most or self.settings.attempts)
            if len(began) > attempts:
                silent = self._last_success < began[-2]
                if (outcome.gone or outcome.limited) and silent:
                    self._halt(self._gone(outcome, attempts))
                    return None
                if not outcome.limited:
                    lost = _Lost(outcome.reason, outcome.said, self._gone(outcome, attempts))
                    return self._lose(request, lost, len(began) - 1)
            await self._back_off(outcome, len(began) - 1)

    def _lose(self, request: Request, lost: _Lost, attempts: int) -> Reply | None:
        """Give one call up; stop when several in a row are lost, or the address is to blame."""
        new = request.key not in self.lost_before
        self._lost += new
        first = lost.at_once and new and self._last_success == -math.inf
        if self._lost >= LOST_IN_A_ROW or first:
            self._halt(lost.stop or self._faults(lost))
            return None
        said = {"said": lost.said} if lost.said else {}
        return Reply(None, lost.reason, details={"attempts": attempts, **said})

    def _gone(self, outcome: _Again, attempts: int) -> DataError:
        where = shown(self.settings.base_url) or "(default address)"
        return DataError(
            f"The server {where} does not answer: {outcome.reason}, {attempts} "
            f"times{_quoted(outcome.said)}. All answers are kept; "
            "run the same command to go on when it is back."
        )

    def _faults(self, lost: _Lost) -> DataError:
        return DataError(
            f"{self.address} sends no replies: {lost.reason}{_quoted(lost.said)}. "
            "All answers are kept and nothing is settled by this; "
            "run the same command to go on when it is mended."
        )

    def _wrong_address(self, what: str, said: str) -> DataError:
        return DataError(
            f"{self.address} answers with {what}{_quoted(said)}. Is `base_url` right? It ends "
            "where /chat/completions begins, usually in /v1. Nothing is settled by this; all "
            "answers are kept."
        )

    async def _gate(self) -> None:
        """Wait while the server has asked all of us to."""
        while (left := self._resume_at - time.monotonic()) > 0:
            await self._sleep(left + random.uniform(0, min(left / 4, 1)))
            if self._stop.is_set():
                return

    async def _back_off(self, outcome: _Again, attempt: int) -> None:
        own = min(LONGEST_BACK_OFF, self.settings.back_off * 2 ** (attempt - 1))
        own *= random.uniform(0.5, 1)
        if outcome.wait is not None or outcome.limited:
            wait = own if outcome.wait is None else outcome.wait
            self._resume_at = max(self._resume_at, time.monotonic() + wait)
        else:
            await self._sleep(own)

    async def _sleep(self, seconds: float) -> None:
        """Sleep, but wake at once when the run stops."""
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        except TimeoutError:
            pass

    async def _call(
        self, client: AsyncOpenAI, request: Request
    ) -> Reply | _Again | _Lost | RetrievalQualityError:
        try:
            # one limit for all of it: the client's own begins anew with every byte that comes
            async with asyncio.timeout(self.settings.timeout or None):
                # the client's own `create` spends half its time on checking types of messages
                response = await client.post(
                    "/chat/completions", cast_to=HttpxBinaryResponseContent, body=body_of(request)
                )
        except TimeoutError:
            return _Again(f"no reply within {self.settings.timeout:g} s")
        except APIConnectionError as error:
            cause = type(error.__cause__).__name__
            gone = cause in ("ConnectError", "ConnectTimeout", "ProxyError")
            if isinstance(error, APITimeoutError) and not gone:
                return _Again(f"no reply within {self.settings.timeout:g} s")
            if cause == "UnsupportedProtocol":
                return UsageError(f"`base_url` cannot be used: {error.__cause__}.")
            said = self._blotted(replies.words(str(error.__cause__)))
            return _Again(f"no connection ({cause})", gone=gone, said=said)
        except APIStatusError as error:
            raw = self._blotted(error.response.content.decode(errors="replace"))
            return self._refusal(error.status_code, error.response.headers, raw, request)
        return self._reply(request, response.content.decode(errors="replace"), response.response)

    # ----------------------------------------------------------------- what came back

    def _reply(
        self, request: Request, raw: str, response: Any
    ) -> Reply | _Again | _Lost | RetrievalQualityError:
        raw = self._blotted(raw)
        reply = replies.read(raw, request.limit)
        if isinstance(reply, replies.Fault):
            return self._fault(reply, response.headers, raw, request)
        body = replies.parsed(raw)
        usage = body.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        served = body.get("model")
        told: dict[str, Any] = {"base_url": shown(self.settings.base_url)}
        if isinstance(served, str):
            told["served_model"] = served
        reply = replace(reply, raw=raw, details=told)
        return reply if not (body["choices"] or usage) else self._charged(request, reply, usage)

    def _fault(
        self, fault: replies.Fault, headers: Mapping[str, str], raw: str, request: Request
    ) -> Reply | _Again | _Lost | RetrievalQualityError:
        """Tell what a body with HTTP 200 that is no reply means for this call and the others."""
        if fault.status is not None or "quota" in fault.code:
            return self._refusal(fault.status or 429, headers, raw, request, sent=200)
        if fault.kind in ("page", "other"):
            stop = self._wrong_address(fault.reason, fault.said)
            return _Lost(fault.reason, fault.said, stop, at_once=fault.kind == "page")
        return _Lost(fault.reason + _quoted(fault.said[:120]), fault.said, self._faults(
            _Lost(fault.reason, fault.said)
        ))  # fmt: skip

    def _charged(self, request: Request, reply: Reply, usage: Mapping[str, Any]) -> Reply:
        """Add tokens and cost; what the server does not say is charged at its upper bound."""
        prompt = replies.count(usage.get("prompt_tokens"))
        completion = replies.count(usage.get("completion_tokens"))
        estimated = not (prompt and completion)
        prompt = prompt or most_tokens(request)
        completion = completion or request.limit or len((reply.text or "").encode())
        return replace(
            reply,
            prompt_tokens=prompt,
            completion_tokens=completion,
            estimated=estimated,
            cost=self.price.cost(prompt, completion) if self.price else None,
        )

    def _blotted(self, text: str) -> str:
        if self._secret is None:
            return text
        text = text.replace(self.key, "[key]")
        disguised = any(mark in text for mark in ("\\/", "\\u00", "\\U00", "%", "&#", '\\"'))
        return self._secret.sub("[key]", text) if disguised else text

    def _refusal(
        self,
        status: int,
        headers: Mapping[str, str],
        raw: str,
        request: Request,
        sent: int | None = None,
    ) -> Reply | _Again | _Lost | RetrievalQualityError:
        """Tell what may pass, what concerns this request only, and what stops everything.

        `sent` is the status of a response whose body names another one.
        """
        try:
            body = replies.parsed(raw)
        except ValueError:
            body = {}
        code = replies.error_code(body)[1]
        said = replies.words(raw)
        http = f"HTTP {status}" if sent is None else f"error {status} in a body with HTTP {sent}"
        if status in (401, 403, 407):
            whose = "proxy" if status == 407 else "server"
            return UsageError(
                f"The {whose} refuses the key ({http}): check OPENAI_API_KEY and what it "
                f"may use{_quoted(said)}. Nothing more was asked."
            )
        if status == 402 or re.search(r"insufficient_quota|billing", f"{code} {said}"):
            return DataError(
                f"The quota is exhausted ({http}, {code or 'payment required'}): this is no "
                f"rate limit and does not pass by waiting{_quoted(said)}. All answers are kept; "
                "top up and run the same command to go on."
            )
        if status < 400:
            place = shown(str(headers.get("location") or "")) or "another place"
            return UsageError(
                f"{self.address} sends its callers on to {place} ({http}): a key is not sent "
                "there unasked. Give the right `base_url`."
            )
        passing = status in (408, 409, 425, 429) or (status >= 500 and status not in (501, 505))
        told = headers.get("x-should-retry") if sent is None else None
        if told == "true" or (passing and told != "false"):
            return self._pause(status, http, headers, said, sent)
        named = rf"(?<!\w){re.escape(request.model)}(?!\w)"
        if status == 404 and (re.search(named, said) or re.search(r"\bmodel", f"{code} {said}")):
            return UsageError(f"The server does not know {request.model!r} ({http}): {said}")
        if status in (404, 405, 410):
            return UsageError(
                f"There is no {self.address} ({http}){_quoted(said)}. `base_url` ends where "
                "/chat/completions begins, usually in /v1."
            )
        if status == 413 or _is_too_long(code, said):
            return Reply(None, "context too long for the model", True, raw)
        if re.search(r"content_(filter|policy)|responsible_?ai", f"{code} {said}", re.IGNORECASE):
            return Reply(None, "filtered", True, raw)
        parameter = _refused_parameter(body, said, request)
        if parameter is not None:
            return UsageError(_advice(parameter, self.settings, said))
        reason = f"refused by the server ({http})"
        return _Lost(reason + _quoted(said[:120]), said, self._faults(_Lost(reason, said)))

    def _pause(
        self, status: int, http: str, headers: Mapping[str, str], said: str, sent: int | None
    ) -> _Again | DataError:
        wait = retry_after(headers, time.time())
        reason = f"rate limited ({http})" if status == 429 else f"server error ({http})"
        if wait is not None and wait > self.settings.max_wait:
            back = datetime.now(UTC) + timedelta(seconds=min(wait, 1e8))
            return DataError(
                f"{reason}: the server asks to wait {wait:g} s, longer than `max_wait` "
                f"({self.settings.max_wait:g} s){_quoted(said)}. All answers are kept; run the "
                f"same command after {back:%Y-%m-%d %H:%M:%S} UTC to go on."
            )
        most = FEW if sent == 200 else None
        return _Again(reason, wait, status == 429, said=said, most=most)


def _quoted(said: str) -> str:
    return f"; it says: {said.rstrip('.')}" if said else ""


def _written(key: str) -> re.Pattern[str] | None:
    r"""Return a pattern for a key in every way that JSON, HTML and addresses may write it."""
    if len(key) < 8:
        return None
    ways = [
        rf"(?:\\*{re.escape(one)}|\\+u00{ord(one):02x}|%{ord(one):02x}|&#0*{ord(one)};"
        rf"|&#x0*{ord(one):x};)"
        for one in key
    ]
    return re.compile("".join(ways) + "|" + re.escape(quote(key, safe="")), re.IGNORECASE)


# --------------------------------------------------------------------------- proxies


def proxy_of(base_url: str, proxies: Mapping[str, str]) -> str | None:
    """Return the proxy that an address is to be asked through, None for none.

    Parameters
    ----------
    base_url : str
        The server.
    proxies : mapping
        As ``urllib.request.getproxies()`` gives them: by scheme, ``all`` and ``no``.

    Examples
    --------
    >>> proxies = {"all": "socks5://proxy:1080", "no": "inside.example,10.0.0.0/8"}
    >>> proxy_of("https://llm.example/v1", proxies)
    'socks5://proxy:1080'
    >>> proxy_of("http://a.inside.example/v1", proxies) is proxy_of("http://10.1.2.3", proxies)
    True
    >>> proxy_of("http://localhost:8081/v1", proxies) is None
    True
    """
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    found = proxies.get(parts.scheme) or proxies.get("all")
    if not found or host == "localhost" or proxy_bypass_environment(host, dict(proxies)):
        return None
    if parts.port and proxy_bypass_environment(f"{host}:{parts.port}", dict(proxies)):
        return None
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return found if "://" in found else f"http://{found}"
    for one in proxies.get("no", "").split(","):
        try:
            if address in ipaddress.ip_network(one.strip(), strict=False):
                return None
        except ValueError:
            continue
    if address.is_loopback:  # a proxy elsewhere could not reach this machine
        return None
    return found if "://" in found else f"http://{found}"


def http_client(base_url: str, timeout: float) -> Any:
    """Make the HTTP client for one server, with the proxy that the environment names for it.

    A server on this machine is asked directly. Redirects are not followed: a key goes where it
    was meant to go, and nowhere else.

    Raises
    ------
    UsageError
        The proxy cannot be used.
    """
    proxy = proxy_of(base_url, getproxies())
    own_certificates = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")
    try:
        return DefaultAsyncHttpxClient(
            proxy=proxy,
            trust_env=False,
            follow_redirects=False,
            timeout=timeout or None,
            verify=ssl.create_default_context() if own_certificates else True,
        )
    except ImportError:
        _refuse_proxy(proxy, "is a SOCKS proxy, which needs the package socksio: install it")
    except ValueError:
        _refuse_proxy(proxy, "is none that can be used (http, https, socks5, socks5h)")


def _refuse_proxy(proxy: str | None, why: str) -> NoReturn:
    raise UsageError(
        f"The proxy {shown(proxy)} that the environment names (ALL_PROXY, HTTP_PROXY, "
        f"HTTPS_PROXY) {why}, or name the server in NO_PROXY."
    )


def body_of(request: Request) -> dict[str, Any]:
    """Return the body that is sent: model, messages, parameters; `extra_body` unfolded into it.

    Examples
    --------
    >>> body_of(Request("m", [], "p", {"seed": 1, "extra_body": {"top_k": 2}}))
    {'model': 'm', 'messages': [], 'seed': 1, 'top_k': 2}
    """
    named = {"model": request.model, "messages": request.messages}
    sent = {name: value for name, value in request.parameters.items() if name != "extra_body"}
    return {**named, **sent, **request.parameters.get("extra_body", {})}


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds a server asks to wait; None where it does not say so in earnest.

    Parameters
    ----------
    headers : mapping
        ``retry-after-ms`` (milliseconds) wins over ``retry-after`` (seconds, fractions allowed,
        or an HTTP date).
    now : float
        Seconds since 1970, to subtract from a date.

    Examples
    --------
    >>> retry_after({"retry-after-ms": "250"}, 0), retry_after({"retry-after": "1.5"}, 0)
    (0.25, 1.5)
    >>> retry_after({"retry-after": "Thu, 01 Jan 1970 00:00:12 GMT"}, 10)
    2.0
    >>> [retry_after({"retry-after": bad}, 0) for bad in ("-1", "soon", "nan")]
    [None, None, None]
    """
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) / unit
        except ValueError:
            seconds = _until(value, now)
        if 0 <= seconds < math.inf:
            return seconds
    return None


def _until(date: str, now: float) -> float:
    try:
        return parsedate_to_datetime(date).timestamp() - now
    except (ValueError, OverflowError):
        return math.nan


def _is_too_long(code: str, message: str) -> bool:
    if "context_length" in code or "exceed_context" in code:
        return True
    words = (
        r"context (length|size|window)|maximum context|too many (input )?tokens|prompt is too long"
    )
    return re.search(words, message, re.IGNORECASE) is not None


def _refused_parameter(body: Any, message: str, request: Request) -> str | None:
    """Return the parameter of ours that a 400 is about, under the name it was sent by."""
    sent = [name for name in request.parameters if name != "extra_body"]
    sent += list(request.parameters.get("extra_body", {}))
    inner = body.get("error", body) if isinstance(body, dict) else {}
    param = inner.get("param") if isinstance(inner, dict) else None
    if param:
        return next((name for name in sent if str(param).split(".")[0] == name), None)
    return next((name for name in sent if re.search(rf"\b{re.escape(name)}\b", message)), None)


def _advice(parameter: str, settings: Settings, message: str) -> str:
    old = {new: name for name, new in settings.rename.items()}.get(parameter, parameter)
    said = f"{settings.model!r} refuses the parameter {parameter!r}: {message}"
    if re.search(r"too (large|high|big)|at most|maximum value", message, re.IGNORECASE):
        return f"{said} Give a smaller one: `{old}: ...`."
    if old == "max_tokens":
        return f"{said} Set `rename: {{max_tokens: max_completion_tokens}}`."
    if old == "response_format":
        return f"{said} Set `output: text` (or `grammar`) for the grades."
    if old in SENT:
        return f"{said} Set `omit: [{old}]`."
    return f"{said} Take it out of `extra_body`."
