"""Run in an environment with nothing but the wheel: T is computed and a figure is drawn."""

import importlib.util
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from retrieval_quality import measures
from retrieval_quality.cli import cli

here = Path(__file__).resolve().parents[1]
assert here / "src" not in Path(measures.__file__).resolve().parents, "the clone, not the wheel"
for extra in ("jupyter_book", "openai", "sentence_transformers", "sklearn", "ir_measures"):
    assert importlib.util.find_spec(extra) is None, f"{extra} is here, which the core needs not"

rows = pd.DataFrame({"n_positives": [1, 3], "K": [3, 5]})
scores = measures.score(rows, ["T"], alpha=0.5)["T"].to_numpy()
assert np.allclose(scores, [0.5 - 0.5 * 2 / 3, 0.5 * 3 - 0.5 * 2 / 5], rtol=0, atol=1e-12)

with tempfile.TemporaryDirectory() as folder:
    asked = ["figure", "5", "-p", "min_samples_width=15", "--data", "miniature", "--out", folder]
    cli.main(asked, standalone_mode=False)
    drawn = sorted(path.name for path in Path(folder).glob("figure-05.*"))
    assert {"figure-05.svg", "figure-05.csv"} <= set(drawn), drawn
print("T", *scores, *drawn, file=sys.stderr)
