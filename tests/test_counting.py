"""Counts of graded rows: the numbers are those of the rows, sums are those of all the rows."""

import json
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import made_data
from retrieval_quality import cli
from retrieval_quality.data.dataset import keep_only
from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.measures import MEASURES, segments
from retrieval_quality.statistics import counting
from retrieval_quality.statistics.correlation import COEFFICIENTS, correlate

SETTINGS = [
    {"segmentation": "ratio"},
    {"segmentation": "narrow-wide", "require_2k": True},
    {"segmentation": "ratio", "alpha": 0.3, "by": "subset"},
    {"segmentation": "narrow-wide", "alpha": "exact"},
]
ALL = {"measures": tuple(MEASURES), "coefficients": COEFFICIENTS, "min_samples": 3}


def missing(made):
    """Take some grades away."""
    for number, row in enumerate(made["graded"]):
        if number % 11 == 0:
            row["grade"] = None
    return made


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    """Two parts, and the rows of both in one."""
    folder = tmp_path_factory.mktemp("parts")
    first = missing(made_data.records(("Hs-e", "A"), n_texts=30, top=8))
    second = missing(made_data.records(("M", "Hp-h"), n_texts=30, top=8, seed=2))
    both = {part: first[part] + second[part] for part in first}
    made = {"first": first, "second": second, "both": both}
    return {name: made_data.write(folder / name, rows) for name, rows in made.items()}


@pytest.fixture(scope="module")
def files(datasets, tmp_path_factory):
    folder = tmp_path_factory.mktemp("counts")
    for name, dataset in datasets.items():
        counting.write(dataset, folder / f"{name}.parquet")
    return folder


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_correlations_of_counts_are_those_of_the_rows_to_the_last_bit(datasets, files, settings):
    rows = datasets["both"].scored()
    counted = counting.read(files / "both.parquet")
    assert len(counted) < len(rows) == counted["n"].sum()
    expected = correlate(rows, **ALL, **settings)
    assert len(expected) > 20
    pd.testing.assert_frame_equal(
        correlate(counted, **ALL, **settings, weight="n"), expected, check_exact=True
    )


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_sum_of_counts_is_that_of_all_the_rows(datasets, files, tmp_path, settings):
    out = tmp_path / "sum.parquet"
    parts = counting.add([files / "first.parquet", files / "second.parquet"], out)
    rows = datasets["both"].scored()
    assert [part.rows for part in parts] == [len(datasets[n].scored()) for n in ("first", "second")]
    pd.testing.assert_frame_equal(
        correlate(counting.read(out), **ALL, **settings, weight="n"),
        correlate(rows, **ALL, **settings),
        check_exact=True,
    )


def test_parts_may_be_cut_within_a_dataset_as_long_as_rankings_are_whole(datasets, tmp_path):
    made = made_data.records(("A",), n_texts=40, top=8)
    counted = []
    for half in range(2):
        names = {f"A-{i}" for i in range(40) if i % 2 == half}
        rows = {part: [r for r in made[part] if r["id"] in names] for part in made}
        counted.append(tmp_path / f"{half}.parquet")
        counting.write(made_data.write(tmp_path / f"half{half}", rows), counted[-1])
    whole = made_data.write(tmp_path / "whole", made)
    counting.write(whole, tmp_path / "whole.parquet")
    counting.add(counted, tmp_path / "sum.parquet")
    sorted_ = [
        counting.read(tmp_path / f"{name}.parquet")
        .astype({"E": str, "dataset": str, "subset": str, "pattern": str})
        .sort_values(list(counting.KEYS), ignore_index=True)
        for name in ("sum", "whole")
    ]
    pd.testing.assert_frame_equal(*sorted_)


def test_sizes_of_segments_count_the_rows_behind(datasets, files):
    expected = segments.segment_sizes(datasets["both"].scored(), "ratio")
    counted = segments.segment_sizes(counting.read(files / "both.parquet"), "ratio", weight="n")
    assert (expected["n"] < expected["n_total"]).any()
    pd.testing.assert_frame_equal(counted, expected)


def test_the_ratio_of_counts_is_rounded_as_python_rounds_the_quotient():
    top_k, relevant = (a.ravel() for a in np.meshgrid(np.arange(301), np.arange(1, 301)))
    expected = [
        str(round(k / n, 1)) for k, n in zip(top_k.tolist(), relevant.tolist(), strict=True)
    ]
    rows = pd.DataFrame({"K": top_k, "Np": relevant})
    assert segments.label_segments(rows, "ratio").tolist() == expected
    half_up = np.floor(10 * (top_k / relevant) + 0.5) / 10  # as SQL and many others round
    assert (half_up != np.array(expected, float)).any()


def test_what_is_kept_of_counts_is_what_is_kept_of_rows(datasets, files):
    chosen = {"embeddings": ["AM"], "datasets": ["M", "A"]}
    rows = datasets["both"].scored(**chosen)
    counted = keep_only(counting.read(files / "both.parquet"), **chosen)
    assert counted["n"].sum() == len(rows)
    for column in ("E", "dataset", "subset", "pattern"):
        assert list(counted[column].cat.categories) == list(rows[column].cat.categories)


def test_one_part_is_added_once(files, tmp_path):
    first, both = files / "first.parquet", tmp_path / "sum.parquet"
    counting.add([first, files / "second.parquet"], both)
    before = both.read_bytes()
    for twice in ([first, first], [both, first]):
        with pytest.raises(UsageError, match=r"first\.parquet counts .* which .* counts already"):
            counting.add(twice, both)
    assert both.read_bytes() == before


def rewritten(source, out, *, rows=None, **changes):
    """Copy a file of counts with another note, or other rows."""
    table = pq.read_table(source)
    note = json.loads(table.schema.metadata[b"retrieval-quality counts"]) | changes
    table = table if rows is None else table.slice(0, rows)
    kept = {b"retrieval-quality counts": json.dumps(note).encode()}
    pq.write_table(table.replace_schema_metadata(kept), out)
    return out


def test_simulated_rows_are_not_added_to_real_ones(files, tmp_path):
    source = files / "first.parquet"
    (part,) = counting.parts_of(source)
    made = rewritten(
        source, tmp_path / "made.parquet", parts=[{**vars(part), "simulated": True, "digest": "0"}]
    )
    with pytest.raises(UsageError, match=r"made\.parquet counts simulated rows"):
        counting.add([source, made], tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()


def test_what_is_no_file_of_counts_is_refused(files, tmp_path):
    source, bad = files / "first.parquet", tmp_path / "bad.parquet"
    with pytest.raises(DataError, match="cannot be read"):
        counting.read(bad)
    bad.write_bytes(b"PAR1 no")
    with pytest.raises(DataError, match="cannot be read"):
        counting.read(bad)
    pq.write_table(pa.table({"n": [1]}), bad)
    with pytest.raises(DataError, match="no file of counts"):
        counting.read(bad)
    with pytest.raises(DataError, match="newer version"):
        counting.read(rewritten(source, bad, version=counting.VERSION + 1))
    with pytest.raises(DataError, match="does not count the rows"):
        counting.read(rewritten(source, bad, rows=3))


def test_one_embedding_under_two_names_is_refused(files, tmp_path):
    made = made_data.records(("N",), embeddings=("AM",))
    counting.write(made_data.write(tmp_path / "short", made), tmp_path / "short.parquet")
    counting.add([files / "first.parquet", tmp_path / "short.parquet"], tmp_path / "out.parquet")
    with pytest.raises(DataError, match="both AM and AML12v2"):
        counting.read(tmp_path / "out.parquet")


def test_little_memory_spills_and_gives_the_same(datasets, files, tmp_path):
    out = tmp_path / "little.parquet"
    counting.write(datasets["both"], out, memory="20MB")
    pd.testing.assert_frame_equal(counting.read(out), counting.read(files / "both.parquet"))
    assert list(tmp_path.iterdir()) == [out]
    with pytest.raises(UsageError, match="write a size"):
        counting.write(datasets["both"], out, memory="much'; DROP TABLE x")


# --- commands -----------------------------------------------------------------------------------


def run(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["retrieval-quality", *map(str, words)])
    code = 0
    try:
        cli.main()
    except SystemExit as stopped:
        code = stopped.code or 0
    out, err = capsys.readouterr()
    return int(code), out, err


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RETRIEVAL_QUALITY_CACHE", str(tmp_path / "cache"))
    made_data.write(tmp_path / "made", made_data.records())
    return tmp_path / "made" / "data"


def test_the_commands_give_what_the_rows_give(monkeypatch, capsys, folder, tmp_path):
    counts = tmp_path / "counts.parquet"
    code, out, err = run(monkeypatch, capsys, "counts", "write", folder, "--out", counts)
    assert (code, out) == (0, "")
    assert "graded rows of 1 part" in err
    more = ("--min-samples", 5, "--measures", "F,T,nDCG", "--out", "-", "-p", "embeddings=AM")
    told = [
        run(monkeypatch, capsys, "correlations", *source, *more)
        for source in (("--data", folder), ("--counts", counts))
    ]
    assert told[0] == told[1]
    assert told[0][0] == 0
    assert len(told[0][1].splitlines()) > 10
    code, _, err = run(monkeypatch, capsys, "counts", "add", counts, counts, "--out", counts)
    assert (code, "each part can be added once" in err) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--data", "simulated"), "--data"),
        (("-p", "data=miniature"), "--data"),
        (("--interval", "bootstrap"), "--interval bootstrap"),
        (("--alpha", "crossfit"), "--alpha crossfit"),
        (("-p", "seed=2"), "seed"),
    ],
)
def test_what_counts_cannot_honour_is_refused_by_name(
    monkeypatch, capsys, files, tmp_path, words, said
):
    counts, out = files / "both.parquet", tmp_path / "out.csv"
    code, _, err = run(
        monkeypatch, capsys, "correlations", "--counts", counts, *words, "--out", out
    )
    assert code == 2
    assert said in err
    assert not out.exists()


def test_no_counts_go_over_the_data(monkeypatch, capsys, files, tmp_path):
    counts = files / "both.parquet"
    before = counts.read_bytes()
    code, _, err = run(monkeypatch, capsys, "correlations", "--counts", counts, "--out", counts)
    assert (code, "is the data itself" in err) == (2, True)
    assert counts.read_bytes() == before
    code, _, err = run(monkeypatch, capsys, "counts", "write", "miniature", "--out", "x.csv")
    assert (code, ".parquet" in err) == (2, True)
