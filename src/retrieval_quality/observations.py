"""What the numbers of a figure say, in computed sentences of plain text.

Notebooks put these under a picture, so that no number in their prose is typed; the first of them
also serves whoever cannot see the picture.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd

from retrieval_quality import schema
from retrieval_quality.analysis import Result
from retrieval_quality.catalogue import measure_name
from retrieval_quality.markup import signed

_RATIOS_LISTED = 8
_TOLERANCE = 1e-9


def observe(result: Result) -> list[str]:
    """Say what the numbers of a figure or table show.

    Parameters
    ----------
    result : Result
        From `analysis.compute`.

    Returns
    -------
    list of str
        Sentences: what is seen first, then what was left out and why. Only what is missing where
        there is nothing to show.
    """
    if result.missing:
        return [result.missing]
    kinds = {
        "distribution": _distribution,
        "correlation": _correlation,
        "difference": _difference,
        "narrow-wide": _narrow_wide,
    }
    say = kinds.get(result.entry.kind)
    return [*(say(result) if say else []), *result.notes]


def mean_grades(result: Result) -> pd.DataFrame:
    """Mean grade of each segment of a distribution.

    Parameters
    ----------
    result : Result
        Of a figure of kind ``distribution``.

    Returns
    -------
    DataFrame
        ``dataset, embedding, segment, n, mean_grade`` (1-5).
    """
    numbers = result.numbers
    weighted = numbers.assign(mean_grade=numbers["grade"] * numbers["share"])
    keys = ["dataset", "embedding", "segment", "n"]
    return weighted.groupby(keys, sort=False)["mean_grade"].sum().reset_index()


def best_ratios(result: Result) -> pd.DataFrame:
    """Ratio with the highest mean grade, for each embedding of a distribution.

    Parameters
    ----------
    result : Result
        Of a figure of kind ``distribution``.

    Returns
    -------
    DataFrame
        ``dataset, embedding, best_ratio, mean_grade, n``, and the mean grade at the lowest and the
        highest ratio shown: ``at_lowest, at_highest``.
    """
    rows = []
    for (dataset, embedding), part in mean_grades(result).groupby(
        ["dataset", "embedding"], sort=False
    ):
        part = part.sort_values("segment", key=lambda names: names.astype(float))
        best = part.loc[part["mean_grade"].idxmax()]
        ends = part["mean_grade"].iloc[[0, -1]]
        rows.append((dataset, embedding, best["segment"], best["mean_grade"], best["n"], *ends))
    columns = ["dataset", "embedding", "best_ratio", "mean_grade", "n", "at_lowest", "at_highest"]
    return pd.DataFrame(rows, columns=columns)


def _number(value: float) -> str:
    return f"{value:.3f}".replace("-", "−")


def _place(cell: pd.Series) -> str:
    label = schema.embedding_label(str(cell["embedding"]))
    return f"{label} at K/N_p = {cell['segment']}, n = {int(cell['n']):,}"


def _listed(ratios: list[str]) -> str:
    shown = ", ".join(ratios[:_RATIOS_LISTED])
    return shown + (
        f" and {len(ratios) - _RATIOS_LISTED} more" if len(ratios) > _RATIOS_LISTED else ""
    )


def _distribution(result: Result) -> list[str]:
    best = best_ratios(result)
    said = [
        f"{schema.embedding_label(row.embedding)}: the mean grade is highest at "
        f"K/N_p = {row.best_ratio} ({row.mean_grade:.2f}, n = {row.n:,}); it is "
        f"{row.at_lowest:.2f} at the lowest ratio shown and {row.at_highest:.2f} at the highest."
        for row in best.itertuples()
    ]
    return [f"{result.n:,} graded answers, {len(best)} embeddings.", *said]


def _correlation(result: Result) -> list[str]:
    known = result.numbers.dropna(subset="correlation")
    if known.empty:
        return ["No cell has a correlation."]
    low = known.loc[known["correlation"].idxmin()]
    high = known.loc[known["correlation"].idxmax()]
    said = [
        (
            f"{len(known)} cells, median correlation {_number(known['correlation'].median())}: "
            f"from {_number(low['correlation'])} ({_place(low)}) to {_number(high['correlation'])} "
            f"({_place(high)})."
        )
    ]
    across = [_spread(known, by) for by in ("segment", "embedding")]
    if all(value == value for value in across):
        said.append(
            f"Averages over embeddings differ by {_number(across[0])} between ratios; averages "
            f"over ratios differ by {_number(across[1])} between embeddings."
        )
    return said


def _spread(known: pd.DataFrame, by: str) -> float:
    """Range of the means over the cells that every row and column of the map has in common."""
    grid = known.pivot_table(index="embedding", columns="segment", values="correlation")
    grid = grid.dropna(axis="columns")
    if grid.shape[0] < 2 or grid.shape[1] < 2:
        return float("nan")
    means = grid.mean(axis=0 if by == "segment" else 1)
    return float(means.max() - means.min())


def _difference(result: Result) -> list[str]:
    first, second = (measure_name(name) for name in result.entry.measures)
    known = result.numbers.dropna(subset="difference")
    if known.empty:
        return ["No cell has a difference."]
    values = known["difference"]
    low, high = known.loc[values.idxmin()], known.loc[values.idxmax()]
    said = [
        (
            f"{first} is ahead of {second} in {int((values > 0).sum())} of {len(known)} cells and "
            f"behind in {int((values < 0).sum())}. The median is {signed(values.median())}: from "
            f"{signed(low['difference'])} ({_place(low)}) to {signed(high['difference'])} "
            f"({_place(high)})."
        )
    ]
    by_ratio = known.groupby("segment")["difference"].agg(["min", "max"])
    by_ratio = by_ratio.sort_index(key=lambda names: names.astype(float))
    for side, chosen in {
        "ahead": by_ratio.index[by_ratio["min"] > 0],
        "behind": by_ratio.index[by_ratio["max"] < 0],
    }.items():
        if len(chosen):
            said.append(
                f"{first} is {side} for every embedding that has a cell at K/N_p = "
                f"{_listed(list(chosen))}."
            )
    return said


def _narrow_wide(result: Result) -> list[str]:
    grid = result.numbers.pivot_table(
        index=["dataset", "embedding", "segment"], columns="measure", values="correlation"
    )
    if grid.empty:
        return ["No segment has a correlation."]
    medians = ", ".join(
        f"{measure_name(name)} {_number(grid[name].median())}"
        for name in result.entry.measures
        if name in grid
    )
    said = [f"{len(grid)} segments; median correlations: {medians}."]
    for first, second in combinations([n for n in result.entry.measures if n in grid], 2):
        gap = (grid[first] - grid[second]).dropna()
        if len(gap):
            said.append(
                f"{measure_name(first)} minus {measure_name(second)}: median "
                f"{signed(gap.median())}, from {signed(gap.min())} to {signed(gap.max())}; ahead "
                f"in {int((gap > 0).sum())} of {len(gap)} segments."
            )
    return said


def checks(result: Result) -> list[tuple[str, bool]]:
    """List what must hold of the numbers of one figure or table."""
    label, numbers = result.entry.label, result.numbers
    if result.entry.number is None:
        label = result.entry.title
    if result.missing:
        return [
            (f"{label}: nothing to check, {result.missing[0].lower()}{result.missing[1:]}", True)
        ]
    match result.entry.kind:
        case "distribution":
            sums = numbers.groupby(["embedding", "segment"])["share"].sum()
            counts = numbers.groupby(["embedding", "segment"])["count"].sum()
            n = numbers.groupby(["embedding", "segment"])["n"].first()
            return [
                (f"{label}: shares of {len(sums)} columns add up to 1", _near(sums, 1)),
                (f"{label}: counts of each column add up to its n", bool((counts == n).all())),
                (
                    f"{label}: no column has fewer rows than the minimum",
                    bool((n >= result.parameters.min_samples_ratio).all()),
                ),
            ]
        case "correlation" | "narrow-wide":
            fewest = (
                result.parameters.min_samples_width
                if result.entry.kind == "narrow-wide"
                else result.parameters.min_samples_ratio
            )
            return _cell_checks(label, numbers, "correlation", 1, fewest)
        case "difference":
            return _cell_checks(
                label, numbers, "difference", 2, result.parameters.min_samples_ratio
            )
        case "code":
            return _code_checks(label, numbers)
        case "study" | "study-table":
            return _study_checks(label, result)
        case "table" if "n_gn" in numbers:
            same = numbers["n_gn"] + numbers["n_gw"] == numbers["n_g"]
            return [(f"{label}: narrow and wide add up to all graded samples", bool(same.all()))]
        case "table":
            return [(f"{label}: every row stands for a sample", bool((numbers["n_r"] > 0).all()))]
        case _:
            return [(f"{label}: it was drawn", True)]


def _cell_checks(
    label: str, numbers: pd.DataFrame, value: str, bound: float, fewest: int
) -> list[tuple[str, bool]]:
    known = numbers[numbers[value].notna()]
    undefined = numbers[numbers[value].isna()]
    return [
        (
            f"{label}: {len(known)} values lie in −{bound}…{bound}",
            bool((known[value].abs() <= bound + _TOLERANCE).all()),
        ),
        (
            f"{label}: each of them rests on {fewest} rows or more, and no more than there are",
            bool(((known["n"] >= fewest) & (known["n"] <= known["n_total"])).all()),
        ),
        (
            f"{label}: each of {len(undefined)} cells without a value says why",
            bool((undefined["reason"].fillna("") != "").all()),
        ),
    ]


def _study_checks(label: str, result: Result) -> list[tuple[str, bool]]:
    """Check that values are in the picture, that ends are in order, and reasons given."""
    numbers = result.numbers
    known = numbers[_with_value(numbers)]
    found = [(f"{label}: {len(known)} values rest on graded answers", bool((known["n"] > 0).all()))]
    if {"low", "high"} <= set(numbers):
        ends = numbers.dropna(subset=["low", "high"])
        found.append(
            (f"{label}: {len(ends)} intervals end above where they begin", _in_order(ends))
        )
    if result.limits and "value" in numbers:
        low, high = result.limits
        inside = numbers["value"].dropna().between(low - _TOLERANCE, high + _TOLERANCE)
        found.append((f"{label}: {len(inside)} values lie on the scale", bool(inside.all())))
    if "reason" in numbers:
        lacking = numbers.drop(known.index)["reason"].fillna("")
        found.append(
            (
                f"{label}: each of {len(lacking)} rows without a value says why",
                "" not in set(lacking),
            )
        )
    return found


def _with_value(numbers: pd.DataFrame) -> pd.Series:
    names = [name for name in ("value", "kept", "correlation") if name in numbers]
    return numbers[names[0]].notna() if names else pd.Series(True, index=numbers.index)


def _in_order(ends: pd.DataFrame) -> bool:
    return bool((ends["low"] <= ends["high"] + _TOLERANCE).all())


def _code_checks(label: str, numbers: pd.DataFrame) -> list[tuple[str, bool]]:
    if "broken" not in numbers:
        return [(f"{label}: {len(numbers)} texts, each in its place", bool(len(numbers)))]
    return [
        (f"{label}: {row.relation} holds in all {row.rows:,} rows", row.broken == 0)
        for row in numbers.itertuples()
    ]


def _near(values: pd.Series, target: float) -> bool:
    return bool(np.all(np.abs(values.to_numpy(dtype=float) - target) <= _TOLERANCE))
