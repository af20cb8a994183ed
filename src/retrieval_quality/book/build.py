"""The notebooks through papermill, the book that is rendered from them, and two builds compared.

Notebooks are text (MyST Markdown) in ``notebooks/``. They are converted and executed in a copy of
the book, so that the checkout stays as it is and nothing old can end up on a page: every build
executes every notebook, and renders every page anew with warnings as errors.
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

from retrieval_quality.book import kernels
from retrieval_quality.errors import DataError, UsageError, needing
from retrieval_quality.markup import FIGURES_LINK
from retrieval_quality.parameters import Parameters

if TYPE_CHECKING:
    from collections.abc import Iterator

    from retrieval_quality.book.kernels import Papermill

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
CELL_SECONDS = 1800  # a cell that runs longer is stuck

# What a kernel must see so that its output is the same on every machine and in every locale.
_KERNEL_ENVIRONMENT = {
    "JUPYTER_PREFER_ENV_PATH": "1",  # this environment's python3, not one in the home folder
    "MPLBACKEND": "agg",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONUTF8": "1",
}


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
    return [Path(name).stem for name in re.findall(r"file:\s*(notebooks/[^\s#]+)", toc)]


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
    folder = (root or find_root()) / "notebooks"
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
    shared = {parameter["name"]: parameter for parameter in Parameters.describe()}
    own = {"type": "", "meaning": "a parameter of this notebook alone"}
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
    given: Parameters | Mapping[str, Any] | Iterable[str] = (),
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
        The executed notebook; ``NAME.ipynb`` in the working folder where left out.

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
        A cell raised; the notebook up to there is at `out`.
    """
    source = notebook_path(name, root)
    target = Path(out) if out else Path(f"{source.stem}.ipynb")
    if target.suffix != ".ipynb":
        raise UsageError(f"an executed notebook is an .ipynb file, not {target}")
    if target.resolve() == source.resolve():
        raise UsageError(f"{target} is the notebook itself; name another file to write to")
    with _scratch() as folder:
        converted = _convert(source, folder / f"{source.stem}.ipynb")
        values = _checked(source.stem, _declared(converted), given)
        _check_writable(target.parent, target)
        environment = _KERNEL_ENVIRONMENT | {"IPYTHONDIR": str(folder / "ipython")}
        papermill = partial(kernels.alone, environment=environment)
        failure = _execute(papermill, converted, target, values)[1]
    if failure:
        raise DataError(_with_place(failure, target))
    return target


def _check_writable(folder: Path, file: Path | None = None) -> None:
    """Refuse a place for results before the work is done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        if file and file.exists():
            file.open("ab").close()
    except OSError as error:
        raise UsageError(
            f"cannot write to {file or folder}: {error.strerror or error}; name another place"
        ) from error


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
    """Read the parameters cell of a converted notebook."""
    with needing("book"):
        from papermill import inspect_notebook

    declared = {}
    for name, found in inspect_notebook(converted).items():
        try:
            declared[name] = ast.literal_eval(found["default"])
        except (SyntaxError, ValueError):
            raise DataError(
                f"{converted.stem}: the parameter {name} is not a plain literal: {found['default']}"
            ) from None
    return declared


def _checked(
    notebook: str,
    declared: Mapping[str, Any],
    given: Parameters | Mapping[str, Any] | Iterable[str],
) -> dict[str, Any]:
    """Check names and types of what is given against what the notebook declares."""
    if isinstance(given, Parameters):
        defaults = Parameters().as_dict()
        given = {k: v for k, v in given.as_dict().items() if v != defaults[k]}
    if not isinstance(given, Mapping):
        pairs = [_split(pair) for pair in given]
        given = dict(pairs)
        if twice := [name for name, count in Counter(n for n, _ in pairs).items() if count > 1]:
            raise UsageError(f"the parameter {twice[0]} is given twice")
    unknown = [name for name in given if name not in declared]
    if unknown:
        raise UsageError(
            f"the notebook {notebook} has no parameter {unknown[0]!r}; "
            f"it has: {', '.join(declared) or 'none'}"
        )
    shared = {parameter["name"] for parameter in Parameters.describe()}
    return {
        name: _shared(name, value) if name in shared else _typed(name, value, declared[name])
        for name, value in given.items()
    }


def _shared(name: str, value: Any) -> Any:
    """Check a parameter that every notebook has; text is what a command line gives."""
    return Parameters.parse(
        [f"{name}={value}"] if isinstance(value, str) else {name: value}
    ).as_dict()[name]


def _split(pair: str) -> tuple[str, str]:
    name, equals, value = pair.partition("=")
    if not equals:
        raise UsageError(f"a parameter is written name=value, not {pair!r}")
    return name.strip(), value.strip()


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
    arguments = [str(source), str(target), "--kernel", KERNEL["name"], "--cwd", str(Path.cwd())]
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
    parameters: Parameters | None = None,
    out: str | Path = "_build",
    *,
    jobs: int = 2,
    root: Path | None = None,
) -> Path:
    """Execute all notebooks and render the book.

    Parameters
    ----------
    parameters : Parameters, optional
        Of every notebook.
    out : path
        Gets ``html/`` (the book), ``stage/`` (what it was rendered from), ``seconds.json`` (what
        each stage and notebook took) and, where a notebook or the rendering fails, ``reports/``.
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
        A parameter is unknown to a notebook, or `out` cannot be written to; nothing ran.
    DataError
        The data cannot be loaded, a notebook failed, or the rendering gave a warning.
    """
    from retrieval_quality import sources

    if jobs < 1:
        raise UsageError(f"jobs is 1 or more, not {jobs}")
    parameters = parameters or Parameters()
    root = root or find_root()
    out = Path(out).resolve()
    stage, reports = out / "stage", out / "reports"
    _check_writable(out)
    for old in (stage, reports, out / "html"):
        shutil.rmtree(old, ignore_errors=True)
    seconds: dict[str, float] = {}

    _stage(root, stage)
    work = _prepare(root, stage, parameters)
    with _timed(seconds, "data"):
        dataset = sources.load(parameters.data, seed=parameters.seed)
    repository = find_repository(root)
    _configure(stage, announcement(_sound(dataset.name), dataset.simulated), repository)
    with _timed(seconds, "notebooks"):
        seconds.update(_execute_all(work, stage, reports, jobs))
    with _timed(seconds, "render"):
        index = _render(stage, out, reports)
    if repository:
        _write_colab(work, out / "html" / "colab", repository)
    shutil.rmtree(stage / "source")
    (out / "seconds.json").write_text(json.dumps(seconds, indent=1) + "\n", encoding="utf-8")
    return index


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
    for name in ("_config.yml", "_toc.yml", "index.md"):
        shutil.copyfile(root / name, stage / name)
    shutil.copytree(root / "book", stage / "book")


def _prepare(root: Path, stage: Path, parameters: Parameters) -> list[tuple[Path, dict[str, Any]]]:
    """Convert all notebooks and check the parameters of each before any is executed."""
    work = []
    for name in notebook_names(root):
        converted = _convert(notebook_path(name, root), stage / "source" / f"{name}.ipynb")
        values = _checked(name, _declared(converted), parameters)
        values["out"] = str(stage / "figures")
        work.append((converted, values))
    return work


def _execute_all(
    work: list[tuple[Path, dict[str, Any]]], stage: Path, reports: Path, jobs: int
) -> dict[str, float]:
    from tqdm import tqdm

    pages = stage / "notebooks"
    pages.mkdir()
    seconds = {}
    with (
        _scratch() as folder,
        ThreadPoolExecutor(jobs) as pool,
        kernels.forks(
            _KERNEL_ENVIRONMENT
            | {"IPYTHONDIR": str(folder / "ipython"), FIGURES_LINK: "../figures"}
        ) as papermill,
        tqdm(total=len(work), desc="notebooks", unit="", disable=sys.stderr is None) as progress,
    ):
        running = {
            pool.submit(_execute, papermill, source, pages / source.name, values): source
            for source, values in work
        }
        try:
            for done in as_completed(running):
                source = running[done]
                seconds[source.stem], failure = done.result()
                progress.update()
                if failure:
                    raise DataError(_with_place(failure, _report(pages / source.name, reports)))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return seconds


def _report(executed: Path, reports: Path) -> Path:
    """Keep what was executed of a notebook among the reports."""
    reports.mkdir(exist_ok=True)
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
    path.write_text(yaml.safe_dump(configuration, allow_unicode=True), encoding="utf-8")


def _write_colab(work: list[tuple[Path, dict[str, Any]]], folder: Path, repository: str) -> None:
    """Write notebooks for Colab, which has no text notebooks and does not have this package."""
    import nbformat

    folder.mkdir()
    for source, _ in work:
        notebook = nbformat.read(source, as_version=4)
        install = nbformat.v4.new_code_cell(
            f'%pip install --quiet "retrieval-quality @ git+{repository}"', id="install"
        )
        notebook.cells.insert(0, install)
        nbformat.write(notebook, folder / source.name)


def _render(stage: Path, out: Path, reports: Path) -> Path:
    """Render the staged book; any warning stops it."""
    command = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()"]
    command += ["build", "-W", "--keep-going", "--all", "--path-output", str(stage), str(stage)]
    environment = {**os.environ, **_KERNEL_ENVIRONMENT, "NO_COLOR": "1"}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, encoding="utf-8", errors="replace"
    )
    rendered = stage / "_build" / "html"
    if done.returncode or not (rendered / "index.html").is_file():
        reports.mkdir(exist_ok=True)
        log = reports / "render.log"
        log.write_text(done.stdout + done.stderr, encoding="utf-8")
        lines = _plain(done.stderr).splitlines()
        found = [line for line in lines if re.search("WARNING|ERROR", line)]
        what = "; ".join(found[:3]) or "no page was written"
        raise DataError(f"the book could not be rendered: {what} (all of it in {log})")
    shutil.move(rendered, out / "html")
    if (stage / "figures").is_dir():
        shutil.move(stage / "figures", out / "html" / "figures")
    return out / "html" / "index.html"


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
    files = [_csv_files(Path(folder)) for folder in (first, second)]
    found = [
        Difference(name, "file", *("there" if name in side else "missing" for side in files))
        for name in sorted(set(files[0]) ^ set(files[1]))
    ]
    for name in sorted(set(files[0]) & set(files[1])):
        found += _compare(name, files[0][name], files[1][name], tolerance)
    return found


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
