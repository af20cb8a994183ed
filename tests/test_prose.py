"""What is written around the pictures: folded code, readable headings, words that are explained."""

import re
from pathlib import Path

import jupytext
import pytest

from retrieval_quality.book import build as book

ROOT = Path(__file__).parents[1]
NAMES = book.notebook_names(ROOT)
PROSE = [*sorted((ROOT / "notebooks").glob("*.md")), *sorted((ROOT / "book").glob("*.md"))]


@pytest.mark.parametrize("name", NAMES)
def test_code_that_only_shows_something_is_folded_away(name):
    cells = jupytext.read(book.notebook_path(name, ROOT)).cells
    shown = [cell for cell in cells if re.fullmatch(r"run(\.\w+\([^()]*\))?", cell.source.strip())]
    showing = [cell for cell in shown if "run.show(" not in cell.source]
    for cell in showing:
        assert {"hide-input", "remove-input"} & set(cell.metadata.get("tags", [])), cell.source


@pytest.mark.parametrize("path", PROSE, ids=lambda path: path.stem)
def test_headings_set_symbols_as_mathematics(path):
    headings = re.findall(r"^#+ .*", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    plain = [re.sub(r"\$[^$]*\$", "", heading) for heading in headings]
    assert [heading for heading in plain if re.search(r"\w_\w", heading)] == []


def test_words_that_captions_and_tables_use_are_in_the_glossary():
    text = (ROOT / "book" / "glossary.md").read_text(encoding="utf-8")
    terms = {line for line in text.splitlines() if line and not line.startswith((" ", "`", "#"))}
    wanted = {"published grid", "cross-fitted", "replicate", "stands", "sample", "hit rate", "F1"}
    wanted |= {"query, question", "reciprocal rank", "MRR", "average precision, MAP", "nDCG, usual"}
    assert wanted <= terms
    assert sorted(terms) == sorted(set(terms))


def test_terms_that_are_referred_to_exist():
    text = (ROOT / "book" / "glossary.md").read_text(encoding="utf-8")
    terms = {line.lower() for line in text.splitlines() if line and not line.startswith(" ")}
    targets = re.findall(r"\{term\}`(?:[^`<]*<)?([^`>]+)>?`", text)
    assert [target for target in targets if target.lower() not in terms] == []
