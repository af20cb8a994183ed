"""Files of figures and tables: complete, reproducible, whole or not there."""

import dataclasses
import json
import math
import os

import pandas as pd
import pytest

import made_data
from retrieval_quality.errors import DataError
from retrieval_quality.exhibits import catalogue, export
from retrieval_quality.parameters import Parameters

FIGURES, TABLES = catalogue.FIGURES, catalogue.TABLES
RUN = Parameters(min_samples_ratio=5, min_samples_width=10)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return made_data.write(tmp_path_factory.mktemp("made"), made_data.records())


@pytest.fixture(scope="module")
def written(tmp_path_factory, data):
    out = tmp_path_factory.mktemp("out") / "figures" / "new"
    entries = (FIGURES[1], FIGURES[2], FIGURES[5], FIGURES[7], FIGURES[22], TABLES[1])
    return {entry.anchor: export.write(entry, data, RUN, out) for entry in entries}


@pytest.mark.parametrize(
    ("anchor", "names"),
    [
        ("figure-07", ["figure-07.svg", "figure-07.png", "figure-07.csv", "figure-07.json"]),
        ("figure-22", ["figure-22.txt", "figure-22.json"]),
        ("table-1", ["table-1.csv", "table-1.json"]),
    ],
)
def test_the_files_have_the_names_of_the_contract(written, anchor, names):
    assert [path.name for path in written[anchor]] == names
    assert all(path.stat().st_size > 50 for path in written[anchor])
    folder = written[anchor][0].parent
    assert not [path for path in folder.iterdir() if "unfinished" in path.name]


def test_each_file_is_what_its_ending_says(written):
    svg, png, csv, described = (path.read_bytes() for path in written["figure-07"])
    assert svg.startswith(b"<?xml")
    assert b"<svg" in svg
    assert png.startswith(b"\x89PNG")
    assert csv.startswith(b"dataset,embedding,segmentation,segment,n,n_total,first,second,")
    assert json.loads(described)["label"] == "Figure 7"
    assert b"\r" not in svg + csv + described


def test_a_picture_refers_to_no_other_file_or_host(written):
    for anchor in ("figure-01", "figure-02", "figure-05", "figure-07"):
        svg = written[anchor][0].read_text(encoding="utf-8")
        for part in ('href="http', "url(http", "<script", "@import", "<image"):
            assert part not in svg


@pytest.mark.parametrize("anchor", ["figure-01", "figure-02", "figure-05", "figure-07", "table-1"])
def test_the_same_inputs_give_the_same_bytes(written, data, tmp_path, anchor):
    again = export.write(catalogue.ENTRIES[anchor], data, RUN, tmp_path)
    for old, new in zip(written[anchor], again, strict=True):
        if old.suffix in (".svg", ".csv", ".png"):
            assert old.read_bytes() == new.read_bytes(), old.name
        else:
            first, second = (json.loads(path.read_text(encoding="utf-8")) for path in (old, new))
            assert first | {"date": ""} == second | {"date": ""}


def test_what_is_computed_and_drawn_already_is_written_as_it_is(written, data, tmp_path):
    result = FIGURES[7].compute(data, RUN)
    paths = export.write_result(result, data, tmp_path, FIGURES[7].draw(result))
    for old, new in zip(written["figure-07"][:3], paths, strict=False):
        assert old.read_bytes() == new.read_bytes()


def test_a_picture_holds_no_date(written):
    svg = written["figure-05"][0].read_text(encoding="utf-8")
    assert "dc:date" not in svg


def test_the_numbers_read_back_to_the_last_bit(written, data):
    result = FIGURES[7].compute(data, RUN)
    back = pd.read_csv(written["figure-07"][2], dtype="str", keep_default_na=False)
    assert list(back.columns) == list(result.numbers.columns)
    for column in ("difference", "correlation_first", "alpha_first"):
        for got, want in zip(back[column], result.numbers[column], strict=True):
            assert got == "" if math.isnan(want) else float(got) == want


def test_the_provenance_says_where_the_numbers_come_from(written, data):
    described = json.loads(written["figure-07"][3].read_text(encoding="utf-8"))
    assert described["data"] == {
        "name": data.name,
        "source": data.source,
        "simulated": False,
        "digest": data.digest,
        "commit": None,
    }
    assert described["parameters"] == RUN.as_dict()
    assert described["caption"] == FIGURES[7].caption(RUN)
    assert described["measures"] == ["T", "F"]
    assert described["n"] > 0
    assert described["limits"][0] == -described["limits"][1]
    assert "T minus F on ARXIV." in described["alt"]
    assert set(described["versions"]) == {"python", *export.VERSIONED}
    assert described["date"].endswith("Z")


def test_the_provenance_of_a_path_that_is_no_text_is_json(data, tmp_path):
    odd = dataclasses.replace(data, source="/data/\udcff")
    paths = export.write(TABLES[1], odd, RUN, tmp_path)
    assert "/data/\udcff" in json.dumps(json.loads(paths[-1].read_bytes()), ensure_ascii=False)


def test_the_date_can_be_fixed(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert export.run_date() == "1970-01-02T00:00:00Z"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(DataError, match="SOURCE_DATE_EPOCH"):
        export.run_date()
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert export.run_date() > "2025"


def test_what_cannot_be_shown_is_written_with_its_reason(data, tmp_path):
    paths = export.write(FIGURES[7], data, None, tmp_path)
    svg, _, csv, described = paths
    assert svg.stat().st_size > 1000
    assert csv.read_text(encoding="utf-8").count("\n") == 1
    told = json.loads(described.read_text(encoding="utf-8"))
    assert told["missing"].startswith("No segment of A has 300 graded rows (largest: ")
    assert told["n"] == 0
    graded = {"graded": made_data.records(("A",))["graded"]}
    alone = made_data.write(tmp_path / "alone", graded)
    text, _ = export.write(FIGURES[22], alone, RUN, tmp_path)
    assert "samples_ranked" in text.read_text(encoding="utf-8")


def test_a_listing_is_the_code_and_its_result(written):
    text = written["figure-22"][0].read_text(encoding="utf-8")
    assert text.startswith("def relations_of_ranked(")
    assert text.endswith("Np >= 2\n")
    assert "BROKEN" not in text


def test_a_folder_that_is_a_file_is_an_error_for_people(data, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("mine", encoding="utf-8")
    for out in (blocked, blocked / "below"):
        with pytest.raises(DataError, match=r"cannot write .*figure-01"):
            export.write(FIGURES[1], data, RUN, out)
    assert blocked.read_text(encoding="utf-8") == "mine"


def test_a_full_disk_leaves_the_old_file_whole(data, tmp_path, monkeypatch):
    (csv, _) = export.write(TABLES[1], data, RUN, tmp_path)
    before = csv.read_bytes()

    def fail(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(DataError, match="No space left"):
        export.write(TABLES[1], data, RUN, tmp_path)
    assert csv.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["table-1.csv", "table-1.json"]


def test_one_line_says_what_a_page_rests_on(data):
    line = export.provenance_line(data, RUN)
    assert data.digest[:12] in line
    assert "min_samples_ratio 5" in line
    assert "embeddings" not in line
    assert "the paper's parameters" in export.provenance_line(data)
    assert "embeddings AM, EM" in export.provenance_line(data, Parameters(embeddings=("AM", "EM")))
