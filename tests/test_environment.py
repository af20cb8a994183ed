"""The files that describe the environment agree with each other."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def lock() -> dict[str, str]:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").split()
    return {normal(name): version for name, _, version in (line.partition("==") for line in lines)}


EXTRAS = PROJECT["optional-dependencies"]


def names_of(requirements: list[str]) -> set[str]:
    return {normal(re.match(r"[A-Za-z0-9._-]+", name).group()) for name in requirements}


def requirements() -> list[str]:
    extras = [name for extra, names in EXTRAS.items() if extra != "all" for name in names]
    return [*PROJECT["dependencies"], *extras]


def test_the_lock_pins_everything_that_the_project_asks_for():
    pins = lock()
    assert all(re.fullmatch(r"[0-9][0-9a-z.]*", version) for version in pins.values())
    for requirement in requirements():
        name = normal(re.match(r"[A-Za-z0-9._-]+", requirement).group())
        assert name in pins, f"{name} is not in requirements.lock: make lock"
        exact = re.search(r"==([^,; ]+)", requirement)
        if exact:
            assert pins[name] == exact.group(1)


def test_conda_gives_the_same_as_the_lock():
    conda = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    plain = [entry for entry in conda["dependencies"] if isinstance(entry, str)]
    (pip,) = [entry["pip"] for entry in conda["dependencies"] if isinstance(entry, dict)]
    assert "python=3.12" in plain  # as repo2docker reads it
    assert "--constraint requirements.lock" in pip
    made = re.search(r"^PARTS +=(.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert f"--editable .[{made.group(1).strip()},test]" in pip


def test_all_is_every_extra_that_a_user_wants():
    (every,) = EXTRAS["all"]
    assert set(every.partition("[")[2].rstrip("]").split(",")) == EXTRAS.keys() - {
        *("all", "test", "browser")
    }


def test_computing_a_measure_needs_neither_book_nor_pipeline():
    core = names_of(PROJECT["dependencies"])
    for extra in ("book", "pipeline", "models", "lab", "value", "logs"):
        assert not core & names_of(EXTRAS[extra])
    assert "torch" not in core


FIXED = ["jupyter-book", "jupytext", "papermill", "pandas", "seaborn", "scipy"]


@pytest.mark.parametrize("package", [*FIXED, "sentence-transformers", "openai"])
def test_the_fixed_packages_are_declared(package):
    assert package in names_of(requirements())


IMPORTED_AS = {
    "bs4": "beautifulsoup4", "sklearn": "scikit-learn", "yaml": "pyyaml", "dateutil": "",
}  # fmt: skip
BROUGHT_ALONG = {"docutils", "sphinx", "nbformat", "torch", "ipython", "jinja2", "pygments"}
"""Parts of other packages that are declared, which fix their versions."""


def test_what_is_imported_is_declared():
    """A package that happens to be there today, because another brings it, is gone tomorrow."""
    imported = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                imported.add(node.module.partition(".")[0])
    imported -= {*sys.stdlib_module_names, "retrieval_quality"}
    needed = {normal(IMPORTED_AS.get(name, name)) for name in imported}
    assert needed - BROUGHT_ALONG <= names_of(requirements())


def test_a_missing_extra_is_one_sentence_with_the_command(tmp_path):
    blocked = "import sys\nfor name in {!r}: sys.modules[name] = None\n"
    run = "from retrieval_quality.cli import main\nsys.argv[1:] = {!r}\nmain()"
    for names, words, extra in (
        (["openai"], ["pipeline", "answer", str(tmp_path), "--model", "m"], "pipeline"),
        (["jupytext"], ["notebook", "recall", "--out", str(tmp_path / "n.ipynb")], "book"),
    ):
        code = blocked.format(names) + run.format(words)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 2, done.stderr
        assert f"{names[0]} is not installed" in done.stderr
        assert f"pip install 'retrieval-quality[{extra}]'" in done.stderr
        assert "Traceback" not in done.stderr
