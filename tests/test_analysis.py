"""The numbers of figures and tables: against the rows they come from, and where there are none."""

import math
from collections import Counter
from dataclasses import replace

import pandas as pd
import pytest

import made_data
import stored_data
from retrieval_quality.data import dataset
from retrieval_quality.exhibits import catalogue, listings
from retrieval_quality.exhibits.heatmap import Correlation, difference
from retrieval_quality.parameters import Parameters
from retrieval_quality.statistics import correlation
from retrieval_quality.text import line

RUN = Parameters(min_samples_ratio=5, min_samples_width=10)
FIGURES = catalogue.FIGURES


def compute(exhibit, dataset, run=None):
    return exhibit.compute(dataset, run)


@pytest.fixture(scope="module")
def rows():
    made = made_data.records()
    for row in made["graded"][::7]:
        row["grade"] = None
    return made


@pytest.fixture(scope="module")
def data(tmp_path_factory, rows):
    return made_data.write(tmp_path_factory.mktemp("made"), rows)


def ratio(row):
    return str(round(row["K"] / row["Np"], 1))


def of(rows, name):
    return [row for row in rows["graded"] if row["id"].split("-")[0] == name]


# --- distributions ------------------------------------------------------------------------------


def test_shares_are_the_counts_of_the_rows(data, rows):
    numbers = compute(FIGURES[2], data, RUN).numbers
    counted = Counter((r["E"], ratio(r), r["grade"]) for r in of(rows, "A") if r["grade"])
    sizes = Counter((r["E"], ratio(r)) for r in of(rows, "A") if r["grade"])
    totals = Counter((r["E"], ratio(r)) for r in of(rows, "A"))
    assert len(numbers) == 5 * sum(size >= 5 for size in sizes.values()) > 0
    for cell in numbers.itertuples():
        key = (cell.embedding, cell.segment)
        assert (cell.count, cell.n) == (counted[(*key, cell.grade)], sizes[key])
        assert cell.n_total == totals[key]
        assert cell.share == cell.count / cell.n
    sums = numbers.groupby(["embedding", "segment"])["share"].sum()
    assert sums.to_numpy() == pytest.approx(1)


def test_a_distribution_is_ordered_by_embedding_ratio_and_grade(data):
    numbers = compute(FIGURES[2], data, RUN).numbers
    assert list(numbers["embedding"].unique()) == ["AML12v2", "ME5S"]
    first = numbers[numbers["embedding"] == "AML12v2"]
    assert list(first["segment"].unique()) == sorted(first["segment"].unique(), key=float)
    assert list(numbers["grade"][:5]) == [1, 2, 3, 4, 5]


def test_rows_without_a_grade_are_counted_in_a_note(data, rows):
    result = compute(FIGURES[2], data, replace(RUN, min_samples_ratio=1))
    nulls = sum(row["grade"] is None for row in of(rows, "A"))
    assert result.notes == (
        f"{nulls} of {len(of(rows, 'A'))} rows of these segments do not count: they have no grade.",
    )
    assert result.n == len(of(rows, "A")) - nulls


# --- correlations -------------------------------------------------------------------------------


def directly(data, measure, coefficient="spearman", **options):
    options = {"min_samples": RUN.min_samples_ratio} | options
    found = correlation.correlate(
        data.scored(), measures=(measure,), coefficients=(coefficient,), **options
    )
    keys = ["dataset", "embedding", "segment"]
    return found.astype(dict.fromkeys(keys, "str")).set_index(keys)["correlation"]


def test_a_heatmap_holds_the_correlations_of_its_dataset(data):
    result = compute(FIGURES[31], data, RUN)
    expected = directly(data, "T").loc["A"]
    got = result.numbers.set_index(["embedding", "segment"])["correlation"].dropna()
    assert got.to_dict() == expected.dropna().to_dict()
    assert set(result.numbers["measure"]) == {"T"}


def test_heatmaps_of_correlations_share_a_symmetric_scale(data):
    results = [compute(e, data, RUN) for e in FIGURES.values() if isinstance(e, Correlation)]
    ((low, high),) = {result.limits for result in results if not result.missing}
    largest = max(r.numbers["correlation"].abs().max() for r in results if not r.missing)
    assert low == -high
    assert largest <= high < largest + 0.05 + 1e-9


@pytest.mark.parametrize("number", [7, 10, 13, 18])
def test_a_difference_is_that_of_the_two_correlations(data, number):
    entry = FIGURES[number]
    result = compute(entry, data, RUN)
    first, second = (directly(data, measure).loc["A"] for measure in entry.measures)
    got = result.numbers.set_index(["embedding", "segment"])["difference"].dropna()
    assert len(got) > 8
    assert got.to_dict() == (first - second).dropna().to_dict()


def test_a_coefficient_of_the_run_is_used(data):
    result = compute(FIGURES[6], data, replace(RUN, coefficient="kendall_b"))
    expected = directly(data, "F", "kendall_b").loc["A"]
    got = result.numbers.set_index(["embedding", "segment"])["correlation"].dropna()
    assert got.to_dict() == expected.dropna().to_dict()
    assert result.coefficient == "kendall_b"
    assert compute(FIGURES[23], data, RUN).coefficient == "pearson"


def test_a_fixed_alpha_is_used(data):
    result = compute(FIGURES[6], data, replace(RUN, alpha=0.5))
    assert set(result.numbers["alpha"].dropna()) == {0.5}
    exact = compute(FIGURES[6], data, replace(RUN, alpha="exact"))
    best, half = (r.numbers["correlation"].dropna() for r in (exact, result))
    assert (best >= half - 1e-8).all()


def test_differences_of_one_notebook_share_a_symmetric_scale(data):
    results = [compute(entry, data, RUN) for entry in catalogue.NOTEBOOKS["t-minus-f"].entries]
    low, high = results[0].limits
    assert {result.limits for result in results} == {(low, high)}
    largest = max(result.numbers["difference"].abs().max() for result in results)
    assert low == -high
    assert largest <= high < largest + 0.05 + 1e-9
    assert high / 0.05 == pytest.approx(round(high / 0.05))


def test_estimated_positives_need_the_row_of_2k(data, rows):
    result = compute(FIGURES[16], data, replace(RUN, min_samples_ratio=1))
    key = {(r["id"], r["E"], r["Nc"], r["Np"], r["K"]) for r in rows["graded"]}
    usable = Counter(
        (r["E"], ratio(r))
        for r in of(rows, "A")
        if r["grade"] and (r["id"], r["E"], r["Nc"], r["Np"], 2 * r["K"]) in key
    )
    got = result.numbers.set_index(["embedding", "segment"])["n"].to_dict()
    assert {cell: n for cell, n in got.items() if n} == dict(usable)
    assert "no graded row of 2K" in result.notes[0]


def test_a_cell_below_the_minimum_has_no_value_but_its_size(tmp_path):
    made = made_data.records(("A",), n_texts=8)
    dropped = [r for r in made["graded"] if r["E"] == "ME5S" and ratio(r) == "1.0"][3:]
    made["graded"] = [r for r in made["graded"] if r not in dropped]
    result = compute(FIGURES[7], made_data.write(tmp_path, made), RUN)
    cell = result.numbers.set_index(["embedding", "segment"]).loc[("ME5S", "1.0")]
    assert math.isnan(cell["difference"])
    assert (cell["n"], cell["reason"]) == (3, "3 graded rows, fewer than 5")
    grid = result.numbers.groupby("embedding").size()
    assert grid["ME5S"] == grid["AML12v2"]
    assert result.n == result.numbers.loc[result.numbers["n"] >= 5, "n"].sum()


def test_an_undefined_correlation_is_counted_with_its_reason(tmp_path):
    made = made_data.records(("A",))
    for row in made["graded"]:
        row["grade"] = 3
    result = compute(FIGURES[7], made_data.write(tmp_path, made), RUN)
    assert result.numbers["difference"].isna().all()
    assert set(result.numbers["reason"]) == {"the grade is constant"}
    cells = len(result.numbers)
    assert result.notes == (
        f"{cells} of {cells} cells have no value: the grade is constant ({cells}).",
    )
    assert result.limits == (-1.0, 1.0)


def test_narrow_and_wide_show_three_measures_on_one_scale(data):
    results = [compute(FIGURES[number], data, RUN) for number in (5, 23, 24, 25)]
    assert len({result.limits for result in results}) == 1
    low, high = results[0].limits
    for result in results:
        numbers = result.numbers
        assert list(numbers["measure"][:3]) == ["T", "nDCG", "F"]
        assert list(numbers["segment"].unique()) == ["narrow", "wide"]
        assert numbers["correlation"].dropna().between(low, high).all()
        assert len(numbers) == 5 * 2 * 2 * 3
    assert low <= 0 <= high


def test_the_best_alpha_is_never_below_precision(data):
    best = compute(FIGURES[31], data, RUN).numbers.set_index(["embedding", "segment"])
    precision = directly(data, "P").loc["A"].dropna()
    assert (best["correlation"].loc[precision.index] >= precision).all()


# --- what is shared -----------------------------------------------------------------------------


def test_figures_share_their_correlations_by_content(data, tmp_path, monkeypatch):
    calls = []
    real = correlation.correlate
    monkeypatch.setattr(
        correlation, "correlate", lambda *a, **k: calls.append(k["measures"]) or real(*a, **k)
    )
    run = replace(RUN, min_samples_ratio=4)
    for number in (6, 31, 7, 13, 18, 26):
        compute(FIGURES[number], data, run)
    assert len(calls) == 1
    other = made_data.write(tmp_path, made_data.records(seed=2))
    assert not compute(FIGURES[6], other, run).numbers.equals(
        compute(FIGURES[6], data, run).numbers
    )
    assert len(calls) == 2


def test_results_cannot_spoil_each_other(data):
    first = compute(FIGURES[7], data, RUN).numbers
    kept = first.copy()
    first.loc[:, "difference"] = 9.0
    pd.testing.assert_frame_equal(compute(FIGURES[7], data, RUN).numbers, kept)


# --- where there is nothing ---------------------------------------------------------------------


def test_no_segment_is_large_enough(data, rows):
    result = compute(FIGURES[6], data, Parameters())
    sizes = Counter((r["E"], ratio(r)) for r in of(rows, "A") if r["grade"])
    largest = max(sizes.values())
    assert result.missing.startswith("No segment of A has 300 graded rows (largest: ")
    assert f"largest: {largest} at K/N_p = " in result.missing
    assert result.numbers.empty
    assert list(result.numbers.columns) == list(correlation.COLUMNS)
    assert compute(FIGURES[5], data, Parameters()).missing.startswith("No segment has 100 graded")


@pytest.mark.parametrize("number", [2, 6, 7, 16])
def test_a_dataset_that_is_not_there(tmp_path, number):
    other = made_data.write(tmp_path, made_data.records(("M",)))
    result = compute(FIGURES[number], other, RUN)
    assert result.missing == "The data has no graded rows of A."
    assert result.numbers.empty
    assert len(result.numbers.columns) > 5


def test_three_rows_one_embedding(tmp_path):
    made = made_data.records(("A",), ("one",), n_texts=1, positives=(2,), top=3)
    small = made_data.write(tmp_path, made)
    for entry in catalogue.ENTRIES.values():
        result = compute(entry, small, Parameters())
        assert result.missing or len(result.numbers)
    run = Parameters(min_samples_ratio=1, min_samples_width=1)
    assert set(compute(FIGURES[2], small, run).numbers["n"]) == {1}
    cells = compute(FIGURES[6], small, run).numbers
    assert cells["correlation"].isna().all()
    assert set(cells["reason"]) == {"one row"}


def test_only_null_grades(tmp_path):
    made = made_data.records(("A",))
    for row in made["graded"]:
        row["grade"] = None
    empty = made_data.write(tmp_path, made)
    assert compute(FIGURES[2], empty, RUN).missing == "No segment of A has graded rows."
    assert compute(FIGURES[6], empty, RUN).missing == "No segment of A has graded rows."
    assert compute(catalogue.TABLES[2], empty, RUN).numbers["n_null"].tolist() == [72]


def test_an_unknown_dataset_can_be_asked_for(tmp_path):
    other = made_data.write(tmp_path, made_data.records(("wiki-x",)))
    result = compute(difference(("T", "F"), "wiki"), other, RUN)
    assert set(result.numbers["dataset"]) == {"wiki"}


# --- tables -------------------------------------------------------------------------------------


def test_ranked_samples_by_size(data):
    result = compute(catalogue.TABLES[1], data, RUN)
    numbers = result.numbers
    assert list(numbers["subset"].unique()) == ["A", "M", "N", "Hs-e", "Hp-h"]
    first = numbers.iloc[0].to_dict()
    assert first == {
        "subset": "A",
        "embedding": "each",
        "Nc": 8,
        "Np": 2,
        "K_low": 1,
        "K_high": 6,
        "n_r": 6,
        "n_g": 36,
    }
    assert result.n == 6 * 2 * 5 * 2
    assert "AM, EM" in result.notes[0]


def test_counts_by_subset(data, rows):
    numbers = compute(catalogue.TABLES[2], data, RUN).numbers.set_index("subset")
    for subset in ("A", "Hs-e"):
        mine = [r for r in rows["graded"] if r["id"].rpartition("-")[0] == subset]
        narrow = sum(r["K"] < r["Np"] for r in mine)
        got = numbers.loc[[subset]]
        weight = 2 if set(got["embedding"]) == {"each"} else 1
        assert weight * got["n_r"].sum() == 24
        assert weight * got["n_g"].sum() == len(mine)
        assert weight * got["n_gn"].sum() == narrow
        assert weight * got["n_gw"].sum() == len(mine) - narrow
        assert weight * got["n_null"].sum() == sum(r["grade"] is None for r in mine)


def test_embeddings_that_differ_have_rows_of_their_own(tmp_path):
    made = made_data.records(("A", "M"))
    made["graded"] = [r for r in made["graded"] if (r["id"], r["E"], r["K"]) != ("A-0", "ME5S", 1)]
    numbers = compute(catalogue.TABLES[2], made_data.write(tmp_path, made), RUN).numbers
    assert list(numbers["embedding"]) == ["ME5S", "AML12v2", "each"]
    assert list(numbers["n_g"]) == [70, 72, 72]


def test_a_single_graded_file_has_no_ranked_samples(tmp_path):
    graded = {"graded": made_data.records(("A",))["graded"]}
    alone = made_data.write(tmp_path, graded)
    assert "samples_ranked" in compute(catalogue.TABLES[1], alone, RUN).missing
    table = compute(catalogue.TABLES[2], alone, RUN)
    assert table.numbers["n_r"].isna().all()
    assert table.numbers["n_g"].tolist() == [72]
    assert "n_r is not known" in table.notes[0]
    for number in (21, 22, 30):
        assert "samples_" in compute(FIGURES[number], alone, RUN).missing


def test_tables_and_code_follow_the_choice_of_embeddings_and_datasets(data):
    run = replace(RUN, embeddings=("EM",), datasets=("Hs",))
    for number in (1, 2):
        numbers = compute(catalogue.TABLES[number], data, run).numbers
        assert set(numbers["subset"]) == {"Hs-e"}
        assert set(numbers["embedding"]) == {"ME5S"}
    assert compute(FIGURES[22], data, run).n == 12
    assert set(compute(FIGURES[4], data, run).numbers["embedding"]) == {"ME5S"}
    assert compute(FIGURES[2], data, run).missing == "The data has no graded rows of A."


# --- code ---------------------------------------------------------------------------------------


def test_relations_hold_on_made_data(data, rows):
    ranked, graded = (compute(FIGURES[number], data, RUN) for number in (22, 30))
    assert ranked.numbers["broken"].sum() == graded.numbers["broken"].sum() == 0
    assert set(ranked.numbers["rows"]) == {len(rows["ranked"])}
    assert set(graded.numbers["rows"]) == {len(rows["graded"])}
    assert "def relations_of_graded" in graded.text
    assert f"holds   {len(rows['graded'])} of {len(rows['graded'])}  len(rank) == K" in graded.text


BREAKS = {
    "len(rank) == K": {"rank": [1]},
    "len(inK) == K": {"inK": [1]},
    "sum(inK) <= Np": {"inK": [1, 1, 1, 1]},
    "K in K of its ranked sample": {"K": 9},
    "rank == rank[:K] of its ranked sample": {"rank": [3, 0, 1, 2]},
}


@pytest.mark.parametrize("relation", BREAKS)
def test_a_broken_graded_row_breaks_its_relation(relation):
    made = made_data.records(("A",), ("one",), n_texts=1, positives=(2,), top=4)
    good = made["graded"][3]
    assert good["K"] == 4
    graded = pd.DataFrame([good, good | BREAKS[relation]])
    held = listings.relations_of_graded(graded, pd.DataFrame(made["ranked"]))
    assert [bool(value) for value in held[relation]] == [True, False]
    assert all(bool(next(iter(values))) for values in held.values())


@pytest.mark.parametrize(
    ("relation", "change"),
    [
        ("len(P) == len(R) == len(K)", {"P": [1.0]}),
        ("len(rank) == Nc", {"rank": [0, 1]}),
        ("Nc <= len(p) + len(n)", {"Nc": 11}),
        ("Np <= len(p)", {"Np": 3}),
        ("Np < Nc", {"Nc": 2}),
        ("Nc >= 2", {"Nc": 1}),
        ("Np >= 2", {"Np": 1}),
    ],
)
def test_a_broken_ranked_row_breaks_its_relation(relation, change):
    made = made_data.records(("A",), ("one",), n_texts=1, positives=(2,))
    good = made["ranked"][0]
    held = listings.relations_of_ranked(
        pd.DataFrame([good, good | change]), pd.DataFrame(made["texts"])
    )
    assert [bool(value) for value in held[relation]] == [True, False]


def test_a_row_without_its_other_file_breaks_the_relations_between_them():
    made = made_data.records(("A",), ("one",), n_texts=2, positives=(2,))
    graded = pd.DataFrame(made["graded"])
    held = listings.relations_of_graded(graded, pd.DataFrame(made["ranked"][:1]))
    there = [row["id"] == "A-0" for row in made["graded"]]
    assert [bool(v) for v in held["K in K of its ranked sample"]] == there
    assert [bool(v) for v in held["rank == rank[:K] of its ranked sample"]] == there
    ranked = listings.relations_of_ranked(
        pd.DataFrame(made["ranked"]), pd.DataFrame(made["texts"][:1])
    )
    assert [bool(v) for v in ranked["Np <= len(p)"]] == [True, False]


def test_broken_rows_are_counted_and_the_first_is_named(tmp_path):
    made = made_data.records(("A",), ("one",), n_texts=2, positives=(2,))
    frames = {part: pd.DataFrame(rows) for part, rows in made.items()}
    frames["ranked"].at[1, "Np"] = 3
    broken = dataset.store(
        frames, name="x", source="x", digest="b" * 64, simulated=False, cache=tmp_path
    )
    result = compute(FIGURES[22], broken, RUN)
    row = result.numbers.set_index("relation").loc["Np <= len(p)"]
    assert (row["broken"], row["first_broken"]) == (1, "A-1 one Nc=8 Np=3")
    assert "BROKEN  1 of 2  Np <= len(p)  (first broken: A-1" in result.text
    assert result.notes == ("Np <= len(p) breaks in 1 rows.",)


def test_texts_are_put_in_rank_order(data, rows):
    result = compute(FIGURES[21], data, RUN)
    ranked, text = rows["ranked"][0], rows["texts"][0]
    expected = [
        text["p"][i] if i < ranked["Np"] else text["n"][i - ranked["Np"]] for i in ranked["rank"]
    ]
    assert list(result.numbers["text"]) == expected
    assert (result.numbers["kind"] == "positive").sum() == ranked["Np"]
    assert "def texts_in_rank_order" in result.text
    assert "query of A-0" in result.text


def test_a_rank_beyond_the_texts_is_said_with_the_sample(tmp_path):
    made = made_data.records(("A",), ("one",), n_texts=1, positives=(2,))
    frames = {part: pd.DataFrame(rows) for part, rows in made.items()}
    frames["ranked"].at[0, "rank"] = [99]
    broken = dataset.store(
        frames, name="x", source="x", digest="c" * 64, simulated=False, cache=tmp_path
    )
    result = compute(FIGURES[21], broken, RUN)
    assert "A-0" in result.missing
    assert result.numbers.empty


def test_text_of_a_dataset_cannot_steer_a_terminal(tmp_path):
    made = made_data.records(("A",), ("one",), n_texts=1, positives=(2,))
    made["texts"][0]["q"] = "\x1b[31m red \u202e reversed\n" + "x" * 200
    result = compute(FIGURES[21], made_data.write(tmp_path, made), RUN)
    assert "\x1b" not in result.text
    assert "\u202e" not in result.text
    assert "\\x1b[31m red \\u202e reversed\\n" in result.text
    assert max(len(line) for line in result.text.splitlines()) < 120


# --- the schematic and the reference ------------------------------------------------------------


def test_the_example_of_the_schematic_is_worked_by_hand(data):
    values = compute(FIGURES[1], data, RUN).numbers.set_index("measure")["value"]
    dcg, ideal = 1 + 1 / math.log2(4) + 1 / math.log2(5), 1 + 1 / math.log2(3) + 1 / math.log2(4)
    assert values.to_dict() == pytest.approx(
        {"P": 3 / 5, "R": 3 / 4, "F": 3 / 4.5, "nDCG": dcg / ideal, "T": 0.5 * 3 - 0.5 * 2 / 5}
    )


def test_figures_meet_the_reference(tmp_path):
    reference = dataset.open_path(stored_data.REFERENCE, cache=tmp_path, progress=False)
    expected = stored_data.read_json("reference/expected_correlations.json")
    run = Parameters(min_samples_ratio=40)
    for setting, key, figures in (
        ("ratio", "ratio", [e for e in FIGURES.values() if isinstance(e, Correlation)]),
        ("narrow_wide", "width", [FIGURES[n] for n in (5, 23, 24, 25)]),
    ):
        cells = {
            (c["dataset"], c["embedding"], str(c[key]), c["measure"], c["coefficient"]): c
            for c in expected[setting]["cells"]
        }
        compared = 0
        for entry in figures:
            for row in compute(entry, reference, run).numbers.itertuples():
                if row.reason:
                    continue
                place = (row.dataset, row.embedding, row.segment, row.measure, row.coefficient)
                assert cells[place]["n"] == row.n
                assert cells[place]["correlation"] == pytest.approx(row.correlation, abs=2e-8)
                compared += 1
        assert compared > 100


@pytest.mark.parametrize(
    ("text", "shown"),
    [("plain", "plain"), ("a\x00b", "a\\x00b"), ("é漢", "é漢"), ("\u2028", "\\u2028")],
)
def test_text_is_made_visible(text, shown):
    assert line(text) == shown


def test_long_text_is_cut():
    assert line("x" * 91) == "x" * 89 + "…"
    assert line("x" * 90) == "x" * 90
