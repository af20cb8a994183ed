"""Claims and the evidence that they are judged by."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from retrieval_quality.exhibits import catalogue, claims
from retrieval_quality.parameters import Parameters
from retrieval_quality.statistics import bootstrap, evidence
from retrieval_quality.statistics.correlation import correlate


def rows(n=60, seed=1, datasets=("A", "M"), grades=None):
    """Scored rows in which more positives mean a better grade."""
    rng = np.random.default_rng(seed)
    made = []
    for dataset in datasets:
        for i in range(n):
            for embedding in ("AML12v2", "ME5S"):
                for top_k in (2, 4, 8):
                    found = int(rng.integers(0, min(top_k, 4) + 1))
                    pattern = "1" * found + "0" * (top_k - found)
                    grade = float(np.clip(1 + found + rng.integers(-1, 2), 1, 5))
                    made.append(
                        {
                            "id": f"{dataset}-{i}",
                            "E": embedding,
                            "dataset": dataset,
                            "subset": dataset,
                            "Nc": 20,
                            "Np": 4,
                            "K": top_k,
                            "n_positives": found,
                            "n_positives_2k": np.nan,
                            "pattern": pattern,
                            "grade": grade if grades is None else grades,
                        }
                    )
    frame = pd.DataFrame(made)
    return frame.astype(dict.fromkeys(("id", "E", "dataset", "subset", "pattern"), "category"))


class Made:
    """A dataset that is made here, for what claims ask of one."""

    name, digest, commit, parts = "made", "0", None, ("graded",)

    def __init__(self, frame, simulated=False):
        self.frame, self.simulated = frame, simulated

    def scored(self, embeddings=(), datasets=()):
        return self.frame


RUN = Parameters(min_samples_ratio=20, min_samples_width=20)


def judged(frame, **more):
    found = claims.evaluate(Made(frame, **more), RUN, replicates=40)
    return {claim["id"]: claim for claim in found}


def test_the_data_themselves_come_first_and_are_the_correlations():
    frame = rows()
    cells = evidence.gather(frame, min_samples=20, measures=("P", "T"), replicates=5)
    expected = correlate(frame, min_samples=20, measures=["P"])["correlation"]
    assert cells.values["P"][0] == pytest.approx(expected, abs=1e-8)
    for (dataset, measure), alpha in cells.alphas.items():
        here = correlate(frame, min_samples=20, measures=[measure], alpha=alpha)
        mine = (cells.frame["dataset"] == dataset).to_numpy()
        theirs = here.loc[here["dataset"] == dataset, "correlation"]
        assert cells.values[measure][0, mine] == pytest.approx(theirs, abs=1e-8)


def test_a_replicate_is_the_same_as_drawing_rows():
    frame = rows(n=15, datasets=("A",))
    cells = evidence.gather(frame, min_samples=5, measures=("P",), replicates=3, seed=9)
    names = sorted(frame["id"].astype(str).unique())
    drawn = bootstrap.query_weights(names, 3, seed=9).T
    for replicate, counts in enumerate(drawn, start=1):
        again = frame.loc[
            frame.index.repeat(frame["id"].map(dict(zip(names, counts, strict=True))))
        ]
        expected = correlate(again.reset_index(drop=True), min_samples=1, measures=["P"])
        assert cells.values["P"][replicate] == pytest.approx(expected["correlation"], abs=1e-8)
        mean = again.groupby(["E", "K"], observed=True)["grade"].mean()
        assert cells.grade[replicate] == pytest.approx(mean)


def test_the_same_seed_gives_the_same():
    one, two = (evidence.gather(rows(), min_samples=20, replicates=10, seed=3) for _ in range(2))
    for measure, values in one.values.items():
        np.testing.assert_array_equal(values, two.values[measure])


def test_alpha_comes_from_the_other_datasets():
    def alphas(frame):
        return evidence.gather(
            frame, segmentation="narrow-wide", min_samples=20, measures=("T",), replicates=1
        ).alphas

    frame = rows()
    changed = frame.copy()
    precise = changed["dataset"] == "A"
    changed.loc[precise, "grade"] = 5 * changed["n_positives"] / changed["K"]
    one, two = alphas(frame), alphas(changed)
    assert one["A", "T"] == two["A", "T"]
    assert one["M", "T"] < two["M", "T"]
    assert alphas(frame[frame["dataset"] == "A"]) == {("A", "T"): evidence.FALLBACK_ALPHA}


def condition(data, replicates, inside=(0.0, np.inf), void=""):
    return claims.Condition("x", np.array([data, *replicates], dtype=float), inside, 10, 1, void)


@pytest.mark.parametrize(
    ("data", "replicates", "verdict"),
    [
        (1, [0.5, 1, 1.5], "holds"),
        (-1, [-0.5, -1, -1.5], "fails"),
        (0, [0, 0, 0], "fails"),
        (0.1, [-1, 0, 1], "cannot tell"),
        (np.nan, [1, 1, 1], "not evaluable"),
        (1, [np.nan, np.nan, 1], "cannot tell"),
    ],
)
def test_a_condition_is_judged_by_its_interval(data, replicates, verdict):
    assert condition(data, replicates).verdict == verdict


def test_two_measures_that_coincide_refute_nothing():
    assert condition(0, [0, 0], void="alike").verdict == "cannot tell"
    assert condition(0, [0, 0], inside=(-0.1, 0.1), void="alike").verdict == "holds"
    frame = rows(n=20, datasets=("A", "M"))
    ledger = claims.Ledger(Made(frame), RUN, replicates=20)
    same, other = (ledger.difference("T", name, ["A"], (0.0, np.inf))[0] for name in ("T", "nDCG"))
    assert "T and T order these rows alike" in str(same)
    assert "alike" not in str(other)


def test_a_number_outside_its_interval_is_explained():
    assert "outside its interval" in str(condition(3, [1, 2, 2]))
    assert "outside its interval" not in str(condition(1.5, [1, 2, 2]))


@pytest.mark.parametrize(
    ("data", "told"), [(0.5, "x: 0.500 no interval, n"), (np.nan, "x: undefined, n")]
)
def test_what_is_not_known_is_said_in_words(data, told):
    said = str(claims.Condition("x", np.array([data, np.nan, np.nan]), (0.0, np.inf), 7, 2))
    assert told in said
    assert "nan" not in said


def test_what_is_only_shown_has_no_verdict():
    assert str(condition(1.5, [1, 2], inside=claims.ANY)).endswith("shown, not tested")


def test_narrow_and_wide_segments_are_tested_apart():
    found = judged(rows())["claim-04"]["conditions"]
    assert ["narrow" in told for told in found] == [True, False]
    assert ["wide" in told for told in found] == [False, True]


def test_the_spread_over_cells_is_without_the_noise_of_each():
    rng = np.random.default_rng(3)
    true = rng.normal(0, 0.1, 4000)
    seen = true + rng.normal(0, 0.2, 4000)
    replicates = seen + rng.normal(0, 0.2, (60, 4000))
    spread = claims._spread(np.vstack([seen, replicates]))
    assert spread[0] == pytest.approx(0.1, abs=0.015)
    assert spread[1:].mean() == pytest.approx(0.1, abs=0.015)


def test_peaks_are_sought_where_questions_of_several_n_p_meet():
    frame = rows(n=40, datasets=("A",))
    frame.loc[frame["K"] == 8, "Np"] = 5  # K/N_p 1.6, and 0.5 and 1.0 of N_p 4
    more = frame[frame["K"] == 2].assign(Np=2, K=1, pattern="1", n_positives=1)  # 0.5 as well
    mixed = pd.concat([frame, more], ignore_index=True)
    ledger = claims.Ledger(Made(mixed), RUN, replicates=5)
    assert ledger.mean_grade("A")[0].tolist() == [0.5]
    one = claims.Ledger(Made(rows(n=40, datasets=("A",))), RUN, replicates=5)
    assert one.mean_grade("A")[0].tolist() == [0.5, 1.0, 2.0]


def test_trends_of_coefficients_are_those_of_differences():
    conditions = claims._same_trends(claims.Ledger(Made(rows(n=40)), RUN, replicates=20))
    assert len(conditions) == 3
    assert all("T − nDCG" in condition.name for condition in conditions)
    assert {(condition.n, condition.cells) for condition in conditions} == {(480, 8)}
    assert all(-1 <= condition.effect <= 1 for condition in conditions)


def test_one_failing_condition_decides():
    good, bad = condition(1, [1, 1]), condition(-1, [-1, -1])
    assert claims.decide([good, bad]) == ("fails", bad)
    assert claims.decide([good, condition(0.1, [-1, 1])])[0] == "cannot tell"
    assert claims.decide([good]) == ("holds", good)
    assert claims.decide([]) == ("not evaluable", None)


def test_twenty_claims_on_figures_that_exist():
    assert [claim.number for claim in claims.CLAIMS] == list(range(1, 21))
    for claim in claims.CLAIMS:
        assert set(claim.figures) <= set(catalogue.FIGURES)
        assert all(catalogue.find(anchor).anchor == anchor for anchor in claim.extras)
        assert claim.statement
        assert claim.test
        assert claim.refuted_by


def test_a_true_claim_holds_and_a_false_one_fails():
    found = judged(rows())
    assert found["claim-17"]["verdict"] == "fails"  # correlations made far above moderate
    assert found["claim-04"]["verdict"] == "holds"
    assert found["claim-04"]["low"] <= found["claim-04"]["effect"] <= found["claim-04"]["high"]
    assert found["claim-09"]["verdict"] == "by construction"


def test_what_the_data_do_not_hold_is_not_evaluable():
    found = judged(rows(datasets=("X",)))
    for number in (1, 2, 3, 5, 6, 7, 20):
        claim = found[f"claim-{number:02d}"]
        assert claim["verdict"] == "not evaluable"
        assert (claim["effect"], claim["n"], claim["cells"]) == (None, 0, 0)
        assert claim["note"]


@pytest.mark.parametrize("frame", [rows(grades=np.nan), rows(grades=3.0), rows(n=1).head(2)])
def test_degenerate_data_are_not_evaluable(frame):
    found = judged(frame)
    verdicts = {claim["verdict"] for claim in found.values()}
    assert verdicts <= {"not evaluable", "cannot tell", "by construction", "fails"}
    assert found["claim-04"]["verdict"] == "not evaluable"
    json.dumps(list(found.values()), allow_nan=False)


def test_simulated_verdicts_are_stamped():
    assert all(
        "says nothing about the world" in claim["note"]
        for claim in judged(rows(n=25), simulated=True).values()
    )
    assert not any(
        "says nothing about the world" in claim["note"] for claim in judged(rows(n=25)).values()
    )
