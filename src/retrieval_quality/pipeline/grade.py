"""Grades from 1 to 5 for the answers, and the files in the published form."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import pstdev
from typing import Any

from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.outputs import placing
from retrieval_quality.pipeline import client, prompts
from retrieval_quality.pipeline.answer import (
    Asking,
    Written,
    check_again,
    declines,
    inputs,
    unfinished,
    unfinished_name,
    written,
)
from retrieval_quality.pipeline.client import Estimate, Executor, Tally
from retrieval_quality.pipeline.files import (
    existing,
    read_json,
    sha256_of,
    working,
    write_json,
    write_records,
)
from retrieval_quality.pipeline.rows import Record, Row
from retrieval_quality.pipeline.settings import Settings
from retrieval_quality.pipeline.store import Reply, Request, Store, canonical
from retrieval_quality.pipeline.thoughts import without_thoughts

MANIFEST = "grade.json"
GRADED = "samples_graded.json"
CONTROLS = "samples_controls.json"
FILES = (GRADED, CONTROLS)
OUTPUTS = ("json_schema", "grammar", "text")
PROMPT, PROMPT_WITH_EXAMPLES = "grade-v1", "grade-examples-v1"
MAX_TOKENS = 64

_SCHEMA = {
    "type": "json_schema",
    "json_schema": {
        "name": "grade",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"grade": {"type": "integer", "enum": [1, 2, 3, 4, 5]}},
            "required": ["grade"],
            "additionalProperties": False,
        },
    },
}
_GRAMMAR = {"grammar": "root ::= [1-5]"}
_FORMATS = {
    "json_schema": 'Reply with JSON only: {"grade": N}, where N is 1, 2, 3, 4 or 5.',
    "grammar": "Reply with one digit only: 1, 2, 3, 4 or 5.",
    "text": "Reply with one line only: Grade: N, where N is 1, 2, 3, 4 or 5.",
}
_SHOWN = {"json_schema": '{{"grade": {}}}', "grammar": "{}", "text": "Grade: {}"}


def grade(
    folder: Path | str,
    settings: Settings,
    *,
    output: str | None = None,
    few_shot: bool | None = None,
    prompt: str | None = None,
    repeats: int | None = None,
    again: str | None = None,
    dry_run: bool = False,
    executor: Executor | None = None,
) -> Tally | Estimate:
    """Ask for the grade of every answer, resume where it stopped, and write the graded files.

    Rows whose answer, ideal answer or grade failed get the grade null and are counted by reason
    in ``grade.json``, and so are rows whose ideal answer only declines. Controls are graded too
    where `answer` made them. The files are written when every row has been asked and at least one
    was graded, both at once; until then what was there stays. A file that was not made from this
    folder's store is never replaced.

    Parameters
    ----------
    folder : path
        A pipeline folder that `answer` has been through.
    settings : Settings
        The judge, its server and the limits.
    output : {'json_schema', 'grammar', 'text'}
        How the judge is held to a grade: by a JSON schema, by a grammar (llama.cpp), or not at
        all, where a strict reader takes ``Grade: N``. A server that does not know the first
        refuses it or ignores it; then the reader below decides.
    few_shot : bool
        Put eight worked examples before the case; small judges need them.
    prompt : str, optional
        Another prompt by name, or a YAML file of one's own.
    repeats : int
        Ask the same question so often; the first grade counts, the others show how much the
        judge varies. Once by default.
    again : {'', 'failed'}
        ``failed`` asks for every grade once more that came back as none or unreadable.
    dry_run : bool
        Only say what it would take; answers not written yet are taken at their longest.
    executor : Executor, optional
        Another way of asking.

    Returns
    -------
    Tally or Estimate

    Raises
    ------
    DataError, UsageError
        As `retrieval_quality.pipeline.client.ask`; the folder has no answers, or not all; nothing
        was graded; a file is in the way that this store did not make.
    """
    output, repeats = output or OUTPUTS[0], 1 if repeats is None else repeats
    check_again(again)
    if output not in OUTPUTS:
        raise UsageError(f"`output` is {output!r}: {', '.join(OUTPUTS)}.")
    if not isinstance(repeats, int) or isinstance(repeats, bool) or repeats < 1:
        raise UsageError(f"`repeats` is {repeats!r}: give a whole number of at least 1.")
    rubric = prompts.load(prompt or (PROMPT_WITH_EXAMPLES if few_shot else PROMPT))
    rubric.check(("query", "ideal", "answer"), ("format",))
    folder = existing(folder)
    with (
        nullcontext() if dry_run else working(folder, "pipeline grade"),
        Store((asking := Asking.of(folder)).folder) as store,
    ):
        judging = Judging(asking, settings, rubric, output, repeats)
        useless = judging.useless(store) if again else frozenset()
        if dry_run:
            return client.estimate(judging.requests(store, guess=True), store, settings, useless)
        settings.price()
        judging.check_place(store)
        with unfinished(folder / MANIFEST, judging.manifest(), store):
            tally = client.ask(
                judging.requests(store),
                store,
                settings,
                stage="grade",
                total=repeats * sum(1 for _ in judging.asking.rows()),
                executor=executor,
                again=useless,
            )
            judging.export(store)
    return tally


def export(folder: Path | str) -> Record:
    """Write ``samples_graded.json``, and ``samples_controls.json`` where there are controls.

    Parameters
    ----------
    folder : path
        A pipeline folder that `grade` has begun on.

    Returns
    -------
    dict
        The counts: rows, graded, ungraded by reason, left; the same for the controls.

    Raises
    ------
    DataError
        Grading has not finished yet, or a file is in the way that this store did not make.
    """
    folder = existing(folder)
    with working(folder, "pipeline export"), Store(folder) as store:
        judging = Judging.of(folder)
        judging.check_place(store)
        return judging.export(store)


@dataclass
class Graded:
    """One row with what came of it: a grade, or a reason, or neither (not asked yet)."""

    row: Row
    ideal: Written
    answer: Written
    grade: int | None = None
    reason: str | None = None

    @property
    def left(self) -> bool:
        """Whether something is still to be asked."""
        return self.grade is None and self.reason is None

    def published(self) -> Record:
        """Return the row in the published form."""
        answers = {"answer_ideal": self.ideal.text, "answer_topK": self.answer.text}
        return {**self.row.published(), **answers, "grade": self.grade}


class Judging:
    """Which grades a folder needs, and the request for each.

    Parameters
    ----------
    asking : Asking
        The answers to be graded.
    settings : Settings
        The judge.
    prompt : Prompt
        The rubric.
    output : str
        ``json_schema``, ``grammar`` or ``text``.
    repeats : int
        How often each is asked.
    """

    def __init__(
        self,
        asking: Asking,
        settings: Settings,
        prompt: prompts.Prompt,
        output: str,
        repeats: int,
    ) -> None:
        self.asking = asking
        self.settings = settings
        self.prompt = prompt
        self.output = output
        self.repeats = repeats
        self._format = {"format": _FORMATS[output]}
        self._head = prompt.head(self._format, _SHOWN[output].format)

    @classmethod
    def of(cls, folder: Path, *, latest: bool = False) -> Judging:
        """Make the judging that a folder's manifest records.

        Parameters
        ----------
        folder : Path
            The pipeline folder.
        latest : bool
            Also one that has not finished, if there is one.

        Raises
        ------
        DataError
            Grading has not finished yet, or the prompt or the answers have changed since.
        """
        path = folder / MANIFEST
        if latest and unfinished_name(path).is_file():
            path = unfinished_name(path)
        if not path.is_file():
            begun = "finish" if unfinished_name(path).is_file() else "make"
            raise DataError(f"There is no {path}: {begun} it by `pipeline grade`.")
        told = read_json(path)
        prompt = prompts.recorded(told)
        if prompt.version != told["prompt"]:
            raise DataError(
                f"The grades in {folder} were asked for with {told['prompt']}, which has changed "
                f"to {prompt.version}: run `pipeline grade` again."
            )
        settings = Settings.from_mapping(told["settings"])
        asking = Asking.of(folder)
        if "answers" in told and same(told["answers"]) != same(asking.manifest()):
            raise DataError(
                f"The grades in {folder} are of other answers than those that "
                "`pipeline answer` has made since: run `pipeline grade` again."
            )
        return cls(asking, settings, prompt, told["output"], told["repeats"])

    def manifest(self) -> Record:
        """Return all that determines the grades."""
        return {
            "stage": "grade",
            "settings": self.settings.recorded(),
            **self.prompt.manifest(),
            "output": self.output,
            "repeats": self.repeats,
            "answers": self.asking.manifest(),
        }

    def request(self, query: str, ideal: str, answer: str, repeat: int = 0) -> Request:
        """Return the request for one grade."""
        texts = {"query": query, "ideal": ideal, "answer": answer}
        values = {name: prompts.quoted(text) for name, text in texts.items()}
        return self.settings.request(
            [*self._head, self.prompt.case({**values, **self._format})],
            self.prompt.version,
            max_tokens=MAX_TOKENS,
            repeat=repeat,
            response_format=_SCHEMA if self.output == "json_schema" else None,
            extra_body=_GRAMMAR if self.output == "grammar" else None,
        )

    def answers(self, store: Store, row: Row) -> tuple[Written, Written]:
        """Return a row's ideal answer and its answer, as far as they are there."""
        ideal = written(store.outcome(self.asking.ideal_request(row).key))
        return ideal, written(store.outcome(self.asking.request(row).key))

    def requests(self, store: Store, *, guess: bool = False) -> Iterator[Request]:
        """Yield the requests that have both answers; with `guess`, also those that lack some."""
        for number, row in enumerate(self.asking.rows()):
            ideal, answer = (one.text for one in self.answers(store, row))
            if guess:
                limit = self.asking.settings.max_tokens or 512
                longest = "x" * (client.CHARACTERS_PER_TOKEN * limit)
                ideal, answer = ideal or longest, answer or f"{number} {longest}"
            if ideal is None or answer is None:
                continue
            for repeat in range(self.repeats):
                yield self.request(self.asking.query(row), ideal, answer, repeat)

    def graded(self, store: Store, row: Row) -> Graded:
        """Return what came of a row."""
        ideal, answer = self.answers(store, row)
        result = Graded(row, ideal, answer)
        for what, one in (("ideal answer", ideal), ("answer", answer)):
            if one.reason is not None:
                result.reason = f"no {what}: {one.reason}"
                return result
        if ideal.text is not None and answer.text is not None:
            request = self.request(self.asking.query(row), ideal.text, answer.text)
            reply = store.outcome(request.key)
            if reply is not None:
                verdict = read_reply(reply, answer.text)
                result.grade, result.reason = verdict.grade, verdict.reason
        return result

    def useless(self, store: Store) -> set[str]:
        """Return the keys of replies that are there and hold no grade."""
        keys: set[str] = set()
        for row in self.asking.rows():
            ideal, answer = (one.text for one in self.answers(store, row))
            for repeat in range(self.repeats) if ideal and answer else ():
                key = self.request(self.asking.query(row), str(ideal), str(answer), repeat).key
                reply = store.get(key)
                if reply is not None and read_reply(reply, str(answer)).grade is None:
                    keys.add(key)
        return keys

    def check_place(self, store: Store) -> None:
        """Refuse to replace files of grades that were not made from this folder's store.

        Raises
        ------
        UsageError
            One is there; nothing was changed.
        """
        before = self.asking.folder / MANIFEST
        # files from before there was such a record: a manifest of theirs, and paid grades
        old = before.is_file() and "answers" not in read_json(before)
        for name in FILES:
            path = self.asking.folder / name
            ours = not path.exists() or store.made_file(name, sha256_of(path))
            if not ours and not (old and store.spent("grade").calls):
                raise UsageError(
                    f"{path} is there and was not made from this folder's store, or was changed "
                    "since; nothing was asked or changed: move it away, or use another folder."
                )

    def export(self, store: Store) -> Record:
        """Write the files in the published form, both at once, and the counts into the manifest.

        Raises
        ------
        DataError
            Rows are left, or none has a grade; nothing was written then.
        """
        folder = self.asking.folder
        wanted = {"graded": GRADED, **({"controls": CONTROLS} if self.asking.controls else {})}
        counts: Record = {}
        with ExitStack() as stack:
            for part, name in wanted.items():
                path = stack.enter_context(placing(folder / name))
                counts[part] = self._export(store, path, control=part == "controls")
                store.note_file(name, sha256_of(path))
            self._check_counts(counts["graded"])
        for name in set(FILES) - set(wanted.values()):
            (folder / name).unlink(missing_ok=True)  # of an earlier run, see `check_place`
        told = {
            **self.manifest(),
            "counts": counts,
            "inputs": inputs(folder),
            "spent": store.spent("grade").as_dict(),
        }
        if self.repeats > 1:
            told["agreement"] = self.agreement(store)
        write_json(folder / MANIFEST, told)
        return counts

    def _check_counts(self, counts: Record) -> None:
        kept = f"{GRADED} was not touched; all replies are kept"
        if counts["left"]:
            raise DataError(
                f"{counts['left']} rows have no answer or no grade yet: finish `pipeline answer`, "
                f"then run `pipeline grade` again. {kept}."
            )
        if not counts["graded"]:
            reasons = list(counts["ungraded_by_reason"].items())[:3]
            told = ", ".join(f"{reason} ({n})" for reason, n in reasons) or "there are no rows"
            raise DataError(f"Nothing was graded: {told}. {kept}.")

    def _export(self, store: Store, path: Path, *, control: bool) -> Record:
        counts = Counts()
        rows = (self.graded(store, row) for row in self.asking.rows(control))
        write_records(path, (one.published() for one in rows if counts.add(one)))
        return counts.as_dict()

    def agreement(self, store: Store) -> Record:
        """Say how much the judge varies when it is asked the same question again.

        Returns
        -------
        dict
            ``questions`` distinct ones with a grade in every repeat, ``identical`` the share of
            them with one grade throughout, ``largest_range`` and ``mean_sd`` (population) of the
            grades of a question; ``incomplete`` questions lack a grade.
        """
        seen: dict[str, list[int | None]] = {}
        for row in self.asking.rows():
            ideal, answer = (one.text for one in self.answers(store, row))
            if ideal is None or answer is None:
                continue
            query = self.asking.query(row)
            asked = [self.request(query, ideal, answer, one) for one in range(self.repeats)]
            if asked[0].key not in seen:
                replies = [store.get(request.key) for request in asked]
                seen[asked[0].key] = [
                    read_reply(reply, answer).grade if reply else None for reply in replies
                ]
        whole = [[g for g in grades if g is not None] for grades in seen.values()]
        whole = [grades for grades in whole if len(grades) == self.repeats]
        told: Record = {"questions": len(whole), "incomplete": len(seen) - len(whole)}
        if whole:
            told["identical"] = sum(len(set(grades)) == 1 for grades in whole) / len(whole)
            told["largest_range"] = max(max(grades) - min(grades) for grades in whole)
            told["mean_sd"] = sum(pstdev(grades) for grades in whole) / len(whole)
        return told


class Counts:
    """Rows by what came of them."""

    def __init__(self) -> None:
        self.graded = self.left = 0
        self.ungraded: Counter[str] = Counter()
        self.declined: Counter[str] = Counter()

    def add(self, one: Graded) -> bool:
        """Count a row; True where it is finished, with a grade or without."""
        if declines(one.ideal.text):
            self.declined[one.row.id] += 1
        if one.left:
            self.left += 1
        elif one.grade is None:
            self.ungraded[str(one.reason)] += 1
        else:
            self.graded += 1
        return not one.left

    def as_dict(self) -> Record:
        """Return the counts for a manifest: ``rows`` are the graded and the ungraded.

        ``ideal_declines`` flags the rows whose ideal answer only says that there is none: a grade
        against it says little. Their number, and the ids they belong to.
        """
        ungraded = sum(self.ungraded.values())
        by_reason = dict(self.ungraded.most_common())
        return {
            "rows": self.graded + ungraded,
            "graded": self.graded,
            "ungraded": ungraded,
            "ungraded_by_reason": by_reason,
            "left": self.left,
            "ideal_declines": {"rows": self.declined.total(), "ids": sorted(self.declined)},
        }


def same(answers: Record) -> str:
    """Return what of an answering's manifest determines the answers, as text to compare."""
    settings = {
        name: one
        for name, one in answers["settings"].items()
        if name not in ("base_url", "max_tokens")
    }
    results = ("finished", "counts", "inputs", "spent")
    kept = {name: one for name, one in answers.items() if name not in results}
    return canonical({**kept, "settings": settings})


# --------------------------------------------------------------------------- reading a grade


@dataclass(frozen=True)
class Verdict:
    """A grade from 1 to 5, or None and the reason."""

    grade: int | None
    reason: str | None = None


_FENCE = re.compile(r"```[a-z]*\s*(.*?)\s*```", re.DOTALL | re.IGNORECASE)
_OBJECT = re.compile(r"\{[^{}]*\}")
_QUOTATION = re.compile(r"\"[^\"\n]*\"|“[^”]*”|«[^»]*»|(?<!\w)'[^'\n]*'(?!\w)|‘[^’]*’|`[^`\n]*`")
_STATED = re.compile(r"\bgrade\b(?:\s+(?:is|of|would be))?\s*[:=]?[\s*_]*([^\s*_]+)", re.IGNORECASE)
_LAST = re.compile(
    r"(?:^|(?<=[.!?;\n]))[\s*_#>\-]*(?:(?:so|thus|hence|therefore|overall|finally),?\s+)?"
    r"(?:(?:the|my|final|overall|resulting)\s+)*"
    r"grade(?:[\s*_]+is)?[\s*_]*[:=]\s*[\s*_]*([^\s*_]+?)[.\s*_]*$",
    re.IGNORECASE,
)
_NEGATION = re.compile(
    r"\b(?:not|never|no|neither|nor|cannot|without|hardly|nobody|nothing)\b|n['’]t\b",
    re.IGNORECASE,
)
_AWAITS = re.compile(
    r"\b(?:give|given|say|call|assign|award|deserves?|be|is|a|an|the|as|of|to|for|with|write|reply"
    r"|answer)[\s:*_]*$",
    re.IGNORECASE,
)


def read_reply(reply: Reply, answer: str = "") -> Verdict:
    """Return the grade in a judge's reply; what is no answer has no grade.

    Parameters
    ----------
    reply : Reply
        From the store.
    answer : str
        The answer that was graded: its own words are never a verdict.

    Examples
    --------
    >>> read_reply(Reply("Grade: 1", reason="truncated at 4 tokens"))
    Verdict(grade=None, reason='truncated at 4 tokens')
    """
    if reply.reason is not None:
        return Verdict(None, reply.reason)
    return read_grade(reply.text or "", answer)


def read_grade(text: str, answer: str = "") -> Verdict:
    """Read a grade strictly: one whole number from 1 to 5, stated once as the verdict.

    A verdict is the whole reply (``4``, ``4.0``, ``Grade:4``, ``{"grade": 4}``, fenced or not), or
    a sentence of its own at the end of other words. Thinking before it is cut off. Two different
    verdicts are none, and none is what is said within a sentence ("I would not give grade: 4") or
    inside quotation marks. Where other words stand before it, a verdict that the graded answer
    contains word for word does not count either: it may be an echo. ASCII digits only; a boolean
    is no number.

    Parameters
    ----------
    text : str
        The judge's reply.
    answer : str
        The answer that was graded.

    Returns
    -------
    Verdict

    Examples
    --------
    >>> read_grade('Sure. ```json {"grade": 4}```').grade
    4
    >>> read_grade("The answer says 'The grade is: 5', but it is wrong. Grade: 2").grade
    2
    >>> read_grade("Grade: 2. On reflection, Grade: 3")
    Verdict(grade=None, reason='two different grades')
    >>> read_grade("Grade: 4/5").reason
    'not a whole number from 1 to 5'
    >>> read_grade("I would not give grade: 4").reason
    'no grade at the end'
    """
    bare = without_thoughts(text)
    if bare is None:
        return Verdict(None, "thinking without a grade")
    if not bare:
        return Verdict(None, "empty")
    bare = _FENCE.sub(r"\1", bare).strip().strip("*_ \n")
    if "{" in bare:
        return _from_objects(bare, answer)
    one_word = re.fullmatch(r"[^\s]+", bare) and _LAST.fullmatch(bare) is None
    if one_word or re.fullmatch(r"[\d\s.,/]+", bare):
        return _whole(bare)
    return _from_words(bare, answer)


def _whole(value: object) -> Verdict:
    """Take a whole number from 1 to 5, as number or text; nothing else."""
    if isinstance(value, str) and re.fullmatch(r"[1-5](?:\.0*)?", value.strip()):
        return Verdict(int(value.strip()[0]))
    if isinstance(value, int | float) and not isinstance(value, bool) and value in (1, 2, 3, 4, 5):
        return Verdict(int(value))
    return Verdict(None, "not a whole number from 1 to 5")


def _one(verdicts: list[Verdict]) -> Verdict:
    """Agree on one verdict."""
    unreadable = [verdict for verdict in verdicts if verdict.grade is None]
    if unreadable:
        return unreadable[0]
    if len({verdict.grade for verdict in verdicts}) > 1:
        return Verdict(None, "two different grades")
    return verdicts[0]


def _from_objects(text: str, answer: str) -> Verdict:
    if _pairs(text) is not None:
        return _from_object(text)
    found = list(_OBJECT.finditer(text))
    if not found or text[found[-1].end() :].strip(" \n`.*"):
        return Verdict(None, "no grade at the end")
    verdicts = [_from_object(one.group()) for one in found]
    lead = re.split(r"[.!?]\s|\n\s*\n", text[: found[-1].start()])[-1]
    if _NEGATION.search(lead):
        return Verdict(None, "no grade at the end")
    around = _OBJECT.sub(" ", text)
    verdicts += [
        _whole(one.group(1))
        for one in _STATED.finditer(_unquoted(around))
        if one.group(1)[0].isdigit()
    ]
    if around.strip(" \n`.*") and _echoes(found[-1].group(), answer):
        return Verdict(None, "the grade repeats words of the answer")
    return _one(verdicts)


def _from_object(text: str) -> Verdict:
    pairs = _pairs(text)
    if pairs is None:
        return Verdict(None, "not JSON")
    grades = [value for name, value in pairs if str(name).strip().lower() == "grade"]
    others = [
        value for name, value in pairs if re.search(r"[ _-]grade$|^grade[ _-]", str(name).lower())
    ]
    if not grades:
        return Verdict(None, "no grade")
    if len(grades) > 1 or any(_whole(one).grade for one in others):
        return Verdict(None, "two grades in one object")
    return _whole(grades[0])


def _pairs(text: str) -> list[tuple[Any, Any]] | None:
    """Return the keys and values of an object, doubled keys and all; None where it is none."""
    try:
        pairs = json.loads(text, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        return _python_pairs(text)
    return pairs if isinstance(pairs, _Pairs) else None


class _Pairs(list[tuple[Any, Any]]):
    """The pairs of one JSON object, not to be taken for a JSON array."""


def _python_pairs(text: str) -> list[tuple[Any, Any]] | None:
    """Read an object written with Python's True, None and quotes; doubled keys stay doubled."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the reply's own backslashes
            node = ast.parse(text, mode="eval").body
        if not isinstance(node, ast.Dict):
            return None
        return [
            (ast.literal_eval(key), ast.literal_eval(value))
            for key, value in zip(node.keys, node.values, strict=True)
            if key is not None
        ]
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _unquoted(text: str) -> str:
    return _QUOTATION.sub(" ", text)


def _from_words(text: str, answer: str) -> Verdict:
    bare = _unquoted(text)
    stated = [
        _whole(one.group(1).rstrip(".,;:!)"))
        for one in _STATED.finditer(bare)
        if one.group(1)[0].isdigit()
    ]
    last = _LAST.search(bare)
    if last is None:
        two = len({one.grade for one in stated if one.grade}) > 1
        return Verdict(None, "two different grades" if two else "no grade at the end")
    before = bare[: last.start()].rstrip(" \n*_#>-")
    lead = "" if before[-1:] in (".", "!", "?") else re.split(r"[.!?]\s", before)[-1]
    if _NEGATION.search(lead) and _AWAITS.search(lead):
        return Verdict(None, "no grade at the end")
    if bare[: last.start()].strip() and _echoes(last.group(), answer):
        return Verdict(None, "the grade repeats words of the answer")
    return _one([_whole(last.group(1)), *stated])


def _echoes(verdict: str, answer: str) -> bool:
    """Whether the graded answer contains the verdict's own words."""
    squeezed = re.sub(r"[\s*_.]+", "", verdict).lower()
    return squeezed in re.sub(r"[\s*_.]+", "", answer).lower()
