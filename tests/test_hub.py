"""The real hub client against a local stand-in: whole, cut off, changed, refused, offline."""

import errno
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub import hf_hub_download
from huggingface_hub.utils import WeakFileLock, close_session

import hub_server
from retrieval_quality.data import hub
from retrieval_quality.errors import DataError, UsageError

REPO = "owner/data"
NEW_NAME = "else/where"
GRADED = "samples_graded.json"


@cache
def some_files(seed=1):
    """Contents of the four files: one small, three large enough to be stored as LFS."""
    rng = random.Random(seed)
    return {
        "README.md": b"not wanted",
        "samples_texts.json": rng.randbytes(500),
        "samples_ranked.json": rng.randbytes(2_000),
        GRADED: rng.randbytes(3_000_000),
        "samples_human.json": rng.randbytes(1_500),
    }


@pytest.fixture
def server():
    with hub_server.running() as running:
        yield running


@pytest.fixture
def waits(monkeypatch):
    """Seconds that were waited, without waiting."""
    slept = []
    monkeypatch.setattr(hub, "time", SimpleNamespace(sleep=slept.append))
    return slept


@pytest.fixture(autouse=True)
def surroundings(server, waits, tmp_path, monkeypatch):
    """Point the client at the stand-in and at a cache of its own."""
    for name in ("HF_TOKEN", "HF_HUB_OFFLINE", "HF_HOME", "HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))


def fetch(**options):
    return hub.fetch(REPO, progress=False, **options)


def contents(fetched):
    return {path.name: path.read_bytes() for path in fetched.paths.values()}


def wanted(files):
    return {name: content for name, content in files.items() if name != "README.md"}


def leftovers(tmp_path):
    return list((tmp_path / "hub").rglob("*.partial"))


def test_whole_download(server, tmp_path):
    files = some_files()
    commit = server.push(REPO, files)
    fetched = fetch()
    assert contents(fetched) == wanted(files)
    assert fetched.commit == commit
    assert fetched.folder == fetched.paths["graded"].parent
    assert list(fetched.paths) == ["texts", "ranked", "graded", "human"]
    assert fetched.sizes["graded"] == 3_000_000
    assert fetched.notices == ()
    assert not leftovers(tmp_path)
    assert not server.requests("README.md")


def test_second_fetch_asks_only_for_the_commit(server):
    server.push(REPO, some_files())
    first = fetch()
    server.log.clear()
    assert fetch() == first
    assert [request.path.split("?")[0] for request in server.log] == [
        f"/api/datasets/{REPO}/revision/main"
    ]


def test_a_commit_in_the_cache_needs_no_request(server):
    commit = server.push(REPO, some_files())
    paths = fetch().paths
    server.log.clear()
    assert fetch(revision=commit).paths == paths
    assert server.log == []


def test_the_cache_is_the_clients_own(server):
    """What was fetched is found by the client offline, and what the client fetched by us."""
    server.push(REPO, some_files())
    ours = fetch().paths["graded"]
    theirs = hf_hub_download(
        REPO, GRADED, repo_type="dataset", local_files_only=True, cache_dir=ours.parents[3]
    )
    assert theirs == str(ours)


def test_what_the_client_fetched_is_not_fetched_again(server, tmp_path):
    server.push(REPO, some_files())
    hf_hub_download(
        REPO, GRADED, repo_type="dataset", cache_dir=tmp_path / "hub", endpoint=server.url
    )
    server.log.clear()
    fetch()
    assert not server.requests(GRADED)


def test_size_is_announced_before_the_download(server, capsys):
    server.push(REPO, some_files())
    hub.fetch(REPO)
    lines = capsys.readouterr().err.splitlines()
    assert "4 of 4 files to fetch, 3.0 MB" in lines[0]


def test_some_parts(server):
    server.push(REPO, {k: v for k, v in some_files().items() if k != "samples_human.json"})
    assert list(fetch(parts=("texts",)).paths) == ["texts"]
    assert list(fetch().paths) == ["texts", "ranked", "graded"]
    with pytest.raises(DataError, match=r"has no samples_human\.json"):
        fetch(parts=("human",))


# --- cut off and resumed ---------------------------------------------------------------------


CDN = "cdn.*graded"
"""The graded file where it really lies, behind the hub's redirect."""


@pytest.mark.parametrize("length", [True, False])
def test_cut_at_70_percent_goes_on_from_there(server, length):
    files = some_files()
    server.push(REPO, files)
    server.fault(CDN, times=1, cut=0.7, length=length)
    assert contents(fetch()) == wanted(files)
    ranges = [request.headers.get("Range") for request in server.requests(CDN)]
    assert ranges == [None, "bytes=2100000-"]


def test_a_stopped_fetch_goes_on_in_the_next_one(server, tmp_path):
    files = some_files()
    server.push(REPO, files)
    server.fault(CDN, times=1, cut=0.7)
    server.fault(CDN, status=503)
    with pytest.raises(DataError, match=r"2,100,000 of 3,000,000 bytes are kept.*data fetch"):
        fetch()
    assert len(leftovers(tmp_path)) == 1
    assert not list((tmp_path / "hub").rglob(GRADED))
    server.faults.clear()
    server.log.clear()
    assert contents(fetch()) == wanted(files)
    assert [request.headers.get("Range") for request in server.requests(CDN)] == ["bytes=2100000-"]
    assert not leftovers(tmp_path)


def test_a_killed_process_leaves_what_the_next_one_goes_on_from(server, tmp_path):
    files = some_files()
    server.push(REPO, files)
    stalled = threading.Event()
    server.fault(CDN, times=1, cut=0.7)
    server.fault(CDN, times=1, wait=stalled)
    code = f"from retrieval_quality.data import hub; hub.fetch({REPO!r}, progress=False)"
    process = subprocess.Popen([sys.executable, "-c", code])
    try:
        for _ in range(600):
            if len(server.requests(CDN)) == 2:
                break
            threading.Event().wait(0.05)
    finally:
        process.kill()
        process.wait()
        stalled.set()
    assert len(leftovers(tmp_path)) == 1
    server.log.clear()
    assert contents(fetch()) == wanted(files)
    assert [request.headers.get("Range") for request in server.requests(CDN)] == ["bytes=2100000-"]


def test_a_server_without_ranges_gives_the_whole_again(server):
    files = some_files()
    server.push(REPO, files)
    server.fault(CDN, times=1, cut=0.7)
    server.fault(CDN, times=1, ignore_range=True)
    assert contents(fetch()) == wanted(files)


def test_416_inside_the_file_begins_anew(server):
    files = some_files()
    server.push(REPO, files)
    server.fault(CDN, times=1, cut=0.7)
    server.fault(CDN, times=1, status=416, headers={"Content-Range": "bytes */3000000"})
    assert contents(fetch()) == wanted(files)
    assert [request.headers.get("Range") for request in server.requests(CDN)] == [
        None, "bytes=2100000-", None
    ]  # fmt: skip


def test_always_cut_is_given_up_and_never_taken_for_whole(server, tmp_path, waits):
    server.push(REPO, some_files())
    server.fault(CDN, cut=0.7, length=False, ignore_range=True)
    with pytest.raises(DataError, match="ended after 2100000 of 3000000 bytes"):
        fetch()
    assert len(waits) == 1 + hub.RETRIES  # the first failure had brought something
    assert not list((tmp_path / "hub").rglob(GRADED))


def test_no_length_at_all(server):
    files = some_files()
    server.push(REPO, files)
    server.fault("", length=False)
    assert contents(fetch()) == wanted(files)


def test_other_content_than_announced_is_refused(server, tmp_path):
    files = some_files()
    server.push(REPO, files)
    server.fault(CDN, content=bytes(3_000_000))
    with pytest.raises(DataError, match="not what the hub announced"):
        fetch()
    assert not leftovers(tmp_path)
    assert not list((tmp_path / "hub").rglob(GRADED))
    server.faults.clear()
    assert contents(fetch()) == wanted(files)


def test_longer_content_than_announced_is_refused(server):
    files = some_files()
    server.push(REPO, files)
    server.fault(CDN, content=files[GRADED] + b"more")
    with pytest.raises(DataError, match="not what the hub announced"):
        fetch()


def test_wrong_once_is_fetched_again(server):
    files = some_files()
    server.push(REPO, files)
    server.fault(CDN, times=1, content=bytes(3_000_000))
    assert contents(fetch()) == wanted(files)


# --- changed ---------------------------------------------------------------------------------


def test_new_commit_fetches_only_what_changed(server):
    files = some_files()
    first = server.push(REPO, files)
    before = fetch()
    changed = {**files, GRADED: some_files(2)[GRADED]}
    second = server.push(REPO, changed)
    server.log.clear()
    after = fetch()
    assert (before.commit, after.commit) == (first, second)
    assert contents(after) == wanted(changed)
    assert contents(before) == wanted(files)
    assert {request.path.rpartition("/")[2] for request in server.requests("resolve")} == {GRADED}
    assert contents(fetch(revision=first)) == wanted(files)


def test_rest_of_an_old_version_is_not_mixed_into_a_new_one(server):
    server.push(REPO, some_files())
    server.fault(CDN, times=1, cut=0.7)
    server.fault(CDN, status=503)
    with pytest.raises(DataError):
        fetch()
    changed = some_files(2)
    server.push(REPO, changed)
    server.faults.clear()
    assert contents(fetch()) == wanted(changed)


def test_half_an_update_leaves_the_old_commit_in_use(server, monkeypatch):
    files = some_files()
    first = server.push(REPO, files)
    fetch()
    server.push(REPO, some_files(2))
    server.fault(CDN, status=503)
    with pytest.raises(DataError):
        fetch()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert fetch().commit == first
    assert contents(fetch()) == wanted(files)


def test_damaged_file_in_the_cache_is_fetched_again(server):
    files = some_files()
    server.push(REPO, files)
    blob = fetch().paths["graded"].resolve()
    blob.write_bytes(blob.read_bytes()[:-1])
    fetched = fetch()
    assert contents(fetched) == wanted(files)
    assert fetched.notices == (f"{GRADED} in the cache was damaged and was fetched again.",)


@pytest.mark.parametrize("offline", ["", "1"])
def test_damage_that_keeps_the_size_is_found_too(server, monkeypatch, offline):
    files = some_files()
    server.push(REPO, files)
    blob = fetch().paths["graded"].resolve()
    fetch()
    blob.write_bytes(bytes(len(files[GRADED])))
    monkeypatch.setenv("HF_HUB_OFFLINE", offline)
    if offline:
        with pytest.raises(DataError, match="is damaged"):
            fetch()
    else:
        assert contents(fetch()) == wanted(files)


def test_an_unchanged_file_is_hashed_once(server, monkeypatch):
    server.push(REPO, some_files())
    fetch()
    fetch()
    monkeypatch.setattr(hub, "_has_digest", None)
    fetch()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    fetch()


# --- refused ---------------------------------------------------------------------------------


def test_unknown_repository(server):
    with pytest.raises(DataError, match=r"no dataset repository owner/data to show \(HTTP 404\)"):
        fetch()


def test_unknown_revision(server):
    server.push(REPO, some_files())
    with pytest.raises(DataError, match="has no revision 'v9'"):
        fetch(revision="v9")


def test_repository_without_the_files(server):
    server.push(REPO, {"README.md": b""})
    with pytest.raises(DataError, match=r"has no samples_texts\.json, samples_ranked\.json"):
        fetch()


def test_file_that_is_gone_when_asked_for(server):
    server.push(REPO, some_files())
    server.fault("resolve.*graded", status=404, headers={"X-Error-Code": "EntryNotFound"})
    with pytest.raises(DataError, match=r"has no samples_graded\.json any more"):
        fetch()


def test_private_repository_and_token_from_the_environment(server, monkeypatch):
    files = some_files()
    server.push(REPO, files)
    server.token = "hf_right"
    with pytest.raises(DataError, match="set HF_TOKEN"):
        fetch()
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(DataError, match="not accept the token in HF_TOKEN") as caught:
        fetch()
    assert "hf_wrong" not in str(caught.value)
    monkeypatch.setenv("HF_TOKEN", "hf_right")
    assert contents(fetch()) == wanted(files)
    for request in server.log:
        if f":{request.port}" in server.cdn:
            assert "Authorization" not in request.headers


GATED, NO_REPO = {"X-Error-Code": "GatedRepo"}, {"X-Error-Code": "RepoNotFound"}
INVALID = {"X-Error-Message": "Invalid credentials in Authorization header"}
DISABLED = {"X-Error-Message": "Access to this resource is disabled."}


@pytest.mark.parametrize(
    ("status", "headers", "token", "words"),
    [
        (
            401,
            GATED,
            "",
            r"is gated \(HTTP 401\): ask for access at \S+/datasets/.*then set HF_TOK",
        ),
        (403, GATED, "", r"is gated \(HTTP 403\): ask for access at .*then set HF_TOKEN"),
        (403, GATED, "hf_mine", "is gated .*with the account of the token in HF_TOKEN"),
        (401, INVALID, "hf_mine", "does not accept the token in HF_TOKEN .*no longer valid"),
        (401, {"X-Error-Message": "Invalid username or password."}, "hf_mine", "not accept the t"),
        (
            403,
            {},
            "hf_mine",
            r"token in HF_TOKEN may not read \S+ \(HTTP 403\): give it that right",
        ),
        (401, NO_REPO, "", "no dataset repository .*check the name; if it is private, set HF_TOK"),
        (404, NO_REPO, "", "no dataset repository .*check the name; if it is private, set HF_TOK"),
        (404, NO_REPO, "hf_mine", "check the name; if it is private, the token .*may not read it"),
        (401, {}, "", "check the name; if it is private, set HF_TOKEN to a token"),
        (403, DISABLED, "hf_mine", "was disabled by the hub"),
        (404, {"X-Error-Code": "RevisionNotFound"}, "", "has no revision 'main'"),
    ],
)
def test_each_refusal_has_its_own_sentence(server, monkeypatch, status, headers, token, words):
    server.push(REPO, some_files())
    server.fault("api", status=status, headers=headers)
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(DataError, match=words) as caught:
        fetch()
    assert "hf_mine" not in str(caught.value)
    assert str(caught.value).count(". ") <= 1


def test_a_renamed_repository_is_told(server):
    files = some_files()
    server.push(NEW_NAME, files)
    for match in (f"/api/datasets/{REPO}/", f"/datasets/{REPO}/resolve"):
        server.move(match, match.replace(REPO, NEW_NAME))
    fetched = fetch()
    assert contents(fetched) == wanted(files)
    assert fetched.notices == (
        f"{REPO} is now called {NEW_NAME} on the hub, and was taken from there.",
    )


@pytest.mark.parametrize("name", ["no good", "a/b/c", "../up", ""])
def test_names_that_are_none(name):
    with pytest.raises(UsageError):
        hub.fetch(name, progress=False)


@pytest.mark.parametrize("revision", ["", "../../elsewhere", "/etc", "a\\..\\b"])
def test_revisions_that_are_none(revision):
    with pytest.raises(UsageError):
        fetch(revision=revision)


def test_unknown_part():
    with pytest.raises(UsageError, match="'grades' is not a part"):
        fetch(parts=("grades",))


# --- asked to wait ---------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["api", "resolve.*graded", CDN])
@pytest.mark.parametrize("asked", ["3", "1.5", "date"])
def test_429_waits_at_least_what_is_asked(server, waits, where, asked):
    files = some_files()
    server.push(REPO, files)
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=5), usegmt=True)
    after = date if asked == "date" else asked
    server.fault(where, times=1, status=429, headers={"Retry-After": after})
    assert contents(fetch()) == wanted(files)
    assert len(waits) == 1
    assert (2.5 if asked == "date" else float(asked)) <= waits[0] <= 5


@pytest.mark.parametrize("asked", ["-1", "soon", "", "nan", "inf"])
def test_429_with_a_bad_wait_backs_off(server, waits, asked):
    server.push(REPO, some_files())
    server.fault(CDN, times=2, status=429, headers={"Retry-After": asked})
    fetch()
    assert len(waits) == 2
    assert all(0 < wait <= 8 for wait in waits)


def test_429_beyond_the_cap_says_when_to_come_back(server, waits):
    server.push(REPO, some_files())
    server.fault("api", status=429, headers={"Retry-After": "3600"})
    with pytest.raises(DataError, match=r"asks to wait 3,600 s: come back after \d{4}-.* UTC"):
        fetch()
    assert waits == []
    assert len(server.log) == 1


def test_429_beyond_the_cap_in_the_middle_keeps_what_came(server, waits):
    server.push(REPO, some_files())
    server.fault(CDN, times=1, cut=0.7)
    server.fault(CDN, status=429, headers={"Retry-After": "3600"})
    with pytest.raises(DataError, match=r"come back after.*2,100,000 of 3,000,000 bytes are kept"):
        fetch()


def test_429_uses_the_cache_if_it_is_whole(server):
    files = some_files()
    server.push(REPO, files)
    fetch()
    server.fault("api", status=429, headers={"Retry-After": "3600"})
    fetched = fetch()
    assert contents(fetched) == wanted(files)
    assert "come back after" in fetched.notices[0]


def test_the_hubs_own_rate_limit_header_counts():
    assert hub.wait_asked({"RateLimit": '"api";r=0;t=55', "Retry-After": "3"}) == 55.0
    assert hub.wait_asked({"RateLimit": '"api";r=9;t=55'}) is None


def test_endless_503_is_given_up(server, waits):
    server.push(REPO, some_files())
    server.fault(CDN, status=503)
    with pytest.raises(DataError, match=r"HTTP 503.*data fetch"):
        fetch()
    assert len(waits) == hub.RETRIES
    assert waits == sorted(waits) or max(waits) <= 8


# --- offline ---------------------------------------------------------------------------------


def test_offline_with_the_cache(server, monkeypatch):
    files = some_files()
    commit = server.push(REPO, files)
    fetch()
    server.log.clear()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    fetched = fetch()
    assert contents(fetched) == wanted(files)
    assert fetched.commit == commit
    assert fetched.notices[0].startswith("HF_HUB_OFFLINE is set: used the copy")
    assert server.log == []


def test_notices_are_shown_with_the_progress(server, monkeypatch, capsys):
    server.push(REPO, some_files())
    fetch()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    fetch()
    assert capsys.readouterr().err == ""
    hub.fetch(REPO)
    assert capsys.readouterr().err.startswith("HF_HUB_OFFLINE is set: used the copy")


def test_offline_without_the_cache(server, monkeypatch, tmp_path):
    server.push(REPO, some_files())
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(DataError, match=r"samples_graded\.json.*`retrieval-quality data fetch`"):
        fetch()
    assert server.log == []
    assert not (tmp_path / "hub").exists()


def test_offline_from_the_start_of_the_process(server, tmp_path):
    """The client reads HF_HUB_OFFLINE once, when it is imported."""
    files = some_files()
    server.push(REPO, files)
    fetch()
    server.log.clear()
    code = (
        "import json; from retrieval_quality.data import hub; "
        f"f = hub.fetch({REPO!r}); print(json.dumps(f.sizes))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(ran.stdout)["graded"] == len(files[GRADED])
    assert server.log == []


def test_no_network_falls_back_to_the_cache(server, waits):
    files = some_files()
    server.push(REPO, files)
    fetch()
    server.close()
    close_session()
    fetched = fetch()
    assert contents(fetched) == wanted(files)
    assert "gave no answer" in fetched.notices[0]


def test_no_network_and_no_cache(monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(
        DataError, match=r"gave no answer \(.*refused.*`retrieval-quality data fetch`"
    ):
        fetch()


@pytest.mark.parametrize("endpoint", ["nonsense", "ftp://127.0.0.1", "http://"])
def test_endpoint_that_is_none(monkeypatch, endpoint):
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    with pytest.raises((DataError, UsageError)):
        fetch()


@pytest.mark.parametrize(
    "content",
    [b"<html>sign in</html>", b"[]", b"{}", b'{"id": "x"}', b'{"id": "x", "sha": "../up"}'],
)
def test_something_else_than_a_hub(server, content):
    server.push(REPO, some_files())
    server.fault("api", content=content)
    with pytest.raises(DataError):
        fetch()


def test_damaged_cache_offline_is_refused(server, monkeypatch):
    server.push(REPO, some_files())
    blob = fetch().paths["graded"].resolve()
    blob.write_bytes(blob.read_bytes()[:-1])
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(DataError, match="is damaged"):
        fetch()


# --- the cache's file system -----------------------------------------------------------------


@contextmanager
def another_user():
    """Act as a user who owns nothing, where we may: file modes do not bind root."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.fixture
def shared(monkeypatch):
    """Make a cache that other users can reach, and give the function that sets its modes."""
    if not hasattr(os, "geteuid"):
        pytest.skip("needs POSIX file modes")
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    monkeypatch.setenv("HF_HUB_CACHE", str(folder))

    def set_modes(folders, files):
        for path in (folder, *folder.rglob("*")):
            if not path.is_symlink():
                path.chmod(folders if path.is_dir() else files)
        return folder

    yield set_modes
    set_modes(0o755, 0o644)
    shutil.rmtree(folder)


def test_read_only_cache(server, shared):
    files = some_files()
    server.push(REPO, files)
    fetch()
    shared(0o555, 0o444)
    with another_user():
        assert contents(fetch()) == wanted(files)
        server.push(REPO, some_files(2))
        with pytest.raises(DataError, match="set HF_HUB_CACHE to a folder of yours"):
            fetch()


def test_lock_file_of_another_user(server, shared):
    """A lock that may not be opened stops a download with a sentence, and not what is there."""
    files = some_files()
    server.push(REPO, files)
    fetch(parts=("texts", "ranked", "human"))
    lock = (
        shared(0o777, 0o666)
        / ".locks"
        / "datasets--owner--data"
        / f"{hub_server.digest(files[GRADED])}.lock"
    )
    lock.touch()
    lock.chmod(0o000)
    with another_user(), pytest.raises(DataError, match=r"The cache .*\.lock"):
        fetch()
    lock.unlink()
    fetch()
    shared(0o777, 0o666)
    lock.touch()
    lock.chmod(0o000)
    with another_user():
        assert contents(fetch()) == wanted(files)


def test_lock_held_by_another_process_is_waited_for_and_then_given_up(
    server, tmp_path, monkeypatch
):
    files = some_files()
    server.push(REPO, files)
    monkeypatch.setattr(hub, "LONGEST_LOCK", 0.2)
    locks = tmp_path / "hub" / ".locks" / "datasets--owner--data"
    locks.mkdir(parents=True)
    lock = WeakFileLock(locks / f"{hub_server.digest(files[GRADED])}.lock")
    with lock, pytest.raises(DataError, match="Another process"):
        fetch()
    assert contents(fetch()) == wanted(files)


def test_no_room(server, monkeypatch, tmp_path):
    server.push(REPO, some_files())
    monkeypatch.setattr(hub.shutil, "disk_usage", lambda place: SimpleNamespace(free=1_000_000))
    with pytest.raises(DataError, match=r"1 MB free and 3 MB are needed.*HF_HUB_CACHE"):
        fetch()
    assert not server.requests("resolve")


def test_disk_that_fills_up_meanwhile(server, monkeypatch):
    server.push(REPO, some_files())

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device", "blobs/x.partial")

    monkeypatch.setattr(hub, "_receive", full)
    with pytest.raises(DataError, match=r"No space left.*make room and run `retrieval-quality"):
        fetch()


def test_cache_path_that_is_a_file(server, monkeypatch, tmp_path):
    server.push(REPO, some_files())
    (tmp_path / "file").touch()
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "file"))
    with pytest.raises(DataError, match="HF_HUB_CACHE"):
        fetch()


@pytest.mark.parametrize("hardlink", [True, False])
def test_no_right_to_make_links(server, monkeypatch, hardlink):
    """As on Windows without developer mode: the snapshot's file is a hard link, or a copy."""

    def refuse(*_):
        raise OSError(1314, "a required privilege is not held")

    monkeypatch.setattr("pathlib.Path.symlink_to", refuse)
    if not hardlink:
        monkeypatch.setattr("pathlib.Path.hardlink_to", refuse)
    files = some_files()
    server.push(REPO, files)
    assert contents(fetch()) == wanted(files)
    server.log.clear()
    assert contents(fetch()) == wanted(files)
    assert not server.requests("resolve")


def test_cache_and_endpoint_are_read_at_each_call(server, monkeypatch, tmp_path):
    server.push(REPO, some_files())
    monkeypatch.delenv("HF_HUB_CACHE")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    assert (tmp_path / "home" / "hub") in fetch().folder.parents


def test_a_socks_proxy_without_its_package_is_one_sentence(monkeypatch):
    def client(*_):
        raise ImportError("Using SOCKS proxy, but the 'socksio' package is not installed.")

    monkeypatch.setattr(hub, "_fetch", client)
    with pytest.raises(UsageError, match="pip install socksio"):
        fetch()
