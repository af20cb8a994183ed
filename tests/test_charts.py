"""The drawing of studies: marks, scales, words; what is no study is drawn as before."""

from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

import made_data
from retrieval_quality.book import links, pages
from retrieval_quality.exhibits import board, catalogue, export, intervals, ranges
from retrieval_quality.exhibits import drawing as shared
from retrieval_quality.exhibits.heatmap import places_of_cells
from retrieval_quality.parameters import Parameters

RUN = Parameters(min_samples_ratio=5)
DRAWN = [entry for entry in catalogue.STUDIES.values() if entry.drawn]


@pytest.fixture(autouse=True)
def few_replicates(monkeypatch):
    monkeypatch.setattr(ranges, "REPLICATES", 40)
    monkeypatch.setattr(ranges, "CELL_REPLICATES", 400)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return made_data.write(tmp_path_factory.mktemp("charts"), made_data.records(n_texts=8))


def compute(anchor, made):
    return catalogue.find(anchor).compute(made, RUN)


@pytest.mark.parametrize(
    "anchor",
    [entry.anchor for entry in DRAWN if not isinstance(entry, intervals.Intervals)]
    + ["study-intervals-t-minus-f-a"],
)
def test_every_study_is_drawn_and_told_the_same_each_time(anchor, made):
    result = compute(anchor, made)
    before = dict(mpl.rcParams)
    drawing = result.exhibit.draw(result)
    assert dict(mpl.rcParams) == before
    assert export.svg_bytes(drawing) == export.svg_bytes(result.exhibit.draw(result))
    told = result.exhibit.describe(result)
    assert told.startswith(result.exhibit.title)
    assert "nan" not in told


def frames(axes):
    """Corners of what is framed in dark, and the artist that frames it."""
    dark = [
        patch
        for patch in axes.patches
        if not patch.get_fill() and mpl.colors.same_color(patch.get_edgecolor(), "#111111")
    ]
    corners = {
        tuple(map(float, polygon.min(axis=0)))
        for patch in dark
        for polygon in patch.get_path().to_polygons()
    }
    return corners, dark


def test_exactly_the_cells_that_stand_are_framed_and_bold(made):
    result = compute("study-intervals-ndcg-minus-f-a", made)
    stands = np.zeros(len(result.numbers), dtype=bool)
    stands[:2] = True
    result.numbers["stands"] = stands
    result.numbers.loc[[0, 1], "difference"] = [0.1, np.nan]
    drawing = result.exhibit.draw(result)
    cells = places_of_cells(drawing, result.numbers)
    found = [frames(axes) for axes in drawing.axes]
    for axes, (corners, dark) in zip(drawing.axes, found, strict=True):
        assert corners == {(c.column, c.row) for c in cells[:2] if c.axes is axes}
        over = max((patch.get_zorder() for patch in dark), default=0)
        assert all(text.get_zorder() > over for text in axes.texts)
    bold = [
        (axes, *text.get_position())
        for axes in drawing.axes
        for text in axes.texts
        if text.get_fontweight() == "bold" and text.get_position()[1] > 0
    ]
    assert bold == [(cells[0].axes, cells[0].column + 0.5, cells[0].row + 0.5)]


def test_nothing_is_framed_where_nothing_stands(made):
    result = compute("study-intervals-ndcg-minus-f-a", made)
    result.numbers["stands"] = False
    assert not any(dark for _, dark in map(frames, result.exhibit.draw(result).axes))


def test_panels_share_their_scale_and_it_holds_all_values(made):
    result = compute("study-recall-predicts", made)
    drawing = result.exhibit.draw(result)
    assert len(drawing.axes) == result.numbers["panel"].nunique()
    assert {axes.get_ylim() for axes in drawing.axes} == {result.limits}
    ends = result.numbers[["value", "low", "high"]].to_numpy(dtype=float)
    assert result.limits[0] <= np.nanmin(ends)
    assert np.nanmax(ends) <= result.limits[1]


def test_each_value_is_one_mark(made):
    result = compute("study-recall-predicts", made)
    drawing = result.exhibit.draw(result)
    marks = sum(
        len(line.get_xdata())
        for axes in drawing.axes
        for line in axes.lines
        if line.get_marker() not in ("None", "", None)
    )
    assert marks == result.numbers["value"].notna().sum()


def test_measures_can_be_told_apart_without_colour():
    names = ["T", "P", "nDCG", "hit", "RR", "F", "R", "Fe"]
    marks = shared.series_marks(names)
    assert len({mark["marker"] for mark in marks.values()}) == len(names)
    assert len({mark["color"] for mark in marks.values()}) == len(names)


def test_the_board_has_a_cell_for_each_dataset_and_range(made):
    result = compute("study-which-measure", made)
    drawing = result.exhibit.draw(result)
    (axes,) = drawing.axes
    ranges = result.numbers["position"].nunique()
    assert len(axes.patches) == result.numbers["panel"].nunique() * ranges
    numbers = result.numbers
    alone = (numbers["level"] == "") & (numbers["reason"] == "") & (numbers["low"] > 0)
    clear = int(alone.sum())
    assert sum(text.get_text() == "all others behind" for text in axes.texts) == clear


@pytest.mark.parametrize(
    ("value", "low", "below"),
    [
        (0.3, 0.1, "all others behind"),
        (0.3, -0.1, "its interval reaches 0"),
        (-0.1, -0.2, "all are at or below 0"),
    ],
)
def test_the_board_offers_no_measure_that_may_be_worth_nothing(value, low, below):
    axes = Figure().add_subplot()
    cell = SimpleNamespace(reason="", level="", series="nDCG", value=value, low=low, n=40)
    board._draw_advice(axes, (0, 0), cell)
    texts = [text.get_text() for text in axes.texts]
    assert below in texts
    assert any("DCG" in text for text in texts) == (value > 0)
    grey = axes.patches[0].get_facecolor()[:3]
    assert (len(set(grey)) == 1) == (low <= 0)


def test_a_table_is_not_drawn(made):
    with pytest.raises(ValueError, match="is a table"):
        catalogue.STUDIES["study-recall-kept"].draw(compute("study-recall-kept", made))


def test_a_study_is_written_with_its_numbers(made, tmp_path):
    written = export.write(catalogue.find("study-which-measure"), made, RUN, tmp_path)
    assert [path.name for path in written] == [
        f"study-which-measure{suffix}" for suffix in (".svg", ".png", ".csv", ".json")
    ]
    table = export.write(catalogue.find("study-alpha-pick"), made, RUN, tmp_path)
    assert [path.suffix for path in table] == [".csv", ".json"]


def test_a_cell_of_an_interval_map_says_its_interval(made):
    run = pages.Run(made, Parameters(min_samples_ratio=5, alpha=0.5))
    numbers = intervals.marked_differences(made, run.parameters)
    numbers = numbers[(numbers["first"] == "nDCG") & numbers["low"].notna()]
    dataset = numbers["dataset"].iloc[0]
    html = run.figure(f"study-intervals-ndcg-minus-f-{dataset.lower()}").html
    told = numbers[numbers["dataset"] == dataset]
    assert html.count("95% interval") == len(told) > 0
    assert html.count(", stands") == told["stands"].sum()


def test_figures_link_to_their_intervals_and_claims_within_a_book(made, tmp_path):
    run = pages.Run(made, Parameters(min_samples_ratio=5), str(tmp_path))
    assert "claims.html" not in run.figure(7).html
    links.write_address(tmp_path, "../figures/t-minus-f")
    html = run.figure(7).html
    assert 'href="intervals.html#study-intervals-t-minus-f-a"' in html
    assert 'href="claims.html#claim-05"' in html
    assert "claims.html" not in run.table(2).html
