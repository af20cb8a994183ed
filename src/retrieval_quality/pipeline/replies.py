"""What a server sent: a whole answer, a reply that is none, or a fault of the server.

Lists here name what is known to be good. A way to end, a part of a message or a shape of a body
that is not on them makes no answer.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from retrieval_quality.pipeline.store import CUT, Reply

WHOLE = ("stop", "eos", "eos_token", "end_turn", "stop_sequence", "complete", "completed")
"""Ways to end, as servers name them, that leave a whole answer."""
_CUT = ("length", "max_tokens", "max_length", "model_length", "max_output_tokens", "token_limit")
_FILTERED = ("content_filter", "safety", "recitation", "blocklist", "prohibited_content", "spii")
_TOOLS = ("tool_calls", "tool_use", "function_call")
_TEXTS = (None, "text", "output_text")
_MOST_TOKENS = 2**40
_MOST_WORDS = 300


@dataclass(frozen=True)
class Fault:
    """A body that is no reply of a model.

    Attributes
    ----------
    kind : {'page', 'stream', 'error', 'empty', 'broken', 'other'}
        A page for people; a reply in pieces; an error; nothing; half of one; something else.
    reason : str
        What it is, in a few words.
    said : str
        The server's own words, may be empty.
    status : int or None
        The HTTP status that an error gives as its code.
    code : str
        The error's code and type.
    """

    kind: str
    reason: str
    said: str = ""
    status: int | None = None
    code: str = ""


def parsed(raw: str) -> Any:
    """Read JSON; NaN and infinities, which are no JSON, become null.

    Raises
    ------
    ValueError
        It is no JSON, or nested too deep.
    """
    try:
        return json.loads(raw.lstrip("\ufeff"), parse_constant=lambda _: None)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def read(raw: str, limit: int | None) -> Reply | Fault:
    """Read the body of a response with HTTP 200.

    Parameters
    ----------
    raw : str
        The body.
    limit : int or None
        The limit of tokens it was asked with.

    Returns
    -------
    Reply or Fault
        What the model said, whole or not; or why nothing in it is a model's.

    Examples
    --------
    >>> read('{"error": "model is loading"}', 9).said
    'model is loading'
    >>> read("<html><title>Welcome</title></html>", 9).kind
    'page'
    >>> read("", 9).reason
    'an empty body instead of a reply'
    """
    if not raw.strip("\ufeff \t\r\n"):
        return Fault("empty", "an empty body instead of a reply")
    try:
        body = parsed(raw)
    except ValueError:
        return _no_json(raw)
    choices = body.get("choices") if isinstance(body, dict) else None
    if isinstance(choices, list) and not (not choices and _has_error(body)):
        if _has_error(body) and not _has_text(choices):
            return _error(body, raw)
        return read_body(body, limit)
    if isinstance(body, dict) and (_has_error(body) or words(raw)):
        return _error(body, raw)
    return Fault("other", "JSON that is no reply of a model", words(raw))


def _has_error(body: Mapping[str, Any]) -> bool:
    return bool(body.get("error"))


def _has_text(choices: list[Any]) -> bool:
    first = choices[0] if choices and isinstance(choices[0], dict) else {}
    message = first.get("message")
    return isinstance(message, dict) and bool(_content(message.get("content")))


def _no_json(raw: str) -> Fault:
    start = raw.lstrip("\ufeff \t\r\n")
    if re.match(r"<(!doctype|\?xml|html|head|body|!--)", start, re.IGNORECASE):
        return Fault("page", "a web page instead of a reply", words(raw))
    if re.match(r"(data|event|id|retry)?:", start):
        return Fault("stream", "a stream of pieces instead of a reply", words(_first_piece(start)))
    if start[0] in "{[":
        return Fault("broken", "broken JSON instead of a reply")
    return Fault("other", "text instead of a reply", words(raw))


def _first_piece(stream: str) -> str:
    found = re.search(r"^data:\s*(.*error.*)$", stream, re.MULTILINE)
    return found.group(1) if found else ""


def _error(body: Mapping[str, Any], raw: str) -> Fault:
    status, code = error_code(body)
    return Fault("error", "an error instead of a reply", words(raw), status, code)


def error_code(body: Any) -> tuple[int | None, str]:
    """Return the HTTP status that an error in a body names, and its code and type.

    Examples
    --------
    >>> error_code({"error": {"message": "busy", "code": 429, "type": "rate_limit"}})
    (429, '429 rate_limit')
    >>> error_code({"detail": "no"}), error_code([1])
    ((None, ''), (None, ''))
    """
    inner = body.get("error", body) if isinstance(body, dict) else {}
    inner = inner if isinstance(inner, dict) else {}
    outer = body if isinstance(body, dict) else {}
    told = [inner.get(name) for name in ("code", "status", "type")] + [outer.get("code")]
    status = next((int(str(one)) for one in told if re.fullmatch(r"[45]\d\d", str(one))), None)
    named = [str(one) for one in told if isinstance(one, str | int) and not isinstance(one, bool)]
    return status, " ".join(dict.fromkeys(named))[:100]


def words(raw: str) -> str:
    """Return a server's own words out of a body of any shape, short and on one line.

    Examples
    --------
    >>> words('{"error": {"message": "no such model", "code": null}}')
    'no such model'
    >>> words('{"error": "no"}'), words('{"detail": "Not Found"}')
    ('no', 'Not Found')
    >>> words('{"detail": [{"loc": ["body", "seed"], "msg": "not permitted"}]}')
    'body.seed: not permitted'
    >>> words("<html><title>502</title><body><h1>Bad <b>gateway</b></h1></body></html>")
    '502 Bad gateway'
    """
    try:
        body = parsed(raw)
    except ValueError:
        return _line(_without_tags(raw) if re.match(r"\s*\ufeff?\s*<", raw) else raw)
    if isinstance(body, str):
        return _line(body)
    return _line("; ".join(dict.fromkeys(_told(body))))


_SAYING = ("error", "errors", "message", "msg", "detail", "details", "title", "error_description",
           "reason", "description")  # fmt: skip


def _told(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and depth < 6:
        for one in value[:5]:
            yield from _told(one, depth + 1)
    elif isinstance(value, dict) and depth < 6:
        place = value.get("loc")
        where = ".".join(map(str, place)) + ": " if isinstance(place, list) else ""
        for name in _SAYING:
            if name in value:
                yield from (where + one for one in _told(value[name], depth + 1))


def _without_tags(page: str) -> str:
    page = re.sub(r"(?is)<(script|style)\b.*?(</\1>|$)|<!--.*?(-->|$)", " ", page[:20_000])
    return html.unescape(re.sub(r"<[^>]*>", " ", page))


def _line(text: str) -> str:
    shown = "".join(one if one.isprintable() else " " for one in text[: 20 * _MOST_WORDS])
    line = " ".join(shown.split())
    return line if len(line) <= _MOST_WORDS else line[: _MOST_WORDS - 1] + "…"


def read_body(body: Any, limit: int | None) -> Reply:
    """Read a chat completion: an answer only if it ended in a way that is known to be whole.

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
    >>> odd = {"choices": [{"message": {"content": "Y"}, "finish_reason": "abort"}]}
    >>> read_body(odd, 9).reason
    'ended by abort'
    >>> read_body({"choices": []}, 9).reason
    'no choices'
    """
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return Reply(None, "no choices")
    finish = choices[0].get("finish_reason")
    ended = finish.strip().lower() if isinstance(finish, str) else ""
    message = choices[0].get("message")
    message = message if isinstance(message, dict) else {}
    text = _content(message.get("content"))
    if ended in _FILTERED:
        return Reply(text, "filtered", final=True)
    if message.get("refusal") or ended == "refusal":
        return Reply(text or _content(message.get("refusal")), "refused", final=True)
    if ended in _CUT:
        return Reply(text, f"{CUT} {limit or 'the model limit of'} tokens", final=True)
    if ended in _TOOLS:
        return Reply(text, "called a tool instead of answering")
    if not message:
        return Reply(text, "no message")
    if ended and ended not in WHOLE:
        return Reply(text, f"ended by {_line(ended)[:40]}")
    if not text or not text.strip():
        return Reply(text, "empty")
    if not ended:
        return Reply(text, "no word on how it ended")
    return Reply(text)


def count(value: object) -> int:
    """Return a number of tokens as the server gave it, 0 where it is none.

    Examples
    --------
    >>> [count(one) for one in (3, 3.0, "3", True, -1, 0.5, None, 10**30, float("nan"))]
    [3, 3, 0, 0, 0, 0, 0, 0, 0]
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if 0 < value < _MOST_TOKENS and value == int(value) else 0


def _content(content: Any) -> str | None:
    """Return the text of a message; some servers send it as a list of parts.

    Parts of another kind, such as a model's thinking, are no part of the text. Halves of
    characters, which no file can hold, become question marks.
    """
    if isinstance(content, list):
        parts = [
            part.get("text")
            for part in content
            if isinstance(part, dict) and part.get("type") in _TEXTS
        ]
        content = "".join(part for part in parts if isinstance(part, str))
    return content.encode(errors="replace").decode() if isinstance(content, str) else None
