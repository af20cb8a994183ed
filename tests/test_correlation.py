"""Correlations: the published reference, scipy, a plain NumPy oracle, and values from the field."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import stored_data
from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.measures import MEASURES
from retrieval_quality.statistics import counts
from retrieval_quality.statistics.correlation import (
    ALPHAS,
    COEFFICIENTS,
    COLUMNS,
    correlate,
    curves_of,
)
from retrieval_quality.statistics.counts import count_rows, evaluate

SCIPY = {
    "spearman": lambda x, y: stats.spearmanr(x, y).statistic,
    "pearson": lambda x, y: stats.pearsonr(x, y).statistic,
    "kendall_b": lambda x, y: stats.kendalltau(x, y, variant="b").statistic,
    "kendall_c": lambda x, y: stats.kendalltau(x, y, variant="c").statistic,
}


def oracle(x, y):
    """All four coefficients from signs of all pairs of rows, in the order of COEFFICIENTS."""
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    sign_x, sign_y = np.sign(x[:, None] - x), np.sign(y[:, None] - y)
    if not sign_x.any() or not sign_y.any():
        return [np.nan] * 4
    rank_x, rank_y = sign_x.sum(axis=1), sign_y.sum(axis=1)
    spearman = rank_x @ rank_y / np.sqrt(rank_x @ rank_x) / np.sqrt(rank_y @ rank_y)
    pearson = np.corrcoef(x, y)[0, 1]
    net = (sign_x * sign_y).sum()
    tau_b = net / np.sqrt(np.abs(sign_x).sum()) / np.sqrt(np.abs(sign_y).sum())
    fewest = min(len(np.unique(x)), len(np.unique(y)))
    return [spearman, pearson, tau_b, net / (len(x) ** 2 * (fewest - 1) / fewest)]


def make_rows(seed=0, n=400, embeddings=("ME5S",), datasets=("A", "Hp-e", "Hp-h"), grades=5):
    """Rows as `Dataset.scored` gives them, K and N_p small so that many rows tie."""
    rng = np.random.default_rng(seed)
    relevant = rng.integers(2, 7, n)
    top_k = rng.integers(1, 9, n)
    bits = [rng.random(k) < 0.5 for k in top_k]
    for row, most in zip(bits, relevant, strict=True):
        row[np.flatnonzero(row)[most:]] = False
    found = np.array([row.sum() for row in bits])
    more = np.minimum(found + rng.integers(0, 3, n), relevant).astype(float)
    more[rng.random(n) < 0.4] = np.nan
    quality = found - 0.3 * (top_k - found) + rng.normal(0, 2, n)
    subset = rng.choice(datasets, n)
    return pd.DataFrame(
        {
            "id": [f"{name}-{i % 60}" for i, name in enumerate(subset)],
            "E": rng.choice(embeddings, n),
            "dataset": [name.split("-")[0] for name in subset],
            "subset": subset,
            "Np": relevant.astype(np.int32),
            "K": top_k.astype(np.int32),
            "n_positives": found.astype(np.int32),
            "n_positives_2k": more,
            "pattern": pd.Categorical(["".join("01"[int(bit)] for bit in row) for row in bits]),
            "grade": np.clip(np.round(quality), 1, grades).astype(float),
        }
    )


def one_cell(values, grades):
    """Rows of one cell in which the measure ``hit`` or P has given values: n_p of K = 10."""
    values = np.asarray(values)
    return pd.DataFrame(
        {"dataset": "A", "E": "ME5S", "K": 10, "Np": 10, "n_positives": values, "grade": grades}
    )


def cell_values(values, grades, **options):
    found = correlate(
        one_cell(values, grades),
        measures=["P"],
        coefficients=COEFFICIENTS,
        min_samples=0,
        **options,
    )
    return found.set_index("coefficient")["correlation"]


# --- the published method -----------------------------------------------------------------------


def reference_rows():
    rows = pd.DataFrame(stored_data.read_json("reference/samples_graded.json"))
    rows["n_positives"] = rows["inK"].map(sum)
    rows["pattern"] = rows["inK"].map(lambda bits: "".join(map(str, bits)))
    rows["dataset"] = rows["id"].str.split("-").str[0]
    key = ["id", "E", "Nc", "Np", "K"]
    two_k = rows[key].assign(K=2 * rows["K"])
    found = rows.set_index(key)["n_positives"].reindex(pd.MultiIndex.from_frame(two_k))
    rows["n_positives_2k"] = found.to_numpy(float)
    return rows


@pytest.mark.parametrize(
    ("setting", "segmentation", "measures"),
    [
        ("ratio", "ratio", ("F", "nDCG", "T")),
        ("ratio_2K", "ratio", ("F", "Fe", "nDCG", "T")),
        ("narrow_wide", "narrow-wide", ("F", "nDCG", "T")),
    ],
)
def test_every_published_cell_is_met(setting, segmentation, measures):
    expected = stored_data.read_json("reference/expected_correlations.json")[setting]
    cells = pd.DataFrame(expected["cells"])
    cells["segment"] = cells["ratio" if segmentation == "ratio" else "width"].astype(str)
    found = correlate(
        reference_rows(),
        segmentation=segmentation,
        min_samples=expected["settings"]["min_samples"],
        measures=measures,
        coefficients=COEFFICIENTS,
        require_2k=setting == "ratio_2K",
    )
    keys = ["dataset", "embedding", "segment", "measure", "coefficient"]
    both = found.merge(cells, on=keys, how="outer", suffixes=("", "_expected"), indicator=True)
    assert len(both) == len(found) == len(cells)
    assert (both["_merge"] == "both").all()
    assert (both["n"] == both["n_expected"]).all()
    undefined = both["correlation_expected"].isna()
    assert (both["correlation"].isna() == undefined).all()
    worst = (both["correlation"] - both["correlation_expected"]).abs().max()
    assert worst <= 2e-8


def test_the_grid_is_the_published_one():
    powers = [0.95**i for i in range(1, 351)]
    by_hand = np.sort([0, *powers, *(1 - power for power in powers), 1])
    assert len(ALPHAS) == 702
    assert np.all(np.diff(ALPHAS) >= 0)
    assert np.allclose(ALPHAS, by_hand, rtol=1e-14, atol=0)
    with pytest.raises(ValueError, match="read-only"):
        ALPHAS[0] = 0.5


@pytest.mark.parametrize("measure", ["F", "Fe", "T", "Tu", "nDCG", "AP"])
def test_profiles_equal_scipy(measure):
    rows = make_rows(n=300)
    chosen = MEASURES[measure]
    alphas = ALPHAS[::39]
    counts = count_rows(rows, segmentation="narrow-wide", columns=chosen.columns)
    values, table = evaluate(counts, chosen, alphas)
    curves = curves_of(values, table)
    for cell, place in enumerate(counts.cells.itertuples()):
        wide = rows["K"] >= rows["Np"]
        segment = rows[(rows["dataset"] == place.dataset) & (wide == (place.segment == "wide"))]
        for a, alpha in enumerate(alphas[: curves.shape[1]]):
            scores = chosen.evaluate(segment, alpha)
            used = ~np.isnan(scores)
            scores, grades = scores[used], segment["grade"].to_numpy()[used]
            assert table.sizes[cell] == used.sum()
            expected = [SCIPY[name](scores, grades) for name in COEFFICIENTS]
            assert np.allclose(curves[cell, a], expected, atol=1e-10, equal_nan=True)


def test_the_maximum_equals_a_loop_over_alpha():
    rows = make_rows(n=60, datasets=("A",))
    wide = rows[rows["K"] >= rows["Np"]]
    found = correlate(
        rows, segmentation="narrow-wide", min_samples=10, measures=["T"], coefficients=COEFFICIENTS
    )
    found = found[found["segment"] == "wide"].set_index("coefficient")
    n_positives, top_k = wide["n_positives"].to_numpy(), wide["K"].to_numpy()
    n_negatives = top_k - n_positives
    curves = np.round(
        [
            oracle(
                (1 - a) * n_positives - a * n_negatives / (n_positives + n_negatives), wide["grade"]
            )
            for a in ALPHAS
        ],
        8,
    )
    for name, curve in zip(COEFFICIENTS, curves.T, strict=True):
        assert found.loc[name, "correlation"] == pytest.approx(curve.max(), abs=1.1e-8)
        first = ALPHAS[np.argmax(curve > curve.max() - 2e-8)]
        assert found.loc[name, "alpha"] == pytest.approx(first)


@pytest.mark.parametrize("grades", [2, 5])
@pytest.mark.parametrize("seed", range(4))
def test_counts_equal_the_pairwise_oracle(seed, grades):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 40))
    values, marks = rng.integers(0, 5, n), rng.integers(1, grades + 1, n)
    assert np.allclose(cell_values(values, marks), oracle(values, marks), equal_nan=True)


# --- values from the field ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grades", "values", "expected"),
    [
        ([1, 1, 1, 1, 2], [5, 4, 3, 2, 1], {"spearman": -0.707107, "kendall_b": -0.632456}),
        ([1, 1, 1, 1, 2], [5, 4, 3, 2, 1], {"kendall_c": -0.64}),
        ([2, 1, 1, 1, 1], [1, 2, 2, 2, 2], {"spearman": -1, "pearson": -1, "kendall_b": -1}),
        ([4, 7, 1, 8, 2, 6, 3, 5], [1, 2, 3, 4, 5, 6, 7, 8], {}),
    ],
)
def test_ties_are_ranked_by_their_average(grades, values, expected):
    found = cell_values(values, grades)
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, abs=1e-6)
    for name in COEFFICIENTS:
        assert found[name] == pytest.approx(SCIPY[name](values, grades), abs=1e-8)


def test_a_permutation_without_order_has_tau_0():
    found = cell_values([5, 2, 1, 3, 6, 4, 7, 8], [5, 2, 6, 3, 1, 8, 7, 4])
    assert found["kendall_b"] == 0
    assert found["kendall_c"] == 0


def test_a_perfect_order_of_200_is_1():
    rows = one_cell(np.arange(200), np.arange(200.0)).assign(K=200, Np=200)
    found = correlate(rows, min_samples=1, measures=["P"], coefficients=COEFFICIENTS)
    assert np.allclose(found["correlation"], 1, atol=1e-15)


def test_large_tied_samples_do_not_overflow():
    rng = np.random.default_rng(7)
    x = rng.integers(1, 6, 466800)
    y = np.clip(x + rng.integers(-3, 4, 466800), 1, 5)
    rows = one_cell(x.astype(np.int32), y)
    found = correlate(rows, measures=["P"], coefficients=COEFFICIENTS, alpha=0.5).set_index(
        "coefficient"
    )["correlation"]
    assert found["kendall_b"] == pytest.approx(0.41286486127437716, abs=1e-14)
    assert found["spearman"] == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)
    assert found["kendall_c"] == pytest.approx(SCIPY["kendall_c"](x, y), abs=1e-12)


@pytest.mark.parametrize(
    ("grades", "values", "reason"),
    [
        ([5, 5, 5], [1, 2, 3], "the grade is constant"),
        ([1, 2, 3], [5, 5, 5], "the measure is constant"),
        ([5, 5, 5], [1, 1, 1], "the grade is constant"),
        ([3], [1], "one row"),
        ([None, None], [1, 2], "no graded row"),
    ],
)
def test_undefined_is_nan_with_a_reason(grades, values, reason):
    rows = one_cell(values, pd.Series(grades, dtype=float))
    found = correlate(rows, measures=["P", "T"], coefficients=COEFFICIENTS, min_samples=0)
    expected = found["measure"].map({"P": reason, "T": reason})
    assert len(found) == 8
    assert found["correlation"].isna().all()
    assert found["alpha"].isna().all()
    assert (found["reason"] == expected).all()


def test_an_undefined_alpha_is_never_chosen():
    # T at alpha = 1 is P - 1, the same in both rows; elsewhere it falls with the grade
    rows = one_cell([1, 2], [2, 1]).assign(K=[2, 4], Np=[2, 4])
    found = correlate(rows, min_samples=1, measures=["T", "P"]).set_index("measure")
    assert found.loc["T", "correlation"] == -1
    assert found.loc["T", "alpha"] == 0
    assert found.loc["P", "reason"] == "the measure is constant"


@pytest.mark.parametrize(
    "grades",
    [
        pd.array([4, None, 2, 1], dtype="Int64"),
        np.array([4, np.nan, 2, 1]),
        np.array([4, None, 2, 1], dtype=object),
        np.array([Decimal(4), None, Decimal(2), Decimal(1)], dtype=object),
        pd.array([4, None, 2, 1], dtype="float64[pyarrow]"),
    ],
)
def test_grades_of_any_numeric_type_are_equal(grades):
    rows = one_cell([1, 2, 3, 3], grades)
    found = correlate(rows, min_samples=1, measures=["P"], coefficients=["spearman"])
    assert found[["n", "n_total"]].values.tolist() == [[3, 4]]
    assert found["correlation"].item() == pytest.approx(-0.86602540, abs=1e-8)


@pytest.mark.parametrize("grades", [["4", "2"], np.array(["4", 2], dtype=object), [np.inf, 1.0]])
def test_grades_that_are_no_numbers_are_refused(grades):
    with pytest.raises(DataError, match="grade"):
        correlate(one_cell([1, 2], grades), min_samples=1, measures=["P"])


def test_missing_grades_and_missing_measures_leave_the_same_rows_out_as_their_n_says():
    rows = make_rows(n=100, datasets=("A",))
    rows["n_positives_2k"] = rows["n_positives"].astype(float)
    rows.loc[:9, "grade"] = np.nan
    rows.loc[10:14, "n_positives_2k"] = np.nan
    rows["K"] = rows["Np"] = 8
    both = correlate(rows, min_samples=1, measures=["F", "Fe"]).set_index("measure")
    assert both["n"].to_dict() == {"F": 90, "Fe": 85}
    assert (both["n_total"] == 100).all()
    same = correlate(rows, min_samples=1, measures=["F", "Fe"], require_2k=True)
    assert same["n"].tolist() == [85, 85]


# --- cells --------------------------------------------------------------------------------------


def test_segments_below_the_minimum_have_no_row():
    rows = make_rows()
    every = correlate(rows, min_samples=1, measures=["F"])
    sizes = every["n"].sort_values().unique()
    some = correlate(rows, min_samples=int(sizes[3]), measures=["F"])
    assert some["n"].min() == sizes[3]
    assert len(some) == (every["n"] >= sizes[3]).sum()
    assert correlate(rows, measures=["F"]).empty
    assert list(correlate(rows, measures=["F"]).columns) == list(COLUMNS)
    assert correlate(rows.iloc[:0], measures=["F", "nDCG"]).empty


def test_the_minimum_applies_to_what_remains_under_require_2k():
    rows = make_rows()
    rows.loc[::4, "grade"] = np.nan
    found = correlate(rows, min_samples=5, measures=["F", "nDCG"], require_2k=True)
    usable = rows[rows["grade"].notna() & rows["n_positives_2k"].notna()]
    again = correlate(usable, min_samples=5, measures=["F", "nDCG"])
    pd.testing.assert_frame_equal(found.drop(columns="n_total"), again.drop(columns="n_total"))
    assert (found["n_total"] > again["n_total"]).any()


def test_cells_are_by_dataset_or_by_difficulty():
    rows = make_rows()
    by_dataset = correlate(rows, segmentation="narrow-wide", min_samples=1, measures=["R"])
    by_subset = correlate(
        rows, segmentation="narrow-wide", min_samples=1, measures=["R"], by="subset"
    )
    assert by_dataset["dataset"].unique().tolist() == ["A", "Hp"]
    assert by_subset["dataset"].unique().tolist() == ["A", "Hp-e", "Hp-h"]
    hard = rows[rows["subset"] == "Hp-h"]
    alone = correlate(hard, segmentation="narrow-wide", min_samples=1, measures=["R"])
    found = by_subset[by_subset["dataset"] == "Hp-h"]["correlation"]
    assert found.tolist() == alone["correlation"].tolist()


def test_the_order_of_rows_and_the_number_of_threads_do_not_matter():
    rows = make_rows(embeddings=("ME5S", "E5Sv2"))
    options = {"min_samples": 3, "measures": ["T", "nDCG"], "coefficients": COEFFICIENTS}
    found = correlate(rows, **options)
    shuffled = correlate(rows.sample(frac=1, random_state=1), **options)
    values = ["correlation", "alpha"]
    pd.testing.assert_frame_equal(
        found.drop(columns=values), shuffled.drop(columns=values), check_dtype=False
    )
    assert np.allclose(found["correlation"], shuffled["correlation"], atol=1e-8, equal_nan=True)
    counts = count_rows(rows, columns=MEASURES["T"].columns)
    scores, table = evaluate(counts, MEASURES["T"], ALPHAS)
    assert np.array_equal(curves_of(scores, table, 1), curves_of(scores, table, 5), equal_nan=True)


def test_another_grade_column_with_grades_between_the_whole_ones():
    rows = make_rows(n=50, datasets=("A",))
    rows["grade_human"] = rows["grade"] + np.random.default_rng(3).choice([0, 0.25, 0.5], 50)
    found = correlate(
        rows,
        segmentation="narrow-wide",
        min_samples=1,
        measures=["P"],
        coefficients=COEFFICIENTS,
        grade="grade_human",
        alpha=0.5,
    )
    wide = rows[rows["K"] >= rows["Np"]]
    values = found[found["segment"] == "wide"].set_index("coefficient")["correlation"]
    expected = oracle(wide["n_positives"] / wide["K"], wide["grade_human"])
    assert np.allclose(values, expected)


def test_at_the_ends_of_alpha_f_and_t_are_precision_recall_and_count():
    rows = make_rows()
    options = {"segmentation": "narrow-wide", "min_samples": 1, "coefficients": COEFFICIENTS}

    def values(measure, alpha):
        return correlate(rows, measures=[measure], alpha=alpha, **options)["correlation"]

    precision, recall = values("P", 1), values("R", 1)
    assert np.allclose(values("F", 1), precision)
    assert np.allclose(values("T", 1), precision)
    assert np.allclose(values("F", 0), recall)
    for measure in ("F", "T"):
        best = values(measure, "published")
        assert (best >= precision - 1e-8).all()


def test_a_monotone_change_of_the_grade_leaves_rank_correlations_alone():
    rows = make_rows()
    options = {"min_samples": 5, "measures": ["T"], "coefficients": ["spearman", "kendall_b"]}
    found = correlate(rows, **options)
    stretched = correlate(rows.assign(grade=rows["grade"] ** 3), **options)
    pd.testing.assert_frame_equal(found, stretched)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"measures": ["Q"]}, "F, Fe, nDCG"),
        ({"coefficients": ["tau"]}, "kendall_b"),
        ({"coefficients": "spearman"}, "spearman"),
        ({"alpha": 1.5}, "alpha"),
        ({"alpha": "best"}, "alpha"),
        ({"alpha": float("nan")}, "alpha"),
        ({"ties": "float"}, "exact"),
        ({"segmentation": "thirds"}, "narrow-wide"),
        ({"by": "language"}, "subset"),
        ({"min_samples": -1}, "min_samples"),
        ({"measures": []}, "At least one measure"),
        ({"measures": "F"}, "list of measures"),
        ({"coefficients": ()}, "At least one coefficient"),
        ({"alpha": None}, "alpha"),
        ({"alpha": True}, "alpha"),
    ],
)
def test_wrong_options_are_refused_and_the_right_ones_named(options, said):
    with pytest.raises(UsageError, match=said):
        correlate(make_rows(n=20), **options)


def test_a_missing_column_is_named():
    with pytest.raises(DataError, match="pattern"):
        correlate(make_rows(n=20).drop(columns="pattern"), measures=["nDCG"])
    with pytest.raises(DataError, match="no dataset"):
        correlate(make_rows(n=20).assign(dataset=None), measures=["P"])


def test_loops_compile_without_a_folder_for_machine_code(monkeypatch):
    def nowhere(cache=False, nogil=False):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: function

    monkeypatch.setattr(counts, "njit", nowhere)
    assert counts.compiled(len) is len


def test_a_name_that_is_repeated_is_computed_once():
    rows = make_rows(n=40)
    once = correlate(rows, min_samples=5, measures=["F"], coefficients=["pearson"])
    twice = correlate(rows, min_samples=5, measures=["F"] * 2, coefficients=["pearson"] * 2)
    pd.testing.assert_frame_equal(once, twice)


@pytest.mark.parametrize("grades", [[True, False] * 10, pd.date_range("2026-01-01", periods=20)])
def test_truth_values_and_dates_are_no_grades(grades):
    with pytest.raises(DataError, match="grades must be numbers"):
        correlate(make_rows(n=20).assign(grade=grades), min_samples=1)
