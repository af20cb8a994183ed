"""The design note, the import contract and the package name the same modules in the same order."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def contract() -> list[set[str]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (layers,) = [c["layers"] for c in settings["tool"]["importlinter"]["contracts"]]
    return [{name.strip() for name in layer.split("|")} for layer in reversed(layers)]


def test_the_design_note_follows_the_contract():
    text = (ROOT / "design" / "architecture.md").read_text(encoding="utf-8")
    listed = re.findall(r"^([a-z_]+)/? +\S", text.split("```")[1], flags=re.MULTILINE)
    for layer in contract():
        assert set(listed[: len(layer)]) == layer
        listed = listed[len(layer) :]
    assert listed == []


def test_every_module_is_in_the_contract():
    package = ROOT / "src" / "retrieval_quality"
    modules = {path.stem for path in package.glob("*.py")} - {"__init__"}
    folders = {path.parent.name for path in package.glob("*/__init__.py")}
    assert set.union(*contract()) == modules | folders
