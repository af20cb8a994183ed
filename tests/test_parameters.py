"""Parameters: what is read, what is refused, and what the refusal says."""

import dataclasses
import json
from pathlib import Path

import pytest

from retrieval_quality.errors import UsageError
from retrieval_quality.parameters import Parameters, check_place, check_uses


def test_the_defaults_are_those_of_the_paper():
    assert Parameters().as_dict() == {
        "data": "simulated",
        "min_samples_ratio": 300,
        "min_samples_width": 100,
        "embeddings": [],
        "datasets": [],
        "coefficient": "spearman",
        "alpha": "published",
        "seed": 1,
    }


@pytest.mark.parametrize(
    ("pair", "name", "value"),
    [
        ("data=../shared/real", "data", "../shared/real"),
        ("data=a=b", "data", "a=b"),
        ("min_samples_ratio=15", "min_samples_ratio", 15),
        (" min_samples_width = 7 ", "min_samples_width", 7),
        ("embeddings=AM,EM", "embeddings", ("AM", "EM")),
        ("embeddings=[AM, EM]", "embeddings", ("AM", "EM")),
        ("embeddings=['AM', \"EM\"]", "embeddings", ("AM", "EM")),
        ("embeddings=AM,AM", "embeddings", ("AM",)),
        ("embeddings=", "embeddings", ()),
        ("datasets=[]", "datasets", ()),
        ("datasets=A", "datasets", ("A",)),
        ("coefficient=kendall_b", "coefficient", "kendall_b"),
        ("alpha=exact", "alpha", "exact"),
        ("alpha=0.5", "alpha", 0.5),
        ("alpha=1", "alpha", 1.0),
        ("seed=0", "seed", 0),
    ],
)
def test_a_text_is_converted_to_the_type_of_the_default(pair, name, value):
    got = getattr(Parameters.parse([pair]), name)
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(
    "pair",
    [
        "min_samples_ratio=0",
        "min_samples_ratio=-1",
        "min_samples_ratio=1.5",
        "min_samples_ratio=many",
        "min_samples_ratio=",
        "seed=-1",
        "coefficient=kendall",
        "alpha=best",
        "alpha=1.01",
        "alpha=nan",
        "alpha=-0.1",
        "data=",
        "embeddings=[AM",
        "embeddings=AM,,EM",
    ],
)
def test_a_value_that_cannot_be_used_is_refused_with_what_is_accepted(pair):
    name = pair.partition("=")[0]
    with pytest.raises(UsageError, match=f"parameter {name} cannot be .*; it is "):
        Parameters.parse([pair])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("min_samples_ratio", "300"),
        ("min_samples_ratio", 300.0),
        ("min_samples_ratio", True),
        ("min_samples_ratio", None),
        ("embeddings", [1]),
        ("embeddings", None),
        ("embeddings", {"AM": 1}),
        ("alpha", True),
        ("alpha", None),
        ("coefficient", 1),
        ("data", 5),
    ],
)
def test_a_wrong_type_in_a_mapping_is_refused(name, value):
    with pytest.raises(UsageError, match=name):
        Parameters.parse({name: value})


def test_an_unknown_name_is_refused_with_the_nearest_and_the_accepted():
    with pytest.raises(UsageError, match="did you mean min_samples_ratio") as error:
        Parameters.parse(["min_sample_ratio=3"])
    assert "coefficient" in str(error.value)
    assert error.value.exit_code == 2
    with pytest.raises(UsageError, match="no parameter 'zzz'"):
        Parameters.parse({"zzz": 1})


def test_a_name_given_twice_or_without_a_value_is_refused():
    with pytest.raises(UsageError, match="given twice"):
        Parameters.parse(["seed=1", "seed=2"])
    with pytest.raises(UsageError, match="name=value"):
        Parameters.parse(["seed"])


def test_a_mapping_and_its_dictionary_round_trip_through_json():
    given = Parameters.parse({"data": Path("x"), "datasets": ["A", "M"], "alpha": 1, "seed": 3})
    assert given.data == "x"
    assert Parameters.parse(json.loads(json.dumps(given.as_dict()))) == given
    assert hash(given) == hash(Parameters.parse(given.as_dict()))


def test_every_parameter_is_described_and_none_can_be_changed():
    described = Parameters.describe()
    assert [row["name"] for row in described] == [f.name for f in dataclasses.fields(Parameters)]
    assert all(row["type"] and row["meaning"] for row in described)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Parameters().seed = 2


def test_a_parameter_that_is_given_and_not_used_is_refused_with_the_reason():
    uses = ("data", "seed")
    assert Parameters.parse(["seed=3"], uses=uses).seed == 3
    assert Parameters.parse({"seed": 3}, uses=uses).seed == 3
    for given in (["alpha=0.5"], {"alpha": 0.5}, ["alpha=published"]):
        with pytest.raises(UsageError, match=r"claims does not use alpha: so it is\. It uses data"):
            Parameters.parse(given, uses=uses, by="claims", reasons={"alpha": "so it is"})
    with pytest.raises(UsageError, match=r"it would change nothing\. It uses no parameter"):
        check_uses(["seed"], (), "figure 2")
    with pytest.raises(UsageError, match="did you mean seed"):
        Parameters.parse(["sed=3"], uses=uses)


def test_every_parameter_says_what_or_how_and_the_place_is_none_of_them():
    groups = {row["name"]: row["group"] for row in Parameters.describe()}
    assert {name for name, group in groups.items() if group == "how"} == {
        "coefficient",
        "alpha",
        "seed",
    }
    with pytest.raises(UsageError, match="out is no parameter of an analysis"):
        Parameters.parse(["out=figures"])


@pytest.mark.parametrize(
    "value",
    [
        *("None", "none", "null", "NaN", "True", "false", "[]", "''", " figures", "a ", "a\0b"),
        *("\n", None, 3, True, ["a"], b"a", "~nobody-of-this-name/x"),
    ],
)
def test_what_is_no_place_is_refused(value):
    with pytest.raises(UsageError, match=r"out cannot be|no home folder"):
        check_place(value)


@pytest.mark.parametrize(
    "value", ["", "figures", "./None", "a b", "Büch (1)", "-", "a=b", "../x", "None/x", Path("a")]
)
def test_what_is_a_place_is_kept(value):
    assert check_place(value) == str(value) or Path(check_place(value)) == Path(value)
