"""The sources' own formats, each read into queries with texts that answer them and that do not."""

from __future__ import annotations

import heapq
import json
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from hashlib import blake2b
from importlib import resources
from pathlib import Path
from typing import Any

from retrieval_quality.errors import DataError
from retrieval_quality.pipeline.files import Place, Record, records

MAX_POSITIVES = 20
MAX_NEGATIVES = 40
POOL = 5000
"""Passages of other questions from which the negatives of Natural Questions are borrowed."""

_LEVELS = {"easy": "e", "medium": "m", "hard": "h"}


@dataclass
class Query:
    """One query as a source has it, before cleaning.

    Attributes
    ----------
    key : str
        What identifies it in its source; decides, with the seed, whether a limit keeps it.
    subset : str
        Subset of its id: ``A``, ``Hp-e``, ``N`` ...
    text : str
        The query.
    positives, negatives : list of str
        Its texts.
    easy : list of str
        Negatives that come after all the others.
    extra : dict
        Further keys of the published record (``c1``, ``c2``, ``q2`` for arXiv).
    """

    key: str
    subset: str
    text: str
    positives: list[str]
    negatives: list[str]
    easy: list[str] = field(default_factory=list)
    extra: dict[str, str] = field(default_factory=dict)


@dataclass
class Drops:
    """What was left out, counted by reason: queries, texts, and labels of texts.

    `standing` counts the queries that have all a sample needs, before a limit.
    """

    standing: int = 0
    queries: Counter[str] = field(default_factory=Counter)
    texts: Counter[str] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Source:
    """A source that a corpus can be made from.

    Attributes
    ----------
    read : callable
        ``read(inputs, seed, drops)`` yields queries.
    licence, rule : str
        The licence of its texts; how positives and negatives come about.
    shuffled : bool
        Whether texts are put into an order drawn by the seed; otherwise they stay as given.
    """

    read: Callable[[Sequence[Path], int, Drops], Iterator[Query]]
    licence: str
    rule: str
    shuffled: bool = True


def draw(seed: int, *parts: str) -> bytes:
    """Return a number, as bytes, that depends on the seed and the parts alone.

    Sorting by it shuffles in the same way on every machine, whatever order things came in.

    Examples
    --------
    >>> draw(1, "a") == draw(1, "a"), draw(1, "a") == draw(2, "a"), draw(1, "a") == draw(1, "", "a")
    (True, False, False)
    """
    told = "\0".join([str(seed), *parts]).encode("utf-8", "surrogatepass")
    return blake2b(told, digest_size=16).digest()


def visible(text: str) -> str:
    r"""Return a text as it is compared: composed, without invisible characters, blanks joined.

    Examples
    --------
    >>> visible("a\u200b  b\n"), visible("\u200b \ufeff"), visible("o\u0308") == "ö"
    ('a b', '', True)
    """
    if not text.isascii():
        for mark in {c for c in set(text) if unicodedata.category(c) == "Cf"}:
            text = text.replace(mark, "")
        text = unicodedata.normalize("NFC", text)
    return " ".join(text.split())


def titled(title: str, text: str) -> str:
    """Put the title before a text that does not begin with it; a blank text stays blank.

    Examples
    --------
    >>> titled("Oslo", " It is a city."), titled("Oslo", "Oslo is a city."), titled("Oslo", " ")
    ('Oslo: It is a city.', 'Oslo is a city.', '')
    """
    text = text.strip()
    if not visible(text) or not visible(title) or visible(text).startswith(visible(title)):
        return text if visible(text) else ""
    return f"{title.strip()}: {text}"


def _each(inputs: Sequence[Path]) -> Iterator[tuple[Place, Record]]:
    for path in inputs:
        yield from records(path)


def _get(record: Record, key: str, where: Place, kind: type | tuple[type, ...]) -> Any:
    value = record.get(key)
    if not isinstance(value, kind):
        found = f"is {type(value).__name__}" if key in record else "is missing"
        raise DataError(f"{where}: '{key}' {found}; is this a file of the named source?")
    return value


def _strings(values: Any, what: str, where: Place) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(v, str) for v in values):
        raise DataError(f"{where}: {what} must be a list of texts.")
    return values


# HotpotQA


def _columns_or_pairs(
    value: Any, names: tuple[str, str], what: str, where: Place
) -> list[tuple[Any, Any]]:
    """Return pairs from either layout: a list of pairs, or two columns of equal length."""
    if isinstance(value, dict) and all(isinstance(value.get(name), list) for name in names):
        first, second = (value[name] for name in names)
        if len(first) == len(second):
            return list(zip(first, second, strict=True))
    if isinstance(value, list) and all(isinstance(v, list | tuple) and len(v) == 2 for v in value):
        return [(pair[0], pair[1]) for pair in value]
    raise DataError(
        f"{where}: {what} must be pairs, or the columns {' and '.join(names)}, alike in length."
    )


def _supported(
    paragraphs: list[tuple[str, list[str]]], facts: list[tuple[str, int]], drops: Drops
) -> tuple[set[tuple[int, int]], set[int]] | None:
    """Return the supporting sentences and paragraphs; None if a fact fits two places.

    A title alone does not name a paragraph: it may stand above two with different texts. A fact
    belongs to the paragraph of that title that has a sentence of its number.
    """
    sentences: set[tuple[int, int]] = set()
    supporting: set[int] = set()
    for title, index in facts:
        places = [i for i, (name, _) in enumerate(paragraphs) if name == title]
        fitting = [i for i in places if 0 <= index < len(paragraphs[i][1])]
        if len(fitting) > 1 or (len(places) > 1 and not fitting):
            return None
        if not places:
            drops.labels["supporting title is not in the context"] += 1
        elif not fitting:
            drops.labels["supporting sentence number is past the end"] += 1
            supporting.add(places[0])
        else:
            sentences.add((fitting[0], index))
            supporting.add(fitting[0])
    return sentences, supporting


def _hotpot_record(
    record: Record, where: Place, drops: Drops
) -> tuple[list[tuple[str, list[str]]], set[tuple[int, int]], set[int]] | None:
    layout = _columns_or_pairs(record.get("context"), ("title", "sentences"), "context", where)
    paragraphs: list[tuple[str, list[str]]] = []
    for title, texts in layout:
        if not isinstance(title, str):
            raise DataError(f"{where}: a title in context is not a text.")
        paragraph = (title, _strings(texts, "the sentences in context", where))
        if paragraph in paragraphs:
            drops.texts["duplicate"] += len(texts)
        else:
            paragraphs.append(paragraph)
    facts = _columns_or_pairs(
        record.get("supporting_facts"), ("title", "sent_id"), "supporting_facts", where
    )
    if not all(isinstance(t, str) and type(i) is int for t, i in facts):
        raise DataError(f"{where}: a supporting fact must be a title and a whole number.")
    found = _supported(paragraphs, facts, drops)
    return None if found is None else (paragraphs, *found)


def hotpotqa(
    inputs: Sequence[Path], seed: int, drops: Drops, *, sentences: bool
) -> Iterator[Query]:
    """Read HotpotQA in the distractor setting, as its authors or the hub lay it out."""
    for where, record in _each(inputs):
        text = _get(record, "question", where, str)
        level = _LEVELS.get(str(record.get("level")))
        read = _hotpot_record(record, where, drops)
        if level is None:
            drops.queries["no level (easy, medium, hard)"] += 1
            continue
        if read is None:
            drops.queries["a supporting fact fits two paragraphs of one title, or neither"] += 1
            continue
        paragraphs, marked, supporting = read
        positives: list[str] = []
        negatives: list[str] = []
        for i, (title, texts) in enumerate(paragraphs):
            if sentences:
                for j, sentence in enumerate(texts):
                    (positives if (i, j) in marked else negatives).append(titled(title, sentence))
            else:
                whole = titled(title, "".join(texts))
                (positives if i in supporting else negatives).append(whole)
        key = str(record.get("_id", record.get("id", where.name)))
        yield Query(key, f"H{'s' if sentences else 'p'}-{level}", text, positives, negatives)


# MS MARCO


def msmarco(inputs: Sequence[Path], seed: int, drops: Drops) -> Iterator[Query]:
    """Read MS MARCO question answering, v1.1 and v2.1, by rows or by columns."""
    for where, record in _each(inputs):
        passages = _get(record, "passages", where, (list, dict))
        if isinstance(passages, dict):
            selected = _get(passages, "is_selected", where, list)
            texts = _get(passages, "passage_text", where, list)
        else:
            if not all(isinstance(p, dict) for p in passages):
                raise DataError(f"{where}: a passage is not an object.")
            selected = [p.get("is_selected") for p in passages]
            texts = [p.get("passage_text") for p in passages]
        texts = _strings(texts, "passage_text", where)
        if len(selected) != len(texts) or not all(s in (0, 1) for s in selected):
            raise DataError(f"{where}: is_selected must have one 0 or 1 for each passage.")
        yield Query(
            key=str(record.get("query_id", where.name)),
            subset="M",
            text=_get(record, "query", where, str),
            positives=[t for t, s in zip(texts, selected, strict=True) if s],
            negatives=[t for t, s in zip(texts, selected, strict=True) if not s],
        )


# Natural Questions


def words(text: str) -> str:
    """Return the words of a text, in lower case, each between blanks; to look for answers in.

    Examples
    --------
    >>> words("U.S. Route 66!"), words("66") in words("U.S. Route 66!"), words("6") in words("66")
    (' u s route 66 ', True, False)
    """
    found = re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold())
    return f" {' '.join(found)} "


class Fewest:
    """Keeps the values with the smallest draws: a sample in bounded memory."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._heap: list[tuple[int, str]] = []
        self._drawn: set[int] = set()

    def offer(self, drawn: bytes, value: str) -> None:
        """Keep the value if its draw is small enough; one draw is kept once."""
        number = -int.from_bytes(drawn, "big")
        if number in self._drawn or self._size < 1:
            return
        if len(self._heap) < self._size:
            heapq.heappush(self._heap, (number, value))
        elif number > self._heap[0][0]:
            self._drawn.discard(heapq.heapreplace(self._heap, (number, value))[0])
        else:
            return
        self._drawn.add(number)

    def values(self) -> list[str]:
        """Return what was kept, the smallest draw first."""
        return [value for _, value in sorted(self._heap, reverse=True)]


def _passages(items: list[Any], where: Place) -> list[str]:
    for item in items:
        if not isinstance(item, dict) or not isinstance(item.get("text"), str):
            raise DataError(f"{where}: a passage has no text.")
    return [titled(str(item.get("title") or ""), item["text"]) for item in items]


def _nq_positives(record: Record, where: Place) -> list[str]:
    if "positive_ctxs" in record:
        return _passages(_get(record, "positive_ctxs", where, list), where)
    found = _get(record, "ctxs", where, list)
    positives = _passages([c for c in found if not isinstance(c, dict) or c.get("isgold")], where)
    annotated = record.get("original_nq_annotated")
    if isinstance(annotated, dict) and isinstance(annotated.get("long_answer"), str):
        positives.append(titled(str(annotated.get("title") or ""), annotated["long_answer"]))
    return positives


def _borrowed(
    key: str, positives: list[str], answers: list[str], pool: list[tuple[str, str]], seed: int
) -> list[str]:
    """Return passages of other questions that contain none of the answers."""
    own = {words(text) for text in positives}
    chosen: dict[str, str] = {}
    for turn in range(4 * MAX_NEGATIVES):
        drawn = int.from_bytes(draw(seed, "borrow", key, str(turn)), "big")
        text, told = pool[drawn % len(pool)]
        if told not in own and not any(answer in told for answer in answers):
            chosen[told] = text
        if len(chosen) == MAX_NEGATIVES:
            break
    return list(chosen.values())


def natural_questions(inputs: Sequence[Path], seed: int, drops: Drops) -> Iterator[Query]:
    """Read Natural Questions in the layouts of dense passage retrieval.

    Read twice: first for the pool of passages that questions without negatives borrow from.
    """
    sample = Fewest(POOL)
    for where, record in _each(inputs):
        for text in _nq_positives(record, where):
            if visible(text):
                sample.offer(draw(seed, text), text)
    pool = [(text, words(text)) for text in sample.values()]
    for where, record in _each(inputs):
        question = _get(record, "question", where, str)
        answers = [words(a) for a in _strings(record.get("answers"), "answers", where)]
        answers = [a for a in answers if a.strip()]
        positives = _nq_positives(record, where)
        hard, easy = (
            _passages(_get(record, key, where, list) if record.get(key) else [], where)
            for key in ("hard_negative_ctxs", "negative_ctxs")
        )
        if not hard and not easy:
            if not answers:
                drops.queries["no answer by which to borrow negatives"] += 1
                continue
            easy = _borrowed(question, positives, answers, pool, seed)
        yield Query(question, "N", question, positives, hard, easy)


# arXiv


def taxonomy() -> dict[str, str]:
    """Return the names of arXiv's categories by code.

    Examples
    --------
    >>> taxonomy()["math.CA"]
    'Classical Analysis and ODEs'
    """
    file = resources.files("retrieval_quality.pipeline") / "taxonomy.json"
    names: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return names


def category_query(name: str) -> str:
    """Return a category's name as a query: in lower case but for abbreviations.

    Examples
    --------
    >>> category_query("Classical Analysis and ODEs"), category_query("K-Theory and Homology")
    ('classical analysis and ODEs', 'K-Theory and homology')
    """
    return " ".join(w if sum(map(str.isupper, w)) > 1 else w.lower() for w in name.split())


def related(
    code: str, names: dict[str, str], sizes: Counter[str], shared: Counter[tuple[str, str]]
) -> str | None:
    """Return the related category of an arXiv category, None if there is none.

    The category of the same archive that has most in common with it: papers listed in both over
    papers listed in either, in the input. If no category of the archive shares a paper, any
    archive's. Ties go to the first code. A category of the same name is an alias and does not
    count.

    Parameters
    ----------
    code : str
        The category.
    names : dict
        Name by code.
    sizes : Counter
        Papers by category.
    shared : Counter
        Papers by pair of categories, both orders.

    Examples
    --------
    >>> names = {"math.CA": "Analysis", "math.PR": "Probability", "math.NT": "Numbers"}
    >>> sizes = Counter({"math.CA": 9, "math.PR": 30, "math.NT": 4})
    >>> shared = Counter({("math.CA", "math.PR"): 3, ("math.CA", "math.NT"): 2})
    >>> related("math.CA", names, sizes, shared)  # 2 of 11 against 3 of 36
    'math.NT'
    """
    archive = code.split(".")[0]
    best: tuple[bool, Fraction, str] | None = None
    for other, name in sorted(names.items()):
        common = shared[code, other]
        if common and other != code and name != names[code]:
            share = Fraction(common, sizes[code] + sizes[other] - common)
            rank = (other.split(".")[0] == archive, share, other)
            if best is None or rank[:2] > best[:2]:
                best = rank
    return None if best is None else best[2]


def _papers(inputs: Sequence[Path]) -> Iterator[tuple[str, set[str], str]]:
    for where, record in _each(inputs):
        codes = set(_get(record, "categories", where, str).split())
        abstract = " ".join(_get(record, "abstract", where, str).split())
        yield str(record.get("id", where.name)), codes, abstract


def _withdrawn(abstract: str) -> bool:
    return len(abstract) < 300 and "withdrawn" in abstract.casefold()


def arxiv(inputs: Sequence[Path], seed: int, drops: Drops) -> Iterator[Query]:
    """Read arXiv's metadata snapshot, twice: to find related categories, then their abstracts."""
    names = taxonomy()
    sizes: Counter[str] = Counter()
    shared: Counter[tuple[str, str]] = Counter()
    for _, codes, _ in _papers(inputs):
        sizes.update(codes)
        shared.update((a, b) for a in codes for b in codes if a != b)
    drops.queries["category without a name"] += sum(code not in names for code in sizes)
    pairs: dict[str, str] = {}
    for code in sorted(c for c in sizes if c in names):
        other = related(code, names, sizes, shared)
        if other is None:
            drops.queries["no related category"] += 1
        else:
            pairs[code] = other
    positives, negatives = _abstracts(inputs, seed, pairs, drops)
    for code, other in pairs.items():
        extra = {"c1": code.lower(), "c2": other.lower(), "q2": category_query(names[other])}
        yield Query(
            code,
            "A",
            category_query(names[code]),
            positives[code].values(),
            negatives[code].values(),
            extra=extra,
        )


def _abstracts(
    inputs: Sequence[Path], seed: int, pairs: dict[str, str], drops: Drops
) -> tuple[dict[str, Fewest], dict[str, Fewest]]:
    """Draw, for each category, abstracts in it alone and in its related category alone."""
    relating: defaultdict[str, list[str]] = defaultdict(list)
    for code, other in pairs.items():
        relating[other].append(code)
    positives = {code: Fewest(MAX_POSITIVES) for code in pairs}
    negatives = {code: Fewest(MAX_NEGATIVES) for code in pairs}
    for paper, codes, abstract in _papers(inputs):
        if not visible(abstract):
            drops.texts["blank"] += 1
            continue
        if _withdrawn(abstract):
            drops.texts["withdrawn paper"] += 1
            continue
        for code in codes & pairs.keys():
            if pairs[code] not in codes:
                positives[code].offer(draw(seed, code, paper), abstract)
        for other in codes & relating.keys():
            for code in relating[other]:
                if code not in codes:
                    negatives[code].offer(draw(seed, code, paper), abstract)
    return positives, negatives


# texts of one's own


def own_texts(inputs: Sequence[Path], seed: int, drops: Drops) -> Iterator[Query]:
    """Read records with ``q``, ``p``, ``n`` and, if there is one, ``id``: one's own texts."""
    for where, record in _each(inputs):
        name = str(record.get("id", where.name))
        subset, _, number = name.rpartition("-")
        texts = {key: _strings(record.get(key), f"'{key}'", where) for key in ("p", "n")}
        yield Query(
            key=name,
            subset=subset if subset and number.isdecimal() else "T",
            text=_get(record, "q", where, str),
            positives=texts["p"],
            negatives=texts["n"],
        )


_HOTPOT = "CC BY-SA 4.0"
SOURCES = {
    "arxiv": Source(
        arxiv,
        "CC0 (the metadata)",
        "query: the category's name; positives: abstracts listed in it and not in the related "
        "category; negatives: the reverse; related: the category of the same archive (of any, "
        "where none shares a paper) with the largest share of papers in common",
    ),
    "hotpotqa-paragraphs": Source(
        partial(hotpotqa, sentences=False),
        _HOTPOT,
        "positives: the supporting paragraphs, with their titles; negatives: all other paragraphs",
    ),
    "hotpotqa-sentences": Source(
        partial(hotpotqa, sentences=True),
        _HOTPOT,
        "positives: the supporting sentences, with their titles; negatives: all other sentences",
    ),
    "msmarco": Source(
        msmarco,
        "MS MARCO terms: non-commercial research only, do not redistribute",
        "positives: the selected passages; negatives: the others",
    ),
    "nq": Source(
        natural_questions,
        "CC BY-SA 3.0",
        "positives: the relevant passages; negatives: hard ones before others; where there are "
        "none, passages of other questions that contain none of the answers",
    ),
    "texts": Source(own_texts, "as its owner says", "as given, in the order given", shuffled=False),
}
