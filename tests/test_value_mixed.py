"""The two halves of a cumulative-link mixed model, on worlds whose law is known."""

import numpy as np
import pytest

from retrieval_quality.statistics.value_worlds import NOTHING, World, draw

pytest.importorskip("statsmodels")
from retrieval_quality.statistics.value_mixed import (
    BETWEEN,
    LINK,
    MIXED,
    N_RELEVANT,
    SHARE,
    WITHIN,
    mixed,
)


def terms(world, seed=1, queries=120):
    return mixed(draw(world, queries, seed), queries=queries).set_index(["model", "term"])


def test_n_p_matters_where_the_law_says_so():
    found = terms(World(order=0, embedding=0, ease=1.5))
    assert found.loc[(LINK, N_RELEVANT), "high"] < 0
    assert found.loc[(MIXED, N_RELEVANT), "high"] < 0


@pytest.mark.parametrize("model", [LINK, MIXED])
def test_n_p_is_rarely_found_where_it_is_worth_nothing(model):
    found = [terms(NOTHING, seed, 60).loc[(model, N_RELEVANT)] for seed in range(20)]
    assert sum(row["low"] > 0 or row["high"] < 0 for row in found) <= 4


def test_the_cumulative_link_recovers_its_weight():
    law = World(count=1.5, share=0, order=0, embedding=0, ease=0)
    rows = draw(law, 400, 3)
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    x = np.column_stack([np.log1p(rows["n_positives"]), np.log(rows["K"]), np.log(rows["Np"])])
    scale = x.std(axis=0)
    exact = OrderedModel(rows["grade"].astype(int), (x - x.mean(0)) / scale, distr="logit")
    weights = np.asarray(exact.fit(method="bfgs", disp=False).params)
    found = mixed(rows, queries=400, most=10_000).set_index(["model", "term"])
    assert found.loc[(LINK, N_RELEVANT), "estimate"] == pytest.approx(weights[2], abs=0.05)


def test_the_query_has_its_share_of_the_variance():
    shares = [terms(World(ease=ease)).loc[(MIXED, SHARE), "estimate"] for ease in (0.0, 1.0, 3.0)]
    assert shares == sorted(shares)
    assert shares[0] < 0.1
    assert shares[2] > 0.5


def test_an_effect_between_queries_only_is_told_from_one_within():
    only = World(count=0, share=0, order=0, embedding=0, ease=0.5, skill=1.0, tied=2.0)
    found = terms(only, 3)
    assert found.loc[(MIXED, BETWEEN), "low"] > 0
    assert found.loc[(MIXED, WITHIN), "low"] < 0.1
    assert found.loc[(MIXED, BETWEEN), "estimate"] > 3 * found.loc[(MIXED, WITHIN), "estimate"]


@pytest.mark.parametrize(
    "change", [{"grade": 3.0}, {"id": "W-0"}, {"Np": 4}, {"K": 3, "Np": 4, "n_positives": 2}]
)
def test_degenerate_rows_say_why(change):
    found = mixed(draw(World(), 80, 1).assign(**change))
    undefined = found[found["estimate"].isna()]
    assert len(undefined)
    assert (undefined["reason"] != "").all()


def test_the_sample_is_of_whole_size_and_the_same_again():
    rows = draw(World(), 200, 5)
    found = mixed(rows)
    assert set(found["queries"]) == {60}
    assert found.equals(mixed(rows))
