"""The embedded default: totals, relations of the format, determinism, and no claim built in."""

import dataclasses
import hashlib
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pytest

from retrieval_quality.data import schema, simulate
from retrieval_quality.data.dataset import open_path
from retrieval_quality.errors import DataError, UsageError


@pytest.fixture(scope="module")
def full():
    return simulate.tables(seed=1)


@pytest.fixture(scope="module")
def small():
    return simulate.tables(seed=1, scale=0.02)


def digest(table):
    """Digest of the rows as text: what a person would see to be equal is equal."""
    return hashlib.sha256(repr(table.to_pylist()).encode()).hexdigest()[:16]


def test_totals_are_the_published_ones(full):
    for part, rows in schema.PUBLISHED_ROWS.items():
        assert full[part].num_rows == rows
    per_embedding = full["ranked"]["E"].value_counts().to_pylist()
    assert {row["values"] for row in per_embedding} == set(schema.EMBEDDINGS)
    assert {row["counts"] for row in per_embedding} == {schema.PUBLISHED_RANKED_PER_EMBEDDING}
    assert full["human"].num_rows == simulate.N_HUMAN


def test_first_row_of_table_1_is_kept(full):
    known = schema.TABLE_1_FIRST_ROW
    graded = full["graded"].select(["id", "E", "Nc", "Np", "K"]).to_pandas()
    row = graded.query("Nc == 30 and Np == 2 and E == 'ME5S'")
    assert row["id"].str.startswith("A-").all()
    assert row["id"].nunique() == known["ranked"]
    assert (row["K"].min(), row["K"].max()) == (known["K_low"], known["K_high"])
    assert len(row) == known["graded"]


def test_every_subset_and_text_is_used(full):
    ids = set(full["texts"]["id"].to_pylist())
    assert {schema.subset_of(i) for i in ids} == set(schema.SUBSETS)
    assert set(full["ranked"]["id"].to_pylist()) == ids


def test_keys_are_unique(full):
    for part in ("texts", "ranked", "graded"):
        keys = full[part].select(list(schema.PARTS[part].key)).to_pandas()
        assert not keys.duplicated().any()


def test_relations_of_the_format(small):
    texts = {row["id"]: row for row in small["texts"].to_pylist()}
    ranked = {
        tuple(row[k] for k in ("id", "E", "Nc", "Np")): row for row in small["ranked"].to_pylist()
    }
    low, high = schema.PUBLISHED_NP_RANGE
    for row in ranked.values():
        text = texts[row["id"]]
        assert len(row["K"]) == len(row["P"]) == len(row["R"])
        assert row["K"] == sorted(set(row["K"]))
        assert 1 <= row["K"][0] <= row["K"][-1] <= row["Nc"]
        assert sorted(row["rank"]) == list(range(row["Nc"]))
        assert low <= row["Np"] <= min(high, len(text["p"]), row["Nc"] - 1)
        assert row["Nc"] - row["Np"] <= len(text["n"])
    for row in small["graded"].to_pylist():
        parent = ranked[row["id"], row["E"], row["Nc"], row["Np"]]
        assert row["K"] == len(row["rank"]) == len(row["inK"])
        assert row["rank"] == parent["rank"][: row["K"]]
        assert row["inK"] == [int(i < row["Np"]) for i in row["rank"]]
        at = parent["K"].index(row["K"])
        assert row["P"] == parent["P"][at] == sum(row["inK"]) / row["K"]
        assert row["R"] == parent["R"][at] == sum(row["inK"]) / row["Np"]
        assert row["grade"] in schema.GRADES


def test_every_k_of_a_ranked_row_is_graded(small):
    listed = pc.sum(pc.list_value_length(small["ranked"]["K"])).as_py()
    assert listed == small["graded"].num_rows


def test_cells_of_every_figure_are_populated(full):
    graded = full["graded"].select(["id", "E", "Np", "K"]).to_pandas()
    graded["dataset"] = graded["id"].str.split("-").str[0]
    graded["ratio"] = (graded["K"] / graded["Np"]).round(1)
    sizes = graded.groupby(["dataset", "E", "ratio"]).size()
    enough = sizes[sizes >= 300].reset_index()
    for (_, _), group in enough.groupby(["dataset", "E"]):
        assert group["ratio"].min() <= 0.2
        assert group["ratio"].max() >= 4
        assert len(group) >= 15
    narrow = graded["K"] < graded["Np"]
    assert graded.groupby(["dataset", "E", narrow]).size().min() >= 100


def test_many_rows_have_a_2k_row(full):
    keys = ["id", "E", "Nc", "Np", "K"]
    graded = full["graded"].select(keys).to_pandas()
    doubled = graded.assign(K=graded["K"] * 2)
    assert len(doubled.merge(graded, on=keys)) > 0.3 * len(graded)


def test_texts_say_that_they_are_simulated(small):
    for row in small["texts"].to_pylist():
        bodies = [row["q"], *row["p"], *row["n"], row["c1"], row["c2"], row["q2"]]
        assert all(body.endswith("(simulated)") for body in bodies if body is not None)
        assert (row["c1"] is not None) == row["id"].startswith("A-")
    for part in ("graded", "human"):
        for column in ("answer_ideal", "answer_topK"):
            assert pc.all(pc.ends_with(small[part][column], "(simulated)")).as_py()


def test_human_rows_are_graded_rows_with_some_grades_missing(full):
    human, graded = full["human"].to_pandas(), full["graded"]
    keys = ["id", "E", "Nc", "Np", "K"]
    matched = human.merge(graded.select([*keys, "grade"]).to_pandas(), on=keys)
    assert len(matched) == len(human)
    assert (matched["grade_x"] == matched["grade_y"]).all()
    for person in (1, 2, 3):
        grades = human[f"grade_human_{person}"]
        assert 0 < grades.isna().sum() < 0.2 * len(human)
        assert set(grades.dropna()) <= set(schema.GRADES)
        assert 0.4 < grades.corr(human["grade"], method="spearman") < 0.99


def test_same_seed_same_rows_another_seed_others():
    first, again = (simulate.tables(seed=3, scale=0.01) for _ in range(2))
    other = simulate.tables(seed=4, scale=0.01)
    assert first["texts"].equals(other["texts"])
    for part in ("ranked", "graded", "human"):
        assert first[part].equals(again[part])
        assert not first[part].equals(other[part])


def test_seed_1_gives_the_rows_it_always_gave():
    made = simulate.tables(seed=1, scale=0.01)
    assert digest(made["ranked"]) == "670c8e82805e566e"
    assert digest(made["graded"]) == "2a14a20d46363d90"
    assert digest(made["human"]) == "245b29280045e161"


def test_noise_is_centred_with_unit_spread_and_bounded():
    noise = simulate._Stream(1).noise("test", 200_000)
    assert abs(noise.mean()) < 0.01
    assert abs(noise.std() - 1) < 0.01
    assert np.abs(noise).max() <= 2 * 0xFFFF / np.sqrt((2.0**32 - 1) / 3)


def test_quality_by_hand():
    model = simulate.Model(share=1, count=1, count_half=1, negatives=1, negatives_half=1, order=1)
    positive = np.array([[True, False, True, False]])
    found, quality = simulate._judge(positive, np.array([1, 2, 4]), 2, model)
    assert found.tolist() == [[1, 1, 2]]
    # K=1: 1/2 + 1/2 - 0 + (1 - 1); K=2: 1/2 + 1/2 - 1/2 + (1/1.5 - 1/2)
    # K=4: 1 + 2/3 - 2/3 + ((1 + 1/3) / (1 + 1/2 + 1/3 + 1/4) - 1/2)
    expected = [1.0, 0.5 + 1 / 6, 1 + (4 / 3) / (25 / 12) - 0.5]
    np.testing.assert_allclose(quality[0], expected, rtol=1e-14)


def test_grade_counts_the_thresholds_exceeded():
    model = simulate.Model(thresholds=(0.0, 1.0, 2.0, 3.0))
    quality = np.array([-1.0, 0.0, 0.5, 1.5, 2.5, 3.5])
    assert simulate._grades(quality, model).tolist() == [1, 1, 2, 3, 4, 5]


def test_no_dataset_is_favoured_by_the_model():
    """Over many seeds each dataset is the easiest to retrieve from about equally often."""
    streams = [simulate._Stream(seed) for seed in range(400)]
    for effect in ("separation", "ease", "embedding"):
        drawn = pd.DataFrame(
            {d: [s.noise(f"{effect} {d}", 1)[0] for s in streams] for d in schema.DATASETS}
        )
        assert drawn.idxmax(axis=1).value_counts().between(50, 115).all()


def test_simulate_is_cached_and_called_simulated(tmp_path, monkeypatch):
    made = simulate.simulate(seed=2, scale=0.01, cache=tmp_path)
    assert made.simulated
    assert made.name == "simulated"
    assert made.parts == ("texts", "ranked", "graded", "human")
    assert made.commit is None
    monkeypatch.setattr(simulate, "tables", None)
    assert simulate.simulate(seed=2, scale=0.01, cache=tmp_path) == made


def test_seeds_and_scales_have_caches_of_their_own(tmp_path):
    made = [
        simulate.simulate(seed, scale=scale, cache=tmp_path)
        for seed, scale in ((1, 0.01), (2, 0.01), (1, 0.02))
    ]
    assert len({dataset.folder for dataset in made}) == 3


def test_stored_rows_are_the_made_ones(tmp_path, small):
    scored = simulate.simulate(seed=1, scale=0.02, cache=tmp_path).scored()
    made = small["graded"].to_pandas()
    assert scored["id"].tolist() == made["id"].tolist()
    assert scored["n_positives"].tolist() == made["inK"].map(sum).tolist()
    assert scored["grade"].tolist() == made["grade"].tolist()


def test_written_json_is_read_back_equal(tmp_path):
    made = simulate.simulate(seed=1, scale=0.01, cache=tmp_path / "cache")
    paths = simulate.write_json(made, tmp_path / "out")
    assert [path.name for path in paths] == [
        "samples_texts.json", "samples_ranked.json", "samples_graded.json", "samples_human.json"
    ]  # fmt: skip
    records = json.loads(paths[0].read_text(encoding="utf-8"))
    assert set(records[0]) == {"id", "q", "p", "n", "c1", "c2", "q2"}
    assert set(records[-1]) == {"id", "q", "p", "n"}
    graded = json.loads(paths[2].read_text(encoding="utf-8"))
    assert all(type(row["grade"]) is int for row in graded)
    assert list(graded[0]) == [field.name for field in schema.PARTS["graded"].fields]
    human = json.loads(paths[3].read_text(encoding="utf-8"))
    assert {type(row[f"grade_human_{i}"]) for row in human for i in (1, 2, 3)} == {int, type(None)}
    back = open_path(tmp_path / "out", cache=tmp_path / "cache", progress=False)
    for part in ("texts", "ranked", "graded"):
        pd.testing.assert_frame_equal(back.read(part), made.read(part))
    assert len(back.read("human")) == len(made.read("human"))


def test_export_overwrites_nothing(tmp_path):
    made = simulate.simulate(seed=1, scale=0.01, cache=tmp_path / "cache")
    (tmp_path / "samples_human.json").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match="there already"):
        simulate.write_json(made, tmp_path)
    assert (tmp_path / "samples_human.json").read_text(encoding="utf-8") == "mine"
    assert not (tmp_path / "samples_texts.json").exists()


def test_export_to_an_impossible_place_is_one_sentence(tmp_path):
    made = simulate.simulate(seed=1, scale=0.01, cache=tmp_path / "cache")
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UsageError, match="cannot write to"):
        simulate.write_json(made, tmp_path / "file" / "below")


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_an_export_that_stops_leaves_no_half_file(tmp_path, monkeypatch, error):
    made = simulate.simulate(seed=1, scale=0.01, cache=tmp_path / "cache")

    def half(dataset, part, path):
        path.write_text("[", encoding="utf-8")
        raise error

    monkeypatch.setattr(simulate, "_write_part", half)
    with pytest.raises((DataError, KeyboardInterrupt)):
        simulate.write_json(made, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_null_grades_are_as_many_as_asked():
    made = simulate.tables(seed=1, scale=0.01, null_grades=7)
    assert made["graded"]["grade"].null_count == 7
    assert simulate.tables(seed=1, scale=0.01)["graded"]["grade"].null_count == 0


def test_smallest_scale_still_has_every_subset():
    made = simulate.tables(seed=1, scale=1e-9)
    ids = made["graded"]["id"].to_pylist()
    assert {schema.subset_of(i) for i in ids} == set(schema.SUBSETS)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"seed": -1}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"seed": True}, "seed"),
        ({"scale": 0}, "scale"),
        ({"scale": 1.01}, "scale"),
        ({"scale": float("nan")}, "scale"),
        ({"null_grades": -1}, "null_grades"),
    ],
)
def test_wrong_arguments_are_refused(arguments, named):
    with pytest.raises(UsageError, match=named):
        simulate.tables(**arguments)


def test_the_page_has_the_models_numbers():
    """The book's page on the simulation lists every number of the model, as it is."""
    page = Path(__file__).parents[1] / "book" / "simulation.md"
    listed = {}
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and cells[1].startswith("`"):
            names = [name.strip(" `") for name in cells[1].split(",")]
            values = [float(value) for value in cells[2].split(",")]
            listed.update(
                [(names[0], tuple(values))] if len(names) == 1 else zip(names, values, strict=True)
            )
    listed = {k: v[0] if isinstance(v, tuple) and len(v) == 1 else v for k, v in listed.items()}
    assert listed == dataclasses.asdict(simulate.Model())
