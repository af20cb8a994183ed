"""Processor seconds that the chapter "The value of knowing" adds to the book, at full size.

    python benchmarks/value.py [--data simulated] [--out FILE]

User and system time of this process (`resource`), after the data is loaded and its scored rows are
read: those are shared with the other chapters. Each exhibit is computed and drawn, in the order of
the page, so that what several share is charged to the first. The aim is 25 seconds in all.
"""

from __future__ import annotations

import argparse
import resource
from pathlib import Path

import pandas as pd

from retrieval_quality import sources
from retrieval_quality.exhibits import catalogue
from retrieval_quality.exhibits.cells import scored_rows
from retrieval_quality.parameters import Parameters

AIM = 25.0


def used() -> float:
    """Processor seconds of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Compute, draw, time."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", default="simulated")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results/value.csv")
    given = parser.parse_args()
    dataset, run = sources.load(given.data, seed=1), Parameters()
    rows = len(scored_rows(dataset, run))
    records = []
    for study in catalogue.STUDIES.values():
        if study.notebook == "value-of-knowing":
            start = used()
            result = study.compute(dataset, run)
            if study.drawn:
                study.draw(result)
            records.append((study.anchor, rows, used() - start))
    records.append(("the chapter", rows, sum(record[2] for record in records)))
    found = pd.DataFrame(records, columns=["exhibit", "rows", "seconds"]).round(2)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    found.to_csv(given.out, index=False)
    print(found.to_string(index=False))
    print(f"{'within' if records[-1][2] <= AIM else 'ABOVE'} the aim of {AIM:g} seconds")


if __name__ == "__main__":
    main()
