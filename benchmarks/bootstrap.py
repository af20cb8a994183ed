"""Time the intervals at full simulated size.

    python benchmarks/bootstrap.py [--replicates 1000] [--threads N] [--others]

The ratio heatmaps: F, T, T_u, nDCG and their differences on all rows, F_e and F on the rows whose
2K row exists; at a fixed alpha, cross-fitted, and with the maximum taken anew in each replicate.
With --others also the other coefficients and the narrow/wide segments.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from typing import Any

import pandas as pd

from retrieval_quality import sources
from retrieval_quality.statistics import bootstrap

PAIRS = (("T", "F"), ("Tu", "T"), ("nDCG", "F"), ("T", "nDCG"))


def heatmaps(rows: pd.DataFrame, **options: Any) -> int:
    """Every cell and difference; their number."""
    every = bootstrap.intervals(rows, measures=["F", "T", "Tu", "nDCG"], pairs=PAIRS, **options)
    two_k = bootstrap.intervals(
        rows, measures=["F", "Fe"], pairs=[("Fe", "F")], require_2k=True, **options
    )
    return len(every) + len(two_k)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicates", type=int, default=1000)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--others", action="store_true")
    asked = parser.parse_args()
    rows = sources.load("simulated").scored()
    settings: dict[str, dict[str, Any]] = {
        "fixed": {"alpha": 0.5},
        "crossfit": {"alpha": "crossfit"},
        "maximum": {"alpha": "published"},
    }
    if asked.others:
        for coefficient in ("pearson", "kendall_b"):
            for name in ("fixed", "crossfit"):
                settings[f"{name} {coefficient}"] = {**settings[name], "coefficient": coefficient}
        settings["fixed narrow-wide"] = {"alpha": 0.5, "segmentation": "narrow-wide"}
        settings["crossfit narrow-wide"] = {"alpha": "crossfit", "segmentation": "narrow-wide"}
    for options in settings.values():  # compile
        heatmaps(rows.iloc[::100], min_samples=3, replicates=2, **options)
    result = {}
    for name, options in settings.items():
        start, used = time.perf_counter(), time.process_time()
        cells = heatmaps(rows, replicates=asked.replicates, threads=asked.threads, **options)
        result[name] = {
            "cells": cells,
            "seconds": time.perf_counter() - start,
            "processor_seconds": time.process_time() - used,
        }
    load = os.getloadavg() if hasattr(os, "getloadavg") else None
    print(json.dumps({"processors": os.cpu_count(), "load": load, "seconds": result}, indent=1))


if __name__ == "__main__":
    main()
