"""The notebooks through papermill, the book that is rendered from them, and two builds compared.

Notebooks are text (MyST Markdown) in ``notebooks/``. They are converted and executed in a copy of
the book, so that the checkout stays as it is and nothing old can end up on a page: every build
executes every notebook, and renders every page anew with warnings as errors. A book takes the
place of the last one when it is complete, and not before.
"""

from __future__ import annotations

import ast
import base64
import csv
import html
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from retrieval_quality import outputs
from retrieval_quality.book import kernels, links
from retrieval_quality.errors import DataError, UsageError, needing
from retrieval_quality.parameters import (
    WHERE,
    Parameters,
    check_place,
    check_uses,
    expand_home,
    read_pairs,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from retrieval_quality.book.kernels import Papermill

FIRST = "index"
"""The first page of the book: a notebook at the top of the checkout."""
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
CELL_SECONDS = 1800  # a cell that runs longer is stuck
Given = Parameters | Mapping[str, Any] | Iterable[str]

_SOURCES = (
    *("book", "notebooks", "src", "tests", "benchmarks", "design", "binder"),
    *(".git", ".github", ".ci", ".venv"),
)
_RESULTS = ("html", "stage", "reports", "seconds.json")
_UNFINISHED = ".unfinished"
_NONE_HAS_IT = dict.fromkeys(Parameters().as_dict(), "no notebook has it")

# What a kernel must see so that its output is the same on every machine and in every locale.
_KERNEL_ENVIRONMENT = {
    "JUPYTER_PREFER_ENV_PATH": "1",  # this environment's python3, not one in the home folder
    "MPLBACKEND": "agg",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONUTF8": "1",
}


@dataclass(frozen=True)
class Work:
    """A converted notebook, the values of its parameters, and whether it writes files."""

    source: Path
    values: dict[str, Any]
    writes: bool

    def page(self, stage: Path) -> Path:
        """Where the executed notebook goes: the first page to the top, others into a folder."""
        return (stage if self.source.stem == FIRST else stage / "notebooks") / self.source.name

    def with_place(self, stage: Path) -> dict[str, Any]:
        """Give the values, with a folder of the notebook's own for its files."""
        if not self.writes:
            return self.values
        folder = stage / "figures" / self.source.stem
        up = "" if self.source.stem == FIRST else "../"
        links.write_address(folder, f"{up}figures/{self.source.stem}")
        return {**self.values, WHERE["name"]: str(folder)}


@dataclass(frozen=True)
class Difference:
    """One thing in which two builds differ: the file, where in it, and both values."""

    file: str
    where: str
    first: str
    second: str

    def __str__(self) -> str:
        """One line for a person."""
        return f"{self.file}: {self.where}: {self.first} | {self.second}"


# ------------------------------------------------------------------------------------ the checkout


def find_root(start: str | Path | None = None) -> Path:
    """Find the folder of the book: the one that holds ``_toc.yml`` and ``notebooks/``.

    Parameters
    ----------
    start : path, optional
        Where to begin, then upwards; by default the working folder, then the checkout that this
        package is installed from.

    Raises
    ------
    UsageError
        There is none.
    """
    starts = [Path(start)] if start else [Path.cwd(), Path(__file__).parents[3]]
    for folder in starts:
        for candidate in (folder.resolve(), *folder.resolve().parents):
            if (candidate / "_toc.yml").is_file() and (candidate / "notebooks").is_dir():
                return candidate
    raise UsageError(
        "the book's _toc.yml and notebooks/ were not found; run this inside a checkout of "
        "retrieval-quality"
    )


def notebook_names(root: Path | None = None) -> list[str]:
    """Names of the notebooks of the book, in the order of its table of contents."""
    toc = ((root or find_root()) / "_toc.yml").read_text(encoding="utf-8")
    found = re.findall(r"(?:file|root):\s*((?:notebooks/)?[^\s#]+)", toc)
    return [Path(name).stem for name in found if name == FIRST or name.startswith("notebooks/")]


def notebook_path(name: str, root: Path | None = None) -> Path:
    """Find a notebook by its name, or by the path of a text notebook or ``.ipynb`` of one's own.

    Raises
    ------
    UsageError
        There is no such notebook.
    """
    own = Path(name)
    if own.suffix in (".md", ".ipynb", ".py") and own.is_file():
        return own
    root = root or find_root()
    if name == FIRST:
        return root / f"{FIRST}.md"
    folder = root / "notebooks"
    path = folder / f"{name.removesuffix('.md')}.md"
    if not path.is_file() or path.parent != folder:
        known = ", ".join(sorted(file.stem for file in folder.glob("*.md")))
        raise UsageError(f"there is no notebook {name!r}; there are: {known}")
    return path


def notebook_parameters(name: str, root: Path | None = None) -> list[dict[str, Any]]:
    """List a notebook's parameters: ``name``, ``type``, ``default`` and ``meaning`` of each.

    Examples
    --------
    >>> [found["default"] for found in notebook_parameters("t-minus-f")][:2]
    ['simulated', 300]
    """
    with _scratch() as folder:
        declared = _declared(_convert(notebook_path(name, root), folder / "notebook.ipynb"))
    shared = {parameter["name"]: parameter for parameter in [*Parameters.describe(), WHERE]}
    own = {"type": "", "group": "", "meaning": "a parameter of this notebook alone"}
    return [
        {
            **own,
            "type": type(default).__name__,
            **shared.get(name, {}),
            "name": name,
            "default": default,
        }
        for name, default in declared.items()
    ]


# --------------------------------------------------------------------------------- one notebook


def run_notebook(
    name: str,
    given: Given = (),
    out: str | Path | None = None,
    *,
    root: Path | None = None,
) -> Path:
    """Execute one notebook through papermill.

    Parameters
    ----------
    name : str
        Name of a notebook of the book, or the path of one's own.
    given : Parameters, mapping, or iterable of ``name=value``
        Parameters that differ from the notebook's own values.
    out : path, optional
        The executed notebook; ``NAME.ipynb`` in the working folder where left out. What is there
        is replaced when the notebook ran to its end, and not before.

    Returns
    -------
    Path
        The executed notebook.

    Raises
    ------
    UsageError
        No such notebook, a parameter that it does not have or of another type, or `out` cannot be
        written to; nothing ran.
    DataError
        A cell raised; the notebook up to there is beside `out`, under a name that is told.
    """
    source = notebook_path(name, root)
    target = expand_home(out) if out else Path(f"{source.stem}.ipynb")
    if target.suffix != ".ipynb":
        raise UsageError(f"an executed notebook is an .ipynb file, not {target}")
    if target.resolve() == source.resolve():
        raise UsageError(f"{target} is the notebook itself; name another file to write to")
    if target.is_dir():
        raise UsageError(f"cannot write to {target}: it is a folder; name another place")
    outputs.check_writable(target)
    with _scratch() as folder, outputs.sole_file(target):
        converted = _convert(source, folder / f"{source.stem}.ipynb")
        values = _checked(source.stem, _declared(converted), given)
        environment = _KERNEL_ENVIRONMENT | {"IPYTHONDIR": str(folder / "ipython")}
        papermill = partial(kernels.alone, environment=environment)
        executed = folder / "executed.ipynb"
        failure = _execute(papermill, converted, executed, values)[1]
        if failure:
            raise DataError(_with_place(failure, _set_aside(executed, target)))
        outputs.write_bytes(target, executed.read_bytes())
    return target


def _set_aside(executed: Path, target: Path) -> Path:
    """Keep what was executed of a failed notebook beside the place of a good one."""
    import nbformat

    place = target.with_name(f"{target.stem}.failed.ipynb")
    if executed.is_file():
        number = 1
        while os.path.lexists(place) and not _is_failed(place):
            number += 1
            place = target.with_name(f"{target.stem}.failed-{number}.ipynb")
        notebook = nbformat.read(executed, as_version=4)
        notebook.metadata["retrieval_quality"] = {"failed": True}
        outputs.write_text(place, nbformat.writes(notebook) + "\n")
    return place


def _is_failed(path: Path) -> bool:
    """Whether a file is what a failed run set aside, which the next one may replace."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        return bool(told["metadata"]["retrieval_quality"]["failed"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _with_place(failure: str, executed: Path) -> str:
    return f"{failure}; the notebook up to there is {executed}" if executed.is_file() else failure


def _convert(source: Path, target: Path) -> Path:
    """Write a text notebook as .ipynb, for this project's kernel, with the same ids every time."""
    with needing("book"):
        import jupytext
        import nbformat

    try:
        notebook = jupytext.read(source)
    except Exception as error:
        raise DataError(f"{source} cannot be read as a notebook: {error}") from error
    language = notebook.metadata.get("kernelspec", {}).get("language") or "python"
    if language.lower() != "python":
        raise DataError(f"{source} is a notebook in {language}; only Python notebooks can be run")
    notebook.metadata = nbformat.from_dict(
        {"kernelspec": dict(KERNEL), "language_info": {"name": "python"}}
    )
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number:03d}"
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, target)
    return target


def _declared(converted: Path) -> dict[str, Any]:
    """Read the one parameters cell of a converted notebook."""
    import nbformat

    cells = [
        cell.source
        for cell in nbformat.read(converted, as_version=4).cells
        if cell.cell_type == "code" and "parameters" in cell.metadata.get("tags", [])
    ]
    name = converted.stem
    if len(cells) > 1:
        raise UsageError(
            f"the notebook {name} has {len(cells)} cells tagged parameters; the later would undo "
            "what is given to the first: leave one"
        )
    try:
        statements = ast.parse(cells[0]).body if cells else []
    except SyntaxError as error:
        raise DataError(f"{name}: the parameters cell cannot be read: {error}") from None
    declared: dict[str, Any] = {}
    for statement in statements:
        parameter, value = _assigned(name, statement)
        if parameter in declared:
            raise DataError(f"{name}: the parameters cell sets {parameter} twice")
        declared[parameter] = value
    return declared


def _assigned(notebook: str, statement: ast.stmt) -> tuple[str, Any]:
    """Read one line of a parameters cell: a name, and a plain literal."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    line = ast.unparse(statement).splitlines()[0]
    if len(targets) != 1 or not isinstance(targets[0], ast.Name):
        raise DataError(f"{notebook}: {line!r} in the parameters cell is not name = value")
    name, value = targets[0].id, getattr(statement, "value", None)
    try:
        return name, ast.literal_eval(value or "")
    except (SyntaxError, TypeError, ValueError):
        said = ast.unparse(value) if value else "nothing"
        raise DataError(
            f"{notebook}: the parameter {name} is not a plain literal: {said}"
        ) from None


def _named(given: Given) -> dict[str, Any]:
    """Give what was given by its names: of `Parameters`, what differs from the defaults."""
    if isinstance(given, Parameters):
        defaults = Parameters().as_dict()
        return {k: v for k, v in given.as_dict().items() if v != defaults[k]}
    return dict(given) if isinstance(given, Mapping) else dict(read_pairs(given))


def _checked(notebook: str, declared: Mapping[str, Any], given: Given) -> dict[str, Any]:
    """Check names and types of what is given against what the notebook declares."""
    given = _named(given)
    unknown = [name for name in given if name not in declared]
    if unknown:
        raise UsageError(
            f"the notebook {notebook} has no parameter {unknown[0]!r}; "
            f"it has: {', '.join(declared) or 'none'}"
        )
    return {name: _value(name, value, declared[name]) for name, value in given.items()}


def _value(name: str, value: Any, default: Any) -> Any:
    """Check a value: of a parameter that many notebooks have, of the place, of their own."""
    if name == WHERE["name"]:
        return check_place(value)
    if name in Parameters().as_dict():
        one = [f"{name}={value}"] if isinstance(value, str) else {name: value}
        return Parameters.parse(one).as_dict()[name]
    return _typed(name, value, default)


def _typed(name: str, value: Any, default: Any) -> Any:
    """Give a value of a notebook's own parameter the type of its default."""
    if isinstance(value, str) and not isinstance(default, str):
        with suppress(SyntaxError, ValueError):
            value = ast.literal_eval(value)
    if type(value) is int and isinstance(default, float):
        value = float(value)
    if default is not None and type(value) is not type(default):
        raise UsageError(
            f"the parameter {name} is {type(default).__name__} (by default {default!r}), "
            f"not {value!r}"
        )
    return value


def _execute(
    papermill: Papermill, source: Path, target: Path, values: Mapping[str, Any]
) -> tuple[float, str | None]:
    """Execute a converted notebook; give the seconds, and what failed as one sentence."""
    given = yaml.safe_dump({name: _sound(value) for name, value in values.items()})
    folder = _working_folder()
    arguments = [str(source), str(target), "--kernel", KERNEL["name"], "--cwd", folder]
    arguments += ["--execution-timeout", str(CELL_SECONDS)]
    arguments += ["--no-progress-bar", "--log-level", "ERROR"]
    arguments += ["--parameters_base64", base64.b64encode(given.encode()).decode("ascii")]
    target.unlink(missing_ok=True)
    began = time.monotonic()
    said = papermill(arguments)
    seconds = round(time.monotonic() - began, 2)
    failure = None
    if said:
        error = _error(said)
        failed = None if "CellTimeoutError" in error else _failed_cell(source.stem, target)
        failure = failed or f"the notebook {source.stem} could not be run: {error}"
    if target.is_file():
        _strip(target)
    return seconds, failure


def _working_folder() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        raise UsageError("the working folder is not there any more; change to another") from None


def _failed_cell(name: str, executed: Path) -> str | None:
    """Say which cell of a notebook raised, and what."""
    import nbformat

    if not executed.is_file():
        return None
    for cell in nbformat.read(executed, as_version=4).cells:
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                first = next((line for line in cell.source.splitlines() if line.strip()), "")
                what = f"{output.ename}: {_plain(output.evalue).splitlines()[0]}"
                place = f"cell {cell.execution_count} ({first.strip()})"
                return f"the notebook {name} stopped in {place}: {what}"
    return None


def _error(said: str) -> str:
    """Find the line that names the error in what a program said, else the last one."""
    lines = _plain(said).splitlines()
    named = [line for line in lines if re.match(r"[\w.]+(Error|Exception)\b", line)]
    return (named or lines)[-1]


def _sound(value: Any) -> Any:
    """Make text whole that an ASCII locale took apart, such as a path with an umlaut."""
    if not isinstance(value, str):
        return value
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _plain(text: str) -> str:
    """Leave out terminal colours and surrounding blanks."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text).strip() or "no message"


def _strip(path: Path) -> None:
    """Take out of an executed notebook what changes from run to run: times and paths."""
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    notebook.metadata = nbformat.from_dict(
        {"kernelspec": dict(KERNEL), "language_info": {"name": "python"}}
    )
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number:03d}"
        cell.metadata.pop("papermill", None)
        cell.metadata.pop("execution", None)
        if "injected-parameters" in cell.metadata.get("tags", []):
            # a page shows all parameters in its header
            cell.metadata["tags"] = ["injected-parameters", "remove-cell"]
    nbformat.write(notebook, path)


# --------------------------------------------------------------------------------- the whole book


def build(
    parameters: Given | None = None,
    out: str | Path = "_build",
    *,
    jobs: int = 2,
    root: Path | None = None,
) -> Path:
    """Execute all notebooks and render the book.

    Parameters
    ----------
    parameters : Parameters, mapping, or iterable of ``name=value``, optional
        Each notebook gets those that it declares.
    out : path
        Gets ``html/`` (the book), ``stage/`` (what it was rendered from) and ``seconds.json``
        (what each stage and notebook took) when all of it is done. Where a notebook or the
        rendering fails they stay as they were, and ``reports/`` tells why.
    jobs : int
        Notebooks executed at the same time, 1 or more.
    root : path, optional
        Folder of the book; by default the one that `find_root` finds.

    Returns
    -------
    Path
        The first page.

    Raises
    ------
    UsageError
        A parameter is wrong or unknown to every notebook; `out` cannot be written to, is in use,
        lies among the sources or holds what no build put there. Nothing ran.
    DataError
        The data cannot be loaded, a notebook failed, or the rendering gave a warning.
    """
    if jobs < 1:
        raise UsageError(f"jobs is 1 or more, not {jobs}")
    root = root or find_root()
    out = Path(os.path.realpath(expand_home(out)))
    _check_place(out, root)
    given = _named(parameters or {})
    shared = Parameters().as_dict()
    asked = Parameters.parse({k: _value(k, v, None) for k, v in given.items() if k in shared})
    with _scratch() as sources_folder:
        work = _prepare(root, sources_folder, given)
        with _held(out):
            return _build(root, out, asked, work, jobs)


def _build(root: Path, out: Path, asked: Parameters, work: list[Work], jobs: int) -> Path:
    """Build beside the last book, and swap."""
    from retrieval_quality import sources

    seconds: dict[str, float] = {}
    with _timed(seconds, "data"):
        dataset = sources.load(asked.data, seed=asked.seed)
    unfinished = out / _UNFINISHED
    shutil.rmtree(unfinished, ignore_errors=True)
    outputs.mark_ours(out, (_UNFINISHED, "reports"))
    stage, reports = unfinished / "stage", unfinished / "reports"
    try:
        _stage(root, stage)
        repository = find_repository(root)
        _configure(stage, announcement(_sound(dataset.name), dataset.simulated), repository)
        with _timed(seconds, "notebooks"):
            seconds.update(_execute_all(work, stage, reports, jobs))
        with _timed(seconds, "render"):
            _render(stage, unfinished, reports)
        if repository:
            _write_colab(work, unfinished / "html" / "colab", repository)
        told = json.dumps(seconds, indent=1) + "\n"
        outputs.write_text(unfinished / "seconds.json", told)
        outputs.mark_ours(out, _RESULTS)
        for name in ("stage", "html", "seconds.json"):
            outputs.swap(unfinished / name, out / name)
        shutil.rmtree(out / "reports", ignore_errors=True)
    except DataError as error:
        if not reports.is_dir():
            raise
        outputs.swap(reports, out / "reports")
        kept = str(error).replace(str(reports), str(out / "reports"))
        raise DataError(f"{kept}{_still(out)}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return out / "html" / "index.html"


def _still(out: Path) -> str:
    return "; the last book is still there" if (out / "html").is_dir() else ""


@contextmanager
def _held(out: Path) -> Iterator[None]:
    """Hold the folder of a build; leave no trace of a folder in which nothing came to be."""
    new = not out.exists()
    try:
        with outputs.sole_run(out, "book"):
            yield
    finally:
        if new and {path.name for path in out.iterdir()} <= {outputs.LOCK}:
            shutil.rmtree(out, ignore_errors=True)


def _check_place(out: Path, root: Path) -> None:
    """Refuse a folder among the sources, one that cannot be written, and what others put there."""
    root = Path(os.path.realpath(root))
    if out == root or any(out.is_relative_to(root / name) for name in _SOURCES):
        raise UsageError(f"{out} is among the sources of the book; name another folder, as _build")
    outputs.check_writable(out)
    outputs.check_ours(out, _RESULTS, _recognised)


def _recognised(path: Path) -> bool:
    """Whether a version that left no mark made this part of a build.

    A book had ``seconds.json`` beside it, whose stages tell that it was one; the build that failed
    left the stage, with the book's configuration, and reports.
    """
    if path.name == "reports":
        return path.is_dir() and all(
            file.suffix == ".ipynb" or file.name == "render.log" for file in path.iterdir()
        )
    if path.name == "stage":
        return (path / "_toc.yml").is_file() and (path / "_config.yml").is_file()
    try:
        told = json.loads((path.parent / "seconds.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    stages = isinstance(told, dict) and {"data", "notebooks", "render"} <= set(told)
    return stages and (path.name == "seconds.json" or (path / "index.html").is_file())


def announcement(name: str, simulated: bool) -> str:
    """Say on top of every page what data this build uses, as HTML.

    Examples
    --------
    >>> announcement("my <data>", simulated=False)
    'This build uses the data <strong>my &lt;data&gt;</strong>.'
    """
    if simulated:
        return (
            "This build uses <strong>simulated data</strong>: nothing on it says anything about "
            "real retrieval."
        )
    return f"This build uses the data <strong>{html.escape(name)}</strong>."


def _stage(root: Path, stage: Path) -> None:
    """Copy what the book is rendered from, without the text notebooks."""
    stage.mkdir(parents=True)
    for name in ("_config.yml", "_toc.yml"):
        shutil.copyfile(root / name, stage / name)
    shutil.copytree(root / "book", stage / "book")


def _prepare(root: Path, folder: Path, given: Mapping[str, Any]) -> list[Work]:
    """Convert all notebooks and check the parameters of each before any is executed."""
    work, known = [], dict.fromkeys(["data"])
    for name in notebook_names(root):
        converted = _convert(notebook_path(name, root), folder / f"{name}.ipynb")
        declared = _declared(converted)
        known |= dict.fromkeys(declared)
        wanted = {key: value for key, value in given.items() if key in declared}
        work.append(Work(converted, _checked(name, declared, wanted), WHERE["name"] in declared))
    known.pop(WHERE["name"], None)  # the build itself says where
    place = "the build gives each page a folder of its own, in the folder --out"
    for key in given:
        if key not in known and key != WHERE["name"]:
            Parameters.parse({key: given[key]}, uses=known, by="the book", reasons=_NONE_HAS_IT)
    check_uses(given, known, "the book", {WHERE["name"]: place})
    return work


def _execute_all(work: list[Work], stage: Path, reports: Path, jobs: int) -> dict[str, float]:
    from tqdm import tqdm

    pages = stage / "notebooks"
    pages.mkdir()
    seconds = {}
    with (
        _scratch() as folder,
        ThreadPoolExecutor(jobs) as pool,
        kernels.forks(_KERNEL_ENVIRONMENT | {"IPYTHONDIR": str(folder / "ipython")}) as papermill,
        tqdm(total=len(work), desc="notebooks", unit="", disable=sys.stderr is None) as progress,
    ):
        running = {
            pool.submit(
                _execute, papermill, one.source, one.page(stage), one.with_place(stage)
            ): one.source
            for one in work
        }
        try:
            for done in as_completed(running):
                source = running[done]
                seconds[source.stem], failure = done.result()
                progress.update()
                if failure:
                    executed = (stage if source.stem == FIRST else pages) / source.name
                    raise DataError(_with_place(failure, _report(executed, reports)))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return seconds


def _report(executed: Path, reports: Path) -> Path:
    """Keep what was executed of a notebook among the reports."""
    reports.mkdir(parents=True, exist_ok=True)
    if executed.is_file():
        shutil.copyfile(executed, reports / executed.name)
    return reports / executed.name


def find_repository(root: Path) -> str:
    """Find the web address of the repository that a checkout belongs to.

    Parameters
    ----------
    root : path
        Folder of the book.

    Returns
    -------
    str
        What GitHub says where it builds, else that of the remote ``origin``; empty where there is
        none on GitHub, and then the book has no launch buttons.
    """
    if name := os.environ.get("GITHUB_REPOSITORY"):
        return f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{name}"
    try:
        command = ["git", "-C", str(root), "remote", "get-url", "origin"]
        origin = subprocess.run(command, capture_output=True, text=True, errors="replace").stdout
    except OSError:  # no git
        return ""
    found = re.search(r"github\.com[/:]([\w.-]+/[\w.-]+?)(\.git)?\s*$", origin)
    return f"https://github.com/{found[1]}" if found else ""


def _configure(stage: Path, announced: str, repository: str) -> None:
    """Set the staged configuration: pages are executed already, and say whose data they show."""
    path = stage / "_config.yml"
    configuration = yaml.safe_load(path.read_text(encoding="utf-8"))
    configuration["execute"]["execute_notebooks"] = "off"
    configuration["html"]["announcement"] = announced
    if repository:
        configuration.setdefault("repository", {})["url"] = repository
    if configuration.get("repository", {}).get("url"):
        for button in ("repository", "issues", "edit_page"):
            configuration["html"][f"use_{button}_button"] = True
        configuration["sphinx"]["config"]["html_theme_options"]["use_source_button"] = True
    path.write_text(yaml.safe_dump(configuration, allow_unicode=True), encoding="utf-8")


def _write_colab(work: list[Work], folder: Path, repository: str) -> None:
    """Write notebooks for Colab, which has no text notebooks and does not have this package."""
    import nbformat

    folder.mkdir()
    for one in work:
        notebook = nbformat.read(one.source, as_version=4)
        install = nbformat.v4.new_code_cell(
            f'%pip install --quiet "retrieval-quality @ git+{repository}"', id="install"
        )
        notebook.cells.insert(0, install)
        nbformat.write(notebook, folder / one.source.name)


def _render(stage: Path, out: Path, reports: Path) -> None:
    """Render the staged book into ``html``, with the files of its pages; a warning stops it."""
    command = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()"]
    command += ["build", "-W", "--keep-going", "--all", "--path-output", str(stage), str(stage)]
    environment = {**os.environ, **_KERNEL_ENVIRONMENT, "NO_COLOR": "1"}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, encoding="utf-8", errors="replace"
    )
    rendered = stage / "_build" / "html"
    if done.returncode or not (rendered / "index.html").is_file():
        reports.mkdir(parents=True, exist_ok=True)
        log = reports / "render.log"
        log.write_text(done.stdout + done.stderr, encoding="utf-8")
        lines = _plain(done.stderr).splitlines()
        found = [line for line in lines if re.search("WARNING|ERROR", line)]
        what = "; ".join(found[:3]) or "no page was written"
        raise DataError(f"the book could not be rendered: {what} (all of it in {log})")
    shutil.move(rendered, out / "html")
    if (stage / "figures").is_dir():
        shutil.move(stage / "figures", out / "html" / "figures")
        for address in (out / "html" / "figures").rglob(links.FILE):
            address.unlink()


# ----------------------------------------------------------------------------------- two builds


def check(first: str | Path, second: str | Path, tolerance: float = 0.0) -> list[Difference]:
    """Compare the CSV files of two builds number by number.

    Parameters
    ----------
    first, second : path
        Folders with CSV files anywhere below: two books, or two folders of figures.
    tolerance : float
        Greatest difference of two numbers that counts as none, 0 or more.

    Returns
    -------
    list of Difference
        Empty where the builds agree: the same files, rows, texts and numbers.

    Raises
    ------
    UsageError
        A folder is missing or has no CSV file.
    """
    files = _paired(_csv_files(Path(first)), _csv_files(Path(second)))
    found = [
        Difference(name, "file", *("there" if name in side else "missing" for side in files))
        for name in sorted(set(files[0]) ^ set(files[1]))
    ]
    for name in sorted(set(files[0]) & set(files[1])):
        found += _compare(name, files[0][name], files[1][name], tolerance)
    return found


def _paired(first: dict[str, Path], second: dict[str, Path]) -> tuple[dict[str, Path], ...]:
    """Call a file of the second build as in the first, where only the folder it lies in differs.

    Which folder a file lies in has changed between versions; its name tells which it is, unless
    another that has no partner is called so too.
    """
    alone = [set(first) - set(second), set(second) - set(first)]
    names = [Counter(Path(file).name for file in side) for side in alone]
    places = {Path(file).name: file for file in alone[0]}
    moved = {
        file: places[name]
        for file in alone[1]
        if names[0][name := Path(file).name] == names[1][name] == 1
    }
    return first, {moved.get(name, name): path for name, path in second.items()}


def _csv_files(build: Path) -> dict[str, Path]:
    if not build.is_dir():
        raise UsageError(f"{build} is not a folder")
    folder = next((f for f in (build / "html" / "figures", build / "figures") if f.is_dir()), build)
    files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*.csv"))}
    if not files:
        raise UsageError(f"{build} has no CSV file: it is no build of the book")
    return files


def _compare(name: str, first: Path, second: Path, tolerance: float) -> list[Difference]:
    rows = []
    for path in (first, second):
        with path.open(encoding="utf-8", newline="") as file:
            rows.append(list(csv.reader(file)))
    if len(rows[0]) != len(rows[1]):
        return [Difference(name, "rows", str(len(rows[0])), str(len(rows[1])))]
    if rows[0][:1] != rows[1][:1]:
        return [Difference(name, "columns", *(", ".join((r or [[]])[0]) for r in rows))]
    header = (rows[0] or [[]])[0]
    return [
        Difference(name, f"line {line}, {column}", a, b)
        for line, (left, right) in enumerate(zip(*rows, strict=True), start=1)
        for column, a, b in zip(header, left, right, strict=False)
        if not _equal(a, b, tolerance)
    ]


def _equal(first: str, second: str, tolerance: float) -> bool:
    """Whether two fields are the same text, or numbers within the tolerance."""
    if first == second:
        return True
    try:
        a, b = float(first), float(second)
    except ValueError:
        return False
    return a == b or (math.isnan(a) and math.isnan(b)) or abs(a - b) <= tolerance


# ------------------------------------------------------------------------------------- helpers


@contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="retrieval-quality-") as folder:
        yield Path(folder)


@contextmanager
def _timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    seconds[stage] = round(time.monotonic() - began, 2)
