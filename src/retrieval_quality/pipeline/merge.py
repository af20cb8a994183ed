"""Pipeline folders that were made on several machines, merged into one.

Texts and rankings with the same key are kept once where they are the same, and refused where they
are not. Replies are merged by the question's key, so that nothing that one of the machines has
bought is bought again. All folders must have been made with the same settings.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from retrieval_quality import outputs
from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.pipeline import answer as answering
from retrieval_quality.pipeline import corpus
from retrieval_quality.pipeline import grade as grading
from retrieval_quality.pipeline import rank as ranking
from retrieval_quality.pipeline.files import (
    existing,
    read_json,
    records,
    sha256_of,
    write_json,
    write_records,
)
from retrieval_quality.pipeline.rows import RANKED, TEXTS, Record
from retrieval_quality.pipeline.store import FILE_NAME, Store, canonical, normal

_OF_A_RANKING = (
    "rules_version", "settings", "prefixes", "query_prefix", "passage_prefix", "decimals", "ties",
)  # fmt: skip
_WHERE = ("base_url", "max_tokens")  # settings that do not determine a reply that was complete
_RESULTS = (
    "finished",
    "spent",
    "counts",
    "inputs",
    "agreement",
    "answers",
)  # of a stage, not its settings


def merge(folders: Sequence[Path | str], out: Path | str) -> list[str]:
    """Merge pipeline folders into a new one.

    Texts, rankings with their vectors, replies and manifests are merged. Where every folder has
    finished answering, so has the merged one; where every folder has been graded, its graded files
    are written. Otherwise run the missing stages in it: only what no machine has asked is asked.

    Parameters
    ----------
    folders : sequence of path
        At least two; they stay as they are, and are held while they are read.
    out : path
        A folder that is not there yet, or is empty.

    Returns
    -------
    list of str
        What a person should know, a sentence each.

    Raises
    ------
    UsageError
        A folder is named twice or in use, `out` holds something, or a setting differs (it is named,
        with both values).
    DataError
        One id stands for two text samples, or one key (id, E, Nc, Np) for two rankings; a folder
        has no texts; a graded file does not come from its folder's store; a file is broken.
    """
    paths = [existing(folder) for folder in folders]
    out = Path(out)
    _check_places(paths, out)
    with ExitStack() as stack:
        stack.enter_context(outputs.sole_file(out))
        for path in paths:
            stack.enter_context(outputs.sole_run(path, "pipeline merge"))
        for path in paths:
            _check_folder(path)
        stages = {
            stage.MANIFEST: [_manifest(path, stage.MANIFEST) for path in paths]
            for stage in (answering, grading)
        }
        rankings = [_read(path / ranking.MANIFEST) for path in paths]
        _refuse_other_settings(paths, rankings, stages)
        target = Path(os.path.realpath(out))
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = stack.enter_context(
            tempfile.TemporaryDirectory(prefix=".unfinished-", dir=target.parent)
        )
        built = Path(beside) / "merged"
        built.mkdir()
        said = _build(paths, built, rankings, stages)
        outputs.swap(built, out)
    return said


def _check_places(paths: Sequence[Path], out: Path) -> None:
    if len({path.resolve() for path in paths}) < max(len(paths), 2):
        raise UsageError("name at least two folders, each once")
    outputs.check_writable(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} is there and not empty; name a new folder")


def _check_folder(path: Path) -> None:
    if not (path / TEXTS).is_file():
        raise DataError(f"{path} has no {TEXTS}: it is no pipeline folder.")
    graded = [name for name in grading.FILES if (path / name).is_file()]
    if graded:
        with Store(path) as store:
            for name in graded:
                if not store.made_file(name, sha256_of(path / name)):
                    raise DataError(
                        f"{path / name} was not made from the folder's store, so it cannot be "
                        "merged: move it away."
                    )


def _build(
    paths: Sequence[Path],
    built: Path,
    rankings: Sequence[Record],
    stages: Mapping[str, Sequence[Record]],
) -> list[str]:
    """Make the merged folder."""
    said = [f"{path} is not ranked yet" for path in paths if not (path / RANKED).is_file()]
    n_texts = write_records(built / TEXTS, _once(paths, TEXTS, ("id",)))
    told = [_read(path / corpus.MANIFEST) for path in paths]
    sources = {canonical(one): one for part in told for one in part.get("sources", [])}
    digest = sha256_of(built / TEXTS)
    write_json(
        built / corpus.MANIFEST,
        {"queries": n_texts, "sha256": digest, "sources": list(sources.values())},
    )
    if any((path / RANKED).is_file() for path in paths):
        write_records(built / RANKED, _once(paths, RANKED, ("id", "E", "Nc", "Np")))
        unknown = [
            path
            for path, told in zip(paths, rankings, strict=True)
            if (path / RANKED).is_file() and not told
        ]
        said += [
            f"{path} does not say how it was ranked: no {ranking.MANIFEST}" for path in unknown
        ]
        if not unknown:
            write_json(built / ranking.MANIFEST, _ranked(rankings, built, digest))
    _vectors(paths, built)
    with Store(built) as store:
        for path in paths:
            if not (path / FILE_NAME).is_file():
                continue
            with Store(path) as theirs:
                if differing := store.take(theirs):
                    said.append(
                        f"{differing} questions were answered differently in {path} and before it: "
                        "the earlier answer stays, both were paid"
                    )
        _stages(paths, built, store, stages, said)
    return said


def _once(paths: Sequence[Path], name: str, key: tuple[str, ...]) -> Iterator[Record]:
    """Yield the records of all folders, equal ones once.

    Raises
    ------
    DataError
        One key has two contents.
    """
    seen: dict[bytes, tuple[bytes, int]] = {}
    for number, path in enumerate(paths):
        for where, record in records(path / name) if (path / name).is_file() else ():
            if any(part not in record for part in key):
                raise DataError(f"{path}, {where}: {', '.join(key)} are needed.")
            which = {part: record[part] for part in key}
            place, content = _digest(which), _digest(record)
            if place not in seen:
                seen[place] = content, number
                yield record
            elif seen[place][0] != content:
                told = ", ".join(f"{part} {value}" for part, value in which.items())
                raise DataError(
                    f"{told} stands for one thing in {paths[seen[place][1]] / name} and for "
                    f"another in {path / name}: give the samples of each machine ids of their "
                    "own, or rank them alike."
                )


def _digest(value: object) -> bytes:
    told = json.dumps(normal(value), sort_keys=True)
    return hashlib.sha256(told.encode()).digest()[:16]


def _ranked(rankings: Sequence[Record], built: Path, digest: str) -> Record:
    """Return the manifest of the merged rankings."""
    merged: Record = {}
    for told in filter(None, rankings):
        for name in _OF_A_RANKING:
            merged[name] = told.get(name)
        merged.setdefault("embeddings", {}).update(told.get("embeddings", {}))
        merged["asked"] = list(dict.fromkeys([*merged.get("asked", []), *told.get("asked", [])]))
        merged["versions"] = {**told.get("versions", {}), **merged.get("versions", {})}
        for code, cut in told.get("texts", {}).items():
            held = merged.setdefault("texts", {}).setdefault(code, cut)
            if held is not cut and (held != cut or told["texts_sha256"] != merged["texts_sha256"]):
                # the two may have texts in common, so their counts do not add up
                merged["texts"][code] = {**cut, **dict.fromkeys(("texts", "cut", "share"))}
        merged.setdefault("texts_sha256", told.get("texts_sha256"))
    return {**merged, "counts": {}, "texts_sha256": digest, "sha256": sha256_of(built / RANKED)}


def _vectors(paths: Sequence[Path], built: Path) -> None:
    """Merge the vectors of every model, by the hash of the text."""
    for path in paths:
        for file in sorted(path.glob("vectors-*.sqlite")):
            try:
                with closing(sqlite3.connect(file)) as base:
                    (told,) = base.execute("SELECT described FROM model").fetchone()
                    with ranking.Vectors(built / file.name, json.loads(told)) as vectors:
                        rows = base.execute("SELECT hash, vector, cut FROM vectors")
                        while chunk := rows.fetchmany(ranking.CHUNK):
                            vectors.take(chunk)
            except (sqlite3.Error, TypeError) as error:
                raise DataError(
                    f"{file}: {error}; remove the file, its texts are then encoded anew."
                ) from None


def _stages(
    paths: Sequence[Path],
    built: Path,
    store: Store,
    stages: Mapping[str, Sequence[Record]],
    said: list[str],
) -> None:
    """Write the manifests of the stages, and the graded files where all were graded."""
    answered = [told for told in stages[answering.MANIFEST] if told]
    if not answered:
        return
    complete = all(told.get("finished") for told in stages[answering.MANIFEST])
    kept = {name: one for name, one in answered[0].items() if name not in _RESULTS}
    told = {**kept, "finished": complete, "spent": store.spent("answer").as_dict()}
    path = built / answering.MANIFEST
    write_json(path if complete else answering.unfinished_name(path), told)
    if complete:
        for _ in store.noting(answering.Asking.of(built).requests()):
            pass
        counts = answering.counted(store)
        write_json(path, {**told, "counts": counts, "inputs": answering.inputs(built)})
    graded = [one for one in stages[grading.MANIFEST] if one]
    if not complete:
        said.append("answering is not finished in every folder: run `pipeline answer`")
    if not graded:
        return
    path = built / grading.MANIFEST
    own = {name: one for name, one in graded[0].items() if name not in _RESULTS}
    own["answers"] = kept
    whole = complete and all("counts" in one for one in stages[grading.MANIFEST])
    if whole:
        write_json(path, own)
        try:
            grading.Judging.of(built).export(store)
            return
        except DataError:  # rows are left: nothing was written
            path.unlink()
    write_json(answering.unfinished_name(path), {**own, "finished": False})
    said.append("grading is not finished in every folder: run `pipeline grade`")


def _read(path: Path) -> Record:
    return read_json(path) if path.is_file() else {}


def _manifest(folder: Path, name: str) -> Record:
    """Return a stage's latest manifest, finished or not; empty where it has not begun."""
    return _read(answering.unfinished_name(folder / name)) or _read(folder / name)


def _refuse_other_settings(
    paths: Sequence[Path], rankings: Sequence[Record], stages: Mapping[str, Sequence[Record]]
) -> None:
    """Refuse folders whose settings differ, naming the first one that does."""
    seen: dict[str, tuple[str, Path]] = {}
    for number, path in enumerate(paths):
        for name, value in _settings(
            rankings[number], {name: told[number] for name, told in stages.items()}
        ):
            text = canonical(value)
            held, where = seen.setdefault(name, (text, path))
            if held != text:
                raise UsageError(
                    f"{name} is {held} in {where} and {text} in {path}: folders can be merged that "
                    "were made with the same settings"
                )


def _settings(ranked: Record, stages: Mapping[str, Record]) -> Iterator[tuple[str, Any]]:
    """Yield every setting with its full name."""
    for name in _OF_A_RANKING if ranked else ():
        if isinstance(value := ranked.get(name), Mapping):
            yield from ((f"rank: {part}", one) for part, one in value.items())
        else:
            yield f"rank: {name}", value
    for code, told in ranked.get("embeddings", {}).items():
        yield from ((f"rank: {part} of {code}", one) for part, one in told.items())
    for manifest, told in stages.items():
        stage = Path(manifest).stem
        for name, value in told.items():
            if name == "settings":
                yield from (
                    (f"{stage}: {part}", one) for part, one in value.items() if part not in _WHERE
                )
            elif name not in (*_RESULTS, "stage"):
                yield f"{stage}: {name}", value
