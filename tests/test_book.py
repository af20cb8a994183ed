"""Notebooks through papermill, the rendered book, and two builds compared."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import jupytext
import nbformat
import pytest

from retrieval_quality.book import build as book
from retrieval_quality.data import simulate
from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.exhibits import catalogue
from retrieval_quality.exhibits.intervals import Intervals
from retrieval_quality.outputs import LOCK
from retrieval_quality.parameters import Parameters

ROOT = Path(__file__).parents[1]
HEADER = """---
kernelspec:
  display_name: someone's own
  language: python
  name: py312-jvsc-abc
---
"""
PARAMETERS = """
```{code-cell} ipython3
:tags: [parameters]

data = "simulated"
top = 3
share = 0.5
out = ""
```
"""


def notebook(folder: Path, name: str, cells: str, header: str = HEADER) -> Path:
    path = folder / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{header}\n# {name}\n{PARAMETERS}{cells}", encoding="utf-8")
    return path


def cell(code: str) -> str:
    return f"\n```{{code-cell}} ipython3\n{code}\n```\n"


def outputs(path: Path) -> str:
    found = nbformat.read(path, as_version=4)
    return "".join(
        output.get("text", "") + str(output.get("data", {}))
        for one in found.cells
        if one.cell_type == "code"
        for output in one.outputs
    )


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    """A small dataset as files in the published format."""
    cache = tmp_path_factory.mktemp("cache")
    folder = tmp_path_factory.mktemp("data") / "small"
    simulate.write_json(simulate.simulate(1, scale=0.02, cache=cache), folder)
    return folder


@pytest.fixture
def tree(tmp_path, monkeypatch) -> Path:
    """A book of one notebook and one page, in a folder whose name is not plain."""
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    root = tmp_path / "My Büch (1)"
    (root / "book").mkdir(parents=True)
    for name in ("_config.yml", "book/references.bib"):
        shutil.copyfile(ROOT / name, root / name)
    (root / "index.md").write_text(
        "# Čas – α ≥ ½\n\n$\\sqrt{n_p}$, {doc}`one <notebooks/one>`, {cite}`schwartz2025recall`\n",
        encoding="utf-8",
    )
    (root / "book" / "references.md").write_text(
        "# References\n\n```{bibliography}\n```\n", encoding="utf-8"
    )
    (root / "_toc.yml").write_text(
        "format: jb-book\nroot: index\nchapters:\n- file: notebooks/one\n- file: book/references\n",
        encoding="utf-8",
    )
    notebook(root / "notebooks", "one", cell("print('org/模型', data)"))
    return root


# --- the notebooks of the checkout -----------------------------------------------------------


def test_every_notebook_of_the_catalogue_is_in_the_book():
    assert set(catalogue.NOTEBOOKS) <= set(book.notebook_names(ROOT))


@pytest.mark.parametrize("name", book.notebook_names(ROOT))
def test_notebooks_have_the_parameters_of_a_run_as_plain_literals(name):
    found = {item["name"]: item["default"] for item in book.notebook_parameters(name, ROOT)}
    shared = {**Parameters().as_dict(), "out": ""}
    assert {k: v for k, v in found.items() if k in shared and v != shared[k]} == {}


@pytest.mark.parametrize("name", book.notebook_names(ROOT))
def test_notebooks_hold_no_logic(name):
    """A cell is a few plain statements: what decides, repeats or is long belongs into a module."""
    banned = (
        *(ast.FunctionDef, ast.ClassDef, ast.Lambda, ast.For, ast.While),
        *(ast.If, ast.Try, ast.With, ast.Match),
    )
    found = jupytext.read(book.notebook_path(name, ROOT))
    for one in found.cells:
        if one.cell_type == "code":
            assert [n for n in ast.walk(ast.parse(one.source)) if isinstance(n, banned)] == []
            assert len([line for line in one.source.splitlines() if line.strip()]) <= 23, one.source
            assert "pip install" not in one.source


@pytest.mark.parametrize("name", book.notebook_names(ROOT))
def test_a_notebook_gives_every_parameter_it_declares_to_the_loading_of_its_data(name):
    found = jupytext.read(book.notebook_path(name, ROOT))
    (loading,) = [
        node
        for one in found.cells
        if one.cell_type == "code"
        for node in ast.walk(ast.parse(one.source))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pages.start"
    ] or [None]
    if loading is not None:
        given = {key.arg: ast.unparse(key.value) for key in loading.keywords}
        declared = [item["name"] for item in book.notebook_parameters(name, ROOT)]
        assert given == {name: name for name in given}
        assert list(given) == [one for one in declared if one in given]


def test_each_figure_is_shown_by_the_notebook_that_the_catalogue_names():
    for entry in catalogue.ENTRIES.values():
        text = (ROOT / "notebooks" / f"{entry.notebook}.md").read_text(encoding="utf-8")
        call = {"code": "code", "table": "table"}.get(entry.kind, "figure")
        asked = f"{call}({entry.number or json.dumps(entry.anchor)})"
        if isinstance(entry, Intervals):
            asked = "standing_maps({}, {})".format(*map(json.dumps, entry.measures))
        assert text.count(f"run.{asked}") == 1, entry.anchor


def test_no_executed_notebook_is_in_the_checkout():
    assert list((ROOT / "notebooks").glob("*.ipynb")) == []


# --- one notebook ----------------------------------------------------------------------------


def test_a_private_notebook_runs_with_other_parameters_and_the_same_bytes_twice(tmp_path):
    own = notebook(tmp_path, "own", cell("print(top * 2, share, data)"))
    given = ["top=4", "share=1", "data=elsewhere"]
    first = book.run_notebook(str(own), given, tmp_path / "a" / "out.ipynb")
    second = book.run_notebook(str(own), given, tmp_path / "b.ipynb")
    assert "8 1.0 elsewhere" in outputs(first)
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize(
    "given",
    [
        ["tpo=4"],
        ["top=many"],
        ["top"],
        ["top=4", "top=5"],
        ["min_samples_ratio=3"],
        {"share": "half"},
        {"data": 3},
    ],
)
def test_wrong_parameters_are_refused_before_anything_runs(tmp_path, given):
    own = notebook(tmp_path, "own", cell("open('ran', 'w')"))
    with pytest.raises(UsageError):
        book.run_notebook(str(own), given, tmp_path / "out.ipynb")
    assert not (tmp_path / "out.ipynb").exists()


def test_a_parameter_that_is_no_literal_is_refused(tmp_path):
    text = HEADER + PARAMETERS.replace("top = 3", "top = 1 + 2")
    (tmp_path / "own.md").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match="top is not a plain literal"):
        book.run_notebook(str(tmp_path / "own.md"), [], tmp_path / "out.ipynb")


def test_a_failing_cell_is_named_and_the_notebook_up_to_there_kept(tmp_path):
    own = notebook(tmp_path, "own", cell("print('before')") + cell("1 / 0"))
    with pytest.raises(DataError, match=r"own stopped in cell 3 \(1 / 0\): ZeroDivisionError"):
        book.run_notebook(str(own), [], tmp_path / "out.ipynb")
    assert not (tmp_path / "out.ipynb").exists()
    assert "before" in outputs(tmp_path / "out.failed.ipynb")


def test_a_failing_run_leaves_a_good_notebook_and_a_file_of_the_user(tmp_path):
    own = notebook(tmp_path, "own", cell("print('good')") + cell("assert top == 3"))
    (tmp_path / "out.failed.ipynb").write_text("mine", encoding="utf-8")
    good = book.run_notebook(str(own), [], tmp_path / "out.ipynb").read_bytes()
    for _ in range(2):
        with pytest.raises(DataError, match=r"up to there is .*out\.failed-2\.ipynb"):
            book.run_notebook(str(own), ["top=4"], tmp_path / "out.ipynb")
    assert (tmp_path / "out.ipynb").read_bytes() == good
    assert (tmp_path / "out.failed.ipynb").read_text(encoding="utf-8") == "mine"
    assert not (tmp_path / "out.failed-3.ipynb").exists()


@pytest.mark.parametrize(
    ("cells", "what"),
    [
        ("k = 5\n```\n\n```{code-cell} ipython3\n:tags: [parameters]\n\nk = 7", "2 cells tagged"),
        ("k = 5\nk = 7", "sets k twice"),
        ("k = j = 5", "is not name = value"),
        ("k, j = 5, 6", "is not name = value"),
        ("print(5)", "is not name = value"),
        ("k += 5", "is not name = value"),
        ("import os", "is not name = value"),
        ("k: int", "is not a plain literal: nothing"),
        ("k = [j for j in 'ab']", "is not a plain literal"),
        ("k = open", "is not a plain literal: open"),
        ("k = ", "cannot be read"),
        ("%time k = 5", "cannot be read"),
    ],
)
def test_what_is_no_parameters_cell_is_refused(tmp_path, cells, what):
    text = f"{HEADER}\n```{{code-cell}} ipython3\n:tags: [parameters]\n\n{cells}\n```\n"
    (tmp_path / "own.md").write_text(text, encoding="utf-8")
    with pytest.raises((DataError, UsageError), match=what):
        book.run_notebook(str(tmp_path / "own.md"), ["k=3"], tmp_path / "out.ipynb")
    assert not (tmp_path / "out.ipynb").exists()


def test_an_annotated_parameter_is_one_too(tmp_path):
    own = tmp_path / "own.md"
    own.write_text(f"{HEADER}{PARAMETERS.replace('top = 3', 'top: int | None = 3')}")
    assert [item["name"] for item in book.notebook_parameters(str(own))][1] == "top"


@pytest.mark.parametrize("value", ["None", "null", "[]", "~nobody-here/x", "True", "''"])
def test_a_place_that_is_a_slip_is_refused(tmp_path, value):
    own = notebook(tmp_path, "own", cell("open('ran', 'w')"))
    with pytest.raises(UsageError, match=r"out cannot be|no home folder"):
        book.run_notebook(str(own), [f"out={value}"], tmp_path / "out.ipynb")


def test_a_cell_that_takes_too_long_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(book, "CELL_SECONDS", 1)
    own = notebook(tmp_path, "own", cell("while True: pass"))
    with pytest.raises(DataError, match=r"own could not be run: .*CellTimeoutError: .*1 seconds"):
        book.run_notebook(str(own), [], tmp_path / "out.ipynb")


def test_a_place_that_cannot_be_written_to_is_refused_before_anything_runs(tmp_path):
    own = notebook(tmp_path, "own", cell("open('ran', 'w')"))
    (tmp_path / "file").write_text("", encoding="utf-8")
    (tmp_path / "folder.ipynb").mkdir()
    for out in ("file/out.ipynb", "folder.ipynb"):
        with pytest.raises(UsageError, match=rf"cannot write to .*{out}: .*name another place"):
            book.run_notebook(str(own), [], tmp_path / out)
    with pytest.raises(UsageError, match="cannot write to"):
        book.build(out=tmp_path / "file" / "build", root=ROOT)


def test_a_notebook_in_another_language_is_refused(tmp_path):
    own = notebook(tmp_path, "own", "", header=HEADER.replace("python", "R"))
    with pytest.raises(DataError, match=r"own\.md is a notebook in R; only Python"):
        book.run_notebook(str(own), [], tmp_path / "out.ipynb")


def test_a_notebook_is_never_written_over_itself(tmp_path):
    own = tmp_path / "own.ipynb"
    nbformat.write(nbformat.v4.new_notebook(), own)
    with pytest.raises(UsageError, match="the notebook itself"):
        book.run_notebook(str(own), [], own)


def test_an_unknown_notebook_is_named_with_the_known_ones():
    with pytest.raises(UsageError, match="t-minus-f"):
        book.notebook_path("t-minus-g", ROOT)
    with pytest.raises(UsageError):
        book.notebook_path("../index", ROOT)


def test_a_notebook_without_kernelspec_runs(tmp_path):
    own = notebook(tmp_path, "own", cell("print(top)"), header="")
    assert "3" in outputs(book.run_notebook(str(own), [], tmp_path / "out.ipynb"))


# --- a book ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_book_is_built_in_a_folder_with_blanks_in_an_ascii_locale(tree, small):
    # In a repository that is known, so that there are launch buttons too.
    code = (
        "import sys; from retrieval_quality.book import build as book; "
        "from retrieval_quality.parameters import Parameters\nif __name__ == '__main__':\n    "
        "print(book.build(Parameters(data=sys.argv[1]), sys.argv[2], root=__import__('pathlib')"
        ".Path(sys.argv[3])).name)"
    )
    script = tree / "build.py"
    script.write_text(code, encoding="utf-8")
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    environment |= {
        "GITHUB_REPOSITORY": "someone/a-fork",
        "GITHUB_SERVER_URL": "https://github.com",
    }
    command = [sys.executable, str(script), str(small), str(tree / "_build"), str(tree)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    index = (tree / "_build" / "html" / "index.html").read_text(encoding="utf-8")
    assert "Čas – α ≥ ½" in index
    assert "<math" in index
    assert 'href="notebooks/one.html"' in index
    assert "simulated data" in index
    page = (tree / "_build" / "html" / "notebooks" / "one.html").read_text(encoding="utf-8")
    assert "org/模型" in page
    assert str(small) in page  # the parameters it was run with
    assert "/v2/gh/someone/a-fork/main?urlpath=lab/tree/notebooks/one.md" in page
    assert "/github/someone/a-fork/blob/gh-pages/colab/one.ipynb" in page
    assert "/someone/a-fork/edit/main/notebooks/one.md" in page
    assert "/someone/a-fork/blob/main/notebooks/one.md?plain=1" in page
    assert "/someone/a-fork/issues/new" in page
    for_colab = nbformat.read(tree / "_build" / "html" / "colab" / "one.ipynb", as_version=4)
    assert "git+https://github.com/someone/a-fork" in for_colab.cells[0].source
    seconds = json.loads((tree / "_build" / "seconds.json").read_text(encoding="utf-8"))
    assert {"data", "notebooks", "render", "one"} <= set(seconds)


@pytest.mark.slow
def test_a_failing_notebook_stops_the_build_and_leaves_the_last_book(tree, small):
    out = tree / "_build"
    former(out)
    (out / "mine.txt").write_text("mine", encoding="utf-8")
    before = contents(out)
    notebook(tree / "notebooks", "one", cell("raise ValueError('too odd')"))
    report = r"; the notebook up to there is .*_build/reports/one\.ipynb; the last book is still"
    with pytest.raises(DataError, match=rf"one stopped in cell 3 .*too odd{report}"):
        book.build(Parameters(data=str(small)), out, root=tree)
    assert (out / "reports" / "one.ipynb").is_file()
    after = contents(out)
    assert {path: after[path] for path in before} == before
    assert not (out / ".unfinished").exists()


def former(out: Path) -> None:
    """A book as a version made it that left no mark."""
    for name in ("html/index.html", "stage/_toc.yml", "stage/_config.yml"):
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text("old", encoding="utf-8")
    told = {"data": 1, "notebooks": 2, "render": 3, "one": 2}
    (out / "seconds.json").write_text(json.dumps(told), encoding="utf-8")


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.mark.parametrize(
    "given",
    [
        {"data": "no-such-data"},
        {"data": "None"},
        {"alpha": "best"},
        {"alpah": "0.5"},
        {"seed": 1},
        {"coefficient": "pearson"},
        {"out": "elsewhere"},
        {"top": "many"},
        {"top": 2.5},
        {"data": 3},
        {"min_samples_ratio": "0"},
    ],
)
def test_a_slip_touches_nothing(tree, tmp_path, given, monkeypatch):
    monkeypatch.chdir(tmp_path)
    former(tree / "_build")
    before = contents(tree)
    for out in (tree / "_build", tmp_path / "new"):
        with pytest.raises(UsageError):
            book.build(given, out, root=tree)
    (tree / "_build" / LOCK).unlink(missing_ok=True)
    assert contents(tree) == before
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "place",
    [
        *(".", "notebooks", "book", "book/new", "src/x", "notebooks/_build", ".git/x", "tests"),
        *("link-to-book", "book/../notebooks", "_toc.yml", "_toc.yml/x"),
    ],
)
def test_a_book_is_never_built_among_its_sources(tree, place):
    (tree / "link-to-book").symlink_to(tree / "book")
    before = contents(tree)
    with pytest.raises(UsageError, match=r"among the sources|cannot write to|is a file"):
        book.build({}, tree / place, root=tree)
    assert contents(tree) == before


@pytest.mark.parametrize(
    "name",
    [
        *("html/index.html", "html", "reports/q3.txt", "stage/play.txt", "seconds.json"),
        *("html/.buildinfo", "reports/a/b.ipynb", "stage", "stage/_toc.yml", "seconds.json/x"),
    ],
)
def test_what_no_build_put_there_is_refused(tree, tmp_path, name):
    (tmp_path / "site" / name).parent.mkdir(parents=True, exist_ok=True)
    if "." in name.rpartition("/")[2] or "x" in name:
        (tmp_path / "site" / name).write_text("mine", encoding="utf-8")
    else:
        (tmp_path / "site" / name).mkdir()
    before = contents(tmp_path / "site")
    with pytest.raises(UsageError, match=r"was not made by this program.*nothing was changed"):
        book.build({}, tmp_path / "site", root=tree)
    assert contents(tmp_path / "site") == before


@pytest.mark.slow
def test_a_former_book_is_replaced_through_a_link_and_each_page_has_its_files(tree, small):
    """Field case 10 (a folder with blanks, another place) and trial 08 (downloads of a page)."""
    write = "import pathlib; (pathlib.Path(out) / 'table-1.csv').write_text(f'n\\n{top}\\n')"
    notebook(tree / "notebooks", "one", cell(write))
    (tree / "notebooks" / "two.md").write_text(
        (tree / "notebooks" / "one.md").read_text(encoding="utf-8").replace("top = 3", "top = 5")
    )
    toc = (tree / "_toc.yml").read_text(encoding="utf-8")
    (tree / "_toc.yml").write_text(toc + "- file: notebooks/two\n", encoding="utf-8")
    former(tree / "elsewhere")
    (tree / "_build").symlink_to(tree / "elsewhere")
    index = book.build({"data": str(small)}, tree / "_build", root=tree)
    assert (tree / "_build").is_symlink()
    html = tree / "elsewhere" / "html"
    assert index == html / "index.html"
    found = {p.relative_to(html).as_posix(): p.read_text() for p in html.rglob("table-1.csv")}
    assert found == {
        "figures/one/table-1.csv": "n\n3\n",
        "figures/two/table-1.csv": "n\n5\n",
    }
    assert not (tree / "elsewhere" / ".unfinished").exists()
    book._check_place(tree / "elsewhere", tree)  # the next build may replace it


def test_a_second_build_of_a_folder_is_told(tree, tmp_path):
    code = (
        "import sys; from retrieval_quality import outputs\n"
        "with outputs.sole_run(sys.argv[1], 'book'): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "out")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        other.stdout.readline()
        with pytest.raises(UsageError, match=r"in use: book \(process"):
            book.build({}, tmp_path / "out", root=tree)
        other.stdin.close()


@pytest.mark.slow
def test_a_warning_stops_the_rendering(tree):
    (tree / "index.md").write_text("# A\n\n{doc}`nowhere`\n", encoding="utf-8")
    (tree / "_toc.yml").write_text("format: jb-book\nroot: index\n", encoding="utf-8")
    out = tree / "_build"
    book._stage(tree, out / "stage")
    shutil.copyfile(tree / "index.md", out / "stage" / "index.md")
    with pytest.raises(DataError, match="unknown document: 'nowhere'"):
        book._render(out / "stage", out, out / "reports")
    assert (out / "reports" / "render.log").is_file()
    assert not (out / "html").exists()


def test_a_parameter_that_a_notebook_lacks_stops_the_build_before_data_is_read(tree):
    with pytest.raises(UsageError, match="the book does not use seed: no notebook has it"):
        book.build(Parameters(data="/nowhere", seed=2), tree / "_build", root=tree)


def test_the_repository_is_found_by_its_remote(tmp_path, monkeypatch):
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    assert book.find_repository(tmp_path) == ""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    remote = ["git", "-C", str(tmp_path), "remote", "add", "origin"]
    subprocess.run([*remote, "git@github.com:someone/a.fork.git"], check=True)
    assert book.find_repository(tmp_path) == "https://github.com/someone/a.fork"


def test_other_data_is_named_on_top_of_the_pages():
    assert book.announcement("a <b>", simulated=False).count("&lt;b&gt;") == 1
    assert "simulated" in book.announcement("simulated", simulated=True)


# --- two builds ------------------------------------------------------------------------------


def write_csv(folder: Path, text: str, name: str = "figure-07.csv") -> Path:
    path = folder / "html" / "figures" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return folder


def test_equal_builds_have_no_difference(tmp_path):
    first = write_csv(tmp_path / "a", "x,y\n1.0,a\nnan,b\n")
    second = write_csv(tmp_path / "b", "x,y\n1,a\nNaN,b\n")
    assert book.check(first, second) == []


def test_a_number_a_row_and_a_file_that_differ_are_named(tmp_path):
    first = write_csv(tmp_path / "a", "x,y\n1.0,a\n")
    second = write_csv(tmp_path / "b", "x,y\n1.5,a\n")
    write_csv(tmp_path / "b", "x\n", "table-1.csv")
    said = [str(difference) for difference in book.check(first, second)]
    assert said == ["table-1.csv: file: missing | there", "figure-07.csv: line 2, x: 1.0 | 1.5"]
    assert len(book.check(first, second, tolerance=0.6)) == 1
    write_csv(tmp_path / "b", "x,y\n1.0,a\n2.0,b\n")
    assert str(book.check(first, second)[1]) == "figure-07.csv: rows: 2 | 3"
    write_csv(tmp_path / "b", "x,z\n1.0,a\n")
    assert str(book.check(first, second)[1]) == "figure-07.csv: columns: x, y | x, z"


def test_files_that_moved_to_the_folder_of_their_page_are_compared_by_name(tmp_path):
    first = write_csv(tmp_path / "a", "x\n1\n")
    second = write_csv(tmp_path / "b", "x\n2\n", "t-minus-f/figure-07.csv")
    assert [str(one) for one in book.check(first, second)] == ["figure-07.csv: line 2, x: 1 | 2"]
    write_csv(tmp_path / "b", "x\n1\n", "own/figure-07.csv")  # which of the two is it?
    assert len(book.check(first, second)) == 3


def test_a_folder_without_numbers_is_no_build(tmp_path):
    first = write_csv(tmp_path / "a", "x\n1\n")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no CSV file"):
        book.check(first, tmp_path / "empty")
    with pytest.raises(UsageError, match="not a folder"):
        book.check(first, tmp_path / "nowhere")


@pytest.mark.slow
def test_papermill_runs_a_notebook_by_its_own_command(tmp_path):
    guide = (ROOT / "book" / "reproduce.md").read_text(encoding="utf-8")
    (lines,) = re.findall(r"```sh\n(jupytext --to ipynb .*\npapermill .*)\n```", guide)
    small = lines.replace("t-minus-f", "schematic").replace("notebooks/", f"{ROOT}/notebooks/")
    for line in small.replace("-p min_samples_ratio 100", "-p data miniature").splitlines():
        command = [sys.executable, "-m", *shlex.split(line)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    cells = nbformat.read(tmp_path / "out.ipynb", as_version=4).cells
    assert [cell for cell in cells if 'data = "miniature"' in cell.source]
    shown = "".join(str(cell.get("outputs", "")) for cell in cells)
    assert "792 graded rows" in shown
