"""A local server that speaks the OpenAI chat protocol, does as it is told, and counts.

It is written on bare asyncio, so that it answers at once and runs anywhere offline:

    with LlmServer() as server:
        server.behave = lambda asked: say("Grade: 3", finish_reason="length")
        ... ask server.base_url ...
        assert server.count == 1
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Asked:
    """One request as the server saw it: `number` counts from 1, `earlier` the same body before."""

    body: dict[str, Any]
    headers: dict[str, str]
    number: int
    earlier: int
    at: float = field(default_factory=time.monotonic)

    @property
    def text(self) -> str:
        """All that was said in the messages."""
        return "\n".join(message["content"] for message in self.body["messages"])


@dataclass
class Answer:
    """What the server does: waits, then sends `body` with `status`; or hangs up."""

    body: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    hang_up: bool = False


def say(text: Any, *, finish_reason: str = "stop", delay: float = 0.0, **message: Any) -> Answer:
    """Reply with this content."""
    choice = {
        "index": 0,
        "finish_reason": finish_reason,
        "message": {"role": "assistant", "content": text, **message},
    }
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "fake-1"}
    return Answer({**body, "choices": [choice], "usage": usage}, delay=delay)


def error(
    status: int,
    message: str = "something went wrong",
    *,
    code: str | None = None,
    param: str | None = None,
    kind: str | None = None,
    **headers: str,
) -> Answer:
    """Reply with an error; header names have _ for -."""
    told = {"message": message, "type": kind, "param": param, "code": code}
    return Answer({"error": told}, status, {k.replace("_", "-"): v for k, v in headers.items()})


def sensible(asked: Asked) -> Answer:
    """Answer or grade, always the same for the same request."""
    digest = hashlib.sha256(json.dumps(asked.body["messages"]).encode()).hexdigest()
    if "response_format" in asked.body:
        return say(json.dumps({"grade": int(digest[:6], 16) % 5 + 1}))
    return say(f"What the documents say, {digest[:12]}.")


class LlmServer:
    """The server: `behave` decides on each reply; `count`, `bodies` and `answered` tell.

    `answered` counts, for each distinct body, how often it got a whole answer.
    """

    def __init__(self, behave: Callable[[Asked], Answer] = sensible, port: int = 0) -> None:
        self.behave = behave
        self.port = port
        self.asked: list[Asked] = []
        self.answered: Counter[str] = Counter()
        self.in_flight = self.most_in_flight = 0
        self._bodies: Counter[str] = Counter()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> LlmServer:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def count(self) -> int:
        return len(self.asked)

    def stop(self) -> None:
        """Go down: every connection breaks."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)

    def stop_soon(self) -> None:
        """Go down from within `behave`."""
        self._loop.call_soon(self._loop.stop)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._connection, "127.0.0.1", self.port, backlog=512)
        )
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.01))
        self._loop.close()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._exchange(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in head[1:] if line)}
        content = await reader.readexactly(int(headers.get("content-length", 0)))
        body = json.loads(content)
        key = json.dumps(body, sort_keys=True)
        asked = Asked(body, headers, len(self.asked) + 1, self._bodies[key])
        self.asked.append(asked)
        self._bodies[key] += 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            answer = self.behave(asked)
            if answer.delay:
                await asyncio.sleep(answer.delay)
        finally:
            self.in_flight -= 1
        if answer.hang_up:
            return False
        raw = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        lines = [f"HTTP/1.1 {answer.status} X", "content-type: application/json"]
        lines += [f"{name}: {value}" for name, value in answer.headers.items()]
        lines += [f"content-length: {len(raw)}", "", ""]
        writer.write("\r\n".join(lines).encode() + raw)
        await writer.drain()
        self.answered[key] += answer.status == 200
        return True


def make_folder(folder: Path, samples: int = 3) -> Path:
    """Write texts and rankings: per sample two embeddings, 6 candidates, N_p 2 and 3, K 1 to 3."""
    folder.mkdir(parents=True, exist_ok=True)
    texts, ranked = [], []
    for i in range(samples):
        name = f"A-{i}"
        p = [f"Positive {j} of {name}." for j in range(3)]
        n = [f"Negative {j} of {name}." for j in range(4)]
        texts.append({"id": name, "q": f"What is said of {name}?", "p": p, "n": n})
        for embedding, rank in (("one", [0, 5, 1, 3, 2, 4]), ("two", [4, 0, 1, 2, 5, 3])):
            for n_positives in (2, 3):
                found = [sum(r < n_positives for r in rank[:k]) for k in (1, 2, 3)]
                ranked.append(
                    {
                        **{"id": name, "E": embedding, "Nc": 6, "Np": n_positives, "K": [1, 2, 3]},
                        "P": [hit / k for hit, k in zip(found, (1, 2, 3), strict=True)],
                        "R": [hit / n_positives for hit in found],
                        "rank": rank,
                    }
                )
    for part, rows in (("texts", texts), ("ranked", ranked)):
        (folder / f"samples_{part}.json").write_text(json.dumps(rows), encoding="utf-8")
    return folder
