"""Whatever stands in a log, the answer is rows or one sentence: never a traceback."""

import json
import random
from pathlib import Path

import pytest

from retrieval_quality.errors import DataError, RetrievalQualityError
from retrieval_quality.logs.formats import open_log
from retrieval_quality.logs.options import Options

DATA = Path(__file__).parent / "data" / "logs"
WRONG = [None, 5, -1.5, "x", "", [], {}, [None], [5], True, {"a": 1}, [[]], "[1", 1e308, "9" * 40]
FORMATS = ["ragas", "deepeval", "langsmith", "mlflow", "openinference", "otel_genai", "plain"]


def places(value, path=()):
    """Every place within a JSON value, of a list the first three."""
    yield path
    inner = value.items() if isinstance(value, dict) else []
    inner = enumerate(value[:3]) if isinstance(value, list) else inner
    for key, one in inner:
        yield from places(one, (*path, key))


def put(value, path, new):
    """A copy with another value at a place."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = put(value[path[0]], path[1:], new)
    return copy


def valid(folder):
    """The JSON files of a format that can be parsed, each as (name, records, whether lines)."""
    for path in sorted((DATA / folder).glob("*.json*")):
        text = path.read_text(encoding="utf-8-sig")
        lines = path.suffix == ".jsonl"
        try:
            found = [json.loads(one) for one in text.splitlines() if one] if lines else text
            found = found[:3] if lines else json.loads(text)
        except ValueError:
            continue
        if path.name != "expected.json":
            yield path.name, found, lines


def read(path, **options):
    return list(open_log(path, Options(**options)).rows())


@pytest.mark.parametrize("folder", FORMATS)
def test_any_value_at_any_place_is_read_or_refused_in_a_sentence(tmp_path, folder):
    tries = [
        (name, found, lines, path, new)
        for name, found, lines in valid(folder)
        for path in places(found)
        for new in WRONG
        if path or not lines
    ]
    assert len(tries) > 100
    for name, found, lines, path, new in random.Random(7).sample(tries, min(300, len(tries))):
        made = put(found, path, new)
        text = "\n".join(map(json.dumps, made)) if lines else json.dumps(made)
        file = tmp_path / name
        file.write_text(text, encoding="utf-8")
        for lenient in (False, True):
            try:
                read(file, lenient=lenient)
            except RetrievalQualityError:
                continue
            except Exception as error:
                pytest.fail(f"{name}, {path} = {new!r}: {error!r}")


def span(**other):
    kind = {"key": "openinference.span.kind", "value": {"stringValue": "RETRIEVER"}}
    one = {"key": "retrieval.documents.0.document.id", "value": {"stringValue": "a"}}
    found = {"traceId": "t", "spanId": "s", "startTimeUnixNano": "1", "attributes": [kind, one]}
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [{**found, **other}]}]}]})


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("soon.json", span(startTimeUnixNano="soon"), "span s, startTimeUnixNano: 'soon'"),
        ("far.json", span(startTimeUnixNano="9" * 19), "no time in nanoseconds"),
        ("long.json", span(startTimeUnixNano="9" * 40), "64 bits"),
        ("list.json", span(startTimeUnixNano=[1]), "64 bits"),
        ("cases.json", '{"testCases": [{"input": "q"}, 7]}', "case 2"),
        ("cases.json", '{"testCases": 5}', "testCases: 5 where a list belongs"),
        ("run.json", '{"testRunData": [1]}', "testRunData"),
        ("t.jsonl", '{"info": {"trace_id": "t"}, "data": {"spans": 5}}\n', "data.spans: 5"),
        ("latin.csv", "query,documents\nkü,a".encode("latin-1"), "UTF-8"),
        ("latin.csv", "quäry,documents\nk,a".encode("latin-1"), "UTF-8"),
        ("old.run", "q Q0 a 1 2 t\rq Q0 b 2 1 t\r", "line 1: a carriage return"),
        ("seven.run", "q Q0 a 1 2 t\nq Q0 my doc 1 2 t\n", "line 2: 7 fields"),
        ("comma.run", "q Q0 d1 1 1,5 t\n", "no column for the documents"),
        ("digits.run", "q Q0 d1 1 ٣ t\n", "no known format"),
    ],
)
def test_what_a_record_holds_instead_is_named(tmp_path, name, text, said):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(RetrievalQualityError) as error:
        read(path)
    assert said in str(error.value)
    assert "JSON document" not in str(error.value)


def test_a_tag_with_blanks_is_still_a_run(tmp_path):
    path = tmp_path / "tag.run"
    path.write_text("q Q0 a 1 2 my own tag\n", encoding="utf-8")
    assert read(path)[0].documents == ["a"]


def test_a_table_of_text_is_told_by_its_content(tmp_path):
    path = tmp_path / "log.dat"
    path.write_text('query,documents,labels\nk,"[""a""]",[1]\n', encoding="utf-8")
    assert read(path)[0].labels == [1]


def test_a_number_of_another_script_is_no_number(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"documents": ["a"], "scores": ["٣"]}\n', encoding="utf-8")
    with pytest.raises(DataError, match="not a number"):
        read(path)
