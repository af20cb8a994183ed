"""What a person can name as data, and what it becomes."""

import json
import shutil
from types import SimpleNamespace

import pytest

import hub_server
from retrieval_quality import sources
from retrieval_quality.data import hub, simulate
from retrieval_quality.data.validate import validate
from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.pipeline import run


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def exported(tmp_path_factory, cache):
    """A folder with a small dataset in the published format."""
    folder = tmp_path_factory.mktemp("data") / "exported"
    simulate.write_json(simulate.simulate(seed=5, scale=0.01, cache=cache), folder)
    return folder


@pytest.fixture
def paper(exported, tmp_path, monkeypatch):
    """A stand-in hub that has the exported files as the paper's repository."""
    with hub_server.running() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
        for name in ("HF_TOKEN", "HF_HUB_OFFLINE", "HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.delenv(name, raising=False)
        files = {path.name: path.read_bytes() for path in exported.iterdir()}
        server.commit = server.push(hub.REPO, files)
        yield server


def test_default_is_simulated(monkeypatch, tmp_path):
    asked = []
    made = SimpleNamespace(simulated=True)
    monkeypatch.setattr(sources, "simulate", lambda *a, **k: asked.append((a, k)) or made)
    assert sources.load() is made
    assert sources.load("simulated", seed=7, cache=tmp_path) is made
    assert asked == [((1,), {"cache": None}), ((7,), {"cache": tmp_path})]


def test_paper_has_its_name_and_commit(paper, cache):
    loaded = sources.load("paper", cache=cache, progress=False)
    assert (loaded.name, loaded.simulated) == ("paper", False)
    assert loaded.commit == paper.commit
    assert loaded.source == "primer-ai/retrieval-response at main"
    assert loaded.parts == ("texts", "ranked", "graded", "human")


def test_paper_offline_says_so(paper, cache, monkeypatch):
    online = sources.load("paper", cache=cache, progress=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    offline = sources.load("paper", cache=cache, progress=False)
    assert offline.digest == online.digest
    assert offline.commit == paper.commit
    assert "HF_HUB_OFFLINE is set" in offline.notices[-1].text


def test_paper_at_another_revision(paper, cache):
    with pytest.raises(DataError, match="has no revision 'v2'"):
        sources.load("paper", revision="v2", progress=False)
    loaded = sources.load("paper", revision=paper.commit, cache=cache, progress=False)
    assert loaded.commit == paper.commit


def test_paper_that_is_cut_off_is_not_a_shorter_dataset(paper, cache, monkeypatch):
    monkeypatch.setattr(hub, "time", SimpleNamespace(sleep=lambda seconds: None))
    paper.fault("cdn.*graded", cut=0.7, length=False, ignore_range=True)
    with pytest.raises(DataError, match="bytes are kept"):
        sources.load("paper", cache=cache, progress=False)


def test_a_folder_and_a_file(exported, cache):
    folder = sources.load(exported, cache=cache, progress=False)
    assert folder.name == "exported"
    file = sources.load(str(exported / "samples_graded.json"), cache=cache, progress=False)
    assert file.parts == ("graded",)
    assert file.row_counts()["graded"] == folder.row_counts()["graded"]


def test_an_exported_simulation_is_still_called_simulated(exported, cache, tmp_path):
    for path in (exported, exported / "samples_graded.json", exported / "samples_texts.json"):
        assert sources.load(path, cache=cache, progress=False).simulated
    observed = json.loads((exported / "samples_graded.json").read_text(encoding="utf-8"))[:3]
    observed[1]["answer_ideal"] = "An answer that somebody wrote."
    (tmp_path / "mine.json").write_text(json.dumps(observed), encoding="utf-8")
    mine = sources.load(tmp_path / "mine.json", cache=cache, progress=False)
    assert not mine.simulated


def test_a_folder_called_paper_is_reached_by_a_path(exported, cache, tmp_path, monkeypatch):
    shutil.copytree(exported, tmp_path / "paper")
    monkeypatch.chdir(tmp_path)
    assert sources.load("./paper", cache=cache, progress=False).commit is None


def test_the_miniature_is_real_and_says_how_thin_it_is(cache):
    miniature = sources.load("miniature", cache=cache)
    assert (miniature.name, miniature.simulated) == ("miniature", False)
    assert miniature.row_counts() == {"ranked": 248, "graded": 792}
    (thin,) = (notice for notice in miniature.notices if notice.kind == "miniature")
    assert thin.count == 792
    assert thin.text.startswith("real, but thin: 792 graded rows of 82 queries")
    assert validate(miniature).ok
    scored = miniature.scored()
    assert scored["dataset"].value_counts().to_dict() == {"Hs": 352, "A": 200, "Hp": 120, "N": 120}
    assert scored.groupby("grade").size().to_dict() == {1: 314, 3: 40, 4: 54, 5: 384}
    by_recall = scored[scored["dataset"] == "Hs"].assign(R=scored["n_positives"] / scored["Np"])
    means = by_recall.groupby("R")["grade"].mean()
    assert (round(means[0.0], 1), round(means[1.0], 1)) == (2.3, 3.6)


def test_the_miniature_has_no_texts_and_nothing_that_may_not_be_passed_on():
    files = {path.name for path in sources.MINIATURE.iterdir()}
    assert files == {"README.md", "samples_graded.jsonl.gz", "samples_ranked.jsonl.gz"}
    assert sum(path.stat().st_size for path in sources.MINIATURE.iterdir()) < 50_000
    assert "Left out" in (sources.MINIATURE / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("ending", [".yml", ".yaml", ".YML"])
def test_a_pipeline_configuration_is_run_first(exported, cache, tmp_path, monkeypatch, ending):
    configuration = tmp_path / f"mine{ending}"
    configuration.write_text("corpus: x", encoding="utf-8")
    ran = []
    monkeypatch.setattr(run, "run", lambda path: ran.append(path) or exported)
    loaded = sources.load(configuration, cache=cache, progress=False)
    assert ran == [configuration]
    assert loaded.source == str(configuration)
    assert loaded.row_counts()["graded"] == len(
        json.loads((exported / "samples_graded.json").read_text(encoding="utf-8"))
    )


def test_a_wrong_pipeline_configuration_is_refused(tmp_path):
    configuration = tmp_path / "mine.yml"
    configuration.write_text("nonsense: 1", encoding="utf-8")
    with pytest.raises(UsageError, match=r"mine\.yml"):
        sources.load(configuration)


@pytest.mark.parametrize("name", ["", "  ", "smulated", "Paper", "no/such/folder", "no.yml"])
def test_unknown_names_say_what_is_accepted(name):
    with pytest.raises(UsageError, match=r'"simulated".*"miniature".*"paper".*\.yml'):
        sources.load(name)
