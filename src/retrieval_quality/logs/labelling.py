"""Labels from a language model for what was retrieved, and what its errors cost.

One document a call, so that no label depends on what else was in the list; the same question and
document are asked once, in whatever rows they stand. Asking, the store of replies, the dry run and
the cost limit are those of the pipeline (`retrieval_quality.pipeline.client`).

The judge's errors are measured on documents that a person labelled. With ``caught`` the share of
the relevant documents that it calls so and ``false`` that of the others, it calls a share
``q = caught p + false (1 - p)`` of all retrieved documents relevant; solved for p [1]_ that
corrects precision, and T at one K, which is linear in precision. No other measure is corrected.

References
----------
.. [1] W. Rogan, B. Gladen, "Estimating prevalence from the results of a screening test", American
   Journal of Epidemiology, 1978.
"""

from __future__ import annotations

import csv
import hashlib
import heapq
import io
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from retrieval_quality import outputs
from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.logs import rows as table
from retrieval_quality.logs.account import Account, quote
from retrieval_quality.logs.files import parse, table_rows
from retrieval_quality.logs.formats import Log
from retrieval_quality.logs.measuring import key_of, wilson
from retrieval_quality.logs.rows import FieldError, Row, as_label
from retrieval_quality.pipeline import client, prompts
from retrieval_quality.pipeline.answer import without_thoughts
from retrieval_quality.pipeline.client import Estimate, Executor, Tally
from retrieval_quality.pipeline.settings import Settings
from retrieval_quality.pipeline.store import Reply, Request, Store

PROMPT = "relevance-v1"
STAGE = "label"
LABELLED, JUDGEMENTS = "labelled.parquet", "judgements.csv"
TO_LABEL, MANIFEST, AGREEMENT = "hand.csv", "label.json", "agreement.csv"
FILES = (LABELLED, JUDGEMENTS, TO_LABEL, MANIFEST, AGREEMENT)
MAX_TOKENS = 64
LONGEST = 20_000
"""Characters of a document that are sent; the rest is cut off and counted."""
HAND = 150
"""Documents that are drawn for a person to label."""
OUTPUTS = ("json_schema", "grammar", "text")
_SCHEMA = {
    "type": "json_schema",
    "json_schema": {
        "name": "relevance",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"relevance": {"type": "integer", "enum": [0, 1, 2, 3]}},
            "required": ["relevance"],
            "additionalProperties": False,
        },
    },
}
_GRAMMAR = {"grammar": "root ::= [0-3]"}
_FORMATS = {
    "json_schema": 'Reply with JSON only: {"relevance": N}, where N is 0, 1, 2 or 3.',
    "grammar": "Reply with one digit only: 0, 1, 2 or 3.",
    "text": "Reply with one line only: Relevance: N, where N is 0, 1, 2 or 3.",
}


@dataclass(frozen=True)
class Plan:
    """What is to be labelled.

    Attributes
    ----------
    sample : int
        Rows, drawn by a hash of seed, query and place: the same rows whatever stands beside them.
    top_k : int or None
        K; None: the length of each list.
    depth : str
        ``k``, ``2k`` or a number of documents.
    relevant_from : int
        Judgements from here on become the label 1, the others 0.
    seed : int
    output : str
        How the judge is held to a number: one of `OUTPUTS`.
    longest : int
        Characters of a document that are sent.
    """

    sample: int = 200
    top_k: int | None = None
    depth: str = "2k"
    relevant_from: int = 2
    seed: int = 1
    output: str = "json_schema"
    longest: int = LONGEST

    def __post_init__(self) -> None:
        if self.depth not in ("k", "2k") and not (self.depth.isdigit() and int(self.depth) > 0):
            raise UsageError(f"--depth {quote(self.depth)}: k, 2k, or a number of documents")
        if self.output not in OUTPUTS:
            raise UsageError(f"--output {quote(self.output)}: {', '.join(OUTPUTS)}")
        if self.relevant_from not in (1, 2, 3):
            raise UsageError("--relevant-from: judgements go from 0 to 3; give 1, 2 or 3")

    def reach(self, row: Row) -> int:
        """How many documents of a row are labelled.

        Examples
        --------
        >>> row = Row(documents=list("abcdefgh"))
        >>> Plan(top_k=3).reach(row), Plan(depth="k").reach(row), Plan(depth="5").reach(row)
        (6, 8, 5)
        """
        size = len(row.documents)
        if self.depth.isdigit():
            return min(int(self.depth), size)
        k = size if self.top_k is None else self.top_k
        return min(k if self.depth == "k" else 2 * k, size)


def draw(rows: Iterable[Row], plan: Plan, account: Account) -> list[Row]:
    """Draw the rows to label, among those that have a query and a text for every document.

    Raises
    ------
    DataError
        No row has both.
    """

    def usable() -> Iterator[tuple[str, int, Row]]:
        for number, row in enumerate(rows):
            if not row.documents:
                account.note("rows with nothing retrieved, nothing to label", row.row)
            elif row.query is None or not row.query.strip():
                account.note("rows without a query, not to be labelled", row.row)
            elif row.texts is None or not all((row.texts or [])[: plan.reach(row)]):
                account.note("rows without the documents' texts, not to be labelled", row.row)
            else:
                said = f"{plan.seed}\0{key_of(row)}\0{row.row}"
                yield hashlib.sha256(said.encode("utf-8", "replace")).hexdigest(), number, row

    drawn = heapq.nsmallest(plan.sample, usable(), key=lambda one: one[:2])
    if not drawn:
        told = "; ".join(str(one) for one in account.notices.values())
        raise DataError(f"{account.source}: no row has a query and the documents' texts ({told})")
    return [row for _, _, row in sorted(drawn, key=lambda one: one[1])]


def request(query: str, document: str, settings: Settings, plan: Plan) -> Request:
    """Return the request for one judgement."""
    prompt = prompts.load(PROMPT)
    values = {
        "query": prompts.quoted(query),
        "document": prompts.quoted(document[: plan.longest]),
        "format": _FORMATS[plan.output],
    }
    return settings.request(
        prompt.messages(values),
        prompt.version,
        max_tokens=MAX_TOKENS,
        response_format=_SCHEMA if plan.output == "json_schema" else None,
        extra_body=_GRAMMAR if plan.output == "grammar" else None,
    )


def requests(rows: Iterable[Row], settings: Settings, plan: Plan) -> Iterator[Request]:
    """Yield a request for every document within reach."""
    for row in rows:
        for text in (row.texts or [])[: plan.reach(row)]:
            yield request(row.query or "", text or "", settings, plan)


@dataclass
class Labelled:
    """What a run of `label` gave."""

    tally: Tally
    rows: int
    labels: int
    failed: Counter[str] = field(default_factory=Counter)


def label(
    log: Log,
    folder: Path,
    settings: Settings,
    plan: Plan,
    *,
    hand: Path | None = None,
    dry_run: bool = False,
    executor: Executor | None = None,
) -> Labelled | Estimate:
    """Ask for the labels of a sample; resume where it stopped; write the labelled table.

    Writes into `folder`: ``labelled.parquet`` (the sampled rows with labels 0 and 1; a document
    that was not reached, or whose judgement failed, has none), ``judgements.csv`` (0–3, with the
    reason where there is none), ``hand.csv`` (documents for a person to label), ``label.json``, and
    with `hand` ``agreement.csv``.

    Parameters
    ----------
    log : Log
    folder : path
    settings : Settings
        The model, its server and the limits.
    plan : Plan
    hand : path, optional
        A person's labels: a CSV with ``row``, ``document`` and ``label``, such as the filled in
        ``hand.csv``.
    dry_run : bool
        Only say calls, tokens and cost; nothing is asked or written.
    executor : Executor, optional
        Another way of asking.

    Raises
    ------
    DataError, UsageError
        As `retrieval_quality.pipeline.client.ask`. Every reply that was paid is kept.
    """
    drawn = draw(log.rows(), plan, log.account)
    if dry_run:
        with (
            TemporaryDirectory() as empty,
            Store(folder if folder.is_dir() else empty) as store,
        ):
            return client.estimate(requests(drawn, settings, plan), store, settings)
    given = _read_hand(hand, plan) if hand else None
    outputs.check_ours(folder, FILES)
    with outputs.sole_run(folder, "logs label"), Store(folder) as store:
        settings.price()
        total = sum(plan.reach(row) for row in drawn)
        try:
            tally = client.ask(
                requests(drawn, settings, plan),
                store,
                settings,
                stage=STAGE,
                total=total,
                executor=executor,
            )
        finally:
            found = _write(drawn, folder, store, settings, plan, log, given)
        found.tally = tally
    return found


def _write(
    drawn: list[Row],
    folder: Path,
    store: Store,
    settings: Settings,
    plan: Plan,
    log: Log,
    given: dict[tuple[str, str], int] | None,
) -> Labelled:
    found = Labelled(Tally(), len(drawn), 0)
    lines: list[list[Any]] = []
    labelled = []
    for row in drawn:
        if row.labels is not None:
            log.account.note("rows whose labels were replaced", row.row)
        labels: list[float | None] = [None] * len(row.documents)
        for i in range(plan.reach(row)):
            text = (row.texts or [])[i] or ""
            if len(text) > plan.longest:
                log.account.note(f"documents cut at {plan.longest} characters", row.row)
            reply = store.get(request(row.query or "", text, settings, plan).key)
            verdict = read_reply(reply) if reply is not None else Verdict(None, "not asked yet")
            if verdict.label is None:
                found.failed[str(verdict.reason)] += 1
            else:
                labels[i] = float(verdict.label >= plan.relevant_from)
                found.labels += 1
            lines.append(
                [row.query_id, row.row, i + 1, row.documents[i], verdict.label, verdict.reason]
            )
        kept = replace(row, labels=labels, n_relevant=None, missed=None)
        labelled.append(kept)
    if not found.labels:
        return found
    table.write(labelled, folder / LABELLED, log.account)
    header = ["query_id", "row", "rank", "document", "judgement", "reason"]
    judged = pd.DataFrame(lines, columns=header).astype({"judgement": "Int64"})
    outputs.write_text(folder / JUDGEMENTS, judged.to_csv(index=False, lineterminator="\n"))
    if not (folder / TO_LABEL).exists():
        outputs.write_text(folder / TO_LABEL, _to_label(drawn, plan))
    if given is not None:
        agreed = agreement(pairs(labelled, given), labelled, plan)
        outputs.write_text(folder / AGREEMENT, agreed.to_csv(index=False, lineterminator="\n"))
    told = {
        "settings": settings.recorded(),
        "prompt": prompts.load(PROMPT).version,
        "plan": plan.__dict__,
        "source": log.path.name,
        "rows": found.rows,
        "labels": found.labels,
        "failed": dict(found.failed),
        "spent": store.spent(STAGE).as_dict(),
        "notices": log.account.as_list(),
    }
    outputs.write_text(folder / MANIFEST, json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    outputs.mark_ours(folder, FILES)
    return found


def _to_label(drawn: list[Row], plan: Plan) -> str:
    """Draw documents for a person, without what the model said of them."""
    every = [(row, i) for row in drawn for i in range(plan.reach(row))]
    rng = np.random.default_rng(plan.seed)
    chosen = sorted(rng.choice(len(every), min(HAND, len(every)), replace=False).tolist())
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["row", "document", "query", "text", "label"])
    for number in chosen:
        row, i = every[number]
        writer.writerow([row.row, row.documents[i], row.query, (row.texts or [])[i], ""])
    return text.getvalue()


# --- reading a judgement ------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """A judgement from 0 to 3, or None and the reason."""

    label: int | None
    reason: str | None = None


_FENCE = re.compile(r"```[a-z]*\s*(.*?)\s*```", re.DOTALL | re.IGNORECASE)
_STATED = re.compile(r"(?im)^\W*relevance\W*[:=]?\s*([^\s*_]+)[\s*_.]*$")
_UNREADABLE = "not one whole number from 0 to 3"


def read_reply(reply: Reply) -> Verdict:
    """Return the judgement in a reply; what is no answer has none.

    Examples
    --------
    >>> read_reply(Reply("2", reason="truncated at 4 tokens")).reason
    'truncated at 4 tokens'
    """
    if reply.reason is not None:
        return Verdict(None, reply.reason)
    return read_judgement(reply.text or "")


def read_judgement(text: str) -> Verdict:
    r"""Read a judgement strictly: the whole reply, or its last line.

    Examples
    --------
    >>> [read_judgement(one).label for one in ("2", '{"relevance": 3}', "So: Relevance: 1")]
    [2, 3, None]
    >>> read_judgement("It fits.").reason
    'not one whole number from 0 to 3'
    >>> read_judgement("Relevance: 1\nRelevance: 2").reason
    'two different judgements'
    """
    bare = without_thoughts(text)
    if bare is None:
        return Verdict(None, "thinking without a judgement")
    bare = _FENCE.sub(r"\1", bare).strip().strip("*_ \n")
    if bare.startswith("{"):
        try:
            found = parse(bare)
        except ValueError:
            return Verdict(None, _UNREADABLE)
        value = found.get("relevance") if isinstance(found, dict) else None
        return _whole(value)
    if re.fullmatch(r"[0-3]\.?", bare):
        return Verdict(int(bare[0]))
    stated = [_whole(one.group(1)) for one in _STATED.finditer(bare)]
    last = bare.splitlines()[-1] if bare else ""
    if not stated or not _STATED.match(last):
        return Verdict(None, _UNREADABLE)
    if len({one.label for one in stated}) > 1:
        return Verdict(None, "two different judgements")
    return stated[-1]


def _whole(value: object) -> Verdict:
    if isinstance(value, str) and re.fullmatch(r"[0-3]\.?", value):
        return Verdict(int(value[0]))
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 3:
        return Verdict(value)
    return Verdict(None, _UNREADABLE)


# --- a person's labels --------------------------------------------------------------------------


def _read_hand(path: Path, plan: Plan) -> dict[tuple[str, str], int]:
    """Read a person's labels by row and document; 0 and 1, or the scale of the judge."""
    account = Account(path.name)
    found: dict[tuple[str, str], float] = {}
    for place, row in table_rows(path, account):
        if not {"row", "document", "label"} <= row.keys():
            raise DataError(f"{path}: needs the columns row, document and label")
        try:
            value = as_label(row["label"], "label")
            if value is not None and not 0 <= value <= 3:
                raise FieldError("label", f"{quote(row['label'])} is not 0, 1, 2 or 3")
        except FieldError as wrong:
            account.fault(place, wrong.field, wrong.what)
            continue
        if value is not None:
            found[row["row"], row["document"]] = value
    account.settle()
    if not found:
        raise DataError(f"{path}: no document has a label")
    cut = plan.relevant_from if max(found.values()) > 1 else 1
    return {key: int(value >= cut) for key, value in found.items()}


def pairs(rows: Iterable[Row], hand: dict[tuple[str, str], int]) -> pd.DataFrame:
    """Match a person's labels with the model's.

    Returns
    -------
    DataFrame
        ``query``, ``person``, ``model`` (0 or 1): one line a document that both labelled.
    """
    lines = []
    for row in rows:
        for document, one in zip(row.documents, row.labels or [], strict=False):
            if one is not None and (row.row, document) in hand:
                lines.append((key_of(row), hand[row.row, document], int(one)))
    if not lines:
        raise DataError("no document was labelled by both: compare rows and document ids")
    return pd.DataFrame(lines, columns=["query", "person", "model"])


def agreement(
    both: pd.DataFrame,
    rows: list[Row],
    plan: Plan,
    alpha: float = 0.5,
    replicates: int = 2000,
) -> pd.DataFrame:
    """Say how well the model agrees with the person, and correct what is linear in the labels.

    Parameters
    ----------
    both : DataFrame
        From `pairs`.
    rows : list of Row
        The labelled rows.
    plan : Plan
    alpha : float
        Of T.
    replicates : int
        Draws for the intervals; queries are drawn, of the hand sample and of the log.

    Returns
    -------
    DataFrame
        ``what``, ``value``, ``low``, ``high`` (95%), ``n``, ``reason``: agreement, Cohen's kappa,
        caught, false_alarms; P and, where K is one, T, each as labelled and corrected.
    """
    person = both["person"].to_numpy(dtype=bool)
    model = both["model"].to_numpy(dtype=bool)
    lines = [
        ["agreement", *_share(person == model), ""],
        ["kappa", kappa(person, model), math.nan, math.nan, len(both), ""],
        ["caught", *_share(model[person]), "" if person.any() else "no relevant one in the sample"],
        ["false_alarms", *_share(model[~person]), "" if (~person).any() else "all are relevant"],
    ]
    patterns, asked = _tops(rows, plan)
    if not patterns:
        return pd.DataFrame(lines, columns=["what", "value", "low", "high", "n", "reason"])
    lengths = {len(one) for one in patterns}
    shares = np.array([one.mean() for one in patterns])
    codes, queries = pd.factorize(both["query"])[0], pd.factorize(np.array(asked, dtype=object))[0]
    drawn = _drawn(shares, queries, person, model, codes, plan.seed, replicates)
    factors = {"P": (1.0, 0.0)}
    if len(lengths) == 1:
        k = lengths.pop()
        factors[f"T(alpha={alpha:g})@{k}"] = ((1 - alpha) * k + alpha, -alpha)
    for name, (scale, shift) in factors.items():
        for kind, values, point in (
            ("as labelled", drawn[0], float(shares.mean())),
            ("corrected", drawn[1], solve(float(shares.mean()), person, model)),
        ):
            known = values[~np.isnan(values)]
            reason = ""
            low = high = math.nan
            if math.isnan(point):
                reason = "the judge calls relevant ones so no more often than others"
            elif len(known) < 0.95 * len(values):
                reason = "in too many draws the judge is no better than chance: label more by hand"
            else:
                low, high = (scale * one + shift for one in np.quantile(known, [0.025, 0.975]))
            lines.append([f"{name} {kind}", scale * point + shift, low, high, len(shares), reason])
    return pd.DataFrame(lines, columns=["what", "value", "low", "high", "n", "reason"])


def _tops(rows: list[Row], plan: Plan) -> tuple[list[NDArray[np.float64]], list[str]]:
    """Return the labels of each row's top K where all of them are there, and its query."""
    found, asked = [], []
    for row in rows:
        k = plan.top_k or len(row.documents)
        top = (row.labels or [])[:k]
        if top and all(one is not None for one in top):
            found.append(np.array(top, dtype=np.float64))
            asked.append(key_of(row))
    return found, asked


def _share(values: NDArray[np.bool_]) -> tuple[float, float, float, int]:
    n = len(values)
    if not n:
        return math.nan, math.nan, math.nan, 0
    share = float(values.mean())
    return share, *wilson(share, n), n


def kappa(person: NDArray[np.bool_], model: NDArray[np.bool_]) -> float:
    """Cohen's kappa of two 0/1 labellings; NaN where both give one label throughout.

    Examples
    --------
    >>> kappa(np.array([1, 1, 0, 0], bool), np.array([1, 0, 0, 0], bool))
    0.5
    """
    agreed = float((person == model).mean())
    a, b = float(person.mean()), float(model.mean())
    chance = a * b + (1 - a) * (1 - b)
    return math.nan if chance == 1 else (agreed - chance) / (1 - chance)


def solve(labelled: float, person: NDArray[np.bool_], model: NDArray[np.bool_]) -> float:
    """Give the share of relevant documents behind the share that a judge calls so, in [0, 1].

    Examples
    --------
    >>> person = np.array([1] * 10 + [0] * 10, bool)
    >>> model = np.array([1] * 9 + [0] * 10 + [1], bool)
    >>> round(solve(0.5, person, model), 3)
    0.5
    """
    if not person.any() or person.all():
        return math.nan
    caught, false = float(model[person].mean()), float(model[~person].mean())
    if caught <= false:
        return math.nan
    return min(max((labelled - false) / (caught - false), 0.0), 1.0)


def _drawn(
    shares: NDArray[np.float64],
    queries: NDArray[np.int64],
    person: NDArray[np.bool_],
    model: NDArray[np.bool_],
    codes: NDArray[np.int64],
    seed: int,
    replicates: int,
) -> NDArray[np.float64]:
    """Draw the queries of the log and of the hand sample anew; return P as labelled, corrected."""
    rng = np.random.default_rng(seed)
    sums, counts = np.bincount(queries, weights=shares), np.bincount(queries)
    n_hand = int(codes.max()) + 1
    found = np.empty((2, replicates))
    for i in range(replicates):
        drawn = rng.integers(0, len(sums), len(sums))
        found[0, i] = sums[drawn].sum() / counts[drawn].sum()
        weights = np.bincount(rng.integers(0, n_hand, n_hand), minlength=n_hand)[codes]
        again = np.repeat(np.arange(len(codes)), weights)
        found[1, i] = solve(found[0, i], person[again], model[again])
    return found
