"""Measure how fast texts are ranked, and in how much memory.

    python benchmarks/rank.py speed MODEL_FOLDER [TEXTS]   beside a bare model.encode
    python benchmarks/rank.py memory [SAMPLES]             6,000 x 40 texts, vectors made up

`speed` times both on the same distinct texts, alternating, and gives the ratio of their speeds (the
aim is at least 0.95). `memory` replaces the model by one that makes vectors up, so that what is
measured is what ranking itself holds: the peak of the process, and the file of vectors beside what
their numbers take.
"""

from __future__ import annotations

import hashlib
import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from retrieval_quality.pipeline import embed
from retrieval_quality.pipeline.files import write_records
from retrieval_quality.pipeline.rank import rank

WORDS = ["river", "bridge", "council", "vote", "grain", "harbour", "winter", "ledger", "copper"]
ROUNDS = 3


def sentence(number: int, length: int) -> str:
    """Make up a text; no two numbers give the same."""
    drawn = np.random.default_rng(number).choice(WORDS, length)
    return f"{number} {' '.join(drawn)}"


def samples(count: int, texts: int, length: int) -> Iterator[dict]:
    """Make up text samples of so many texts each, none twice."""
    for i in range(count):
        made = [sentence(i * texts + j, length) for j in range(texts)]
        yield {"id": f"X-{i}", "q": f"question {i}", "p": made[:10], "n": made[10:]}


def speed(model_folder: str, count: int) -> None:
    model = embed.load(f"X={model_folder}", device="cpu")
    made = list(samples(count // 40, 40, 60))
    texts = [t for s in made for t in (s["q"], *s["p"], *s["n"])]
    model.encode(texts[:64], 32)
    bare, ours = [], []
    for _ in range(ROUNDS):
        with clocks(bare):
            model.encode(texts, 32)
        with tempfile.TemporaryDirectory() as folder:
            write_records(Path(folder, "samples_texts.json"), made)
            with clocks(ours):
                rank(Path(folder), [model], candidates="20,40", positives="2-10", top_k="1-10")
    for clock, name in enumerate(("elapsed", "processor")):
        b, o = (sorted(times[clock] for times in both) for both in (bare, ours))
        print(
            f"{name} seconds, {len(texts)} texts, median of {ROUNDS}: bare {b[ROUNDS // 2]:.1f}, "
            f"rank {o[ROUNDS // 2]:.1f}; least: {b[0]:.1f} and {o[0]:.1f}, ratio {b[0] / o[0]:.3f}"
        )


@contextmanager
def clocks(into: list[tuple[float, float]]) -> Iterator[None]:
    """Time a block by the clock on the wall, and by the processor's, which others disturb less."""
    start = time.perf_counter(), time.process_time()
    yield
    into.append((time.perf_counter() - start[0], time.process_time() - start[1]))


class MadeUp:
    """Vectors of 384 numbers that follow from the text."""

    code = "made-up"

    def described(self) -> dict:
        """Return what determines the vectors."""
        return {"model": "made-up"}

    def worded(self, text: str, kind: str) -> str:
        """Return the text."""
        return text

    def encode(self, texts: Sequence[str], batch_size: int) -> np.ndarray:
        """Return one vector a text."""
        seeds = (int.from_bytes(hashlib.blake2b(t.encode(), digest_size=8).digest()) for t in texts)
        return np.stack([np.random.default_rng(s).standard_normal(384, np.float32) for s in seeds])


def memory(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_records(Path(folder, "samples_texts.json"), samples(count, 40, 100))
        size = Path(folder, "samples_texts.json").stat().st_size
        before = peak()
        start = time.perf_counter()
        counts = rank(Path(folder), [MadeUp()], candidates="20,40", positives="2,10")["counts"]
        seconds = time.perf_counter() - start
        held = Path(folder, "vectors-made-up.sqlite").stat().st_size
    vectors = count * 41
    print(json.dumps(counts))
    print(f"{count} x 40 texts ({size / 1e6:.0f} MB), {seconds:.0f} s")
    print(f"peak {peak():.0f} MB, of which {before:.0f} MB before ranking")
    print(
        f"{vectors} vectors: {held / 1e6:.0f} MB on the disk for {vectors * 1536 / 1e6:.0f} MB of "
        f"numbers, ratio {held / vectors / 1536:.3f} (the aim is at most 1.2)"
    )


def peak() -> float:
    """Return the most memory that this process has held, in MB (Linux)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "speed":
        speed(rest[0], int(rest[1]) if len(rest) > 1 else 800)
    else:
        memory(int(rest[0]) if rest else 6000)
