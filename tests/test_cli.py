"""The command line: files, columns, messages and exit codes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

import made_data
from retrieval_quality import cli
from retrieval_quality.statistics.correlation import COLUMNS


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("made")
    made_data.write(path, made_data.records())
    return path / "data"


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("RETRIEVAL_QUALITY_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def run(monkeypatch, capsys, *words):
    """Run as the command does; give the exit code, standard output and standard error."""
    monkeypatch.setattr(sys, "argv", ["retrieval-quality", *map(str, words)])
    code = 0
    try:
        cli.main()
    except SystemExit as stopped:
        code = stopped.code or 0
    out, err = capsys.readouterr()
    return int(code), out, err


SMALL = ("-p", "min_samples_ratio=5", "-p", "min_samples_width=5")


def test_correlations_have_the_promised_columns(monkeypatch, capsys, folder, tmp_path):
    words = ("correlations", "--data", folder, "--min-samples", 5, "--measures", "F,T,P,R,nDCG,Fe")
    frames = {}
    for ending in ("csv", "parquet", "json"):
        out = tmp_path / f"corr.{ending}"
        assert run(monkeypatch, capsys, *words, "--out", out)[0] == 0
        read = getattr(pd, f"read_{ending}")
        frames[ending] = read(out, dtype={"segment": str}) if ending != "parquet" else read(out)
    assert list(frames["csv"].columns) == list(COLUMNS)
    assert set(frames["csv"]["measure"]) == {"F", "T", "P", "R", "nDCG", "Fe"}
    for frame in frames.values():
        pd.testing.assert_series_equal(
            frame["correlation"], frames["csv"]["correlation"], check_exact=False, atol=1e-12
        )
    code, out, err = run(monkeypatch, capsys, *words, "--out", "-")
    assert code == 0
    assert out == (tmp_path / "corr.csv").read_text(encoding="utf-8")
    assert "dataset" not in err


def test_segments_and_coefficients(monkeypatch, capsys, folder):
    code, out, _ = run(
        monkeypatch,
        capsys,
        "correlations",
        "--data",
        folder,
        "--segments",
        "narrow-wide",
        "--min-samples",
        5,
        "--coefficients",
        "pearson,kendall_c",
        "--alpha",
        0.5,
        "--out",
        "-",
    )
    assert code == 0
    assert ",narrow," in out
    assert ",kendall_c,0.5," in out


def test_segments_that_are_too_small_are_counted(monkeypatch, capsys, folder):
    words = ("correlations", "--data", folder, "--measures", "P, P", "--out", "-")
    code, out, err = run(monkeypatch, capsys, *words, "--min-samples", 1)
    cells = len(out.splitlines()) - 1
    assert (code, err) == (0, "")
    assert cells == len(set(out.splitlines()[1:]))
    code, out, err = run(monkeypatch, capsys, *words)
    assert (code, len(out.splitlines())) == (0, 1)
    assert f"{cells} of {cells} segments left out" in err
    assert "300" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("figure", "44"), "44"),
        (("figure", "seven"), "seven"),
        (("figure", "7", "-p", "min_sample=3"), "min_sample"),
        (("figure", "7", "-p", "min_samples_ratio=few"), "few"),
        (("correlations", "--out", "x.xlsx"), ".xlsx"),
        (("correlations", "--out", "-", "--alpha", "2"), "--alpha 2"),
        (("correlations", "--out", "-", "--measures", "G"), "G"),
        (("correlations", "--out", "-", "--coefficients", "phi"), "phi"),
        (("correlations", "--out", "-", "--measures", ""), "--measures"),
        (("correlations", "--out", "-", "--coefficients", " ,"), "--coefficients"),
        (("correlations",), "--out"),
        (("notebook", "nothing", "--out", "x.ipynb"), "nothing"),
        (("pipeline", "grade", "x", "--model", "m", "--rename", "a"), "OLD=NEW"),
        (("no-such-command",), "no-such-command"),
    ],
)
def test_wrong_usage_exits_with_2(monkeypatch, capsys, folder, words, message, tmp_path):
    monkeypatch.chdir(tmp_path)
    more = ("--data", folder) if words[0] in ("figure", "correlations") else ()
    code, out, err = run(monkeypatch, capsys, *words, *more)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_data_that_are_not_there_are_wrong_usage(monkeypatch, capsys, tmp_path):
    code, out, err = run(monkeypatch, capsys, "data", "info", tmp_path / "nowhere")
    assert (code, out) == (2, "")
    assert "nowhere" in err


def test_broken_data_exit_with_1(monkeypatch, capsys, tmp_path):
    (tmp_path / "samples_graded.json").write_text('[{"id": "A-0", ', encoding="utf-8")
    code, out, err = run(monkeypatch, capsys, "data", "info", tmp_path)
    assert (code, out) == (1, "")
    assert "samples_graded.json" in err
    assert "Traceback" not in err


def test_validate_names_what_breaks(monkeypatch, capsys, folder, tmp_path):
    assert run(monkeypatch, capsys, "data", "validate", folder)[0] == 0
    made = made_data.records(subsets=("A",))
    made["graded"][7]["K"] += 40
    for part, rows in made.items():
        text = json.dumps(rows)
        (tmp_path / f"samples_{part}.json").write_text(text, encoding="utf-8")
    code, out, err = run(monkeypatch, capsys, "data", "validate", tmp_path)
    assert code == 1
    assert "A-0" in out + err
    assert "Traceback" not in err


def test_info_is_json_too(monkeypatch, capsys, folder):
    code, out, _ = run(monkeypatch, capsys, "data", "info", folder, "--json")
    facts = json.loads(out)
    assert code == 0
    assert facts["simulated"] is False
    assert facts["rows"]["texts"] == {"here": 30, "published": 6112}


def test_figures_are_written(monkeypatch, capsys, folder, tmp_path):
    code, out, _ = run(
        monkeypatch, capsys, "figure", 7, "--data", folder, *SMALL[:2], "--out", tmp_path
    )
    assert code == 0
    assert sorted(path.name for path in tmp_path.glob("[!.]*")) == [
        f"figure-07.{ending}" for ending in ("csv", "json", "png", "svg")
    ]
    assert len(out.split()) == 4


def test_claims_are_written(monkeypatch, capsys, folder, tmp_path):
    out = tmp_path / "new" / "claims.json"
    code, *_ = run(monkeypatch, capsys, "claims", "--data", folder, *SMALL, "--out", out)
    assert code == 0
    assert len(json.loads(out.read_text(encoding="utf-8"))) == 21


def test_parameters_of_a_notebook_are_listed(monkeypatch, capsys):
    code, out, _ = run(monkeypatch, capsys, "notebook", "--help", "t-minus-f")
    assert code == 0
    assert "min_samples_ratio = 300" in out


def test_ctrl_c_is_quiet(monkeypatch, capsys):
    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("retrieval_quality.sources.load", stop)
    code, out, err = run(monkeypatch, capsys, "data", "info")
    assert (code, out) == (130, "")
    assert "stopped" in err


def test_control_characters_do_not_reach_the_terminal(monkeypatch, capsys, tmp_path):
    made = made_data.records(subsets=("A",))
    made["graded"][0]["E"] = "\x1b[31mred\u202e"
    for part, rows in made.items():
        text = json.dumps(rows)
        (tmp_path / f"samples_{part}.json").write_text(text, encoding="utf-8")
    for command in ("info", "validate"):
        _, out, err = run(monkeypatch, capsys, "data", command, tmp_path)
        assert "\x1b" not in out + err
        assert "\u202e" not in out + err


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_results_are_written_in_any_locale(tmp_path, encoding):
    made = made_data.records(subsets=("A",), embeddings=("org/模型",))
    path = tmp_path / "samples_graded.json"
    path.write_text(json.dumps(made["graded"]), encoding="utf-8")
    words = ["correlations", "--data", path, "--min-samples", 1, "--measures", "P", "--out", "-"]
    run = subprocess.run(
        [sys.executable, "-c", "from retrieval_quality.cli import main; main()", *map(str, words)],
        capture_output=True,
        env=os.environ | {"PYTHONIOENCODING": encoding},
        check=True,
    )
    assert "org/模型" in run.stdout.decode("utf-8")


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes only there")
def test_a_path_that_is_no_text_is_shown(monkeypatch, capsys, tmp_path):
    made = made_data.records(subsets=("A",), seed=7)
    path = tmp_path / os.fsdecode(b"\xff.json")
    path.write_text(json.dumps(made["graded"]), encoding="utf-8")
    for words in (("data", "info"), ("data", "info", "--json"), ("data", "validate")):
        code, out, err = run(monkeypatch, capsys, *words, path)
        assert (code, err) == (0, "")
        assert "\\udcff" in out


@pytest.mark.parametrize("command", [[], ["data"], ["pipeline"], ["book"], ["pipeline", "answer"]])
def test_help_is_there(command):
    assert CliRunner().invoke(cli.cli, [*command, "--help"]).exit_code == 0


def test_the_command_starts_without_heavy_imports():
    code = (
        "import sys; import retrieval_quality.cli; "
        "heavy = {'pandas', 'numba', 'matplotlib', 'torch', 'duckdb'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def separate(*words, shell="", **more):
    """Run as a process of its own; give its exit code, standard output and standard error."""
    command = [sys.executable, "-m", "retrieval_quality", *map(str, words)]
    if shell:
        command = ["bash", "-c", f'set -o pipefail; "$@" {shell}', "bash", *command]
    done = subprocess.run(command, capture_output=True, text=True, **more)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a shell and /dev/full")
@pytest.mark.parametrize(
    ("words", "shell", "code", "message"),
    [
        (("--help",), "| true", 0, ""),
        (("--version",), "| head -c 0", 0, ""),
        (("notebook", "--help"), "| head -1", 0, ""),
        (("data", "info", "DATA", "--json"), "| head -1", 0, ""),
        (("correlations", "--min-samples", 1, "--data", "DATA", "--out", "-"), "| head -1", 0, ""),
        (("--help",), "> /dev/full", 1, "No space left"),
        (("data", "info", "DATA"), "> /dev/full", 1, "No space left"),
        (("correlations", "--min-samples", 1, "--data", "DATA", "--out", "-"), ">&-", 2, "closed"),
        (("data", "info", "~nobody-of-this-name/x"), "", 2, "no home folder"),
        (("figure", 7, "--out", "~nobody-of-this-name/x"), "", 2, "no home folder"),
        (("book", "--out", "~nobody-of-this-name"), "", 2, "no home folder"),
        (("notebook", "tables", "--out", "~nobody-of-this-name/x.ipynb"), "", 2, "no home folder"),
    ],
)
def test_what_a_person_can_mend_has_no_traceback(folder, words, shell, code, message):
    words = [folder if word == "DATA" else word for word in words]
    found, _, err = separate(*words, shell=shell)
    assert found == code, err
    assert message in err
    assert "Traceback" not in err
    assert len(err.splitlines()) <= 1


def test_a_user_without_a_home_is_told(monkeypatch, capsys, folder):
    monkeypatch.delenv("RETRIEVAL_QUALITY_CACHE")
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: Path("~/.cache") / name)
    code, out, err = run(monkeypatch, capsys, "data", "info", folder)
    assert (code, out) == (2, "")
    assert "no home folder for the cache: set HOME" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("claims", "-p", "alpha=0.5"), "claims does not use alpha: claims are tested"),
        (("claims", "-p", "coefficient=pearson"), "claims does not use coefficient"),
        (("claims", "-p", "out=x"), "out is no parameter of an analysis"),
        (("figure", 1, "-p", "datasets=A"), "Figure 1 does not use datasets: it is about no data"),
        (("figure", 23, "-p", "coefficient=kendall_b"), "it shows Pearson's r by definition"),
        (("figure", 5, "-p", "coefficient=pearson"), "it shows Spearman's ρ by definition"),
        (("figure", 7, "-p", "min_samples_width=5"), "it has no narrow and wide segments"),
        (("figure", 2, "-p", "alpha=0.5"), "it shows no measure with α"),
        (("figure", 7, "-p", "seed=3"), "the data is not simulated"),
        (("table", 1, "-p", "coefficient=pearson"), "Table 1 does not use coefficient"),
        (("table", "all", "-p", "alpha=exact"), "table all does not use alpha"),
        (("correlations", "-p", "min_samples_width=5"), "the segments are by ratio"),
        (("correlations", "-p", "seed=5"), "no interval or cross-fitting was asked for"),
        (("correlations", "-p", "alpha=0.5", "--alpha", "exact"), "says it already"),
        (("correlations", "-p", "alpha=0.5", "--measures", "P"), "none of P has an α"),
        (("correlations", "--alpha", "0.5", "--measures", "P"), "none of P has an α"),
        (("correlations", "--replicates", "5"), "nothing is resampled"),
        (("correlations", "-p", "data=simulated"), "the data is named twice"),
    ],
)
def test_a_parameter_is_honoured_or_refused_by_name(
    monkeypatch, capsys, folder, tmp_path, words, message
):
    out = tmp_path / ("out.json" if words[0] in ("claims", "correlations") else "out")
    code, printed, err = run(monkeypatch, capsys, *words, "--data", folder, "--out", out)
    assert (code, printed) == (2, "")
    assert message in err
    assert list(tmp_path.iterdir()) == []


def test_parameters_change_what_correlations_gives(monkeypatch, capsys, folder):
    words = ("correlations", "--data", folder, "-p", "min_samples_ratio=5", "--out", "-")
    given = ("", "-p alpha=0.5", "-p coefficient=pearson", "-p datasets=A", "-p embeddings=ES")
    found = {run(monkeypatch, capsys, *words, *one.split())[1] for one in given}
    assert len(found) == len(given)
    by_option = run(monkeypatch, capsys, *words, "--alpha", "0.5")[1]
    assert by_option == run(monkeypatch, capsys, *words, "-p", "alpha=0.5")[1]


@pytest.mark.parametrize("name", ["samples_graded.json", "samples_new.json"])
def test_data_is_never_written_over(monkeypatch, capsys, folder, name):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    words = ("correlations", "--data", folder, "--out", folder / name)
    code, _, err = run(monkeypatch, capsys, *words)
    assert (code, "is the data itself" in err) == (2, True)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_folder_of_figures_holds_only_ours_and_is_whole(monkeypatch, capsys, folder, tmp_path):
    words = ("table", "all", "--data", folder, "--out", tmp_path)
    (tmp_path / "table-2.csv").write_text("mine", encoding="utf-8")
    code, _, err = run(monkeypatch, capsys, *words)
    assert code == 2
    assert "table-2.csv is there and was not made by this program" in err
    assert [path.name for path in tmp_path.iterdir()] == ["table-2.csv"]
    (tmp_path / "table-2.csv").unlink()
    for _ in range(2):
        assert run(monkeypatch, capsys, *words)[0] == 0
    (tmp_path / ".retrieval-quality.json").unlink()  # as a version that left no mark
    assert run(monkeypatch, capsys, *words)[0] == 0
