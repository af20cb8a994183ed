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


def condition(data, replicates, inside=(0.0, np.inf), **more):
    sample = np.array([data, *replicates], dtype=float)
    return claims.Condition("x", sample, inside, 10, 1, **more)


def evidence_of(values, grade=None, segments=None, datasets=None):
    """Cells whose coefficients are given: dict of measure to (1 + replicates, cells)."""
    n = next(iter(values.values())).shape[1]
    frame = pd.DataFrame(
        {
            "dataset": datasets if datasets is not None else ["A"] * n,
            "embedding": [f"E{i % 2}" for i in range(n)],
            "segment": segments if segments is not None else ["1.0"] * n,
            "n": 400,
        }
    )
    grades = grade if grade is not None else np.full(next(iter(values.values())).shape, 3.0)
    return evidence.Cells(frame, values, grades, {})


class Given(claims.Ledger):
    """A ledger whose cells are given."""

    def __init__(self, cells, datasets=("A", "M", "N", "Hs", "Hp")):
        super().__init__(Made(rows(n=1, datasets=datasets)), RUN, 40, ("foreign",))
        self._cells = {"ratio": cells, "width": cells, "ratio_2k": cells}


def given(differences, noise=0.01, level=0.4, base="F", other="T"):
    """Cells by (dataset, ratio): other less base is what is given, in two embeddings."""
    rng = np.random.default_rng(3)
    keys = [(d, r) for (d, r) in differences for _ in range(2)]
    gap = np.array([differences[key] for key in keys])
    shape = (201, len(keys))
    first = level + np.vstack([np.zeros(len(keys)), rng.normal(0, noise, (200, len(keys)))])
    second = first + gap + np.vstack([np.zeros(len(keys)), rng.normal(0, noise, (200, len(keys)))])
    values = {"F": np.full(shape, level), "T": np.full(shape, level), "nDCG": np.full(shape, level)}
    values |= {"Tu": np.full(shape, level), "Fe": np.full(shape, level)}
    values |= {base: first, other: second}
    return evidence_of(values, segments=[str(r) for _, r in keys], datasets=[d for d, _ in keys])


def verdict(number, ledger):
    claim = next(claim for claim in claims.CLAIMS if claim.number == number)
    return claims.decide(claim.evaluate(ledger.at("foreign")))[0]


ALL = ("A", "M", "N", "Hs", "Hp")


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


@pytest.mark.parametrize(
    ("data", "told"), [(0.5, "x: 0.500 no interval, n"), (np.nan, "x: undefined, n")]
)
def test_what_is_not_known_is_said_in_words(data, told):
    said = str(claims.Condition("x", np.array([data, np.nan, np.nan]), (0.0, np.inf), 7, 2))
    assert told in said
    assert "nan" not in said


def test_what_is_only_shown_has_no_verdict():
    assert str(condition(1.5, [1, 2], inside=claims.ANY)).endswith("shown, not tested")


def test_simulated_verdicts_are_stamped():
    assert all(
        "says nothing about the world" in claim["note"]
        for claim in judged(rows(n=25), simulated=True).values()
    )
    assert not any(
        "says nothing about the world" in claim["note"] for claim in judged(rows(n=25)).values()
    )


def test_the_interval_is_centred_on_the_number():
    low, high = condition(3, np.linspace(1, 2, 101)).interval
    assert (low + high) / 2 == pytest.approx(3)


def test_a_premise_never_refutes_and_never_shows():
    unmet = condition(-1, [-1.1, -1, -0.9], premise=True)
    assert unmet.verdict == "cannot tell"
    met, holds = condition(1, [0.9, 1, 1.1], premise=True), condition(1, [0.9, 1, 1.1])
    fails = condition(-1, [-1.1, -1, -0.9])
    assert claims.decide([holds, unmet])[0] == "cannot tell"
    assert claims.decide([fails, met])[0] == "fails"
    assert claims.decide([fails, holds]) == ("mixed", fails)
    assert claims.decide([holds, met])[0] == "holds"


def test_what_is_missing_comes_first_and_is_named():
    gone = claims._missing("y", "no segment on M")
    assert claims.decide([condition(-1, [-1.1, -0.9]), gone]) == ("not evaluable", gone)
    assert claims.decide([]) == ("not evaluable", None)


def test_a_majority_is_one_condition():
    good = condition(1, [0.9, 1, 1.1], vote="v")
    bad = condition(-1, [-1.1, -1, -0.9], vote="v")
    unsure = condition(0, [-1, 0, 1], vote="v")
    assert claims.decide([good, good, bad])[0] == "holds"
    assert claims.decide([good, bad, bad])[0] == "fails"
    assert claims.decide([good, bad, unsure, unsure])[0] == "cannot tell"
    assert claims.p_value([good, good, bad]) < 0.01 < claims.p_value([good, bad, bad])


def test_the_smallest_difference_shown_and_the_p_value_follow_the_error():
    rng = np.random.default_rng(1)
    found = condition(0.3, 0.3 + rng.normal(0, 0.1, 4000))
    assert found.detectable == pytest.approx(0.28, abs=0.02)
    assert found.p_value == pytest.approx(0.00135, abs=0.001)
    within = condition(0.0, rng.normal(0, 0.1, 4000), inside=(-0.2, 0.2))
    assert within.p_value == pytest.approx(0.0228, abs=0.006)


def test_holm_counts_the_claims_that_were_tested():
    judged_ = [{"p_value": 0.01}, {"p_value": None}, {"p_value": 0.2}, {"p_value": 0.02}]
    for claim in judged_:
        claim["p_holm"] = None
    claims._correct(judged_)
    assert [claim["p_holm"] for claim in judged_] == [0.03, None, 0.2, 0.04]


def test_every_limit_of_ours_has_alternatives_on_both_sides():
    limits = claims.Cuts().__dict__
    assert set(limits) == set(claims.ALTERNATIVES)
    for name, (less, more) in claims.ALTERNATIVES.items():
        assert less < limits[name] < more


def test_twenty_one_claims_on_figures_that_exist():
    assert [claim.number for claim in claims.CLAIMS] == list(range(1, 22))
    for claim in claims.CLAIMS:
        assert set(claim.figures) <= set(catalogue.FIGURES)
        assert all(catalogue.find(anchor).anchor == anchor for anchor in claim.extras)
        assert claim.statement
        assert claim.test
        assert claim.refuted_by


# --- worlds, by the kind of fault that they are made for ------------------------------------------


def grid(values):
    """Cells on a grid (1 + replicates, datasets, ratios, embeddings) as `Cells`, all measures."""
    count = values.shape[0]
    names = [
        (d, r, e)
        for d in ALL[: values.shape[1]]
        for r in range(values.shape[2])
        for e in range(values.shape[3])
    ]
    flat = values.reshape(count, -1)
    frame = pd.DataFrame(
        [(d, f"E{e}", f"{1 + r}.0", 400) for d, r, e in names],
        columns=["dataset", "embedding", "segment", "n"],
    )
    zero = np.zeros_like(flat)
    return evidence.Cells(frame, {"T": flat, "F": zero, "nDCG": zero}, flat, {})


def noisy(true, rng, noise=0.1, replicates=100):
    seen = true + rng.normal(0, noise, true.shape)
    return np.stack([seen, *(seen + rng.normal(0, noise, (replicates, *true.shape)))])


def test_claim_16_does_not_hold_on_noise_nor_where_embeddings_decide():
    rng = np.random.default_rng(5)
    on_noise = [verdict(16, Given(grid(noisy(np.zeros((5, 6, 4)), rng)))) for _ in range(60)]
    assert on_noise.count("holds") <= 3
    by_ratio_and_embedding = np.broadcast_to(rng.normal(0, 0.5, (1, 6, 4)), (5, 6, 4))
    assert verdict(16, Given(grid(noisy(by_ratio_and_embedding, rng)))) in ("fails", "mixed")
    by_document = np.broadcast_to(rng.normal(0, 0.5, (5, 6, 1)), (5, 6, 4))
    assert verdict(16, Given(grid(noisy(by_document, rng)))) == "holds"


def test_order_that_decides_at_high_ratios_refutes_13_beside_14():
    gaps = {(d, r): 0.1 if float(r) < 2 else -0.3 for d in ALL for r in ("0.5", "1.0", "3.0")}
    ledger = Given(given(gaps, base="nDCG", other="T"))
    assert verdict(13, ledger) == "mixed"
    ledger._cells["ratio"].values["F"] = ledger._cells["ratio"].values["T"]
    assert verdict(14, ledger) == "holds"


def gaps_of(**by_dataset):
    return {(d, r): gap for d, gap in by_dataset.items() for r in ("0.5", "0.9", "3.0")}


def test_two_datasets_that_fail_alone_are_not_pooled_away():
    much = gaps_of(A=-0.3, M=-0.3, N=0.2, Hs=0.2, Hp=0.2)
    for number in (4, 15):
        cells = given(much)
        if number == 4:
            width = ["narrow" if s == "0.5" else "wide" for s in cells.frame["segment"]]
            cells = evidence.Cells(
                cells.frame.assign(segment=width), *list(vars(cells).values())[1:]
            )
        assert verdict(number, Given(cells)) in ("mixed", "fails")


def test_equal_within_a_margin_needs_something_to_be_equal_about():
    nothing = gaps_of(A=0.0, M=0.0, N=0.0, Hs=0.0, Hp=0.0)
    assert verdict(7, Given(given(nothing, noise=0.004))) == "holds"
    assert verdict(7, Given(given(nothing, noise=0.004, level=0.0))) == "cannot tell"


def test_datasets_are_counted_not_cells():
    three = gaps_of(A=0.1, M=-0.1, N=-0.1, Hs=0.1, Hp=-0.1) | {("A", "5.0"): 0.1}
    assert verdict(10, Given(given(three, base="F", other="nDCG"))) == "holds"
    two = gaps_of(A=0.1, M=0.1, N=-0.1, Hs=0.1, Hp=-0.1)
    assert verdict(10, Given(given(two, base="F", other="nDCG"))) in ("fails", "mixed")


def test_one_dataset_leaves_claims_about_others_not_evaluable():
    found = judged(rows(n=30, datasets=("A",)))
    for number in (4, 5, 8, 13):
        claim = found[f"claim-{number:02d}"]
        assert claim["verdict"] == "not evaluable"
        assert claim["missing"]
    assert any("M" in what for what in found["claim-13"]["missing"])
    foreign = judged(rows(n=30, datasets=("X",)))
    for number in (1, 2, 3, 5, 6, 7, 20):
        claim = foreign[f"claim-{number:02d}"]
        assert claim["verdict"] == "not evaluable"
        assert (claim["effect"], claim["n"], claim["cells"]) == (None, 0, 0)
        assert claim["note"]


@pytest.mark.parametrize("frame", [rows(grades=np.nan), rows(grades=3.0), rows(n=1).head(2)])
def test_degenerate_data_are_not_evaluable(frame):
    found = judged(frame)
    assert {claim["verdict"] for claim in found.values()} <= {"not evaluable", "mixed"}
    assert found["claim-09"]["verdict"] == "mixed"  # algebra, whatever the data
    json.dumps(list(found.values()), allow_nan=False)


def test_equivalence_of_t_u_is_true_at_one_k_and_false_across():
    assert not claims._can_lead("T", (1, 2), (2, 4))
    assert claims._can_lead("Tu", (1, 2), (2, 4))
    claim = judged(rows(n=15))["claim-09"]
    assert claim["verdict"] == "mixed"
    assert [each["verdict"] for each in claim["details"][:2]] == ["holds", "fails"]


def curve_world(by_ratio, n=300, dataset="A", seed=2):
    """Rows whose mean grade depends on the ratio alone; two N_p meet in every ratio."""
    rng = np.random.default_rng(seed)
    made = []
    for relevant in (10, 20):
        for ratio, mean in by_ratio.items():
            size = round(ratio * relevant)
            pattern = "1" + "0" * (size - 1)
            for i in range(n):
                grade = float(np.clip(round(mean + rng.normal(0, 0.8)), 1, 5))
                made.append(
                    (f"{dataset}-{i}", "ME5S", dataset, dataset, 100, relevant, size, 1, 1.0)
                )
                made[-1] += (pattern, grade)
    columns = ["id", "E", "dataset", "subset", "Nc", "Np", "K", "n_positives", "n_positives_2k"]
    frame = pd.DataFrame(made, columns=[*columns, "pattern", "grade"])
    return frame.astype(dict.fromkeys(("id", "E", "dataset", "subset", "pattern"), "category"))


def test_a_saturating_grade_does_not_fall():
    rises = {0.2: 2.0, 0.5: 2.6, 1.0: 3.2, 2.0: 3.2, 3.0: 3.2, 4.0: 3.2}
    peaks = {0.2: 2.0, 0.5: 2.6, 1.0: 3.4, 2.0: 2.8, 3.0: 2.4, 4.0: 2.2}
    later = {0.2: 2.0, 0.5: 2.4, 1.0: 2.8, 2.0: 3.4, 3.0: 2.8, 4.0: 2.4}

    def world(arxiv, msmarco, seed):
        frames = [curve_world(arxiv, seed=seed), curve_world(msmarco, dataset="M", seed=seed + 50)]
        both = pd.concat(frames, ignore_index=True)
        text = dict.fromkeys(("id", "E", "dataset", "subset", "pattern"), "category")
        return claims.Ledger(Made(both.astype(text)), RUN, 60, ("foreign",))

    saturating = [world(rises, rises, seed) for seed in range(6)]
    assert all(verdict(number, each) != "holds" for each in saturating for number in (1, 2))
    peaked = world(peaks, later, 1)
    assert verdict(1, peaked) == "holds"
    assert verdict(2, peaked) == "holds"
    ratios, whole, halves, n, cells = peaked.grade_curve("A")
    assert ratios.tolist() == sorted(peaks)
    assert halves.shape == (evidence.SPLITS, 2, 61, 6)
    assert (n, cells) == (3600, 6)
    first = peaked.rows[(peaked.rows["dataset"] == "A") & (peaked.rows["K"] == peaked.rows["Np"])]
    assert whole[0, 2] == pytest.approx(first["grade"].mean())


def test_verdicts_at_three_alphas_and_with_each_limit_moved():
    claim = judged(rows(datasets=("A", "M", "N", "Hs", "Hp"), n=30))["claim-17"]
    assert list(claim["verdicts"]) == list(evidence.KINDS)
    assert claim["verdict"] == claim["verdicts"]["foreign"]
    assert set(claim["sensitivity"]) == {"moderate_from", "moderate_to"}
    assert claim["verdict"] == "fails"  # correlations made far above moderate


def test_the_best_alpha_puts_t_ahead_of_f_by_construction():
    cells = given(gaps_of(A=0.1, M=0.0, N=0.0, Hs=0.1, Hp=0.0))
    ledger = Given(cells)
    ledger.kinds = ("foreign", "best")
    ledger._cells["ratio"] = evidence.Cells(*list(vars(cells).values())[:4], {"best": cells.values})
    claim = next(each for each in claims.CLAIMS if each.number == 5)
    assert claims._verdict_at(claim, ledger, "best") == "by construction"
    assert claims._verdict_at(claim, ledger, "foreign") == "holds"
