"""Grades beside those of the controls."""

import numpy as np
import pandas as pd
import pytest

from retrieval_quality.errors import UsageError
from retrieval_quality.statistics.controls import pair, summarise


def scored(n=6, grades=(2.0, 5.0)):
    return pd.DataFrame(
        [
            {"id": f"A-{i}", "E": "ME5S", "dataset": "A", "Nc": 9, "Np": 2, "K": k, "grade": grade}
            for i in range(n)
            for k, grade in zip((2, 4), grades, strict=True)
        ]
    )


def controls(kind, n=6, grade=1, ks=(2, 4)):
    return pd.DataFrame(
        [
            {"id": f"A-{i}", "E": "ME5S", "Nc": 9, "Np": 2, "K": k, "control": kind, "grade": grade}
            for i in range(n)
            for k in ks
        ]
    )


def test_a_control_without_documents_stands_beside_every_k():
    pairs = pair(controls("none", ks=(0,)), scored())
    assert len(pairs) == 12
    assert sorted(pairs["gain"].unique()) == [1.0, 4.0]
    assert set(pairs["segment"].astype(str)) == {"1.0", "2.0"}


def test_the_others_stand_beside_their_own_k():
    pairs = pair(controls("reversed", ks=(4,)), scored())
    assert pairs["K"].tolist() == [4] * 6


def test_a_missing_grade_is_counted_and_no_zero():
    given = controls("reversed", ks=(4,)).astype({"grade": "float"})
    given.loc[0, "grade"] = np.nan
    found = summarise(pair(given, scored()), replicates=50).iloc[0]
    assert (found["n"], found["n_total"], found["queries"]) == (5, 6, 5)
    assert found["gain"] == found["low"] == found["high"] == 4


def test_one_query_has_a_mean_and_no_interval():
    found = summarise(pair(controls("random", n=1), scored(n=1)), replicates=50).iloc[0]
    assert found["gain"] == 2.5
    assert np.isnan(found["low"])
    assert found["reason"] == "one query only"


def test_no_grades_at_all():
    given = controls("random").assign(grade=None)
    found = summarise(pair(given, scored()), replicates=50).iloc[0]
    assert np.isnan(found["gain"])
    assert (found["n"], found["n_total"]) == (0, 12)
    assert found["reason"] == "no pair has both grades"


def test_the_interval_covers_the_mean_of_queries():
    rng = np.random.default_rng(5)
    rows = scored(n=200).assign(grade=rng.integers(1, 6, 400).astype(float))
    found = summarise(pair(controls("random", n=200), rows), ("control", "dataset"), seed=2)
    spread = rows.groupby("id")["grade"].mean().std() / np.sqrt(200)
    assert found["high"][0] - found["low"][0] == pytest.approx(2 * 1.96 * spread, rel=0.15)
    again = summarise(pair(controls("random", n=200), rows), ("control", "dataset"), seed=2)
    pd.testing.assert_frame_equal(found, again)


def test_an_unknown_column_is_refused():
    with pytest.raises(UsageError, match="no column ratio"):
        summarise(pair(controls("random"), scored()), ("ratio",))
