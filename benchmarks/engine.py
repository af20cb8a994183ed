"""Time the engine against a loop that calls scipy once per alpha and coefficient, at equal values.

    python benchmarks/engine.py [--segments 30] [--every 39] [--repeats 5]

Both start from the rows of the same ratio segments of the simulated dataset, drawn evenly by size,
and compute F and T at the published alphas with all four coefficients. The loop may take every
k-th alpha only; its time is then scaled by their number, which the output says.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from retrieval_quality import sources
from retrieval_quality.measures import MEASURES, segments
from retrieval_quality.statistics.correlation import (
    ALPHAS,
    COEFFICIENTS,
    correlate,
    curves_of,
    maximum,
)
from retrieval_quality.statistics.counts import count_rows, evaluate

MEASURED = ("F", "T")
COLUMNS = ["n_positives", "K", "Np"]


def scipy_loop(segment: pd.DataFrame, alphas: np.ndarray) -> np.ndarray:
    """Coefficients of one segment, shape (measures, alphas, 4)."""
    n_positives, top_k = segment["n_positives"].to_numpy(), segment["K"].to_numpy()
    n_relevant, grades = segment["Np"].to_numpy(), segment["grade"].to_numpy()
    n_negatives = top_k - n_positives
    out = np.empty((len(MEASURED), len(alphas), len(COEFFICIENTS)))
    for a, alpha in enumerate(alphas):
        f = n_positives / (alpha * (n_positives + n_negatives) + (1 - alpha) * n_relevant)
        t = (1 - alpha) * n_positives - alpha * n_negatives / (n_positives + n_negatives)
        for m, scores in enumerate((f, t)):
            out[m, a] = (
                stats.spearmanr(scores, grades).statistic,
                stats.pearsonr(scores, grades).statistic,
                stats.kendalltau(scores, grades, variant="b").statistic,
                stats.kendalltau(scores, grades, variant="c").statistic,
            )
    return out


def engine(rows: pd.DataFrame, threads: int | None) -> np.ndarray:
    """Curves of every segment, shape (measures, segments, alphas, 4), and their maxima."""
    counts = count_rows(rows, columns=COLUMNS)
    curves = []
    for name in MEASURED:
        values, table = evaluate(counts, MEASURES[name], ALPHAS)
        curves.append(curves_of(values, table, threads))
        maximum(curves[-1], ALPHAS, 8)
    return np.array(curves)


def figures(rows: pd.DataFrame) -> int:
    """Every cell of figures 5 to 18 and 23 to 43; the number of cells."""
    ratio = correlate(rows, measures=["F", "nDCG", "T", "Tu"])
    two_k = correlate(rows, measures=["F", "Fe"], require_2k=True)
    wide = correlate(rows, segmentation="narrow-wide", coefficients=COEFFICIENTS)
    return len(ratio) + len(two_k) + len(wide)


def fastest(work: Callable[[], Any], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def first_call(cache: str | None) -> float:
    """Seconds of the first `correlate` of a process, its imports not counted."""
    program = (
        "import time, pandas as pd\n"
        "from retrieval_quality.statistics.correlation import correlate\n"
        "rows = pd.DataFrame({'dataset': 'A', 'E': 'E', 'K': 4, 'Np': 4,\n"
        "                     'n_positives': [1, 2, 3], 'grade': [1, 2, 4]})\n"
        "start = time.perf_counter()\n"
        "correlate(rows, min_samples=1, measures=['F', 'T'])\n"
        "print(time.perf_counter() - start)\n"
    )
    environment = {**os.environ, **({"NUMBA_CACHE_DIR": cache} if cache else {})}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, check=True
    )
    return float(ran.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--segments", type=int, default=30)
    parser.add_argument("--every", type=int, default=39, help="every k-th alpha in the loop")
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()

    rows = sources.load("simulated").scored()
    rows = rows.assign(segment=segments.label_segments(rows, "ratio"))
    keys = ["dataset", "E", "segment"]
    sizes = rows.groupby(keys, observed=True).size()
    sizes = sizes[sizes >= 300].sort_values()
    drawn = sizes.iloc[np.linspace(0, len(sizes) - 1, asked.segments).round().astype(int)]
    chosen = rows.set_index(keys).sort_index().loc[drawn.index.sort_values()].reset_index()
    alphas = ALPHAS[:: asked.every]

    engine(chosen, 1)
    own = engine(chosen, 1)[:, :, :: asked.every]
    warnings.simplefilter("ignore")
    start, worst = time.perf_counter(), 0.0
    groups = [group for _, group in chosen.groupby(keys, observed=True)]
    loop = np.array([scipy_loop(group, alphas) for group in groups])
    loop_seconds = (time.perf_counter() - start) * len(ALPHAS) / len(alphas)
    cells = count_rows(chosen, columns=COLUMNS).cells
    place = {
        tuple(row): i for i, row in enumerate(cells[["dataset", "embedding", "segment"]].values)
    }
    for group, values in zip(groups, loop, strict=True):
        cell = place[tuple(str(group[key].iloc[0]) for key in keys)]
        worst = max(worst, float(np.nanmax(np.abs(own[:, cell] - values))))

    counts = count_rows(chosen, columns=COLUMNS)
    tables = [evaluate(counts, MEASURES[name], ALPHAS) for name in MEASURED]
    seconds = {
        "rows_to_maxima_1_thread": fastest(lambda: engine(chosen, 1), asked.repeats),
        "rows_to_maxima": fastest(lambda: engine(chosen, None), asked.repeats),
        "tables_to_curves_1_thread": fastest(
            lambda: [curves_of(*table, 1) for table in tables], asked.repeats
        ),
    }
    every_segment = rows[rows.set_index(keys).index.isin(sizes.index)]
    whole = {
        "rows_to_maxima_1_thread": fastest(lambda: engine(every_segment, 1), asked.repeats),
        "rows_to_maxima": fastest(lambda: engine(every_segment, None), asked.repeats),
    }
    figures(rows)
    with tempfile.TemporaryDirectory() as cache:
        compiling = first_call(cache)
    result = {
        "segments": len(groups),
        "rows": len(chosen),
        "alphas": len(ALPHAS),
        "alphas_in_loop": len(alphas),
        "largest_difference": worst,
        "scipy_loop_seconds": loop_seconds,
        "scipy_loop_is_scaled": len(alphas) < len(ALPHAS),
        "engine_seconds": seconds,
        "times_faster": {name: loop_seconds / value for name, value in seconds.items()},
        "all_segments": {
            "segments": len(sizes),
            "scipy_loop_seconds_estimated": loop_seconds * len(sizes) / len(groups),
            "engine_seconds": whole,
            "times_faster": {
                name: loop_seconds * len(sizes) / len(groups) / value
                for name, value in whole.items()
            },
        },
        "every_cell_of_every_figure_seconds": fastest(lambda: figures(rows), asked.repeats),
        "cells": figures(rows),
        "first_call_seconds": {"compiling": compiling, "compiled_before": first_call(None)},
        "load": os.getloadavg() if hasattr(os, "getloadavg") else None,
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
