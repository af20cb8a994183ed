"""Time and peak memory of ``pipeline status``, finished and in the middle of a stage.

    python benchmarks/status.py [--rows 100000]

Stages answer and grade run with an executor that replies at once; ``counted_again`` is what status
takes where what the stages counted cannot be used, as it is while a stage is under way. Each
status is a process of its own.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from retrieval_quality.pipeline import answer, grade, run
from retrieval_quality.pipeline.files import write_records
from retrieval_quality.pipeline.settings import Settings
from retrieval_quality.pipeline.store import Reply, Request

EMBEDDINGS, DEEP, CANDIDATES = 5, 10, 20
BODY = '{"choices": [{"index": 0, "message": {"role": "assistant", "content": %s}}]}'


class AtOnce:
    """An executor without a server."""

    async def execute(
        self, requests: Iterator[Request], deliver: Callable[[Request, Reply], None]
    ) -> None:
        """Reply to all."""
        for request in requests:
            grading = "response_format" in request.parameters
            text = '{"grade": 3}' if grading else f"Answer {request.key} " * 3
            deliver(request, Reply(text, raw=BODY % json.dumps(text), prompt_tokens=900))


def made(folder: Path, rows: int) -> None:
    """Write texts and rankings for about so many rows."""
    rng = random.Random(1)
    n = max(rows // (EMBEDDINGS * DEEP), 1)

    def texts() -> Iterator[dict[str, object]]:
        for i in range(n):
            documents = [
                " ".join(f"word{rng.randrange(5000)}" for _ in range(60)) for _ in range(CANDIDATES)
            ]
            yield {"id": f"A-{i}", "q": f"What of {i}?", "p": documents[:5], "n": documents[5:]}

    def rankings() -> Iterator[dict[str, object]]:
        for i in range(n):
            for embedding in range(EMBEDDINGS):
                rank = rng.sample(range(CANDIDATES), CANDIDATES)
                ks = list(range(1, DEEP + 1))
                key = {"id": f"A-{i}", "E": f"E{embedding}", "Nc": CANDIDATES, "Np": 5}
                yield {**key, "K": ks, "rank": rank}

    write_records(folder / "samples_texts.json", texts())
    write_records(folder / "samples_ranked.json", rankings())


def measured(folder: Path) -> dict[str, float]:
    started = time.perf_counter()
    words = [sys.executable, __file__, "--folder", str(folder)]
    told = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return {"seconds": round(time.perf_counter() - started, 1), **json.loads(told)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.folder:
        told = run.status(given.folder)
        used = resource.getrusage(resource.RUSAGE_SELF)
        cpu, mb = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
        graded = told["graded"]["graded"]
        print(json.dumps({"cpu": round(cpu, 1), "peak_mb": round(mb), "graded": graded}))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made(folder, given.rows)
        settings = Settings("m", base_url="http://127.0.0.1:9/v1", progress=False)
        result: dict[str, object] = {"rows": given.rows}
        for stage in (answer.answer, grade.grade):
            started = time.perf_counter()
            stage(folder, settings, executor=AtOnce())
            result[stage.__name__] = {"seconds": round(time.perf_counter() - started, 1)}
        result["finished"] = measured(folder)
        for manifest in ("answer.json", "grade.json"):
            told = json.loads((folder / manifest).read_text())
            told.pop("inputs")
            (folder / manifest).write_text(json.dumps(told))
        result["counted_again"] = measured(folder)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
