"""What the numbers of a figure say, in computed sentences of plain text.

Notebooks put these under a picture, so that no number in their prose is typed; the first of them
also serves whoever cannot see the picture.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd

from retrieval_quality.data import schema
from retrieval_quality.exhibits.analysis import Result
from retrieval_quality.exhibits.catalogue import measure_name
from retrieval_quality.markup import signed

_RATIOS_LISTED = 8
_TOLERANCE = 1e-9
_NOTABLE = 0.01
_CELL = ["dataset", "embedding", "segment"]


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


def _signed(value: float) -> str:
    """Write a difference with its sign, and one digit of what would be rounded away."""
    if value == 0 or float(f"{value:.3f}") != 0:
        return signed(value)
    digit = np.format_float_positional(abs(value), precision=1, fractional=False)
    return ("+" if value > 0 else "−") + digit


def _place(known: pd.DataFrame, column: str, value: float) -> str:
    """Say where a value is found: the cell, or how many share it."""
    cells = known[known[column] == value]
    if len(cells) > 1:
        return f"in {len(cells)} cells"
    cell = cells.iloc[0]
    label = schema.embedding_label(str(cell["embedding"]))
    return f"{label} at K/N_p = {cell['segment']}, n = {int(cell['n']):,}"


def _listed(ratios: list[str]) -> str:
    if len(ratios) == 1:
        return ratios[0]
    if len(ratios) <= _RATIOS_LISTED:
        return f"{', '.join(ratios[:-1])} and {ratios[-1]}"
    shown = ", ".join(ratios[:_RATIOS_LISTED])
    more = len(ratios) - _RATIOS_LISTED
    return f"{shown} and {more} other ratio{'' if more == 1 else 's'}"


def counted(number: int, noun: str, plural: str = "") -> str:
    """Write a number with its noun.

    Examples
    --------
    >>> counted(1, "cell"), counted(1200, "cell"), counted(0, "query", "queries")
    ('1 cell', '1,200 cells', '0 queries')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _distribution(result: Result) -> list[str]:
    best = best_ratios(result)
    said = [
        f"{schema.embedding_label(row.embedding)}: the mean grade is highest at "
        f"K/N_p = {row.best_ratio} ({row.mean_grade:.2f}, n = {row.n:,}); it is "
        f"{row.at_lowest:.2f} at the lowest ratio shown and {row.at_highest:.2f} at the highest."
        for row in best.itertuples()
    ]
    graded = counted(result.n, "graded answer")
    return [f"{graded}, {counted(len(best), 'embedding')}.", *said]


def _correlation(result: Result) -> list[str]:
    known = result.numbers.dropna(subset="correlation")
    if known.empty:
        return ["No cell has a correlation."]
    values = known["correlation"]
    said = [
        f"{counted(len(known), 'cell')}, median correlation {_number(values.median())}: "
        + " ".join(
            f"{word} {_number(value)} ({_place(known, 'correlation', value)})"
            for word, value in (("from", values.min()), ("to", values.max()))
        )
        + "."
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
    if (values == 0).all():
        return [f"{first} and {second} have equal correlations in all {len(known)} cells."]
    equal = int((values == 0).sum())
    said = [
        f"{first} is ahead of {second} in {int((values > 0).sum())} of "
        f"{counted(len(known), 'cell')}, behind in {int((values < 0).sum())}"
        + (f" and equal in {equal}" if equal else "")
        + f". The median is {_signed(values.median())}: "
        + " ".join(
            f"{word} {_signed(value)} ({_place(known, 'difference', value)})"
            for word, value in (("from", values.min()), ("to", values.max()))
        )
        + "."
    ]
    by_ratio = known.groupby("segment")["difference"].agg(["min", "max", "size"])
    by_ratio = by_ratio.sort_index(key=lambda names: names.astype(float))
    for side, chosen in {
        "ahead": by_ratio.index[by_ratio["min"] > 0],
        "behind": by_ratio.index[by_ratio["max"] < 0],
    }.items():
        if len(chosen):
            lacking = by_ratio.loc[chosen, "size"].min() < result.numbers["embedding"].nunique()
            there = " that has a value there" if lacking else ""
            said.append(
                f"At K/N_p = {_listed(list(chosen))}, {first} is {side} for every embedding{there}."
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
    said = [f"{counted(len(grid), 'segment')}; median correlations: {medians}."]
    for first, second in combinations([n for n in result.entry.measures if n in grid], 2):
        gap = (grid[first] - grid[second]).dropna()
        if len(gap):
            said.append(
                f"{measure_name(first)} minus {measure_name(second)}: median "
                f"{_signed(gap.median())}, from {_signed(gap.min())} to {_signed(gap.max())}; "
                f"ahead in {int((gap > 0).sum())} of {counted(len(gap), 'segment')}."
            )
    return said


def beside_exact(
    cells: pd.DataFrame, pair: tuple[str, str], marked: pd.DataFrame | None = None
) -> list[str]:
    """Say how much of a difference of two measures is owed to the grid of α and to float ties.

    Parameters
    ----------
    cells : DataFrame
        From `studies.exact_cells`: correlations on the published grid (``published``), and at the
        best of all α with ties as in exact arithmetic (``exact``).
    pair : (str, str)
        The measures, both among those of `cells`.
    marked : DataFrame, optional
        From `studies.differences`: which cells stand, at another α.

    Returns
    -------
    list of str
        Sentences; none where no cell has both measures.

    Examples
    --------
    >>> cells = pd.DataFrame({"dataset": "A", "embedding": "ME5S", "segment": "5.0",
    ...     "measure": ["Tu", "T"], "published": [0.38, 0.49], "exact": [0.48, 0.49]})
    >>> for sentence in beside_exact(cells, ("Tu", "T")): print(sentence)
    T_u minus T in 1 cell: from −0.110 to −0.110 on the published grid, from −0.010 to −0.010 \
at the best of all α with exact ties.
    In 1 of them the two differ by more than 0.01; most of all on A, EM at K/N_p = 5.0: −0.110 \
becomes −0.010.
    """
    first, second = pair
    both = cells[cells["measure"].isin(pair)].pivot_table(
        index=_CELL, columns="measure", values=["published", "exact"]
    )
    if not {first, second} <= set(both.columns.get_level_values("measure")):
        return []
    gaps = pd.DataFrame(
        {way: both[way][first] - both[way][second] for way in ("published", "exact")}
    ).dropna()
    if gaps.empty:
        return []
    name = f"{measure_name(first)} minus {measure_name(second)}"
    ranges = [f"from {_signed(gaps[way].min())} to {_signed(gaps[way].max())}" for way in gaps]
    told = (
        f"{name} in {counted(len(gaps), 'cell')}: {ranges[0]} on the published grid, {ranges[1]} "
        "at the best of all α with exact ties."
    )
    said = [told]
    change = (gaps["exact"] - gaps["published"]).abs()
    if (moved := int((change > _NOTABLE).sum())) > 0:
        dataset, embedding, segment = change.idxmax()
        label = schema.embedding_label(str(embedding))
        old, new = gaps.loc[change.idxmax(), ["published", "exact"]]
        said.append(
            f"In {moved} of them the two differ by more than {_NOTABLE}; most of all on {dataset}, "
            f"{label} at K/N_p = {segment}: {_signed(old)} becomes {_signed(new)}."
        )
    else:
        said.append(f"In none of them the two differ by more than {_NOTABLE}.")
    return said if marked is None else [*said, *_standing_beside(name, gaps, pair, marked)]


def _standing_beside(
    name: str, gaps: pd.DataFrame, pair: tuple[str, str], marked: pd.DataFrame
) -> list[str]:
    """Say how many of the cells that stand shrink to less than half where every α is tried."""
    own = marked[(marked["first"] == pair[0]) & (marked["second"] == pair[1]) & marked["stands"]]
    standing = own.set_index(_CELL)["difference"]
    if standing.empty:
        return [f"{name}: no cell stands."]
    exact = gaps["exact"].reindex(standing.index)
    shrunk = int((exact * np.sign(standing) < standing.abs() / 2).sum())
    told = (
        f"{name} stands in {counted(len(standing), 'cell')}; in {shrunk} of them the difference at "
        "the best of all α with exact ties is less than half as large, or has the other sign."
    )
    return [told]


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
                (f"{label}: shares of each of {len(sums)} bars add up to 1", _near(sums, 1)),
                (f"{label}: counts of each bar add up to its n", bool((counts == n).all())),
                (
                    f"{label}: no bar has fewer rows than the minimum",
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
    values = counted(len(known), "value")
    found = [
        (
            f"{label}: {values} between −{bound} and {bound}",
            bool((known[value].abs() <= bound + _TOLERANCE).all()),
        ),
        (
            f"{label}: each rests on {fewest} rows or more, and on no more than there are",
            bool(((known["n"] >= fewest) & (known["n"] <= known["n_total"])).all()),
        ),
    ]
    return [*found, *_reasons(label, numbers[numbers[value].isna()], "cell")]


def _reasons(label: str, undefined: pd.DataFrame, noun: str) -> list[tuple[str, bool]]:
    """Check that whatever has no value says why; nothing where all is defined."""
    if undefined.empty:
        return []
    says = "says" if len(undefined) == 1 else "say"
    return [
        (
            f"{label}: {counted(len(undefined), noun)} without a value {says} why",
            bool((undefined["reason"].fillna("") != "").all()),
        )
    ]


def _study_checks(label: str, result: Result) -> list[tuple[str, bool]]:
    """Check that values are in the picture, that ends are in order, and reasons given."""
    numbers = result.numbers
    known = numbers[_with_value(numbers)]
    values = counted(len(known), "value")
    rest = "rests" if len(known) == 1 else "rest"
    found = [(f"{label}: {values} {rest} on graded answers", bool((known["n"] > 0).all()))]
    if {"low", "high"} <= set(numbers):
        ends = numbers.dropna(subset=["low", "high"])
        intervals = counted(len(ends), "interval")
        none = f"{label}: none of {intervals} ends below where it begins"
        found += [(none, _in_order(ends))] if len(ends) else []
    if result.limits and "value" in numbers:
        low, high = result.limits
        inside = numbers["value"].dropna().between(low - _TOLERANCE, high + _TOLERANCE)
        found.append((f"{label}: no value lies beyond the scale", bool(inside.all())))
    if "reason" in numbers:
        found += _reasons(label, numbers.drop(known.index), "row")
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
