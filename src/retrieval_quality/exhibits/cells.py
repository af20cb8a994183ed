"""What exhibits share: the rows of a run, the correlation of every cell, and its differences.

Each is worked out once in a process and kept by the content of the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from functools import wraps
from itertools import product
from typing import TYPE_CHECKING, ParamSpec

import pandas as pd

from retrieval_quality.data import schema
from retrieval_quality.exhibits.words import measure_name
from retrieval_quality.measures import segments
from retrieval_quality.measures.segments import segment_order
from retrieval_quality.parameters import Parameters
from retrieval_quality.statistics import correlation
from retrieval_quality.statistics.selection import Selection

if TYPE_CHECKING:
    from retrieval_quality.data.dataset import Dataset

CELL = ["dataset", "embedding", "segment"]
"""Columns that tell the cells of one segmentation apart."""

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
"""Columns of differences: the first measure's correlation minus the second's."""

_GATHERED = ("F", "nDCG", "T", "Tu")
"""Measures that are correlated together, since several pages show them."""
_SCALE_STEP = 0.05


_Asked = ParamSpec("_Asked")


def once(
    most: int,
) -> Callable[[Callable[_Asked, pd.DataFrame]], Callable[_Asked, pd.DataFrame]]:
    """Keep the last results of a function of a dataset, a run and more.

    Of the run only its embeddings and datasets are part of the key; what else matters to a result
    must be an argument of its own.

    Parameters
    ----------
    most : int
        Results that are kept; the one that was asked for longest ago goes first.
    """

    def keep(work: Callable[_Asked, pd.DataFrame]) -> Callable[_Asked, pd.DataFrame]:
        kept: dict[Hashable, pd.DataFrame] = {}

        @wraps(work)
        def asked(*args: _Asked.args, **more: _Asked.kwargs) -> pd.DataFrame:
            dataset, run, *rest = args
            assert isinstance(run, Parameters)
            key = (dataset, run.embeddings, run.datasets, *rest, *sorted(more.items()))
            found = kept.pop(key) if key in kept else work(*args, **more)
            kept[key] = found
            if len(kept) > most:
                del kept[next(iter(kept))]
            return found

        return asked

    return keep


@once(2)
def scored_rows(dataset: Dataset, run: Parameters) -> pd.DataFrame:
    """Give the scored rows of a run, read once in a process."""
    return dataset.scored(run.embeddings, run.datasets)


def select(
    run: Parameters,
    measures: Sequence[str],
    coefficients: Iterable[str],
    *,
    segmentation: str = "ratio",
    require_2k: bool = False,
) -> Selection:
    """Say which correlations a run asks for of these measures."""
    narrow_wide = segmentation == "narrow-wide"
    return Selection(
        segmentation=segmentation,
        min_samples=run.min_samples_width if narrow_wide else run.min_samples_ratio,
        measures=tuple(measures),
        coefficients=tuple(coefficients),
        require_2k=require_2k,
        alpha=run.alpha,
    )


@once(64)
def correlations(dataset: Dataset, run: Parameters, selected: Selection) -> pd.DataFrame:
    """Correlate measures with the grade in every segment: `correlation.COLUMNS`.

    Key columns are plain text. Measures that several pages show are worked out together.
    """
    wanted = selected.measures
    if not selected.require_2k and wanted != _GATHERED and set(wanted) <= set(_GATHERED):
        together = correlations(dataset, run, replace(selected, measures=_GATHERED))
        return together[together["measure"].isin(wanted)]
    rows = scored_rows(dataset, run)
    if rows.empty:
        return pd.DataFrame(columns=list(correlation.COLUMNS))
    cells = correlation.correlate(rows, **selected.options())
    keys = [*CELL, "segmentation", "measure", "coefficient"]
    return cells.astype(dict.fromkeys(keys, "str"))


def sizes_of_segments(dataset: Dataset, run: Parameters, selected: Selection) -> pd.DataFrame:
    """Count the rows of every segment, large enough or not.

    Returns
    -------
    DataFrame
        ``dataset, embedding, segment, n, n_total``; plain text in the key columns.
    """
    return sizes_by(dataset, run, selected.segmentation, selected.require_2k)


@once(8)
def sizes_by(
    dataset: Dataset, run: Parameters, segmentation: str, require_2k: bool
) -> pd.DataFrame:
    """Count the rows of every segment of one segmentation, see `sizes_of_segments`."""
    rows = scored_rows(dataset, run)
    n_total = segments.segment_sizes(rows, segmentation).astype(dict.fromkeys(CELL, "str"))
    if not require_2k:
        return n_total
    usable = segments.segment_sizes(rows[rows["n_positives_2k"].notna()], segmentation)
    usable = usable.astype(dict.fromkeys(CELL, "str")).drop(columns="n_total")
    merged = n_total.drop(columns="n").merge(usable, on=CELL, how="left")
    return merged.fillna({"n": 0}).astype({"n": "int64"})


def why_none(dataset: Dataset, run: Parameters, selected: Selection, of: str = "") -> str:
    """Say why no segment of a dataset (of none, where `of` is empty) can be shown."""
    sizes = sizes_of_segments(dataset, run, selected)
    sizes = sizes[sizes["dataset"] == of] if of else sizes
    where = f" of {of}" if of else ""
    if sizes.empty:
        return f"The data has no graded rows{where}."
    rows = "graded rows whose 2K row exists" if selected.require_2k else "graded rows"
    largest = sizes.loc[sizes["n"].idxmax()]
    if not largest["n"]:
        return f"No segment{where} has {rows}."
    place = f"{largest['dataset']}, " if not of else ""
    by_ratio = selected.segmentation == "ratio"
    named = f"K/N_p = {largest['segment']}" if by_ratio else largest["segment"]
    return (
        f"No segment{where} has {selected.min_samples} {rows} "
        f"(largest: {largest['n']} at {place}{named})."
    )


def with_small_segments(cells: pd.DataFrame, sizes: pd.DataFrame, fewest: int) -> pd.DataFrame:
    """Add a row without a value for each cell of the grid whose segment is too small.

    The grid is every embedding of the data by every dataset and segment that has one cell.
    """
    wide = cells.drop_duplicates(["dataset", "segment", "measure", "coefficient"])
    present = set(zip(*(cells[c] for c in [*CELL, "measure", "coefficient"]), strict=True))
    known = sizes.set_index(CELL)[["n", "n_total"]]
    rows = []
    for shown, embedding in product(wide.to_dict("records"), sizes["embedding"].unique()):
        key = (shown["dataset"], embedding, shown["segment"])
        if (*key, shown["measure"], shown["coefficient"]) in present:
            continue
        n, n_total = known.loc[key] if key in known.index else (0, 0)
        reason = f"{n} graded rows, fewer than {fewest}" if n else "no graded rows"
        empty = {"alpha": math.nan, "correlation": math.nan, "reason": reason}
        rows.append(shown | {"embedding": embedding, "n": n, "n_total": n_total} | empty)
    return pd.concat([cells, pd.DataFrame(rows)], ignore_index=True) if rows else cells


@once(64)
def differences(dataset: Dataset, run: Parameters, selected: Selection) -> pd.DataFrame:
    """Subtract the second measure's correlation from the first's in every cell by ratio.

    Parameters
    ----------
    dataset, run
        As for `correlations`.
    selected
        Two measures and one coefficient.

    Returns
    -------
    DataFrame
        `DIFFERENCE_COLUMNS`, of all datasets in reading order, with the cells that are too small.
    """
    cells = correlations(dataset, run, selected)
    if cells.empty:
        return pd.DataFrame(columns=list(DIFFERENCE_COLUMNS))
    sizes = sizes_of_segments(dataset, run, selected)
    assert selected.min_samples is not None
    whole = [
        with_small_segments(part, sizes[sizes["dataset"] == name], selected.min_samples)
        for name, part in cells.groupby("dataset", sort=False)
    ]
    return in_order(subtract(pd.concat(whole, ignore_index=True), selected.measures))


def subtract(cells: pd.DataFrame, measures: Sequence[str]) -> pd.DataFrame:
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


# --- order, scale and notes -----------------------------------------------------------------------


def in_order(numbers: pd.DataFrame, last: Sequence[str] = ()) -> pd.DataFrame:
    """Sort by dataset, embedding and segment as the paper does, then by other columns as given."""
    places = {
        "dataset": places_of(schema.dataset_order(list(numbers["dataset"].unique()))),
        "embedding": places_of(schema.embedding_order(list(numbers["embedding"].unique()))),
        "segment": places_of(segment_order(numbers["segment"].unique())),
    }
    keys = pd.DataFrame({name: numbers[name].map(place) for name, place in places.items()})
    for name in last:
        keys[name] = numbers[name].map(places_of(list(numbers[name].unique())))
    return numbers.loc[keys.sort_values(list(keys), kind="stable").index].reset_index(drop=True)


def places_of(names: Sequence[str]) -> dict[str, int]:
    """Give each name its place in the list."""
    return {name: place for place, name in enumerate(names)}


def end_of_scale(values: pd.Series) -> float:
    """Give the least step of the scale that holds all values; 1 where there is none."""
    largest = values.abs().max()
    return max(_SCALE_STEP, -step_below(-largest)) if largest == largest else 1.0


def step_below(value: float) -> float:
    """Round down to a step of the scale; a hair of float noise does not cost a step.

    Examples
    --------
    >>> step_below(-0.31), step_below(0.3)
    (-0.35, 0.3)
    """
    return round(math.floor(round(value / _SCALE_STEP, 6)) * _SCALE_STEP, 2)


def rows_used(cells: pd.DataFrame, fewest: int) -> int:
    """Count the rows of the segments that are large enough."""
    return int(cells.loc[cells["n"] >= fewest, "n"].sum())


def notes_on_rows(cells: pd.DataFrame, require_2k: bool = False) -> tuple[str, ...]:
    """Say how many rows of the segments shown did not count."""
    left_out = int((cells["n_total"] - cells["n"]).sum())
    if not left_out:
        return ()
    why = "no grade, or no graded row of 2K" if require_2k else "no grade"
    rows = f"{left_out:,} of {int(cells['n_total'].sum()):,} rows of these segments"
    return (f"{rows} do not count: they have {why}.",)


def notes_on_undefined(numbers: pd.DataFrame, value: str) -> tuple[str, ...]:
    """Say how many cells have no value, and why."""
    empty = numbers[numbers[value].isna()]
    if empty.empty:
        return ()
    reasons = empty["reason"].str.replace(r"^[0-9]+ graded rows", "graded rows", regex=True)
    counted = ", ".join(f"{reason} ({n})" for reason, n in reasons.value_counts().items())
    return (f"{len(empty)} of {len(numbers)} cells have no value: {counted}.",)
