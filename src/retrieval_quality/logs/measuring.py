"""Measures of every retrieval of a log, and their means with intervals, in flat memory.

Two readings of a cut-off, for two kinds of input. In a **log** K is what was retrieved: `P` at 5 of
a list of 3 divides by 3, as the paper's definitions do, and `nDCG` is the paper's. With a **run and
qrels** the measures that trec_eval has are trec_eval's: ``P@5`` divides by 5, ``nDCG@10`` is the
usual one, a judged query that the run lacks counts as one with nothing retrieved (trec_eval -c).
``nDCG_paper`` and ``nDCG_usual`` name one or the other in both. T and T_u have K = what was
retrieved in both.

Where nothing was retrieved P and T are 0/0: undefined, with the reason, and counted; T_u, hit and
RR are 0, and so are R, F, AP and nDCG where something is relevant. Where nothing is relevant these
four are undefined. A document that is listed twice counts once, at its better place.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import special, stats

from retrieval_quality import measures
from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.logs.account import quote
from retrieval_quality.logs.rows import Row

FloatArray = measures.FloatArray

WITHOUT_RELEVANT = ("T", "T_u", "P", "nDCG", "F_e", "hit", "RR")
WITH_RELEVANT = ("R", "F", "AP", "nDCG_usual")
NAMES = (*WITHOUT_RELEVANT, *WITH_RELEVANT, "nDCG_paper")
WITH_ALPHA = ("T", "T_u", "F", "F_e")
ALL = "all"
"""Name of the group that every row is in."""
BY = ("none", "day", "week", "month", "group", "stage")
SUMMARY = ("measure", "alpha", "k", "group", "mean", "low", "high", "n_used", "n_total")
PER_QUERY = (
    *("query_id", "row", "group", "measure", "alpha", "k", "value", "reason"),
    *("retrieved", "positives", "relevant", "unlabelled"),
)
BATCH = 20_000

NOT_LABELLED = "no labels"
NOTHING = "nothing retrieved"
NO_RELEVANT = "the number of relevant documents is not known"
NONE_RELEVANT = "nothing is relevant"
SHORT = "the list has fewer than 2K documents"
NOT_2K = "the documents from K to 2K are not all labelled"
NO_CUT = "needs a cut-off K, to look at the top 2K"
PART = "a retrieved document has no label"

_ALIASES = {
    "tu": "T_u",
    "t_u": "T_u",
    "fe": "F_e",
    "f_e": "F_e",
    "map": "AP",
    "mrr": "RR",
    "recip_rank": "RR",
    "success": "hit",
    "recall": "R",
    "precision": "P",
    **{name.lower(): name for name in NAMES},
}
_SPELLED = re.compile(
    r"\s*([A-Za-z_]+)\s*(?:\(\s*alpha\s*=\s*([0-9.eE+-]+)\s*\))?\s*(?:@\s*(\d+))?\s*"
)


@dataclass(frozen=True)
class Wanted:
    """A measure at an alpha and a cut-off; None: it has none, or the whole list."""

    name: str
    alpha: float | None = None
    k: int | None = None

    def __str__(self) -> str:
        alpha = "" if self.alpha is None else f"(alpha={self.alpha:g})"
        return f"{self.name}{alpha}" + ("" if self.k is None else f"@{self.k}")


def parse_measures(
    text: str, alphas: Iterable[float] = (0.5,), ks: Iterable[int] = ()
) -> list[Wanted]:
    """Read names such as ``P@5,nDCG@10,T(alpha=0.3)@10,AP``.

    Parameters
    ----------
    text : str
        Comma-separated. A name without ``@`` is taken at each of `ks`, or of the whole list where
        there are none.
    alphas : iterable of float
        For measures with an alpha that name none.
    ks : iterable of int
        Cut-offs.

    Raises
    ------
    UsageError
        A name is unknown, an alpha is outside [0, 1], a cut-off is below 1.

    Examples
    --------
    >>> [str(one) for one in parse_measures("P@5,T(alpha=0.3)@10,AP", ks=[5])]
    ['P@5', 'T(alpha=0.3)@10', 'AP@5']
    """
    found: list[Wanted] = []
    for part in text.split(","):
        spelled = _SPELLED.fullmatch(part)
        name = _ALIASES.get(spelled[1].lower()) if spelled else None
        if spelled is None or name is None:
            raise UsageError(f"--measures {part.strip()!r}: there are {', '.join(NAMES)}, as P@5")
        if spelled[2] is not None and name not in WITH_ALPHA:
            raise UsageError(f"--measures {part.strip()!r}: {name} has no alpha")
        try:
            given = [float(spelled[2])] if spelled[2] else list(alphas)
        except ValueError as error:
            raise UsageError(f"--measures {part.strip()!r}: the alpha is no number") from error
        if not all(0 <= alpha <= 1 for alpha in given):
            raise UsageError(f"alpha must be in [0, 1], not {given}")
        cuts: list[int | None] = [int(spelled[3])] if spelled[3] else [*ks] or [None]
        if any(k is not None and k < 1 for k in cuts):
            raise UsageError(f"--measures {part.strip()!r}: K is at least 1")
        weights = given if name in WITH_ALPHA else [None]
        found += [Wanted(name, alpha, k) for k in cuts for alpha in weights]
    return list(dict.fromkeys(found))


@dataclass(frozen=True)
class Rules:
    """What decides a value besides the row.

    Attributes
    ----------
    wanted : tuple of Wanted
    trec : bool
        A run with qrels: see the module.
    relevant_from : float
        Labels from here on are relevant.
    unlabelled : {"negative", "leave-out"}
        What a retrieved document without a label is: not relevant (and counted), or a reason to
        leave the query out.
    by : str
        One of `BY`.
    """

    wanted: tuple[Wanted, ...]
    trec: bool = False
    relevant_from: float = 1
    unlabelled: str = "negative"
    by: str = "none"


@dataclass
class Judged:
    """A row as far as measures look at it.

    `flags` holds 1, 0 or None (no label) for each document, repeats dropped.
    """

    flags: list[int | None] | None
    n_relevant: int | None


def judge(row: Row, relevant_from: float = 1) -> Judged:
    """Cut the labels of a row to 0 and 1, drop repeats, count what is relevant in all.

    Raises
    ------
    DataError
        More of the retrieved are relevant than there are.

    Examples
    --------
    >>> judge(Row(documents=["a", "b", "a"], labels=[1.0, None, 1.0], n_relevant=2))
    Judged(flags=[1, None], n_relevant=2)
    """
    labels = row.labels
    if labels is None and not row.documents:
        labels = []
    if labels is None:
        return Judged(None, None)
    if len(set(row.documents)) == len(row.documents):
        kept = labels
    else:
        best: dict[str, float | None] = {}
        for document, label in zip(row.documents, labels, strict=True):
            if best.setdefault(document, label) is None:
                best[document] = label
        kept = list(best.values())
    flags = [None if one is None else int(one >= relevant_from) for one in kept]
    n_positives = sum(1 for one in flags if one)
    if relevant_from == 1 and row.n_relevant is not None:
        n_relevant: int | None = row.n_relevant
    elif row.missed is not None:
        n_relevant = n_positives + sum(one >= relevant_from for one in row.missed)
    else:
        n_relevant = None
    if n_relevant is not None and n_positives > n_relevant:
        raise DataError(
            f"{row.row or row.query_id}: {n_positives} of the retrieved documents are relevant, "
            f"but n_relevant is {n_relevant}"
        )
    return Judged(flags, n_relevant)


@dataclass
class Values:
    """Values of one measure for a batch of rows, with reasons where undefined."""

    value: FloatArray
    reason: list[str]


@dataclass
class Cut:
    """A batch of rows at one cut-off; arrays of the length of the batch."""

    k: int | None
    pattern: list[str]
    retrieved: Any
    positives: Any
    positives_2k: FloatArray
    relevant: FloatArray
    unlabelled: Any
    labelled: Any
    no_2k: list[str]

    @classmethod
    def of(cls, rows: list[Judged], k: int | None) -> Cut:
        """Cut every list at `k`."""
        pattern, positives_2k, unlabelled, no_2k = [], [], [], []
        for row in rows:
            flags = row.flags or []
            top = flags[:k]
            pattern.append("".join("1" if one else "0" for one in top))
            unlabelled.append(sum(one is None for one in top))
            double = flags[: 2 * len(top)]
            reason = ""
            if k is None:
                reason = NO_CUT
            elif len(double) < 2 * len(top):
                reason = SHORT
            elif row.n_relevant is None and any(one is None for one in double[len(top) :]):
                reason = NOT_2K
            no_2k.append(reason)
            positives_2k.append(math.nan if reason else float(sum(1 for one in double if one)))
        relevant = [math.nan if row.n_relevant is None else row.n_relevant for row in rows]
        return cls(
            k,
            pattern,
            np.array([len(one) for one in pattern], dtype=np.int64),
            np.array([one.count("1") for one in pattern], dtype=np.int64),
            np.array(positives_2k, dtype=np.float64),
            np.array(relevant, dtype=np.float64),
            np.array(unlabelled, dtype=np.int64),
            np.array([row.flags is not None for row in rows], dtype=bool),
            no_2k,
        )


def evaluate(cut: Cut, wanted: Wanted, rules: Rules) -> Values:
    """Compute one measure for a batch."""
    value = _value(cut, wanted, rules)
    reason = np.full(len(value), "", dtype=object)

    def undefine(rows: Any, why: str) -> None:
        value[rows & (reason == "")] = math.nan
        reason[rows & (reason == "")] = why

    undefine(~cut.labelled, NOT_LABELLED)
    if rules.unlabelled == "leave-out":
        undefine(cut.unlabelled > 0, PART)
    if wanted.name in WITH_RELEVANT or (wanted.name == "nDCG" and rules.trec):
        undefine(np.isnan(cut.relevant), NO_RELEVANT)
        undefine(cut.relevant == 0, NONE_RELEVANT)
    fixed = rules.trec and wanted.k is not None and wanted.name == "P"
    if wanted.name in ("T", "F_e") or (wanted.name == "P" and not fixed):
        undefine(cut.retrieved == 0, NOTHING)
    if wanted.name == "F_e":
        for why in (NO_CUT, SHORT, NOT_2K):
            undefine(np.array([one == why for one in cut.no_2k], dtype=bool), why)
    return Values(value, reason.tolist())


def _value(cut: Cut, wanted: Wanted, rules: Rules) -> FloatArray:
    name, alpha = wanted.name, wanted.alpha or 0.0
    positives, retrieved = cut.positives, cut.retrieved
    pattern: Any = pd.Categorical(cut.pattern)
    known = ~np.isnan(cut.relevant)
    relevant = np.where(known, cut.relevant, positives).astype(np.int64)
    if name == "P":
        size = np.full_like(retrieved, wanted.k) if rules.trec and wanted.k else retrieved
        return np.array(measures.precision(positives, size), dtype=np.float64)
    if name == "T":
        return np.array(measures.t_measure(positives, retrieved, alpha), dtype=np.float64)
    if name == "T_u":
        return np.array(measures.tu_measure(positives, retrieved, alpha), dtype=np.float64)
    if name == "hit":
        return np.array(measures.hit_rate(positives), dtype=np.float64)
    if name == "RR":
        return np.array(measures.reciprocal_rank(pattern), dtype=np.float64)
    if name == "F_e":
        return np.array(
            measures.f_estimated(positives, retrieved, cut.positives_2k, alpha), dtype=np.float64
        )
    if name == "R":
        return np.array(measures.recall(positives, relevant), dtype=np.float64)
    if name == "F":
        return np.array(measures.f_measure(positives, retrieved, relevant, alpha), dtype=np.float64)
    if name == "AP":
        return np.array(measures.average_precision(pattern, relevant), dtype=np.float64)
    if name == "nDCG_paper" or (name == "nDCG" and not rules.trec):
        return np.array(measures.ndcg(pattern), dtype=np.float64)
    return _usual(cut, relevant, rules.trec)


def _usual(cut: Cut, relevant: Any, trec: bool) -> FloatArray:
    """Usual nDCG; trec_eval's ideal does not shrink with a list that is too short."""
    pattern: Any = pd.Categorical(cut.pattern)
    if not trec:
        return np.array(measures.ndcg_usual(pattern, relevant), dtype=np.float64)
    reachable = relevant if cut.k is None else np.minimum(cut.k, relevant)
    most = int(reachable.max(initial=0))
    ideal = np.concatenate([[0.0], np.cumsum(1 / np.log2(1 + np.arange(1, most + 1)))])
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.array(measures.dcg(pattern), dtype=np.float64) / ideal[reachable]


# --- rows to values -----------------------------------------------------------------------------


def key_of(row: Row) -> str:
    """Say which query a row belongs to: of a trace the question's text, else the query id.

    Examples
    --------
    >>> key_of(Row(query_id="007")), key_of(Row(query="Why?", row="3"))
    ('007', 'Why?')
    """
    if row.stage is not None and row.query is not None:
        return row.query
    return row.query_id or row.query or row.row


def group_of(row: Row, by: str) -> str:
    """Say which group a row belongs to; ``unknown`` where the log does not tell.

    Examples
    --------
    >>> group_of(Row(time=1741079700000000000), "week"), group_of(Row(), "day")
    ('2025-W10', 'unknown')
    """
    if by == "group":
        return row.group or "unknown"
    if by == "stage":
        return row.stage or "unknown"
    if row.time is None:
        return "unknown"
    moment = datetime.fromtimestamp(row.time // 10**9, UTC)
    if by == "week":
        year, week, _ = moment.isocalendar()
        return f"{year}-W{week:02d}"
    return moment.strftime("%Y-%m" if by == "month" else "%Y-%m-%d")


@dataclass
class Tally:
    """What was counted over all rows."""

    rows: int = 0
    without_labels: int = 0
    nothing_retrieved: int = 0
    repeated: int = 0
    unlabelled: int = 0
    documents: int = 0
    complete: int = 0
    graded: int = 0
    short: Counter[int] = field(default_factory=Counter)

    def add(self, row: Row, judged: Judged, ks: Iterable[int]) -> None:
        """Count a row."""
        self.rows += 1
        self.documents += len(row.documents)
        self.graded += row.grade is not None
        self.nothing_retrieved += not row.documents
        self.repeated += len(row.documents) - len(set(row.documents))
        if judged.flags is None:
            self.without_labels += 1
            return
        self.complete += judged.n_relevant is not None
        self.unlabelled += sum(one is None for one in judged.flags)
        for k in ks:
            self.short[k] += len(judged.flags) < k

    def sentences(self) -> list[str]:
        """Say what was counted, zeros left out."""
        said = [
            (self.rows, "retrievals"),
            (self.nothing_retrieved, "of them with nothing retrieved"),
            (self.without_labels, "without any label: no measures"),
            (self.unlabelled, "retrieved documents without a label (see unlabelled)"),
            (self.repeated, "documents listed again, counted once"),
            *((n, f"lists shorter than {k}: K is their length") for k, n in self.short.items()),
        ]
        return [f"{count} {text}" for count, text in said if count]


def default_measures(rows: Iterable[Row], trec: bool = False) -> tuple[str, ...]:
    """Choose measures by the first rows: those that need N_p only where it is known.

    Examples
    --------
    >>> default_measures([Row(n_relevant=2)], trec=True)[-3:]
    ('F', 'AP', 'nDCG_paper')
    """
    if not any(row.n_relevant is not None for row in rows):
        return WITHOUT_RELEVANT
    return (*WITHOUT_RELEVANT, *WITH_RELEVANT[:-1], "nDCG_paper" if trec else "nDCG_usual")


@dataclass
class Measured:
    """What `measure` gives back: the table of means and the counts."""

    summary: pd.DataFrame
    tally: Tally
    undefined: dict[str, int]


def measure(rows: Iterable[Row], rules: Rules, per_query: Path | None = None) -> Measured:
    """Score rows, write a line a row and measure, and average by group.

    Parameters
    ----------
    rows : iterable of Row
        Taken batch by batch.
    rules : Rules
    per_query : path, optional
        CSV to write, with `PER_QUERY`.

    Returns
    -------
    Measured
        `Measured.summary` has the columns `SUMMARY`: the group ``all``, then each other. An
        interval is 95%, by query: rows of one query count as one draw (cluster-robust, with
        Student's t; for hit, Wilson's where every query stands once). It is NaN with fewer than two
        queries, or where all values are equal, since the spread is then not known.
    """
    tally, undefined = Tally(), Counter[str]()
    ks = sorted({one.k for one in rules.wanted if one.k is not None})
    names = [f"m{i}" for i in range(len(rules.wanted))]
    schema = pa.schema(
        [("grp", pa.string()), ("key", pa.string()), *((name, pa.float64()) for name in names)]
    )
    with TemporaryDirectory() as folder:
        scores = Path(folder) / "scores.parquet"
        with pq.ParquetWriter(scores, schema) as writer:
            for number, batch in enumerate(_batches(rows)):
                judged = [judge(row, rules.relevant_from) for row in batch]
                for row, one in zip(batch, judged, strict=True):
                    tally.add(row, one, ks)
                groups = (
                    [ALL] * len(batch)
                    if rules.by == "none"
                    else [group_of(row, rules.by) for row in batch]
                )
                columns: dict[str, Any] = {"grp": groups, "key": [key_of(row) for row in batch]}
                cuts = {k: Cut.of(judged, k) for k in {one.k for one in rules.wanted}}
                lines = []
                for name, wanted in zip(names, rules.wanted, strict=True):
                    values = evaluate(cuts[wanted.k], wanted, rules)
                    columns[name] = pa.array(values.value, from_pandas=True)
                    undefined.update(one for one in values.reason if one)
                    if per_query is not None:
                        lines.append(_lines(batch, groups, wanted, values, cuts[wanted.k]))
                writer.write_table(pa.table(columns, schema=schema))
                if per_query is not None:
                    _append(per_query, lines, first=number == 0)
        if not tally.rows:
            raise DataError("there is no retrieval to measure")
        summary = _means(scores, rules, names)
    return Measured(summary, tally, dict(undefined))


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    for row in rows:
        row.texts = row.answer = row.reference = None
        batch.append(row)
        if len(batch) >= BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _lines(
    rows: list[Row], groups: list[str], wanted: Wanted, values: Values, cut: Cut
) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "query_id": [row.query_id or row.row for row in rows],
            "row": [row.row for row in rows],
            "group": groups,
            "measure": wanted.name,
            "alpha": wanted.alpha,
            "k": pd.array([wanted.k] * len(rows), dtype="Int64"),
            "value": values.value,
            "reason": values.reason,
            "retrieved": cut.retrieved,
            "positives": cut.positives,
            "relevant": pd.array(cut.relevant, dtype="Float64").astype("Int64"),
            "unlabelled": cut.unlabelled,
        }
    )


def _append(path: Path, lines: list[pd.DataFrame], first: bool) -> None:
    frame = pd.concat(lines, ignore_index=True)
    with path.open("w" if first else "a", encoding="utf-8", newline="") as file:
        frame.to_csv(file, index=False, header=first, lineterminator="\n")


# --- means --------------------------------------------------------------------------------------


def _means(scores: Path, rules: Rules, names: list[str]) -> pd.DataFrame:
    """Average with DuckDB, which goes to disk where the queries are more than memory holds."""
    base = duckdb.connect()
    found = []
    try:
        base.execute("SET threads = 1")
        base.execute("SET memory_limit = '1GB'")
        base.execute(f"SET temp_directory = '{scores.parent}'")
        levels = [f"'{ALL}'"] if rules.by == "none" else [f"'{ALL}'", "grp"]
        for name, wanted in zip(names, rules.wanted, strict=True):
            for level in levels:
                rows = base.execute(_SQL.format(level=level, value=name), [str(scores)]).fetchall()
                found += [_summary(wanted, *row) for row in rows]
    finally:
        base.close()
    return pd.DataFrame(found, columns=list(SUMMARY)).astype({"k": "Int64", "alpha": "float64"})


_SQL = """
WITH t AS (SELECT {level} AS grp, key, {value} AS v FROM read_parquet($1)),
 c AS (SELECT grp, key, fsum(v) AS s, count(v) AS n, count(*) AS total FROM t GROUP BY grp, key),
 m AS (SELECT grp, fsum(s) / sum(n) AS mean FROM c WHERE n > 0 GROUP BY grp)
SELECT c.grp, any_value(m.mean), sum(n), sum(total), count(*) FILTER (n > 0), max(n),
 fsum(power(s - m.mean * n, 2)) FILTER (n > 0)
FROM c LEFT JOIN m USING (grp) GROUP BY c.grp ORDER BY c.grp
"""


def _summary(
    wanted: Wanted,
    group: str,
    mean: float | None,
    used: int,
    total: int,
    queries: int,
    most: int | None,
    squares: float | None,
) -> list[Any]:
    low = high = math.nan
    if mean is not None and queries > 1:
        if wanted.name == "hit" and most == 1:
            low, high = wilson(mean, int(queries))
        elif squares is not None and squares > 1e-20 * max(used, 1):
            spread = math.sqrt(squares * queries / (queries - 1)) / used
            reach = float(special.stdtrit(queries - 1, 0.975)) * spread
            low, high = mean - reach, mean + reach
            if wanted.name not in ("T", "T_u"):
                low, high = max(low, 0.0), min(high, 1.0)
    value = math.nan if mean is None else mean
    return [wanted.name, wanted.alpha, wanted.k, group, value, low, high, int(used), int(total)]


def wilson(share: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """Give Wilson's interval of a share.

    Examples
    --------
    >>> [round(one, 3) for one in wilson(1.0, 30)]
    [0.886, 1.0]
    """
    z = float(stats.norm.ppf(0.5 + level / 2))
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    reach = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(middle - reach, 0.0), min(middle + reach, 1.0)


def check_by(by: str) -> str:
    """Return the name of a grouping.

    Raises
    ------
    UsageError
        There is none of that name.
    """
    if by not in BY:
        raise UsageError(f"--by {quote(by)}: there are {', '.join(BY)}")
    return by
