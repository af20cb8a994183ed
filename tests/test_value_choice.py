"""Choosing by a measure, and correlations between and within queries, on known rows."""

import math

import numpy as np
import pytest

from retrieval_quality.statistics import value_choice
from retrieval_quality.statistics.value_worlds import World, draw


@pytest.fixture(scope="module")
def rows():
    return draw(World(), 300, seed=7)


def whole(found):
    return found[(found["range"] == "all") & (found["gap"] == "all")].set_index("measure")


def test_concordance_is_that_of_pairs_counted_one_by_one(rows):
    few = rows[rows["id"].isin([f"W-{i}" for i in range(20)])]
    found = whole(value_choice.concordance(few, ["P"])).loc["P"]
    right = told = tied = pairs = 0
    for _, pair in few.groupby(["id", "Np", "K"]):
        (a, b) = pair[["n_positives", "grade"]].to_numpy(float)
        pairs += 1
        tied += a[0] == b[0]
        if a[0] != b[0] and a[1] != b[1]:
            told += 1
            right += (a[0] > b[0]) == (a[1] > b[1])
    assert found["n"] == told
    assert found["concordance"] == pytest.approx(right / told)
    assert found["tied_score"] == pytest.approx(tied / pairs)


def test_measures_of_n_p_order_such_pairs_alike(rows):
    found = whole(value_choice.concordance(rows, ["P", "R", "F", "T"]))
    assert found["concordance"].nunique() == 1
    assert found["low"].iloc[0] > 0.5


def test_grades_that_follow_nothing_are_a_coin(rows):
    rng = np.random.default_rng(1)
    found = whole(value_choice.concordance(rows.assign(grade=rng.integers(1, 6, len(rows)) * 1.0)))
    assert ((found["low"] < 0.5) & (found["high"] > 0.5)).sum() >= 5


def test_the_best_choice_loses_nothing(rows):
    perfect = rows.assign(grade=np.minimum(1.0 + rows["n_positives"], 5))
    found = value_choice.choose(perfect, ["T", "P"]).set_index("measure")
    best = perfect.groupby(["id", "E"], observed=True)["grade"].max().mean()
    assert found.loc["any K", "grade"] + found.loc["any K", "lost"] == pytest.approx(best)
    assert found.loc["T", "lost"] < found.loc["any K", "lost"]


def test_an_effect_between_queries_only_is_told_from_one_within():
    only = World(count=0, share=0, order=0, embedding=0, ease=0, skill=1.0, tied=2.0)
    found = value_choice.levels(draw(only, 400, seed=3), ["R"]).set_index("level")
    assert found.loc["between", "low"] > 0.2
    assert found.loc["within", "low"] < 0 < found.loc["within", "high"]


def test_degenerate_rows_have_no_value_but_a_reason(rows):
    one = rows[rows["E"] == "one"]
    found = value_choice.concordance(one, ["P"])
    assert (found["concordance"].isna() & (found["reason"] != "")).all()
    same = value_choice.levels(rows.assign(grade=3.0), ["P"])
    assert same["correlation"].isna().all()
    single = value_choice.choose(rows[rows["K"] == 3], ["P"])
    assert single["lost"].isna().all()
    assert (single["reason"] == "one K for each query").all()
    assert math.isnan(value_choice.choose(rows[rows["id"] == "W-0"], ["P"])["low"].iloc[0])
