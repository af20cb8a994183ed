"""Computed sentences: counts, ties and places as a person would say them."""

import numpy as np
import pandas as pd
import pytest

from retrieval_quality.exhibits import catalogue, exactness
from retrieval_quality.exhibits.exhibit import Result
from retrieval_quality.parameters import Parameters


def cells(**columns) -> pd.DataFrame:
    base = {"dataset": "A", "embedding": "ME5S", "n": 400, "n_total": 400, "reason": ""}
    return pd.DataFrame({**base, **columns})


def said(figure: int, numbers: pd.DataFrame) -> list[str]:
    exhibit = catalogue.FIGURES[figure]
    return exhibit.observe(Result(exhibit, Parameters(), numbers))


def test_equal_cells_are_counted_and_none_of_them_is_named():
    numbers = cells(segment=["0.1", "0.2", "0.3"], difference=[-0.2, 0.0, 0.0])
    assert said(7, numbers)[0] == (
        "T is ahead of F in none of 3 cells, behind in 1 and less than 0.005 apart in 2. "
        "The median is 0.000: from −0.200 (EM at K/N_p = 0.1, n = 400) to 0.000 (in 2 cells)."
    )


def test_where_all_are_equal_that_is_all_there_is_to_say():
    numbers = cells(segment=["0.1", "0.2"], difference=[0.0, 0.0])
    assert said(7, numbers) == ["T and F have equal correlations in all 2 cells."]


def test_nothing_too_small_to_see_is_ahead():
    numbers = cells(segment=["0.1", "0.2", "0.3"], difference=[0.004, -0.004, 0.006])
    told = said(7, numbers)
    assert told[0].startswith(
        "T is ahead of F in 1 of 3 cells, behind in none and less than 0.005 apart in 2."
    )
    assert told[1:] == ["At K/N_p = 0.3, T is ahead for every embedding."]


def test_all_cells_have_a_form_of_their_own():
    numbers = cells(segment=["0.1", "0.2"], difference=[0.1, 0.2])
    assert said(7, numbers)[0].startswith("T is ahead of F in all 2 cells, behind in none.")


def test_what_rounds_to_nothing_keeps_a_digit():
    numbers = cells(segment=["0.1", "0.2"], difference=[7.8e-05, -2e-04])
    assert "from −0.0002 (" in said(7, numbers)[0]
    assert "to +0.00008 (" in said(7, numbers)[0]


def test_long_lists_of_ratios_are_cut():
    ratios = [f"{i / 10:.1f}" for i in range(1, 11)]
    assert said(7, cells(segment=ratios, difference=0.1))[1] == (
        "At K/N_p = 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8 and 2 other ratios, T is ahead for "
        "every embedding."
    )
    assert "0.1 and 0.2, T is" in said(7, cells(segment=ratios[:2], difference=0.1))[1]
    assert "0.8 and 1 other ratio, T is" in said(7, cells(segment=ratios[:9], difference=0.1))[1]


def test_one_cell_is_one_cell():
    first = said(6, cells(segment=["0.1"], correlation=[0.5]))[0]
    assert first.startswith("1 cell, median correlation 0.500: from 0.500 (EM at K/N_p = 0.1, n")


def test_nothing_is_said_of_what_there_is_none_of():
    numbers = cells(segment=["0.1"], difference=[0.1])
    told = [
        t
        for t, _ in catalogue.FIGURES[7].checks(Result(catalogue.FIGURES[7], Parameters(), numbers))
    ]
    assert told == [
        "Figure 7: 1 value between −2 and 2",
        "Figure 7: each rests on 300 rows or more, and on no more than there are",
    ]


@pytest.mark.parametrize(("low", "holds"), [(0.2, False), (0.1, True), (0.0, True)])
def test_an_interval_may_be_a_point_but_not_end_below_its_start(low, holds):
    numbers = pd.DataFrame({"value": [0.1], "low": low, "high": 0.1, "n": 10, "reason": ""})
    entry = catalogue.STUDIES["study-recall-predicts"]
    found = dict(entry.checks(Result(entry, Parameters(), numbers, limits=(0, 1))))
    assert found[f"{entry.title}: none of 1 interval ends below where it begins"] is holds


GRID = pd.concat(
    [
        cells(segment=["0.5", "5.0"], measure="Tu", published=[0.3, 0.38], exact=[0.3, 0.48]),
        cells(segment=["0.5", "5.0"], measure="T", published=[0.3, 0.49], exact=[0.3, 0.49]),
    ]
)


def test_what_the_grid_makes_of_a_difference():
    assert exactness.beside_exact(GRID, ("Tu", "T")) == [
        (
            "T_u minus T in 2 cells: from −0.110 to 0.000 on the published grid, from −0.010 to "
            "0.000 at the best of all α with exact ties."
        ),
        (
            "In 1 of them the two differ by more than 0.01; most of all on A, EM at K/N_p = 5.0: "
            "−0.110 becomes −0.010."
        ),
    ]
    assert exactness.beside_exact(GRID, ("T", "F")) == []
    assert exactness.beside_exact(GRID.iloc[:0], ("Tu", "T")) == []
    unmoved = GRID.assign(exact=GRID["published"])
    assert "In none of them" in exactness.beside_exact(unmoved, ("Tu", "T"))[1]


@pytest.mark.parametrize(
    ("difference", "stands", "told"),
    [
        (-0.11, True, "stands in 1 cell; in 1 of them"),
        (-0.015, True, "stands in 1 cell; in 0 of them"),
        (0.11, True, "stands in 1 cell; in 1 of them"),
        (-0.11, False, "no cell stands"),
    ],
)
def test_what_stands_beside_the_best_of_all_alpha(difference, stands, told):
    marked = cells(segment=["5.0", "0.5"], first="Tu", second="T", difference=[difference, np.nan])
    marked["stands"] = [stands, False]
    assert told in exactness.beside_exact(GRID, ("Tu", "T"), marked)[-1]


def test_embeddings_without_a_value_are_not_counted_among_those_ahead():
    numbers = cells(
        embedding=["ME5S", "AML12v2", "ME5S", "AML12v2"],
        segment=["0.1", "0.1", "0.2", "0.2"],
        difference=[0.1, np.nan, 0.1, -0.1],
    )
    assert said(7, numbers)[1] == (
        "At K/N_p = 0.1, T is ahead for every embedding that has a value there."
    )
