"""Code of the paper, run on the data: what must hold of the files (Figures 21, 22 and 30)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from retrieval_quality.data import schema
from retrieval_quality.exhibits.exhibit import LISTING, Checks, Exhibit, Result
from retrieval_quality.exhibits.tables import file_missing, rows_of_run
from retrieval_quality.parameters import Parameters
from retrieval_quality.text import line

if TYPE_CHECKING:
    from retrieval_quality.data.dataset import Dataset

_LISTED_TEXTS = 12


@dataclass(frozen=True)
class Listing(Exhibit):
    """A function of the paper with what it gives."""

    kind = "code"
    suffixes = LISTING


@dataclass(frozen=True)
class RankOrder(Listing):
    """The texts of the first ranked sample of a run, in rank order (Figure 21)."""

    columns = ("rank", "index", "kind", "text")

    @property
    def title(self) -> str:
        """What it shows."""
        return "The texts of a ranked sample, in rank order"

    def caption(self, parameters: Parameters | None = None) -> str:
        """Say what the code does."""
        return (
            "How the texts of a sample are put in rank order: an index below "
            "N_p is a positive, any other a negative."
        )

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        for part in ("ranked", "texts"):
            if part not in dataset.parts:
                return self._nothing(dataset, run, file_missing(part))
        ranked = rows_of_run(dataset.read("ranked", ["id", "E", "Nc", "Np", "rank"]), run)
        texts = dataset.read("texts", ["id", "q", "p", "n"])
        ranked = ranked[ranked["id"].isin(texts["id"])]
        if ranked.empty:
            why = "No ranked sample of what was asked for has its texts."
            return self._nothing(dataset, run, why)
        sample = ranked.iloc[0]
        text = texts[texts["id"].astype("str") == str(sample["id"])].iloc[0]
        try:
            ordered = texts_in_rank_order(text, sample)
        except IndexError:
            why = (
                f"The rank of {line(sample['id'])} in samples_ranked names a text that "
                "samples_texts does not have; `retrieval-quality data validate` lists all such "
                "rows."
            )
            return self._nothing(dataset, run, why)
        indices = [int(i) for i in sample["rank"]]
        numbers = pd.DataFrame(
            {
                "rank": range(1, len(indices) + 1),
                "index": indices,
                "kind": ["positive" if i < sample["Np"] else "negative" for i in indices],
                "text": [line(value) for value in ordered],
            }
        )
        listed = [
            f"{sample['id']}, {schema.embedding_label(str(sample['E']))}: {line(text['q'])}",
            *(f"{r.rank:>3}  {r.kind}  {r.text}" for r in numbers.head(_LISTED_TEXTS).itertuples()),
        ]
        if len(numbers) > _LISTED_TEXTS:
            listed.append(f"     … and {len(numbers) - _LISTED_TEXTS} more")
        shown = _source_and_result(texts_in_rank_order, listed)
        return self._result(dataset, run, numbers, n=1, text=shown)

    def _told(self, result: Result) -> str:
        positives = int((result.numbers["kind"] == "positive").sum())
        return f"Listing and its result: {len(result.numbers)} texts, {positives} of them positive."

    def _held(self, result: Result) -> Checks:
        indices = result.numbers["index"]
        return [(f"none of {len(indices)} texts stands at two ranks", bool(indices.is_unique))]


@dataclass(frozen=True)
class Relations(Listing):
    """Relations between the fields of a file, each run on all rows."""

    columns = ("relation", "rows", "broken", "first_broken")

    def _counted(
        self,
        dataset: Dataset,
        run: Parameters,
        rows: pd.DataFrame,
        held: dict[str, Any],
        function: Callable[..., Any],
    ) -> Result:
        """Count the rows that break each relation and name the first."""
        if rows.empty:
            return self._nothing(dataset, run, "The data has no rows of what was asked for.")
        records = []
        for relation, holds in held.items():
            broken = ~np.asarray(holds, dtype=bool)
            first = rows.iloc[int(broken.argmax())] if broken.any() else None
            name = (
                ""
                if first is None
                else f"{first['id']} {first['E']} Nc={first['Nc']} Np={first['Np']}"
            )
            records.append((relation, len(rows), int(broken.sum()), name))
        numbers = pd.DataFrame(records, columns=list(self.columns))
        listed = [
            f"{'holds ' if not r.broken else 'BROKEN'}  {r.rows - r.broken:,} of {r.rows:,}  "
            f"{r.relation}" + (f"  (first broken: {line(r.first_broken)})" if r.broken else "")
            for r in numbers.itertuples()
        ]
        failed = numbers[numbers["broken"] > 0]
        notes = [f"{r.relation} breaks in {r.broken:,} rows." for r in failed.itertuples()]
        shown = _source_and_result(function, listed)
        return self._result(dataset, run, numbers, n=len(rows), notes=notes, text=shown)

    def _told(self, result: Result) -> str:
        broken = int((result.numbers["broken"] > 0).sum())
        held = len(result.numbers) - broken
        return (
            f"Listing and its result: {held} of {len(result.numbers)} relations hold for all rows."
        )

    def _held(self, result: Result) -> Checks:
        return [
            (f"{row.relation} holds in all {row.rows:,} rows", row.broken == 0)
            for row in result.numbers.itertuples()
        ]


@dataclass(frozen=True)
class RankedRelations(Relations):
    """What holds for every ranked sample (Figure 22)."""

    @property
    def title(self) -> str:
        """What it shows."""
        return "What holds for every ranked sample"

    def caption(self, parameters: Parameters | None = None) -> str:
        """Say what the code does."""
        return (
            "The relations that hold between the fields of a ranked sample and "
            "its texts, each run on all of them."
        )

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        for part in ("ranked", "texts"):
            if part not in dataset.parts:
                return self._nothing(dataset, run, file_missing(part))
        columns = ["id", "E", "Nc", "Np", "K", "P", "R", "rank"]
        ranked = _with_lists(rows_of_run(dataset.read("ranked", columns), run))
        texts = _with_lists(dataset.read("texts", ["id", "p", "n"]))
        held = relations_of_ranked(ranked, texts)
        return self._counted(dataset, run, ranked, held, relations_of_ranked)


@dataclass(frozen=True)
class GradedRelations(Relations):
    """What holds for every graded sample (Figure 30)."""

    @property
    def title(self) -> str:
        """What it shows."""
        return "What holds for every graded sample"

    def caption(self, parameters: Parameters | None = None) -> str:
        """Say what the code does."""
        return (
            "The relations that hold between the fields of a graded sample and "
            "its ranked sample, each run on all of them."
        )

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        for part in ("graded", "ranked"):
            if part not in dataset.parts:
                return self._nothing(dataset, run, file_missing(part))
        columns = ["id", "E", "Nc", "Np", "K", "rank", "inK"]
        graded = rows_of_run(dataset.read("graded", columns), run)
        ranked = _with_lists(dataset.read("ranked", ["id", "E", "Nc", "Np", "K", "rank"]))
        graded = _with_lists(graded)
        held = relations_of_graded(graded, ranked)
        return self._counted(dataset, run, graded, held, relations_of_graded)


def texts_in_rank_order(texts: Any, ranked: Any) -> list[str]:
    """Put the texts of a sample in rank order (Figure 21).

    Parameters
    ----------
    texts
        Row of the texts: ``p`` positives, ``n`` negatives.
    ranked
        Row of the ranked samples: ``Np`` and ``rank``.

    Examples
    --------
    >>> texts_in_rank_order({"p": ["p0", "p1"], "n": ["n0"]}, {"Np": 2, "rank": [1, 2, 0]})
    ['p1', 'n0', 'p0']
    """
    positives, negatives, n_p = texts["p"], texts["n"], ranked["Np"]
    return [positives[i] if i < n_p else negatives[i - n_p] for i in ranked["rank"]]


def relations_of_ranked(ranked: pd.DataFrame, texts: pd.DataFrame) -> dict[str, Any]:
    """Check what must hold for each ranked sample (Figure 22)."""
    rows = ranked.merge(texts, on="id", how="left")
    length = {name: rows[name].map(_length) for name in ("P", "R", "K", "rank", "p", "n")}
    return {
        "len(P) == len(R) == len(K)": (length["P"] == length["K"]) & (length["R"] == length["K"]),
        "len(rank) == Nc": length["rank"] == rows["Nc"],
        "Nc <= len(p) + len(n)": rows["Nc"] <= length["p"] + length["n"],
        "Np <= len(p)": rows["Np"] <= length["p"],
        "Np < Nc": rows["Np"] < rows["Nc"],
        "Nc >= 2": rows["Nc"] >= 2,
        "Np >= 2": rows["Np"] >= 2,
    }


def relations_of_graded(graded: pd.DataFrame, ranked: pd.DataFrame) -> dict[str, Any]:
    """Check what must hold for each graded sample (Figure 30)."""
    key = ["id", "E", "Nc", "Np"]
    rows = graded.merge(ranked, on=key, how="left", suffixes=("", "_ranked"))
    found = rows["K_ranked"].notna()
    lists = zip(rows["K"], rows["K_ranked"], rows["rank"], rows["rank_ranked"], found, strict=True)
    asked, same = zip(
        *((there and k in ks, there and top == whole[:k]) for k, ks, top, whole, there in lists),
        strict=True,
    )
    return {
        "len(rank) == K": rows["rank"].map(_length) == rows["K"],
        "len(inK) == K": rows["inK"].map(_length) == rows["K"],
        "sum(inK) <= Np": rows["inK"].map(sum) <= rows["Np"],
        "K in K of its ranked sample": asked,
        "rank == rank[:K] of its ranked sample": same,
    }


def _length(values: Any) -> int:
    """Length of a list; 0 where a sample has no row in the other file."""
    return len(values) if isinstance(values, list) else 0


def _with_lists(rows: pd.DataFrame) -> pd.DataFrame:
    """Give lists where a file holds arrays: Python compares and searches them faster."""
    arrays = [name for name in rows if len(rows) and isinstance(rows[name].iloc[0], np.ndarray)]
    return rows.assign(**{name: [array.tolist() for array in rows[name]] for name in arrays})


def _source_and_result(function: Callable[..., Any], lines: Sequence[str]) -> str:
    return inspect.getsource(function).rstrip() + "\n\n\n" + "\n".join(lines) + "\n"
