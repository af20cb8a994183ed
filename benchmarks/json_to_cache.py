"""Convert a graded JSON file of about 0.5 GB: time and peak memory, beside ``json.load``.

The file has the keys and the number of rows of the published one; its answers are filler. Each
reader runs in a process of its own, whose peak memory the system reports.

    python benchmarks/json_to_cache.py [--rows 535888] [--characters 700]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

CONVERT = (
    "from retrieval_quality.data.dataset import open_path; open_path({path!r}, progress=False)"
)
READERS = {
    "open_path, first time": CONVERT,
    "open_path, from the cache": CONVERT,
    "scored() after that": CONVERT + ".scored()",
    "json.load": "import json; json.load(open({path!r}, encoding='utf-8'))",
}


def records(rows: int, characters: int) -> Iterator[dict]:
    """Yield graded records: 14 values of K for each sample, embedding after embedding."""
    rng = np.random.default_rng(1)
    words = rng.choice(["retrieval", "recall", "answer", "é", '"quoted"', "{ }, {"], size=4000)
    filler = " ".join(words)
    for number in range(rows):
        sample, top_k = divmod(number, 14)
        top_k += 2
        if top_k == 2:
            rank = rng.permutation(30).tolist()
        n_positives = 2 + sample % 14
        found = [int(index < n_positives) for index in rank[:top_k]]
        start = int(rng.integers(0, len(filler) - characters))
        yield {
            "id": f"A-{sample // 4}",
            "E": ("AML12v2", "ME5S", "E5Sv2", "MQML6Cv1")[sample % 4],
            "Nc": 30,
            "Np": n_positives,
            "K": top_k,
            "rank": rank[:top_k],
            "inK": found,
            "answer_ideal": filler[start : start + characters // 2],
            "answer_topK": filler[start + characters // 2 : start + characters],
            "grade": int(rng.integers(1, 6)),
            "P": sum(found) / top_k,
            "R": sum(found) / n_positives,
        }


def write(path: Path, rows: int, characters: int) -> None:
    """Write the records as one array, as ``json.dump`` would."""
    with path.open("w", encoding="utf-8") as file:
        for number, record in enumerate(records(rows, characters)):
            file.write("[" if number == 0 else ", ")
            file.write(json.dumps(record, ensure_ascii=False))
        file.write("]")


def measure(code: str, cache: str) -> tuple[float, float, float]:
    """Run code in a process of its own; return seconds, CPU seconds and peak memory in GB.

    All include the start of Python and the imports.
    """
    probe = (
        f"{code}\nimport resource, time\n"
        "print(time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    begin = time.perf_counter()
    run = subprocess.run(
        [sys.executable, "-c", probe],
        env={"RETRIEVAL_QUALITY_CACHE": cache, "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    seconds = time.perf_counter() - begin
    cpu, kilobytes = run.stdout.split()
    return seconds, float(cpu), int(kilobytes) / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=535_888)
    parser.add_argument("--characters", type=int, default=700)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples_graded.json"
        write(path, options.rows, options.characters)
        print(f"{options.rows} rows, {path.stat().st_size / 1e9:.2f} GB")
        print(f"{'reader':28} {'seconds':>8} {'CPU s':>8} {'peak GB':>8}")
        for name, code in READERS.items():
            figures = measure(code.format(path=str(path)), str(Path(folder) / "cache"))
            print(f"{name:28} {figures[0]:8.1f} {figures[1]:8.1f} {figures[2]:8.2f}", flush=True)


if __name__ == "__main__":
    main()
