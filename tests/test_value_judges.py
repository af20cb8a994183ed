"""What noise allows and whether people say the same, on rows whose law is known."""

import numpy as np
import pandas as pd
import pytest

from retrieval_quality.statistics import agreement, value, value_judges
from retrieval_quality.statistics.value_worlds import World, draw


@pytest.fixture(scope="module")
def rows():
    return draw(World(), 400, seed=21).assign(dataset="A").assign(id=renamed)


def renamed(rows):
    return rows["id"].str.replace("W-", "A-")


def people(rows, seed, noise=0.8, size=300, judge=None):
    """Three people grade some answers: the grade of the rows with noise of their own."""
    rng = np.random.default_rng(seed)
    chosen = rows.iloc[rng.choice(len(rows), size, replace=False)]
    base = (rows["grade"] if judge is None else judge).loc[chosen.index].to_numpy()
    human = chosen[["id", "E", "Nc", "Np", "K", "grade"]].copy()
    for person in (1, 2, 3):
        given = np.clip(np.round(base + noise * rng.normal(size=size)), 1, 5)
        human[f"grade_human_{person}"] = np.where(rng.random(size) < 0.1, np.nan, given)
    return human.reset_index(drop=True)


def test_an_answer_graded_again_tells_the_noise_of_the_judge(rows):
    found = value_judges.reliabilities(rows)
    one, why = found[value_judges.ANSWER, "A"]
    assert why == ""
    expected = rows["grade"].corr(rows["grade_repeat"], method="spearman")
    assert one.value == pytest.approx(expected, abs=0.02)
    low, high = one.interval()
    assert low < expected < high
    table = value_judges.noise(found)
    table = table[table["source"] == value_judges.ANSWER].set_index("dataset")
    assert table.loc["A", "highest"] == pytest.approx(np.sqrt(one.value))
    assert table.loc["all", "reliability"] == pytest.approx(one.value)


def test_less_noise_is_more_reliable():
    values = []
    for noise in (0.3, 1.0, 3.0):
        found = value_judges.reliabilities(draw(World(noise=noise), 300, seed=2))
        values.append(found[value_judges.ANSWER, "W"][0].value)
    assert values == sorted(values, reverse=True)
    assert values[0] > 0.8
    assert values[2] < 0.4


def test_the_interval_of_the_reliability_holds_the_truth_as_often_as_it_says():
    truth = value_judges.reliabilities(draw(World(), 20_000, seed=0))[value_judges.ANSWER, "W"][0]
    holds = 0
    for seed in range(100):
        one = value_judges.reliabilities(draw(World(), 60, seed=seed + 1))[value_judges.ANSWER, "W"]
        low, high = one[0].interval()
        holds += low <= truth.value <= high
    assert holds >= 88


def test_lists_that_were_found_twice_are_grades_given_again():
    graded = pd.DataFrame(
        {
            "id": ["A-0"] * 4 + ["A-1"] * 2,
            "Nc": 5,
            "Np": 2,
            "K": [2, 2, 2, 2, 3, 3],
            "rank": [[0, 1], [0, 1], [1, 0], [0, 1], [0, 1, 2], [0, 2, 1]],
            "grade": [4.0, 5.0, 1.0, np.nan, 3.0, 3.0],
        }
    )
    found = value_judges.repeated_lists(graded)
    assert found[["id", "grade"]].to_numpy().tolist() == [["A-0", 4.0], ["A-0", 5.0]]


def test_repeated_lists_tell_the_same_as_repeated_grades(rows):
    part = rows[["id", "grade", "grade_repeat"]].reset_index(names="group")
    again = part.drop(columns="grade").rename(columns={"grade_repeat": "grade"})
    lists = pd.concat([part.drop(columns="grade_repeat"), again])
    found = value_judges.reliabilities(rows, lists)
    told = found[value_judges.LIST, "A"][0], found[value_judges.ANSWER, "A"][0]
    assert told[0].value == pytest.approx(told[1].value)


def test_correction_undoes_noise(rows):
    found = value_judges.reliabilities(rows)
    noisy = value_judges.corrected(rows, found, names=["R"]).set_index("source")
    one = noisy.loc[value_judges.ANSWER]
    assert one["corrected"] > one["correlation"] > 0
    root = np.sqrt(found[value_judges.ANSWER, "A"][0].value)
    assert one["corrected"] == pytest.approx(one["correlation"] / root)
    clean = draw(World(noise=0.05), 400, seed=21)
    better = value_judges.corrected(clean, value_judges.reliabilities(clean), names=["R"])
    own = better[better["source"] == value_judges.ANSWER].iloc[0]
    assert own["corrected"] - own["correlation"] < 0.03


def test_where_nothing_was_graded_again_there_is_a_reason(rows):
    plain = rows.drop(columns="grade_repeat")
    table = value_judges.noise(value_judges.reliabilities(plain))
    assert table["reliability"].isna().all()
    assert (table["reason"] != "").all()
    assert value_judges.corrected(plain, value_judges.reliabilities(plain)).empty
    kept = value_judges.reliabilities(plain.assign(grade_repeat=plain["grade"]))
    assert "agree" in kept[value_judges.ANSWER, "A"][1]
    same = value_judges.reliabilities(rows.assign(grade=3.0, grade_repeat=3.0))
    assert same[value_judges.ANSWER, "A"][1] == "all grades are equal"


def test_people_who_see_what_the_llm_sees_change_nothing(rows):
    found = value_judges.judges(rows, people(rows, 1))
    part = found[found["dataset"] == "all"].set_index(["what", "judge"])
    for what in ("T − R", "T − F"):
        llm, person, change = (part.loc[(what, j)] for j in ("LLM", "people", "people − LLM"))
        assert change["value"] == pytest.approx(person["value"] - llm["value"])
        assert change["low"] < 0 < change["high"]
        assert change["high"] - change["low"] < person["high"] - person["low"]
    assert part.loc[("R", "people"), "n"] == 300


def test_people_who_count_only_positives_change_the_lead(rows):
    count = (1.0 + rows["n_positives"]).clip(upper=5)
    found = value_judges.judges(rows, people(rows, 1, judge=count))
    part = found[found["dataset"] == "all"].set_index(["what", "judge"])
    assert part.loc[("T − R", "people"), "low"] > 0
    assert part.loc[("T − R", "people − LLM"), "low"] > 0


def test_gains_of_knowing_are_put_to_people_too(rows):
    one = value.fit(rows)[0]
    known = one.rows.assign(**{f"known_{k}": p.mean for k, p in one.predictions.items()})
    found = value_judges.judges(known, people(rows, 1)).set_index(["what", "dataset", "judge"])
    assert found.loc[("N_p known", "all", "people"), "low"] > 0
    assert found.loc[("N_p known", "all", "LLM"), "low"] > 0


def test_agreement_is_krippendorffs(rows):
    human = people(rows, 3)
    found = value_judges.agree(rows, human).set_index(["between", "dataset"])
    every = agreement.pairwise(agreement.read_grades(human), [np.arange(len(human))])
    assert found.loc[("LLM and a person", "all"), "agreement"] == pytest.approx(every["llm"][0])
    assert found.loc[("two persons", "all"), "agreement"] == pytest.approx(every["people"][0])
    row = found.loc[("difference", "all")]
    assert row["low"] < row["agreement"] < row["high"]
    assert row["low"] > 0  # the people copy the LLM with noise, so each is nearer to it


def test_one_query_or_equal_grades_have_no_agreement_but_a_reason(rows):
    human = people(rows, 3)
    for change in ({"id": "A-0"}, {"grade": 3.0, **{f"grade_human_{i}": 3.0 for i in (1, 2, 3)}}):
        found = value_judges.agree(rows, human.assign(**change))
        undefined = found[found["agreement"].isna() | found["low"].isna()]
        assert len(undefined)
        assert (undefined["reason"] != "").all()


def test_people_of_rows_that_are_not_there_are_left_out(rows):
    human = people(rows, 1).assign(id="A-9999")
    found = value_judges.judges(rows, human)
    assert len(found)
    assert found["value"].isna().all()
    assert (found["reason"] != "").all()
    assert value_judges.agree(rows, human)["agreement"].isna().all()
