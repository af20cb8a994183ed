"""The files that describe the environment agree with each other."""

import re
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


def requirements() -> list[str]:
    extras = [name for names in PROJECT["optional-dependencies"].values() for name in names]
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
    assert f"python {PROJECT['requires-python']}" in plain
    assert "--constraint requirements.lock" in pip
    assert "--editable .[test]" in pip


def test_the_book_needs_no_torch():
    names = {normal(re.match(r"[A-Za-z0-9._-]+", name).group()) for name in PROJECT["dependencies"]}
    assert not names & {"torch", "sentence-transformers", "transformers"}


@pytest.mark.parametrize(
    "package", ["jupyter-book", "jupytext", "papermill", "pandas", "seaborn", "scipy", "openai"]
)
def test_the_fixed_packages_are_dependencies(package):
    assert any(normal(name).startswith(package) for name in PROJECT["dependencies"])
