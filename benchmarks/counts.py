"""Time and peak memory of the analysis from counts, against that from all the rows.

    python benchmarks/counts.py [--rows 1000000] [--memory 1GB]

Made rows in the published format: K from 1 to 10 of each ranking, N_p from 2 to 20, 7 embeddings.
Each step is a process of its own; its peak is the resident memory that the system reports, the
pages of mapped files among it. ``open`` converts the published file to the columnar cache, which
every analysis needs once.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

DEEP = 10
EMBEDDINGS = ("AML12v2", "ME5S", "ME5B", "ME5L", "BGES", "BGEB", "BGEL")
DATASETS = ("A", "M", "N")


def made(rng: np.random.Generator, first: int, n: int) -> pa.Table:
    """Make the rows of `n` rankings, DEEP each."""
    ranking = np.arange(first, first + n)
    relevant = rng.integers(2, 21, n)
    candidates = 40
    keys = rng.random((n, candidates)) + 0.4 * (np.arange(candidates) >= relevant[:, None])
    keys[np.arange(candidates) >= relevant[:, None] + 20] = 9  # no candidate of this ranking
    rank = np.argsort(keys, axis=1)[:, :DEEP]
    top = np.tile(np.arange(1, DEEP + 1), n)
    rows = np.repeat(rank, DEEP, axis=0)
    shown = np.arange(DEEP) < top[:, None]
    offsets = np.concatenate([[0], np.cumsum(top)]).astype(np.int32)
    inside = rows < np.repeat(relevant, DEEP)[:, None]
    found = (inside & shown).sum(axis=1)
    precision, recall = found / top, found / np.repeat(relevant, DEEP)
    grade = np.clip(np.rint(1 + 2 * precision + 2 * recall + rng.normal(0, 1, len(top))), 1, 5)
    sample = ranking // len(EMBEDDINGS)
    ids = [f"{DATASETS[i % len(DATASETS)]}-{i}" for i in sample.tolist()]
    which = (ranking % len(EMBEDDINGS)).tolist()
    n_relevant = np.repeat(relevant, DEEP)
    return pa.table(
        {
            "id": pa.array(np.repeat(np.array(ids), DEEP)),
            "E": pa.array(np.repeat(np.array([EMBEDDINGS[i] for i in which]), DEEP)),
            "Nc": n_relevant + 20,
            "Np": n_relevant,
            "K": top,
            "rank": pa.ListArray.from_arrays(offsets, pa.array(rows[shown])),
            "inK": pa.ListArray.from_arrays(offsets, pa.array(inside[shown].astype(np.int64))),
            "answer_ideal": pa.array(["ideal"] * len(top)),
            "answer_topK": pa.array(["answer"] * len(top)),
            "grade": grade.astype(np.int64),
            "P": precision,
            "R": recall,
        }
    )


def write(path: Path, rows: int) -> None:
    rng = np.random.default_rng(1)
    left, first, writer = rows // DEEP, 0, None
    while left:
        n = min(left, 20_000)
        table = made(rng, first, n)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
        first, left = first + n, left - n
    if writer:
        writer.close()


def step(name: str, folder: Path, memory: str) -> None:
    """Do one step; its result goes to a file for comparison."""
    from retrieval_quality.data.dataset import open_path
    from retrieval_quality.statistics import counting
    from retrieval_quality.statistics.correlation import correlate

    asked = {"measures": ("F", "nDCG", "T", "P"), "coefficients": ("spearman", "kendall_b")}
    file = folder / "counts.parquet"
    if name in ("open", "write", "rows"):
        data = open_path(folder / "samples_graded.parquet", progress=False)
    if name == "write":
        counting.write(data, file, memory=memory)
    if name == "rows":
        correlate(data.scored(), **asked).to_pickle(folder / "rows.pickle")
    if name == "counts":
        found = correlate(counting.read(file), **asked, weight=counting.WEIGHT)
        found.to_pickle(folder / "counts.pickle")


def measured(name: str, folder: Path, memory: str) -> dict[str, float]:
    started = time.perf_counter()
    words = [sys.executable, __file__, "--step", name, "--folder", str(folder), "--memory", memory]
    told = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return {"seconds": round(time.perf_counter() - started, 1), **json.loads(told)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.step:
        step(told.step, told.folder, told.memory)
        used = resource.getrusage(resource.RUSAGE_SELF)
        mb = used.ru_maxrss / 1024
        print(json.dumps({"cpu": round(used.ru_utime + used.ru_stime, 1), "peak_mb": round(mb)}))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["RETRIEVAL_QUALITY_CACHE"] = str(folder / "cache")
        write(folder / "samples_graded.parquet", told.rows)
        result: dict[str, object] = {"n": told.rows, "memory": told.memory}
        for one in ("open", "write", "counts", "rows"):
            result[one] = measured(one, folder, told.memory)
        file = folder / "counts.parquet"
        result["combinations"] = pq.read_metadata(file).num_rows
        result["megabytes"] = round(file.stat().st_size / 1e6, 1)
        same = [pd.read_pickle(folder / f"{name}.pickle") for name in ("rows", "counts")]
        pd.testing.assert_frame_equal(*same, check_exact=True)
        result["cells_equal"] = len(same[0])
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
