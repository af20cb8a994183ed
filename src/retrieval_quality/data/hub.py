"""The published dataset from the Hugging Face hub: found, fetched, checked, kept.

The hub's own client does the talking and owns the cache, which is therefore shared with every other
program that uses it. Two things are added. A download that was cut off, or stopped, goes on where
it ended: the client (2.4) writes to a file of its own for each process and removes it on failure.
And no file is handed on before its size and hash are those that the hub announced for the commit.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TypeVar

from huggingface_hub import HfApi, constants, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, HTTPError
from huggingface_hub.file_download import repo_folder_name
from huggingface_hub.utils import (
    WeakFileLock,
    build_hf_headers,
    get_session,
    hf_raise_for_status,
    parse_ratelimit_headers,
)
from tqdm import tqdm

from retrieval_quality.data import schema
from retrieval_quality.errors import DataError, UsageError

REPO = "primer-ai/retrieval-response"
"""The dataset repository of the paper."""

PARTS = ("texts", "ranked", "graded", "human")
"""The parts that the repository may have; all but ``human`` must be there."""

LONGEST_WAIT = 120.0
"""Seconds that a server may ask to wait; where it asks for more, the fetch stops and says so."""

LONGEST_LOCK = 600.0
"""Seconds to wait for another process that fetches the same file."""

RETRIES = 5
"""Failures in a row, without a byte received in between, after which a request is given up."""

COMMAND = "retrieval-quality data fetch"
_TRANSIENT = (408, 429, 500, 502, 503, 504)
_CHUNK = 2**20
_STAMPS = "retrieval-quality-checked.json"
"""In the repository's folder of the cache: digest, size and time of the files once checked."""
_T = TypeVar("_T")


@dataclass(frozen=True)
class Fetched:
    """A revision of a dataset repository in the cache.

    Attributes
    ----------
    repo, revision : str
        What was asked for.
    commit : str
        The 40-digit commit that the revision stands for.
    folder : Path
        The folder of that commit, with the files under their own names.
    paths : dict of str to Path
        The file of each part.
    sizes : dict of str to int
        Bytes of each part.
    notices : tuple of str
        What a person should know: taken from the cache because the hub gave no answer, and so on.
    """

    repo: str
    revision: str
    commit: str
    folder: Path
    paths: dict[str, Path]
    sizes: dict[str, int]
    notices: tuple[str, ...] = ()


@dataclass(frozen=True)
class _File:
    """A file as the hub announces it; the digest is SHA-256, or Git's SHA-1 for a small file."""

    name: str
    size: int
    digest: str


class _UnreachableError(Exception):
    """The hub gave no usable answer, which a copy in the cache can make up for."""


class _Hub:
    """A repository at an endpoint, with the cache and the token of the environment at this time."""

    def __init__(self, repo: str) -> None:
        self.repo = repo
        self.endpoint = (os.environ.get("HF_ENDPOINT") or constants.ENDPOINT).rstrip("/")
        self.token: str | bool = os.environ.get("HF_TOKEN") or False
        home = os.environ.get("HF_HOME")
        cache = os.environ.get("HF_HUB_CACHE") or (home and os.path.join(home, "hub"))
        self.cache = Path(cache or constants.HF_HUB_CACHE).expanduser().absolute()
        self.folder = self.cache / repo_folder_name(repo_id=repo, repo_type="dataset")

    @property
    def offline(self) -> bool:
        asked = os.environ.get("HF_HUB_OFFLINE", "").upper() in constants.ENV_VARS_TRUE_VALUES
        return asked or constants.is_offline_mode()

    def listing(self, revision: str) -> tuple[str, dict[str, _File], str]:
        """Ask for the commit of a revision, its files with sizes and hashes, and its name now."""
        api = HfApi(endpoint=self.endpoint, token=self.token)
        try:
            info = _patiently(
                lambda: api.dataset_info(
                    self.repo, revision=revision, files_metadata=True, timeout=30
                ),
                retries=2,
            )
        except HfHubHTTPError as error:
            raise self.refused(error, revision) from error
        except HTTPError as error:
            raise _UnreachableError(f"{self.endpoint} gave no answer ({_brief(error)})") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _UnreachableError(f"{self.endpoint} does not answer as a hub does") from error
        files = {}
        for entry in info.siblings or ():
            size = entry.lfs.size if entry.lfs else entry.size
            digest = entry.lfs.sha256 if entry.lfs else entry.blob_id
            if size is not None and digest and _is_hex(digest, 40, 64):
                files[entry.rfilename] = _File(entry.rfilename, size, digest)
        if not info.sha or not _is_commit(info.sha):
            raise _UnreachableError(f"{self.endpoint} does not say which commit {revision} is")
        return info.sha, files, str(info.id or self.repo)

    def refused(self, error: HfHubHTTPError, what: str) -> Exception:
        """Put a refusal of the hub into words: a DataError, or _UnreachableError if it may pass."""
        status = error.response.status_code
        code = error.response.headers.get("X-Error-Code", "")
        if status == 429 or status >= 500 or status == 408:
            return _UnreachableError(f"{self.endpoint} {_come_back(error)}")
        if status == 404 and code == "RevisionNotFound":
            return DataError(
                f"{self.repo} has no revision {what!r}; give a branch, tag or commit of it."
            )
        if status == 404 and code == "EntryNotFound":
            return DataError(f"{self.repo} has no {what} any more; run `{COMMAND}` again.")
        if status in (401, 403, 404):
            return DataError(self._no_access(status, error.response.headers))
        return DataError(
            f"{self.endpoint} refused {what} of {self.repo} (HTTP {status}); "
            f"try `{COMMAND}` again later."
        )

    def _no_access(self, status: int, headers: Mapping[str, str]) -> str:
        """Say why a repository is not shown: gated, a wrong token, disabled, missing or private."""
        page = f"{self.endpoint}/datasets/{self.repo}"
        message = headers.get("X-Error-Message", "")
        if headers.get("X-Error-Code") == "GatedRepo":
            then = (
                "with the account of the token in HF_TOKEN"
                if self.token
                else "then set HF_TOKEN to a token of the account that got it"
            )
            return f"{self.repo} is gated (HTTP {status}): ask for access at {page}, {then}."
        if message == "Access to this resource is disabled.":
            return f"{self.repo} was disabled by the hub (HTTP {status}): see {page}."
        if self.token and status == 401 and message.startswith("Invalid"):
            return (
                f"{self.endpoint} does not accept the token in HF_TOKEN (HTTP 401): it is mistyped "
                "or no longer valid. Set another, or unset HF_TOKEN: public datasets need none."
            )
        if self.token and status == 403:
            return f"The token in HF_TOKEN may not read {self.repo} (HTTP 403): give it that right."
        remedy = (
            "if it is private, the token in HF_TOKEN may not read it"
            if self.token
            else "if it is private, set HF_TOKEN to a token that may read it"
        )
        return (
            f"{self.endpoint} has no dataset repository {self.repo} to show (HTTP {status}): check "
            f"the name; {remedy}."
        )

    def cached(self, name: str, commit: str) -> Path | None:
        found = try_to_load_from_cache(
            self.repo, name, cache_dir=self.cache, revision=commit, repo_type="dataset"
        )
        return Path(found) if isinstance(found, str) else None

    def cached_commit(self, revision: str) -> str | None:
        """Give the commit that a revision stood for when it was last fetched whole."""
        if _is_commit(revision):
            return revision
        ref = self.folder / "refs" / revision
        return ref.read_text(encoding="utf-8").strip() if ref.is_file() else None

    def is_sound(self, path: Path, digest: str) -> bool:
        """Tell whether a file of the cache has a digest; read it only if it changed since."""
        real = path.resolve()
        status = real.stat()
        stamp = [digest, status.st_size, status.st_mtime_ns]
        stamps = self._stamps()
        if stamps.get(str(real)) == stamp:
            return True
        if not _has_digest(real, digest):
            return False
        _write_if_allowed(self.folder / _STAMPS, json.dumps({**stamps, str(real): stamp}))
        return True

    def _stamps(self) -> dict[str, list[object]]:
        try:
            stamps = json.loads((self.folder / _STAMPS).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return stamps if isinstance(stamps, dict) else {}

    def remember(self, revision: str, commit: str) -> None:
        """Note the commit of a branch or tag, once all its files are there."""
        if _is_commit(revision) or self.cached_commit(revision) == commit:
            return
        _write_if_allowed(self.folder / "refs" / revision, commit)


def _write_if_allowed(path: Path, text: str) -> None:
    """Write a small file as a whole, or not at all where the cache is read-only."""
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(text, encoding="utf-8")
        new.replace(path)


def fetch(
    repo: str = REPO,
    *,
    revision: str = "main",
    parts: tuple[str, ...] | None = None,
    progress: bool = True,
) -> Fetched:
    """Fetch a dataset repository's files into the hub's cache, or find them there.

    What was begun is finished, what is there is not fetched again, and every file has the size and
    hash that the hub announces for the commit. ``HF_ENDPOINT``, ``HF_HUB_CACHE``, ``HF_HOME``,
    ``HF_HUB_OFFLINE`` and ``HF_TOKEN`` are read at each call; a token is taken from nowhere else.

    Parameters
    ----------
    repo : str
        Owner and name of a dataset repository.
    revision : str
        Branch, tag or commit. A commit that is in the cache needs no network.
    parts : tuple of str, optional
        Some of ``texts``, ``ranked``, ``graded``, ``human``; default: all that there are.
    progress : bool
        Whether the size beforehand and a progress bar go to stderr.

    Returns
    -------
    Fetched
        Commit, folder and files. If the hub gives no answer, the last copy that was fetched, with
        a notice.

    Raises
    ------
    DataError
        If repository, revision or file are not there or not allowed; if the hub cannot be reached
        or asks to wait for more than `LONGEST_WAIT` seconds, and the cache has no copy; if what
        arrives is not what was announced; if the cache cannot be written.
    UsageError
        If a part or the name of the repository is not one.
    """
    hub = _Hub(_checked(repo, revision))
    try:
        fetched = _fetch(hub, revision, _wanted(parts), progress)
    except ImportError as error:
        if "socks" not in str(error).lower():
            raise
        raise UsageError(
            "The proxy that the environment names (ALL_PROXY, HTTPS_PROXY) is a SOCKS proxy, which "
            "needs the package socksio: `pip install socksio`, or unset the variable."
        ) from error
    if progress:
        for notice in fetched.notices:
            tqdm.write(notice, file=sys.stderr)
    return fetched


def _fetch(hub: _Hub, revision: str, wanted: tuple[str, ...] | None, progress: bool) -> Fetched:
    if hub.offline:
        return _from_cache(hub, revision, wanted, "HF_HUB_OFFLINE is set")
    if _is_commit(revision) and all(hub.cached(_name(part), revision) for part in PARTS):
        return _from_cache(hub, revision, wanted, None)
    try:
        commit, listed, name = hub.listing(revision)
    except _UnreachableError as error:
        return _from_cache(hub, revision, wanted, str(error))
    files = _chosen(hub, listed, wanted, revision)
    with _plain_errors(hub):
        paths, notices = _bring(hub, commit, files, progress)
    if name != hub.repo:
        renamed = f"{hub.repo} is now called {name} on the hub, and was taken from there."
        notices = (renamed, *notices)
    hub.remember(revision, commit)
    return Fetched(
        repo=hub.repo,
        revision=revision,
        commit=commit,
        folder=next(iter(paths.values())).parent,
        paths=paths,
        sizes={part: file.size for part, file in files.items()},
        notices=notices,
    )


def _checked(repo: str, revision: str) -> str:
    try:
        hf_hub_url(repo, "x", repo_type="dataset", revision=revision)
    except HFValidationError as error:
        raise UsageError(f"{repo!r} is not the name of a repository, such as {REPO}.") from error
    if not revision or revision.startswith("/") or {"..", "\\"} & {*revision.split("/"), *revision}:
        raise UsageError(f"{revision!r} is not a branch, tag or commit.")
    return repo


def _wanted(parts: tuple[str, ...] | None) -> tuple[str, ...] | None:
    for part in parts or ():
        if part not in PARTS:
            raise UsageError(f"{part!r} is not a part of the dataset: use {', '.join(PARTS)}.")
    return parts


def _name(part: str) -> str:
    return schema.PARTS[part].stem + ".json"


def _is_commit(revision: str) -> bool:
    return _is_hex(revision, 40)


def _is_hex(text: str, *lengths: int) -> bool:
    return len(text) in lengths and set(text) <= set("0123456789abcdef")


def _missing(wanted: tuple[str, ...] | None, there: set[str]) -> list[str]:
    needed = [part for part in PARTS if part != "human"] if wanted is None else wanted
    return [_name(part) for part in needed if part not in there]


def _chosen(
    hub: _Hub, listed: dict[str, _File], wanted: tuple[str, ...] | None, revision: str
) -> dict[str, _File]:
    """Pick the files of the wanted parts from what the hub lists."""
    there = {part: listed[_name(part)] for part in wanted or PARTS if _name(part) in listed}
    if missing := _missing(wanted, set(there)):
        raise DataError(
            f"{hub.repo} at {revision} has no {', '.join(missing)}: not a dataset in the published "
            "format, or not at this revision."
        )
    return there


def _from_cache(
    hub: _Hub, revision: str, wanted: tuple[str, ...] | None, reason: str | None
) -> Fetched:
    """Take a revision as it was last fetched; `reason` says why the hub was not asked."""
    commit = hub.cached_commit(revision)
    found = {part: commit and hub.cached(_name(part), commit) for part in wanted or PARTS}
    paths = {part: path for part, path in found.items() if path}
    if missing := _missing(wanted, set(paths)):
        raise DataError(
            f"{reason or 'The cache is incomplete'}, and {hub.cache} does not have "
            f"{', '.join(missing)} of {hub.repo} at {revision}. Run `{COMMAND}` with a connection."
        )
    for path in paths.values():
        digest = _blob_name(path)
        if digest and not hub.is_sound(path, digest):
            raise DataError(
                f"{path} is damaged: its content is not what was fetched. Remove it and run "
                f"`{COMMAND}` with a connection."
            )
    notice = f"{reason}: used the copy of {hub.repo} in the cache, commit {commit}."
    return Fetched(
        repo=hub.repo,
        revision=revision,
        commit=str(commit),
        folder=next(iter(paths.values())).parent,
        paths=paths,
        sizes={part: path.stat().st_size for part, path in paths.items()},
        notices=(notice,) if reason else (),
    )


def _blob_name(path: Path) -> str | None:
    """Give the digest in the name of the blob that a snapshot's file links to, if it is a link."""
    name = Path(os.readlink(path)).name if path.is_symlink() else ""
    return name if _is_hex(name, 40, 64) else None


def _has_digest(path: Path, digest: str) -> bool:
    """Tell whether a file has this SHA-256 or, with 40 digits, this Git SHA-1."""
    size = path.stat().st_size
    content = hashlib.sha256() if len(digest) == 64 else hashlib.sha1(b"blob %d\0" % size)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            content.update(chunk)
    return content.hexdigest() == digest


def _is_whole(path: Path, file: _File) -> bool:
    return path.is_file() and path.stat().st_size == file.size and _has_digest(path, file.digest)


def _bring(
    hub: _Hub, commit: str, files: dict[str, _File], progress: bool
) -> tuple[dict[str, Path], tuple[str, ...]]:
    """Find each file in the cache or fetch it there."""
    paths: dict[str, Path] = {}
    notices: list[str] = []
    for part, file in files.items():
        path = hub.cached(file.name, commit)
        if path and path.stat().st_size == file.size and hub.is_sound(path, file.digest):
            paths[part] = path
        elif path:
            _discard(path)
            notices.append(f"{file.name} in the cache was damaged and was fetched again.")
    lacking = {part: file for part, file in files.items() if part not in paths}
    if lacking:
        total = sum(file.size for file in lacking.values())
        if progress:
            tqdm.write(
                f"{hub.repo} at {commit}: {len(lacking)} of {len(files)} files to fetch, "
                f"{total / 1e6:,.1f} MB",
                file=sys.stderr,
            )
        _check_space(hub.cache, total)
        with tqdm(total=total, unit="B", unit_scale=True, disable=not progress) as bar:
            for part, file in lacking.items():
                bar.set_description(file.name)
                paths[part] = _fetch_file(hub, commit, file, bar)
    return {part: paths[part] for part in files}, tuple(notices)


def _discard(path: Path) -> None:
    """Remove a damaged file of a snapshot together with the blob behind it."""
    path.resolve().unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def _check_space(cache: Path, needed: int) -> None:
    place = next(p for p in (cache, *cache.parents) if p.exists())
    free = shutil.disk_usage(place).free
    if free < needed:
        raise DataError(
            f"{place} has {free / 1e6:,.0f} MB free and {needed / 1e6:,.0f} MB are needed: make "
            "room, or set HF_HUB_CACHE to a folder on another disk."
        )


def _fetch_file(hub: _Hub, commit: str, file: _File, bar: tqdm) -> Path:
    """Put a file into the cache as the client does: a blob, and the snapshot's link to it."""
    blob = hub.folder / "blobs" / file.digest
    path = hub.folder / "snapshots" / commit / file.name
    for folder in (blob.parent, path.parent):
        folder.mkdir(parents=True, exist_ok=True)
    with _locked(hub.cache / ".locks" / hub.folder.name / f"{file.digest}.lock", bar):
        if not _is_whole(blob, file):
            blob.unlink(missing_ok=True)
            partial = blob.with_name(blob.name + ".partial")
            _download(hub, commit, file, partial, bar)
            partial.replace(blob)
        if not path.exists():
            _link(blob, path)
    return path


@contextlib.contextmanager
def _locked(lock: Path, bar: tqdm) -> Iterator[None]:
    """Hold the client's lock on a blob, saying so where another process has it."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(WeakFileLock(lock, timeout=1))
        except TimeoutError:
            if not bar.disable:
                tqdm.write(f"waiting for another process that fetches it ({lock})", file=sys.stderr)
            held.enter_context(WeakFileLock(lock, timeout=LONGEST_LOCK))
        yield


def _link(blob: Path, path: Path) -> None:
    """Make a snapshot's file: a symbolic link, or what the system allows instead."""
    path.unlink(missing_ok=True)
    try:
        path.symlink_to(os.path.relpath(blob, path.parent))
    except OSError:
        try:
            path.hardlink_to(blob)
        except OSError:
            new = path.with_name(path.name + ".new")
            shutil.copyfile(blob, new)
            new.replace(path)


def _download(hub: _Hub, commit: str, file: _File, partial: Path, bar: tqdm) -> None:
    """Receive what is still missing of a file, and check the whole; twice if it is not right."""
    url = hf_hub_url(
        hub.repo, file.name, repo_type="dataset", revision=commit, endpoint=hub.endpoint
    )
    for _ in range(2):
        before = bar.n
        bar.update(_length(partial))
        try:
            _patiently(lambda: _receive(url, hub, file, partial, bar), lambda: _length(partial))
        except HTTPError as error:
            raise _given_up(hub, file, partial, error) from error
        if _is_whole(partial, file):
            return
        partial.unlink(missing_ok=True)
        bar.update(before - bar.n)
    raise DataError(
        f"{file.name} from {hub.endpoint} is not what the hub announced for commit {commit} (size "
        f"or hash differ, twice): nothing of it was kept; run `{COMMAND}` again later."
    )


def _receive(url: str, hub: _Hub, file: _File, partial: Path, bar: tqdm) -> None:
    """Make one request for the rest of a file and append what comes."""
    have = _length(partial)
    if have >= file.size:
        return
    headers = build_hf_headers(token=hub.token, library_name="retrieval-quality")
    headers["Accept-Encoding"] = "identity"
    if have:
        headers["Range"] = f"bytes={have}-"
    timeout = constants.HF_HUB_DOWNLOAD_TIMEOUT
    with get_session().stream("GET", url, headers=headers, timeout=timeout) as response:
        if response.status_code == 416:
            partial.unlink()
            bar.update(-have)
        hf_raise_for_status(response)
        goes_on = response.status_code == 206
        if have and not goes_on:
            bar.update(-have)
        with partial.open("ab" if goes_on else "wb") as out:
            for chunk in response.iter_bytes():
                out.write(chunk)
                bar.update(len(chunk))
    if _length(partial) < file.size:
        raise _ShortError(f"{file.name} ended after {_length(partial)} of {file.size} bytes")


class _ShortError(HTTPError):
    """The connection ended in good order before the whole file had come."""


def _length(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _patiently(
    call: Callable[[], _T], progress: Callable[[], int] = lambda: 0, retries: int = RETRIES
) -> _T:
    """Call until it works: after failures that may pass, with growing waits or those asked for."""
    failures, reached = 0, progress()
    while True:
        try:
            return call()
        except HTTPError as error:
            asked = _passing(error)
            failures = 0 if progress() > reached else failures + 1
            reached = progress()
            if asked is None or asked > LONGEST_WAIT or failures > retries:
                raise
        time.sleep(max(asked, min(8.0, 0.5 * 2**failures) * random.uniform(0.5, 1.0)))


def _passing(error: HTTPError) -> float | None:
    """Give the seconds that a failure asks to wait, 0 if it asks none, None if it will stay."""
    if not isinstance(error, HfHubHTTPError) or error.response.status_code == 416:
        return 0.0
    if error.response.status_code not in _TRANSIENT:
        return None
    return wait_asked(dict(error.response.headers)) or 0.0


def _brief(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _come_back(error: HfHubHTTPError) -> str:
    """Say when an answer asks to come back, or else what it was."""
    status = error.response.status_code
    wait = wait_asked(dict(error.response.headers))
    if wait is None:
        return f"answers with HTTP {status}"
    when = datetime.now(UTC) + timedelta(seconds=wait)
    return (
        f"answers with HTTP {status} and asks to wait {wait:,.0f} s: come back after "
        f"{when:%Y-%m-%d %H:%M:%S} UTC"
    )


def _given_up(hub: _Hub, file: _File, partial: Path, error: HTTPError) -> DataError:
    """Say why a file was not fetched, and that what came of it is kept."""
    if isinstance(error, HfHubHTTPError):
        refused = hub.refused(error, file.name)
        if isinstance(refused, DataError):
            return refused
        reason = str(refused)
    else:
        reason = f"the connection to {hub.endpoint} failed ({_brief(error)})"
    return DataError(
        f"{file.name}: {reason}. {_length(partial):,} of {file.size:,} bytes are kept; "
        f"run `{COMMAND}` again and it goes on from there."
    )


@contextlib.contextmanager
def _plain_errors(hub: _Hub) -> Iterator[None]:
    """Turn what a cache's file system refuses into one sentence with what to do."""
    remedy = "set HF_HUB_CACHE to a folder of yours"
    try:
        yield
    except TimeoutError as error:
        raise DataError(
            f"Another process has held a lock in {hub.cache} for {LONGEST_LOCK:,.0f} s ({error}): "
            f"wait until it is done, then run `{COMMAND}` again."
        ) from error
    except OSError as error:
        if error.errno == errno.ENOSPC:
            remedy = f"make room and run `{COMMAND}` again, or {remedy}"
        raise DataError(
            f"The cache {hub.cache} cannot be used: {error.strerror or error} "
            f"({error.filename or hub.folder}); {remedy}."
        ) from error


def wait_asked(headers: dict[str, str], now: datetime | None = None) -> float | None:
    """Read how many seconds an answer asks to wait before the next request.

    Parameters
    ----------
    headers : dict of str to str
        Headers of the answer. ``Retry-After`` may be seconds, also with a fraction, or a date;
        the hub's own ``RateLimit`` is read too, and the longer of both counts.
    now : datetime, optional
        The time to count a date from; default: the present.

    Returns
    -------
    float or None
        Seconds, or None where nothing usable is said: a negative number or a word, for instance.

    Examples
    --------
    >>> wait_asked({"retry-after": "1.5"}), wait_asked({"retry-after": "soon"})
    (1.5, None)
    >>> noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    >>> wait_asked({"retry-after": "Thu, 01 Jan 2026 12:00:02 GMT"}, now=noon)
    2.0
    """
    named = {name.lower(): value.strip() for name, value in headers.items()}
    waits = [_retry_after(named.get("retry-after", ""), now or datetime.now(UTC))]
    limit = parse_ratelimit_headers(named)
    if limit is not None and limit.remaining == 0:
        waits.append(float(limit.reset_in_seconds))
    return max((wait for wait in waits if wait is not None), default=None)


def _retry_after(text: str, now: datetime) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        try:
            date = parsedate_to_datetime(text)
        except ValueError:
            return None
        seconds = (date.replace(tzinfo=date.tzinfo or UTC) - now).total_seconds()
        return max(seconds, 0.0)
    return seconds if 0 <= seconds < float("inf") else None
