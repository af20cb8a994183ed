"""A catalogue entry, a dataset and parameters in; the tidy numbers of a figure or table out.

Nothing is drawn and nothing is written here. Results that several figures share (the rows, their
correlations) are worked out once in a process and kept by the content of the data.
"""

from __future__ import annotations

import inspect
import math
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from retrieval_quality.data import schema
from retrieval_quality.exhibits.catalogue import FIGURES, Entry, measure_name
from retrieval_quality.measures import MEASURES, segments
from retrieval_quality.parameters import COEFFICIENTS, Parameters
from retrieval_quality.statistics import correlation

if TYPE_CHECKING:
    from retrieval_quality.data.dataset import Dataset

EXAMPLE_PATTERN = "10110"
"""The retrieval that the schematic shows: 1 where the document at that rank is a positive."""
EXAMPLE_POSITIVES = 4
"""N_p of the retrieval that the schematic shows."""

_SHARED_MEASURES = ("F", "nDCG", "T", "Tu")
_WIDEST_TEXT = 90
_LISTED_TEXTS = 12
_SCALE_STEP = 0.05


@dataclass(frozen=True)
class Result:
    """The numbers of one figure or table, and what a reader must know about them.

    Attributes
    ----------
    entry
        What was computed.
    parameters
        Of the run.
    numbers
        Tidy table, one row a cell; empty with its columns where nothing can be shown.
    coefficient
        Coefficient of the correlations; empty where there are none.
    n
        Graded rows (for Table 1 and Figure 22 ranked rows) that the numbers rest on.
    limits
        Ends of the scale of the values: the same for all figures that are to be compared.
    notes
        Sentences: what was left out, what is undefined and why, and how often.
    missing
        Why nothing can be shown; empty where something can.
    text
        For code: the listing and what it gave.
    simulated
        Whether the data is simulated.
    """

    entry: Entry
    parameters: Parameters
    numbers: pd.DataFrame
    coefficient: str = ""
    n: int = 0
    limits: tuple[float, float] | None = None
    notes: tuple[str, ...] = ()
    missing: str = ""
    text: str = ""
    simulated: bool = False


def compute(entry: Entry, dataset: Dataset, parameters: Parameters | None = None) -> Result:
    """Compute the numbers of one figure or table.

    Parameters
    ----------
    entry
        From the catalogue, or made like one (`catalogue.difference`).
    dataset
        Loaded data.
    parameters
        Of the run; the paper's when left out.

    Returns
    -------
    Result
        Where the data cannot show anything (no such dataset, no segment large enough) its
        ``missing`` says so and ``numbers`` is empty: that is not an error.

    Raises
    ------
    DataError
        The data breaks its format.
    """
    run = parameters or Parameters()
    compute_kind: dict[str, Callable[[Entry, Dataset, Parameters], Result]] = {
        "schematic": _schematic,
        "distribution": _distribution,
        "narrow-wide": _narrow_wide,
        "correlation": _by_ratio,
        "difference": _difference,
        "code": _code,
        "table": _table,
    }
    return compute_kind[entry.kind](entry, dataset, run)


# --- what figures share -------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """A dataset as the key of a cache: the same content is the same key."""

    dataset: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Source) and self.dataset.digest == other.dataset.digest

    def __hash__(self) -> int:
        return hash(self.dataset.digest)


@lru_cache(maxsize=2)
def scored_rows(
    source: Source, embeddings: tuple[str, ...], datasets: tuple[str, ...]
) -> pd.DataFrame:
    """Scored rows of a run, read once in a process."""
    return source.dataset.scored(embeddings, datasets)


@lru_cache(maxsize=32)
def _cells(
    source: Source,
    embeddings: tuple[str, ...],
    datasets: tuple[str, ...],
    segmentation: str,
    min_samples: int,
    measures: tuple[str, ...],
    coefficients: tuple[str, ...],
    require_2k: bool,
    alpha: str | float,
) -> pd.DataFrame:
    rows = scored_rows(source, embeddings, datasets)
    if rows.empty:
        return pd.DataFrame(columns=list(CELL_COLUMNS))
    cells = correlation.correlate(
        rows,
        segmentation=segmentation,
        min_samples=min_samples,
        measures=measures,
        coefficients=coefficients,
        require_2k=require_2k,
        alpha=alpha,
    )
    keys = ["dataset", "embedding", "segmentation", "segment", "measure", "coefficient"]
    return cells.astype(dict.fromkeys(keys, "str"))


@lru_cache(maxsize=8)
def _sizes(
    source: Source,
    embeddings: tuple[str, ...],
    datasets: tuple[str, ...],
    segmentation: str,
    require_2k: bool,
) -> pd.DataFrame:
    """Rows of every segment, large enough or not: ``dataset, embedding, segment, n, n_total``."""
    rows = scored_rows(source, embeddings, datasets)
    keys = ["dataset", "embedding", "segment"]
    n_total = segments.segment_sizes(rows, segmentation).astype(dict.fromkeys(keys, "str"))
    if not require_2k:
        return n_total
    usable = segments.segment_sizes(rows[rows["n_positives_2k"].notna()], segmentation)
    usable = usable.astype(dict.fromkeys(keys, "str")).drop(columns="n_total")
    merged = n_total.drop(columns="n").merge(usable, on=keys, how="left")
    return merged.fillna({"n": 0}).astype({"n": "int64"})


CELL_COLUMNS = (
    "dataset",
    "embedding",
    "segmentation",
    "segment",
    "n",
    "n_total",
    "measure",
    "coefficient",
    "alpha",
    "correlation",
    "reason",
)
"""Columns of the numbers of a correlation, those of `correlation.correlate`."""

DIFFERENCE_COLUMNS = (
    "dataset",
    "embedding",
    "segmentation",
    "segment",
    "n",
    "n_total",
    "first",
    "second",
    "coefficient",
    "alpha_first",
    "alpha_second",
    "correlation_first",
    "correlation_second",
    "difference",
    "reason",
)
"""Columns of the numbers of a difference: the first measure's correlation minus the second's."""

SHARE_COLUMNS = ("dataset", "embedding", "segment", "grade", "count", "n", "n_total", "share")
"""Columns of the numbers of a distribution."""


def _correlations(
    entry: Entry, dataset: Dataset, run: Parameters, coefficients: tuple[str, ...]
) -> pd.DataFrame:
    """Correlations of the entry's measures in all datasets, plain text in the key columns."""
    segmentation = _segmentation(entry, run)
    return _measured(
        Source(dataset), run, segmentation, entry.measures, coefficients, entry.require_2k
    )


def _measured(
    source: Source,
    run: Parameters,
    segmentation: tuple[str, int],
    measures: tuple[str, ...],
    coefficients: tuple[str, ...],
    require_2k: bool,
) -> pd.DataFrame:
    shared = () if require_2k else _SHARED_MEASURES
    together = measures if not set(measures) <= set(shared) else shared
    cells = _cells(
        source,
        run.embeddings,
        run.datasets,
        *segmentation,
        together,
        coefficients,
        require_2k,
        run.alpha,
    )
    return cells[cells["measure"].isin(measures)]


def _segmentation(entry: Entry, run: Parameters) -> tuple[str, int]:
    if entry.kind == "narrow-wide":
        return "narrow-wide", run.min_samples_width
    return "ratio", run.min_samples_ratio


def _segment_sizes(entry: Entry, dataset: Dataset, run: Parameters) -> pd.DataFrame:
    """Sizes of the entry's segments, plain text in the key columns; all datasets if it has none."""
    segmentation, _ = _segmentation(entry, run)
    sizes = _sizes(Source(dataset), run.embeddings, run.datasets, segmentation, entry.require_2k)
    return sizes[sizes["dataset"] == entry.dataset] if entry.dataset else sizes


def in_order(numbers: pd.DataFrame, last: Sequence[str] = ()) -> pd.DataFrame:
    """Sort by dataset, embedding and segment as the paper does, then by other columns as given."""
    ranks = {
        "dataset": _ranks(schema.dataset_order(list(numbers["dataset"].unique()))),
        "embedding": _ranks(schema.embedding_order(list(numbers["embedding"].unique()))),
        "segment": _ranks(segment_order(numbers["segment"].unique())),
    }
    keys = pd.DataFrame({name: numbers[name].map(rank) for name, rank in ranks.items()})
    for name in last:
        keys[name] = numbers[name].map(_ranks(list(numbers[name].unique())))
    return numbers.loc[keys.sort_values(list(keys), kind="stable").index].reset_index(drop=True)


def _ranks(names: Sequence[str]) -> dict[str, int]:
    return {name: rank for rank, name in enumerate(names)}


def segment_order(labels: Sequence[str]) -> list[str]:
    """Sort segment labels: ratios by value, narrow before wide.

    Examples
    --------
    >>> segment_order(["10.0", "2.0"]), segment_order(["wide", "narrow"])
    (['2.0', '10.0'], ['narrow', 'wide'])
    """

    def place(label: str) -> tuple[float, str]:
        try:
            return float(label), label
        except ValueError:
            return math.inf, label

    return sorted(labels, key=place)


def why_empty(entry: Entry, dataset: Dataset, run: Parameters) -> str:
    """Say why no segment of an entry can be shown."""
    _, fewest = _segmentation(entry, run)
    sizes = _segment_sizes(entry, dataset, run)
    where = f" of {entry.dataset}" if entry.dataset else ""
    if sizes.empty:
        return f"The data has no graded rows{where}."
    rows = "graded rows whose 2K row exists" if entry.require_2k else "graded rows"
    largest = sizes.loc[sizes["n"].idxmax()]
    if not largest["n"]:
        return f"No segment{where} has {rows}."
    place = f"{largest['dataset']}, " if not entry.dataset else ""
    named = f"K/N_p = {largest['segment']}" if entry.kind != "narrow-wide" else largest["segment"]
    return f"No segment{where} has {fewest} {rows} (largest: {largest['n']} at {place}{named})."


def _complete(numbers: pd.DataFrame, sizes: pd.DataFrame, fewest: int) -> pd.DataFrame:
    """Add a row without a value for each cell of the grid whose segment is too small.

    The grid is every embedding of the data by every dataset and segment that has one cell.
    """
    cells = ["dataset", "embedding", "segment"]
    wide = numbers.drop_duplicates(["dataset", "segment", "measure", "coefficient"])
    present = set(zip(*(numbers[c] for c in [*cells, "measure", "coefficient"]), strict=True))
    known = sizes.set_index(cells)[["n", "n_total"]]
    rows = []
    for shown, embedding in product(wide.to_dict("records"), sizes["embedding"].unique()):
        key = (shown["dataset"], embedding, shown["segment"])
        if (*key, shown["measure"], shown["coefficient"]) in present:
            continue
        n, n_total = known.loc[key] if key in known.index else (0, 0)
        reason = f"{n} graded rows, fewer than {fewest}" if n else "no graded rows"
        empty = {"alpha": math.nan, "correlation": math.nan, "reason": reason}
        rows.append(shown | {"embedding": embedding, "n": n, "n_total": n_total} | empty)
    return pd.concat([numbers, pd.DataFrame(rows)], ignore_index=True) if rows else numbers


# --- each kind ----------------------------------------------------------------------------------


def _schematic(entry: Entry, dataset: Dataset, run: Parameters) -> Result:
    """Measures of the example that the schematic shows, at α = 1/2."""
    example = pd.DataFrame(
        {
            "n_positives": [EXAMPLE_PATTERN.count("1")],
            "K": [len(EXAMPLE_PATTERN)],
            "Np": [EXAMPLE_POSITIVES],
            "pattern": [EXAMPLE_PATTERN],
        }
    )
    rows = []
    for name in ("P", "R", "F", "nDCG", "T"):
        alpha = 0.5 if MEASURES[name].has_alpha else None
        value = float(MEASURES[name].evaluate(example, alpha)[0])
        rows.append({"measure": name, "alpha": alpha, "value": value})
    numbers = pd.DataFrame(rows).astype({"alpha": "float64"})
    return Result(entry, run, numbers, notes=("The picture shows an example, not data.",))


def _distribution(entry: Entry, dataset: Dataset, run: Parameters) -> Result:
    """Share of each grade in every ratio segment that is large enough."""
    rows = scored_rows(Source(dataset), run.embeddings, run.datasets)
    rows = rows[rows["dataset"].astype("str") == entry.dataset]
    sizes = _segment_sizes(entry, dataset, run)
    kept = sizes[sizes["n"] >= run.min_samples_ratio]
    if kept.empty:
        return nothing(entry, dataset, run, SHARE_COLUMNS)
    keys = ["dataset", "embedding", "segment"]
    graded = pd.DataFrame(
        {
            "dataset": entry.dataset,
            "embedding": rows["E"].astype("str"),
            "segment": segments.label_segments(rows, "ratio").astype("str"),
            "grade": rows["grade"],
        }
    ).dropna(subset="grade")
    counts = graded.astype({"grade": "int64"}).value_counts().rename("count").reset_index()
    grades = pd.DataFrame({"grade": schema.GRADES})
    numbers = kept.merge(grades, how="cross").merge(counts, on=[*keys, "grade"], how="left")
    numbers["count"] = numbers["count"].fillna(0).astype("int64")
    numbers["share"] = numbers["count"] / numbers["n"]
    numbers = in_order(numbers[list(SHARE_COLUMNS)], ["grade"])
    return Result(
        entry,
        run,
        numbers,
        n=int(kept["n"].sum()),
        limits=(0.0, 1.0),
        notes=_row_notes(kept),
        simulated=dataset.simulated,
    )


def _narrow_wide(entry: Entry, dataset: Dataset, run: Parameters) -> Result:
    """Correlations on narrow and wide segments of all datasets; one scale for all coefficients."""
    cells = _correlations(entry, dataset, run, tuple(COEFFICIENTS))
    numbers = cells[cells["coefficient"] == entry.coefficient]
    if numbers.empty:
        return nothing(entry, dataset, run, CELL_COLUMNS, entry.coefficient)
    numbers = _complete(numbers, _segment_sizes(entry, dataset, run), run.min_samples_width)
    known = cells["correlation"].fillna(0.0)
    low, high = min(0.0, _below(known.min())), max(0.0, -_below(-known.max()))
    return _cell_result(
        entry, dataset, run, numbers, entry.coefficient, (low, high) if high > low else (-1.0, 1.0)
    )


def _by_ratio(entry: Entry, dataset: Dataset, run: Parameters) -> Result:
    """Correlations of one measure by ratio."""
    coefficient = entry.coefficient_for(run)
    cells = _correlations(entry, dataset, run, (coefficient,))
    numbers = cells[cells["dataset"] == entry.dataset]
    if numbers.empty:
        return nothing(entry, dataset, run, CELL_COLUMNS, coefficient)
    numbers = _complete(numbers, _segment_sizes(entry, dataset, run), run.min_samples_ratio)
    limit = _correlation_limit(Source(dataset), run, coefficient)
    return _cell_result(entry, dataset, run, numbers, coefficient, (-limit, limit))


@lru_cache(maxsize=8)
def _correlation_limit(source: Source, run: Parameters, coefficient: str) -> float:
    """End of the scale that all heatmaps of correlations have in common."""
    segmentation = ("ratio", run.min_samples_ratio)
    drawn = [entry.measures for entry in FIGURES.values() if entry.kind == "correlation"]
    measures = tuple(dict.fromkeys(measure for one in drawn for measure in one))
    cells = _measured(source, run, segmentation, measures, (coefficient,), False)
    return _limit(cells["correlation"])


def _limit(values: pd.Series) -> float:
    """Least step of the scale that holds all values; 1 where there is none."""
    largest = values.abs().max()
    return max(_SCALE_STEP, -_below(-largest)) if largest == largest else 1.0


def _cell_result(
    entry: Entry,
    dataset: Dataset,
    run: Parameters,
    numbers: pd.DataFrame,
    coefficient: str,
    limits: tuple[float, float],
) -> Result:
    numbers = numbers.assign(reason=numbers["reason"].fillna(""))
    first = {name: rank for rank, name in enumerate(entry.measures)}
    numbers = numbers.sort_values("measure", key=lambda names: names.map(first), kind="stable")
    numbers = in_order(numbers[list(CELL_COLUMNS)], ["measure"])
    once = numbers.drop_duplicates(["dataset", "embedding", "segment"])
    notes = (*_row_notes(once), *_undefined_notes(numbers, "correlation"))
    return Result(
        entry,
        run,
        numbers,
        coefficient,
        _rows_used(once, _segmentation(entry, run)[1]),
        limits,
        notes,
        simulated=dataset.simulated,
    )


def _difference(entry: Entry, dataset: Dataset, run: Parameters) -> Result:
    """First measure's correlation minus the second's by ratio; one scale for all datasets."""
    coefficient = entry.coefficient_for(run)
    found = _differences(Source(dataset), run, entry.measures, coefficient, entry.require_2k)
    numbers = found[found["dataset"] == entry.dataset].reset_index(drop=True)
    if numbers.empty:
        return nothing(entry, dataset, run, DIFFERENCE_COLUMNS, coefficient)
    limit = _limit(found["difference"])
    return Result(
        entry,
        run,
        numbers,
        coefficient,
        _rows_used(numbers, run.min_samples_ratio),
        (-limit, limit),
        (*_row_notes(numbers, entry.require_2k), *_undefined_notes(numbers, "difference")),
        simulated=dataset.simulated,
    )


@lru_cache(maxsize=64)
def _differences(
    source: Source, run: Parameters, measures: tuple[str, ...], coefficient: str, require_2k: bool
) -> pd.DataFrame:
    """Differences of all datasets by ratio, in order, with the cells that are too small."""
    segmentation = ("ratio", run.min_samples_ratio)
    cells = _measured(source, run, segmentation, measures, (coefficient,), require_2k)
    if cells.empty:
        return pd.DataFrame(columns=list(DIFFERENCE_COLUMNS))
    sizes = _sizes(source, run.embeddings, run.datasets, "ratio", require_2k)
    whole = [
        _complete(part, sizes[sizes["dataset"] == name], run.min_samples_ratio)
        for name, part in cells.groupby("dataset", sort=False)
    ]
    return in_order(_subtract(pd.concat(whole, ignore_index=True), measures))


def _subtract(cells: pd.DataFrame, measures: Sequence[str]) -> pd.DataFrame:
    """Put the cells of two measures side by side and subtract the second's correlation."""
    keys = ["dataset", "embedding", "segmentation", "segment", "n", "n_total", "coefficient"]
    values = [*keys, "alpha", "correlation", "reason"]
    first, second = (cells.loc[cells["measure"] == measure, values] for measure in measures)
    both = first.merge(second, on=keys, suffixes=("_first", "_second"))
    both["first"], both["second"] = measures
    both["difference"] = both["correlation_first"] - both["correlation_second"]
    reasons = zip(both["reason_first"].fillna(""), both["reason_second"].fillna(""), strict=True)
    both["reason"] = [_joined_reason(pair, measures) for pair in reasons]
    return both[list(DIFFERENCE_COLUMNS)]


def _joined_reason(reasons: tuple[str, str], measures: Sequence[str]) -> str:
    if reasons[0] == reasons[1]:
        return reasons[0]
    named = zip(measures, reasons, strict=True)
    return "; ".join(f"{measure_name(name)}: {reason}" for name, reason in named if reason)


def _below(value: float) -> float:
    """Round down to a step of the scale; a hair of float noise does not cost a step.

    Examples
    --------
    >>> _below(-0.31), _below(0.3)
    (-0.35, 0.3)
    """
    return round(math.floor(round(value / _SCALE_STEP, 6)) * _SCALE_STEP, 2)


def _rows_used(cells: pd.DataFrame, fewest: int) -> int:
    return int(cells.loc[cells["n"] >= fewest, "n"].sum())


def _row_notes(cells: pd.DataFrame, require_2k: bool = False) -> tuple[str, ...]:
    """Say how many rows of the segments shown did not count."""
    left_out = int((cells["n_total"] - cells["n"]).sum())
    if not left_out:
        return ()
    why = "no grade, or no graded row of 2K" if require_2k else "no grade"
    rows = f"{left_out:,} of {int(cells['n_total'].sum()):,} rows of these segments"
    return (f"{rows} do not count: they have {why}.",)


def _undefined_notes(numbers: pd.DataFrame, value: str) -> tuple[str, ...]:
    """Say how many cells have no value, and why."""
    empty = numbers[numbers[value].isna()]
    if empty.empty:
        return ()
    reasons = empty["reason"].str.replace(r"^[0-9]+ graded rows", "graded rows", regex=True)
    counted = ", ".join(f"{reason} ({n})" for reason, n in reasons.value_counts().items())
    return (f"{len(empty)} of {len(numbers)} cells have no value: {counted}.",)


def nothing(
    entry: Entry,
    dataset: Dataset,
    run: Parameters,
    columns: Sequence[str],
    coefficient: str = "",
) -> Result:
    """Give a result without numbers that says why no segment can be shown."""
    missing = why_empty(entry, dataset, run)
    empty = pd.DataFrame(columns=list(columns))
    return Result(entry, run, empty, coefficient, missing=missing, simulated=dataset.simulated)


# --- tables -------------------------------------------------------------------------------------


def _table(entry: Entry, dataset: Dataset, run: Parameters) -> Result:
    return (_ranked_table if entry.number == 1 else _count_table)(entry, dataset, run)


RANKED_COLUMNS = ("subset", "embedding", "Nc", "Np", "K_low", "K_high", "n_r", "n_g")
"""Columns of Table 1; ``n_g`` is the number of graded samples that its K lists ask for."""
COUNT_COLUMNS = ("subset", "embedding", "n_r", "n_g", "n_gn", "n_gw", "n_null")
"""Columns of Table 2; ``n_null`` of the ``n_g`` samples have no grade."""


def _ranked_table(entry: Entry, dataset: Dataset, run: Parameters) -> Result:
    """Table 1: ranked samples by subset, N_c, N_p and range of K."""
    if "ranked" not in dataset.parts:
        return _no_part(entry, dataset, run, "ranked", RANKED_COLUMNS)
    rows = _kept(dataset.read("ranked", ["id", "E", "Nc", "Np", "K"]), run)
    lists = [list(values) for values in rows["K"]]
    rows = rows[["subset", "embedding", "Nc", "Np"]].assign(
        K_low=[min(values, default=0) for values in lists],
        K_high=[max(values, default=0) for values in lists],
        size=[len(values) for values in lists],
    )
    keys = ["subset", "embedding", "Nc", "Np", "K_low", "K_high"]
    counts = rows.groupby(keys)["size"].agg(n_r="count", n_g="sum").reset_index()
    return _table_result(entry, dataset, run, counts, RANKED_COLUMNS, "n_r")


def _count_table(entry: Entry, dataset: Dataset, run: Parameters) -> Result:
    """Table 2: ranked and graded samples by subset, and how many are narrow or wide."""
    rows = scored_rows(Source(dataset), run.embeddings, run.datasets)
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
        ranked = _kept(dataset.read("ranked", ["id", "E"]), run)
        ranked = ranked.groupby(["subset", "embedding"]).size().rename("n_r").reset_index()
        counts = counts.merge(ranked, on=["subset", "embedding"], how="outer")
        counts = counts.fillna({name: 0 for name in counts.columns if name.startswith("n_")})
        counts = counts.astype({n: "int64" for n in counts.columns if n.startswith("n_")})
    else:
        counts["n_r"] = pd.array([None] * len(counts), dtype="Int64")
        notes = ("The data has no ranked samples: n_r is not known.",)
    return _table_result(entry, dataset, run, counts, COUNT_COLUMNS, "n_g", notes)


def _kept(rows: pd.DataFrame, run: Parameters) -> pd.DataFrame:
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


def _table_result(
    entry: Entry,
    dataset: Dataset,
    run: Parameters,
    counts: pd.DataFrame,
    columns: Sequence[str],
    total: str,
    notes: tuple[str, ...] = (),
) -> Result:
    if counts.empty:
        missing = "The data has no rows of what was asked for."
        empty = pd.DataFrame(columns=list(columns))
        return Result(entry, run, empty, missing=missing, simulated=dataset.simulated)
    n = int(counts[total].sum())
    numbers = _one_row_for_equal_embeddings(counts, columns)
    embeddings = schema.embedding_order(list(counts["embedding"].unique()))
    if len(embeddings) > 1 and (numbers["embedding"] == "each").any():
        labels = ", ".join(schema.embedding_label(code) for code in embeddings)
        notes = (*notes, f"Rows marked each hold for every one of the embeddings {labels}.")
    return Result(entry, run, numbers, n=n, notes=notes, simulated=dataset.simulated)


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
    ranks = _ranks(schema.subset_order(list(grouped["subset"].unique())))
    order = grouped["subset"].map(ranks).sort_values(kind="stable").index
    return grouped.loc[order, list(columns)].reset_index(drop=True)


def _no_part(
    entry: Entry, dataset: Dataset, run: Parameters, part: str, columns: Sequence[str]
) -> Result:
    missing = f"The data has no file samples_{part}, which this needs."
    empty = pd.DataFrame(columns=list(columns))
    return Result(entry, run, empty, missing=missing, simulated=dataset.simulated)


# --- code ---------------------------------------------------------------------------------------


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


RELATION_COLUMNS = ("relation", "rows", "broken", "first_broken")
"""Columns of the numbers of Figures 22 and 30."""
TEXT_COLUMNS = ("rank", "index", "kind", "text")
"""Columns of the numbers of Figure 21."""


def _code(entry: Entry, dataset: Dataset, run: Parameters) -> Result:
    needs = ("graded", "ranked") if entry.topic == "graded" else ("ranked", "texts")
    columns = TEXT_COLUMNS if entry.topic == "texts" else RELATION_COLUMNS
    for part in needs:
        if part not in dataset.parts:
            return _no_part(entry, dataset, run, part, columns)
    show = {"texts": _show_texts, "ranked": _show_ranked, "graded": _show_graded}
    return show[entry.topic](entry, dataset, run)


def _show_texts(entry: Entry, dataset: Dataset, run: Parameters) -> Result:
    """Figure 21 on the first ranked sample of the run."""
    ranked = _kept(dataset.read("ranked", ["id", "E", "Nc", "Np", "rank"]), run)
    texts = dataset.read("texts", ["id", "q", "p", "n"])
    ranked = ranked[ranked["id"].isin(texts["id"])]
    if ranked.empty:
        missing = "No ranked sample of what was asked for has its texts."
        empty = pd.DataFrame(columns=list(TEXT_COLUMNS))
        return Result(entry, run, empty, missing=missing, simulated=dataset.simulated)
    sample = ranked.iloc[0]
    text = texts[texts["id"].astype("str") == str(sample["id"])].iloc[0]
    try:
        ordered = texts_in_rank_order(text, sample)
    except IndexError:
        missing = (
            f"The rank of {visible(str(sample['id']))} in samples_ranked names a text that "
            "samples_texts does not have; `retrieval-quality data validate` lists all such rows."
        )
        empty = pd.DataFrame(columns=list(TEXT_COLUMNS))
        return Result(entry, run, empty, missing=missing, simulated=dataset.simulated)
    indices = [int(i) for i in sample["rank"]]
    numbers = pd.DataFrame(
        {
            "rank": range(1, len(indices) + 1),
            "index": indices,
            "kind": ["positive" if i < sample["Np"] else "negative" for i in indices],
            "text": [visible(value) for value in ordered],
        }
    )
    listing = [
        f"{sample['id']}, {schema.embedding_label(str(sample['E']))}: {visible(text['q'])}",
        *(f"{r.rank:>3}  {r.kind}  {r.text}" for r in numbers.head(_LISTED_TEXTS).itertuples()),
    ]
    if len(numbers) > _LISTED_TEXTS:
        listing.append(f"     … and {len(numbers) - _LISTED_TEXTS} more")
    return Result(
        entry,
        run,
        numbers,
        n=1,
        text=_listing(texts_in_rank_order, listing),
        simulated=dataset.simulated,
    )


def _show_ranked(entry: Entry, dataset: Dataset, run: Parameters) -> Result:
    ranked = _kept(dataset.read("ranked", ["id", "E", "Nc", "Np", "K", "P", "R", "rank"]), run)
    ranked, texts = _with_lists(ranked), _with_lists(dataset.read("texts", ["id", "p", "n"]))
    held = relations_of_ranked(ranked, texts)
    return _relation_result(entry, dataset, run, ranked, held, relations_of_ranked)


def _show_graded(entry: Entry, dataset: Dataset, run: Parameters) -> Result:
    graded = _kept(dataset.read("graded", ["id", "E", "Nc", "Np", "K", "rank", "inK"]), run)
    ranked = _with_lists(dataset.read("ranked", ["id", "E", "Nc", "Np", "K", "rank"]))
    graded = _with_lists(graded)
    held = relations_of_graded(graded, ranked)
    return _relation_result(entry, dataset, run, graded, held, relations_of_graded)


def _relation_result(
    entry: Entry,
    dataset: Dataset,
    run: Parameters,
    rows: pd.DataFrame,
    held: dict[str, Any],
    function: Callable[..., Any],
) -> Result:
    """Count the rows that break each relation and name the first."""
    if rows.empty:
        missing = "The data has no rows of what was asked for."
        empty = pd.DataFrame(columns=list(RELATION_COLUMNS))
        return Result(entry, run, empty, missing=missing, simulated=dataset.simulated)
    records = []
    for relation, holds in held.items():
        broken = ~np.asarray(holds, dtype=bool)
        first = rows.iloc[int(broken.argmax())] if broken.any() else None
        name = (
            "" if first is None else f"{first['id']} {first['E']} Nc={first['Nc']} Np={first['Np']}"
        )
        records.append((relation, len(rows), int(broken.sum()), name))
    numbers = pd.DataFrame(records, columns=list(RELATION_COLUMNS))
    listing = [
        f"{'holds ' if not r.broken else 'BROKEN'}  {r.rows - r.broken:,} of {r.rows:,}  "
        f"{r.relation}" + (f"  (first broken: {visible(r.first_broken)})" if r.broken else "")
        for r in numbers.itertuples()
    ]
    failed = numbers[numbers["broken"] > 0]
    notes = tuple(f"{r.relation} breaks in {r.broken:,} rows." for r in failed.itertuples())
    return Result(
        entry,
        run,
        numbers,
        n=len(rows),
        notes=notes,
        text=_listing(function, listing),
        simulated=dataset.simulated,
    )


def _listing(function: Callable[..., Any], lines: Sequence[str]) -> str:
    return inspect.getsource(function).rstrip() + "\n\n\n" + "\n".join(lines) + "\n"


def visible(text: str, longest: int = _WIDEST_TEXT) -> str:
    r"""Make text of a dataset safe to show: one line, cut, with control characters spelled out.

    Examples
    --------
    >>> visible("a\tb\x1b[0m")
    'a\\u0009b\\u001b[0m'
    """
    hidden = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}
    shown = "".join(
        f"\\u{ord(c):04x}" if unicodedata.category(c) in hidden else c for c in text[: longest + 1]
    )
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"
