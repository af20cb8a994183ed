"""What the data hold, subset by subset (Tables 1 and 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd

from retrieval_quality.data import schema
from retrieval_quality.exhibits.cells import places_of, scored_rows
from retrieval_quality.exhibits.exhibit import TABLE, Checks, Exhibit, Result, all_of
from retrieval_quality.measures import segments
from retrieval_quality.parameters import Parameters

if TYPE_CHECKING:
    from retrieval_quality.data.dataset import Dataset


@dataclass(frozen=True)
class SizeTable(Exhibit):
    """Counts by subset and embedding."""

    kind = "table"
    noun = "Table"
    suffixes = TABLE
    total: ClassVar[str]

    def _counted(
        self, dataset: Dataset, run: Parameters, counts: pd.DataFrame, notes: Sequence[str] = ()
    ) -> Result:
        """Put counts into a result, one row where all embeddings agree."""
        if counts.empty:
            return self._nothing(dataset, run, "The data has no rows of what was asked for.")
        n = int(counts[self.total].sum())
        numbers = _one_row_for_equal_embeddings(counts, self.columns)
        embeddings = schema.embedding_order(list(counts["embedding"].unique()))
        if len(embeddings) > 1 and (numbers["embedding"] == "each").any():
            labels = ", ".join(schema.embedding_label(code) for code in embeddings)
            notes = (*notes, f"Rows marked each hold for every one of the embeddings {labels}.")
        return self._result(dataset, run, numbers, n=n, notes=notes)

    def _told(self, result: Result) -> str:
        return f"Table of {len(result.numbers)} rows."


@dataclass(frozen=True)
class RankedTable(SizeTable):
    """Ranked samples; ``n_g`` is the number of graded samples that its K lists ask for."""

    columns = ("subset", "embedding", "Nc", "Np", "K_low", "K_high", "n_r", "n_g")
    total = "n_r"

    @property
    def title(self) -> str:
        """What it shows."""
        return "Ranked samples by subset"

    def caption(self, parameters: Parameters | None = None) -> str:
        """Say what its columns are."""
        return (
            "Ranked samples of each subset, by the number of candidates N_c and of "
            "positives N_p, with the range of K."
        )

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        if "ranked" not in dataset.parts:
            return self._nothing(dataset, run, file_missing("ranked"))
        rows = rows_of_run(dataset.read("ranked", ["id", "E", "Nc", "Np", "K"]), run)
        lists = [list(values) for values in rows["K"]]
        rows = rows[["subset", "embedding", "Nc", "Np"]].assign(
            K_low=[min(values, default=0) for values in lists],
            K_high=[max(values, default=0) for values in lists],
            size=[len(values) for values in lists],
        )
        keys = ["subset", "embedding", "Nc", "Np", "K_low", "K_high"]
        counts = rows.groupby(keys)["size"].agg(n_r="count", n_g="sum").reset_index()
        return self._counted(dataset, run, counts)

    def _held(self, result: Result) -> Checks:
        numbers = result.numbers
        return [("N_p is below N_c in every row", all_of(numbers["Np"] < numbers["Nc"]))]


@dataclass(frozen=True)
class CountTable(SizeTable):
    """Ranked and graded samples; ``n_null`` of the ``n_g`` samples have no grade."""

    columns = ("subset", "embedding", "n_r", "n_g", "n_gn", "n_gw", "n_null")
    total = "n_g"

    @property
    def title(self) -> str:
        """What it shows."""
        return "Sample counts by subset"

    def caption(self, parameters: Parameters | None = None) -> str:
        """Say what its columns are."""
        return (
            "Samples of each subset for each embedding: ranked n_r, graded n_g, and "
            "of the graded the narrow n_gn (K < N_p) and the wide n_gw (K ≥ N_p)."
        )

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        rows = scored_rows(dataset, run)
        narrow = segments.label_segments(rows, "narrow-wide") == segments.NARROW
        counts = (
            pd.DataFrame(
                {
                    "subset": rows["subset"].astype("str"),
                    "embedding": rows["E"].astype("str"),
                    "n_gn": narrow,
                    "n_gw": ~narrow,
                    "n_null": rows["grade"].isna(),
                }
            )
            .groupby(["subset", "embedding"])
            .agg(
                n_g=("n_gn", "size"),
                n_gn=("n_gn", "sum"),
                n_gw=("n_gw", "sum"),
                n_null=("n_null", "sum"),
            )
            .reset_index()
        )
        notes: tuple[str, ...] = ()
        if "ranked" in dataset.parts:
            ranked = rows_of_run(dataset.read("ranked", ["id", "E"]), run)
            ranked = ranked.groupby(["subset", "embedding"]).size().rename("n_r").reset_index()
            counts = counts.merge(ranked, on=["subset", "embedding"], how="outer")
            counts = counts.fillna({name: 0 for name in counts.columns if name.startswith("n_")})
            counts = counts.astype({n: "int64" for n in counts.columns if n.startswith("n_")})
        else:
            counts["n_r"] = pd.array([None] * len(counts), dtype="Int64")
            notes = ("The data has no ranked samples: n_r is not known.",)
        return self._counted(dataset, run, counts, notes)

    def _held(self, result: Result) -> Checks:
        same = result.numbers["n_gn"] + result.numbers["n_gw"] == result.numbers["n_g"]
        return [("narrow and wide add up to all graded samples", all_of(same))]


def file_missing(part: str) -> str:
    """Say which file the data lack."""
    return f"The data has no file samples_{part}, which this needs."


def rows_of_run(rows: pd.DataFrame, run: Parameters) -> pd.DataFrame:
    """Rows of the datasets and embeddings of the run, with subset and embedding as plain text."""
    codes, ids = pd.factorize(rows["id"].astype("str"))
    subsets = np.array([schema.subset_of(name) for name in ids], dtype=object)
    rows = rows.assign(subset=subsets[codes], embedding=rows["E"].astype("str"))
    keep = pd.Series(True, index=rows.index)
    if run.embeddings:
        keep &= rows["embedding"].isin([schema.embedding_code(name) for name in run.embeddings])
    if run.datasets:
        datasets = np.array([schema.dataset_of(name) for name in ids], dtype=object)
        keep &= pd.Series(datasets[codes], index=rows.index).isin(run.datasets)
    return rows[keep]


def _one_row_for_equal_embeddings(counts: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Write one row, ``each``, where all embeddings of the data have the same numbers."""
    embeddings = schema.embedding_order(list(counts["embedding"].unique()))
    others = [name for name in columns if name != "embedding"]
    grouped = counts.groupby(others, dropna=False, sort=True)["embedding"].agg(set).reset_index()
    grouped["embedding"] = [
        "each"
        if len(codes) == len(embeddings) > 1
        else " ".join(code for code in embeddings if code in codes)
        for codes in grouped["embedding"]
    ]
    ranks = places_of(schema.subset_order(list(grouped["subset"].unique())))
    order = grouped["subset"].map(ranks).sort_values(kind="stable").index
    return grouped.loc[order, list(columns)].reset_index(drop=True)
