"""A made-up log of two weeks, for pages and tests: its numbers say nothing about any retriever."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from retrieval_quality import outputs
from retrieval_quality.logs.rows import Row

TOP_K = 5
"""Documents that go to the language model; twice as many are logged."""
WEEKS = ("last week", "this week")
_START = 1_740_992_400 * 10**9  # Monday, 3 March 2025, 09:00 UTC
_HOUR = 3_600 * 10**9


@dataclass
class Example:
    """A made-up log and what is known of it because it is made up.

    Attributes
    ----------
    rows : list of Row
        Both weeks; the top 5 are labelled everywhere, ranks 6 to 10 in 80 rows; 150 have a grade.
    hand : dict
        A person's labels, 0 or 1, of 150 documents, by row and document.
    truth : float
        Share of the top 5 that are relevant, over both weeks.
    """

    rows: list[Row]
    hand: dict[tuple[str, str], int]
    truth: float

    def week(self, name: str) -> list[Row]:
        """Return the rows of ``last week`` or ``this week``."""
        return [row for row in self.rows if row.group == name]


def make(seed: int = 1, n_queries: int = 280, n_week: int = 200) -> Example:
    """Make up two weeks of requests.

    120 of the 200 queries of a week are asked in both. Retrieval is a little better in the second,
    and a model that labels misses a tenth of what is relevant and calls 8% of the rest so.

    Parameters
    ----------
    seed : int
    n_queries : int
        Different queries; the first and the last `n_week` of them make the weeks.
    n_week : int
        Requests of a week.

    Examples
    --------
    >>> made = make()
    >>> len(made.rows), len(made.week("this week")), len(made.hand)
    (400, 200, 150)
    >>> sum(row.grade is not None for row in made.rows)
    150
    """
    rng = np.random.default_rng(seed)
    shape = (n_queries, 2 * TOP_K)
    ease = rng.beta(2, 3, n_queries)[:, None] * 0.88 ** np.arange(2 * TOP_K)
    luck, moved = rng.random(shape), rng.random(shape) < 0.3
    luck_now = np.where(moved, rng.random(shape), luck)
    asked = np.append(np.arange(n_week), np.arange(n_queries - n_week, n_queries))
    useful = np.vstack([(luck < ease)[:n_week], (luck_now < 1.15 * ease)[-n_week:]])
    called = np.where(useful, rng.random(useful.shape) < 0.9, rng.random(useful.shape) < 0.08)
    fresh = np.vstack([np.zeros_like(moved)[:n_week], moved[-n_week:]])
    n = 2 * n_week
    deep = np.isin(np.arange(n), rng.choice(n, min(80, n), replace=False))
    graded = np.isin(np.arange(n), rng.choice(n, min(150, n), replace=False))
    quality = useful[:, :TOP_K].sum(axis=1) + rng.normal(0, 1.2, n)
    grades = np.clip(np.round(1.5 + 0.9 * quality), 1, 5)
    rows = []
    for i, query in enumerate(asked.tolist()):
        week, place = divmod(i, n_week)
        documents = [
            f"doc-{query}-{rank + 1}{'b' if fresh[i, rank] else ''}" for rank in range(2 * TOP_K)
        ]
        labels = [
            float(called[i, rank]) if rank < TOP_K or deep[i] else None for rank in range(2 * TOP_K)
        ]
        rows.append(
            Row(
                query_id=f"q{query}",
                query=f"made-up question {query}",
                documents=documents,
                labels=labels,
                grade=float(grades[i]) if graded[i] else None,
                time=_START + (week * 7 * 24 + place * 5 * 24 // n_week) * _HOUR,
                group=WEEKS[week],
                row=f"line {i + 1}",
            )
        )
    drawn = rng.choice(n * TOP_K, min(150, n * TOP_K), replace=False)
    hand = {
        (rows[one // TOP_K].row, rows[one // TOP_K].documents[one % TOP_K]): int(
            useful[one // TOP_K, one % TOP_K]
        )
        for one in drawn.tolist()
    }
    return Example(rows, hand, float(useful[:, :TOP_K].mean()))


def write(folder: Path | str, seed: int = 1) -> Path:
    """Write the made-up log as JSON lines, ``made-up.jsonl``, and return its path."""
    path = Path(folder) / "made-up.jsonl"
    lines = []
    for row in make(seed).rows:
        kept = ("query_id", "query", "documents", "labels", "grade", "time", "group")
        lines.append(json.dumps({name: getattr(row, name) for name in kept}) + "\n")
    return outputs.write_text(path, "".join(lines))
