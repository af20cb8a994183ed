"""Which model is asked, how, at what price, and where the limits are."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import yaml

from retrieval_quality.errors import UsageError
from retrieval_quality.pipeline.store import Request, normal

SENT = ("max_tokens", "temperature", "seed", "response_format")  # what may be left out or renamed


ENGINES = ("chat", "batch")
BATCH_SHARE = 0.5  # of the price of a call, what the same call costs in a batch


class Price(NamedTuple):
    """US dollars for one million tokens."""

    input: float
    output: float

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Return what so many tokens cost, in US dollars.

        Examples
        --------
        >>> Price(0.15, 0.60).cost(1_000_000, 500_000)
        0.45
        """
        return (self.input * prompt_tokens + self.output * completion_tokens) / 1e6


@dataclass(frozen=True)
class Settings:
    """Which model is asked, how, and where the limits are.

    Attributes
    ----------
    model : str
        The model's name at the server.
    base_url : str, optional
        The server, up to ``/v1``; without it the client's own default.
    revision : str
        Your word for which weights stand behind the name (a hash, a date); part of the store's
        key, so a new one asks everything anew. The address of the server is not part of it.
    concurrency : int
        Calls in flight at once.
    temperature, seed : number
        Sent with every call and recorded; 0 and 1 by default.
    max_tokens : int, optional
        Most tokens of a reply. The default depends on the stage.
    omit : sequence of str
        Parameters a model refuses, left out: of ``max_tokens temperature seed response_format``.
    rename : mapping
        Parameters that go by another name: ``{max_tokens: max_completion_tokens}``.
    extra_body : mapping
        Further fields of the request's body, for one server's own options. They are recorded,
        so nothing secret belongs here.
    timeout : float
        Seconds one call may take, its wait in the queue of the server included.
    attempts : int
        Tries of one call that meets server errors, before it is given up.
    back_off : float
        Seconds before the second try; doubled from try to try, with jitter, up to 30.
    max_wait : float
        The longest wait a server may ask for, in seconds; beyond it the run stops.
    max_cost : float, optional
        US dollars that the calls of one stage in one folder may cost in all, runs before this
        one included. 0 lets nothing through.
    prices : mapping or path, optional
        ``{model: {input: ..., output: ...}}`` in US dollars for a million tokens, or a YAML file
        of it; added to the table that comes with the package.
    engine : {'chat', 'batch'}
        One call a request, or OpenAI's Batch API: half the price, replies within a day. No part
        of the store's key: the replies are the same.
    poll : float
        Seconds between two looks at the batches.
    progress : bool
        Show a progress bar on standard error.
    """

    model: str
    base_url: str | None = None
    revision: str = ""
    concurrency: int = 8
    temperature: float = 0
    seed: int = 1
    max_tokens: int | None = None
    omit: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    timeout: float = 600
    attempts: int = 8
    back_off: float = 0.5
    max_wait: float = 120
    max_cost: float | None = None
    prices: Mapping[str, Any] | str | Path | None = None
    engine: str = "chat"
    poll: float = 30
    progress: bool = True

    def __post_init__(self) -> None:
        for one in fields(self):  # null is what is not given
            if getattr(self, one.name) is None and one.default is not MISSING:
                object.__setattr__(self, one.name, one.default)
            elif getattr(self, one.name) is None and one.default_factory is not MISSING:
                object.__setattr__(self, one.name, one.default_factory())
        if isinstance(self.omit, str):
            object.__setattr__(self, "omit", (self.omit,))
        if not self.model or not isinstance(self.model, str):
            raise UsageError("`model` is missing: give the name the server knows it by.")
        for name in ("rename", "extra_body"):
            if not isinstance(getattr(self, name), Mapping):
                raise UsageError(f"`{name}` must be names and values, such as {{name: value}}.")
        if self.base_url is not None:
            check_address(self.base_url)
        for name in (*self.omit, *self.rename):
            if name not in SENT:
                raise UsageError(
                    f"{name!r} is not sent: `omit` and `rename` know {', '.join(SENT)}."
                )
        for name in ("concurrency", "attempts", "max_tokens"):
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            if isinstance(value, float) and value.is_integer():
                value, whole = int(value), True
                object.__setattr__(self, name, value)
            if not (value is None and name == "max_tokens") and not (whole and value >= 1):
                raise UsageError(f"`{name}` is {value!r}: give a whole number of at least 1.")
        if self.engine not in ENGINES:
            raise UsageError(f"`engine` is {self.engine!r}: {' or '.join(ENGINES)}.")
        for name in ("timeout", "back_off", "max_wait", "max_cost", "poll"):
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and 0 <= value < math.inf):
                raise UsageError(f"`{name}` is {value!r}: give a number of at least 0.")
        if not (_is_number(self.temperature) and math.isfinite(self.temperature)):
            raise UsageError(f"`temperature` is {self.temperature!r}: give a number.")
        if not (_is_number(self.seed) and float(self.seed).is_integer()):
            raise UsageError(f"`seed` is {self.seed!r}: give a whole number.")
        if not isinstance(self.revision, str | int | float):
            raise UsageError(f"`revision` is {self.revision!r}: give a word.")
        if self.extra_body.get("stream"):
            raise UsageError("`extra_body`: leave `stream` out; replies are read whole.")
        object.__setattr__(self, "revision", str(self.revision))
        object.__setattr__(self, "temperature", normal(self.temperature))
        object.__setattr__(self, "seed", normal(self.seed))
        sent = {name: one for name, one in self.extra_body.items() if one is not None}
        object.__setattr__(self, "extra_body", normal(sent))

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Settings:
        """Make settings from a part of a configuration file; refuse names that do not exist."""
        known = [one.name for one in fields(cls)]
        for name in mapping:
            if name not in known:
                raise UsageError(f"`{name}` is not a setting of a model: {', '.join(known)}.")
        if "model" not in mapping:
            raise UsageError("`model` is missing: give the name the server knows it by.")
        given: dict[str, Any] = {  # 0.0 is 0: what asks the same must have the same key
            name: int(value) if isinstance(value, float) and value.is_integer() else value
            for name, value in mapping.items()
        }
        if isinstance(given.get("omit"), list):
            given["omit"] = tuple(given["omit"])
        return cls(**given)

    def request(
        self,
        messages: list[dict[str, str]],
        prompt: str,
        *,
        max_tokens: int,
        repeat: int = 0,
        response_format: Mapping[str, Any] | None = None,
        extra_body: Mapping[str, Any] | None = None,
    ) -> Request:
        """Make the request that is really sent: `omit` and `rename` applied, nothing null.

        Parameters
        ----------
        messages : list of dict
            Chat messages.
        prompt : str
            Name and hash of the prompt they were made with.
        max_tokens : int
            The stage's limit; that of the settings wins.
        repeat : int
            Which asking of the same question this is.
        response_format, extra_body : mapping, optional
            Further parameters.
        """
        limit = self.max_tokens or max_tokens
        wanted = {
            "max_tokens": limit,
            "temperature": self.temperature,
            "seed": self.seed,
            "response_format": response_format,
        }
        sent = {
            self.rename.get(name, name): value
            for name, value in wanted.items()
            if name not in self.omit and value is not None
        }
        body = {**(extra_body or {}), **self.extra_body}
        if body:
            sent["extra_body"] = body
        return Request(
            model=self.model,
            messages=messages,
            prompt=prompt,
            parameters=sent,
            repeat=repeat,
            revision=self.revision,
            limit=None if "max_tokens" in self.omit else limit,
            limit_name=self.rename.get("max_tokens", "max_tokens"),
        )

    def price(self) -> Price | None:
        """Return the model's price, or None where neither table knows it.

        Raises
        ------
        UsageError
            The price table cannot be read, or a limit is set that no price or no `max_tokens`
            can hold.
        """
        found = self.rate(self.model)
        if self.max_cost is not None and found is None:
            raise UsageError(
                f"The price of {self.model!r} is not known, so a limit of {self.max_cost} US "
                "dollars cannot be held. Give it as "
                f"`prices: {{{self.model}: {{input: 0.15, output: 0.60}}}}` (US dollars for a "
                "million tokens; 0 for a model of your own), or leave `max_cost` out."
            )
        if self.max_cost is not None and "max_tokens" in self.omit:
            raise UsageError("`max_cost` needs `max_tokens`: rename it instead of omitting it.")
        return found

    def rate(self, model: str) -> Price | None:
        """Return what the engine makes of a model's price, or None where it is not known.

        Examples
        --------
        >>> Settings("gpt-4o-mini", engine="batch").rate("gpt-4o-mini")
        Price(input=0.075, output=0.3)
        """
        found = price_of(model, self.prices)
        if found is None or self.engine != "batch":
            return found
        return Price(found.input * BATCH_SHARE, found.output * BATCH_SHARE)

    def recorded(self) -> dict[str, Any]:
        """Return what determines the replies, for a manifest."""
        names = ("model", "revision", "temperature", "seed", "max_tokens", "omit", "rename")
        kept = {name: getattr(self, name) for name in names}
        return {**kept, "extra_body": dict(self.extra_body), "base_url": shown(self.base_url)}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_address(base_url: object) -> None:
    """Refuse what is no address of a server.

    Raises
    ------
    UsageError
        It does not begin with http:// or https://, has no host, a port that cannot be, or goes on
        behind the place where ``/chat/completions`` begins.
    """
    text = str(base_url)
    if not re.match(r"https?://[^/]", text):
        raise UsageError("`base_url` must begin with http:// or https:// and name a server.")
    try:
        parts = urlsplit(text)
        named = parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        named = False
    if not named or re.search(r"[\s\x00-\x1f]", text):
        raise UsageError(f"`base_url` {_harmless(text)} is no address: check name and port.")
    if re.search(r"/(chat/)?completions/?$", parts.path):
        raise UsageError(
            "`base_url` ends before /chat/completions, usually in /v1: leave the rest out."
        )


def _harmless(address: str) -> str:
    """Return an address that may be no address without what may be secret in it."""
    return repr(re.sub(r"//[^/@]*@", "//", address).partition("?")[0])


def address_of(base_url: str | None) -> str:
    """Return the server's address: what is given, else ``OPENAI_BASE_URL``, else OpenAI's own."""
    return base_url or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"


def shown(base_url: str | None) -> str | None:
    """Return an address without any user name and password in it.

    Examples
    --------
    >>> shown("http://me:secret@localhost:8080/v1?key=abc")
    'http://localhost:8080/v1'
    """
    if base_url is None:
        return None
    parts = urlsplit(base_url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def price_of(model: str, prices: Mapping[str, Any] | str | Path | None = None) -> Price | None:
    """Look a model's price up: the given table first, then the package's own.

    Parameters
    ----------
    model : str
        Name at the server; a date at its end (``-2024-07-18``) is left off if need be.
    prices : mapping or path, optional
        The user's own table.

    Returns
    -------
    Price or None

    Raises
    ------
    UsageError
        A table that cannot be read, or a price that is not two numbers of at least 0.

    Examples
    --------
    >>> price_of("gpt-4o-mini-2024-07-18")
    Price(input=0.15, output=0.6)
    >>> price_of("local", {"local": {"input": 0, "output": 0}})
    Price(input=0.0, output=0.0)
    >>> price_of("gpt-4o-mimi") is None
    True
    """
    own = files("retrieval_quality.pipeline").joinpath("prices.yml").read_text(encoding="utf-8")
    table = {**yaml.safe_load(own), **_price_table(prices)}
    undated = re.sub(r"-\d{4}-\d{2}-\d{2}$", "", model)
    entry = table.get(model, table.get(undated))
    if entry is None:
        return None
    try:
        price = Price(float(entry["input"]), float(entry["output"]))
    except (TypeError, KeyError, ValueError) as error:
        raise UsageError(f"The price of {model!r} needs two numbers: input and output.") from error
    if not (0 <= price.input < math.inf and 0 <= price.output < math.inf):
        raise UsageError(f"The price of {model!r} must be at least 0 and finite.")
    return price


def _price_table(prices: Mapping[str, Any] | str | Path | None) -> Mapping[str, Any]:
    if prices is None or isinstance(prices, Mapping):
        return prices or {}
    try:
        table = yaml.safe_load(Path(prices).read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"The price table {prices} cannot be read: {error}.") from error
    if not isinstance(table, Mapping):
        raise UsageError(f"The price table {prices} must be `model: {{input: ..., output: ...}}`.")
    return table


def api_key(base_url: str | None) -> str:
    """Return the key of the environment; a server on this machine needs none.

    Raises
    ------
    UsageError
        There is none, or it holds blanks or characters that cannot be sent.
    """
    key = os.environ.get("OPENAI_API_KEY", "").strip()
    local = base_url and urlsplit(base_url).hostname in ("localhost", "127.0.0.1", "::1")
    if not key and local:
        return "none"
    if not key:
        raise UsageError(
            "OPENAI_API_KEY is not set: put the server's key into the environment "
            "(any word will do for a server that needs none)."
        )
    if not re.fullmatch(r"[!-~]+", key):
        raise UsageError("OPENAI_API_KEY holds blanks or characters that a key cannot have.")
    return key
