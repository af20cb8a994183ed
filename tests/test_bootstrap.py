"""Intervals by query: against a bootstrap that repeats rows, by hand, and on degenerate input."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.measures import MEASURES
from retrieval_quality.statistics import bootstrap
from retrieval_quality.statistics.correlation import ALPHAS, COEFFICIENTS, COLUMNS, correlate

SCIPY = {
    "spearman": lambda x, y: stats.spearmanr(x, y).statistic,
    "pearson": lambda x, y: stats.pearsonr(x, y).statistic,
    "kendall_b": lambda x, y: stats.kendalltau(x, y, variant="b").statistic,
    "kendall_c": lambda x, y: stats.kendalltau(x, y, variant="c").statistic,
}


def make_rows(seed=0, n=240, queries=40, datasets=("A",), embeddings=("ME5S",)):
    rng = np.random.default_rng(seed)
    top_k, relevant = rng.integers(2, 7, n), rng.integers(2, 7, n)
    found = rng.binomial(np.minimum(top_k, relevant), 0.6)
    query = np.arange(n) % queries
    ease = rng.normal(0, 1, queries)[query]
    dataset = np.asarray(datasets)[query % len(datasets)]
    bits = ["".join("01"[int(i < f)] for i in range(k)) for f, k in zip(found, top_k, strict=True)]
    bits = [text[:: 1 - 2 * (i % 2)] for i, text in enumerate(bits)]
    return pd.DataFrame(
        {
            "id": [f"{name}-{i}" for name, i in zip(dataset, query, strict=True)],
            "E": np.asarray(embeddings)[rng.integers(0, len(embeddings), n)],
            "dataset": dataset,
            "subset": dataset,
            "K": top_k,
            "Np": relevant,
            "n_positives": found,
            "n_positives_2k": np.where(
                rng.random(n) < 0.7, np.minimum(found + 1, relevant), np.nan
            ),
            "pattern": pd.Categorical(bits),
            "grade": np.clip(np.round(found - 0.3 * top_k + ease + 3), 1, 5),
        }
    )


OPTIONS = {"segmentation": "narrow-wide", "min_samples": 20, "replicates": 60}


def repeated(rows, weights):
    """The rows of each query as often as its weight says."""
    return rows.loc[rows.index.repeat(rows["id"].map(weights).to_numpy())]


def quantile_of(values, level):
    values = np.asarray(values, dtype=float)
    tails = [(1 - level) / 2, (1 + level) / 2]
    return np.quantile(values[~np.isnan(values)], tails)


# --- against a bootstrap that repeats rows ------------------------------------------------------


@pytest.mark.parametrize("coefficient", COEFFICIENTS)
def test_a_replicate_is_what_repeated_rows_give(coefficient):
    rows = make_rows()
    ids = sorted(set(rows["id"]))
    found = bootstrap.intervals(
        rows, measures=["F"], pairs=[("nDCG", "F")], coefficient=coefficient, alpha=0.3, **OPTIONS
    )
    weights = bootstrap.query_weights(ids, OPTIONS["replicates"], seed=1)
    wide = rows[rows["K"] >= rows["Np"]]
    values = []
    for row in weights.T:
        again = repeated(wide, dict(zip(ids, row.tolist(), strict=True)))
        values.append(
            [
                SCIPY[coefficient](MEASURES[name].evaluate(again, 0.3).round(10), again["grade"])
                for name in ("F", "nDCG")
            ]
        )
    f, ndcg = np.array(values).T
    wide_cells = found[found["segment"] == "wide"].set_index("minus")
    for minus, expected in (("", f), ("F", ndcg - f)):
        assert wide_cells.loc[minus, ["low", "high"]].tolist() == pytest.approx(
            quantile_of(expected, 0.95), abs=1e-9
        )
    apart = ndcg - f
    tail = min((apart <= 0).sum(), (apart >= 0).sum()) + 1
    assert wide_cells.loc["F", "p_value"] == min(1, 2 * tail / (len(apart) + 1))


@pytest.mark.parametrize("coefficient", ["spearman", "pearson", "kendall_b"])
def test_the_maximum_is_taken_anew_in_each_replicate(coefficient):
    rows = make_rows(n=120)
    ids = sorted(set(rows["id"]))
    options = {**OPTIONS, "replicates": 12}
    found = bootstrap.intervals(
        rows, measures=["T"], pairs=[], coefficient=coefficient, alpha="published", **options
    )
    weights = bootstrap.query_weights(ids, 12, seed=1)
    values = []
    for row in weights.T:
        again = repeated(rows, dict(zip(ids, row.tolist(), strict=True)))
        cells = correlate(
            again,
            segmentation="narrow-wide",
            min_samples=1,
            measures=["T"],
            coefficients=[coefficient],
        )
        values.append(cells.set_index("segment")["correlation"])
    for cell in found.itertuples():
        expected = quantile_of([value[cell.segment] for value in values], 0.95)
        assert [cell.low, cell.high] == pytest.approx(expected, abs=2e-8)
    once = correlate(
        rows,
        segmentation="narrow-wide",
        min_samples=20,
        measures=["T"],
        coefficients=[coefficient],
    )
    assert found["correlation"].tolist() == once["correlation"].tolist()
    assert found["alpha"].tolist() == once["alpha"].tolist()
    assert found["p_value"].isna().all()


def crossed_by_hand(rows, sides):
    """T's Spearman: the best alpha of each half, measured on the other, for each split."""
    ids = sorted(set(rows["id"]))
    values, alphas = [], []
    for side in sides:
        half = rows["id"].map(dict(zip(ids, side.tolist(), strict=True))) == 1
        halves, value = (rows[~half], rows[half]), 0
        for here, there in (halves, halves[::-1]):
            columns = {name: here[name].to_numpy() for name in ("n_positives", "K")}
            scores = MEASURES["T"].evaluate(columns, ALPHAS[:, None])
            ranks, grades = stats.rankdata(scores, axis=1), stats.rankdata(here["grade"])
            ranks = ranks - ranks.mean(axis=1, keepdims=True)
            with np.errstate(invalid="ignore"):
                curve = ranks @ (grades - grades.mean()) / np.sqrt((ranks**2).sum(axis=1))
            at = ALPHAS[np.flatnonzero(curve > np.nanmax(curve) - 1e-9)[0]]
            alphas.append(at)
            value += SCIPY["spearman"](MEASURES["T"].evaluate(there, at), there["grade"]) / 2
        values.append(value)
    return values, alphas


def test_cross_fitting_by_hand():
    rows = make_rows(n=80, queries=20)
    rows = rows[rows["K"] >= rows["Np"]]
    ids = sorted(set(rows["id"]))
    sides = bootstrap.query_halves(ids, 2, 1, "splits").T
    values, alphas = crossed_by_hand(rows, sides)
    options = {"segmentation": "narrow-wide", "min_samples": 5, "splits": 2}
    found = bootstrap.crossfit(rows, measures=["T"], **options).iloc[0]
    assert found["correlation"] == pytest.approx(np.mean(values))
    assert found["alpha"] == pytest.approx(np.median(alphas))
    assert [found["alpha_low"], found["alpha_high"]] == pytest.approx([min(alphas), max(alphas)])
    parts = found[["ties", "optimism", "half_cost"]].sum()
    assert parts == pytest.approx(found["maximum"] - np.mean(values))
    same = bootstrap.intervals(
        rows, measures=["T"], pairs=[], alpha="crossfit", replicates=30, **options
    ).iloc[0]
    assert same["correlation"] == found["correlation"]
    assert same["alpha"] == found["alpha"]
    assert same["low"] < same["correlation"] < same["high"]


# --- properties ---------------------------------------------------------------------------------


def test_the_same_numbers_for_any_threads_order_and_company():
    rows = make_rows(datasets=("A", "M"), embeddings=("ME5S", "E5Sv2"))
    options = {**OPTIONS, "measures": ["T", "nDCG"], "alpha": "crossfit"}
    found = bootstrap.intervals(rows, threads=1, **options)
    more = bootstrap.intervals(rows.sample(frac=1, random_state=2), threads=4, **options)
    pd.testing.assert_frame_equal(found, more, rtol=1e-12)
    alone = bootstrap.intervals(rows[rows["dataset"] == "M"], **options)
    expected = found[found["dataset"] == "M"].reset_index(drop=True)
    pd.testing.assert_frame_equal(alone, expected, check_dtype=False)
    other = bootstrap.intervals(rows, seed=2, **options)
    assert not np.allclose(found["low"], other["low"])
    assert len(found) == 3 * found.groupby(["dataset", "embedding", "segment"]).ngroups


def test_weights_are_poisson_and_halves_fair():
    ids = [f"A-{i}" for i in range(300)]
    weights = bootstrap.query_weights(ids, 1000, seed=3)
    share = np.bincount(weights.ravel(), minlength=6)[:6] / weights.size
    assert np.allclose(share, stats.poisson.pmf(range(6), 1), atol=0.004)
    halves = bootstrap.query_halves(ids, 1000, 3, "splits")
    assert halves.mean() == pytest.approx(0.5, abs=0.005)
    apart = np.corrcoef(weights[:40])[np.triu_indices(40, 1)]
    assert np.abs(apart).mean() < 0.05
    assert not np.array_equal(halves, bootstrap.query_halves(ids, 1000, 3, "halves"))
    assert np.array_equal(weights[[7]], bootstrap.query_weights(["A-7"], 1000, seed=3))


def test_intervals_hold_the_estimate_and_widen_with_the_level():
    rows = make_rows()
    wide = bootstrap.intervals(rows, level=0.99, **OPTIONS)
    narrow = bootstrap.intervals(rows, level=0.5, **OPTIONS)
    assert ((wide["low"] <= wide["correlation"]) & (wide["correlation"] <= wide["high"])).all()
    assert ((wide["high"] - wide["low"]) > (narrow["high"] - narrow["low"])).all()
    assert (wide["queries"] <= 40).all()
    assert (wide["replicates"] == 60).all()


def test_rows_of_one_query_count_as_one_and_not_as_many():
    rows = make_rows(n=200, queries=200)
    copies = pd.concat([rows] * 4, ignore_index=True)
    options = {"segmentation": "narrow-wide", "min_samples": 20, "measures": ["R"], "pairs": []}
    once = bootstrap.intervals(rows, replicates=300, **options)
    four = bootstrap.intervals(copies, replicates=300, **options)
    assert np.allclose(once[["low", "high"]], four[["low", "high"]])


def test_equal_measures_do_not_differ():
    rows = make_rows().assign(K=5)  # with one K, T orders as P does
    rows["n_positives"] = np.minimum(rows["n_positives"], rows["Np"])
    found = bootstrap.intervals(rows, measures=[], pairs=[("T", "P")], alpha=0.5, **OPTIONS)
    assert (found[["correlation", "low", "high"]] == 0).all(axis=None)
    assert (found["p_value"] == 1).all()


def test_false_discoveries_are_controlled_by_pair_and_dataset():
    rows = make_rows(n=900, queries=90, datasets=("A", "M"), embeddings=("ME5S", "E5Sv2"))
    pairs = [("T", "P"), ("R", "P")]
    found = bootstrap.intervals(rows, measures=[], pairs=pairs, **OPTIONS)
    assert len(found) == 2 * 2 * 2 * 2
    for _, figure in found.groupby(["dataset", "measure"]):
        expected = stats.false_discovery_control(figure["p_value"])
        assert figure["q_value"].tolist() == pytest.approx(expected)
    assert (found["q_value"] >= found["p_value"]).all()


# --- degenerate input ---------------------------------------------------------------------------


def one_segment(**columns):
    n = max((len(v) for v in columns.values() if not np.isscalar(v)), default=12)
    rows = make_rows(n=n, queries=n).assign(K=6, Np=6, n_positives=np.arange(n) % 6)
    rows["pattern"] = pd.Categorical(["1" * (i % 6) + "0" * (6 - i % 6) for i in range(n)])
    rows["grade"] = np.arange(n) % 5 + 1.0
    return rows.assign(**columns)


@pytest.mark.parametrize("alpha", [0.5, "crossfit", "published"])
@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (one_segment(grade=3.0), "the grade is constant"),
        (one_segment(n_positives=2, pattern="110000"), "the measure is constant"),
        (one_segment(grade=np.nan), "no graded row"),
        (one_segment(id=["A-0"]), "one row"),
    ],
)
def test_an_undefined_correlation_has_no_interval(rows, reason, alpha):
    found = bootstrap.intervals(rows, min_samples=0, replicates=20, alpha=alpha)
    assert len(found) == 4
    assert found[["correlation", "low", "high", "p_value", "q_value"]].isna().all(axis=None)
    assert set(found["reason"]) == {reason}


def test_one_query_gives_a_value_and_no_interval():
    rows = one_segment(id="A-0")
    found = bootstrap.intervals(rows, min_samples=1, replicates=20)
    assert found["correlation"].notna().all()
    assert found[["low", "high", "p_value"]].isna().all(axis=None)
    assert set(found["reason"]) == {"no interval: one query"}
    crossed = bootstrap.intervals(rows, min_samples=1, replicates=20, alpha="crossfit")
    assert crossed["correlation"].isna().all()
    assert set(crossed["reason"]) == {"undefined in 20 of 20 splits"}


def test_replicates_without_a_value_are_counted_and_left_out():
    grade = np.ones(12)
    grade[:2] = 5  # two queries differ: often enough neither is drawn
    options = {"min_samples": 1, "replicates": 400, "measures": ["F", "T"]}
    found = bootstrap.intervals(one_segment(grade=grade), **options)
    assert found["correlation"].notna().all()
    assert (found["undefined"] / 400).between(0.1, 0.17).all()  # exp(-2) = 0.135
    assert found["low"].isna().all()
    assert found["reason"].str.fullmatch(r"no interval: undefined in \d+ replicates").all()
    grade[:4] = 5
    some = bootstrap.intervals(one_segment(grade=grade), **options)
    assert (some["undefined"] > 0).all()
    assert some[["low", "high"]].notna().all(axis=None)
    assert (some["reason"] == "").all()


def test_two_rows():
    rows = one_segment(id=["A-0", "A-1"])
    found = bootstrap.intervals(rows, min_samples=2, replicates=50, measures=["P"], pairs=[])
    assert found["correlation"].tolist() == [pytest.approx(1)]
    assert found["low"].isna().all()


def test_measures_on_different_rows_are_not_compared():
    rows = make_rows()
    found = bootstrap.intervals(rows, measures=[], pairs=[("Fe", "F")], **OPTIONS)
    assert found["correlation"].isna().all()
    assert set(found["reason"]) == {"Fe and F are not on the same rows"}
    both = bootstrap.intervals(rows, measures=[], pairs=[("Fe", "F")], require_2k=True, **OPTIONS)
    assert both["correlation"].notna().all()


def test_no_segment_is_large_enough():
    options = {"min_samples": 10_000, "replicates": 5}
    found = bootstrap.intervals(make_rows(), **options)
    assert found.empty
    assert list(found.columns) == list(bootstrap.INTERVAL_COLUMNS)
    assert bootstrap.crossfit(make_rows(), min_samples=10_000).empty
    assert bootstrap.profile(make_rows(), min_samples=10_000).empty
    assert bootstrap.leave_dataset_out(make_rows(), min_samples=10_000).empty


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"coefficient": "tau"}, "kendall_b"),
        ({"alpha": "exact"}, "crossfit"),
        ({"alpha": 2}, "alpha"),
        ({"replicates": 0}, "replicates"),
        ({"level": 1}, "level"),
        ({"pairs": [("T", "Q")]}, "Q"),
    ],
)
def test_wrong_options_are_refused(options, said):
    with pytest.raises(UsageError, match=said):
        bootstrap.intervals(make_rows(), **options)


def test_rows_without_an_id_are_refused():
    with pytest.raises(DataError, match="id"):
        bootstrap.intervals(make_rows().drop(columns="id"))


# --- alpha --------------------------------------------------------------------------------------


def test_a_profile_is_the_correlation_at_each_alpha():
    rows = make_rows()
    options = {"segmentation": "narrow-wide", "min_samples": 20, "measures": ["F", "T"]}
    found = bootstrap.profile(rows, coefficient="kendall_b", alphas=[0, 0.25, 1], **options)
    assert list(found.columns) == list(COLUMNS)
    for alpha, cells in found.groupby("alpha"):
        once = correlate(rows, coefficients=["kendall_b"], alpha=alpha, **options)
        keys = ["segment", "measure"]
        both = cells.merge(once, on=keys, suffixes=("", "_once"))
        assert len(both) == 4
        assert np.allclose(both["correlation"], both["correlation_once"])
    with pytest.raises(UsageError, match="nDCG"):
        bootstrap.profile(rows, measures=["nDCG"])


def test_the_alpha_of_the_other_datasets():
    rows = make_rows(n=600, queries=60, datasets=("A", "M", "N"))
    options = {"segmentation": "narrow-wide", "min_samples": 20, "measures": ["T"]}
    found = bootstrap.leave_dataset_out(rows, **options)
    curves = bootstrap.profile(rows, alphas=ALPHAS.tolist(), **options)
    best = correlate(rows, **options)
    for cell in found.itertuples():
        segment = curves[curves["segment"] == cell.segment]
        own = segment[segment["dataset"] == cell.dataset].set_index("alpha")["correlation"]
        others = segment[segment["dataset"] != cell.dataset]
        mean = others.groupby("alpha")["correlation"].mean().round(8)
        assert cell.alpha == mean.idxmax()
        assert cell.correlation == pytest.approx(own[cell.alpha])
        assert cell.datasets == 2
        maximum = best[(best["dataset"] == cell.dataset) & (best["segment"] == cell.segment)]
        assert cell.maximum == pytest.approx(own.max())  # with exact ties
        assert cell.maximum == pytest.approx(maximum["correlation"].item(), abs=1e-3)
        assert cell.loss == pytest.approx(cell.maximum - cell.correlation)
        assert cell.loss >= -1e-12
    assert len(found) == 6
    alone = bootstrap.leave_dataset_out(rows[rows["dataset"] == "M"], **options)
    assert set(alone["reason"]) == {"no other dataset has this segment"}
    assert alone["correlation"].isna().all()
