"""The whole pipeline from one configuration file, and how far a folder has come.

A configuration is YAML. Paths are relative to the file::

    out: runs/mine                      # the pipeline folder; made if need be
    corpus:                             # leave it out where samples_texts.json is there already
      - {source: hotpotqa-sentences, input: [hotpot.json], limit: 50, seed: 1}
    rank:                               # leave it out where samples_ranked.json is there already
      embeddings: [AM]
      candidates: [20]
      positives: [2, 3]
      top_k: 1-10
    answer:
      model: local                      # and any other setting of settings.Settings
      base_url: http://127.0.0.1:8081/v1
      concurrency: 2
      ideal: all                        # or per-np
      controls: [none, random, reversed]
    grade:
      model: local
      base_url: http://127.0.0.1:8081/v1
      output: json_schema               # or grammar, text
      few_shot: true
"""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from retrieval_quality.errors import UsageError
from retrieval_quality.pipeline import answer as answering
from retrieval_quality.pipeline import grade as grading
from retrieval_quality.pipeline import prompts
from retrieval_quality.pipeline.answer import Asking
from retrieval_quality.pipeline.files import (
    existing,
    placed,
    read_json,
    records,
    working,
    write_json,
)
from retrieval_quality.pipeline.grade import Counts, Judging, export
from retrieval_quality.pipeline.rows import RANKED, TEXTS, Record
from retrieval_quality.pipeline.settings import Settings
from retrieval_quality.pipeline.store import Store

__all__ = ["export", "read_config", "run", "status", "status_text"]

MANIFEST = "run.json"
SECTIONS = ("out", "corpus", "rank", "answer", "grade")
_CORPUS = ("source", "input", "limit", "seed", "per_category")
_ANSWER = ("ideal", "prompt", "controls", "control_seed")
_GRADE = ("output", "few_shot", "prompt", "repeats")


def run(config: Path | str, *, again: str | None = None) -> Path:
    """Run a configuration from the first stage to the last, or go on where it stopped.

    What is done already is found done and costs nothing: texts and rankings by their manifests,
    answers and grades by the store. A run that has finished, with nothing changed since in the
    configuration, the prompts or the files, is not gone through again (``run.json``).

    Parameters
    ----------
    config : path
        A configuration file; see the head of this module.
    again : {'', 'failed'}
        ``failed`` asks once more for every answer and grade that came back as none.

    Returns
    -------
    Path
        The pipeline folder with the files in the published form.

    Raises
    ------
    UsageError
        The file cannot be read, or a key or value in it is wrong.
    DataError
        A stage could not be finished; run it again to go on.
    """
    told = read_config(config)
    folder = Path(told["out"]).resolve()
    if not told["corpus"]:
        existing(folder)
    if not again and _fingerprint(told, folder) == _finished(folder):
        return folder
    with working(folder, "pipeline run"):
        _stages(told, folder, again)
    return folder


def _stages(told: Mapping[str, Any], folder: Path, again: str | None) -> None:
    """Go through the stages of a configuration."""
    _corpus(told["corpus"], folder)
    if "rank" in told:
        from retrieval_quality.pipeline import rank

        given = dict(told["rank"])
        rank.rank(folder, given.pop("embeddings"), **given)
    settings, more = _split(told["answer"], _ANSWER)
    answering.answer(folder, settings, again=again, **more)
    settings, more = _split(told["grade"], _GRADE)
    grading.grade(folder, settings, again=again, **more)
    with Store(folder) as store:
        if not store.open_failures():
            write_json(folder / MANIFEST, _fingerprint(told, folder))


def _finished(folder: Path) -> Record | None:
    return read_json(folder / MANIFEST) if (folder / MANIFEST).is_file() else None


def _fingerprint(told: Mapping[str, Any], folder: Path) -> Record:
    """Return what tells a finished run from one that must go on: settings, prompts, files."""
    inputs = [Path(name) for part in told["corpus"] for name in part["input"]]
    made = [folder / name for name in (TEXTS, RANKED, *grading.FILES)]
    versions = [_version(folder / one.MANIFEST) for one in (answering, grading)]
    files = {str(path): _state(path) for path in (*inputs, *made)}
    text = yaml.safe_dump(told, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()  # it may hold what is secret
    return {"config": digest, "prompts": versions, "files": files}


def _version(manifest: Path) -> list[str]:
    """Return the versions that a stage's prompts have now."""
    if not manifest.is_file():
        return []
    told = read_json(manifest)
    names = [name for name in ("prompt", "closed_prompt") if name in told]
    return [prompts.recorded(told, name).version for name in names]


def _state(path: Path) -> list[int] | None:
    """Return size and time of a file, None where there is none."""
    return [path.stat().st_size, path.stat().st_mtime_ns] if path.is_file() else None


def _corpus(parts: Iterable[Mapping[str, Any]], folder: Path) -> None:
    from retrieval_quality.pipeline import corpus

    for part in parts:
        inputs = [Path(name) for name in part["input"]]
        more = {name: part[name] for name in _CORPUS[2:] if name in part}
        corpus.build(part["source"], inputs, folder, append=True, **more)


def _split(section: Mapping[str, Any], names: tuple[str, ...]) -> tuple[Settings, dict[str, Any]]:
    """Separate a stage's own options from the settings of its model."""
    own = {name: value for name, value in section.items() if name in names}
    rest = {name: value for name, value in section.items() if name not in names}
    return Settings.from_mapping(rest), own


def read_config(path: Path | str) -> dict[str, Any]:
    """Read a configuration and check every key, before anything is done.

    Parameters
    ----------
    path : path
        A YAML file.

    Returns
    -------
    dict
        The sections; lists of whole numbers spelled out.

    Raises
    ------
    UsageError
        It cannot be read; a section or key is unknown or missing; a value is wrong.
    """
    try:
        told = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"The configuration {path} cannot be read: {error}.") from error
    if not isinstance(told, dict):
        raise UsageError(f"The configuration {path} must be keys and values: {_list(SECTIONS)}.")
    _known(told, SECTIONS, f"{path}")
    _needed(told, ("out", "answer", "grade"), f"{path}")
    if not isinstance(told["out"], str) or not told["out"].strip():
        raise UsageError(f"{path}: `out` must name a folder.")
    told, base = dict(told), Path(path).resolve().parent
    told["out"] = str(placed(told["out"], base))
    parts = _several(told, "corpus")
    told["corpus"] = [_corpus_part(part, base, f"{path}: corpus") for part in parts]
    for section, names in (("answer", _ANSWER), ("grade", _GRADE)):
        if not isinstance(told[section], dict):
            raise UsageError(f"{path}: `{section}` must be keys and values.")
        try:
            told[section] = _placed(told[section], base)
            _split(told[section], names)
        except UsageError as error:
            own = f" `{section}` also takes {_list(names)}."
            raise UsageError(f"{path}: {section}: {error}{own}") from None
    if "rank" in told:
        told["rank"] = _rank_part(told["rank"], base, f"{path}: rank")
    return told


def _placed(section: Mapping[str, Any], base: Path) -> dict[str, Any]:
    """Take the paths of a price table and of a prompt from the folder of the configuration."""
    prices, prompt = section.get("prices"), section.get("prompt")
    own = isinstance(prompt, str) and prompt.endswith((".yml", ".yaml"))
    return {
        **section,
        **({"prices": str(placed(prices, base))} if isinstance(prices, str) else {}),
        **({"prompt": str(placed(str(prompt), base))} if own else {}),
    }


def _several(told: Mapping[str, Any], section: str) -> list[Any]:
    value = told.get(section, [])
    return value if isinstance(value, list) else [value]


def _corpus_part(part: Any, base: Path, where: str) -> dict[str, Any]:
    from retrieval_quality.pipeline import corpus

    if not isinstance(part, dict):
        raise UsageError(f"{where}: give `source` and `input`.")
    _known(part, _CORPUS, where)
    _needed(part, ("source", "input"), where)
    inputs = [part["input"]] if isinstance(part["input"], str) else part["input"]
    if not isinstance(inputs, list) or not all(isinstance(name, str) for name in inputs):
        raise UsageError(f"{where}: `input` must be a file or a list of files.")
    try:
        corpus.check(part["source"], **{name: part[name] for name in _CORPUS[2:] if name in part})
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    return {**part, "input": [str(placed(name, base)) for name in inputs]}


def _rank_part(part: Any, base: Path, where: str) -> dict[str, Any]:
    from retrieval_quality.pipeline import rank

    if not isinstance(part, dict):
        raise UsageError(f"{where}: give `embeddings`.")
    names = [name for name in inspect.signature(rank.rank).parameters if name != "folder"]
    _known(part, names, where)
    _needed(part, ("embeddings",), where)
    given = part["embeddings"]
    embeddings = [given] if isinstance(given, str) else given
    if not isinstance(embeddings, list) or not all(isinstance(one, str) for one in embeddings):
        raise UsageError(f"{where}: `embeddings` must be a list of names or folders.")
    for name, least in (("candidates", 2), ("positives", 2), ("top_k", 1)):
        if name in part:
            rank.whole_numbers(
                part[name], f"{where}: {name}", low=least, all_allowed=name != "top_k"
            )
    try:
        embeddings = [_embedding(one, base) for one in embeddings]
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    return {**part, "embeddings": embeddings}


def _embedding(text: str, base: Path) -> str:
    """Take an embedding's folder, if it is one, from the folder of the configuration."""
    alias, equals, model = text.partition("=") if "=" in text else ("", "", text)
    folder = placed(model.strip(), base)
    meant = re.match(r"[.~/\\]|[A-Za-z]:", model.strip()) or folder.is_dir()
    return f"{alias}{equals}{folder}" if meant else text


def _known(told: Mapping[str, Any], names: Iterable[str], where: str) -> None:
    for name in told:
        if name not in names:
            raise UsageError(f"{where}: `{name}` is not a key here: {_list(names)}.")


def _needed(told: Mapping[str, Any], names: Iterable[str], where: str) -> None:
    for name in names:
        if name not in told:
            raise UsageError(f"{where}: `{name}` is missing.")


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)


# --------------------------------------------------------------------------- status


def status(folder: Path | str) -> Record:
    """Say how far a folder has come: done, left, failed, ungraded by reason, spent.

    Parameters
    ----------
    folder : path
        A pipeline folder, at any point.

    Returns
    -------
    dict
        ``folder``; ``texts`` and ``ranked`` (rows, None where the file is missing); ``embeddings``
        (by code, as `rank` records them: prefixes, and ``texts``, ``cut`` and ``share`` of them
        cut at the model's ``limit`` of tokens); ``answer``
        (distinct calls: ``done``, ``failed`` by reason, ``left``); ``graded`` and ``controls``
        (rows: ``graded``, ``ungraded``, ``ungraded_by_reason``, ``left``); ``spent`` by stage.
        Stages that have not begun are None.

    Raises
    ------
    DataError
        There is no such folder, or a file in it is broken.
    """
    folder = existing(folder)
    told: Record = dict.fromkeys(
        ("folder", "texts", "ranked", "embeddings", "answer", "graded", "controls", "spent")
    )
    told["folder"] = str(folder)
    if (folder / TEXTS).is_file():
        told["texts"] = sum(1 for _ in records(folder / TEXTS))
        if (folder / RANKED).is_file():
            told["ranked"] = sum(1 for _ in records(folder / RANKED))
            told["embeddings"] = _embeddings(folder)
    if not _begun(folder / answering.MANIFEST):
        return told
    with Store(folder) as store:
        told["spent"] = {stage: store.spent(stage).as_dict() for stage in ("answer", "grade")}
        known = _recorded(folder, told["spent"])
        told |= known
        if "answer" not in known:
            told["answer"] = _answered(Asking.of(folder, latest=True), store)
        if "graded" in known:
            return told
        finished = (folder / answering.MANIFEST).is_file()
        if finished and _begun(folder / grading.MANIFEST):
            judging = Judging.of(folder, latest=True)
            told["graded"] = _graded(judging, store, control=False)
            if judging.asking.controls:
                told["controls"] = _graded(judging, store, control=True)
    return told


def _recorded(folder: Path, spent: Record) -> Record:
    """Return what the finished stages have counted, as far as nothing has changed since.

    Counting goes through every row and makes its requests again, so it is done where a stage
    ends, and here only for stages that have not finished or whose texts, rankings, prompts or
    replies are other ones now.
    """
    told: Record = {}
    answered = _finished_stage(folder / answering.MANIFEST, spent["answer"])
    if not answered or _version(folder / answering.MANIFEST) != [
        answered["prompt"],
        answered["closed_prompt"],
    ]:
        return {}
    if answering.inputs(folder) != answered["inputs"]:
        return {}
    told["answer"] = answered["counts"]
    if not _begun(folder / grading.MANIFEST):
        return told
    graded = _finished_stage(folder / grading.MANIFEST, spent["grade"])
    if (
        graded
        and graded["inputs"] == answered["inputs"]
        and _version(folder / grading.MANIFEST) == [graded["prompt"]]
        and grading.same(graded["answers"]) == grading.same(answered)
    ):
        told["graded"] = graded["counts"]["graded"]
        told["controls"] = graded["counts"].get("controls")
    return told


def _finished_stage(manifest: Path, spent: Record) -> Record | None:
    """Return a stage's manifest if it has finished, counted, and asked nothing since."""
    if not manifest.is_file() or answering.unfinished_name(manifest).is_file():
        return None
    told = read_json(manifest)
    counted = "counts" in told and "inputs" in told
    return told if counted and told.get("spent") == spent else None


def _begun(manifest: Path) -> bool:
    return manifest.is_file() or answering.unfinished_name(manifest).is_file()


def _embeddings(folder: Path) -> Record | None:
    """Return what is recorded of the embeddings that ranked a folder; None where nothing is."""
    record = folder / "rank.json"
    told = read_json(record) if record.is_file() else {}
    cut, named = told.get("texts"), told.get("embeddings")
    if not isinstance(cut, dict) or not isinstance(named, dict):
        return None
    prefixes = ("query_prefix", "passage_prefix", "prefixes_from")
    return {
        code: {**{name: one[name] for name in prefixes if name in one}, **cut.get(code, {})}
        for code, one in named.items()
        if isinstance(one, dict)
    }


def _answered(asking: Asking, store: Store) -> Record:
    for _ in store.noting(asking.requests()):
        pass
    return answering.counted(store)


def _graded(judging: Judging, store: Store, *, control: bool) -> Record:
    counts = Counts()
    for row in judging.asking.rows(control):
        counts.add(judging.graded(store, row))
    return counts.as_dict()


def status_text(told: Mapping[str, Any]) -> str:
    """Write a status as lines for a person.

    Examples
    --------
    >>> print(status_text({"folder": "runs/mine", "texts": 4}))
    runs/mine
    texts: 4
    ranked: not begun
    answer: not begun
    graded: not begun
    """
    lines = [str(told["folder"])]
    for name in ("texts", "ranked"):
        lines.append(f"{name}: {'not begun' if told.get(name) is None else told[name]}")
    lines += [_embedding_text(code, one) for code, one in (told.get("embeddings") or {}).items()]
    answer = told.get("answer")
    if answer is None:
        lines.append("answer: not begun")
    else:
        failed = sum(answer["failed"].values())
        lines.append(f"answer: {answer['done']} done, {failed} failed, {answer['left']} left")
        lines += [f"  {reason}: {n}" for reason, n in answer["failed"].items()]
    for name in ("graded", "controls"):
        counts = told.get(name)
        if counts is None:
            lines += ["graded: not begun"] if name == "graded" else []
            continue
        lines.append(
            f"{name}: {counts['graded']} graded, {counts['ungraded']} ungraded, "
            f"{counts['left']} left"
        )
        lines += [f"  {reason}: {n}" for reason, n in counts["ungraded_by_reason"].items()]
        declined = (counts.get("ideal_declines") or {}).get("rows")
        lines += [f"  against an ideal answer that declines: {declined}"] if declined else []
    for stage, spent in (told.get("spent") or {}).items():
        tokens = f"{spent['prompt_tokens']} + {spent['completion_tokens']} tokens"
        unknown = f", {spent['unpriced']} calls without a price" if spent["unpriced"] else ""
        lines.append(
            f"spent on {stage}: ${spent['cost']:.4f} for {spent['calls']} calls, {tokens}{unknown}"
        )
    return "\n".join(lines)


def _embedding_text(code: str, told: Mapping[str, Any]) -> str:
    """Say of an embedding how many texts it cut, and what was put before them.

    Examples
    --------
    >>> print(_embedding_text("AM", {"texts": 40, "cut": 10, "share": 0.25, "limit": 128}))
      AM: 10 of 40 texts (25.0%) cut at 128 tokens; no prefixes
    """
    if told.get("cut") is None:
        cut = "not known how many texts were cut"
    else:
        cut = f"{told['cut']} of {told['texts']} texts ({told['share']:.1%}) cut"
        cut += f" at {told['limit']} tokens" if told.get("limit") else ""
    query, passage = told.get("query_prefix") or "", told.get("passage_prefix") or ""
    prefixes = f"prefixes {query!r} and {passage!r}" if query or passage else "no prefixes"
    source = f" ({told['prefixes_from']})" if told.get("prefixes_from") else ""
    return f"  {code}: {cut}; {prefixes}{source}"
