"""The measures: values worked by hand, identities, undefined values, the registry."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from decimal import Decimal
from types import MappingProxyType

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from retrieval_quality import measures as m
from retrieval_quality.errors import DataError, UsageError

few = settings(max_examples=25, deadline=None)
patterns = st.text("01", min_size=1, max_size=30)
alphas = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.5, 1.0]))


@st.composite
def tables(draw):
    """Rows with a pattern, N_p that it can come from, and the positives of the top 2K."""
    chosen = draw(st.lists(patterns, min_size=1, max_size=20))
    extra = st.integers(0, 12)
    found = [pattern.count("1") for pattern in chosen]
    return pd.DataFrame(
        {
            "pattern": chosen,
            "n_positives": found,
            "K": [len(pattern) for pattern in chosen],
            "n_positives_2k": [float(n + draw(extra)) for n in found],
            "Np": [max(n + draw(extra), 1) for n in found],
        }
    )


# --- values worked by hand ----------------------------------------------------------------------


def test_field_guide_case():
    """Ten relevant documents; R N R N N R N N R N are retrieved first, the rest far below."""
    ranking = "1010010010"
    assert m.recall(ranking[:5].count("1"), 10) == 0.2
    assert m.recall(ranking.count("1"), 10) == 0.4
    assert m.recall(ranking.ljust(100, "0").count("1"), 10) == 0.4
    assert m.precision(2, 5) == 0.4
    assert m.f1(4, 10, 10) == 0.4
    assert m.reciprocal_rank(ranking) == 1
    assert m.average_precision(ranking, 10) == pytest.approx((1 + 2 / 3 + 3 / 6 + 4 / 9) / 10)
    gain = 1 + 1 / 2 + 1 / math.log2(7) + 1 / math.log2(10)
    assert m.dcg(ranking) == pytest.approx(gain)
    assert m.ndcg(ranking) == pytest.approx(gain / sum(1 / math.log2(i) for i in range(2, 6)))
    usual = gain / sum(1 / math.log2(i) for i in range(2, 12))
    assert m.ndcg_usual(ranking, 10) == pytest.approx(usual)


@pytest.mark.parametrize(
    ("name", "alpha", "value"),
    [
        ("P", None, 3 / 8),
        ("R", None, 3 / 4),
        ("F", 0.5, 3 / 6),
        ("F", 0.25, 3 / (2 + 3)),
        ("F1", None, 2 * (3 / 8) * (3 / 4) / (3 / 8 + 3 / 4)),
        ("Fe", 0.5, 3 / (4 + 1.5)),
        ("T", 0.5, 1.5 - 5 / 16),
        ("T", 1.0, 3 / 8 - 1),
        ("Tu", 0.5, 1.5 - 2.5),
        ("hit", None, 1),
        ("RR", None, 1 / 2),
        ("AP", None, (1 / 2 + 2 / 3 + 3 / 8) / 4),
        (
            "nDCG",
            None,
            (1 / math.log2(3) + 1 / 2 + 1 / math.log2(9)) / (1 + 1 / math.log2(3) + 0.5),
        ),
    ],
)
def test_one_row(name, alpha, value):
    row = {
        "n_positives": [3],
        "K": [8],
        "Np": [4],
        "n_positives_2k": [3.0],
        "pattern": ["01100001"],
    }
    assert_allclose(m.MEASURES[name].evaluate(row, alpha), [value], rtol=1e-9)


def test_graded_patterns_are_ordered_by_rank():
    early, late = m.ndcg(["110000", "000011"])
    assert early == 1
    assert late == pytest.approx((1 / math.log2(6) + 1 / math.log2(7)) / (1 + 1 / math.log2(3)))


@few
@given(n_p=st.integers(0, 15), n_n=st.integers(0, 15), extra=st.integers(0, 10), alpha=alphas)
def test_floats_are_those_of_the_published_expressions(n_p, n_n, extra, alpha):
    top_k, n_relevant = n_p + n_n, n_p + extra
    if top_k and n_relevant:
        assert m.f_measure(n_p, top_k, n_relevant, alpha) == (
            n_p / (alpha * (n_p + n_n) + (1 - alpha) * n_relevant)
        )
    if top_k:
        assert m.f_estimated(n_p, top_k, n_relevant, alpha) == (
            n_p / (alpha * (n_p + n_n) + (1 - alpha) * (n_relevant + 1e-10))
        )
        assert m.t_measure(n_p, top_k, alpha) == (1 - alpha) * n_p - alpha * n_n / (n_p + n_n)
    assert m.tu_measure(n_p, top_k, alpha) == (1 - alpha) * n_p - alpha * n_n


@few
@given(patterns)
def test_dcg_adds_from_rank_one_down(pattern):
    total = 0.0
    for rank, relevant in enumerate(pattern, start=1):
        total += int(relevant) / np.log2(1 + rank)
    assert m.dcg(pattern) == total


# --- identities ---------------------------------------------------------------------------------


def order(values):
    """Ranks, equal where values are equal up to rounding."""
    return np.unique(np.round(values, 9), return_inverse=True)[1]


@few
@given(tables())
def test_alpha_one_and_zero(rows):
    p, r = m.MEASURES["P"].evaluate(rows), m.MEASURES["R"].evaluate(rows)
    assert_allclose(m.MEASURES["F"].evaluate(rows, 1.0), p)
    assert_allclose(m.MEASURES["Fe"].evaluate(rows, 1.0), p)
    assert_allclose(m.MEASURES["T"].evaluate(rows, 1.0), p - 1, atol=1e-15)
    assert_array_equal(m.MEASURES["F"].evaluate(rows, 0.0), r)
    assert_array_equal(m.MEASURES["T"].evaluate(rows, 0.0), rows.n_positives)
    assert_array_equal(m.MEASURES["Tu"].evaluate(rows, 0.0), rows.n_positives)


@few
@given(tables(), alphas)
def test_f_is_the_weighted_harmonic_mean(rows, alpha):
    rows = rows[rows.n_positives > 0]
    p, r = m.MEASURES["P"].evaluate(rows), m.MEASURES["R"].evaluate(rows)
    assert_allclose(m.MEASURES["F"].evaluate(rows, alpha), 1 / (alpha / p + (1 - alpha) / r))
    assert_allclose(m.MEASURES["F1"].evaluate(rows), m.MEASURES["F"].evaluate(rows, 0.5))


@few
@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 12)), min_size=2), alphas)
def test_at_one_exact_ratio_f_orders_as_precision(sizes, alpha):
    """K = 2 N_p throughout."""
    n_relevant = np.array([size for size, _ in sizes])
    n_positives = np.minimum([found for _, found in sizes], n_relevant)
    f = m.f_measure(n_positives, 2 * n_relevant, n_relevant, alpha)
    p = m.precision(n_positives, 2 * n_relevant)
    assert_allclose(f, p / (alpha + (1 - alpha) / 2))
    assert_array_equal(order(f), order(p))


@few
@given(st.lists(st.integers(0, 9), min_size=2), st.floats(0, 0.999))
def test_at_one_k_all_order_as_precision(n_positives, alpha):
    p = m.precision(n_positives, 9)
    for measure in (m.t_measure, m.tu_measure):
        assert_array_equal(order(measure(n_positives, 9, alpha)), order(p))


@few
@given(tables(), alphas)
def test_the_secondary_summary_prints_precision_less_alpha(rows, alpha):
    """((1 - alpha) n_p - alpha n_n) / K, which some print as T, is T_u / K."""
    wrong = m.MEASURES["Tu"].evaluate(rows, alpha) / rows.K
    assert_allclose(wrong, m.MEASURES["P"].evaluate(rows) - alpha, atol=1e-12)


@few
@given(tables(), alphas)
def test_bounds(rows, alpha):
    for measure in m.MEASURES.values():
        values = measure.evaluate(rows, alpha)
        assert values.dtype == np.float64
        assert values.shape == (len(rows),)
        assert np.all(values >= measure.low - 1e-12), measure.name
        assert np.all(values <= measure.high + 1e-12), measure.name


@few
@given(tables(), alphas, st.randoms())
def test_permuted_rows_give_permuted_values(rows, alpha, random):
    places = list(range(len(rows)))
    random.shuffle(places)
    for measure in m.MEASURES.values():
        values = measure.evaluate(rows.iloc[places], alpha)
        assert_array_equal(values, measure.evaluate(rows, alpha)[places])


@few
@given(tables())
def test_a_perfect_ranking_is_one(rows):
    best = rows.assign(pattern=["1" * n for n in rows.Np], n_positives=rows.Np, K=rows.Np)
    for name in ("P", "R", "F1", "nDCG", "nDCG_usual", "hit", "RR", "AP"):
        assert_allclose(m.MEASURES[name].evaluate(best), 1, err_msg=name)


# --- undefined, empty, refused ------------------------------------------------------------------


def test_an_empty_retrieval_scores_zero():
    row = {"n_positives": [0], "K": [0], "Np": [2], "n_positives_2k": [0.0], "pattern": [""]}
    for measure in m.MEASURES.values():
        for alpha in (0.0, 0.5, 1.0):
            assert measure.evaluate(row, alpha).tolist() == [0.0], measure.name


def test_what_needs_n_relevant_is_undefined_without_relevant_documents():
    row = {"n_positives": [0], "K": [2], "Np": [0], "n_positives_2k": [0.0], "pattern": ["00"]}
    for measure in m.MEASURES.values():
        value = measure.evaluate(row, 0.5)[0]
        assert np.isnan(value) == measure.needs_relevant, measure.name


def test_nothing_found_in_twice_the_ranks_scores_zero():
    assert_array_equal(m.f_estimated([0, 0], 5, 0, [0.0, 1.0]), [0, 0])


def test_the_offset_of_the_estimate_orders_complete_rankings():
    one, many = m.f_estimated([1, 4], [8, 8], [1, 4], alpha=0)
    assert one < many < 1


def test_an_estimate_that_was_not_judged_is_undefined():
    values = m.f_estimated([1, 1], [2, 2], [np.nan, 2], alpha=0.5)
    assert np.isnan(values).tolist() == [True, False]


@pytest.mark.parametrize("alpha", [-0.1, 1.1, np.nan, np.inf])
@pytest.mark.parametrize("name", ["F", "Fe", "T", "Tu"])
def test_alpha_outside_its_range_is_refused(name, alpha):
    row = {"n_positives": [1], "K": [2], "Np": [2], "n_positives_2k": [1.0]}
    with pytest.raises(UsageError, match=r"alpha must be in \[0, 1\]"):
        m.MEASURES[name].evaluate(row, alpha)


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda: m.precision([1, 3], [2, 2]), "Row 1: more positives than retrieved"),
        (lambda: m.precision([-1], [2]), "Row 0: n_positives is negative"),
        (lambda: m.precision([0.5], [2]), "n_positives is not a whole number"),
        (lambda: m.precision([np.nan], [2]), "n_positives is not a whole number"),
        (lambda: m.recall([3], [2]), "more positives retrieved than there are relevant"),
        (lambda: m.f_measure([3], [3], [2], 0.5), "more positives retrieved than there are"),
        (lambda: m.f_estimated([3], [3], [2], 0.5), "fewer positives in the top 2K"),
        (lambda: m.f_estimated([1], [3], [1.5], 0.5), "n_positives_2k is not a whole number"),
        (lambda: m.average_precision(["11"], [1]), "more positives than there are relevant"),
        (lambda: m.ndcg_usual(["11"], [1]), "more positives than there are relevant"),
        (lambda: m.ndcg(["012"]), "'012' is not a pattern"),
        (lambda: m.ndcg(["0 1"]), "'0 1' is not a pattern"),
        (lambda: m.ndcg([101]), "101 is not a pattern"),
    ],
)
def test_impossible_input_is_refused(call, what):
    with pytest.raises(DataError, match=what):
        call()


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8", "Int64", "float32", "object"])
def test_any_whole_numbers_give_the_same_floats(dtype):
    rows = pd.DataFrame({"n_positives": [1, 2], "K": [3, 7], "Np": [3, 15]})
    for name in ("F", "T", "Tu", "P", "R"):
        values = m.MEASURES[name].evaluate(rows.astype(dtype), 0.3)
        assert_array_equal(values, m.MEASURES[name].evaluate(rows, 0.3))


def test_alpha_broadcasts():
    grid = m.f_measure(np.array([[1], [2]]), 4, 4, np.array([0.0, 0.5, 1.0]))
    assert grid.shape == (2, 3)


# --- patterns -----------------------------------------------------------------------------------


def test_patterns_may_be_text_series_or_category():
    texts = ["0110", "1", "", "0110", "00"]
    expected = [float(m.ndcg(text)) for text in texts]
    kinds = [np.array, pd.Series, pd.Categorical, lambda values: pd.Series(values, dtype=object)]
    for given_as in (texts, *(kind(texts) for kind in kinds), pd.Series(pd.Categorical(texts))):
        assert m.ndcg(given_as).tolist() == expected


def test_a_missing_pattern_is_undefined():
    pattern = pd.Series(["01", None], dtype="category")
    for values in (m.ndcg(pattern), m.reciprocal_rank(pattern), m.ndcg_usual(pattern, [1, 1]),
                   m.average_precision(pattern, [1, 1])):  # fmt: skip
        assert np.isnan(values).tolist() == [False, True]


def test_no_rows():
    rows = pd.DataFrame({name: pd.Series(dtype="int64") for name in ("n_positives", "K", "Np")})
    rows = rows.assign(n_positives_2k=1.0, pattern=pd.Series(dtype="category"))
    for measure in m.MEASURES.values():
        assert measure.evaluate(rows, 0.5).shape == (0,)


# --- rankings of users --------------------------------------------------------------------------


def test_a_document_retrieved_twice_is_refused_by_name():
    with pytest.raises(DataError, match=r"query 'q7': document 'a' is retrieved twice.*1 and 2"):
        m.judge(["a", "a", "b"], ["a"], query="q7")


def test_a_document_listed_twice_as_relevant_counts_once():
    assert m.judge(["a", "b"], ["a", "a"]) == "10"


@pytest.mark.parametrize(
    "relevant",
    [
        {"a": 1, "b": 0, "c": 2},
        {"a": True, "b": False, "c": True},
        {"a": 0.5, "b": 0.0, "c": 1},
        {"a": np.int64(1), "b": np.float32(0), "c": np.bool_(True)},
        {"a": Decimal("1"), "b": Decimal("0"), "c": Decimal("0.1")},
        {"a": 3, "b": -1, "c": 1},
        Counter(a=1, b=0, c=1),
        MappingProxyType({"a": 1, "b": 0, "c": 1}),
        defaultdict(int, a=1, b=0, c=1),
        [("a", 1), ("b", 0), ("c", 1)],
        [["a", 1], ["b", 0], ["c", 1]],
        (("a", 1), ("b", 0), ("c", 1), ("a", 2)),
        {("a", 1), ("b", 0), ("c", 1)},
        {"a": 1, "b": 0, "c": 1}.items(),
        (pair for pair in [("a", 1), ("b", 0), ("c", 1)]),
        pd.Series({"a": 1, "b": 0, "c": 1}),
        pd.Series(["a", "c"]),
        ["a", "c"],
        ("c", "a", "a"),
        {"a", "c"},
        frozenset({"a", "c"}),
        {"a": 1, "c": 1}.keys(),
        np.array(["a", "c"]),
        pd.Index(["a", "c"]),
        (name for name in "ac"),
    ],
    ids=lambda relevant: type(relevant).__name__,
)
def test_what_is_judged_0_is_not_relevant_whatever_holds_it(relevant):
    assert m.judge(["a", "b", "c", "d"], relevant) == "1010"


@pytest.mark.parametrize("nothing", [[], {}, set(), (), pd.Series(dtype=float), iter(())])
def test_nothing_is_relevant(nothing):
    assert m.judge(["a", "b"], nothing) == "00"


@pytest.mark.parametrize(
    ("relevant", "words"),
    [
        ({"a": "0"}, r"query 'q1': the relevance of 'a' is '0'"),
        ({"a": None}, "relevance of 'a' is None"),
        ({"a": float("nan")}, "relevance of 'a' is nan"),
        ([("a", "1")], "relevance of 'a' is '1'"),
        ({7: 1}, "each of them text"),
        ([("a", 1), "b"], "each of them text"),
        (b"a", "each of them text"),
    ],
)
def test_a_relevance_that_is_no_number_is_refused(relevant, words):
    with pytest.raises(UsageError, match=words):
        m.judge(["a"], relevant, query="q1")


def test_a_document_judged_both_ways_is_refused():
    with pytest.raises(DataError, match="query 'q1': document 'a' is judged both"):
        m.judge(["a"], [("a", 1), ("a", 0)], query="q1")


@pytest.mark.parametrize("retrieved", [{"a", "b"}, {"a": 0.1, "b": 0.9}, {"a": 1}.keys()])
def test_a_ranking_has_an_order(retrieved):
    with pytest.raises(UsageError, match="rank 1 first: this has no order"):
        m.judge(retrieved, ["a"])


def test_a_ranking_may_be_read_once():
    assert m.judge((name for name in "ab"), (name for name in "b")) == "01"


def test_nothing_retrieved():
    assert m.judge([], ["a"]) == ""


@pytest.mark.parametrize(("retrieved", "relevant"), [("ab", ["a"]), (["a"], "ab"), ([7], ["7"])])
def test_ids_are_text(retrieved, relevant):
    with pytest.raises(UsageError, match="list of document ids, each of them text"):
        m.judge(retrieved, relevant)


def test_one_ranking_at_several_depths():
    rows = m.cut("1010010010", [0, 3, 5, 10], n_relevant=10)
    assert rows["pattern"].tolist() == ["", "101", "10100", "1010010010"]
    assert rows["n_positives"].tolist() == [0, 2, 2, 4]
    assert rows["n_positives_2k"].fillna(-1).tolist() == [0, 3, 4, -1]
    assert rows["Np"].tolist() == [10] * 4
    assert "Np" not in m.cut("10", [1])


@pytest.mark.parametrize("depth", [-1, 3])
def test_a_depth_beyond_the_ranking_is_refused(depth):
    with pytest.raises(UsageError, match=f"ranking of 2 documents cannot be cut at {depth}"):
        m.cut("10", [1, depth])


def test_scores_are_all_that_can_be_computed():
    rows = m.cut("1010", [2], n_relevant=4)
    assert list(m.score(rows, alpha=0.5)) == list(m.MEASURES)
    assert list(m.score(rows)) == ["nDCG", "P", "R", "F1", "nDCG_usual", "hit", "RR", "AP"]
    assert list(m.score(m.cut("1010", [2]))) == ["nDCG", "P", "hit", "RR"]
    assert m.score(rows, ["T", "P"], alpha=1)["T"].tolist() == [-0.5]


# --- means --------------------------------------------------------------------------------------


def test_queries_without_results_stay_in_the_mean():
    """Three judged queries: one perfect, one with an empty list, one without any."""
    found = [m.judge(retrieved, {"a"}) for retrieved in (["a"], [], [])]
    assert m.mean_reciprocal_rank(found) == (pytest.approx(1 / 3), 3, 3)
    assert m.mean_average_precision(found, [1, 1, 1]) == (pytest.approx(1 / 3), 3, 3)
    assert m.mean_hit_rate([1, 0, 0]) == (pytest.approx(1 / 3), 3, 3)


def test_undefined_values_leave_the_mean_and_are_counted():
    assert m.mean_average_precision(["1", "0"], [1, 0]) == (1.0, 1, 2)
    assert m.mean_reciprocal_rank(["1", "0"], [1, 0]) == (1.0, 1, 2)
    assert m.mean_hit_rate([1, 0], [1, 0]) == (1.0, 1, 2)


@pytest.mark.parametrize(("values", "n_total"), [([], 0), ([np.nan], 1)])
def test_a_mean_of_nothing_is_undefined(values, n_total):
    value, n, total = m.mean(values)
    assert math.isnan(value)
    assert (n, total) == (0, n_total)


# --- the registry -------------------------------------------------------------------------------


def test_registered_names():
    assert list(m.MEASURES) == (
        "F Fe nDCG T Tu P R F1 nDCG_usual hit RR AP".split()  # noqa: SIM905
    )
    assert all(name == measure.name for name, measure in m.MEASURES.items())


def test_a_name_is_registered_once():
    with pytest.raises(UsageError, match="already a measure named T"):
        m.register(m.MEASURES["T"])


def test_which_measures_need_what():
    assert {name for name, measure in m.MEASURES.items() if measure.has_alpha} == {
        "F", "Fe", "T", "Tu",
    }  # fmt: skip
    assert {name for name, measure in m.MEASURES.items() if measure.needs_relevant} == {
        "F", "R", "F1", "nDCG_usual", "AP",
    }  # fmt: skip


@few
@given(tables(), alphas)
def test_columns_determine_the_measure(rows, alpha):
    for measure in m.MEASURES.values():
        alone = measure.evaluate(rows[list(measure.columns)], alpha)
        assert_array_equal(alone, measure.evaluate(rows, alpha))


def test_no_smaller_set_of_columns_determines_the_measure():
    rows = pd.DataFrame(
        {
            "n_positives": [1, 2, 1, 1, 1, 1, 0],
            "K": [3, 3, 4, 3, 3, 3, 3],
            "Np": [2, 2, 2, 3, 2, 2, 2],
            "n_positives_2k": [2.0, 2.0, 2.0, 2.0, 1.0, 2.0, 2.0],
            "pattern": ["100", "110", "1000", "100", "100", "001", "000"],
        }
    )
    for measure in m.MEASURES.values():
        values = measure.evaluate(rows, 0.5).round(12)
        for column in measure.columns:
            rest = [other for other in measure.columns if other != column]
            groups = [rows[other] for other in rest] or [np.zeros(len(rows))]
            assert pd.Series(values).groupby(groups).nunique().max() > 1, (measure.name, column)


def test_a_missing_column_is_named():
    with pytest.raises(UsageError, match=r"F needs the column\(s\) K, Np"):
        m.MEASURES["F"].evaluate({"n_positives": [1]}, 0.5)


def test_a_missing_alpha_is_named():
    with pytest.raises(UsageError, match="T needs an alpha"):
        m.MEASURES["T"].evaluate({"n_positives": [1], "K": [2]})


def test_an_unknown_measure_is_named_with_what_there_is():
    with pytest.raises(UsageError, match="No measure is named Q; there are F, Fe, nDCG"):
        m.lookup(["F", "Q"])
