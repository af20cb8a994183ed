"""Can this judge judge? The mean grade of good, partial and wrong answers, on 30 cases by hand.

    python benchmarks/judge.py MODEL BASE_URL [json_schema|grammar|text]

A judge that is of use gives the three kinds means that lie well apart, in that order. The cases
(`judge_cases.json`) are invented, so that no model can know them, and share none with the
examples in the prompt.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, cast

import pandas as pd

from retrieval_quality.pipeline import client, prompts
from retrieval_quality.pipeline.grade import Judging, read_reply
from retrieval_quality.pipeline.settings import Settings
from retrieval_quality.pipeline.store import Store

CASES = Path(__file__).parent / "judge_cases.json"


def graded(model: str, base_url: str, output: str, prompt: str, folder: Path) -> pd.DataFrame:
    """Grade the cases: one row a case, with kind, grade (NaN if there is none) and reason."""
    cases = json.loads(CASES.read_text(encoding="utf-8"))
    settings = Settings(model, base_url=base_url, concurrency=1, progress=False)
    judging = Judging(cast(Any, None), settings, prompts.load(prompt), output, 1)
    requests = [judging.request(c["query"], c["ideal"], c["answer"]) for c in cases]
    rows = []
    with Store(folder) as store:
        client.ask(iter(requests), store, settings, stage="grade", total=len(requests))
        for case, request in zip(cases, requests, strict=True):
            reply = store.get(request.key)
            verdict = None if reply is None else read_reply(reply, case["answer"])
            grade = None if verdict is None else verdict.grade
            reason = "not asked" if verdict is None else verdict.reason
            rows.append({"kind": case["kind"], "grade": grade, "reason": reason})
    return pd.DataFrame(rows)


def main() -> None:
    model, base_url, *rest = sys.argv[1:]
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        frame = graded(
            model, base_url, rest[0] if rest else "grammar", "grade-examples-v1", Path(folder)
        )
    print(frame.groupby("kind")["grade"].agg(["size", "count", "mean", "min", "max"]))
    print(frame["reason"].value_counts().to_string())
    print(f"{time.perf_counter() - start:.0f} seconds")


if __name__ == "__main__":
    main()
