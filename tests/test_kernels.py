"""Papermill in a new process, and in processes split off from a server: the same, and apart."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import nbformat
import pytest

from retrieval_quality.book import kernels

linux = pytest.mark.skipif(sys.platform != "linux", reason="forks are for Linux")

ENVIRONMENT = {
    "JUPYTER_PREFER_ENV_PATH": "1",
    "MPLBACKEND": "agg",
    "PYTHONHASHSEED": "0",
    "PYTHONUTF8": "1",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
}


def arguments(folder: Path, *cells: str, seconds: int = 60) -> list[str]:
    """Papermill's command line for a notebook of these cells."""
    source, target = folder / "in.ipynb", folder / "out.ipynb"
    kernel = {"kernelspec": {"name": "python3", "display_name": "", "language": "python"}}
    code = [nbformat.v4.new_code_cell(cell) for cell in cells]
    folder.mkdir(exist_ok=True)
    nbformat.write(nbformat.v4.new_notebook(cells=code, metadata=kernel), source)
    options = ["--no-progress-bar", "--log-level", "ERROR", "--execution-timeout", str(seconds)]
    return [str(source), str(target), "--cwd", str(folder), *options]


def said(folder: Path) -> str:
    """What the cells of the executed notebook printed."""
    executed = nbformat.read(folder / "out.ipynb", as_version=4)
    texts = [
        output.get("text", "") for cell in executed.cells for output in cell.get("outputs", [])
    ]
    return "".join(texts)


def told(folder: Path) -> dict:
    return json.loads(said(folder))


def alive(process: int) -> bool:
    """Whether a process is there and still does something."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def ended(processes: list[int], seconds: float = 10) -> bool:
    until = time.monotonic() + seconds
    while any(map(alive, processes)) and time.monotonic() < until:
        time.sleep(0.05)
    return not any(map(alive, processes))


def family(process: int) -> list[int]:
    """Every process that came from this one, and it."""
    children = [
        int(child)
        for task in Path(f"/proc/{process}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]
    return [process, *(member for child in children for member in family(child))]


@pytest.fixture(scope="module")
def papermill(tmp_path_factory):
    """One server for the tests of this module."""
    more = {"IPYTHONDIR": str(tmp_path_factory.mktemp("ipython"))}
    with kernels.forks(ENVIRONMENT | more) as run:
        yield run


LOOK = """
import json, os, sys, threading
print(json.dumps({
    "folder": os.getcwd(), "flags": str(sys.flags), "encoding": sys.getfilesystemencoding(),
    "path": sys.path, "hash": hash("recall"), "backend": os.environ["MPLBACKEND"],
    "environment": sorted(set(os.environ) - {"IPYTHONDIR", "PYTEST_CURRENT_TEST"}),
    "main": sorted(vars(sys.modules["__main__"])), "threads": sorted(
        thread.name for thread in threading.enumerate()),
}))
"""


@linux
def test_a_forked_kernel_sees_what_a_new_one_sees(papermill, tmp_path):
    forked, new = tmp_path / "Büch forked", tmp_path / "Büch new"
    assert papermill(arguments(forked, LOOK)) == ""
    assert kernels.alone(arguments(new, LOOK), ENVIRONMENT) == ""
    first, second = told(forked), told(new)
    assert first.pop("folder") == str(forked)
    assert second.pop("folder") == str(new)
    for what in first:
        assert first[what] == second[what], what


@linux
def test_nothing_of_one_notebook_is_in_the_next(papermill, tmp_path):
    leave = (
        "import builtins, os, matplotlib, numpy, random, sys\n"
        "import retrieval_quality.book.pages as pages\n"
        "builtins.left = pages.left = sys.left = True; os.environ['LEFT'] = '1'\n"
        "matplotlib.rcParams['font.size'] = 99; numpy.random.seed(1); os.chdir('/')\n"
        "del sys.modules['json']; print(os.getpid())"
    )
    look = (
        "import builtins, os, retrieval_quality.book.pages as pages, matplotlib, sys\n"
        "print([hasattr(o, 'left') for o in (builtins, pages, sys)], 'LEFT' in os.environ,\n"
        "      matplotlib.rcParams['font.size'], 'left' in globals(), os.getpid())"
    )
    assert papermill(arguments(tmp_path / "a", leave)) == ""
    assert papermill(arguments(tmp_path / "b", look)) == ""
    *found, process = said(tmp_path / "b").split()
    assert " ".join(found) == "[False, False, False] False 10.0 False"
    assert process not in said(tmp_path / "a").split()


@linux
def test_notebooks_run_at_the_same_time(papermill, tmp_path):
    # Each waits for the other, so one after the other would never end.
    wait = (
        "import pathlib, time\npathlib.Path('../{}').touch()\n"
        "while not pathlib.Path('../{}').exists(): time.sleep(0.02)"
    )
    found: list[str] = []
    asked = [arguments(tmp_path / a, wait.format(f"{a}-is", f"{b}-is")) for a, b in ("ab", "ba")]
    threads = [threading.Thread(target=lambda a=a: found.append(papermill(a))) for a in asked]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == ["", ""]


@linux
@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("import os; os._exit(3)", "DeadKernelError"),
        ("while True: pass", "CellTimeoutError"),
    ],
)
def test_what_fails_is_said_and_the_notebook_up_to_there_kept(papermill, tmp_path, cell, expected):
    given = arguments(tmp_path / "a", "print('before')", cell, "print('after')", seconds=2)
    assert expected in papermill(given)
    assert said(tmp_path / "a") == "before\n"


def test_a_new_process_says_what_failed(tmp_path):
    given = arguments(tmp_path / "a", "print('before')", "import os; os._exit(3)")
    assert "DeadKernelError" in kernels.alone(given, ENVIRONMENT)
    assert said(tmp_path / "a") == "before\n"


@linux
def test_a_wrong_command_line_is_said(papermill, tmp_path):
    assert "nowhere" in papermill([str(tmp_path / "nowhere.ipynb"), str(tmp_path / "out.ipynb")])


@linux
def test_a_server_that_cannot_start_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr(kernels, "_SERVE", "raise ImportError('no such library')")
    with kernels.forks({}) as run:
        assert "ImportError: no such library" in run(["a"])
        assert "ImportError: no such library" in run(["a"])


@linux
@pytest.mark.parametrize("closed", [(0,), (0, 1), (1,), (0, 1, 2)])
def test_closed_standard_streams_do_no_harm(tmp_path, closed):
    code = (
        f"import os\nfor number in {closed}: os.close(number)\n"
        "import json, pathlib, sys\nfrom retrieval_quality.book import kernels\n"
        "kernels._PRELOADED, kernels._warm_up = (), int\n"
        "with kernels.forks(json.loads(sys.argv[1])) as run:\n"
        "    pathlib.Path(sys.argv[2]).write_text(run(sys.argv[3:]))"
    )
    given = arguments(tmp_path / "a", "print('ran')")
    told = tmp_path / "told"
    subprocess.run([sys.executable, "-c", code, json.dumps(ENVIRONMENT), told, *given], check=False)
    assert told.read_text() == ""
    assert said(tmp_path / "a") == "ran\n"


@linux
def test_papermill_that_is_killed_is_no_success(papermill, tmp_path):
    kill = "import os, signal; os.kill(os.getppid(), signal.SIGKILL)"
    assert papermill(arguments(tmp_path / "a", kill)).endswith("without saying why")
    assert papermill(arguments(tmp_path / "b", "print(1)")) == ""


@linux
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_a_build_that_is_stopped(tmp_path, number):
    cell = "import pathlib, time; pathlib.Path('running').touch(); time.sleep(600)"
    code = (
        "import json, sys\nfrom retrieval_quality.book import kernels\n"
        "kernels._SERVE = 'from retrieval_quality.book import kernels; kernels._PRELOADED = ();'"
        " 'kernels._warm_up = int; kernels.serve({})'\n"
        "with kernels.forks(json.loads(sys.argv[1])) as run:\n    run(sys.argv[2:])"
    )
    given = arguments(tmp_path / "a", cell)
    build = subprocess.Popen(
        [sys.executable, "-c", code, json.dumps(ENVIRONMENT), *given], stderr=subprocess.DEVNULL
    )
    until = time.monotonic() + 60
    while not (tmp_path / "a" / "running").exists() and time.monotonic() < until:
        time.sleep(0.05)
    processes = family(build.pid)
    assert len(processes) == 4  # the build, the server, papermill and the kernel
    os.kill(build.pid, number)
    assert build.wait(10) != 0
    assert ended(processes)


@linux
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_build_that_is_stopped_while_its_server_imports_leaves_nothing(tmp_path, number):
    (tmp_path / "slow.py").write_text(
        f"import pathlib, time; pathlib.Path({str(tmp_path / 'importing')!r}).touch()\n"
        "time.sleep(60)\n"
    )
    code = (
        "from retrieval_quality.book import kernels\n"
        "kernels._SERVE = 'from retrieval_quality.book import kernels;'"
        " 'kernels._PRELOADED = (\"slow\",); kernels.serve({})'\n"
        "with kernels.forks({}) as run: run(['a'])"
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    build = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path})
    until = time.monotonic() + 60
    while not (tmp_path / "importing").exists() and time.monotonic() < until:
        time.sleep(0.05)
    processes = family(build.pid)
    assert len(processes) == 2
    os.kill(build.pid, number)
    build.wait(10)
    assert ended(processes, 5)


def test_elsewhere_each_notebook_has_new_processes(tmp_path, monkeypatch):
    monkeypatch.setattr(kernels, "_CAN_FORK", False)
    with kernels.forks(ENVIRONMENT) as run:
        assert run.func is kernels.alone
        assert run(arguments(tmp_path / "a", "print('ran')")) == ""
    assert said(tmp_path / "a") == "ran\n"
