"""Bytes and time that the store takes for a reply.

    python benchmarks/store.py [--rows 20000]

Answers of about 60 words to prompts with 1 to 10 documents of about 90 words, the envelope as
OpenAI sends it. ``whole`` is what the bodies of request and reply take as they go over the line.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from pathlib import Path

from retrieval_quality.pipeline.store import Reply, Request, Store, canonical


def words(rng: random.Random, n: int) -> str:
    return " ".join(f"word{rng.randrange(5000)}" for _ in range(n))


def make(rng: random.Random, i: int) -> tuple[Request, Reply]:
    system = {"role": "system", "content": "Use only these documents. " * 35}
    messages = [system, {"role": "user", "content": words(rng, 90 * (1 + i % 10))}]
    parameters = {"max_tokens": 512, "seed": 1, "temperature": 0}
    request = Request("gpt-4o-mini", messages, "answer-v1@0123456789ab", parameters, limit=512)
    text = words(rng, 60)
    message = {"role": "assistant", "content": text, "refusal": None}
    body = {
        "id": f"chatcmpl-{rng.getrandbits(120):030x}",
        "object": "chat.completion",
        "created": 1_700_000_000 + i,
        "model": "gpt-4o-mini-2024-07-18",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 900, "completion_tokens": 80, "total_tokens": 980},
    }
    details = {"base_url": None, "served_model": body["model"], "seconds": 1.234, "attempts": 1}
    return request, Reply(text, raw=json.dumps(body), cost=0.0001, details=details)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    rows = parser.parse_args().rows
    rng = random.Random(1)
    whole, saving, asking = 0, 0.0, 0.0
    with tempfile.TemporaryDirectory() as folder, Store(folder) as store:
        for i in range(rows):
            request, reply = make(rng, i)
            whole += len(canonical([request.messages, request.parameters])) + len(reply.raw)
            started = time.perf_counter()
            store.save("answer", request, reply)
            saving += time.perf_counter() - started
            started = time.perf_counter()
            settled = store.is_settled(request)
            asking += time.perf_counter() - started
            if not settled or store.get(request.key) != reply:
                raise SystemExit("a reply did not come back as it was")
        store.close()
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
    told = {
        "rows": rows,
        "bytes_a_row": round(size / rows),
        "whole_bytes_a_row": round(whole / rows),
        "share": round(size / whole, 3),
        "microseconds_to_save": round(1e6 * saving / rows),
        "microseconds_to_look_up": round(1e6 * asking / rows),
    }
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
