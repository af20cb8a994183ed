"""What opens can be used: a relation that breaks is told on opening, and figures go on."""

import copy

import pytest

import made_data
from retrieval_quality import cli
from retrieval_quality.book import pages
from retrieval_quality.data.dataset import open_path

SOUND = made_data.records(subsets=("A", "Hs-e"), n_texts=8, positives=(2,))
PERSON = "grade_human_1"


def human(*names, **changes):
    """A file of grades by people beside every fourth graded row."""
    keep = ("id", "E", "Nc", "Np", "K", *names)
    rows = [
        {**row, PERSON: row["grade"], "grade_human_2": 6 - row["grade"], **changes}
        for row in SOUND["graded"][::4]
    ]
    return [{name: row[name] for name in row if name in (*keep, PERSON)} for row in rows]


def graded_with(index, **changes):
    rows = copy.deepcopy(SOUND["graded"])
    rows[index].update(changes)
    return rows


def of_another_ranking():
    """The rows of K = 2 hold other documents than begin those of K = 4."""
    rows = copy.deepcopy(SOUND["graded"])
    for row in rows:
        if row["K"] == 2:
            row.update(rank=[0, 1], inK=[1, 1], P=1.0, R=1.0)
    return rows


FORMS = {
    "the top 2K of another ranking": ({"graded": of_another_ranking()}, "graded", "id A-0, K 2"),
    "P of another row": ({"graded": graded_with(3, P=0.9)}, "graded", "id A-0, K 4: P 0.9"),
    "R of another row": ({"graded": graded_with(3, R=0.9)}, "graded", "id A-0, K 4: R 0.9"),
    "no such ranked row": ({"graded": graded_with(3, E="new")}, "graded", "id A-0, K 4"),
    "a K that was not ranked": (
        {"ranked": [{**row, "K": [1], "P": [0.0], "R": [0.0]} for row in SOUND["ranked"]]},
        "graded",
        "id A-0, K 2",
    ),
    "an id without texts": ({"texts": SOUND["texts"][1:]}, "graded", "id A-0, K 1"),
    "too few texts": (
        {"texts": [{**row, "p": [], "n": []} for row in SOUND["texts"]]},
        "ranked",
        "id A-0: Nc 8, texts 0",
    ),
    "no texts, nothing ranked": ({"texts": None, "ranked": None}, "texts", "no samples_texts"),
    "one rater only": ({"human": human("grade")}, "human", f"only {PERSON} is there"),
    "no LLM grade": ({"human": human("grade_human_2")}, "human", "LLM's grade is not beside"),
    "one rater, no LLM grade": ({"human": human()}, "human", "LLM's grade is not beside"),
    "nobody graded": ({"human": human("grade", **{PERSON: None})}, "human", "is null"),
    "rows of nobody": ({"human": human("grade", id="X-1")}, "human", "id X-1, K 1"),
    "keys of other types": ({"human": human("grade", id=7, K="two")}, "human", "id 7: no such"),
    "another LLM grade": ({"human": human("grade", grade=1)}, "human", "in samples_graded"),
    "a person's row twice": ({"human": human("grade") * 2}, "human", "there 2 times"),
    "no keys": (
        {"human": [{PERSON: 1 + i % 5, "grade": 3} for i in range(9)]},
        "human",
        "there is no id, E, Nc, Np, K",
    ),
}


@pytest.fixture(scope="module", params=FORMS)
def opened(request, tmp_path_factory):
    changes, part, words = FORMS[request.param]
    folder = tmp_path_factory.mktemp("form")
    made = {name: rows for name, rows in (SOUND | changes).items() if rows is not None}
    dataset = made_data.write(folder, made)
    return folder, dataset, part, words


def test_what_breaks_is_told_on_opening(opened):
    _, dataset, part, words = opened
    told = [notice.text for notice in dataset.notices if notice.part == part]
    assert [text for text in told if words in text], told


@pytest.mark.parametrize(
    "words",
    [("figure", "16"), ("figure", "21"), ("figure", "22"), ("figure", "30"), ("table", "all")],
    ids=" ".join,
)
def test_figures_and_tables_go_on(opened, monkeypatch, words):
    folder, *_ = opened
    monkeypatch.setenv("RETRIEVAL_QUALITY_CACHE", str(folder / "cache"))
    arguments = [*words, "--data", str(folder / "data"), "--out", str(folder / words[0])]
    low = ["-p", "min_samples_ratio=8"] if "16" in words else []
    cli.cli.main([*arguments, *low], standalone_mode=False)


def test_the_page_of_human_grades_goes_on(opened, monkeypatch):
    folder, *_ = opened
    monkeypatch.setenv("RETRIEVAL_QUALITY_CACHE", str(folder / "cache"))
    run = pages.start(data=str(folder / "data"), min_samples_ratio=8, min_samples_width=8)
    for show in (run.agreement, run.confusion, run.human_correlations, run.check):
        assert show().text


def test_rows_of_another_ranking_have_no_value_at_2k(tmp_path):
    sound = made_data.write(tmp_path / "sound", SOUND).scored()
    other = made_data.write(tmp_path / "other", SOUND | {"graded": of_another_ranking()}).scored()
    assert (sound["n_positives_2k"].notna() == sound["K"].isin([1, 2, 3])).all()
    kept = other["n_positives_2k"].notna()
    assert (kept <= other["K"].isin([1, 2, 3])).all()
    assert not kept[other["K"] == 2].all()
    assert (other["n_positives_2k"][kept] >= other["n_positives"][kept]).all()


def test_sound_data_are_opened_without_a_word_on_relations(tmp_path):
    folder = tmp_path / "sound"
    dataset = made_data.write(folder, SOUND)
    assert "relation" not in {notice.kind for notice in dataset.notices}
    again = open_path(folder / "data", cache=folder / "cache")
    assert again.notices == dataset.notices
