"""The declared format against the facts of the published files."""

import pytest

import stored_data
from retrieval_quality.data import schema


def test_parts_and_keys_are_those_of_the_published_files():
    assert list(schema.PARTS) == ["texts", "ranked", "graded", "human", "controls"]
    assert schema.PARTS["graded"].stem == "samples_graded"
    assert schema.PARTS["texts"].required == ("id", "q", "p", "n")
    assert schema.PARTS["ranked"].required == ("id", "E", "Nc", "Np", "K", "P", "R", "rank")
    assert schema.PARTS["graded"].required == (
        *("id", "E", "Nc", "Np", "K", "rank", "inK"),
        *("answer_ideal", "answer_topK", "grade", "P", "R"),
    )
    assert schema.PARTS["graded"].key == ("id", "E", "Nc", "Np", "K")


def test_controls_have_the_keys_of_graded_rows_and_one_more():
    names = {field.name for field in schema.PARTS["controls"].fields}
    assert names == {*schema.PARTS["graded"].required, "control"}


@pytest.mark.parametrize("part", ["texts", "ranked", "graded"])
def test_the_reference_files_have_the_declared_keys(part):
    rows = stored_data.read_json(f"reference/samples_{part}.json")
    assert {tuple(row) for row in rows} == {schema.PARTS[part].required}


def test_the_four_embeddings_in_both_notations():
    labels = {"AML12v2": "AM", "ME5S": "EM", "E5Sv2": "ES", "MQML6Cv1": "QM"}
    assert {code: e.label for code, e in schema.EMBEDDINGS.items()} == labels
    for code, label in labels.items():
        assert schema.embedding_label(code) == schema.embedding_label(label) == label
        assert schema.embedding_code(code) == schema.embedding_code(label) == code
    assert schema.embedding_label("AML6v2") == schema.embedding_code("AML6v2") == "AML6v2"
    assert {e.dimensions for e in schema.EMBEDDINGS.values()} == {384}
    assert all("/" in e.model for e in schema.EMBEDDINGS.values())


@pytest.mark.parametrize(
    ("sample", "dataset", "subset"),
    [
        ("A-12", "A", "A"),
        ("Hp-e-0", "Hp", "Hp-e"),
        ("Hs-h-7", "Hs", "Hs-h"),
        ("wiki-long-ago-3", "wiki", "wiki-long-ago"),
    ],
)
def test_dataset_and_subset_of_an_id(sample, dataset, subset):
    assert schema.dataset_of(sample) == dataset
    assert schema.subset_of(sample) == subset


def test_names_of_datasets_and_subsets():
    assert list(schema.DATASETS) == ["A", "M", "N", "Hs", "Hp"]
    assert len(schema.SUBSETS) == 9
    assert {schema.dataset_of(f"{subset}-0") for subset in schema.SUBSETS} == set(schema.DATASETS)
    assert schema.dataset_name("other") == "other"


def test_published_counts_agree_with_each_other():
    assert schema.PUBLISHED_ROWS["ranked"] == 4 * schema.PUBLISHED_RANKED_PER_EMBEDDING
    row = schema.TABLE_1_FIRST_ROW
    assert row["graded"] == row["ranked"] * (row["K_high"] - row["K_low"] + 1)
    assert schema.GRADES == (1, 2, 3, 4, 5)
