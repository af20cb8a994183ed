"""Opening published files: what is read, what is counted, what is refused, and the cache."""

import errno
import gzip
import json
import os
import subprocess
import sys
import threading
import time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stored_data
from retrieval_quality.data import dataset as module
from retrieval_quality.data import records as reader
from retrieval_quality.data.dataset import cache_root, lookup, open_path, store
from retrieval_quality.errors import DataError, UsageError


def rec(**changes):
    """One valid graded record; a change of ... removes the key."""
    record = {
        "id": "A-0",
        "E": "AML12v2",
        "Nc": 5,
        "Np": 2,
        "K": 2,
        "rank": [3, 1],
        "inK": [0, 1],
        "answer_ideal": "all",
        "answer_topK": "some",
        "grade": 4,
        "P": 0.5,
        "R": 0.5,
    } | changes
    return {key: value for key, value in record.items() if value is not ...}


def recs(count):
    return [rec(id=f"A-{number}") for number in range(count)]


def ranked(**changes):
    record = {
        "id": "A-0",
        "E": "AML12v2",
        "Nc": 3,
        "Np": 2,
        "K": [1, 2],
        "P": [1.0, 0.5],
        "R": [0.5, 0.5],
        "rank": [1, 2, 0],
    } | changes
    return {key: value for key, value in record.items() if value is not ...}


@pytest.fixture
def put(tmp_path):
    """Write content as a file, and give its path."""

    def write(content, name="samples_graded.json"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not isinstance(content, str | bytes):
            content = json.dumps(content)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def entries(cache):
    folder = cache / "datasets"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def kinds(dataset, part="graded"):
    return {(notice.kind, notice.count) for notice in dataset.notices if notice.part == part} - {
        ("missing", 1)
    }


def refused(path, cache, *words):
    with pytest.raises(DataError) as error:
        open_path(path, cache=cache, progress=False)
    message = str(error.value)
    for word in words:
        assert word in message
    assert entries(cache) == []
    return message


# --- JSON that is none ------------------------------------------------------------------------


ONE, TWO = json.dumps(rec()), json.dumps(rec(id="A-1"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (f"[{ONE.replace('4', 'NaN', 1)}]", ["record 1"]),
        (f"[{ONE}, {TWO.replace(': 4', ': NaN')}]", ["record 2", "byte"]),
        (f"[{ONE.replace('0.5', 'Infinity', 1)}]", ["record 1", "byte"]),
        (f"[{ONE.replace('0.5', '-Infinity', 1)}]", ["record 1", "byte"]),
        (f"[{ONE.replace('0.5', '1e999', 1)}]", ["record 1", "P is"]),
        (f"[{ONE}]#", [f"byte {len(ONE) + 2}"]),
        (f"[{ONE}][{TWO}]", [f"byte {len(ONE) + 2}"]),
        (f"[{ONE}] {ONE}", ["byte"]),
        (f"[{ONE}, {TWO}", ["record 2"]),
        (f"[{ONE},", ["byte"]),
        (f"[{ONE},]", ["byte"]),
        (f"[{ONE} {TWO}]", ["byte"]),
        ("[]", ["empty"]),
        (" [ ] \n", ["empty"]),
        ("", ["empty"]),
        (" \n ", ["blanks"]),
        ("\ufeff", ["blanks"]),
        ("42", ["byte 0"]),
        ("[1, 2]", ["record 1", "not an object"]),
        ("[[]]", ["record 1", "not an object"]),
        (f"[{ONE}, null]", ["record 2", "not an object"]),
        (f'{{"data": [{ONE}]}}', ["line 1", "'id' is missing"]),
        (f"{ONE}\n{TWO[:-9]}", ["line 2"]),
        (f"{ONE}\n{TWO}#", ["line 2"]),
        (f"{ONE},\n{TWO}", ["line 1"]),
        (f"{ONE}\n\n{{}}", ["line 3", "'id' is missing"]),
        (f"{ONE[:40]}\n{ONE[40:]}", ["line 1"]),
        ("[" + ", ".join([ONE, *["{}"] * 20]) + "]", ["record 2", "'id' is missing"]),
        (f"[{ONE}, " + TWO.replace('"some"', '"so\\ud83dme"') + "]", ["record 2", "byte"]),
        (f"[{ONE}]".encode().replace(b"some", b"s\xffme"), ["record 1", "byte"]),
        (f"[{ONE}, " + TWO.replace('"some"', "[" * 9999 + "]" * 9999) + "]", ["record 2", "byte"]),
        (f"[{ONE}, " + TWO.replace('"some"', "[" * 9999), ["record 2", "byte"]),
        (TWO.replace('"some"', "[" * 9999 + "]" * 9999), ["line 1"]),
        (f"[{ONE}, {TWO.replace('0.5', '1' + '0' * 400, 1)}]", ["record 2", "P is"]),
    ],
)
def test_json_that_is_none_is_refused_with_its_position(put, cache, content, words):
    refused(put(content), cache, "samples_graded.json", *words)


@pytest.mark.parametrize("block", [64, 1000, 2**20])
def test_an_array_that_is_cut_off_names_the_record(put, cache, monkeypatch, block):
    monkeypatch.setattr(reader, "BLOCK", block)
    text = json.dumps(recs(600))
    middle = text.index('"A-499"') + 60
    refused(put(text[:middle]), cache, "record 500", "cut off")
    after_comma = text.index("}, {", middle) + 3
    message = refused(put(text[:after_comma]), cache, f"byte {after_comma}")
    assert "record 50" in message


def test_the_byte_of_an_error_is_that_of_the_file(put, cache):
    text = '[{"é": "\u20ac"}, \n' + ONE.replace('"Nc": 5', '"Nc": x') + "]"
    at = text.encode().index(b"x,")
    refused(put(text), cache, f"(byte {at})", "record 2")


def test_a_broken_gzip_file_is_refused(put, cache):
    packed = gzip.compress(json.dumps(recs(50)).encode())
    refused(put(packed[:-20], "samples_graded.json.gz"), cache, "gzip", "cut off")
    refused(put(packed + b"rest", "samples_graded.json.gz"), cache, "gzip")
    refused(put(gzip.compress(b"", mtime=0), "samples_graded.json.gz"), cache, "empty")


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (json.dumps(recs(3)).encode("utf-16"), "UTF-16"),
        (json.dumps(recs(3)).encode("utf-16-le"), "UTF-16"),
        (json.dumps(recs(3)).encode("utf-16-be"), "UTF-16"),
        (json.dumps(recs(3)).encode("utf-32"), "UTF-32"),
        (gzip.compress(json.dumps(recs(3)).encode("utf-16"), mtime=0), "UTF-16"),
        (b"BZh91AY&SY", "bzip2"),
        (b"\xfd7zXZ\x00\x00", "xz"),
        (b"\x28\xb5\x2f\xfd\x00", "Zstandard"),
        (b"PK\x03\x04....", "ZIP"),
    ],
)
def test_other_encodings_and_compressions_are_refused_by_name(put, cache, content, word):
    refused(put(content), cache, word)


def test_a_record_without_end_does_not_fill_the_memory(put, cache, monkeypatch):
    monkeypatch.setattr(reader, "BLOCK", 1000)
    monkeypatch.setattr(reader, "LONGEST_RECORD", 5000)
    long = json.dumps(rec(answer_ideal="x" * 20_000))
    refused(put(f"[{ONE}, {long}]"), cache, "record 2", "does not end")
    refused(put(f"{ONE}\n{long}"), cache, "line 2", "longer")


# --- the same records in other clothes --------------------------------------------------------


def clothes():
    plain = json.dumps(recs(3), ensure_ascii=False)
    lines = "\n".join(json.dumps(record) for record in recs(3))
    return {
        "pretty": json.dumps(recs(3), indent=2).encode(),
        "mark": b"\xef\xbb\xbf" + plain.encode(),
        "crlf": json.dumps(recs(3), indent=2).replace("\n", "\r\n").encode(),
        "mark and crlf": b"\xef\xbb\xbf"
        + json.dumps(recs(3), indent=1).replace("\n", "\r\n").encode(),
        "blanks around": f" \n{plain}\n\n".encode(),
        "gzip": gzip.compress(plain.encode(), mtime=0),
        "lines": lines.encode(),
        "lines, mark, crlf": b"\xef\xbb\xbf" + lines.replace("\n", "\r\n").encode() + b"\r\n",
        "lines, blank ones": lines.replace("\n", "\n\n").encode(),
        "lines, gzip": gzip.compress(lines.encode(), mtime=0),
    }


@pytest.mark.parametrize("name", clothes())
@pytest.mark.parametrize("block", [50, 2**20])
def test_the_same_records_are_read_from_any_form(put, cache, monkeypatch, name, block):
    monkeypatch.setattr(reader, "BLOCK", block)
    plain = open_path(put(recs(3)), cache=cache).read("graded")
    other = open_path(put(clothes()[name], "other.json"), cache=cache)
    pd.testing.assert_frame_equal(other.read("graded"), plain)
    assert kinds(other) == ({("json lines", 1)} if name.startswith("lines") else set())


def test_lines_are_no_news_in_a_file_that_is_named_so(put, cache):
    dataset = open_path(put("\n".join([ONE, TWO]), "samples_graded.jsonl"), cache=cache)
    assert len(dataset.read("graded")) == 2
    assert kinds(dataset) == set()


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    answers=st.lists(
        st.text(st.sampled_from(list('}{,]["\\ \n\u00e9\u20aca:')), max_size=40),
        min_size=1,
        max_size=20,
    ),
    block=st.integers(8, 400),
    indent=st.sampled_from([None, 1]),
    ascii_only=st.booleans(),
)
def test_cutting_into_blocks_changes_nothing(
    tmp_path, monkeypatch, answers, block, indent, ascii_only
):
    monkeypatch.setattr(reader, "BLOCK", block)
    rows = [
        rec(id=f"A-{number}", answer_topK=text, notes=[{"a": text}, {"b": [{}, {"c": 1}]}])
        for number, text in enumerate(answers)
    ]
    path = tmp_path / "any.json"
    path.write_text(json.dumps(rows, indent=indent, ensure_ascii=ascii_only), encoding="utf-8")
    read = [record for batch in reader.read_batches(path) for record in batch.records]
    assert read == rows


def test_places_are_those_of_the_file_in_every_batch(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "BLOCK", 300)
    text = json.dumps(recs(40), indent=1)
    path = tmp_path / "many.json"
    path.write_text(text, encoding="utf-8")
    places = [
        batch.where(index)
        for batch in reader.read_batches(path)
        for index in range(len(batch.records))
    ]
    starts = [at for at in range(len(text)) if text.startswith('{\n  "id"', at)]
    expected = [f"many.json, record {n} (byte {at})" for n, at in enumerate(starts, 1)]
    assert places == expected


# --- keys -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (rec(grade=..., Grade=5), ["'Grade'", "'grade'"]),
        (rec(Grade=5), ["'Grade'", "'grade'"]),
        (rec(k=3), ["'K'", "'k'"]),
        (rec(p=3), ["'P'", "'p'"]),
        (rec(note=1, Note=2), ["'note'", "'Note'"]),
        (rec(grade=...), ["'grade' is missing"]),
        (rec(rank=...), ["'rank' is missing"]),
        ({}, ["'id' is missing"]),
    ],
)
def test_keys_in_other_letters_or_missing_are_refused(put, cache, second, words):
    second = second and second | {"id": "A-1"}
    refused(put([rec(), second]), cache, "samples_graded.json", "record 2", *words)


def test_a_key_that_is_given_twice_is_refused(put, cache):
    twice = TWO.replace('"K": 2', '"K": 2, "K": 2')
    refused(put(f"[{ONE}, {twice}]"), cache, "record 2", '"K"')


def test_other_keys_are_left_out_and_counted(put, cache):
    dataset = open_path(put([rec(), rec(id="A-1", usage={"a": 1}, note="x")]), cache=cache)
    assert kinds(dataset) == {("left out", 1)}
    assert len([n for n in dataset.notices if n.kind == "left out"]) == 2
    assert dataset.columns("graded") == tuple(rec())


def test_keys_may_stand_in_any_order(put, cache):
    backwards = dict(reversed(rec(id="A-1").items()))
    dataset = open_path(put([rec(), backwards]), cache=cache)
    assert dataset.read("graded")["grade"].tolist() == [4.0, 4.0]


# --- values -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "read"),
    [(4, 4), (4.0, 4), ("4", 4), (" 4 ", 4), ("4.0", 4), (None, np.nan), (1, 1), (5, 5)],
)
def test_grades_are_read_and_counted(put, cache, given, read):
    dataset = open_path(put([rec(), rec(id="A-1", grade=given)]), cache=cache)
    np.testing.assert_array_equal(dataset.scored()["grade"], [4, read])
    expected = {int: set(), type(None): {("null", 1)}}.get(type(given), {("converted", 1)})
    assert kinds(dataset) == expected


@pytest.mark.parametrize(
    "grade", [0, 6, -1, 4.5, "N/A", "", "4.5", "four", True, False, [4], {"grade": 4}, 10**30]
)
def test_what_is_no_grade_is_refused(put, cache, grade):
    rows = [*recs(2), rec(id="A-2", grade=grade)]
    refused(put(rows), cache, "samples_graded.json", "record 3", "'A-2'", "grade is", "1 to 5")


def test_a_null_answer_is_counted(put, cache):
    dataset = open_path(put([rec(answer_topK=None)]), cache=cache)
    assert kinds(dataset) == {("null", 1)}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"inK": [1, 1, 1], "K": 3, "rank": [0, 1, 2]}, ["inK has 3 positives", "Np = 2"]),
        ({"rank": [3, 5]}, ["rank", "below Nc = 5"]),
        ({"rank": [3, -1]}, ["rank contains -1"]),
        ({"rank": [1, 1], "inK": [1, 1]}, ["rank contains one candidate twice"]),
        ({"rank": [3]}, ["rank has 1 places", "K is 2"]),
        ({"inK": [0]}, ["inK has 1 places", "K is 2"]),
        ({"inK": [1, 0]}, ["inK contradicts rank"]),
        ({"inK": [0, 2]}, ["inK contains 2"]),
        ({"inK": [False, True]}, ["inK contains false"]),
        ({"inK": "01"}, ["inK is", "not a list"]),
        ({"K": 3}, ["rank has 2 places"]),
        ({"K": 0, "rank": [], "inK": []}, ["K is 0"]),
        ({"K": 2.0}, ["K is 2.0"]),
        ({"K": "2"}, ["K is"]),
        ({"K": True}, ["K is true"]),
        ({"K": None}, ["K is null"]),
        ({"Np": 6}, ["Np is 6", "Nc = 5"]),
        ({"Np": 0}, ["Np is 0"]),
        ({"Nc": 10**12}, ["Nc is"]),
        ({"P": "0.5"}, ["P is"]),
        ({"P": None}, ["P is null"]),
        ({"id": 7}, ["id is 7"]),
        ({"id": "seven"}, ["id is", "hyphen"]),
        ({"id": "-7"}, ["id is", "hyphen"]),
        ({"E": None}, ["E is null"]),
        ({"E": " \u00a0"}, ["E is blank"]),
        ({"answer_ideal": 3}, ["answer_ideal is 3"]),
    ],
)
def test_a_graded_record_that_contradicts_itself_is_refused(put, cache, changes, words):
    rows = [rec(id="A-8"), rec(id="A-9") | changes]
    refused(put(rows), cache, "samples_graded.json", "record 2", *words)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"P": [1.0]}, ["P has 1 values for 2"]),
        ({"R": []}, ["R has 0 values for 2"]),
        ({"K": [2, 1]}, ["ascending"]),
        ({"K": [1, 1]}, ["ascending"]),
        ({"K": [0, 1]}, ["outside 1 to Nc"]),
        ({"K": [2, 4]}, ["outside 1 to Nc"]),
        ({"rank": [1, 2]}, ["rank has 2 places"]),
        ({"rank": [1, 2, 2]}, ["twice"]),
        ({"rank": [1, 2, 3]}, ["below Nc"]),
        ({"K": 2}, ["K is 2, not a list"]),
        ({"P": [1.0, None]}, ["P contains null"]),
    ],
)
def test_a_ranked_record_that_contradicts_itself_is_refused(put, cache, changes, words):
    path = put([ranked(), ranked(id="A-1") | changes], "samples_ranked.json")
    refused(path, cache, "samples_ranked.json", "record 2", "'A-1'", *words)


def test_ranked_lists_may_be_of_any_lengths(put, cache):
    rows = [ranked(), ranked(id="A-1", K=[], P=[], R=[]), ranked(id="A-2", K=[1], P=[1], R=[0.5])]
    dataset = open_path(put(rows, "samples_ranked.json"), cache=cache)
    assert dataset.read("ranked", ["K"])["K"].map(list).tolist() == [[1, 2], [], [1]]


@pytest.mark.parametrize(
    ("part", "row", "key"),
    [
        ("texts", {"id": "A-0", "q": "?", "p": [], "n": []}, "id A-0"),
        ("ranked", ranked(), "E AML12v2"),
        ("graded", rec(), "K 2"),
    ],
)
def test_a_unique_key_that_is_there_twice_is_refused(put, cache, part, row, key):
    rows = [row | {"id": "A-7"}, row, row]
    message = refused(put(rows, f"samples_{part}.json"), cache, f"samples_{part}", "2 records", key)
    assert "record 2" in message


# --- files and folders ------------------------------------------------------------------------


def test_a_folder_has_the_parts_that_are_there(put, cache, tmp_path):
    put([ranked()], "data/samples_ranked.json")
    put(gzip.compress(json.dumps([rec()]).encode()), "data/samples_graded.jsonl.gz")
    put("not ours", "data/README.md")
    dataset = open_path(tmp_path / "data", cache=cache)
    assert dataset.parts == ("ranked", "graded")
    assert dataset.name == "data"
    assert dataset.source == str(tmp_path / "data")
    assert not dataset.simulated
    missing = {notice.part for notice in dataset.notices if notice.kind == "missing"}
    assert missing == {"texts", "human"}
    with pytest.raises(DataError, match="samples_texts"):
        dataset.read("texts")
    with pytest.raises(UsageError, match="parts are"):
        dataset.read("text")
    with pytest.raises(UsageError, match=r"'q'.*it has id"):
        dataset.read("graded", ["id", "q"])


def test_files_that_cannot_be_told_apart_or_read_are_refused(put, cache, tmp_path):
    put([rec()], "two/samples_graded.json")
    put(ONE, "two/samples_graded.jsonl")
    refused(tmp_path / "two", cache, "samples_graded.json, samples_graded.jsonl")
    put([rec()], "zst/samples_graded.json.zst")
    refused(tmp_path / "zst", cache, "samples_graded.json.zst", ".parquet")
    put([rec()], "none/other.json")
    refused(tmp_path / "none", cache, "none of the published files")
    (tmp_path / "link").mkdir()
    (tmp_path / "link/samples_graded.json").symlink_to(tmp_path / "gone.json")
    refused(tmp_path / "link", cache, "samples_graded.json", "cannot be read")
    with pytest.raises(UsageError, match="no file or folder"):
        open_path(tmp_path / "nowhere", cache=cache)


def test_parquet_gives_the_same_rows_as_json(put, cache, tmp_path):
    rows = [rec(), rec(id="Hp-e-3", grade=None), rec(id="M-2", grade=2)]
    from_json = open_path(put(rows), cache=cache).scored()
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "mine.parquet")
    pd.testing.assert_frame_equal(
        open_path(tmp_path / "mine.parquet", cache=cache).scored(), from_json
    )


@pytest.mark.parametrize(
    "grades",
    [
        pa.array([4, None, 2], pa.int64()),
        pa.array([4.0, float("nan"), 2.0]),
        pa.array([4.0, None, 2.0]),
        pa.array([Decimal("4"), None, Decimal("2")], pa.decimal128(3, 1)),
        pa.array(["4", None, "2"]),
    ],
)
def test_grades_of_any_column_type_are_the_same_numbers(cache, tmp_path, grades):
    table = pa.Table.from_pylist(recs(3)).drop(["grade"]).append_column("grade", grades)
    pq.write_table(table, tmp_path / "typed.parquet")
    scored = open_path(tmp_path / "typed.parquet", cache=cache).scored()
    np.testing.assert_array_equal(scored["grade"], [4.0, np.nan, 2.0])


def test_broken_parquet_is_refused(put, cache, tmp_path):
    pq.write_table(pa.Table.from_pylist(recs(3)), tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    refused(put(whole[:-30], "b.parquet"), cache, "b.parquet", "Parquet")
    pq.write_table(pa.Table.from_pylist(recs(1)).slice(0, 0), tmp_path / "c.parquet")
    refused(tmp_path / "c.parquet", cache, "c.parquet", "no row")
    pq.write_table(pa.Table.from_pylist([*recs(2), rec(id="A-2", grade=9)]), tmp_path / "d.parquet")
    refused(tmp_path / "d.parquet", cache, "d.parquet, row 3", "'A-2'", "grade is 9")


@pytest.mark.parametrize(
    "column",
    [
        pa.Array.from_buffers(pa.string(), 2, pa.array([b"x", b"\xff"]).buffers()),
        pa.array([0, 2**62], pa.timestamp("us")),
        pa.array([0, 0], pa.timestamp("us", tz="Mars/Base")),
        pa.StructArray.from_arrays([pa.array([1, 2])] * 2, names=["a", "a"]),
    ],
)
def test_a_parquet_value_that_python_cannot_hold_is_refused(cache, tmp_path, column):
    table = pa.Table.from_pylist(recs(2)).append_column("odd", column)
    pq.write_table(table, tmp_path / "a.parquet")
    refused(tmp_path / "a.parquet", cache, "a.parquet", "row", "'odd'")


def test_human_grades_keep_whatever_keys_there_are(put, cache):
    rows = [
        {"question": "?", "grade_human_1": 4, "grade_human_2": None, "tag": 1, "more": {"a": 1}},
        {"question": "!", "grade_human_1": "3", "grade_human_2": 5.0, "tag": "x"},
    ]
    dataset = open_path(put(rows, "samples_human.json"), cache=cache)
    human = dataset.read("human")
    assert list(human) == ["question", "grade_human_1", "grade_human_2", "tag", "more"]
    np.testing.assert_array_equal(human["grade_human_1"], [4.0, 3.0])
    np.testing.assert_array_equal(human["grade_human_2"], [np.nan, 5.0])
    assert human["tag"].tolist() == ["1", '"x"']


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"grade_human_1": 7}, ["grade_human_1 is 7"]),
        ({"id": "A-1"}, ["no human grades"]),
        ({"Grade_Human_1": 4}, ["'Grade_Human_1'"]),
    ],
)
def test_human_grades_that_are_none_are_refused(put, cache, row, words):
    refused(put([row], "samples_human.json"), cache, "samples_human.json, record 1", *words)


def test_controls_stay_apart_and_may_have_no_documents(put, cache, tmp_path):
    none = rec(K=0, rank=[], inK=[], P=None, R=0.0, control="none", model="x")
    put([rec()], "data/samples_graded.json")
    put([none, rec(control="random", inK=[0, 0])], "data/samples_controls.json")
    dataset = open_path(tmp_path / "data", cache=cache)
    assert len(dataset.scored()) == 1
    controls = dataset.read("controls", ["control", "K", "model"])
    assert controls["control"].tolist() == ["none", "random"]
    assert controls["K"].tolist() == [0, 2]


# --- scored rows ------------------------------------------------------------------------------


def graded_row(sample, embedding, top_k, n_candidates=6, n_positives=2, grade=3):
    order = [4, 0, 5, 1, 2, 3]
    return rec(
        id=sample,
        E=embedding,
        Nc=n_candidates,
        Np=n_positives,
        K=top_k,
        rank=order[:top_k],
        inK=[int(index < n_positives) for index in order[:top_k]],
        grade=grade,
    )


@pytest.fixture
def small(put, cache):
    rows = [
        graded_row("Hp-e-1", "ME5S", 4),
        graded_row("Hp-e-1", "ME5S", 1),
        graded_row("Hp-e-1", "ME5S", 2, grade=None),
        graded_row("Hp-e-1", "AML12v2", 2),
        graded_row("A-10", "own", 2),
        graded_row("A-10", "own", 4, n_positives=3),
    ]
    return open_path(put(rows), cache=cache)


def test_scored_rows_by_hand(small):
    scored = small.scored()
    assert list(scored) == [
        *("id", "E", "dataset", "subset", "Nc", "Np", "K"),
        *("n_positives", "n_positives_2k", "pattern", "grade"),
    ]
    assert scored["K"].tolist() == [4, 1, 2, 2, 2, 4]
    assert scored["pattern"].tolist() == ["0101", "0", "01", "01", "01", "0101"]
    assert scored["n_positives"].tolist() == [2, 0, 1, 1, 1, 2]
    nan = np.nan
    np.testing.assert_array_equal(scored["n_positives_2k"], [nan, 1, 2, nan, nan, nan])
    np.testing.assert_array_equal(scored["grade"], [3, 3, nan, 3, 3, 3])
    assert scored["subset"].tolist() == ["Hp-e"] * 4 + ["A"] * 2
    assert scored["dataset"].tolist() == ["Hp"] * 4 + ["A"] * 2
    for column in ("id", "E", "dataset", "subset", "pattern"):
        assert isinstance(scored[column].dtype, pd.CategoricalDtype)
    for column in ("Nc", "Np", "K", "n_positives"):
        assert scored[column].dtype == np.int32
    assert list(scored["E"].cat.categories) == ["AML12v2", "ME5S", "own"]
    assert list(scored["dataset"].cat.categories) == ["A", "Hp"]


@pytest.mark.parametrize("name", ["EM", "ME5S"])
def test_both_notations_of_an_embedding_are_accepted(small, name):
    scored = small.scored(embeddings=[name])
    assert scored["E"].tolist() == ["ME5S"] * 3
    assert list(scored["E"].cat.categories) == ["ME5S"]
    assert list(scored["pattern"].cat.categories) == ["0", "01", "0101"]
    assert list(scored.index) == [0, 1, 2]


@pytest.mark.parametrize(("part", "row"), [("graded", rec), ("ranked", ranked)])
def test_one_embedding_under_two_names_is_refused(put, cache, part, row):
    rows = [row(E="AML12v2"), row(E="EM"), row(id="A-1", E="AM")]
    refused(put(rows, f"samples_{part}.json"), cache, f"samples_{part}", "AM and AML12v2")


def test_a_file_in_plot_labels_is_found_by_code(put, cache):
    dataset = open_path(put([graded_row("A-1", "AM", 2)]), cache=cache)
    assert len(dataset.scored(embeddings=["AML12v2"])) == 1


def test_datasets_are_chosen_and_unknown_names_refused(small):
    assert small.scored(datasets=["A"])["E"].tolist() == ["own", "own"]
    assert len(small.scored(datasets=["A", "Hp"])) == 6
    assert len(small.scored(["AM"], ["A"])) == 0
    with pytest.raises(UsageError, match=r"no embedding 'QM'.*AML12v2, ME5S, own"):
        small.scored(embeddings=["QM"])
    with pytest.raises(UsageError, match=r"no dataset 'M'.*A, Hp"):
        small.scored(datasets=["M"])


def test_rows_in_any_order_give_the_same_rows(put, cache, small):
    rows = small.read("graded").to_dict("records")
    for row in rows:
        row["rank"], row["inK"] = row["rank"].tolist(), row["inK"].tolist()
        row["grade"] = None if np.isnan(row["grade"]) else row["grade"]
    other = open_path(put(rows[::-1], "reversed.json"), cache=cache).scored()
    expected = small.scored()[::-1].reset_index(drop=True)
    pd.testing.assert_frame_equal(other, expected)


def test_counts(small):
    assert small.row_counts() == {"graded": 6}
    assert small.grade_counts() == {1: 0, 2: 0, 3: 5, 4: 0, 5: 0, None: 1}
    assert small.ideal_answers_that_vary() == (0, 2)
    counts = small.table_counts()
    assert counts.values.tolist() == [
        ["graded", "AML12v2", "Hp-e", 1],
        ["graded", "ME5S", "Hp-e", 3],
        ["graded", "own", "A", 2],
    ]


def test_ideal_answers_that_vary_within_an_id_are_counted(put, cache):
    rows = [rec(), rec(E="ME5S", answer_ideal="other"), rec(id="A-1"), rec(id="A-1", E="ME5S")]
    assert open_path(put(rows), cache=cache).ideal_answers_that_vary() == (1, 2)


# --- the cache --------------------------------------------------------------------------------


def test_the_same_content_is_converted_once_wherever_it_is(put, cache, monkeypatch):
    first = open_path(put(recs(3), "one/samples_graded.json"), cache=cache)
    monkeypatch.setattr(module, "read_tables", lambda *args: pytest.fail("converted again"))
    second = open_path(put(recs(3), "two/other.json"), cache=cache)
    assert first.digest == second.digest
    assert second.name == "other"
    assert entries(cache) == [first.folder.name]


def test_a_dataset_is_its_own_key(put, cache):
    one = open_path(put([rec()], "one.json"), cache=cache)
    same = open_path(put([rec()], "same.json"), cache=cache)
    other = open_path(put([rec(grade=5)], "other.json"), cache=cache)
    assert one == same
    assert one.name != same.name
    assert one != other
    assert one != one.digest
    assert len({one, same, other}) == 2


def test_other_content_is_another_entry(put, cache):
    first = open_path(put(recs(3)), cache=cache)
    second = open_path(put(recs(4)), cache=cache)
    assert first.digest != second.digest
    assert len(second.read("graded")) == 4
    assert len(entries(cache)) == 2


def test_the_cache_is_where_the_environment_says(put, tmp_path, monkeypatch):
    monkeypatch.setenv("RETRIEVAL_QUALITY_CACHE", str(tmp_path / "there"))
    assert cache_root() == tmp_path / "there"
    assert (tmp_path / "there") in open_path(put(recs(1))).folder.parents
    monkeypatch.setenv("RETRIEVAL_QUALITY_CACHE", "~/cache")
    assert cache_root() == Path.home() / "cache"
    monkeypatch.delenv("RETRIEVAL_QUALITY_CACHE")
    assert cache_root().name == "retrieval_quality"


def test_an_interruption_leaves_nothing(put, cache, monkeypatch):
    monkeypatch.setattr(reader, "BLOCK", 300)
    seen = []

    def stop(part, table):
        seen.append(part)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return table

    monkeypatch.setattr(module, "_cast", stop)
    with pytest.raises(KeyboardInterrupt):
        open_path(put(recs(50)), cache=cache)
    assert len(seen) == 3
    assert entries(cache) == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_cache_that_cannot_be_written_is_said(put, cache, monkeypatch, code):
    def full(self, table):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    refused(put(recs(3)), cache, os.strerror(code), "RETRIEVAL_QUALITY_CACHE")


def test_a_cache_below_a_file_is_said(put, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(DataError, match="RETRIEVAL_QUALITY_CACHE"):
        open_path(put(recs(3)), cache=tmp_path / "file")


@pytest.mark.skipif(sys.platform == "win32", reason="limits of file size are a matter of POSIX")
def test_a_file_that_may_not_grow_is_said_and_leaves_nothing(put, cache):
    path = put([rec(id=f"A-{n}", answer_topK=os.urandom(200).hex()) for n in range(500)])
    code = f"""
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
from pathlib import Path
from retrieval_quality.data.dataset import open_path
from retrieval_quality.errors import DataError
try:
    open_path({str(path)!r}, cache=Path({str(cache)!r}))
except DataError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "RETRIEVAL_QUALITY_CACHE" in run.stdout
    assert entries(cache) == []


@pytest.mark.parametrize("damage", ["short", "missing", "manifest", "version"])
def test_a_damaged_entry_is_not_trusted_but_made_again(put, cache, damage):
    path = put(recs(3))
    dataset = open_path(path, cache=cache)
    file, manifest = dataset.folder / "graded.parquet", dataset.folder / "dataset.json"
    if damage == "short":
        file.write_bytes(file.read_bytes()[:-10])
    elif damage == "missing":
        file.unlink()
    elif damage == "manifest":
        manifest.write_text("{", encoding="utf-8")
    else:
        content = json.loads(manifest.read_text(encoding="utf-8"))
        manifest.write_text(json.dumps(content | {"version": -1}), encoding="utf-8")
    assert lookup(dataset.digest, cache) is None
    assert len(open_path(path, cache=cache).read("graded")) == 3
    assert entries(cache) == [dataset.folder.name]


@pytest.mark.parametrize("name", ["graded.parquet", "scored.arrow"])
def test_an_entry_that_is_spoilt_is_named(put, cache, name):
    dataset = open_path(put(recs(3)), cache=cache)
    file = dataset.folder / name
    file.write_bytes(b"\0" * file.stat().st_size)
    reads = {
        "graded.parquet": (
            lambda: dataset.read("graded"),
            lambda: dataset.columns("graded"),
            dataset.row_counts,
            dataset.grade_counts,
            dataset.table_counts,
            dataset.ideal_answers_that_vary,
        ),
        "scored.arrow": (dataset.scored,),
    }
    for read in reads[name]:
        with pytest.raises(DataError, match="Remove that folder") as error:
            read()
        assert str(dataset.folder) in str(error.value)


def test_an_entry_is_read_without_writing(put, cache):
    path = put(recs(3))
    folder = open_path(path, cache=cache).folder
    everything = [cache, *cache.rglob("*")]
    for item in everything:
        item.chmod(item.stat().st_mode & ~0o222)
    before = [item.stat().st_mtime_ns for item in everything]
    try:
        assert len(open_path(path, cache=cache).scored()) == 3
        assert [item.stat().st_mtime_ns for item in [cache, *cache.rglob("*")]] == before
    finally:
        for item in everything:
            item.chmod(item.stat().st_mode | 0o700)
    assert folder.exists()


def test_writers_at_the_same_time_do_no_harm(put, cache, monkeypatch):
    path, together, lengths = put(recs(200)), threading.Barrier(4), []
    write_scored = module._write_scored

    def wait(connection, folder):
        write_scored(connection, folder)
        together.wait(timeout=30)

    monkeypatch.setattr(module, "_write_scored", wait)

    def run():
        lengths.append(len(open_path(path, cache=cache, progress=False).read("graded")))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lengths == [200] * 4
    assert len(entries(cache)) == 1


def test_what_a_killed_process_left_is_swept_later(put, cache):
    old, young = cache / "datasets/.new-1-aa", cache / "datasets/.new-2-bb"
    for folder in (old, young):
        folder.mkdir(parents=True)
        (folder / "graded.parquet").write_bytes(b"half")
    long_ago = time.time() - 2 * 24 * 3600
    os.utime(old, (long_ago, long_ago))
    dataset = open_path(put(recs(1)), cache=cache)
    assert entries(cache) == [young.name, dataset.folder.name]


def test_a_file_that_changes_while_it_is_read_is_refused(put, cache, monkeypatch):
    path = put(recs(3))
    convert = module._convert

    def meanwhile(*args):
        found = convert(*args)
        put(recs(4))
        return found

    monkeypatch.setattr(module, "_convert", meanwhile)
    refused(path, cache, "changed while it was read")


@pytest.mark.parametrize("name", ["samples_texts.json", "samples_texts.jsonl", "texts.parquet"])
def test_memory_is_bounded_by_bytes_however_heavy_a_row_is(tmp_path, name):
    """2,000 rows of 120 kB; ROW_GROUP rows of them would be 3.9 GB."""
    path = tmp_path / name.replace("texts.parquet", "samples_texts.parquet")
    document = "The quick brown fox jumps over the lazy dog. " * 44
    row = {"id": "T-0", "q": "q", "p": [document] * 20, "n": [document] * 40}
    if path.suffix == ".parquet":
        schema = pa.table({key: [value] for key, value in row.items()}).schema
        with pq.ParquetWriter(path, schema) as file:
            made = {key: [value] * 2000 for key, value in row.items()}
            made["id"] = [f"T-{number}" for number in range(2000)]
            file.write_table(pa.table(made, schema))
    else:
        between, ends = (",\n", "[]") if path.suffix == ".json" else ("\n", ("", ""))
        with path.open("w", encoding="utf-8") as text:
            text.write(ends[0])
            for number in range(2000):
                text.write(between if number else "")
                text.write(json.dumps(row | {"id": f"T-{number}"}))
            text.write(ends[1])
    run = """
import resource, sys
from pathlib import Path
from retrieval_quality.data.dataset import open_path
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
dataset = open_path(sys.argv[1], cache=Path(sys.argv[2]), progress=False)
assert dataset.row_counts() == {"texts": 2000}
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
    command = [sys.executable, "-c", run, str(path), str(tmp_path / "cache")]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert int(told) < 200, f"{told} MB"


def test_stored_tables_come_back_with_the_declared_types(cache):
    frame = pd.DataFrame(recs(2))
    stored = store(
        {"graded": iter([pa.Table.from_pandas(frame)] * 1)},
        name="made",
        source="simulated",
        digest="ab" * 32,
        simulated=True,
        cache=cache,
    )
    assert stored == lookup("ab" * 32, cache)
    assert stored.simulated
    types = pq.read_schema(stored.path("graded"))
    assert types.field("inK").type == pa.list_(pa.int8())
    assert types.field("Nc").type == pa.int32()
    assert lookup("cd" * 32, cache) is None


def test_slow_queries_show_no_progress_among_the_results():
    code = """
from retrieval_quality.data.dataset import connect
connection = connect()
print(connection.sql("SELECT current_setting('enable_progress_bar')").fetchall())
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[(False,)]\n"


# --- the data that comes with the task --------------------------------------------------------


def test_every_value_is_that_of_the_files(cache):
    dataset = open_path(stored_data.REFERENCE, cache=cache, progress=False)
    for part in dataset.parts:
        rows = stored_data.read_json(f"reference/samples_{part}.json")
        table = pq.read_table(dataset.path(part)).to_pylist()
        assert [
            {key: row.get(key) for key in read} for row, read in zip(rows, table, strict=True)
        ] == table
    graded = dataset.read("graded")
    counts = {(row.id, row.E, row.Nc, row.Np, row.K): sum(row.inK) for row in graded.itertuples()}
    scored = dataset.scored()
    twice = [
        counts.get((row.id, row.E, row.Nc, row.Np, 2 * row.K), np.nan)
        for row in scored.itertuples()
    ]
    np.testing.assert_array_equal(scored["n_positives_2k"], twice)
    assert scored["pattern"].tolist() == ["".join(map(str, row)) for row in graded["inK"]]


def test_a_kernel_converts_what_is_not_in_the_cache(tmp_path):
    import nbclient
    import nbformat

    import made_data

    made_data.write(tmp_path, made_data.records(subsets=("A",)))
    code = (
        "from pathlib import Path\n"
        "from retrieval_quality.data.dataset import open_path\n"
        f"print(len(open_path({str(tmp_path / 'data')!r}, cache=Path({str(tmp_path / 'new')!r}),"
        " progress=False).scored()))"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbclient.execute(notebook, kernel_name="python3")
    assert notebook.cells[0].outputs[0]["text"] == "144\n"
