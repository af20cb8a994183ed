"""One client for every language model: any server that speaks the OpenAI chat protocol.

`ask` takes requests, asks each one that has no reply yet, and puts every reply into the store.
How the asking is done is an `Executor`; `ChatExecutor` sends one call a request. A batch
interface, or another machine's queue, is another class with the same one method.

The key is read from ``OPENAI_API_KEY`` and goes nowhere but to the server.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from itertools import chain
from typing import Any, Protocol

from tqdm import tqdm

from retrieval_quality.errors import DataError, RetrievalQualityError, UsageError, needing
from retrieval_quality.pipeline.settings import SENT, Price, Settings, api_key, price_of, shown
from retrieval_quality.pipeline.store import Reply, Request, Spent, Store, canonical

with needing("pipeline"):
    import httpx2
    from openai import APIConnectionError, APIStatusError, APITimeoutError, AsyncOpenAI

LONGEST_BACK_OFF = 30.0  # seconds
LOST_IN_A_ROW = 3  # calls given up, none answered between them: the server is taken for down
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
    """

    calls: int
    settled: int
    prompt_tokens: int
    completion_tokens: int
    cost: float | None

    def __str__(self) -> str:
        cost = "price not known" if self.cost is None else f"at most about ${self.cost:.4f}"
        return (
            f"{self.calls} calls to make ({self.settled} already settled), about "
            f"{self.prompt_tokens} prompt tokens (characters / {CHARACTERS_PER_TOKEN}), "
            f"at most {self.completion_tokens} reply tokens (every reply at its limit): {cost}"
        )


def estimate(requests: Iterable[Request], store: Store, settings: Settings) -> Estimate:
    """Say what asking these requests would take, and ask nothing.

    Parameters
    ----------
    requests : iterable of Request
    store : Store
        Where the replies would go; what is settled there costs nothing.
    settings : Settings
        For the price.

    Returns
    -------
    Estimate
    """
    settled = store.settled()
    price = price_of(settings.model, settings.prices)
    seen: set[str] = set()
    old = calls = prompt_tokens = completion_tokens = 0
    for request in requests:
        if request.key in seen:
            continue
        seen.add(request.key)
        if request.key in settled:
            old += 1
            continue
        calls += 1
        prompt_tokens += likely_tokens(request)
        completion_tokens += request.limit or 0
    cost = price.cost(prompt_tokens, completion_tokens) if price else None
    return Estimate(calls, old, prompt_tokens, completion_tokens, cost)


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
        `ChatExecutor` by default.

    Returns
    -------
    Tally

    Raises
    ------
    UsageError
        No key; a refused key, model or parameter; a limit without a price; another run at work.
    DataError
        The server is down, out of quota or asks for a longer wait than `max_wait`; the cost
        limit is reached; the disk is full. Everything that was answered is on file.
    """
    started = time.monotonic()
    price = settings.price()
    tally = Tally()
    budget = Budget(settings.max_cost, store.spent(stage).cost, price)
    with store.writing(), _bar(stage, total, settings) as bar:

        def deliver(request: Request, reply: Reply) -> None:
            store.save(stage, request, reply)
            if reply.reason is None:
                tally.answered += 1
            else:
                tally.failed[reply.reason] += 1
            bar.set_postfix_str(f"${budget.spent:.4f}" if price else "", refresh=False)
            bar.update()

        left = _unsettled(requests, store.settled(), tally, bar)
        first = next(left, None)
        try:
            if first is not None:  # otherwise neither key nor server is needed
                executor = executor or ChatExecutor(settings, price, budget, store.lost())
                _run(executor.execute(chain([first], left), deliver))
        finally:
            tally.seconds = time.monotonic() - started
            tally.spent = store.spent(stage)
    return tally


def _bar(stage: str, total: int | None, settings: Settings) -> Any:
    every = 0.5 if sys.stderr.isatty() else 30  # a log gets a line now and then
    hidden = not settings.progress
    return tqdm(total=total, desc=stage, unit="call", disable=hidden, mininterval=every)


def _unsettled(
    requests: Iterable[Request], seen: set[str], tally: Tally, bar: Any
) -> Iterator[Request]:
    for request in requests:
        if request.key in seen:
            tally.settled += 1
            bar.total = bar.total - 1 if bar.total else bar.total
            continue
        seen.add(request.key)
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
        self._reserved: dict[int, float] = {}
        self._freed = asyncio.Event()

    async def admit(self, request: Request) -> bool:
        """Reserve a request's upper bound; False where the limit has no room for it."""
        if self.limit is None or self.price is None:
            return True
        most = self.price.cost(most_tokens(request), request.limit or 0)
        while self.limit <= 0 or self.spent + sum(self._reserved.values()) + most > self.limit:
            if not self._reserved or self.limit <= 0:
                return False
            self._freed.clear()
            await self._freed.wait()
        self._reserved[id(request)] = most
        return True

    def settle(self, request: Request, reply: Reply | None) -> None:
        """Replace what was reserved for a request by what it did cost."""
        self._reserved.pop(id(request), None)
        self.spent += (reply.cost or 0.0) if reply else 0.0
        self._freed.set()


@dataclass(frozen=True)
class _Again:
    """A failure that may pass.

    `wait` is what the server asked for, `limited` a rate limit, `gone` that nobody listens there.
    """

    reason: str
    wait: float | None = None
    limited: bool = False
    gone: bool = False


class ChatExecutor:
    """One chat completion a request, a bounded number in flight, with our own retries.

    Rate limits, time-outs, lost connections and server errors are tried again with growing,
    jittered pauses. A wait the server asks for holds for all calls, not only for the one that
    was told. A call that keeps failing is recorded as failed and the next run asks it again;
    when nobody listens any more, or three new calls in a row are lost, the run stops. Calls in
    flight are always waited for, since they may have to be paid.

    A call that timed out or broke off has no reply, hence no known cost: it is not charged.

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
        self.key = api_key(settings.base_url)
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
            base_url=self.settings.base_url,
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
            if len(began) > self.settings.attempts:
                silent = self._last_success < began[-2]
                if (outcome.gone or outcome.limited) and silent:
                    self._halt(self._gone(outcome))
                    return None
                if not outcome.limited:
                    return self._lose(request, outcome)
            await self._back_off(outcome, len(began) - 1)

    def _lose(self, request: Request, outcome: _Again) -> Reply | None:
        """Give one call up; stop when several in a row are lost."""
        self._lost += request.key not in self.lost_before
        if self._lost >= LOST_IN_A_ROW:
            self._halt(self._gone(outcome))
            return None
        return Reply(None, outcome.reason, details={"attempts": self.settings.attempts})

    def _gone(self, outcome: _Again) -> DataError:
        return DataError(
            f"The server {shown(self.settings.base_url) or '(default address)'} does not answer: "
            f"{outcome.reason}, {self.settings.attempts} times. All answers are kept; "
            "run the same command to go on when it is back."
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
    ) -> Reply | _Again | RetrievalQualityError:
        try:
            # the client's own `create` spends half its time on checking the types of messages
            response = await client.post(
                "/chat/completions", cast_to=httpx2.Response, body=body_of(request)
            )
        except APIConnectionError as error:
            cause = type(error.__cause__).__name__
            gone = cause in ("ConnectError", "ConnectTimeout")
            if isinstance(error, APITimeoutError) and not gone:
                return _Again(f"no reply within {self.settings.timeout:g} s")
            return _Again(f"no connection ({cause})", gone=gone)
        except APIStatusError as error:
            return self._refusal(error, request)
        return self._reply(request, response.text)

    # ----------------------------------------------------------------- what came back

    def _reply(self, request: Request, raw: str) -> Reply:
        raw = self._blotted(raw)
        try:
            body = json.loads(raw)
        except ValueError:
            return self._charged(request, Reply(None, "not JSON", raw=raw), {})
        reply = read_body(body, request.limit)
        usage = body.get("usage") if isinstance(body, dict) else None
        named = {"served_model": body.get("model")} if isinstance(body, dict) else {}
        told = {"base_url": shown(self.settings.base_url), **named}
        reply = replace(reply, raw=raw, details=told)
        return self._charged(request, reply, usage if isinstance(usage, dict) else {})

    def _charged(self, request: Request, reply: Reply, usage: Mapping[str, Any]) -> Reply:
        """Add tokens and cost; what the server does not say is charged at its upper bound."""
        prompt = _count(usage.get("prompt_tokens"))
        completion = _count(usage.get("completion_tokens"))
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
        return text.replace(self.key, "[key]") if len(self.key) >= 8 else text

    def _refusal(
        self, error: APIStatusError, request: Request
    ) -> Reply | _Again | RetrievalQualityError:
        """Tell what may pass, what concerns this request only, and what stops everything."""
        status = error.status_code
        body = error.body if isinstance(error.body, dict) else {}
        code = f"{error.code or ''} {error.type or ''}".strip()
        message = self._blotted(str(body.get("message") or error.message))[:300]
        if status in (401, 403):
            return UsageError(
                f"The server refuses the key (HTTP {status}): check OPENAI_API_KEY and what it "
                "may use. Nothing more was asked."
            )
        if status == 402 or "insufficient_quota" in code or "billing" in code:
            return DataError(
                f"The quota is exhausted (HTTP {status}, {code or 'payment required'}): this is no "
                "rate limit and does not pass by waiting. All answers are kept; top up and run "
                "the same command to go on."
            )
        if status in (408, 409, 429) or status >= 500:
            return self._pause(error)
        if status == 404:
            return UsageError(f"The server does not know {request.model!r} (HTTP 404): {message}")
        raw = self._blotted(error.response.text)
        if status == 413 or _is_too_long(code, message):
            return Reply(None, "context too long for the model", True, raw)
        parameter = _refused_parameter(error.param, message, request)
        if parameter is not None:
            return UsageError(_advice(parameter, self.settings, message))
        return Reply(None, f"refused by the server (HTTP {status} {code})".strip(), raw=raw)

    def _pause(self, error: APIStatusError) -> _Again | DataError:
        status = error.status_code
        wait = retry_after(error.response.headers, time.time())
        reason = "rate limited (HTTP 429)" if status == 429 else f"server error (HTTP {status})"
        if wait is not None and wait > self.settings.max_wait:
            back = datetime.now(UTC) + timedelta(seconds=min(wait, 1e8))
            return DataError(
                f"{reason}: the server asks to wait {wait:g} s, longer than `max_wait` "
                f"({self.settings.max_wait:g} s). All answers are kept; run the same command "
                f"after {back:%Y-%m-%d %H:%M:%S} UTC to go on."
            )
        return _Again(reason, wait, status == 429)


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


def read_body(body: Any, limit: int | None) -> Reply:
    """Read a chat completion: an answer only if it is whole, unfiltered and not empty.

    Parameters
    ----------
    body : object
        The parsed JSON of the reply.
    limit : int or None
        The token limit it was asked with, for the reason of a cut.

    Returns
    -------
    Reply
        Text, reason and whether asking again is of no use.

    Examples
    --------
    >>> whole = {"choices": [{"message": {"content": "Yes."}, "finish_reason": "stop"}]}
    >>> read_body(whole, 9).reason is None
    True
    >>> cut = {"choices": [{"message": {"content": "Y"}, "finish_reason": "length"}]}
    >>> read_body(cut, 9).reason
    'truncated at 9 tokens'
    >>> read_body({"choices": []}, 9).reason
    'no choices'
    """
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return Reply(None, "no choices")
    finish = choices[0].get("finish_reason")
    message = choices[0].get("message")
    message = message if isinstance(message, dict) else {}
    text = _content(message.get("content"))
    if finish == "content_filter":
        return Reply(text, "filtered", final=True)
    if message.get("refusal"):
        return Reply(text or _content(message["refusal"]), "refused", final=True)
    if finish == "length":
        return Reply(text, f"truncated at {limit or 'the model limit of'} tokens", final=True)
    if not text or not text.strip():
        return Reply(text, "empty" if message else "no message")
    return Reply(text)


def _count(value: object) -> int:
    """Return a number of tokens as the server gave it, 0 where it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _content(content: Any) -> str | None:
    """Return the text of a message; some servers send it as a list of parts.

    Halves of characters, which no file can hold, become question marks.
    """
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "".join(part for part in parts if isinstance(part, str))
    return content.encode(errors="replace").decode() if isinstance(content, str) else None


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


def _refused_parameter(param: str | None, message: str, request: Request) -> str | None:
    """Return the parameter of ours that a 400 is about, under the name it was sent by."""
    sent = [name for name in request.parameters if name != "extra_body"]
    sent += list(request.parameters.get("extra_body", {}))
    if param:
        return next((name for name in sent if param.split(".")[0] == name), None)
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
