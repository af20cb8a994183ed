"""What notebooks show: every notebook on odd data, text made safe, checks that bite."""

from __future__ import annotations

import ast
import dataclasses
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import jupytext
import numpy as np
import pandas as pd
import pytest

from retrieval_quality import markup, text
from retrieval_quality.book import build as book
from retrieval_quality.book import links, mathml, pages
from retrieval_quality.data import simulate
from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.exhibits import catalogue, distribution
from retrieval_quality.exhibits.exhibit import Result
from retrieval_quality.parameters import Parameters

ROOT = Path(__file__).parents[1]
EVIL = (
    "<script>alert(1)</script> <img src=x onerror=alert(1)> $\\frac{1}{2}$ **bold** "
    "[a](javascript:alert(1)) \x1b[31mred \u202etxt.exe &amp; ``` {raw}`html`"
)


class Tags(HTMLParser):
    """Names and attributes of the elements of some HTML, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data):
        self.text += data


def write(folder: Path, *, ids=("A-1", "A-2", "A-3"), embeddings=("AML12v2",), depths=(2,)) -> Path:
    """Write a small dataset in the published format, with text that no page may obey."""
    folder.mkdir(parents=True, exist_ok=True)
    texts, ranked, graded = [], [], []
    for number, name in enumerate(ids):
        texts.append({"id": name, "q": EVIL, "p": [EVIL, "second"], "n": [EVIL, "other"]})
        rank = [0, 2, 1, 3] if number % 2 else [2, 0, 3, 1]
        for embedding in embeddings:
            found = [sum(i < 2 for i in rank[:k]) for k in depths]
            row = {"id": name, "E": embedding, "Nc": 4, "Np": 2}
            ratios = {
                "P": [n / k for n, k in zip(found, depths, strict=True)],
                "R": [n / 2 for n in found],
            }
            ranked.append({**row, "K": list(depths), **ratios, "rank": rank})
            for n, k in zip(found, depths, strict=True):
                top = rank[:k]
                answers = {"answer_ideal": EVIL, "answer_topK": EVIL, "grade": number % 5 + 1}
                inside = {"rank": top, "inK": [int(i < 2) for i in top], "P": n / k, "R": n / 2}
                graded.append({**row, "K": k, **inside, **answers})
    for part, rows in {"texts": texts, "ranked": ranked, "graded": graded}.items():
        path = folder / f"samples_{part}.json"
        path.write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
    return folder


def shown(name: str, **parameters) -> str:
    """Execute the cells of a notebook here, and give the HTML of everything that it shows."""
    space: dict = {}
    html = []
    for cell in jupytext.read(ROOT / "notebooks" / f"{name}.md").cells:
        if cell.cell_type != "code":
            continue
        tree = ast.parse(cell.source)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, name, "exec"), space)
        if "parameters" in cell.metadata.get("tags", []):
            space.update(parameters)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), name, "eval"), space)
            html.append(value._repr_html_())
    return "\n".join(html)


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RETRIEVAL_QUALITY_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("data") / "small"
    simulate.write_json(simulate.simulate(1, scale=0.02), folder)
    return str(folder)


@pytest.fixture(scope="module")
def three_rows(tmp_path_factory) -> str:
    return str(write(tmp_path_factory.mktemp("data") / "three"))


BY_HAND = [
    *("grade-distribution", "narrow-wide", "f-by-ratio", "t-by-ratio", "t-minus-f"),
    *("tu-minus-t", "ndcg-minus-f", "fe-minus-f", "t-minus-ndcg"),
]


def visible_cells(name: str) -> list[str]:
    """The code of the cells that a reader sees without opening them."""
    found = jupytext.read(ROOT / "notebooks" / f"{name}.md").cells
    return [
        one.source
        for one in found
        if one.cell_type == "code" and "hide-input" not in one.metadata.get("tags", [])
    ]


def by_hand(name: str, run: pages.Run) -> tuple[dict, str]:
    """Execute the visible cell of a page; give what it made, and what it says."""
    (code,) = [source for source in visible_cells(name) if "by_hand" in source]
    tree, space = ast.parse(code), {"run": run}
    last = tree.body.pop()
    assert any(isinstance(node, ast.Assert) for node in tree.body)
    exec(compile(tree, name, "exec"), space)
    return space, repr(eval(compile(ast.Expression(last.value), name, "eval"), space))


@pytest.mark.parametrize("name", BY_HAND)
@pytest.mark.filterwarnings("ignore:An input array is constant")
def test_one_cell_is_worked_out_by_hand(name, small, monkeypatch):
    run = pages.start(data=small, min_samples_ratio=8, min_samples_width=8, alpha=0.5)
    made, said = by_hand(name, run)
    assert made["cell"].found
    assert made["by_hand"] == pytest.approx(made["cell"].value, abs=1e-8)
    assert "by the engine" in said
    off = dataclasses.replace(made["cell"], value=made["cell"].value + 1e-6)
    monkeypatch.setattr(pages.Run, "first_cell", lambda *_, **__: off)
    with pytest.raises(AssertionError):
        by_hand(name, run)


@pytest.mark.parametrize("name", BY_HAND)
def test_without_a_cell_nothing_is_worked_out_by_hand(name, three_rows):
    made, said = by_hand(name, pages.start(data=three_rows))
    assert not made["cell"].found
    assert "no cell with a value" in said


@pytest.mark.parametrize("value", ["exact", "published", "", "1.5", -1, None, True, float("nan")])
def test_intervals_refuse_an_alpha_they_do_not_heed(value, three_rows):
    with pytest.raises(UsageError, match=r"alpha_of_intervals cannot be .*cross-fitted or a"):
        pages.start(data=three_rows, alpha_of_intervals=value)


def test_intervals_heed_a_number_as_alpha(three_rows):
    assert pages.start(data=three_rows, alpha_of_intervals="0.5").parameters.alpha == 0.5
    assert pages.start(data=three_rows, alpha_of_intervals="cross-fitted").parameters.alpha == (
        Parameters().alpha
    )


@pytest.mark.parametrize("name", catalogue.NOTEBOOKS)
def test_three_rows_say_what_is_missing_where(name, three_rows):
    html = shown(name, data=three_rows)
    for entry in catalogue.NOTEBOOKS[name].entries:
        assert html.count(f'id="{entry.anchor}"') == 1
    assert "script" not in Tags(html).names
    assert "onerror" not in Tags(html).attributes


OTHERS = ["human-grades", "appendix", "gallery", "field-guide", "measures", "own-retrieval"]


@pytest.mark.parametrize("name", OTHERS)
def test_other_pages_work_on_three_rows_without_grades_of_people(name, three_rows):
    assert shown(name, data=three_rows)


@pytest.mark.parametrize("name", ["own-retrieval", "t-minus-f", "grade-distribution", "tables"])
def test_pages_work_where_nothing_was_graded(name, tmp_path):
    data = write(tmp_path / "ungraded")
    path = data / "samples_graded.json"
    rows = [{**row, "grade": None} for row in json.loads(path.read_text(encoding="utf-8"))]
    path.write_text(json.dumps(rows), encoding="utf-8")
    assert shown(name, data=str(data))


def test_other_names_are_shown_as_text(tmp_path):
    data = write(
        tmp_path / "odd",
        ids=[f"<b>Q</b>-x-{number}" for number in range(6)],
        embeddings=["org/模型<script>", "other"],
        depths=(1, 2),
    )
    options = {"data": str(data), "min_samples_ratio": 2, "min_samples_width": 2}
    for name in ("tables", "dataset-code", "appendix"):
        tags = Tags(shown(name, **options))
        assert not {"script", "b"} & set(tags.names)
        assert "<b>Q</b>" in tags.text or name == "dataset-code"


def test_text_of_the_data_is_shown_as_text(three_rows):
    html = shown("dataset-code", data=three_rows)
    assert "&lt;script&gt;" in html
    assert "\x1b" not in html
    assert "\u202e" not in html


def test_a_page_is_complete(small):
    html = shown("t-minus-f", data=small, min_samples_ratio=10, datasets=["A"])
    tags = Tags(html)
    assert html.count("<figure ") == len(catalogue.NOTEBOOKS["t-minus-f"].entries)
    assert html.count('<img alt="Simulated data. T minus F') == 5
    assert "min_samples_ratio = 10" in tags.text
    assert "Simulated data: this says nothing about real retrieval." in tags.text
    assert "Download" not in tags.text


def test_cells_of_a_heat_map_lie_side_by_side_and_say_their_numbers(small):
    run = pages.start(data=small, min_samples_ratio=10, datasets=["A"])
    result = run._result(catalogue.FIGURES[7])
    width, height, cells = pages._layout(result.exhibit.draw(result), result)
    assert len(cells) == len(result.numbers)
    assert all(0 <= cell[0] < cell[0] + cell[2] <= 100 for cell in cells)
    assert all(0 <= cell[1] < cell[1] + cell[3] <= 100 for cell in cells)
    first = result.numbers.iloc[0]
    assert f"n = {first['n']:,} of {first['n_total']:,} rows" in cells[0][4]
    assert text.signed(first["difference"]) in cells[0][4]
    assert width > height > 0
    assert cells[1][0] == pytest.approx(cells[0][0] + cells[0][2], abs=0.1)


def test_files_are_written_and_linked_only_within_a_book(small, tmp_path):
    run = pages.start(data=small, min_samples_ratio=10, out=str(tmp_path))
    assert "Written to" in run.figure(6).html
    assert {path.suffix for path in tmp_path.glob("figure-06.*")} == {
        ".svg",
        ".png",
        ".csv",
        ".json",
    }
    links.write_address(tmp_path, "../figures/one")
    assert 'href="../figures/one/figure-06.csv"' in run.figure(6).html
    assert 'href="../figures/f-by-ratio/figure-06.csv"' in run.gallery().html
    assert str(tmp_path) not in (tmp_path / "figure-06.json").read_text(encoding="utf-8")


def test_unknown_parameters_and_figures_are_refused(small):
    with pytest.raises(UsageError):
        pages.start(data=small, min_sample=3)
    with pytest.raises(UsageError):
        pages.start(data=small).figure(99)


def test_a_failed_check_raises_and_names_itself(small):
    run = pages.start(data=small)
    assert "holds here" in run.check(("holds here", True)).html
    with pytest.raises(DataError, match="does not hold"):
        run.check(("holds here", True), ("does not hold", False))


@pytest.mark.parametrize(
    ("column", "value"),
    [("difference", 2.5), ("n", 3), ("n_total", 10), ("reason", "")],
)
def test_checks_of_a_difference_bite(column, value):
    numbers = pd.DataFrame(
        {
            "embedding": ["AML12v2", "AML12v2"],
            "segment": ["0.5", "1.0"],
            "n": [30, 40],
            "n_total": [31, 40],
            "difference": [0.1, np.nan],
            "reason": ["", "the grade is constant"],
        }
    )
    good = Result(catalogue.FIGURES[7], Parameters(min_samples_ratio=20), numbers)
    assert all(holds for _, holds in good.exhibit.checks(good))
    numbers = numbers.astype({column: object})
    numbers.loc[1 if column == "reason" else 0, column] = value
    numbers = numbers.infer_objects()
    bad = Result(catalogue.FIGURES[7], Parameters(min_samples_ratio=20), numbers)
    assert [holds for _, holds in bad.exhibit.checks(bad)].count(False) == 1


def test_remarks_on_a_difference_count_and_place():
    numbers = pd.DataFrame(
        {
            "embedding": ["AML12v2", "ME5S", "AML12v2", "ME5S"],
            "segment": ["0.5", "0.5", "10.0", "10.0"],
            "n": [1000, 1000, 500, 500],
            "difference": [0.1, 0.2, -0.3, np.nan],
        }
    )
    said = catalogue.FIGURES[7].observe(Result(catalogue.FIGURES[7], Parameters(), numbers))
    assert said == [
        (
            "T is ahead of F in 2 of 3 cells, behind in 1. The median is +0.100: from "
            "−0.300 (AM at K/N_p = 10.0, n = 500) to +0.200 (EM at K/N_p = 0.5, n = 1,000)."
        ),
        "At K/N_p = 0.5, T is ahead for every embedding.",
        "At K/N_p = 10.0, T is behind for every embedding that has a value there.",
    ]


def test_best_ratios_of_a_distribution_worked_by_hand():
    numbers = pd.DataFrame(
        {
            "dataset": "A",
            "embedding": "AML12v2",
            "segment": ["2.0", "2.0", "10.0", "10.0"],
            "grade": [1, 5, 1, 5],
            "n": [4, 4, 8, 8],
            "share": [0.25, 0.75, 0.5, 0.5],
        }
    )
    found = distribution.best_ratios(Result(catalogue.FIGURES[2], Parameters(), numbers))
    assert found.values.tolist() == [["A", "AML12v2", "2.0", 4.0, 4, 4.0, 3.0]]


def test_tables_leave_out_what_says_nothing_and_mark_what_is_undefined():
    frame = pd.DataFrame(
        {"x": [0.5, np.nan], "n": [1234, 5], "reason": ["", ""], "t": ["<", "\x07"]}
    )
    html = markup.table(frame, 'a "name"')
    text = Tags(html).text
    assert "reason" not in text
    assert "0.5000" in text
    assert "–" in text
    assert "1,234" in text
    assert "\\x07" in text
    assert 'aria-label="a &quot;name&quot;"' in html


def test_shades_are_white_at_zero_and_strongest_at_the_ends():
    assert "#ffffff" in markup.shade(0.0, 1.0)
    assert markup.shade(2.0, 1.0).split(";")[0] == markup.shade(1.0, 1.0).split(";")[0]
    assert "–" in markup.shade(float("nan"), 1.0)


@pytest.mark.parametrize("latex", [r"\nosuch{x}", r"\frac{", r"\left("])
def test_broken_mathematics_is_an_error(latex):
    with pytest.raises(ValueError, match="in:"):
        mathml.to_mathml(latex)


@pytest.mark.parametrize(
    "name", ["index.md", *(f"book/{p.name}" for p in (ROOT / "book").glob("*.md"))]
)
def test_prose_names_only_commands_and_pages_that_exist(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    for target in re.findall(r"\{doc\}`(?:[^`<]*<)?/?([^`>]+)>?`", text):
        base = ROOT / ("book" if "/" not in target else "")
        assert any((base / f"{target}{end}").is_file() for end in (".md", ".ipynb")), target


def test_parameters_are_all_explained_in_the_book():
    text = (ROOT / "book" / "reproduce.md").read_text(encoding="utf-8")
    for parameter in Parameters.describe():
        assert f"`{parameter['name']}`" in text


def test_notebook_names_of_the_book_have_files():
    for name in book.notebook_names(ROOT):
        assert book.notebook_path(name, ROOT).is_file()
