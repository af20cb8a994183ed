"""What the README promises is there."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from retrieval_quality.cli import cli
from retrieval_quality.exhibits import catalogue

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_table_of_figures_is_the_catalogue():
    (shown,) = re.findall(r"<!-- figures:.*?-->\n(.*?)\n<!-- /figures -->", README, flags=re.DOTALL)
    assert shown == catalogue.readme_table()


def test_every_figure_and_table_is_in_it():
    numbers = re.findall(
        r"\b\d+\b",
        "\n".join(line.split("|")[1] for line in catalogue.readme_table().splitlines()[2:]),
    )
    expected = [entry.number for entry in catalogue.ENTRIES.values() if entry.number]
    assert sorted(map(int, numbers)) == sorted(expected)


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#:]+)\)", README))
def test_links_lead_to_files(link):
    assert (ROOT / link).exists()


def commands():
    lines = re.findall(r"^retrieval-quality +([^#\n]+)", README, flags=re.MULTILINE)
    return [line.split() for line in lines]


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_and_option_exists(words):
    command, rest = cli, list(words)
    while rest and hasattr(command, "commands"):
        command = command.commands[rest.pop(0)]
    known = {name for option in command.params for name in option.opts}
    assert {word for word in rest if word.startswith("-") and word != "-"} <= known
    shown = CliRunner().invoke(command, ["--help"])
    assert shown.exit_code == 0
