"""What surrounds the book: workflows and their shell steps, Binder, notebooks in an editor."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jupytext
import nbformat
import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
NOTEBOOKS = [*sorted((ROOT / "notebooks").glob("*.md")), ROOT / "index.md"]


def steps(name):
    workflow = yaml.safe_load((ROOT / ".github/workflows" / name).read_text(encoding="utf-8"))
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_and_make_targets_exist(path):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    scripts = [step["run"] for step in steps(path.name) if "run" in step]
    scripts += [(ROOT / ".ci" / "run").read_text(encoding="utf-8")]
    for step in steps(path.name):
        assert re.fullmatch(r"actions/[a-z-]+@v\d+", step.get("uses", "actions/none@v0"))
    for script in scripts:
        for target in re.findall(r"^make ([a-z-]+)", script, re.M):
            assert re.search(rf"^{target}:", makefile, re.M), target
        plain = re.sub(r"\$\{\{.*?\}\}", "x", script)
        subprocess.run(["bash", "-n"], input=plain, text=True, check=True)


def test_the_step_that_publishes_the_book_pushes_all_of_it(tmp_path):
    (step,) = (step for step in steps("publish.yml") if "Publish" in step.get("name", ""))
    (tmp_path / "_build" / "html" / "_static").mkdir(parents=True)
    (tmp_path / "_build/html/index.html").write_text("the book", encoding="utf-8")
    (tmp_path / "_build/html/_static/look.css").write_text("p {}", encoding="utf-8")
    remote = tmp_path / "remote" / "some" / "one"
    subprocess.run(["git", "init", "-q", "--bare", str(remote)], check=True)
    script = step["run"].replace("${{ github.token }}", "secret")
    environment = os.environ | {
        "GITHUB_SHA": "0" * 40,
        "GITHUB_REPOSITORY": "some/one",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{tmp_path}/remote/.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://x-access-token:secret@github.com/",
    }
    subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=tmp_path, env=environment, check=True
    )
    listed = subprocess.run(
        ["git", "-C", str(remote), "ls-tree", "-r", "--name-only", "gh-pages"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert sorted(listed) == [".nojekyll", "_static/look.css", "index.html"]


def test_binder_opens_text_notebooks_as_notebooks(tmp_path):
    environment = os.environ | {
        "JUPYTER_CONFIG_DIR": str(tmp_path),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "RETRIEVAL_QUALITY_CACHE": str(tmp_path / "cache"),
    }
    script = (ROOT / "postBuild").read_text(encoding="utf-8")
    script = script.replace("data info simulated", "data info miniature")  # which is there at once
    subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, check=True)
    (settings,) = tmp_path.glob("labconfig/*.json")
    assert "Jupytext Notebook" in settings.read_text(encoding="utf-8")
    assert (tmp_path / "cache").is_dir()
    assert os.access(ROOT / "postBuild", os.X_OK)


def test_the_dev_container_is_declared():
    declared = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text(encoding="utf-8"))
    assert (ROOT / ".devcontainer" / declared["build"]["dockerfile"]).is_file()
    assert declared["postCreateCommand"] == "make env"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_saving_in_an_editor_changes_nothing_but_outputs(path):
    """What an editor saves is what it opened: ``jupytext --to md:myst`` writes a notebook so."""
    executed = nbformat.reads(nbformat.writes(jupytext.read(path)), as_version=4)
    executed.metadata["language_info"] = {"name": "python", "version": "3.11.0"}
    for number, cell in enumerate(executed.cells):
        if cell.cell_type == "code":
            cell.execution_count = number
            cell.outputs = [nbformat.v4.new_output("stream", text="an output")]
    assert jupytext.writes(executed, fmt="md:myst") == path.read_text(encoding="utf-8")
