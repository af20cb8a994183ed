"""Measure how fast logs are read and measured, and in how much memory.

    python benchmarks/logs.py ROWS [FORMAT]     FORMAT: jsonl (default), run, spans

Makes up a log of so many retrievals (10 documents each; a run has 10 lines a query), then imports
it, and measures the table by day without and with per_query.csv. Every step is a process of its
own; its peak memory and its processor time are told beside the time that passed.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STEP = """
import resource, sys
from retrieval_quality.cli import main
sys.argv = ["retrieval-quality", *sys.argv[1:]]
try:
    main()
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(round(used.ru_utime + used.ru_stime, 1), used.ru_maxrss // 1024, file=sys.stderr)
"""


def write_jsonl(path: Path, rows: int) -> None:
    rng = random.Random(1)
    with path.open("w", encoding="utf-8") as file:
        for i in range(rows):
            line = {
                "query_id": f"q{i}",
                "query": f"question {i}",
                "documents": [f"d{rng.randrange(10**6)}" for _ in range(10)],
                "labels": [int(rng.random() < 0.3) for _ in range(10)],
                "time": 1741079700 + i % 2_000_000,
            }
            file.write(json.dumps(line) + "\n")


def write_run(path: Path, rows: int) -> None:
    rng = random.Random(1)
    with path.open("w", encoding="utf-8") as file:
        for i in range(rows):
            for rank in range(10):
                file.write(f"q{i} Q0 d{rng.randrange(10**6)}-{rank} {rank} {10 - rank}.5 made-up\n")


def write_spans(path: Path, rows: int) -> None:
    rng = random.Random(1)
    with path.open("w", encoding="utf-8") as file:
        for i in range(rows):
            documents = [{"document.id": f"d{rng.randrange(10**6)}"} for _ in range(10)]
            span = {
                "context": {"trace_id": f"{i:032x}", "span_id": f"{i:016x}"},
                "parent_id": None,
                "span_kind": "RETRIEVER",
                "start_time": "2025-03-04T10:00:00Z",
                "end_time": "2025-03-04T10:00:01Z",
                "attributes": {"input.value": f"question {i}", "retrieval.documents": documents},
            }
            file.write(json.dumps(span) + "\n")


WRITERS = {"jsonl": write_jsonl, "run": write_run, "spans": write_spans}


def step(name: str, rows: int, *arguments: str) -> None:
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", STEP, "logs", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.perf_counter() - began
    if done.returncode:
        sys.exit(done.stderr)
    cpu, peak = done.stderr.split()[-2:]
    line = f"{rows:>11,} rows  {name:<28} {seconds:8.1f} s  {cpu:>7} s CPU  {peak:>6} MB"
    print(line, flush=True)


def main() -> None:
    rows = int(float(sys.argv[1]))
    kind = sys.argv[2] if len(sys.argv) > 2 else "jsonl"
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        path = place / ("log.run" if kind == "run" else "log.jsonl")
        WRITERS[kind](path, rows)
        print(f"{path.stat().st_size / 1e6:,.0f} MB of {kind}", flush=True)
        table = str(place / "log.parquet")
        step("import", rows, "import", str(path), "--out", table)
        if kind == "jsonl":
            given = ("measure", table, "--top-k", "5", "--by", "day", "--out")
            step("measure", rows, *given, str(place / "a"), "--no-per-query")
            step("measure with per_query.csv", rows, *given, str(place / "b"))


if __name__ == "__main__":
    main()
