"""Our retries beside those of the `openai` client, against a server that limits its rate.

    python benchmarks/retries.py [--calls 120] [--concurrency 32] [--rate 20]

The server answers `rate` calls in each second and refuses the rest with HTTP 429 and
``Retry-After: 1``. Both ask the same calls with as many workers. What counts: how many requests
are sent beyond the calls themselves (each refused one is load that the server did not want), how
many calls are lost, and how long it takes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

from openai import APIError, AsyncOpenAI

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from llm_server import Answer, Asked, LlmServer, error, say
from retrieval_quality.pipeline.client import ask
from retrieval_quality.pipeline.settings import Settings
from retrieval_quality.pipeline.store import Request, Store


def limited(rate: int):  # type: ignore[no-untyped-def]
    """Make a server's behaviour that answers `rate` calls in each second."""
    seconds: dict[int, int] = {}

    def behave(_: Asked) -> Answer:
        now = int(time.monotonic())
        seconds[now] = seconds.get(now, 0) + 1
        return say("Yes.") if seconds[now] <= rate else error(429, retry_after="1")

    return behave


def make(settings: Settings, calls: int) -> list[Request]:
    texts = [[{"role": "user", "content": f"Question {i}"}] for i in range(calls)]
    return [settings.request(one, "benchmark", max_tokens=9) for one in texts]


def theirs(base_url: str, requests: list[Request], concurrency: int, retries: int) -> int:
    lost = 0

    async def run() -> None:
        left = iter(requests)

        async def work(client: AsyncOpenAI) -> None:
            nonlocal lost
            for request in left:
                try:
                    await client.chat.completions.create(
                        model=request.model,
                        messages=request.messages,  # type: ignore[arg-type]
                        **request.parameters,
                    )
                except APIError:
                    lost += 1

        async with AsyncOpenAI(api_key="none", base_url=base_url, max_retries=retries) as client:
            await asyncio.gather(*(work(client) for _ in range(concurrency)))

    asyncio.run(run())
    return lost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=120)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--rate", type=int, default=20)
    given = parser.parse_args()
    told = {}
    for name in ("openai_2", "openai_8", "ours_8"):
        with LlmServer(limited(given.rate)) as server:
            settings = Settings("m", server.base_url, concurrency=given.concurrency, progress=False)
            requests = make(settings, given.calls)
            started = time.monotonic()
            if name == "ours_8":
                with tempfile.TemporaryDirectory() as folder, Store(folder) as store:
                    tally = ask(requests, store, settings, stage="answer")
                    lost = given.calls - tally.answered
            else:
                lost = theirs(server.base_url, requests, given.concurrency, int(name[-1]))
            told[name] = {
                "refused": server.count - given.calls + lost,
                "lost": lost,
                "seconds": round(time.monotonic() - started, 1),
            }
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
