"""The numbers of what goes beyond the paper, on made data and on cases worked by hand."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import made_data
from retrieval_quality.exhibits import alpha, board, catalogue, exactness, intervals, ranges, recall
from retrieval_quality.exhibits.heatmap import Difference
from retrieval_quality.measures import segments
from retrieval_quality.parameters import Parameters
from retrieval_quality.statistics import correlation, evidence
from retrieval_quality.statistics.evidence import Cells

ROOT = Path(__file__).parents[1]
RUN = Parameters(min_samples_ratio=5)
STUDIES = list(catalogue.STUDIES.values())


@pytest.fixture(autouse=True)
def few_replicates(monkeypatch):
    monkeypatch.setattr(ranges, "REPLICATES", 40)
    monkeypatch.setattr(ranges, "CELL_REPLICATES", 40)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return made_data.write(tmp_path_factory.mktemp("studies"), made_data.records(n_texts=8))


def made_cells(values, segments=("0.5", "0.5", "1.0")):
    values = np.asarray(values, dtype=float)
    frame = pd.DataFrame(
        {"dataset": "A", "embedding": ["x", "y", "x"], "segment": segments, "n": [10, 20, 40]}
    )
    return Cells(frame, {"T": values}, np.ones_like(values), {})


def test_each_ratio_lies_in_one_range():
    for ratio in np.arange(1, 100) / 10:
        inside = [n for n, (low, high) in segments.RANGES.items() if low <= round(ratio, 1) <= high]
        assert inside == [segments.range_of(f"{ratio:.1f}")]


def test_cells_are_averaged_with_the_same_weight_and_their_rows_added():
    cells = made_cells([[0.2, 0.4, 0.9], *([[0.1, 0.3, 0.8]] * 20), *([[0.5, 0.7, 1.0]] * 20)])
    pooled = ranges.pool(cells, {"T": cells.values["T"]})
    assert pooled["position"].tolist() == ["≤ 0.5", "1.0"]
    assert pooled["value"].tolist() == pytest.approx([0.3, 0.9])
    assert pooled["low"].tolist() == pytest.approx([0.2, 0.8])
    assert pooled["high"].tolist() == pytest.approx([0.6, 1.0])
    assert pooled["n"].tolist() == [30, 40]
    assert pooled["cells"].tolist() == [2, 1]


def test_a_cell_that_is_undefined_is_left_out_and_a_range_without_any_says_why():
    cells = made_cells([[np.nan, 0.4, np.nan]] * 41)
    pooled = ranges.pool(cells, {"T": cells.values["T"]})
    assert pooled["value"].tolist() == pytest.approx([0.4, math.nan], nan_ok=True)
    assert pooled["n"].tolist() == [20, 0]
    assert pooled["reason"].tolist() == ["", "undefined in every segment"]


def test_an_interval_of_many_undefined_replicates_is_undefined():
    sample = np.arange(100.0)
    sample[:6] = np.nan
    assert np.isnan(ranges.interval(sample)).all()
    sample[:5], sample[5] = np.nan, 5
    assert not np.isnan(ranges.interval(sample)).any()


def test_what_recall_keeps_is_a_ratio_and_undefined_where_recall_may_be_0():
    replicates = 40
    clear = {"T": [[0.2] * 3] * (1 + replicates), "R": [[0.4] * 3] * (1 + replicates)}
    cells = made_cells([[0.0] * 3] * (1 + replicates))
    cells.values.update({name: np.array(values) for name, values in clear.items()})
    everything = np.ones(3, dtype=bool)
    assert recall._share_kept(cells, "T", "A", "all", everything)[3:6] == pytest.approx(
        (0.5, 0.5, 0.5)
    )
    cells.values["R"][1::2] *= -1
    found = recall._share_kept(cells, "T", "A", "all", everything)
    assert math.isnan(found[3])
    assert "cannot be told from 0" in found[-1]


def test_the_best_measure_is_level_with_those_whose_difference_may_be_0():
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 0.01, 41)
    noise[0] = 0
    samples = {"T": 0.5 + noise, "P": 0.495 - noise, "hit": 0.1 + noise}
    assert board.best_and_level(samples) == ("T", ["P"])


@pytest.mark.parametrize("entry", STUDIES, ids=lambda entry: entry.anchor)
def test_every_study_keeps_its_own_checks(entry, made):
    result = entry.compute(made, RUN)
    assert result.missing or len(result.numbers)
    assert [told for told, holds in entry.checks(result) if not holds] == []
    if "min_samples_ratio" in entry.uses:
        assert entry.caption(RUN).endswith("Segments of fewer than 5 graded rows are left out.")


def altered(records, grade):
    for row in records["graded"]:
        row["grade"] = grade
    return records


@pytest.mark.parametrize("grade", [None, 3], ids=["no grade", "constant"])
def test_without_varying_grades_nothing_is_claimed(grade, tmp_path):
    dataset = made_data.write(tmp_path, altered(made_data.records(n_texts=2), grade))
    for entry in STUDIES:
        result = entry.compute(dataset, Parameters(min_samples_ratio=1))
        if entry.anchor in ("study-recall-across", "study-exact-figures"):
            continue  # the first is about recall, the second about whatever is defined
        for name in {"value", "kept", "difference"} & set(result.numbers):
            assert result.numbers[name].isna().all(), entry.anchor
            assert (result.numbers["reason"] != "").all(), entry.anchor


def test_too_few_rows_are_said(made):
    run = Parameters(min_samples_ratio=10_000)
    result = catalogue.find("study-recall-predicts").compute(made, run)
    assert result.numbers.empty
    assert "No segment has 10000 graded rows" in result.missing


def test_differences_are_those_of_their_sides_and_stand_only_by_their_rate(made):
    found = intervals.marked_differences(made, RUN)
    sides = found["correlation_first"] - found["correlation_second"]
    assert found["difference"].to_numpy() == pytest.approx(sides.to_numpy(), nan_ok=True)
    assert (found["stands"] == (found["q_value"] <= 0.05)).all()
    counted = intervals.standing(made, RUN)
    assert (
        counted["stand"].sum()
        == found["stands"].sum()
        + intervals.marked_differences(made, RUN, require_2k=True)["stands"].sum()
    )


def test_a_fixed_alpha_is_used_for_differences(made):
    run = Parameters(min_samples_ratio=5, alpha=0.25)
    found = intervals.marked_differences(made, run)
    assert found.loc[found["first"] == "T", "alpha_first"].dropna().unique().tolist() == [0.25]


def test_exact_steps_add_up_to_the_exact_maximum(made):
    cells = exactness.exact_cells(made, RUN)
    total = cells["published"] + cells["ties"] + cells["grid"]
    assert total.to_numpy() == pytest.approx(cells["exact"].to_numpy(), nan_ok=True)
    assert (cells["grid"].dropna() > -1e-9).all()


def test_the_picked_alpha_is_the_best_of_the_mean(made):
    result = catalogue.find("study-alpha-pick").compute(made, RUN)
    every = result.numbers.set_index("range").loc["all"]
    rows = made.scored()
    by_alpha = {}
    for one in (0.0, 0.35, 0.5, float(every["alpha"]), 1.0):
        cells = correlation.correlate(rows, min_samples=5, measures=["T"], alpha=one)
        by_alpha[one] = cells.groupby("dataset", observed=True)["correlation"].mean().mean()
    assert max(by_alpha.values()) == pytest.approx(every["correlation"])
    assert every["lost"] >= 0
    assert every["within_low"] <= every["alpha"] <= every["within_high"]


def test_without_controls_a_plain_sentence_says_what_is_needed(made):
    result = catalogue.find("study-controls-gain").compute(made, RUN)
    assert "samples_controls.json" in result.missing


@pytest.fixture(scope="module")
def controlled(tmp_path_factory):
    """Answers without documents have grade 1, and reversed ones lose nothing."""
    records = made_data.records(n_texts=8)
    rows = []
    for row in records["graded"]:
        turned = {"rank": row["rank"][::-1], "inK": row["inK"][::-1]}
        rows.append({**row, **turned, "control": "reversed"})
        if row["K"] == 1:
            empty = {"K": 0, "rank": [], "inK": [], "P": None, "R": 0.0, "grade": 1}
            rows.append({**row, **empty, "control": "none"})
    records["controls"] = rows
    return made_data.write(tmp_path_factory.mktemp("controlled"), records)


def test_the_gain_is_the_grade_less_that_of_the_control(controlled):
    result = catalogue.find("study-controls-gain").compute(controlled, RUN)
    assert result.missing == ""
    by_kind = dict(list(result.numbers.groupby("series")))
    assert by_kind["the top K, worst first"]["value"].tolist() == pytest.approx(
        [0.0] * len(by_kind["the top K, worst first"])
    )
    rows = controlled.scored()
    alone = by_kind["no documents"]
    mean = np.average(alone["value"], weights=alone["n"])
    assert mean == pytest.approx((rows["grade"] - 1).mean())


def test_measures_are_correlated_with_the_gain(controlled):
    result = catalogue.find("study-controls-correlation").compute(controlled, RUN)
    gain = result.numbers[result.numbers["series"] == "R"].reset_index(drop=True)
    cells = evidence.gather(controlled.scored(), min_samples=5, measures=["R"], replicates=40)
    grade = ranges.pool(cells, {"R": cells.values["R"]})
    # a grade of 1 without documents, for all: the gain orders answers as the grade does
    pd.testing.assert_frame_equal(gain, grade)
    assert gain["low"].notna().any()


def test_advice_counts_datasets():
    numbers = pd.DataFrame(
        {
            "position": ["1.0", "1.0"],
            "series": ["T", "P"],
            "level": ["P", ""],
            "value": [0.4, 0.5],
            "low": [0.3, 0.4],
            "reason": ["", ""],
        }
    )
    (told,) = board._advice(numbers)
    assert told == (
        "K/N_p 1.0: P is best, or not told from the best, in all 2 datasets; alone and above "
        "0 in one."
    )


def test_each_difference_of_the_paper_has_its_intervals():
    for entry in (*catalogue.FIGURES.values(), *catalogue.EXTRAS):
        if isinstance(entry, Difference):
            study = catalogue.interval_study(entry)
            assert (study.measures, study.dataset) == (entry.measures, entry.dataset)
            assert study.require_2k == entry.require_2k


def test_the_coverage_of_the_checkout_is_read_with_its_numbers():
    found = intervals.coverage()
    assert found is not None
    assert found["coverage"].between(0, 1).all()
    assert found["minus"].notna().all()
    assert len(intervals.coverage_notes(found)) == found["queries"].nunique()


@pytest.mark.parametrize("coefficient", ["pearson", "kendall_b", "kendall_c"])
@pytest.mark.parametrize(
    "anchor", ["study-recall-predicts", "study-recall-across", "study-which-courses"]
)
def test_studies_are_of_the_coefficient_that_is_asked_for(made, anchor, coefficient):
    entry = catalogue.STUDIES[anchor]
    ranked, other = (
        entry.compute(made, Parameters(min_samples_ratio=5, coefficient=name))
        for name in ("spearman", coefficient)
    )
    assert other.coefficient == coefficient
    assert (
        other.exhibit.values_named(other).split("'")[0]
        == {"p": "Pearson", "k": "Kendall"}[coefficient[0]]
    )
    assert not other.numbers["value"].equals(ranked.numbers["value"])


@pytest.mark.parametrize("notebook", ["recall", "which-measure"])
def test_the_notebooks_name_the_number_of_replicates(notebook, request):
    request.getfixturevalue("monkeypatch").undo()
    text = (ROOT / "notebooks" / f"{notebook}.md").read_text(encoding="utf-8")
    assert f"{ranges.REPLICATES} replicates" in text


def test_the_page_of_intervals_names_their_replicates_and_the_least_p_value(monkeypatch):
    monkeypatch.undo()
    text = (ROOT / "notebooks" / "intervals.md").read_text(encoding="utf-8")
    assert f"**Intervals.** {ranges.CELL_REPLICATES:,} times" in text
    assert f"2/{ranges.CELL_REPLICATES + 1}" in text


def test_measures_that_cannot_be_told_apart_are_named():
    cells = made_cells([[0.2, np.nan, 0.9]] * 3)
    cells.values["P"], cells.values["R"] = cells.values["T"].copy(), cells.values["T"] + 0.1
    (told,) = ranges.that_coincide(cells, ("T", "R", "P"))
    assert told.startswith("T and P order the rows of every segment alike")
    assert ranges.that_coincide(cells, ("T", "R")) == []


def test_the_picture_of_optimism_shows_the_same_segments_for_every_alpha(made):
    result = catalogue.STUDIES["study-alpha-optimism"].compute(made, RUN)
    by = ["panel", "position"]
    assert (result.numbers.groupby(by)["n"].nunique() == 1).all()
    defined = result.numbers.groupby(by)["cells"].transform("nunique") == 1
    means = result.numbers[defined].pivot(index=by, columns="series", values="value").dropna()
    assert len(means)
    assert means.le(means[alpha.BEST] + 1e-8, axis=0).all().all()


def test_where_nothing_can_be_cross_fitted_that_is_said(made, monkeypatch):
    monkeypatch.setattr(alpha, "scored_rows", lambda *_: made.scored().assign(grade=3.0))
    result = catalogue.STUDIES["study-alpha-optimism"].compute(made, RUN)
    assert result.notes[0] == "No segment has a cross-fitted value."
    assert not [note for note in result.notes if "nan" in note]
