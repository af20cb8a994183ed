"""Graders against graders: published values, hand-worked values, missing grades, matching."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau

import stored_data
from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.statistics import agreement

N = None

# Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), example C:
# four observers, twelve units, missing data.
OBSERVERS = pd.DataFrame(
    {
        "grade": [1, 2, 3, 3, 2, 1, 4, 1, 2, N, N, N],
        "grade_human_1": [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, N, 3],
        "grade_human_2": [N, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, N],
        "grade_human_3": [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, N],
    }
)


@pytest.mark.parametrize(
    ("level", "alpha"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)]
)
def test_krippendorffs_own_example(level, alpha):
    value, n, reason = agreement.krippendorff_alpha(OBSERVERS, level)
    assert value == pytest.approx(alpha, abs=5e-4)
    assert (n, reason) == (11, "")  # the twelfth unit has one grade alone


def test_nominal_alpha_by_hand():
    """Units (1,1) (2,2) (1,2): Do = 2/6, De = 2*3*3/(6*5), alpha = 1 - 5/9."""
    pair = pd.DataFrame({"a": [1, 2, 1], "b": [1, 2, 2]})
    assert agreement.krippendorff_alpha(pair, "nominal")[0] == pytest.approx(4 / 9)


def test_full_agreement_is_one_and_opposition_below_zero():
    grades = pd.DataFrame({"a": [1, 3, 5], "b": [1, 3, 5], "c": [5, 1, 1]})
    for level in agreement.LEVELS:
        assert agreement.krippendorff_alpha(grades[["a", "b"]], level)[0] == 1
        assert agreement.krippendorff_alpha(grades[["a", "c"]], level)[0] < 0


@pytest.mark.parametrize(
    ("first", "second", "n", "reason"),
    [
        ([], [], 0, "fewer than two samples with two grades"),
        ([4, N], [N, 5], 0, "fewer than two samples with two grades"),
        ([4, 3], [5, N], 1, "fewer than two samples with two grades"),
        ([4, 4, 1], [4, 4, N], 2, "all grades are the same"),
    ],
)
def test_undefined_is_nan_with_a_reason(first, second, n, reason):
    grades = pd.DataFrame({"a": first, "b": second}, dtype=float)
    value, used, why = agreement.krippendorff_alpha(grades)
    assert math.isnan(value)
    assert (used, why) == (n, reason)


def test_an_unknown_level_is_refused():
    with pytest.raises(UsageError, match="nominal, ordinal, interval, not ratio"):
        agreement.krippendorff_alpha(OBSERVERS, "ratio")


def test_groups_and_datasets():
    human = OBSERVERS.assign(id=["Hp-e-1", "A-2"] * 6)
    table = agreement.agree(human, ("ordinal",))
    assert table["dataset"].unique().tolist() == ["all", "A", "Hp"]
    assert table[table["dataset"] == "all"]["graders"].tolist() == [
        "LLM and humans",
        "humans",
        "LLM, human 1",
        "LLM, human 2",
        "LLM, human 3",
        "human 1, human 2",
        "human 1, human 3",
        "human 2, human 3",
    ]
    one = table.set_index(["dataset", "graders"]).loc[("all", "LLM, human 1")]
    pair = OBSERVERS[["grade", "grade_human_1"]]
    assert one["alpha"] == agreement.krippendorff_alpha(pair, "ordinal")[0]
    assert (one["n"], one["n_total"]) == (9, 12)


def test_without_ids_there_are_no_datasets():
    assert agreement.agree(OBSERVERS)["dataset"].unique().tolist() == ["all"]


def test_two_people_without_an_llm():
    table = agreement.agree(OBSERVERS[["grade_human_1", "grade_human_2"]], ("ordinal",))
    assert table["graders"].tolist() == ["humans"]


def test_confusion():
    table = agreement.confusion(OBSERVERS, "grade", "grade_human_3")
    assert table.shape == (5, 5)
    assert table.to_numpy().sum() == 9
    assert table.loc[1, 4] == 1
    assert np.trace(table) == 8
    swapped = agreement.confusion(OBSERVERS, "grade_human_3", "grade")
    assert (swapped.to_numpy() == table.to_numpy().T).all()


def test_confusion_with_all_people_adds_theirs():
    people = ("grade_human_1", "grade_human_2", "grade_human_3")
    each = sum(agreement.confusion(OBSERVERS, "grade", name).to_numpy() for name in people)
    assert (agreement.confusion(OBSERVERS).to_numpy() == each).all()


def test_confusion_of_a_grader_with_itself_is_diagonal():
    table = agreement.confusion(OBSERVERS, "grade", "grade")
    assert np.diag(table).tolist() == [3, 3, 2, 1, 0]
    assert table.to_numpy().sum() == 9


def test_an_unknown_grader_is_refused():
    with pytest.raises(UsageError, match="No grader is grade_human_9; there are grade, grade_"):
        agreement.confusion(OBSERVERS, "grade", "grade_human_9")


@pytest.mark.parametrize("wrong", [0, 6, 4.5, "N/A", "", math.inf])
def test_a_grade_that_is_none_is_refused_by_row_and_id(wrong):
    human = pd.DataFrame({"id": ["A-1", "A-2"], "grade_human_1": [4, wrong]}, dtype=object)
    with pytest.raises(DataError, match=r"record 2 \(id A-2\): grade_human_1 is"):
        agreement.read_grades(human)


@pytest.mark.parametrize("dtype", ["object", "Int64", "float64", "str"])
def test_any_spelling_of_whole_numbers_is_read(dtype):
    human = pd.DataFrame({"grade_human_1": pd.Series([4, 5, N], dtype="Int64").astype(dtype)})
    assert agreement.read_grades(human)["grade_human_1"].tolist()[:2] == [4.0, 5.0]
    assert math.isnan(agreement.read_grades(human)["grade_human_1"].iloc[2])


def test_a_file_without_people_is_refused():
    with pytest.raises(DataError, match=r"no column grade_human_<n>; it has grade, id"):
        agreement.graders(pd.DataFrame({"grade": [1], "id": ["A-1"]}))


def test_mean_human_grade():
    means = agreement.mean_human_grade(OBSERVERS)
    assert means["grade_human"].iloc[5] == 3  # 2, 3, 4; the LLM's 1 is not theirs
    assert means["n_humans"].tolist() == [2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 2, 1]


# --- matching -----------------------------------------------------------------------------------

SCORED = pd.DataFrame(
    {
        "id": pd.Categorical(["A-1", "A-1", "A-2", "M-1"]),
        "E": pd.Categorical(["ME5S", "ME5S", "AML12v2", "ME5S"]),
        "Nc": [9, 9, 9, 9],
        "Np": [2, 2, 2, 2],
        "K": [2, 4, 2, 2],
        "grade": [1.0, 2.0, 3.0, np.nan],
    }
)
KEYS = ["id", "E", "Nc", "Np", "K"]


def graded_by_people(rows):
    human = SCORED.loc[rows, [*KEYS, "grade"]].astype({"id": str, "E": str}).reset_index(drop=True)
    return human.assign(grade_human_1=4, grade_human_2=5)


def test_rows_are_matched_by_their_keys_in_the_order_of_the_file():
    matched = agreement.human_scored(graded_by_people([3, 1]), SCORED)
    assert matched.rows["id"].tolist() == ["M-1", "A-1"]
    assert matched.rows["K"].tolist() == [2, 4]
    assert matched.rows["grade_human"].tolist() == [4.5, 4.5]
    assert matched.rows["grade"].fillna(0).tolist() == [0, 2]
    assert (matched.n_total, matched.absent, matched.ambiguous) == (2, 0, 0)
    assert matched.reason == ""


def test_plot_labels_of_embeddings_are_matched():
    human = graded_by_people([0, 2]).replace({"E": {"ME5S": "EM", "AML12v2": "AM"}})
    assert agreement.human_scored(human, SCORED).rows["id"].tolist() == ["A-1", "A-2"]


def test_what_cannot_be_matched_is_counted_with_its_reason():
    human = graded_by_people([0, 1, 2])[["id", "K", "grade", "grade_human_1"]]
    human.loc[1, "K"] = 99
    human.loc[2, "grade_human_1"] = None
    human.loc[2, "grade"] = 5
    matched = agreement.human_scored(human, SCORED)
    assert len(matched.rows) == 2
    assert (matched.absent, matched.ambiguous) == (1, 0)
    assert (matched.ungraded, matched.regraded) == (1, 1)
    for said in (
        "1 of 3 human-graded rows: no scored row has the same id, K.",
        "1 of 3 human-graded rows: matched, but graded by no person.",
        "1 of 3 human-graded rows: the LLM's grade differs",
    ):
        assert said in matched.reason


def test_a_row_that_fits_several_is_left_out():
    matched = agreement.human_scored(graded_by_people([0, 2])[["id", "grade_human_1"]], SCORED)
    assert matched.rows["id"].tolist() == ["A-2"]
    assert matched.ambiguous == 1
    assert "more than one scored row has the same id, and there is no other key" in matched.reason


def test_rows_without_any_key_cannot_be_matched():
    matched = agreement.human_scored(OBSERVERS, SCORED)
    assert len(matched.rows) == 0
    assert {*SCORED.columns, "grade_human", "n_humans"} == set(matched.rows.columns)
    assert (matched.n_total, matched.absent) == (12, 12)
    assert "none of 12 human-graded rows can be matched" in matched.reason


def test_keys_that_are_no_numbers_match_nothing():
    human = graded_by_people([0]).astype({"Nc": object})
    human.loc[0, "Nc"] = "many"
    assert agreement.human_scored(human, SCORED).absent == 1


def test_reference_rows_all_match():
    human, graded = (
        pd.DataFrame(stored_data.read_json(f"reference/samples_{name}.json"))
        for name in ("human", "graded")
    )
    matched = agreement.human_scored(human, graded[[*KEYS, "grade"]])
    assert (len(matched.rows), matched.reason) == (240, "")
    assert matched.rows["n_humans"].sum() == 219 + 215 + 225


# --- measures against both ----------------------------------------------------------------------


def graded_twice(people, llm, dataset="A"):
    n = len(people)
    return pd.DataFrame(
        {
            "dataset": pd.Categorical([dataset] * n),
            "E": pd.Categorical(["ME5S", "AML12v2"] * n)[:n],
            "K": [4] * n,
            "Np": [4] * n,
            "n_positives": [i % 5 for i in range(n)],
            "grade": llm,
            "grade_human": people,
        }
    )


def test_correlations_are_scipys_on_the_rows_that_both_graded():
    rng = np.random.default_rng(3)
    people = rng.integers(3, 16, 60) / 3
    llm = rng.integers(1, 6, 60).astype(float)
    people[5], llm[7] = np.nan, np.nan
    rows = graded_twice(people, llm)
    table = agreement.correlate_graders(rows, measures=["R"], coefficients=["kendall_b"])
    used = rows.dropna()
    expected = [
        kendalltau(used["n_positives"], used[grader]).statistic
        for grader in ("grade_human", "grade")
    ]
    assert table["dataset"].tolist() == ["all", "A"]
    assert table["n"].tolist() == [58, 58]
    assert table[["people", "llm"]].to_numpy() == pytest.approx(np.array([expected] * 2), abs=1e-7)


def test_a_grade_that_never_varies_has_no_correlation_and_says_so():
    rows = graded_twice([4.0] * 20, [1.0, 2.0] * 10)
    table = agreement.correlate_graders(rows, measures=["R"])
    assert table["people"].isna().all()
    assert table["llm"].notna().all()
    assert (table["reason"] != "").all()


def test_cells_below_the_minimum_have_no_row():
    rows = pd.concat([graded_twice([1.0, 2, 3] * 4, [1.0, 2, 3] * 4, "Hp"),
                      graded_twice([1.0, 2, 3], [1.0, 2, 3], "A")])  # fmt: skip
    table = agreement.correlate_graders(rows, measures=["R"], min_samples=12)
    assert table["dataset"].tolist() == ["all", "Hp"]
    assert table["n"].tolist() == [15, 12]


def test_no_rows_give_no_cells():
    assert agreement.correlate_graders(graded_twice([], []), measures=["R"]).empty
