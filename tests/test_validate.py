"""Each relation of the format is broken once and must be found, with file, record and id."""

import itertools

import pyarrow as pa
import pytest

import stored_data
from retrieval_quality.data import relations as module
from retrieval_quality.data import schema
from retrieval_quality.data.dataset import open_path, store
from retrieval_quality.data.validate import (
    RELATIONS,
    validate,
)
from retrieval_quality.errors import DataError

ORDER = [3, 1, 0, 2, 4]
_DIGESTS = itertools.count()


def graded_row(sample, top_k):
    found = [int(index < 2) for index in ORDER[:top_k]]
    return {
        "id": sample,
        "E": "ME5S",
        "Nc": 5,
        "Np": 2,
        "K": top_k,
        "rank": ORDER[:top_k],
        "inK": found,
        "answer_ideal": "all",
        "answer_topK": "some",
        "grade": 4.0,
        "P": sum(found) / top_k,
        "R": sum(found) / 2,
    }


def ranked_row(sample):
    rows = [graded_row(sample, top_k) for top_k in (1, 2, 4)]
    return {
        "id": sample,
        "E": "ME5S",
        "Nc": 5,
        "Np": 2,
        "K": [1, 2, 4],
        "P": [row["P"] for row in rows],
        "R": [row["R"] for row in rows],
        "rank": ORDER,
    }


def texts_row(sample, **more):
    return {"id": sample, "q": "?", "p": ["p0", "p1", "p2"], "n": ["n0", "n1", "n2"], **more}


def sound(samples=("A-0", "Hp-e-1")):
    categories = {"c1": "math.ca", "c2": "math.pr", "q2": "probability"}
    return {
        "texts": [
            texts_row(sample, **(categories if sample[0] == "A" else dict.fromkeys(categories)))
            for sample in samples
        ],
        "ranked": [ranked_row(sample) for sample in samples],
        "graded": [graded_row(sample, top_k) for sample in samples for top_k in (1, 2, 4)],
        "human": [{**graded_row(sample, 2), "grade_human_1": 3.0} for sample in samples],
    }


def stored(parts, tmp_path, **options):
    tables = {part: pa.Table.from_pylist(rows) for part, rows in parts.items()}
    digest = f"{next(_DIGESTS):064d}"
    return store(tables, name="made", source="made up", digest=digest, cache=tmp_path, **options)


def test_sound_data_break_nothing(tmp_path):
    report = validate(stored(sound(), tmp_path))
    assert report.ok
    report.require()
    assert report.lines()[0] == "made up: every relation holds"
    assert len(report.lines()) == 1 + len(report.checks)
    assert report.as_dict()["ok"] is True
    table = report.table()
    assert (table["failures"] == 0).all()
    assert (table["skipped"] == "").all()
    expected = {relation.name for relation in RELATIONS if relation.part != "controls"}
    assert set(table["check"]) == expected
    assert table.set_index("check")["rows"]["graded-rank"] == 6
    assert table["check"].is_unique


BROKEN = {
    "texts-id": ("texts", {"id": "Hp-e-x"}),
    "texts-categories": ("texts", {"c1": "math.ca"}),
    "ranked-id-in-texts": ("texts", {"id": "Hp-e-1000"}),
    "graded-id-in-texts": ("texts", {"id": "Hp-e-2000"}),
    "ranked-Nc": ("ranked", {"Nc": 1}),
    "ranked-Np": ("ranked", {"Np": 1}),
    "ranked-Np-Nc": ("ranked", {"Np": 5}),
    "ranked-lengths": ("ranked", {"P": [0.0, 0.5]}),
    "ranked-K": ("ranked", {"K": [2, 1, 4]}),
    "ranked-rank": ("ranked", {"rank": [3, 1, 0, 2, 2]}),
    "ranked-candidates": ("texts", {"n": ["n0"]}),
    "ranked-positives": ("texts", {"p": ["p0"]}),
    "ranked-negatives": ("texts", {"p": ["p0"] * 9, "n": ["n0", "n1"]}),
    "ranked-P": ("ranked", {"P": [0.0, 0.5, 0.5 + 2e-9]}),
    "ranked-R": ("ranked", {"R": [0.0, 0.5 + 2e-9, 1.0]}),
    "graded-Nc": ("graded", {"Nc": 1}),
    "graded-Np": ("graded", {"Np": 1}),
    "graded-Np-Nc": ("graded", {"Np": 5}),
    "graded-lengths": ("graded", {"rank": [3, 1, 0]}),
    "graded-positives": ("graded", {"inK": [1, 2]}),
    "graded-inK": ("graded", {"inK": [1, 0]}),
    "graded-P": ("graded", {"P": 0.5 + 2e-9}),
    "graded-R": ("graded", {"R": float("nan")}),
    "graded-grade": ("graded", {"grade": 4.5}),
    "graded-in-ranked": ("ranked", {"E": "E5Sv2"}),
    "graded-K": ("ranked", {"K": [1, 3, 4]}),
    "graded-rank": ("graded", {"rank": [1, 3]}),
    "graded-2K": ("graded", {"rank": [3, 4], "inK": [0, 0], "P": 0.0, "R": 0.0}),
    "human-in-graded": ("human", {"K": 3}),
    "human-grade": ("human", {"grade": 1.0}),
}


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """Check a dataset in which sample n breaks relation n, and all rows that break are named."""
    parts = sound([f"Hp-e-{number}" for number in range(len(BROKEN) + 1)])
    for number, (part, values) in enumerate(BROKEN.values()):
        parts[part][3 * number + 1 if part == "graded" else number].update(values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "EXAMPLES", 10_000)
        return validate(stored(parts, tmp_path_factory.mktemp("broken")))


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_relation_is_found_with_its_row(broken, name):
    check = next(check for check in broken.failed if check.name == name)
    number = list(BROKEN).index(name)
    record = 3 * number + 2 if check.part == "graded" else number + 1
    if name in ("graded-in-ranked", "graded-id-in-texts"):
        record -= 1  # all three rows of the sample, from the first
    sample = "Hp-e-x" if name == "texts-id" else f"Hp-e-{number}"
    start = f"samples_{check.part} record {record}, id {sample}"
    assert [example for example in check.examples if example.startswith(start)]
    assert len(check.examples) == check.failures


def test_a_sound_sample_among_broken_ones_is_not_named(broken):
    examples = [example for check in broken.checks for example in check.examples]
    assert not [example for example in examples if f"id Hp-e-{len(BROKEN)}" in example]
    assert not broken.ok
    assert broken.as_dict()["ok"] is False
    assert set(examples) <= {line.strip() for line in broken.lines()}
    with pytest.raises(DataError, match="made up breaks its format"):
        broken.require()


def test_every_relation_but_the_unique_keys_is_broken_above():
    names = {relation.name for relation in RELATIONS if not relation.name.endswith("-unique")}
    assert set(BROKEN) == names - {"controls-id-in-texts"}


def test_parts_that_are_missing_are_said(tmp_path):
    parts = {"graded": sound()["graded"], "human": [{"grade_human_1": 3.0, "id": "A-0"}]}
    table = validate(stored(parts, tmp_path)).table().set_index("check")
    assert table["skipped"]["graded-rank"] == "there is no samples_ranked file"
    assert table["skipped"]["graded-id-in-texts"] == "there is no samples_texts file"
    assert "no E" in table["skipped"]["human-in-graded"]
    assert table["rows"]["graded-rank"] == 0
    assert table["rows"]["graded-P"] == 6


def test_published_counts_are_asked_only_of_the_papers_data(tmp_path):
    parts = sound()
    assert validate(stored(parts, tmp_path, simulated=True, commit="abc")).ok
    report = validate(stored(parts, tmp_path, commit="abc"))
    failed = {check.name: check.examples for check in report.failed}
    assert failed == {
        "published-texts": ("samples_texts has 2",),
        "published-ranked": ("samples_ranked has 2",),
        "published-graded": ("samples_graded has 6",),
        **{
            f"published-ranked-{code}": (f"samples_ranked has {2 if code == 'ME5S' else 0}",)
            for code in schema.EMBEDDINGS
        },
    }
    parts["ranked"][1]["Np"] = 16
    report = validate(stored(parts, tmp_path), published=True)
    assert "published-Np" in {check.name for check in report.failed}


def test_at_most_three_rows_are_named(tmp_path):
    parts = sound()
    for row in parts["graded"]:
        row["P"] = 0.9
    check = next(c for c in validate(stored(parts, tmp_path)).checks if c.name == "graded-P")
    assert check.failures == 6
    assert len(check.examples) == 3
    assert check.examples[0] == ("samples_graded record 1, id A-0, K 1: P 0.9, sum(inK) 0, K 1")


def test_the_reference_is_sound(tmp_path):
    dataset = open_path(stored_data.REFERENCE, cache=tmp_path, progress=False)
    report = validate(dataset)
    assert report.ok
