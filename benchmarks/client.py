"""Calls per second of the pipeline's client beside a bare asyncio loop over the same client.

    python benchmarks/client.py [--calls 2000] [--concurrency 64] [--rounds 3]

The server runs in a process of its own and answers at once. The bare loop uses the `openai`
client's own `chat.completions.create` with as many workers, and keeps nothing; ours makes keys,
retries, counts, prices and writes every reply into the store. The rounds alternate, so that a
busy machine treats both alike.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from openai import AsyncOpenAI

from retrieval_quality.pipeline.client import ask
from retrieval_quality.pipeline.settings import Settings
from retrieval_quality.pipeline.store import Request, Store

SERVER = """
import sys, threading
sys.path.insert(0, sys.argv[1])
from llm_server import LlmServer, say
with LlmServer(lambda asked: say("Yes.")) as server:
    print(server.base_url, flush=True)
    sys.stdin.read()
"""
DOCUMENT = "A sentence of about eighty characters that stands for what a document says. " * 5


def make_requests(settings: Settings, calls: int, first: int) -> list[Request]:
    texts = [f"{DOCUMENT}{i}" for i in range(first, first + calls)]
    messages = [[{"role": "user", "content": text}] for text in texts]
    return [settings.request(one, "benchmark", max_tokens=16) for one in messages]


def timed(work: Callable[[], object], calls: int) -> tuple[float, float]:
    """Return calls per second, and milliseconds of this process's processor time per call."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return calls / wall, 1000 * cpu / calls


def bare(base_url: str, requests: list[Request], concurrency: int) -> tuple[float, float]:
    async def run() -> None:
        left = iter(requests)

        async def work(client: AsyncOpenAI) -> None:
            for request in left:
                await client.chat.completions.create(
                    model=request.model,
                    messages=request.messages,  # type: ignore[arg-type]
                    **request.parameters,
                )

        async with AsyncOpenAI(api_key="none", base_url=base_url, max_retries=0) as client:
            await asyncio.gather(*(work(client) for _ in range(concurrency)))

    return timed(lambda: asyncio.run(run()), len(requests))


def ours(settings: Settings, requests: list[Request]) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder, Store(folder) as store:
        both = timed(lambda: ask(requests, store, settings, stage="answer"), len(requests))
        answered = store.spent("answer").calls
    if answered != len(requests):
        raise SystemExit(f"only {answered} of {len(requests)} calls were answered")
    return both


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    tests = Path(__file__).resolve().parents[1] / "tests"
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(tests)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    base_url = server.stdout.readline().strip() if server.stdout else ""
    settings = Settings("m", base_url, concurrency=given.concurrency, progress=False)
    rates: dict[str, list[tuple[float, float]]] = {"bare": [], "ours": []}
    try:
        for turn in range(given.rounds + 1):  # the first turn warms up
            requests = make_requests(settings, given.calls if turn else 200, turn * given.calls)
            rates["bare"].append(bare(base_url, requests, given.concurrency))
            rates["ours"].append(ours(settings, requests))
    finally:
        server.communicate("")
    told: dict[str, float] = {}
    for name, values in rates.items():
        told[f"{name}_calls_per_second"] = round(statistics.median(v[0] for v in values[1:]), 1)
        told[f"{name}_cpu_ms_per_call"] = round(statistics.median(v[1] for v in values[1:]), 3)
    told["ours_to_bare"] = round(told["ours_calls_per_second"] / told["bare_calls_per_second"], 3)
    told |= {"calls": given.calls, "concurrency": given.concurrency, "cores": os.cpu_count() or 0}
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
