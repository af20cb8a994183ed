"""The sources' own formats, each read into queries with texts that answer them and that do not."""

from __future__ import annotations

import heapq
import json
import re
import unicodedata
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from hashlib import blake2b
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from retrieval_quality.errors import DataError
from retrieval_quality.pipeline.files import Place, Record, records

MAX_POSITIVES = 20
MAX_NEGATIVES = 40
PER_CATEGORY = 3
"""Samples of an arXiv category: with about 150 categories some hundreds, as in the paper's data."""
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
    name : str or None
        The id that it was given, which it keeps; None to number it.
    where : str
        Where it stands, for a message.
    """

    key: str
    subset: str
    text: str
    positives: list[str]
    negatives: list[str]
    easy: list[str] = field(default_factory=list)
    extra: dict[str, str] = field(default_factory=dict)
    name: str | None = None
    where: str = ""


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
    formats : str
        What its files may look like, for ``--help``.
    shuffled : bool
        Whether texts are put into an order drawn by the seed; otherwise they stay as given.
    asks_again : bool
        Whether one query makes several samples, with other texts each.
    """

    read: Callable[..., Iterator[Query]]
    licence: str
    rule: str
    formats: str
    shuffled: bool = True
    asks_again: bool = False


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

_POSITIVE = ("positive_passages", "positives", "positive", "pos")
_NEGATIVE = ("negative_passages", "negatives", "negative", "neg")


def msmarco(inputs: Sequence[Path], seed: int, drops: Drops) -> Iterator[Query]:
    """Read MS MARCO: question answering v1.1 and v2.1, or lists of positive and negative passages.

    The first by rows or by columns, the second as Tevatron and RankingGPT write it.
    """
    for where, record in _each(inputs):
        if "passages" in record or not any(key in record for key in _POSITIVE):
            positives, negatives = _selected(record, where)
        else:
            positives, negatives = (
                _listed_passages(record, keys, where) for keys in (_POSITIVE, _NEGATIVE)
            )
        asked = "query_text" if "query" not in record and "query_text" in record else "query"
        yield Query(
            key=str(record.get("query_id", where.name)),
            subset="M",
            text=_get(record, asked, where, str),
            positives=positives,
            negatives=negatives,
        )


def _selected(record: Record, where: Place) -> tuple[list[str], list[str]]:
    """Return the passages of a record of question answering: those selected, and the others."""
    passages = record.get("passages")
    if isinstance(passages, str):
        try:
            passages = json.loads(passages)
        except ValueError:
            raise DataError(f"{where}: 'passages' is a text, but no JSON.") from None
    passages = _get({**record, "passages": passages}, "passages", where, (list, dict))
    if isinstance(passages, dict):
        selected = _get(passages, "is_selected", where, list)
        texts = _get(passages, "passage_text", where, list)
    else:
        if not all(isinstance(p, dict) for p in passages):
            raise DataError(f"{where}: a passage is not an object.")
        selected = [p.get("is_selected") for p in passages]
        texts = [p.get("passage_text") for p in passages]
    texts = _strings(texts, "passage_text", where)
    if len(selected) != len(texts) or not all(
        isinstance(s, int | float) and s in (0, 1) for s in selected
    ):
        raise DataError(f"{where}: is_selected must have one 0 or 1 for each passage.")
    marked = list(zip(texts, selected, strict=True))
    return [t for t, s in marked if s], [t for t, s in marked if not s]


def _listed_passages(record: Record, keys: Sequence[str], where: Place) -> list[str]:
    """Return the passages under the one of the keys that is there: texts, or objects with one."""
    found = [key for key in keys if key in record]
    if len(found) != 1:
        told = " and ".join(found) or f"none of {', '.join(keys)}"
        raise DataError(f"{where}: there is {told}; one list of passages is needed.")
    value = record[found[0]]
    texts: list[str] = []
    for item in [value] if isinstance(value, str | dict) else _get(record, found[0], where, list):
        text = item.get("text") if isinstance(item, dict) else item
        if not isinstance(text, str):
            raise DataError(f"{where}: a passage in '{found[0]}' has no text.")
        title = item.get("title") if isinstance(item, dict) else None
        texts.append(titled("" if title in (None, "-") else str(title), text))
    return texts


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
    """Read Natural Questions as its authors or the hub lay it out, or dense passage retrieval does.

    Read twice: first for the pool of passages that questions without negatives borrow from.
    """
    sample = Fewest(POOL)
    for where, record in _each(inputs):
        if "long_answer_candidates" in record:
            continue
        for text in _nq_positives(record, where):
            if visible(text):
                sample.offer(draw(seed, text), text)
    pool = [(text, words(text)) for text in sample.values()]
    for where, record in _each(inputs):
        if "long_answer_candidates" in record:
            yield _original(record, where, drops)
            continue
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


Span = tuple[int, int]


def _original(record: Record, where: Place, drops: Drops) -> Query:
    """Read a line of Natural Questions itself: a page in tokens, and candidates for a long answer.

    Positives are the candidates that an annotator chose as the long answer; negatives are the
    other outermost candidates of the page, but for those that contain a short answer. Where two
    people chose spans that overlap, the one that was chosen more often stands for both, or else
    the shorter.
    """
    asked = record.get("question")
    text = asked.get("text") if isinstance(asked, dict) else record.get("question_text")
    if not isinstance(text, str):
        raise DataError(f"{where}: 'question_text' is missing; is this a file of the named source?")
    tokens, title = _page(record, where)
    candidates = _spans(record["long_answer_candidates"], "a candidate", len(tokens), where)
    annotations = record.get("annotations")
    if isinstance(annotations, dict):
        chosen = annotations.get("long_answer")
    else:
        annotations = _get(record, "annotations", where, list)
        if not all(isinstance(one, dict) for one in annotations):
            raise DataError(f"{where}: an annotation is not an object.")
        chosen = [one.get("long_answer") for one in annotations]
    votes = Counter(
        span for span, _ in _spans(chosen, "a long answer", len(tokens), where) if span[0] >= 0
    )
    positives: list[Span] = []
    for span in sorted(votes, key=lambda s: (-votes[s], s[1] - s[0], s)):
        if any(_overlap(span, other) for other in positives):
            drops.labels["long answer that overlaps another"] += 1
        else:
            positives.append(span)
    outermost: list[Span] = []
    for span, top in sorted(candidates, key=lambda c: (c[0][0], -c[0][1])):
        if top and not any(_overlap(span, other) for other in (*positives, *outermost[-1:])):
            outermost.append(span)
    answers = {words(_joined(tokens, span)) for span in _short_answers(annotations, tokens, where)}
    own, others = (
        [titled(title, _joined(tokens, span)) for span in spans]
        for spans in (sorted(positives), outermost)
    )
    bare = [t for t in others if not any(a.strip() and a in words(t) for a in answers)]
    drops.texts["holds a short answer, but nobody chose it"] += len(others) - len(bare)
    key = str(record.get("example_id", record.get("id", where.name)))
    return Query(key, "N", text, own, bare)


def _short_answers(annotations: Any, tokens: list[str], where: Place) -> set[Span]:
    """Return the spans of the short answers of all annotations."""
    if isinstance(annotations, dict):
        told = annotations.get("short_answers") or []
    else:
        told = [one.get("short_answers") or [] for one in annotations]
    if not isinstance(told, list):
        raise DataError(f"{where}: 'short_answers' is {type(told).__name__}, not a list.")
    return {
        span
        for one in told
        for span, _ in _spans(one, "a short answer", len(tokens), where)
        if span[0] >= 0
    }


def _page(record: Record, where: Place) -> tuple[list[str], str]:
    """Return the tokens of a page, blank where they are markup, and its title."""
    page = record.get("document")
    if isinstance(page, dict):
        tokens = page.get("tokens")
        title = page.get("title")
    else:
        tokens, title = record.get("document_tokens"), record.get("document_title")
        if tokens is None and isinstance(record.get("document_text"), str):
            tokens = [
                {"token": word, "html_token": word[:1] == "<" and word[-1:] == ">"}
                for word in record["document_text"].split(" ")
            ]
    if isinstance(tokens, dict):
        words, marks = tokens.get("token"), tokens.get("is_html")
    elif isinstance(tokens, list) and all(isinstance(t, dict) for t in tokens):
        words = [t.get("token") for t in tokens]
        marks = [t.get("html_token", t.get("is_html", False)) for t in tokens]
    else:
        words, marks = None, None
    words = _strings(words, "the tokens of the page", where)
    if not isinstance(marks, list) or len(marks) != len(words):
        raise DataError(f"{where}: each token needs a mark that says whether it is HTML.")
    blanked = ["" if mark else word for word, mark in zip(words, marks, strict=True)]
    return blanked, title if isinstance(title, str) else ""


def _spans(value: Any, what: str, most: int, where: Place) -> list[tuple[Span, bool]]:
    """Return spans of tokens, and whether each is outermost; from objects or from columns."""
    if isinstance(value, dict):
        columns = [value.get(key) for key in ("start_token", "end_token", "top_level")]
        if columns[2] is None and isinstance(columns[0], list):
            columns[2] = [True] * len(columns[0])
        if not all(isinstance(c, list) for c in columns) or len({len(c) for c in columns}) > 1:  # type: ignore[arg-type]
            raise DataError(f"{where}: the columns of {what} do not fit.")
        rows = list(zip(*columns, strict=True))  # type: ignore[arg-type]
    elif isinstance(value, list) and all(isinstance(one, dict) for one in value):
        rows = [
            (one.get("start_token"), one.get("end_token"), one.get("top_level", True))
            for one in value
        ]
    else:
        raise DataError(f"{where}: {what} must have start_token and end_token.")
    for start, end, _ in rows:
        whole = type(start) is int and type(end) is int
        if not whole or not (start == end == -1 or 0 <= start < end <= most):
            raise DataError(
                f"{where}: {what} goes from {start} to {end}, but the page has {most} tokens."
            )
    return [((start, end), bool(top)) for start, end, top in rows]


def _overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _joined(tokens: list[str], span: Span) -> str:
    text = " ".join(word for word in tokens[slice(*span)] if word)
    text = text.replace("``", '"').replace("''", '"')
    return re.sub(r" (?=[.,;:!?)\]%]|'s\b|n't\b)|(?<=[(\[]) ", "", text)


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


def _papers(
    inputs: Sequence[Path], newest: dict[str, tuple[int, int]]
) -> Iterator[tuple[str, set[str], str]]:
    """Yield the papers: id without version, categories, abstract; of several versions the last."""
    for number, (where, record) in enumerate(_each(inputs)):
        codes = set(_get(record, "categories", where, str).split())
        abstract = " ".join(_get(record, "abstract", where, str).split())
        paper, version = versioned(str(record.get("id", where.name)))
        if newest.get(paper, (version, -number)) == (version, -number):
            yield paper, codes, abstract


def versioned(name: str) -> tuple[str, int]:
    """Return a paper's id without its version, and the version; 0 where it has none.

    Examples
    --------
    >>> versioned("1410.2282v3"), versioned("math/0211159"), versioned("arXiv:2101.00001V2")
    (('1410.2282', 3), ('math/0211159', 0), ('2101.00001', 2))
    """
    bare = re.sub(r"^\s*arxiv:\s*", "", name, flags=re.IGNORECASE).strip()
    found = re.fullmatch(r"(.*\d)[vV](\d{1,4})", bare)
    return (found[1], int(found[2])) if found else (bare, 0)


def _newest(inputs: Sequence[Path], drops: Drops) -> dict[str, tuple[int, int]]:
    """Return, for papers that are there more than once, the last version and its (first) place.

    Ids are held as 8 bytes each, so that the whole snapshot needs some 20 MB.
    """
    held = array("Q")
    for where, record in _each(inputs):
        told = versioned(str(record.get("id", where.name)))[0].encode("utf-8", "surrogatepass")
        held.append(int.from_bytes(blake2b(told, digest_size=8).digest(), "big"))
    values, counts = np.unique(np.frombuffer(held, dtype=np.uint64), return_counts=True)
    again = set(values[counts > 1].tolist())
    newest: dict[str, tuple[int, int]] = {}
    seen = 0
    for number, (where, record) in enumerate(_each(inputs) if again else ()):
        paper, version = versioned(str(record.get("id", where.name)))
        told = paper.encode("utf-8", "surrogatepass")
        if int.from_bytes(blake2b(told, digest_size=8).digest(), "big") in again:
            seen += 1
            newest[paper] = max(newest.get(paper, (-1, 0)), (version, -number))
    drops.texts["another version of the same paper"] += seen - len(newest)
    return newest


def _withdrawn(abstract: str) -> bool:
    return len(abstract) < 300 and "withdrawn" in abstract.casefold()


def arxiv(
    inputs: Sequence[Path], seed: int, drops: Drops, *, per_category: int = PER_CATEGORY
) -> Iterator[Query]:
    """Read arXiv's metadata snapshot: versions, then related categories, then their abstracts.

    The samples of a category have no text in common; a further one is made where texts are left.
    """
    names = taxonomy()
    newest = _newest(inputs, drops)
    sizes: Counter[str] = Counter()
    shared: Counter[tuple[str, str]] = Counter()
    for _, codes, _ in _papers(inputs, newest):
        sizes.update(codes)
        shared.update((a, b) for a in codes for b in codes if a != b)
    drops.queries["category without a name"] += sum(code not in names for code in sizes)
    pairs: dict[str, str] = {}
    named: set[str] = set()
    for code in sorted(c for c in sizes if c in names):
        other = related(code, names, sizes, shared)
        if names[code] in named:
            drops.queries["another code of a category"] += 1
        elif other is None:
            drops.queries["no related category"] += 1
        else:
            named.add(names[code])
            pairs[code] = other
    papers = _papers(inputs, newest)
    positives, negatives = _abstracts(papers, seed, pairs, per_category, drops)
    for code, other in pairs.items():
        extra = {"c1": code.lower(), "c2": other.lower(), "q2": category_query(names[other])}
        of, against = positives[code].values(), negatives[code].values()
        for part in range(per_category):
            own = of[part * MAX_POSITIVES : (part + 1) * MAX_POSITIVES]
            others = against[part * MAX_NEGATIVES : (part + 1) * MAX_NEGATIVES]
            if part and (len(own) < 2 or not others):
                break
            key = f"{code}#{part}" if part else code
            yield Query(key, "A", category_query(names[code]), own, others, extra=dict(extra))


def _abstracts(
    papers: Iterator[tuple[str, set[str], str]],
    seed: int,
    pairs: dict[str, str],
    per_category: int,
    drops: Drops,
) -> tuple[dict[str, Fewest], dict[str, Fewest]]:
    """Draw, for each category, abstracts in it alone and in its related category alone."""
    relating: defaultdict[str, list[str]] = defaultdict(list)
    for code, other in pairs.items():
        relating[other].append(code)
    positives = {code: Fewest(per_category * MAX_POSITIVES) for code in pairs}
    negatives = {code: Fewest(per_category * MAX_NEGATIVES) for code in pairs}
    for paper, codes, abstract in papers:
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
    """Read records with ``q``, ``p``, ``n`` and, if there is one, ``id``: one's own texts.

    An id is kept as it is, or refused with the place of its record.
    """
    given: dict[str, str] = {}
    for where, record in _each(inputs):
        name = own_id(record.get("id"), where)
        if name is not None and name in given:
            raise DataError(f"{where}: the id {name!r} was given to {given[name]} already.")
        if name is not None:
            given[name] = where.brief
        texts = {key: _strings(record.get(key), f"'{key}'", where) for key in ("p", "n")}
        yield Query(
            key=where.name if name is None else name,
            subset="T" if name is None else name.rpartition("-")[0],
            text=_get(record, "q", where, str),
            positives=texts["p"],
            negatives=texts["n"],
            name=name,
            where=where.brief,
        )


def own_id(value: Any, where: object) -> str | None:
    """Return the id of a record of one's own; None where there is none.

    Parameters
    ----------
    value : object
        As it stands in the record.
    where : object
        The record's place, for the message.

    Raises
    ------
    DataError
        It is not of the form NAME-NUMBER that the published data have: what stands before the
        first ``-`` is the dataset that the book groups by.

    Examples
    --------
    >>> own_id("my-wiki-7", ""), own_id(None, "")
    ('my-wiki-7', None)
    """
    if value is None:
        return None
    if not isinstance(value, str) or not re.fullmatch(r"\w[\w.+ -]*-[0-9]{1,18}", value):
        raise DataError(
            f"{where}: the id {value!r} is not of the form NAME-NUMBER, such as 'kb-17': what "
            "stands before the first '-' is the dataset that the book groups by. Rename it, or "
            "leave `id` out to have one given."
        )
    return value


_HOTPOT = "CC BY-SA 4.0"
_HOTPOT_FORMATS = (
    "HotpotQA in the distractor setting (train or dev), as its authors or the hub lay it out"
)
SOURCES = {
    "arxiv": Source(
        arxiv,
        "CC0 (the metadata)",
        "query: the category's name; positives: abstracts listed in it and not in the related "
        "category; negatives: the reverse; related: the category of the same archive (of any, "
        "where none shares a paper) with the largest share of papers in common; of several "
        "versions of a paper the last; several samples a category, with other texts each",
        "the metadata snapshot: id, categories, abstract",
        asks_again=True,
    ),
    "hotpotqa-paragraphs": Source(
        partial(hotpotqa, sentences=False),
        _HOTPOT,
        "positives: the supporting paragraphs, with their titles; negatives: all other paragraphs",
        _HOTPOT_FORMATS,
    ),
    "hotpotqa-sentences": Source(
        partial(hotpotqa, sentences=True),
        _HOTPOT,
        "positives: the supporting sentences, with their titles; negatives: all other sentences",
        _HOTPOT_FORMATS,
    ),
    "msmarco": Source(
        msmarco,
        "MS MARCO terms: non-commercial research only, do not redistribute",
        "positives: the selected passages; negatives: the others",
        "question answering v1.1 or v2.1 (query, passages with is_selected), by rows or by "
        "columns; or query with positive_passages and negative_passages (Tevatron, RankingGPT)",
    ),
    "nq": Source(
        natural_questions,
        "CC BY-SA 3.0",
        "positives: the relevant passages (in the original: the long answers that annotators "
        "chose); negatives: hard ones before others (in the original: the other outermost "
        "candidates of the page that hold no short answer); where there are none, passages of "
        "other questions that contain none of the answers",
        "the original lines (document_tokens or document_text, long_answer_candidates, "
        "annotations; the dev set has five annotations a question, the training set one, which "
        "is too few for a sample), the hub's rows, or the layouts of dense passage retrieval "
        "(positive_ctxs, hard_negative_ctxs; or ctxs with isgold)",
    ),
    "texts": Source(
        own_texts,
        "as its owner says",
        "as given, in the order given",
        "your own: q (a question), p (texts that answer it), n (texts that do not), and id "
        "(NAME-NUMBER) if you have one",
        shuffled=False,
    ),
}
FILES = "JSON (an array, or columns), JSON lines, or Parquet; gzip or not; UTF-8"
"""Files that a source can be read from, for ``--help``."""
