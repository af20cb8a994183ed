"""Drawing: limits, labels, colours, hatching and words, not pixels."""

import math
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import Normalize, to_hex, to_rgba
from matplotlib.figure import Figure

import made_data
from retrieval_quality.exhibits import catalogue, cells
from retrieval_quality.exhibits import drawing as shared
from retrieval_quality.exhibits.cells import DIFFERENCE_COLUMNS
from retrieval_quality.exhibits.distribution import GRADE_COLOURS, Distribution
from retrieval_quality.exhibits.exhibit import Result
from retrieval_quality.exhibits.heatmap import Correlation, Difference, difference, places_of_cells
from retrieval_quality.exhibits.words import short
from retrieval_quality.parameters import Parameters
from retrieval_quality.statistics.correlation import COLUMNS as CELL_COLUMNS

FIGURES = catalogue.FIGURES
SHARE_COLUMNS = Distribution.columns


def compute(exhibit, dataset, run):
    return exhibit.compute(dataset, run)


def draw(result):
    return result.exhibit.draw(result)


def describe(result):
    return result.exhibit.describe(result)


RUN = Parameters(min_samples_ratio=5, min_samples_width=10)


def correlations(segments, embeddings=("AML12v2", "ME5S"), values=None, **changes):
    """Result of Figure 6 with a value for each cell."""
    grid = [(e, s) for e in embeddings for s in segments]
    values = values or [0.01 * i for i in range(len(grid))]
    rows = [
        ("A", e, "ratio", s, 40 + i, 50 + i, "F", "spearman", 0.5, v, "" if v == v else "why")
        for i, ((e, s), v) in enumerate(zip(grid, values, strict=True))
    ]
    numbers = pd.DataFrame(rows, columns=list(CELL_COLUMNS))
    result = Result(FIGURES[6], RUN, numbers, "spearman", 99, (-1.0, 1.0))
    return replace(result, **changes)


def differences(values, limits=(-0.2, 0.2)):
    rows = [
        ("A", "ME5S", "ratio", str(i + 1.0), 40, 40, "T", "F", "spearman", 0.5, 0.5, v, 0.0, v, "")
        for i, v in enumerate(values)
    ]
    numbers = pd.DataFrame(rows, columns=list(DIFFERENCE_COLUMNS))
    return Result(FIGURES[7], RUN, numbers, "spearman", 99, limits)


def shades(drawing, result):
    """Colour of each cell, in the order of the numbers."""
    drawing.canvas.draw()  # colours are only known then
    found = []
    for cell in places_of_cells(drawing, result.numbers):
        (mesh,) = cell.axes.collections
        width = len(mesh.get_coordinates()[0]) - 1
        found.append(mesh.get_facecolor()[cell.row * width + cell.column])
    return found


def values(axes):
    """Text in each cell, by its column and row."""
    places = ((text.get_position(), text.get_text()) for text in axes.texts)
    return {(x - 0.5, y - 0.5): text for (x, y), text in places if x > 0 and y > 0}


def ratios(axes):
    """Labels of the columns, from left to right."""
    return [
        text
        for text in axes.texts
        if text.get_text().replace(".", "").isdigit()
        and text.get_size() == 8
        and text.get_position()[1] < 0
    ]


def words(drawing):
    texts = list(drawing.texts) + [text for axes in drawing.axes for text in axes.texts]
    return [text.get_text() for text in texts]


# --- heatmaps -----------------------------------------------------------------------------------


def test_each_cell_has_the_colour_of_its_value_on_the_fixed_scale():
    result = correlations(["0.5", "1.0", "2.0"], values=[-0.9, -0.2, 0.0, 0.3, 0.7, 1.0])
    drawing = draw(result)
    colours, scale = mpl.colormaps[Correlation.colours], Normalize(-1, 1)
    drawn = shades(drawing, result)
    assert len(drawn) == 6
    for shade, value in zip(drawn, result.numbers["correlation"], strict=True):
        assert to_hex(shade) == to_hex(colours(scale(value)))
    said = values(drawing.axes[0])
    assert [said[x, y] for y in (0, 1) for x in (0, 1, 2)] == [
        "−.90",
        "−.20",
        "0",
        ".30",
        ".70",
        "1",
    ]


def test_the_scale_does_not_follow_the_values_of_a_panel():
    results = [differences(v) for v in ([0.05, 0.01], [0.05, 0.19])]
    weak, strong = (shades(draw(result), result) for result in results)
    assert to_hex(weak[0]) == to_hex(strong[0])
    assert to_hex(weak[1]) != to_hex(strong[1])
    bar = draw(differences([0.05, 0.01])).axes[-1]
    assert bar.get_xlim() == (-0.2, 0.2)
    assert [tick.get_text() for tick in bar.get_xticklabels()] == ["−0.2", "0", "0.2"]


def test_zero_is_the_pale_middle_of_both_maps():
    for name in (Correlation.colours, Difference.colours):
        red, green, blue, _ = mpl.colormaps[name](0.5)
        assert min(red, green, blue) > 0.95


def test_embeddings_go_down_and_ratios_to_the_right_with_their_rows():
    result = correlations(["0.5", "1.0", "10.0"], ("MQML6Cv1", "AML12v2"))
    drawing = draw(result)
    axes = drawing.axes[0]
    assert [t.get_text() for t in axes.get_yticklabels()] == ["AM", "QM"]
    assert [t.get_text() for t in ratios(axes)] == ["0.5", "1.0", "10.0"]
    top, bottom = axes.get_ylim()[1], axes.get_ylim()[0]
    assert (top, bottom) == (0, 2)
    places = [(cell.column, cell.row) for cell in places_of_cells(drawing, result.numbers)]
    assert places == [(0, 1), (1, 1), (2, 1), (0, 0), (1, 0), (2, 0)]
    said = values(axes)
    expected = [short(value) for value in result.numbers["correlation"]]
    assert [said[place] for place in places] == expected
    assert [text.get_text() for text in axes.texts if "–" in text.get_text()] == [
        "40–43",
        "41–44",
        "42–45",
    ]


def test_the_ratio_at_which_k_is_n_p_stands_out():
    axes = draw(correlations(["0.5", "1.0", "2.0"])).axes[0]
    weights = [text.get_fontweight() for text in ratios(axes)]
    assert weights == ["normal", "bold", "normal"]


def test_a_cell_without_a_value_is_hatched_and_explained():
    result = correlations(["0.5", "1.0"], values=[0.1, math.nan, 0.2, 0.3])
    drawing = draw(result)
    axes = drawing.axes[0]
    assert axes.patch.get_hatch() == shared.HATCH["hatch"]
    shown = [shade[3] for shade in shades(drawing, result)]
    assert shown == [1, 0, 1, 1]  # the hatched ground is seen through the second
    assert set(values(axes)) == {(0, 0), (0, 1), (1, 1)}
    assert any("fewer than 5 rows, or undefined" in text for text in words(drawing))
    full = draw(correlations(["0.5", "1.0"]))
    assert not any("hatched" in text for text in words(full))
    assert not full.axes[0].patch.get_hatch()


def test_a_cell_that_the_numbers_lack_is_hatched_and_has_no_place():
    whole = correlations(["0.5", "1.0"])
    result = replace(whole, numbers=whole.numbers.drop(index=2))
    drawing = draw(result)
    assert set(values(drawing.axes[0])) == {(0, 0), (1, 0), (1, 1)}
    assert len(places_of_cells(drawing, result.numbers)) == 3
    assert any("hatched" in text for text in words(drawing))


def test_cells_lie_side_by_side_on_the_page():
    result = correlations([f"{i / 10:.1f}" for i in range(1, 26)])
    drawing = draw(result)
    found = places_of_cells(drawing, result.numbers)
    boxes = [cell.box() for cell in found]
    first, second, below = boxes[0], boxes[1], boxes[25]
    assert second[0] == pytest.approx(first[0] + first[2])
    assert below[1] == pytest.approx(first[1] + first[3])
    assert len({cell.axes for cell in found}) == 2
    for cell, (left, top, width, height) in zip(found, boxes, strict=True):
        middle = cell.axes.transData.transform((cell.column + 0.5, cell.row + 0.5))
        x, y = drawing.transFigure.inverted().transform(middle)
        assert (x, 1 - y) == pytest.approx((left + width / 2, top + height / 2))


@pytest.mark.parametrize("name", [Correlation.colours, Difference.colours])
def test_values_can_be_read_on_every_colour(name):
    for colour in mpl.colormaps[name](np.arange(256)):
        ink = luminance(to_rgba(shared.readable_on(colour)))
        low, high = sorted([ink, luminance(colour)])
        assert (high + 0.05) / (low + 0.05) >= 4.5


def luminance(colour):
    channels = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour[:3]]
    return np.dot(channels, (0.2126, 0.7152, 0.0722))


def test_each_value_has_the_ink_of_its_own_cell():
    result = correlations(["1.0", "2.0"], values=[1.0, math.nan, 0.0, -1.0])
    inks = {t.get_text(): t.get_color() for t in draw(result).axes[0].texts}
    assert (inks["1"], inks["0"], inks["−1"]) == ("white", "black", "white")


@pytest.mark.parametrize(("n", "strips"), [(1, [1]), (24, [24]), (25, [13, 12]), (46, [23, 23])])
def test_many_ratios_go_on_below(n, strips):
    result = correlations([f"{i / 10:.1f}" for i in range(1, n + 1)])
    drawing = draw(result)
    assert [len(ratios(axes)) for axes in drawing.axes[:-1]] == strips
    assert [len(values(axes)) for axes in drawing.axes[:-1]] == [2 * count for count in strips]
    assert drawing.get_figwidth() < 8


def test_texts_stay_inside_of_the_page():
    for n in (1, 5, 24, 40):
        drawing = draw(correlations([f"{i / 10:.1f}" for i in range(1, n + 1)]))
        box = drawing.get_tightbbox()
        width, height = drawing.get_size_inches()
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= width
        assert box.y1 <= height


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.426, ".43"),
        (-0.426, "−.43"),
        (0.0, "0"),
        (-0.0, "0"),
        (0.004, "·"),
        (-0.004, "·"),
        (0.999, "1.00"),
        (1.0, "1"),
        (-1.0, "−1"),
        (1.2, "1.20"),
    ],
)
def test_a_value_is_written_short_and_0_only_where_it_is_exact(value, text):
    assert short(value) == text


# --- distributions ------------------------------------------------------------------------------


def distribution(shares):
    rows = [
        ("A", embedding, segment, grade, int(100 * share), 100, 100, share)
        for (embedding, segment), of_cell in shares.items()
        for grade, share in enumerate(of_cell, start=1)
    ]
    return Result(FIGURES[2], RUN, pd.DataFrame(rows, columns=list(SHARE_COLUMNS)))


def test_a_stack_has_five_cells_that_add_up_to_one():
    low, high = [0.5, 0.2, 0.1, 0.1, 0.1], [0.0, 0.0, 0.25, 0.25, 0.5]
    drawing = draw(distribution({("ME5S", "0.5"): low, ("ME5S", "1.0"): high}))
    axes = drawing.axes[0]
    assert len(axes.collections) == 5
    bottom = np.zeros(2)
    for collection, colour, heights in zip(
        axes.collections, GRADE_COLOURS, zip(low, high, strict=True), strict=True
    ):
        assert to_hex(collection.get_facecolor()[0]) == colour
        boxes = [path.get_extents() for path in collection.get_paths()]
        assert [box.y0 for box in boxes] == pytest.approx(bottom)
        bottom = bottom + heights
        assert [box.y1 for box in boxes] == pytest.approx(bottom)
    assert bottom == pytest.approx([1, 1])
    assert {"2.1", "4.2"} <= set(words(drawing))


def test_a_segment_that_one_embedding_lacks_is_hatched():
    even = [0.2] * 5
    drawing = draw(
        distribution({("ME5S", "0.5"): even, ("ME5S", "1.0"): even, ("AML12v2", "0.5"): even})
    )
    first, second = drawing.axes
    assert [patch.get_hatch() for patch in first.patches] == ["/////"]
    assert first.patches[0].get_x() > 1
    assert not second.patches


def test_grade_colours_are_told_apart_in_any_order():
    luminance = [np.dot(to_rgba(c)[:3], (0.2126, 0.7152, 0.0722)) for c in GRADE_COLOURS]
    assert luminance[0] < luminance[1] < luminance[2] > luminance[3] > luminance[4]


# --- narrow and wide ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return made_data.write(tmp_path_factory.mktemp("made"), made_data.records())


@pytest.fixture(scope="module")
def narrow_wide(data):
    return compute(FIGURES[5], data, RUN)


def test_all_panels_have_the_same_scale(narrow_wide):
    drawing = draw(narrow_wide)
    panels = drawing.axes
    assert len(panels) == 10
    assert len({axes.get_xlim() for axes in panels}) == 1
    low, high = panels[0].get_xlim()
    assert low < narrow_wide.limits[0] < narrow_wide.limits[1] < high


def test_each_value_is_one_mark(narrow_wide):
    drawing = draw(narrow_wide)
    marks = [line for axes in drawing.axes for line in axes.lines if line.get_label() in "TnDCGF"]
    defined = narrow_wide.numbers.dropna(subset="correlation")
    drawn = np.concatenate([line.get_xdata() for line in marks])
    assert sorted(drawn[~np.isnan(drawn)]) == sorted(defined["correlation"])
    shapes = {line.get_label(): line.get_marker() for line in marks}
    assert shapes == {name: mark[0] for name, mark in shared.MARKS.items() if name in shapes}
    assert len(set(shapes.values())) == 3


def test_a_hollow_f_does_not_hide_what_lies_under_it(narrow_wide):
    drawing = draw(narrow_wide)
    faces = {
        line.get_label(): line.get_markerfacecolor()
        for axes in drawing.axes
        for line in axes.lines
        if line.get_label() in ("T", "nDCG", "F")
    }
    assert faces["F"] == "none"
    assert faces["T"] == shared.MARKS["T"][1]


def test_a_panel_without_values_says_why(narrow_wide):
    numbers = narrow_wide.numbers.copy()
    narrow = (numbers["segment"] == "narrow") & (numbers["dataset"] == "A")
    numbers.loc[narrow, ["correlation", "n"]] = [math.nan, 3]
    one = (numbers["segment"] == "wide") & (numbers["dataset"] == "A")
    numbers.loc[one & (numbers["measure"] == "nDCG"), "correlation"] = math.nan
    drawing = draw(replace(narrow_wide, numbers=numbers))
    assert "fewer than 10 rows" in words(drawing)
    assert words(drawing).count("undefined: nDCG") == 2


# --- all figures --------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 2, 5, 6, 7, 16])
def test_drawing_leaves_the_settings_of_the_user_alone(data, number):
    before = dict(mpl.rcParams)
    with mpl.rc_context({"font.size": 30, "axes.facecolor": "black"}):
        inside = dict(mpl.rcParams)
        drawing = draw(compute(FIGURES[number], data, RUN))
        assert dict(mpl.rcParams) == inside
    assert isinstance(drawing, Figure)
    assert dict(mpl.rcParams) == before
    assert all(axes.get_facecolor() != (0, 0, 0, 1) for axes in drawing.axes)


@pytest.mark.parametrize("number", [2, 5, 6, 7])
def test_simulated_data_is_stamped(data, number):
    result = compute(FIGURES[number], data, RUN)
    assert shared.STAMP not in words(draw(result))
    simulated = replace(result, simulated=True)
    assert shared.STAMP in words(draw(simulated))
    assert describe(simulated).startswith("Simulated data. ")
    missing = replace(simulated, missing="Nothing.", numbers=result.numbers.head(0))
    assert shared.STAMP in words(draw(missing))


def test_a_reason_is_drawn_where_there_is_nothing_to_draw():
    result = correlations(["1.0"], missing="No segment of A has 300 graded rows.")
    drawing = draw(result)
    assert "No segment of A has 300 graded rows." in " ".join(words(drawing)).replace("\n", " ")
    assert describe(result).endswith("No segment of A has 300 graded rows.")


def test_names_of_the_data_are_text_and_not_mathematics():
    result = correlations(["1.0"], ("$x^2$", "a\x1bb", "x" * 60))
    entry = difference(("T", "F"), r"$\frac$")
    drawing = draw(result)
    draw(replace(differences([0.1]), exhibit=entry)).canvas.draw()
    drawing.canvas.draw()
    labels = [tick.get_text() for tick in drawing.axes[0].get_yticklabels()]
    assert labels == [r"\$x^2\$", r"a\x1bb", "x" * 23 + "…"]


@pytest.mark.filterwarnings("error")
def test_characters_that_the_font_lacks_are_spelled_out():
    drawing = draw(correlations(["1.0"], ("org/模型", "Čas ≥ ½")))
    drawing.canvas.draw()
    labels = {tick.get_text() for tick in drawing.axes[0].get_yticklabels()}
    assert labels == {r"org/\u6a21\u578b", "Čas ≥ ½"}


def test_listings_and_tables_are_not_drawn(data):
    for entry in (FIGURES[22], catalogue.TABLES[1]):
        with pytest.raises(ValueError, match="not drawn"):
            draw(compute(entry, data, RUN))


# --- alt text -----------------------------------------------------------------------------------


def test_the_alt_text_of_a_heatmap_names_ends_rows_and_gaps():
    text = describe(correlations(["0.5", "1.0"], values=[0.1, math.nan, -0.25, 0.3]))
    assert "From −0.25 (EM at 0.5) to 0.30 (EM at 1.0), median 0.10." in text
    assert "40–43 rows a cell." in text
    assert text.endswith("1 of 4 cells have no value.")
    assert "Spearman's ρ" in text


def test_the_alt_text_of_a_difference_counts_its_signs():
    text = describe(differences([0.1, -0.1, 0.0, 0.05]))
    assert "2 cells are above 0, 1 below and 1 exactly 0." in text


def test_the_alt_text_of_a_distribution_names_the_best_ratio():
    low, high = [1.0, 0, 0, 0, 0], [0, 0, 0, 0, 1.0]
    text = describe(distribution({("ME5S", "0.5"): low, ("ME5S", "1.0"): high}))
    assert "EM: 5.00 at 1.0 (highest), 1.00 at 0.5 (lowest)" in text


def test_the_alt_text_of_narrow_and_wide_names_each_measure(narrow_wide):
    text = describe(narrow_wide)
    for measure in ("T", "nDCG", "F"):
        values = narrow_wide.numbers.loc[narrow_wide.numbers["measure"] == measure, "correlation"]
        low, high = (f"{v:.2f}".replace("-", "−") for v in (values.min(), values.max()))
        assert f"{measure} from {low} (" in text
        assert f") to {high} (" in text


def test_a_heatmap_without_any_value_has_words_too():
    text = describe(correlations(["0.5"], values=[math.nan, math.nan]))
    assert "No cell has a value. 2 of 2 cells have no value." in text


@pytest.mark.parametrize("entry", catalogue.ENTRIES.values(), ids=list(catalogue.ENTRIES))
def test_every_entry_has_words_of_a_readable_length(data, entry):
    text = describe(compute(entry, data, RUN))
    assert text.startswith(entry.title)
    assert 20 < len(text) < 700
    assert "nan" not in text


def test_a_long_reason_is_wrapped_and_lies_inside_the_panel():
    reason = "The data has no control answers in samples_controls.json. " * 6
    drawn = draw(replace(differences([0.1]), missing=reason))
    (text,) = drawn.axes[0].texts
    assert text.get_text().count("\n") > 3
    assert "u000a" not in text.get_text()
    box = text.get_window_extent(FigureCanvasAgg(drawn).get_renderer())
    panel = drawn.axes[0].get_window_extent()
    assert panel.x0 < box.x0 < box.x1 < panel.x1
    assert panel.y0 < box.y0 < box.y1 < panel.y1


def test_what_is_asked_for_again_is_kept_by_what_it_depends_on():
    asked = []

    @cells.once(2)
    def rows(dataset, run, more=""):
        asked.append((run.embeddings, more))
        return pd.DataFrame({"more": [more]})

    first, other = Parameters(seed=1), Parameters(seed=2)
    assert rows("data", first) is rows("data", other)  # the seed is no part of the key
    rows("data", replace(first, embeddings=("AM",)))
    assert rows("data", first, "x")["more"].tolist() == ["x"]
    rows("data", first)  # went when the third came
    assert asked == [((), ""), (("AM",), ""), ((), "x"), ((), "")]
