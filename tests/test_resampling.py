"""The one resampling: units, exact ties, intervals of a chosen alpha, variance components."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from retrieval_quality.measures import MEASURES
from retrieval_quality.statistics import attribution, bootstrap, evidence, exact
from retrieval_quality.statistics.correlation import curves_of
from retrieval_quality.statistics.counts import count_rows
from retrieval_quality.statistics.resampling import Replicates, exact_scores, unit


def cell(n=400, queries=40, seed=1, ratio=None):
    """Rows of one segment; with a ratio, K is that times N_p."""
    rng = np.random.default_rng(seed)
    relevant = rng.integers(2, 12, n)
    top_k = relevant * ratio if ratio else relevant + rng.integers(0, 9, n)
    found = rng.binomial(np.minimum(relevant, top_k), 0.6)
    return pd.DataFrame(
        {
            "id": [f"A-{i}" for i in rng.integers(0, queries, n)],
            "E": "ME5S",
            "dataset": "A",
            "K": top_k,
            "Np": relevant,
            "n_positives": found,
            "n_positives_2k": np.minimum(found + rng.integers(0, 2, n), relevant).astype(float),
            "pattern": ["1" * f + "0" * (k - f) for f, k in zip(found, top_k, strict=True)],
            "grade": np.clip(np.round(1 + 4 * found / relevant + rng.normal(0, 1, n)), 1, 5),
        }
    )


@pytest.mark.parametrize("name", ["F", "Fe", "T", "Tu"])
def test_scores_on_a_grid_have_the_ties_of_exact_arithmetic(name):
    rows = cell()
    rows["Np"] = rows["Np"].where(rows.index % 2 == 0, rows["K"])
    counted = count_rows(rows, segmentation="narrow-wide", columns=[*MEASURES[name].columns, "id"])
    alphas = np.array([0.0, 0.25, 0.5, 0.75, 0.95, 1.0])
    values, table = exact_scores(counted, MEASURES[name], alphas)
    ours = curves_of(values, table)[:, :, 0]
    theirs = exact.at_alphas(counted, MEASURES[name], alphas)[1][:, :, 0]
    np.testing.assert_allclose(ours[:, [0, 1, 2, 3, 5]], theirs[:, [0, 1, 2, 3, 5]], atol=1e-12)


def test_where_k_is_n_p_f_is_p_to_the_last_digit():
    rows = cell(ratio=1)
    options = {"min_samples": 100, "measures": ["F", "P"], "replicates": 40}
    for alpha in ("crossfit", 0.95):
        found = bootstrap.intervals(rows, pairs=[("F", "P")], alpha=alpha, **options)
        pair = found[found["minus"] == "P"].iloc[0]
        assert (pair["correlation"], pair["low"], pair["high"]) == (0.0, 0.0, 0.0)
    cells = evidence.gather(
        rows, min_samples=100, measures=("F", "P"), replicates=20, kinds=evidence.KINDS
    )
    for kind in evidence.KINDS:
        assert not cells.at(kind).difference("F", "P").any()


def test_ids_with_one_query_are_one_unit():
    rows = cell()
    assert unit(rows) == "id"
    shared = rows.assign(query="one question")
    assert unit(shared) == "query"
    found = bootstrap.intervals(shared, segmentation="narrow-wide", min_samples=50, replicates=30)
    assert (found["queries"] == 1).all()
    assert found["low"].isna().all()


def test_alpha_of_the_other_datasets_is_chosen_in_every_replicate():
    frames = [cell(seed=seed).assign(dataset=name) for seed, name in enumerate("AMN")]
    rows = pd.concat(frames, ignore_index=True)
    rows["id"] = rows["dataset"] + rows["id"]
    options = {"segmentation": "narrow-wide", "min_samples": 50, "measures": ("T",)}
    free = evidence.gather(rows, replicates=60, **options)
    fixed = evidence.gather(rows, replicates=60, alpha=free.alphas["A", "T"], **options)
    mine = free.of(["A"])
    np.testing.assert_array_equal(free.values["T"][0, mine], fixed.values["T"][0, mine])
    assert (free.values["T"][1:, mine] != fixed.values["T"][1:, mine]).any()
    best = evidence.gather(rows, replicates=60, kinds=("best",), **options).at("best")
    assert (best.values["T"] >= free.values["T"] - 1e-12).all()


def test_optimism_and_what_half_the_queries_cost_are_told_apart():
    found = bootstrap.crossfit(
        cell(n=600, queries=30), segmentation="narrow-wide", min_samples=100, measures=["T"]
    ).iloc[0]
    whole = found["maximum"] - found["correlation"]
    assert found[["ties", "optimism", "half_cost"]].sum() == pytest.approx(whole)
    assert 0 < found["optimism"] < whole


def test_too_few_splits_in_a_replicate_do_not_widen_the_interval():
    rng = np.random.default_rng(4)
    cells, replicates = 40, 2000
    own = rng.normal(0, 0.05, (cells, replicates, 1))
    drawn = -0.1 + own + rng.normal(0, 0.2, (cells, replicates, 2))
    steadied = bootstrap._steadied(np.zeros(cells), drawn, splits=20)
    expected = np.sqrt(0.05**2 + 0.2**2 / 20)
    assert steadied.std(axis=1).mean() == pytest.approx(expected, rel=0.05)
    assert steadied.mean(axis=1) == pytest.approx(np.zeros(cells), abs=1e-12)


def test_p_values_are_those_of_the_normal_distance():
    rng = np.random.default_rng(2)
    both = Replicates(np.array(0.2), 0.2 + rng.normal(0, 0.1, 5000))
    assert float(both.p_below(0.0)) == pytest.approx(0.0228, abs=0.003)


def test_variance_components_count_degrees_of_freedom_and_interactions():
    rng = np.random.default_rng(3)
    noise = rng.normal(0, 0.1, (301, 5, 8, 4))

    def difference(true):
        seen = true + noise[0]
        values = np.concatenate([seen[np.newaxis], seen + noise[1:]])
        documents, embedding = attribution.between(values)
        return documents[0], embedding[0]

    nothing = difference(np.zeros((5, 8, 4)))
    assert nothing == pytest.approx((0, 0), abs=0.005)
    documents, embedding = difference(np.broadcast_to(rng.normal(0, 1, (1, 8, 4)), (5, 8, 4)))
    assert embedding > 0.5 > documents
    documents, embedding = difference(np.broadcast_to(rng.normal(0, 1, (5, 8, 1)), (5, 8, 4)))
    assert documents > 0.5
    assert embedding == pytest.approx(0, abs=0.005)


def test_spread_over_cells_is_without_noise_and_without_what_they_share():
    rng = np.random.default_rng(3)
    true = rng.normal(0, 0.1, 2000)
    seen = true + rng.normal(0, 0.2, 2000)
    shared = rng.normal(0, 0.3, (60, 1))
    replicates = seen + rng.normal(0, 0.2, (60, 2000)) + shared
    found = evidence.spread(np.vstack([seen, replicates]))
    assert found[0] == pytest.approx(0.1, abs=0.02)
    assert found[1:].mean() == pytest.approx(0.1, abs=0.02)
