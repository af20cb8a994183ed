"""Exact ties: hand-worked cases and brute force in rational arithmetic."""

from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pandas as pd
import pytest

from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.measures import MEASURES
from retrieval_quality.statistics import exact
from retrieval_quality.statistics.correlation import ALPHAS, COEFFICIENTS, correlate
from retrieval_quality.statistics.counts import count_rows

RANKED = ["spearman", "kendall_b", "kendall_c"]


def make_rows(seed, n=60, top=7):
    rng = np.random.default_rng(seed)
    top_k, relevant = rng.integers(1, top, n), rng.integers(1, top, n)
    found = np.minimum(rng.integers(0, top, n), np.minimum(top_k, relevant))
    grade = np.clip(np.round(found - 0.4 * top_k + rng.normal(3, 1.5, n)), 1, 5)
    return pd.DataFrame(
        {
            "dataset": "A",
            "E": "ME5S",
            "K": top_k,
            "Np": relevant,
            "n_positives": found,
            "n_positives_2k": np.minimum(found + rng.integers(0, 3, n), relevant).astype(float),
            "grade": grade,
        }
    )


def score(measure, row, alpha):
    """The measure in rational arithmetic."""
    found, top_k = int(row.n_positives), int(row.K)
    if measure in ("F", "Fe"):
        relevant = int(row.Np if measure == "F" else row.n_positives_2k)
        return Fraction(found) / (alpha * top_k + (1 - alpha) * relevant) if found else Fraction(0)
    negatives = Fraction(top_k - found, top_k if measure == "T" else 1)
    return (1 - alpha) * found - alpha * negatives


def crossings(measure, keys):
    """Where two keys score alike, found without the module's lines: by two evaluations."""
    found = {Fraction(0), Fraction(1)}
    for one, other in combinations(keys.itertuples(), 2):
        if measure in ("F", "Fe"):  # compare 1/F, which is linear in alpha
            if not one.n_positives or not other.n_positives:
                continue
            apart = [
                1 / score(measure, one, at) - 1 / score(measure, other, at)
                for at in (Fraction(0), Fraction(1))
            ]
        else:
            apart = [
                score(measure, one, at) - score(measure, other, at)
                for at in (Fraction(0), Fraction(1))
            ]
        if apart[0] != apart[1] and 0 <= (root := apart[0] / (apart[0] - apart[1])) <= 1:
            found.add(root)
    return sorted(found)


def rank_oracle(scores, grades):
    """Spearman, tau-b, tau-c from the signs of all pairs of rows; scores are fractions."""
    position = {value: place for place, value in enumerate(sorted(set(scores)))}
    x = np.array([position[value] for value in scores])
    sign_x, sign_y = np.sign(x[:, None] - x), np.sign(grades[:, None] - grades)
    rank_x, rank_y = sign_x.sum(axis=1), sign_y.sum(axis=1)
    if not sign_x.any() or not sign_y.any():
        return [np.nan] * 3
    net = (sign_x * sign_y).sum()
    fewest = min(len(position), len(np.unique(grades)))
    return [
        rank_x @ rank_y / np.sqrt(rank_x @ rank_x) / np.sqrt(rank_y @ rank_y),
        net / np.sqrt(np.abs(sign_x).sum()) / np.sqrt(np.abs(sign_y).sum()),
        net / (len(x) ** 2 * (fewest - 1) / fewest),
    ]


@pytest.mark.parametrize("measure", ["F", "Fe", "T", "Tu"])
@pytest.mark.parametrize("seed", range(3))
def test_equals_brute_force_in_rational_arithmetic(measure, seed):
    rows = make_rows(seed, n=24, top=5)
    counts = count_rows(rows, segmentation="narrow-wide", columns=MEASURES[measure].columns)
    _, table, curves = exact.curves(counts, MEASURES[measure])
    for cell, segment in enumerate(counts.cells["segment"]):
        wide = rows["K"] >= rows["Np"]
        own = rows[wide if segment == "wide" else ~wide]
        grades = own["grade"].to_numpy()
        assert table.sizes[cell] == len(own)
        at = crossings(measure, own.drop_duplicates(["n_positives", "K", "Np", "n_positives_2k"]))
        between = [(low + high) / 2 for low, high in pairwise(at)]
        alphas = sorted([*at, *between])
        expected = np.array(
            [
                rank_oracle([score(measure, row, alpha) for row in own.itertuples()], grades)
                for alpha in alphas
            ]
        )
        assert np.allclose(curves[cell].at(alphas), expected, atol=1e-12, equal_nan=True)
        for place in range(3):
            alpha, best = curves[cell].maximum(place)
            assert best == pytest.approx(np.nanmax(expected[:, place]), abs=1e-12)
            attained = np.flatnonzero(expected[:, place] > best - 1e-12)[0]
            assert alpha == alphas[attained]


@pytest.mark.parametrize("measure", ["F", "Fe", "T", "Tu"])
@pytest.mark.parametrize("seed", range(5))
def test_is_never_below_the_published_grid_with_exact_ties(measure, seed):
    rows = make_rows(seed, n=200, top=12)
    options = {
        "segmentation": "narrow-wide",
        "min_samples": 5,
        "measures": [measure],
        "coefficients": COEFFICIENTS,
    }
    best = correlate(rows, alpha="exact", **options)
    grid = correlate(rows, alpha="published", ties="exact", **options)
    assert (best["n"] == grid["n"]).all()
    assert (best["correlation"].isna() == grid["correlation"].isna()).all()
    gain = best["correlation"] - grid["correlation"]
    assert gain.min() >= -1e-12
    assert gain.max() > 1e-6


def test_two_keys_cross_where_the_hand_says():
    # T of 1 in 1: 1 - a; of 2 in 4: 2 (1 - a) - a / 2. Equal at 1 - a = a / 2, a = 2/3.
    rows = pd.DataFrame(
        {
            "dataset": "A",
            "E": "E",
            "K": [1, 4],
            "Np": [1, 4],
            "n_positives": [1, 2],
            "grade": [2, 1],
        }
    )
    counts = count_rows(rows, columns=["n_positives", "K"])
    (curve,) = exact.curves(counts, MEASURES["T"])[2]
    assert [curve.fraction(i) for i in range(len(curve.crossings))] == [Fraction(2, 3)]
    alphas = [0, Fraction(2, 3) - Fraction(1, 10**30), Fraction(2, 3), 2 / 3, 1]
    signs = curve.at(alphas)[:, 0]
    # the float 2/3 is a little below the fraction
    assert np.allclose(signs, [-1, -1, np.nan, -1, 1], equal_nan=True)
    assert curve.maximum(0) == (Fraction(5, 6), pytest.approx(1))


def test_equal_values_tie_where_floats_split_them():
    # n_p / (a K + (1 - a) N_p) in one exact ratio: 1 of 2 and 3 of 6 are equal at every alpha
    rows = pd.DataFrame(
        {
            "dataset": "A",
            "E": "E",
            "K": [2, 6, 2, 6],
            "Np": [3, 9, 3, 9],
            "n_positives": [1, 3, 2, 1],
            "grade": [1, 2, 3, 1],
        }
    )
    options = {"min_samples": 1, "measures": ["F", "P"]}
    published = correlate(rows, **options)["correlation"]
    ties = correlate(rows, alpha="exact", **options)["correlation"]
    assert ties[0] == pytest.approx(ties[1], abs=1e-15)
    assert published[0] > ties[0] + 0.01


def test_no_positives_stand_below_all_others_at_every_alpha():
    rows = make_rows(0, n=30).assign(K=4, Np=4)
    rows["n_positives"] = np.minimum(rows["n_positives"], 3)
    rows["n_positives_2k"] = np.where(rows["n_positives"] == 0, 0.0, 4.0)
    found = correlate(rows, min_samples=1, measures=["Fe", "F", "P"], alpha="exact")
    assert np.allclose(found["correlation"], found["correlation"][2])


def pearson_on(rows, measure, alphas):
    columns = {name: rows[name].to_numpy() for name in MEASURES[measure].columns}
    scores = MEASURES[measure].evaluate(columns, np.asarray(alphas)[:, None])
    scores = scores - scores.mean(axis=1, keepdims=True)
    grades = rows["grade"].to_numpy() - rows["grade"].mean()
    return scores @ grades / np.sqrt((scores**2).sum(axis=1) * (grades @ grades))


@pytest.mark.parametrize("measure", ["F", "Fe", "T", "Tu"])
def test_the_maximum_of_pearson(measure):
    rows = make_rows(4, n=80)
    wide = rows[rows["K"] >= rows["Np"]]
    found = correlate(
        wide,
        segmentation="narrow-wide",
        min_samples=1,
        measures=[measure],
        coefficients=["pearson"],
        alpha="exact",
    )
    alpha, best = found["alpha"].item(), found["correlation"].item()
    fine = np.linspace(max(alpha - 1e-3, 0), min(alpha + 1e-3, 1), 2001)
    everywhere = pearson_on(wide, measure, np.concatenate([np.linspace(0, 1, 2001), fine]))
    assert best == pytest.approx(everywhere.max(), abs=1e-9)
    assert best == pytest.approx(pearson_on(wide, measure, [alpha])[0], abs=1e-9)


def test_given_alphas_with_exact_ties():
    rows = make_rows(1)
    options = {"min_samples": 5, "coefficients": COEFFICIENTS, "ties": "exact"}
    for alpha, plain in ((1, "P"), (0, "R")):
        found = correlate(rows, measures=["F"], alpha=alpha, **options)
        expected = correlate(rows, measures=[plain], **options)
        assert np.allclose(found["correlation"], expected["correlation"], equal_nan=True)
        assert (found["alpha"].dropna() == alpha).all()
    counts = count_rows(rows, columns=MEASURES["T"].columns)
    _, by_float = exact.at_alphas(counts, MEASURES["T"], [0.5, *ALPHAS[:3].tolist()])
    _, by_fraction = exact.at_alphas(counts, MEASURES["T"], [Fraction(1, 2)])
    assert np.array_equal(by_float[:, :1], by_fraction, equal_nan=True)


def test_measures_without_alpha_are_as_they_were():
    rows = make_rows(2)
    options = {"min_samples": 5, "measures": ["P", "R"], "coefficients": COEFFICIENTS}
    found = correlate(rows, alpha="exact", **options)
    published = correlate(rows, **options)
    assert np.allclose(found["correlation"], published["correlation"], atol=1e-8, equal_nan=True)
    assert found["alpha"].isna().all()


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (make_rows(0).assign(grade=3), "the grade is constant"),
        (make_rows(0).assign(K=3, Np=3, n_positives=2), "the measure is constant"),
        (make_rows(0, n=1), "one row"),
        (make_rows(0).assign(grade=np.nan), "no graded row"),
    ],
)
def test_undefined_is_nan_with_a_reason(rows, reason):
    found = correlate(
        rows,
        segmentation="narrow-wide",
        measures=["F", "T"],
        coefficients=COEFFICIENTS,
        alpha="exact",
        min_samples=0,
    )
    assert set(found["reason"]) == {reason}
    assert found[["alpha", "correlation"]].isna().all(axis=None)


def test_long_retrievals_are_refused_where_the_proof_ends():
    columns = {"n_positives": np.array([100, 250]), "K": np.array([300, 300])}
    exact.exact_lines(MEASURES["T"], columns)
    with pytest.raises(DataError, match="K or N_p is too large"):
        exact.exact_lines(MEASURES["T"], {**columns, "K": np.array([300, 2999])})
    with pytest.raises(UsageError, match="nDCG"):
        exact.exact_lines(MEASURES["nDCG"], {"pattern": pd.Categorical(["01"])})


def test_undefined_keys_have_no_line():
    columns = {
        "n_positives": np.array([1, 1]),
        "K": np.array([2, 2]),
        "n_positives_2k": np.array([np.nan, 2]),
    }
    line, lines = exact.exact_lines(MEASURES["Fe"], columns)
    assert line.tolist() == [-1, 0]
    assert len(lines.level) == 1
