"""Segments: Python's rounding of K / N_p, narrow and wide, sizes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stored_data
from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.measures import segments

pairs = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), max_size=50)


@pytest.mark.parametrize(
    ("top_k", "n_relevant", "label"),
    [
        (5, 4, "1.2"),  # 1.25, a tie: to the even digit
        (3, 4, "0.8"),  # 0.75, a tie: to the even digit
        (1, 4, "0.2"),  # 0.25
        (7, 4, "1.8"),  # 1.75
        (9, 4, "2.2"),  # 2.25
        (3, 20, "0.1"),  # 0.15 lies just below in binary
        (7, 20, "0.3"),  # 0.35 lies just below in binary; NumPy says 0.4
        (13, 20, "0.7"),  # 0.65 lies just above in binary; NumPy says 0.6
        (4, 4, "1.0"),
        (20, 2, "10.0"),
        (0, 3, "0.0"),
    ],
)
def test_ratios_round_as_python_does(top_k, n_relevant, label):
    assert list(segments.ratio_label([top_k], [n_relevant])) == [label]


@settings(deadline=None)
@given(pairs)
def test_every_ratio_is_pythons(pairs):
    top_k, n_relevant = [k for k, _ in pairs], [n for _, n in pairs]
    labels = segments.ratio_label(top_k, n_relevant)
    assert list(labels) == [str(round(k / n, 1)) for k, n in pairs]
    order = [float(label) for label in labels.categories]
    assert order == sorted(set(order))
    assert set(labels.categories) == set(labels)


@settings(deadline=None)
@given(pairs)
def test_narrow_is_k_below_n_relevant(pairs):
    labels = segments.width_label([k for k, _ in pairs], [n for _, n in pairs])
    assert list(labels) == ["narrow" if k < n else "wide" for k, n in pairs]
    assert list(labels.categories) == ["narrow", "wide"]


def test_full_size_is_quick_and_equal_to_pythons():
    rng = np.random.default_rng(1)
    rows = pd.DataFrame({"K": rng.integers(2, 31, 535_888), "Np": rng.integers(2, 16, 535_888)})
    labels = segments.label_segments(rows, "ratio")
    some = rows.sample(2000, random_state=1)
    assert list(labels[some.index]) == [str(round(k / n, 1)) for k, n in some.to_numpy().tolist()]


@pytest.mark.parametrize(("top_k", "n_relevant"), [([2, 3], [2, 0]), ([2, -1], [2, 2])])
@pytest.mark.parametrize("label", [segments.ratio_label, segments.width_label])
def test_rows_without_a_ratio_are_refused(label, top_k, n_relevant):
    with pytest.raises(DataError, match="Row 1: K = "):
        label(top_k, n_relevant)


def test_published_minimum_sizes():
    assert {name: s.min_samples for name, s in segments.SEGMENTATIONS.items()} == {
        "ratio": 300,
        "narrow-wide": 100,
    }


def test_labels_keep_the_index_of_the_rows():
    rows = pd.DataFrame({"K": [2, 4], "Np": [4, 4]}, index=[7, 3])
    assert segments.label_segments(rows, "narrow-wide").to_dict() == {7: "narrow", 3: "wide"}
    assert segments.label_segments(rows, "ratio").name == "segment"


def test_unknown_names_are_refused_with_what_there_is():
    rows = pd.DataFrame({"K": [2], "Np": [4]})
    with pytest.raises(UsageError, match="No segmentation is named width; there are ratio, narrow"):
        segments.label_segments(rows, "width")
    with pytest.raises(UsageError, match="by dataset or subset, not by E"):
        segments.group(rows, "E")


def test_sizes_by_subset_tell_difficulties_apart():
    rows = pd.DataFrame(
        {
            "dataset": pd.Categorical(["Hp", "Hp", "Hp", "A"]),
            "subset": pd.Categorical(["Hp-e", "Hp-h", "Hp-h", "A"]),
            "E": pd.Categorical(["ME5S"] * 4),
            "K": [2, 2, 2, 9],
            "Np": [3, 3, 3, 3],
            "grade": [5.0, 1.0, np.nan, 3.0],
        }
    )
    by_subset = segments.segment_sizes(rows, "narrow-wide", by="subset")
    assert by_subset.to_numpy().tolist() == [
        ["A", "ME5S", "wide", 1, 1],
        ["Hp-e", "ME5S", "narrow", 1, 1],
        ["Hp-h", "ME5S", "narrow", 1, 2],
    ]
    by_dataset = segments.segment_sizes(rows, "ratio")
    assert by_dataset.to_numpy().tolist() == [
        ["A", "ME5S", "3.0", 1, 1],
        ["Hp", "ME5S", "0.7", 2, 3],
    ]


@pytest.mark.parametrize(
    ("block", "segmentation", "key"),
    [("ratio", "ratio", "ratio"), ("narrow_wide", "narrow-wide", "width")],
)
def test_cells_of_the_published_method(block, segmentation, key):
    """The cells that reach the minimum, and their sizes, are those of the published script."""
    graded = stored_data.read_json("reference/samples_graded.json")
    rows = pd.DataFrame(graded)[["id", "E", "K", "Np", "grade"]]
    rows["dataset"] = rows["id"].str.partition("-")[0]
    sizes = segments.segment_sizes(rows, segmentation)
    expected = stored_data.read_json("reference/expected_correlations.json")
    smallest = expected[block]["settings"]["min_samples"]
    ours = {tuple(cell)[:4] for cell in sizes[sizes["n"] >= smallest].to_numpy().tolist()}
    theirs = {
        (cell["dataset"], cell["embedding"], str(cell[key]), cell["n"])
        for cell in expected[block]["cells"]
    }
    assert ours == theirs
