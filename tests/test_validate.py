"""Each relation of the format is broken once and must be found, with file, record and id."""

import copy
import itertools
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from retrieval_quality import schema
from retrieval_quality.dataset import open_path, store
from retrieval_quality.errors import DataError
from retrieval_quality.validate import (
    RELATIONS,
    check_graded,
    check_ranked,
    ranked_texts,
    validate,
)

SHARED = Path(__file__).parents[1].parent / "shared"
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


def sound():
    samples = ["A-0", "Hp-e-1"]
    return {
        "texts": [
            texts_row("A-0", c1="math.ca", c2="math.pr", q2="probability"),
            texts_row("Hp-e-1", c1=None, c2=None, q2=None),
        ],
        "ranked": [ranked_row(sample) for sample in samples],
        "graded": [graded_row(sample, top_k) for sample in samples for top_k in (1, 2, 4)],
        "human": [{**graded_row("Hp-e-1", 2), "grade_human_1": 3.0}],
    }


def stored(parts, tmp_path, **options):
    tables = {part: pa.Table.from_pylist(rows) for part, rows in parts.items()}
    digest = f"{next(_DIGESTS):064d}"
    return store(tables, name="made", source="made up", digest=digest, cache=tmp_path, **options)


def test_sound_data_break_nothing(tmp_path):
    report = validate(stored(sound(), tmp_path))
    assert report.ok
    report.require()
    table = report.table()
    assert (table["failures"] == 0).all()
    assert (table["skipped"] == "").all()
    expected = {relation.name for relation in RELATIONS if relation.part != "controls"}
    assert set(table["check"]) == expected | {"human-in-graded"}
    assert table.set_index("check")["rows"]["graded-rank"] == 6
    assert table["check"].is_unique


def change(part, row, **values):
    def apply(parts):
        parts[part][row].update(values)

    return apply


def without_second_ranked(parts):
    del parts["ranked"][1]


BROKEN = {
    "texts-id": change("texts", 1, id="Hp-e-x"),
    "texts-categories": change("texts", 1, c1="math.ca"),
    "ranked-id-in-texts": change("texts", 1, id="Hp-e-2"),
    "graded-id-in-texts": change("texts", 1, id="Hp-e-2"),
    "ranked-Nc": change("ranked", 1, Nc=1),
    "ranked-Np": change("ranked", 1, Np=1),
    "ranked-Np-Nc": change("ranked", 1, Np=5),
    "ranked-lengths": change("ranked", 1, P=[0.0, 0.5]),
    "ranked-K": change("ranked", 1, K=[2, 1, 4]),
    "ranked-rank": change("ranked", 1, rank=[3, 1, 0, 2, 2]),
    "ranked-candidates": change("texts", 1, n=["n0"]),
    "ranked-positives": change("texts", 1, p=["p0"]),
    "ranked-negatives": change("texts", 1, p=["p0"] * 9, n=["n0", "n1"]),
    "ranked-P": change("ranked", 1, P=[0.0, 0.5, 0.51]),
    "ranked-R": change("ranked", 1, R=[0.0, 0.5 + 2e-9, 1.0]),
    "graded-Nc": change("graded", 4, Nc=1),
    "graded-Np": change("graded", 4, Np=1),
    "graded-Np-Nc": change("graded", 4, Np=5),
    "graded-lengths": change("graded", 4, rank=[3, 1, 0]),
    "graded-positives": change("graded", 4, inK=[1, 2]),
    "graded-inK": change("graded", 4, inK=[1, 0]),
    "graded-P": change("graded", 4, P=0.5 + 2e-9),
    "graded-R": change("graded", 4, R=float("nan")),
    "graded-grade": change("graded", 4, grade=4.5),
    "graded-in-ranked": without_second_ranked,
    "graded-K": change("ranked", 1, K=[1, 3, 4]),
    "graded-rank": change("graded", 4, rank=[1, 3]),
    "human-in-graded": change("human", 0, K=3),
}
FIRST = {
    "texts": ("record 2", "Hp-e-"),
    "ranked": ("record 2", "Hp-e-1"),
    "human": ("record 1", ""),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_relation_is_found_with_its_row(tmp_path, name):
    parts = copy.deepcopy(sound())
    BROKEN[name](parts)
    report = validate(stored(parts, tmp_path))
    failed = {check.name: check for check in report.failed}
    assert name in failed
    check = failed[name]
    assert check.failures == (3 if name in ("graded-in-ranked", "graded-id-in-texts") else 1)
    record = {"graded-in-ranked": "record 4", "graded-id-in-texts": "record 4"}.get(
        name, "record 5"
    )
    record, sample = FIRST.get(check.part, (record, "Hp-e-1"))
    assert check.examples[0].startswith(f"samples_{check.part} {record}, id {sample}")
    with pytest.raises(DataError, match="made up breaks its format"):
        report.require()


def test_every_relation_but_the_unique_keys_is_broken_above():
    names = {relation.name for relation in RELATIONS if not relation.name.endswith("-unique")}
    assert set(BROKEN) == (names - {"controls-id-in-texts"}) | {"human-in-graded"}


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
    assert check.examples[0] == ("samples_graded record 1, id A-0: P 0.9, sum(inK) 0, K 1")


# --- one row ----------------------------------------------------------------------------------


def test_texts_in_the_order_of_the_ranking():
    assert ranked_texts(texts_row("A-0"), ranked_row("A-0")) == ["n1", "p1", "p0", "n0", "n2"]


@pytest.mark.parametrize(
    ("change", "texts", "relation"),
    [
        ({"id": "A-1"}, {}, "id is that of the texts"),
        ({"P": [1.0]}, {}, "len(P) == len(R) == len(K)"),
        ({"rank": [0, 1]}, {}, "len(rank) == Nc"),
        ({}, {"n": ["n0"]}, "Nc <= len(p) + len(n)"),
        ({}, {"p": ["p0"], "n": ["n0"] * 9}, "Np <= len(p)"),
        ({"Np": 5}, {"p": ["p0"] * 5}, "Np < Nc"),
        ({"Np": 1}, {}, "Np >= 2"),
    ],
)
def test_a_ranked_row_that_breaks_its_relations(change, texts, relation):
    check_ranked(ranked_row("A-0"), texts_row("A-0"))
    with pytest.raises(DataError) as error:
        check_ranked(ranked_row("A-0") | change, texts_row("A-0") | texts)
    assert relation in str(error.value)
    assert "ranked row with id A-" in str(error.value)


@pytest.mark.parametrize(
    ("change", "relation"),
    [
        ({"E": "E5Sv2"}, "id, E, Nc, Np"),
        ({"inK": [0]}, "len(rank) == len(inK) == K"),
        ({"inK": [1, 2]}, "sum(inK) <= Np"),
        ({"K": 3, "rank": [3, 1, 0], "inK": [0, 1, 1]}, "K is in the ranked row's K"),
        ({"rank": [1, 3]}, "rank == ranked rank[:K]"),
    ],
)
def test_a_graded_row_that_breaks_its_relations(change, relation):
    check_graded(graded_row("A-0", 2), ranked_row("A-0"))
    with pytest.raises(DataError) as error:
        check_graded(graded_row("A-0", 2) | change, ranked_row("A-0"))
    assert relation in str(error.value)
    assert "graded row with id A-0" in str(error.value)


@pytest.mark.skipif(not SHARED.exists(), reason="the shared data are not there")
@pytest.mark.parametrize("name", ["reference", "real"])
def test_the_shared_data_are_sound(tmp_path, name):
    dataset = open_path(SHARED / name, cache=tmp_path, progress=False)
    report = validate(dataset)
    assert report.ok
    texts = dataset.read("texts").set_index("id", drop=False).to_dict("index")
    ranked = dataset.read("ranked")
    for row in ranked.head(200).to_dict("records"):
        check_ranked(row, texts[row["id"]])
        shown = ranked_texts(texts[row["id"]], row)
        assert len(shown) == row["Nc"]
    keyed = ranked.set_index(["id", "E", "Nc", "Np"], drop=False)
    for row in dataset.read("graded").head(300).to_dict("records"):
        check_graded(row, keyed.loc[(row["id"], row["E"], row["Nc"], row["Np"])])
    assert isinstance(report.table(), pd.DataFrame)
