"""The share of the ceiling, gains in grade points, and the price of labels, on known rows."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from retrieval_quality.statistics import value, value_ceiling
from retrieval_quality.statistics.value_rank import Estimate, spearman
from retrieval_quality.statistics.value_worlds import NOTHING, World, draw


@pytest.fixture(scope="module")
def rows():
    return draw(World(), 300, seed=3)


@pytest.fixture(scope="module")
def fitted(rows):
    return value.fit(rows)


def whole(found):
    part = found[(found["dataset"] == "W") & (found["range"] == "all")]
    return part.set_index("measure")


def test_the_share_is_of_correlations_within_folds(fitted):
    one, found = fitted[0], whole(value_ceiling.ceiling(fitted, ["P"]))
    grade = one.rows["grade"].to_numpy()
    precision = (one.rows["n_positives"] / one.rows["K"]).round(9).to_numpy()
    own = spearman(precision, grade, one.fold).value
    top = max(
        spearman(one.predictions[key].mean, grade, one.fold).value
        for key in ("n_relevant", "order", "everything", "embedding")
    )
    assert found.loc["P", "correlation"] == pytest.approx(own)
    assert found.loc["P", "ceiling"] == pytest.approx(top)
    assert found.loc["P", "share"] == pytest.approx(own / top)


def test_a_measure_reaches_more_where_the_law_is_its_own():
    recall = draw(World(count=0, order=0, embedding=0, share=5.0), 300, seed=5)
    found = whole(value_ceiling.ceiling(value.fit(recall), ["R", "P"]))
    assert found.loc["R", "low"] <= 1.02
    assert found.loc["R", "share"] > 0.97
    assert found.loc["P", "high"] < 0.8


def test_alpha_is_chosen_on_the_other_folds(rows):
    fold = value.deal(rows["id"], 1)
    grade = rows["grade"].to_numpy()
    found = value_ceiling.crossfit_scores(rows, "F", fold, grade)
    n_p, k, relevant = (rows[c].to_numpy(float) for c in ("n_positives", "K", "Np"))
    for held in range(5):
        train = fold != held
        values = {a: n_p / (a * k + (1 - a) * relevant) for a in value_ceiling.ALPHAS}
        best = max(
            values, key=lambda a: (round(spearmanr(values[a][train], grade[train])[0], 10), -a)
        )
        assert found[~train] == pytest.approx(values[best][~train], abs=1e-8)


def test_f_e_is_on_the_rows_with_a_2k_row(rows, fitted):
    found = whole(value_ceiling.ceiling(fitted, ["Fe"]))
    assert found.loc["Fe", "n"] == rows["n_positives_2k"].notna().sum()
    without = value.fit(rows.assign(n_positives_2k=np.nan))
    found = whole(value_ceiling.ceiling(without, ["Fe"]))
    assert np.isnan(found.loc["Fe", "share"])
    assert found.loc["Fe", "reason"]


def test_errors_in_points_are_those_of_the_predictions(fitted):
    one = fitted[0]
    grade = one.rows["grade"].to_numpy()
    found = value_ceiling.points(fitted)
    found = found[found["dataset"] == "W"].set_index(["quantity", "score"])
    errors = {key: (one.predictions[key].mean - grade) for key in ("retrieved", "n_relevant")}
    squared = (errors["retrieved"] ** 2).mean() - (errors["n_relevant"] ** 2).mean()
    assert found.loc[("n_relevant", "squared_error"), "gain"] == pytest.approx(squared)
    assert found.loc[("n_relevant", "squared_error"), "low"] > 0
    mean = one.predictions["n_relevant"].mean
    chosen = one.rows.assign(mean=mean).groupby("id")
    got = {
        key: chosen_mean(one.rows.assign(mean=one.predictions[key].mean))
        for key in ("retrieved", "n_relevant")
    }
    assert found.loc[("n_relevant", "choice"), "n"] == chosen.ngroups
    gain = got["n_relevant"] - got["retrieved"]
    assert found.loc[("n_relevant", "choice"), "gain"] == pytest.approx(gain)


def chosen_mean(rows):
    return np.mean(
        [
            part.loc[part["mean"] == part["mean"].max(), "grade"].mean()
            for _, part in rows.groupby("id")
        ]
    )


def test_labels_have_a_price_only_where_they_gain(fitted):
    found = value_ceiling.points(fitted)
    priced = value_ceiling.labels(fitted, found)
    assert priced["quantity"].tolist() == ["n_relevant"] * 2 + ["top_2k"] * 2
    assert priced["labels"].tolist() == [8.0, 8.0, 3.0, 3.0]
    sure = found.assign(gain=0.5, low=0.4, high=0.6)
    priced = value_ceiling.labels(fitted, sure)
    assert priced["labels_a_point"].tolist() == pytest.approx([16.0, 16.0, 6.0, 6.0])
    assert priced["per_1000_labels"].iloc[0] == pytest.approx(62.5)
    never = value_ceiling.labels(fitted, found.assign(gain=0.0, low=-0.1, high=0.1))
    assert never["labels_a_point"].isna().all()
    assert (never["reason"] != "").all()


def test_nothing_is_not_a_gain_in_points():
    found = value_ceiling.points(value.fit(draw(NOTHING, 300, seed=2)))
    assert not (found["low"] > 0.02).any()


@pytest.mark.parametrize(
    "change",
    [
        {"grade": 3.0},
        {"id": "W-0"},
        {"K": 3, "n_positives": 1, "Np": 2, "pattern": "100", "n_positives_2k": np.nan},
    ],
)
def test_degenerate_rows_say_why(rows, change):
    fitted = value.fit(rows.assign(**change))
    found = value_ceiling.ceiling(fitted)
    assert (found.loc[found["share"].isna(), "reason"] != "").all()
    points = value_ceiling.points(fitted)
    assert (points.loc[points["gain"].isna(), "reason"] != "").all()
    priced = value_ceiling.labels(fitted, points)
    assert (priced.loc[priced["labels_a_point"].isna(), "reason"] != "").all()


def test_estimates_combine_as_numbers_do():
    rng = np.random.default_rng(1)
    query = np.repeat(np.arange(200), 3)
    x = rng.normal(2.0, 1.0, 600) + rng.normal(0.0, 1.0, 200)[query]
    one, other = Estimate.mean(x, query, 200), Estimate.mean(x**2, query, 200)
    ratio = one.over(other)
    assert ratio.value == pytest.approx(x.mean() / (x**2).mean())
    draws = rng.integers(0, 200, (2000, 200))
    sums = [np.bincount(query, v) for v in (x, x**2)]
    spread = (sums[0][draws].sum(axis=1) / sums[1][draws].sum(axis=1)).std()
    low, high = ratio.interval()
    assert (high - low) / 2 / 1.972 == pytest.approx(spread, rel=0.1)
    assert Estimate.pool([one, one]).value == pytest.approx(one.value)
    assert np.isnan(one.over(Estimate.mean(-x, query, 200)).value)
