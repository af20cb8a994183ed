"""The value of knowing: gains against known worlds, degenerate data, and the command."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy.stats import spearmanr

from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.exhibits.value_command import command
from retrieval_quality.statistics import value
from retrieval_quality.statistics.value_rank import spearman, spread
from retrieval_quality.statistics.value_worlds import NOTHING, World, draw, truth


def whole(found):
    part = found[(found["dataset"] == "all") & (found["range"] == "all")]
    return part.set_index(["quantity", "score"])


@pytest.fixture(scope="module")
def rows():
    return draw(World(), 400, seed=11)


@pytest.fixture(scope="module")
def fitted(rows):
    return value.fit(rows)


def test_the_influence_is_that_of_leaving_a_row_out():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 6, 200).astype(float)
    y = np.clip(np.round(x / 2 + rng.normal(size=200)), 0, 4)
    ranked = spearman(x, y)
    assert ranked.value == pytest.approx(spearmanr(x, y)[0], abs=1e-10)
    without = [spearmanr(np.delete(x, i), np.delete(y, i))[0] for i in range(200)]
    moved = 199 * (ranked.value - np.array(without))
    assert np.abs(moved - ranked.influence).max() < 0.05
    assert np.corrcoef(moved, ranked.influence)[0, 1] > 0.999


def test_strata_are_ranked_apart():
    x, y = np.array([1.0, 2, 3, 30, 20, 10]), np.array([1.0, 2, 3, 4, 5, 6])
    assert spearman(x, y, np.array([0, 0, 0, 1, 1, 1])).value == pytest.approx(0)
    assert math.isnan(spearman(np.ones(4), np.arange(4.0)).value)


def test_the_spread_of_a_mean_is_that_of_its_queries():
    rng = np.random.default_rng(3)
    means = rng.normal(size=50)
    error, half = spread((means - means.mean()) * 4, 200)
    assert error == pytest.approx(means.std(ddof=1) / math.sqrt(50))
    assert half > 1.96 * error
    assert math.isnan(spread(np.array([0.0]), 4)[0])


def test_known_values_are_found(fitted):
    found, true = whole(value.gains(fitted)), truth(World(), queries=8000)
    for _, row in true.iterrows():
        cell = found.loc[(row["quantity"], row["score"])]
        # three standard errors; models that were fitted can give less than the law, but not more
        width = (cell["high"] - cell["low"]) / 2 * 1.5
        assert cell["gain"] < row["gain"] + width, row.to_dict()
        if row["quantity"] != "top_2k":
            assert cell["gain"] > row["gain"] - width, row.to_dict()
    assert (found.loc["n_relevant", "low"] > 0).all()
    assert (found.loc["order", "low"] > 0).all()


def test_a_wrong_world_is_not_found():
    nothing = whole(value.value(draw(NOTHING, 400, seed=5)))
    full = truth(World(), queries=8000).set_index(["quantity", "score"])["gain"]
    for quantity in ("n_relevant", "order", "top_2k"):
        for score in value.SCORES:
            assert nothing.loc[(quantity, score), "low"] <= 0.002
            assert nothing.loc[(quantity, score), "high"] < full[quantity, score]


def test_no_query_predicts_itself(fitted):
    for one in fitted:
        folds = pd.Series(one.fold).groupby(one.query).nunique()
        assert (folds == 1).all()
        assert np.bincount(one.fold).min() > 0


def test_predicted_chances_are_those_of_an_ordinal_model(rows):
    statsmodels = pytest.importorskip("statsmodels.miscmodels.ordinal_model")
    one = value.prepare(rows)
    counts = pd.crosstab(one["n_positives"], one["grade"]).to_numpy(float)
    cells = pd.DataFrame({"n_positives": np.arange(len(counts)), "K": 6})
    seen = value._columns(cells)[:, 2:3]
    chances = value._fit("odds", seen, counts, [])
    exact = statsmodels.OrderedModel(
        one["grade"], seen[one["n_positives"].to_numpy()], distr="logit"
    ).fit(method="bfgs", disp=False)
    assert np.abs(chances - exact.model.predict(exact.params, seen)).max() < 0.02


def test_repeated_rows_count_as_they_should(rows):
    record = value.value(rows)
    assert list(record.columns) == list(value.RECORD)
    assert len(record) == 4 * 2 * 7 * 2
    cell = whole(record).loc[("n_relevant", "log_loss")]
    assert (cell["n"], cell["queries"]) == (3200, 400)
    pd.testing.assert_frame_equal(record, value.value(rows.sample(frac=1, random_state=0)))


def small(queries=12, **columns):
    return draw(World(), queries, seed=2).assign(**columns)


@pytest.mark.parametrize(
    ("rows", "quantity", "why"),
    [
        (small(1), "n_relevant", "1 queries"),
        (small(grade=3.0), "n_relevant", "all grades are equal"),
        (small(Np=8), "n_relevant", "one N_p"),
        (small(E="one"), "embedding", "one embedding"),
        (small(n_positives_2k=np.nan), "top_2k", "no row has a row with 2K"),
        (small()[lambda r: r["K"] == r["n_positives"]], "order", "no two rows"),
    ],
)
def test_degenerate_data_is_undefined_with_a_reason(rows, quantity, why):
    found = value.value(rows)
    part = found[(found["quantity"] == quantity) & (found["dataset"] == "W")]
    part = part[part["range"] == "all"]
    assert part["gain"].isna().all()
    assert part["reason"].str.contains(why).all()
    assert (found["gain"].notna() | (found["reason"] != "")).all()


def test_one_k_and_one_n_relevant_separate_nothing():
    rows = draw(World(), 60, seed=4)
    rows = rows[rows["Np"] != 4]
    found = value.value(rows)
    part = found[(found["quantity"] == "n_relevant") & (found["range"] == "0.6–0.9")]
    assert part.loc[part["dataset"] == "W", "reason"].str.contains("one K and one N_p").all()


def test_no_rows_and_no_grades_give_an_empty_or_undefined_answer():
    assert value.value(small().iloc[:0])["gain"].isna().all()
    assert value.value(small(grade=np.nan))["gain"].isna().all()


def test_wrong_input_is_refused():
    with pytest.raises(DataError, match=r"grade 2\.5 of W-0"):
        value.fit(small(grade=2.5))
    with pytest.raises(UsageError, match="models are"):
        value.fit(small(), families=["magic"])


def test_the_command_writes_the_records(tmp_path, monkeypatch):
    from retrieval_quality import sources

    class Given:
        simulated = True

        def scored(self):
            return small(20)

    monkeypatch.setattr(sources, "load", lambda data, seed: Given())
    out = tmp_path / "value.json"
    result = CliRunner().invoke(command, ["--data", "x", "--out", str(out)])
    assert result.exit_code == 0, result.output
    records = json.loads(out.read_text(encoding="utf-8"))
    assert set(records[0]) == set(value.RECORD)
    assert {r["quantity"] for r in records} == {"n_relevant", "order", "embedding", "top_2k"}
    assert {r["dataset"] for r in records} == {"all", "W"}
    assert "simulated" in result.stderr
    wrong = CliRunner().invoke(command, ["--out", "value.txt"])
    assert isinstance(wrong.exception, UsageError)
