"""The catalogue: every figure and table of the paper once, with the words made from it."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from retrieval_quality.data import schema
from retrieval_quality.errors import UsageError
from retrieval_quality.exhibits import catalogue
from retrieval_quality.exhibits.heatmap import Heatmap, difference
from retrieval_quality.measures import MEASURES
from retrieval_quality.parameters import COEFFICIENTS, Parameters

NOTEBOOK_NUMBERS = {
    "schematic": [1],
    "grade-distribution": [2, 3, 4, 19, 20],
    "narrow-wide": [5, 23, 24, 25],
    "f-by-ratio": [6, 26, 27, 28, 29],
    "t-by-ratio": [31, 32, 33, 34, 35],
    "t-minus-f": [7, 8, 9],
    "tu-minus-t": [10, 11, 12],
    "ndcg-minus-f": [13, 14, 15, 36, 37],
    "fe-minus-f": [16, 17, 38, 39],
    "t-minus-ndcg": [18, 40, 41, 42, 43],
    "dataset-code": [21, 22, 30],
}


def test_each_number_of_the_paper_is_declared_once():
    assert list(catalogue.FIGURES) == list(range(1, 44))
    assert all(number == entry.number for number, entry in catalogue.FIGURES.items())
    assert list(catalogue.TABLES) == [1, 2]
    assert len(catalogue.ENTRIES) == 43 + 2 + 5


@pytest.mark.parametrize(("name", "numbers"), NOTEBOOK_NUMBERS.items())
def test_each_notebook_has_the_figures_of_its_group(name, numbers):
    entries = catalogue.NOTEBOOKS[name].entries
    assert sorted(entry.number for entry in entries if entry.number) == numbers


def test_every_entry_has_a_notebook_and_every_notebook_an_entry():
    assert {entry.notebook for entry in catalogue.ENTRIES.values()} == set(catalogue.NOTEBOOKS)
    assert [entry.label for entry in catalogue.NOTEBOOKS["tables"].entries] == [
        "Table 1",
        "Table 2",
    ]


@pytest.mark.parametrize(
    ("number", "dataset", "measures", "coefficient"),
    [
        (3, "M", (), "spearman"),
        (20, "Hp", (), "spearman"),
        (5, "", ("T", "nDCG", "F"), "spearman"),
        (24, "", ("T", "nDCG", "F"), "kendall_b"),
        (29, "Hp", ("F",), "spearman"),
        (33, "N", ("T",), "spearman"),
        (8, "Hs", ("T", "F"), "spearman"),
        (12, "M", ("Tu", "T"), "spearman"),
        (37, "Hp", ("nDCG", "F"), "spearman"),
        (38, "Hs", ("Fe", "F"), "spearman"),
        (40, "Hp", ("T", "nDCG"), "spearman"),
    ],
)
def test_what_a_figure_shows(number, dataset, measures, coefficient):
    entry = catalogue.FIGURES[number]
    assert (entry.dataset, entry.measures, entry.coefficient) == (dataset, measures, coefficient)


def test_only_comparisons_with_fe_need_a_2k_row():
    needing = {e.number for e in catalogue.FIGURES.values() if e.require_2k}
    assert needing == {16, 17, 38, 39}


def test_what_the_paper_left_out_is_there_as_an_extra():
    assert [entry.anchor for entry in catalogue.EXTRAS] == [
        "extra-t-minus-f-hp",
        "extra-t-minus-f-n",
        "extra-tu-minus-t-hp",
        "extra-tu-minus-t-n",
        "extra-fe-minus-f-hp",
    ]
    for name in ("t-minus-f", "tu-minus-t", "ndcg-minus-f", "fe-minus-f", "t-minus-ndcg"):
        shown = [entry.dataset for entry in catalogue.NOTEBOOKS[name].entries]
        assert sorted(shown) == sorted(schema.DATASETS)


def test_measures_and_coefficients_exist():
    for entry in catalogue.ENTRIES.values():
        assert set(entry.measures) <= set(MEASURES)
        assert entry.coefficient in COEFFICIENTS


def test_anchors_hold_the_number_and_fit_a_file_name_and_an_id():
    for number, entry in catalogue.FIGURES.items():
        assert entry.anchor == f"figure-{number:02d}"
    assert all(re.fullmatch(r"[a-z0-9-]+", anchor) for anchor in catalogue.ENTRIES)


def test_titles_of_figures_differ_within_the_catalogue():
    titles = [entry.title for entry in catalogue.ENTRIES.values()]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("entry", catalogue.ENTRIES.values(), ids=list(catalogue.ENTRIES))
def test_captions_are_sentences_without_markup(entry):
    caption = entry.caption()
    assert caption.endswith(".")
    assert caption[0].isupper() or caption.startswith("τ")
    assert not re.search(r"[<>$`\\]", caption.replace("K < N_p", ""))
    assert "None" not in caption + entry.title


def test_captions_follow_the_parameters():
    run = Parameters(min_samples_ratio=15, min_samples_width=7, alpha=0.25, coefficient="pearson")
    assert "15 graded rows" in catalogue.FIGURES[7].caption(run)
    assert "at α = 0.25" in catalogue.FIGURES[7].caption(run)
    assert "Pearson's r" in catalogue.FIGURES[7].caption(run)
    assert "7 graded rows" in catalogue.FIGURES[5].caption(run)
    assert "Spearman's ρ" in catalogue.FIGURES[5].caption(run)
    assert "2K row" in catalogue.FIGURES[16].caption(run)


def test_the_coefficient_of_a_run_replaces_that_of_heatmaps_only():
    run = Parameters(coefficient="kendall_c")
    changed = {n for n, e in catalogue.FIGURES.items() if e.coefficient_for(run) == "kendall_c"}
    heatmaps = {n for n, e in catalogue.FIGURES.items() if isinstance(e, Heatmap)}
    assert changed == heatmaps | {25}
    extra = difference(("T", "F"), "A", coefficient="pearson")
    assert extra.anchor == "extra-t-minus-f-a-pearson"
    assert extra.coefficient_for(Parameters()) == "pearson"


def test_an_unknown_dataset_keeps_its_own_name():
    assert difference(("T", "F"), "wiki").title == "T minus F on wiki"
    assert replace(catalogue.FIGURES[2], dataset="wiki").title == "Grades by K/N_p on wiki"


@pytest.mark.parametrize(
    ("text", "anchor"),
    [
        ("figure 7", "figure-07"),
        ("figure-43", "figure-43"),
        ("Table 2", "table-2"),
        ("table-1", "table-1"),
        ("extra-t-minus-f-hp", "extra-t-minus-f-hp"),
        ("Extra 1", "extra-t-minus-f-hp"),
        ("study 1", "study-overview"),
    ],
)
def test_an_entry_is_found_by_what_people_call_it(text, anchor):
    assert catalogue.find(text).anchor == anchor


@pytest.mark.parametrize("text", ["figure 0", "figure 44", "table 3", "extra", "", "7b"])
def test_an_unknown_entry_is_refused(text):
    with pytest.raises(UsageError):
        catalogue.find(text)


def test_selecting_by_number_or_all():
    assert catalogue.select("figure", "7") == (catalogue.FIGURES[7],)
    assert len(catalogue.select("figure", "all")) == 48
    assert len(catalogue.select("table", "all")) == 2
    for which in ("44", "0", "-1", "x", "7.0", "١"):
        with pytest.raises(UsageError, match="1 to 43"):
            catalogue.select("figure", which)


def test_studies_are_numbered_as_the_book_shows_them():
    root = Path(__file__).parents[1]
    pages = re.findall(r"file: (notebooks/\S+)", (root / "_toc.yml").read_text(encoding="utf-8"))
    text = "\n".join(
        (root / f"{page}.md").read_text(encoding="utf-8") for page in ["index", *pages]
    )
    shown = []
    for study, first, second in re.findall(
        r'run\.(?:(?:figure|table)\("(study-[^"]+)"\)|standing_maps\("(\w+)", "(\w+)"\))', text
    ):
        marked = [
            entry.anchor
            for entry in catalogue.STUDIES.values()
            if entry.notebook == "intervals" and entry.measures == (first, second)
        ]
        assert study or marked
        shown += [study] if study else marked
    numbered = sorted(catalogue.STUDIES.values(), key=lambda entry: entry.place)
    assert shown == [entry.anchor for entry in numbered]
    assert [entry.label for entry in numbered[:2]] == ["Study 1", "Study 2"]


def test_captions_name_only_measures_that_have_an_alpha():
    assert "; T and F each at the best α" in catalogue.FIGURES[7].caption()
    assert "; F at the best α" in catalogue.FIGURES[13].caption()
    assert "; T at the best α" in catalogue.FIGURES[18].caption()
    assert "; T and F each at the best α" in catalogue.FIGURES[5].caption()
    assert "T minus F on HotpotQA paragraphs, as in Extra 1 but at cross-fitted α" in (
        catalogue.interval_study(catalogue.EXTRAS[0]).caption()
    )
