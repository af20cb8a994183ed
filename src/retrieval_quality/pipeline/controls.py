"""What the answers are held against: no documents, random ones, the same ones backwards.

The review of the paper asked how much of a grade is owed to the documents at all. The same
questions are answered and graded with other documents; the rows go into a file of their own,
``samples_controls.json``, which no main figure or table reads.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from retrieval_quality.errors import UsageError
from retrieval_quality.pipeline.rows import Row

KINDS = ("none", "random", "reversed")


def check_kinds(kinds: Sequence[str]) -> tuple[str, ...]:
    """Return the kinds in their own order; refuse unknown ones.

    Raises
    ------
    UsageError
        A kind that does not exist.

    Examples
    --------
    >>> check_kinds(["random", "none"])
    ('none', 'random')
    """
    for kind in kinds:
        if kind not in KINDS:
            raise UsageError(f"{kind!r} is no control: {', '.join(KINDS)}.")
    return tuple(kind for kind in KINDS if kind in kinds)


def control_rows(
    ranking: Row, top_k: Sequence[int], kinds: Sequence[str], seed: int
) -> Iterator[Row]:
    """Yield the control rows of one ranking.

    ``none`` is one row without documents (K = 0). ``random`` has K of the candidates, drawn
    without looking at their order: K documents are the first K of one shuffle, which depends on
    the seed, the id, N_c and N_p but not on the embedding. ``reversed`` has the top K, worst
    first, for K of 2 and more (1 is the same either way).

    Parameters
    ----------
    ranking : Row
        All candidates in order.
    top_k : sequence of int
        The numbers of documents to show.
    kinds : sequence of str
        Of ``none``, ``random``, ``reversed``.
    seed : int
        For the shuffle.

    Yields
    ------
    Row
        With `control` set.

    Examples
    --------
    >>> ranking = Row("A-0", "E", 4, 2, (3, 0, 1, 2))
    >>> rows = control_rows(ranking, [1, 3], ["none", "reversed"], seed=1)
    >>> [(row.control, row.rank) for row in rows]
    [('none', ()), ('reversed', (1, 0, 3))]
    """
    if "none" in kinds:
        yield replace(ranking, rank=(), control="none")
    if "random" in kinds:
        name = f"{seed} {ranking.id} {ranking.n_candidates} {ranking.n_positives}"
        n = ranking.n_candidates
        shuffled = tuple(random.Random(name).sample(range(n), n))
        for k in top_k:
            yield replace(ranking, rank=shuffled[:k], control="random")
    if "reversed" in kinds:
        for k in top_k:
            if k > 1:
                yield replace(ranking, rank=ranking.rank[:k][::-1], control="reversed")
