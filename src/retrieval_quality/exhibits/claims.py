"""The claims ledger: what the paper claims, each declared once, and what the loaded data say of it.

A claim becomes conditions, one for each dataset that it speaks of. A condition is a number computed
from the data with an interval, and the range in which the claim says that it lies. Words of a
verdict, of a condition and of a claim:

holds
    The interval lies inside the range; of a claim: every condition holds.
fails
    The interval lies outside; of a claim: a condition fails and none holds.
mixed
    Some conditions of the claim fail while others hold: the claim as a whole is refuted.
cannot tell
    The interval reaches to both sides of a limit, or what would have to be there for two things to
    be equal about is not shown to be there (a *premise*).
not evaluable
    The data lack a dataset, a range of ratios or a part that the claim is about.
by construction
    It could not have come out otherwise: at the best alpha of the same rows T is never below F, nor
    F_e, in a segment of one exact ratio.

Verdicts are given at three alphas (`evidence.KINDS`); that of the other datasets decides. Limits
that the paper does not give are ours (`Cuts`), and the verdict is given again with each of them
moved. How often the words are right on worlds whose law is known is measured by
``benchmarks/claims_calibration.py``.

p-values: a condition's is the larger of those against either limit (`Replicates.p_below`); a
claim's is the largest of its conditions, for all must hold (of a majority: the largest of the
smallest that make one). They are corrected once, over all claims that are tested, by Holm's
procedure. The level is that of one side of a 95% interval, 0.025.

References
----------
.. [1] arXiv 2512.20854; sections are those of version 1.
.. [2] S. Holm, "A simple sequentially rejective multiple test procedure", 1979.
.. [3] R. Berger, "Multiparameter hypothesis testing and acceptance sampling", 1982 (all must hold).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from retrieval_quality.data import schema
from retrieval_quality.data.dataset import Dataset
from retrieval_quality.exhibits.words import measure_name
from retrieval_quality.measures import lookup
from retrieval_quality.parameters import COEFFICIENTS, Parameters
from retrieval_quality.statistics import agreement, attribution, evidence
from retrieval_quality.statistics.counts import Counts, count_rows
from retrieval_quality.statistics.resampling import Replicates, query_weights, unit

FloatArray = NDArray[np.float64]
Mask = NDArray[np.bool_]
Range = tuple[float, float]

LEVEL = 0.95
ONE_SIDE = (1 - LEVEL) / 2
"""Level of a condition's test: one side of its interval."""

POWER = 1.959964 + 0.841621
"""Standard errors between a limit and what is found on its right side in 80% of data sets."""

VERDICTS = ("holds", "fails", "mixed", "cannot tell", "by construction", "not evaluable")
STAMP = "simulated data: this verdict says nothing about the world"
PAPER = tuple(schema.DATASETS)


@dataclass(frozen=True)
class Cuts:
    """The limits that are this book's own, because the paper gives none.

    Attributes
    ----------
    noticeable : float
        Difference of two coefficients that a reader of the paper's heatmaps would notice.
    little : float
        Loss of a coefficient that still counts as little.
    alike : float
        Standard deviation over cells, or distance of a dataset from the mean of all, up to which
        coefficients are similar.
    moderate_from, moderate_to : float
        Coefficients that are moderate.
    near : float
        Ratios K/N_p from one over this to this are near 1.
    low, high : float
        Up to where a ratio is low, and from where it is high.
    grade : float
        Difference of two mean grades, or gain per doubling of the ratio, that counts.
    trend : float
        Correlation of two coefficients' differences, without noise, from which trends are similar.
    mixed : float
        Share of cells with one sign from which a difference is no longer mixed.
    agreement : float
        Krippendorff's alpha from which agreement is commonly accepted.
    """

    noticeable: float = 0.02
    little: float = 0.05
    alike: float = 0.1
    moderate_from: float = 0.2
    moderate_to: float = 0.6
    near: float = 1.5
    low: float = 1.0
    high: float = 2.0
    grade: float = 0.05
    trend: float = 0.8
    mixed: float = 0.8
    agreement: float = 2 / 3


ALTERNATIVES: dict[str, tuple[float, float]] = {
    "noticeable": (0.01, 0.04),
    "little": (0.025, 0.1),
    "alike": (0.05, 0.15),
    "moderate_from": (0.1, 0.3),
    "moderate_to": (0.5, 0.7),
    "near": (1.3, 2.0),
    "low": (0.8, 1.2),
    "high": (1.5, 3.0),
    "grade": (0.0, 0.1),
    "trend": (0.7, 0.9),
    "mixed": (0.7, 0.9),
    "agreement": (0.6, 0.8),
}
"""What each limit is moved to, to see whether a verdict hangs on it."""


class _Watched:
    """Limits that remember which of them were asked for."""

    def __init__(self, cuts: Cuts) -> None:
        self.cuts, self.used = cuts, dict[str, None]()

    def __getattr__(self, name: str) -> float:
        value = getattr(self.cuts, name)
        self.used[name] = None
        return float(value)


@dataclass(frozen=True)
class Condition:
    """One number and where the claim says it lies.

    Attributes
    ----------
    name : str
        What the number is.
    sample : ndarray, shape (1 + replicates,)
        On the data, and on each replicate; NaN where undefined.
    inside : tuple of float
        The range, ends excluded.
    n : int
        Graded rows behind it.
    cells : int
        Segments behind it.
    void : str
        Why the number compares nothing, so that it refutes nothing; else empty.
    premise : bool
        Whether it only makes sure that there is something to be equal about: without it the claim
        cannot be told, with it nothing is shown.
    missing : str
        What the data lack; then there is no number.
    vote : str
        Conditions with the same vote are one each for a dataset, and a majority is asked for.
    """

    name: str
    sample: FloatArray
    inside: Range
    n: int
    cells: int
    void: str = ""
    premise: bool = False
    missing: str = ""
    vote: str = ""

    @property
    def effect(self) -> float:
        """The number on the data."""
        return float(self.sample[0])

    @cached_property
    def _replicates(self) -> Replicates:
        return Replicates(np.asarray(self.sample[0]), self.sample[1:])

    @cached_property
    def interval(self) -> Range:
        """Centred percentile interval; NaN where fewer than 95% of the replicates are defined."""
        low, high = self._replicates.interval(LEVEL, centred=True)
        return float(low), float(high)

    @property
    def detectable(self) -> float:
        """Smallest distance from a limit that such data show in 80% of cases."""
        return POWER * float(self._replicates.error)

    @property
    def p_value(self) -> float:
        """Chance of this number, or one further inside, were the truth at the nearer limit."""
        if np.isnan(self.interval[0]):
            return 1.0
        least, most = self.inside
        above = float(self._replicates.p_below(least)) if np.isfinite(least) else 0.0
        below = 1 - float(self._replicates.p_below(most)) if np.isfinite(most) else 0.0
        if np.isnan(above) or np.isnan(below):  # no spread at all
            return 0.0 if least < self.effect < most else 1.0
        return max(above, below)

    @property
    def verdict(self) -> str:
        """Say whether the claim's range is met."""
        (low, high), (least, most) = self.interval, self.inside
        if np.isnan(self.effect):
            return "not evaluable"
        if np.isnan(low) or (self.void and not least < self.effect < most):
            return "cannot tell"
        if least < low and high < most:
            return "holds"
        failed = high <= least or low >= most
        return "fails" if failed and not self.premise else "cannot tell"

    def __str__(self) -> str:
        if self.missing:
            return f"{self.name}: not evaluable, for the data have {self.missing}"
        low, high = self.interval
        interval = "no interval" if np.isnan(low) else f"[{low:.3f}, {high:.3f}]"
        numbers = "undefined" if np.isnan(self.effect) else f"{self.effect:.3f} {interval}"
        numbers = numbers.replace("-", "−")
        verdict = "shown, not tested" if self.inside == ANY else self.verdict
        told = f"{self.name}: {numbers}, n = {self.n:,} in {self.cells} segments"
        if self.inside != ANY and not np.isnan(low):
            told += f"; asked for {_range(self.inside)}, could show {self.detectable:.3f}"
        told += f": {verdict}"
        told += " (a premise)" if self.premise else ""
        return ". ".join(filter(None, [told, self.void]))

    def as_dict(self) -> dict[str, Any]:
        """Give the numbers as plain values."""
        low, high = self.interval if not self.missing else (np.nan, np.nan)
        return {
            "name": self.name,
            "verdict": "shown" if self.inside == ANY else self.verdict,
            "effect": _plain(self.effect),
            "low": _plain(low),
            "high": _plain(high),
            "above": _plain(self.inside[0]),
            "below": _plain(self.inside[1]),
            "detectable": _plain(self.detectable) if not self.missing else None,
            "n": self.n,
            "cells": self.cells,
            "premise": self.premise,
            "missing": self.missing,
        }


def _range(inside: Range) -> str:
    least, most = inside
    if np.isinf(most):
        told = f"above {least:g}"
    else:
        told = f"below {most:g}" if np.isinf(least) else f"{least:g} to {most:g}"
    return told.replace("-", "−")


@dataclass(frozen=True)
class Claim:
    """One claim of the paper.

    Attributes
    ----------
    number : int
        1 to 21.
    where : str
        Where the paper says so; sections of version 1.
    statement : str
        Our paraphrase.
    test : str
        How it is tested here, in words.
    refuted_by : str
        What would refute it.
    figures : tuple of int
        The paper's figures that show it.
    evaluate : callable
        From `View` to conditions.
    by_construction : str
        Why it holds at the best alpha whatever the data, where it does; else empty.
    extras : tuple of str
        Anchors of pictures that show it and are not in the paper.
    """

    number: int
    where: str
    statement: str
    test: str
    refuted_by: str
    figures: tuple[int, ...]
    evaluate: Callable[[View], list[Condition]]
    by_construction: str = ""
    extras: tuple[str, ...] = ()


# --- the evidence -------------------------------------------------------------------------------

_WHAT: dict[str, tuple[str, tuple[str, ...], bool]] = {
    "ratio": ("ratio", ("F", "nDCG", "T", "Tu"), False),
    "ratio_2k": ("ratio", ("F", "Fe"), True),
    "width": ("narrow-wide", ("F", "nDCG", "T"), False),
}
"""Segmentation, measures and whether the 2K row must exist, of each body of evidence."""

OTHER_COEFFICIENTS = ("pearson", "kendall_b")
"""Compared with Spearman's."""

TREND_SPLITS = 2
"""Halvings behind the agreement of two coefficients' differences."""


class Ledger:
    """The evidence that claims are judged by, computed once and only where asked for.

    Parameters
    ----------
    dataset : Dataset
        The data.
    parameters : Parameters
        Minimum sizes, datasets, embeddings and seed.
    replicates : int
        Bootstrap replicates.
    kinds : sequence of str
        Kinds of alpha, out of `evidence.KINDS`.
    """

    def __init__(
        self,
        dataset: Dataset,
        parameters: Parameters,
        replicates: int = 400,
        kinds: Sequence[str] = evidence.KINDS,
    ) -> None:
        self.dataset = dataset
        self.parameters = parameters
        self.replicates = replicates
        self.kinds = tuple(kinds)
        self._counted: dict[str, tuple[Counts, evidence.Weighting]] = {}
        self._cells: dict[str, evidence.Cells] = {}
        self._curves: dict[str, tuple[FloatArray, FloatArray, FloatArray, int, int]] = {}
        self._halves: dict[str, dict[str, FloatArray]] = {}

    @cached_property
    def rows(self) -> pd.DataFrame:
        """Scored rows of the run."""
        return self.dataset.scored(self.parameters.embeddings, self.parameters.datasets)

    def count(self, what: str) -> Counts:
        """Count the rows for one body of evidence."""
        segmentation, measures, require_2k = _WHAT[what]
        run = self.parameters
        fewest = run.min_samples_ratio if segmentation == "ratio" else run.min_samples_width
        columns = dict.fromkeys(c for measure in lookup(measures) for c in measure.columns)
        return count_rows(
            self.rows,
            segmentation=segmentation,
            min_samples=fewest,
            columns=[*columns, unit(self.rows)],
            require_2k=require_2k,
        )

    def counted(self, what: str) -> tuple[Counts, evidence.Weighting]:
        """Give counts and the weights of their queries."""
        if what not in self._counted:
            counts = self.count(what)
            seed = self.parameters.seed
            draw = evidence.Weighting.draw(counts, self.replicates, seed, halves=True)
            self._counted[what] = counts, draw
        return self._counted[what]

    def cells(self, what: str) -> evidence.Cells:
        """Cells of ``ratio``, ``ratio_2k`` or ``width`` at every kind of alpha."""
        if what not in self._cells:
            counts, draw = self.counted(what)
            measures = _WHAT[what][1]
            self._cells[what] = evidence.measure_cells(counts, measures, draw, kinds=self.kinds)
        return self._cells[what]

    def grade_curve(self, dataset: str) -> tuple[FloatArray, FloatArray, FloatArray, int, int]:
        """Mean grade of a dataset by ratio, all embeddings together.

        Returns
        -------
        ratios, whole, halves : ndarray
            As `evidence.grade_curves`. Ratios that every embedding of the dataset has, and in which
            questions of several N_p meet, unless all of the dataset have one N_p: a ratio of a
            single N_p has a mean grade of its own because of its questions.
        n, cells : int
            Graded rows and cells behind them.
        """
        if dataset not in self._curves:
            counts, draw = self.counted("ratio")
            which = self._shared(counts, dataset)
            used = counts.grade[which[counts.cell]]
            if len(used) and not np.ptp(used):  # one grade everywhere goes with nothing
                which = np.zeros_like(which)
            curves = evidence.grade_curves(counts, draw, which)
            n = int(counts.count[which[counts.cell]].sum())
            self._curves[dataset] = (*curves, n, int(which.sum()))
        return self._curves[dataset]

    def _shared(self, counts: Counts, dataset: str) -> Mask:
        """Cells of the ratios that `grade_curve` uses."""
        mine = (counts.cells["dataset"].astype(str) == dataset).to_numpy()
        own = mine[counts.cell]
        found = pd.DataFrame({"cell": counts.cell[own], "Np": counts.columns["Np"][own]})
        several = found.groupby("cell")["Np"].nunique() > 1
        mixed = np.zeros(len(mine), dtype=bool)
        mixed[several.index[several]] = True
        which = mine & mixed if mixed.any() else mine
        segment = counts.cells["segment"].astype(str)
        times = segment[which].value_counts()
        whole = times.index[times == times.max()] if len(times) else times.index
        return np.asarray(which & segment.isin(whole).to_numpy())

    def half_values(self, coefficient: str) -> dict[str, FloatArray]:
        """Coefficients of narrow and wide segments on halves of the queries."""
        if not self._halves:
            counts, draw = self.counted("width")
            self._halves = evidence.half_values(
                counts,
                _WHAT["width"][1],
                draw,
                ("spearman", *OTHER_COEFFICIENTS),
                self.cells("width").alphas,
                TREND_SPLITS,
            )
        return self._halves[coefficient]

    @cached_property
    def human(self) -> dict[str, FloatArray] | None:
        """Mean pairwise agreement of the LLM with people and of people with each other."""
        if "human" not in self.dataset.parts:
            return None
        human = self.dataset.read("human")
        grades = agreement.read_grades(human)
        if len(grades) < 2:
            return None
        same = self.dataset.same_query()
        there = human["id"].astype(str) if "id" in human else pd.Series(map(str, range(len(human))))
        units = there.map(lambda name: same.get(name, name)).to_numpy()
        names, place = np.unique(units, return_inverse=True)
        weights = query_weights(names.tolist(), min(self.replicates, 200), self.parameters.seed)
        whole = np.hstack([np.ones((len(names), 1), dtype=np.uint8), weights])
        picks = [np.repeat(np.arange(len(grades)), drawn) for drawn in whole[place].T]
        return agreement.pairwise(grades, picks) | {"n": np.array([float(len(grades))])}

    def at(self, kind: str, cuts: Cuts | None = None) -> View:
        """Give the evidence at one kind of alpha and under some limits."""
        return View(self, kind, cuts or Cuts())


class View:
    """A ledger at one kind of alpha, under some limits; what claims are evaluated on."""

    def __init__(self, ledger: Ledger, kind: str, cuts: Cuts) -> None:
        self.ledger, self.kind = ledger, kind
        self.watched = _Watched(cuts)

    @property
    def cut(self) -> Any:
        """The limits; what is read is remembered."""
        return self.watched

    def cells(self, what: str = "ratio") -> evidence.Cells:
        """Cells at this kind of alpha."""
        return self.ledger.cells(what).at(self.kind)

    def present(self, what: str = "ratio") -> list[str]:
        """Datasets of the paper that have such cells."""
        there = set(self.cells(what).frame["dataset"].astype(str))
        return [name for name in PAPER if name in there]

    def summary(
        self,
        measures: tuple[str, ...],
        dataset: str,
        inside: Range,
        *,
        ratios: Range = (0, np.inf),
        segment: str = "",
        how: str = "mean",
        what: str = "ratio",
        **more: Any,
    ) -> Condition:
        """Summarise a coefficient, or the difference of two, over the cells of a dataset.

        Parameters
        ----------
        measures : tuple of str
            One measure, or two whose difference is meant.
        dataset : str
            Whose cells.
        inside : tuple of float
            Where the claim says that the summary lies.
        ratios : tuple of float
            Ratios K/N_p of the cells, ends included.
        segment : str
            The only segment, such as ``narrow``.
        how : {"mean", "median", "share"}
            What is made of the cells; "share" is that of the cells above 0.
        what : str
            Body of evidence.
        **more
            Other fields of the condition.
        """
        cells = self.cells(what)
        values = cells.values[measures[0]]
        if len(measures) > 1:
            values = cells.difference(*measures)
        which = cells.of([dataset])
        where = f" on {dataset}"
        if ratios != (0, np.inf):
            which = which & (cells.ratio >= ratios[0]) & (cells.ratio <= ratios[1])
            where += f", {_ratios(ratios)}"
        if segment:
            which = which & (cells.frame["segment"].astype(str) == segment).to_numpy()
            where += f", {segment} segments"
        names = [measure_name(name) for name in measures]
        words = {"mean": "mean of ", "median": "median of ", "share": "share of segments with "}
        end = " above 0" if how == "share" else ""
        name = f"{words[how]}{' − '.join(names)}{end}{where}"
        if not which.any():
            return _missing(name, f"no segment of enough rows{where}", inside, **more)
        kept = which & evidence.steady(values)
        if not kept.any():
            return _missing(name, f"no defined value{where}", inside, **more)
        chosen = values[:, kept]
        sample = _over_cells(_HOW[how], chosen)
        void = ""
        if len(measures) > 1 and not chosen[~np.isnan(chosen)].any():
            void = COINCIDE.format(*names)
        n = int(cells.frame.loc[kept, "n"].sum())
        return Condition(name, sample, inside, n, int(kept.sum()), void, **more)

    def premise(self, measure: str, dataset: str, **more: Any) -> Condition:
        """There is something to be equal about: the measure itself goes with the grade."""
        return self.summary((measure,), dataset, POSITIVE, premise=True, **more)


def _over_cells(summary: Callable[..., Any], values: FloatArray) -> FloatArray:
    """Summarise the cells that are defined, replicate by replicate; NaN where none is."""
    empty = np.isnan(values).all(axis=1)
    out = np.full(len(values), np.nan)
    out[~empty] = summary(values[~empty], axis=1)
    return out


def _share_above(values: FloatArray, axis: int) -> FloatArray:
    known = ~np.isnan(values)
    ties = 0.5 * (values == 0)
    return np.asarray(((values > 0) + ties).sum(axis=axis) / known.sum(axis=axis))


_HOW: dict[str, Callable[..., Any]] = {
    "mean": np.nanmean,
    "median": np.nanmedian,
    "share": _share_above,
}

ANY = (-np.inf, np.inf)
POSITIVE = (0.0, np.inf)
NEGATIVE = (-np.inf, 0.0)
COINCIDE = "At the α used {} and {} order these rows alike: nothing is compared"
"""What is said of two measures that are the same in every cell and replicate."""


def _ratios(ratios: Range) -> str:
    low, high = ratios
    if np.isinf(high):
        return f"K/N_p from {low:g}"
    return f"K/N_p up to {high:g}" if low <= 0 else f"K/N_p {low:g} to {high:g}"


def _missing(name: str, what: str, inside: Range = ANY, **more: Any) -> Condition:
    return Condition(name, np.full(3, np.nan), inside, 0, 0, missing=what, **more)


def _within(margin: float) -> Range:
    return -margin, margin


# --- how the grade goes with the ratio ----------------------------------------------------------


def _grades_between(view: View, dataset: str, above: str, below: str, inside: Range) -> Condition:
    """Mean grade over one range of ratios less that over another."""
    near = view.cut.near
    ratios, whole, _, n, cells = view.ledger.grade_curve(dataset)
    parts = {
        "lower": ratios < 1 / near,
        "near 1": (ratios >= 1 / near) & (ratios <= near),
        "higher": ratios > near,
    }
    name = f"mean grade at ratios {above} less that at {below} ones on {dataset}"
    for part in (above, below):
        if not parts[part].any():
            return _missing(name, f"no ratios {part} on {dataset}", inside)
    sample = whole[:, parts[above]].mean(axis=1) - whole[:, parts[below]].mean(axis=1)
    return Condition(name, sample, inside, n, cells)


def _arxiv_peak(view: View) -> list[Condition]:
    enough = (view.cut.grade, np.inf)
    return [
        _grades_between(view, "A", "near 1", "lower", enough),
        _grades_between(view, "A", "near 1", "higher", enough),
    ]


def _peak(view: View, dataset: str) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    """Place of the best grade (log2 of the ratio), and the fall from there to either end.

    The best ratio of one half of the queries is looked at in the other half, so that a grade that
    does not fall has a mean fall of 0.
    """
    ratios, _, halves, _, _ = view.ledger.grade_curve(dataset)
    if len(ratios) < 3 or not halves.size:
        return None
    places, lower, upper = [], [], []
    for pair in halves:
        for first, second in ((pair[0], pair[1]), (pair[1], pair[0])):
            best = np.where(np.isnan(first), -np.inf, first).argmax(axis=1)
            there = second[np.arange(len(second)), best]
            places.append(np.log2(ratios)[best])
            lower.append(there - second[:, 0])
            upper.append(there - second[:, -1])
    place, low, high = (np.mean(each, axis=0) for each in (places, lower, upper))
    return place, low, high


def _msmarco_peak(view: View) -> list[Condition]:
    enough = (view.cut.grade, np.inf)
    found = {name: _peak(view, name) for name in ("A", "M")}
    for name, peak in found.items():
        if peak is None:
            return [_missing(f"best ratio on {name}", f"fewer than three ratios on {name}")]
    arxiv, msmarco = found["A"], found["M"]
    assert arxiv is not None
    assert msmarco is not None
    _, _, _, n, cells = view.ledger.grade_curve("M")
    _, _, _, more, others = view.ledger.grade_curve("A")
    told = "mean grade at the best ratio of other queries less that at the {} ratio, on M"
    return [
        Condition(told.format("lowest"), msmarco[1], enough, n, cells),
        Condition(told.format("highest"), msmarco[2], enough, n, cells),
        Condition(
            "doublings between the best ratio on A and that on M",
            msmarco[0] - arxiv[0],
            POSITIVE,
            n + more,
            cells + others,
        ),
    ]


def _rising(view: View) -> list[Condition]:
    conditions = []
    for dataset in ("Hs", "Hp", "N"):
        ratios, whole, _, n, cells = view.ledger.grade_curve(dataset)
        name = f"gain of the mean grade per doubling of the ratio on {dataset}"
        if len(ratios) < 3:
            conditions.append(_missing(name, f"fewer than three ratios on {dataset}"))
            continue
        slope = _slope(np.log2(ratios), whole)
        conditions.append(Condition(name, slope, (view.cut.grade, np.inf), n, cells))
        third = max(len(ratios) // 3, 1)
        last = whole[:, -third:].mean(axis=1) - whole[:, -2 * third : -third].mean(axis=1)
        name = f"mean grade over the highest third of the ratios less the middle third, {dataset}"
        conditions.append(Condition(name, last, (-view.cut.grade, np.inf), n, cells))
    return conditions


def _slope(x: FloatArray, y: FloatArray) -> FloatArray:
    """Least-squares slope of every row of y on x."""
    centred = x - x.mean()
    return np.asarray(y @ centred / (centred @ centred))


# --- measures against each other ----------------------------------------------------------------


def _loses_little(view: View) -> list[Condition]:
    inside = (-view.cut.little, np.inf)
    return [
        condition
        for dataset in PAPER
        for segment in ("narrow", "wide")
        for condition in (
            view.summary(("T", "F"), dataset, inside, segment=segment, what="width"),
            view.premise("F", dataset, segment=segment, what="width"),
        )
    ]


def _t_beats_f(view: View) -> list[Condition]:
    return [view.summary(("T", "F"), name, POSITIVE, how="median") for name in ("A", "Hs")]


def _t_worse_on_m(view: View) -> list[Condition]:
    return [view.summary(("T", "F"), "M", NEGATIVE)]


def _same(
    view: View, pair: tuple[str, str], datasets: Sequence[str], **more: Any
) -> list[Condition]:
    """Equal within what is noticeable, and both something to do with the grade."""
    inside = _within(view.cut.noticeable)
    return [
        condition
        for name in datasets
        for condition in (
            view.summary(pair, name, inside, **more),
            view.premise(pair[1], name, **more),
        )
    ]


def _t_same(view: View) -> list[Condition]:
    return _same(view, ("T", "F"), ("Hp", "N"))


def _tu_worse(view: View) -> list[Condition]:
    pair = ("Tu", "T")
    most = view.cut.mixed
    worse = [view.summary(pair, name, NEGATIVE) for name in ("A", "Hs")]
    mixed = view.summary(pair, "M", (1 - most, most), how="share")
    msmarco = view.summary(pair, "M", ANY)
    smaller = [_less(msmarco, each, "T_u − T", "M") for each in worse]
    return [*worse, mixed, *smaller, *_same(view, pair, ("Hp", "N"))]


def _less(one: Condition, other: Condition, what: str, on: str) -> Condition:
    """One number less another, to be above 0."""
    name = f"mean of {what} on {on} less {other.name}"
    for each in (one, other):
        if each.missing:
            return _missing(name, each.missing, POSITIVE)
    n, cells = one.n + other.n, one.cells + other.cells
    return Condition(name, one.sample - other.sample, POSITIVE, n, cells)


def _tu_is_t(view: View) -> list[Condition]:
    """Algebra at one K; a pair of retrievals across K; what the data show is not tested."""
    reaches = _can_lead("Tu", (1, 2), (2, 4)), _can_lead("T", (1, 2), (2, 4))
    count = 2 + view.ledger.replicates
    across = np.full(count, float(reaches[0] == reaches[1]))
    name = "T_u and T can put the same of two retrievals first, n_p of K 1 of 2 and 2 of 4 (1: yes)"
    shown = [view.summary(("Tu", "T"), dataset, ANY) for dataset in view.present()]
    within = Condition(
        "at one K both rise with n_p at every α below 1 (1: yes)",
        np.ones(count),
        (0.5, np.inf),
        0,
        0,
    )
    there = [condition for condition in shown if not condition.missing]
    return [within, Condition(name, across, (0.5, np.inf), 0, 0), *there]


def _can_lead(measure: str, one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether some alpha puts the first retrieval (n_p, K) strictly ahead of the second."""
    positives, top_k = np.array([one, other], dtype=np.int64).T
    keys = {"n_positives": positives, "K": top_k}
    chosen = lookup([measure])[0]
    values = [chosen.evaluate(keys, alpha) for alpha in np.linspace(0, 1, 1001)]
    return any(value[0] > value[1] + 1e-12 for value in values)


def _ndcg_against_f(view: View) -> list[Condition]:
    pair = ("nDCG", "F")
    votes = [view.summary(pair, name, NEGATIVE, vote="nDCG − F below 0") for name in PAPER]
    return [*votes, view.summary(pair, "A", POSITIVE, ratios=(view.cut.high, np.inf))]


def _trend(view: View, dataset: str, inside: Range) -> Condition:
    """Gain of nDCG − F per doubling of the ratio."""
    cells = view.cells()
    gap = cells.difference("nDCG", "F")
    which = cells.of([dataset]) & evidence.steady(gap) & ~np.isnan(gap).any(axis=0)
    name = f"gain of nDCG − F per doubling of the ratio on {dataset}"
    if len(np.unique(cells.ratio[which])) < 3:
        return _missing(name, f"fewer than three ratios on {dataset}", inside)
    n = int(cells.frame.loc[which, "n"].sum())
    slope = _slope(np.log2(cells.ratio[which]), gap[:, which])
    return Condition(name, slope, inside, n, int(which.sum()))


def _ndcg_gains(view: View) -> list[Condition]:
    gains = [_trend(view, name, POSITIVE) for name in ("M", "N")]
    high = (view.cut.high, np.inf)
    below = [view.summary(("nDCG", "F"), name, NEGATIVE) for name in ("M", "N")]
    below += [view.summary(("nDCG", "F"), name, NEGATIVE, ratios=high) for name in ("M", "N")]
    hotpot = [_trend(view, name, ANY) for name in ("Hs", "Hp")]
    less = [
        _less(gain, other, "that gain", name)
        for gain, name in zip(gains, ("M", "N"), strict=True)
        for other in hotpot
    ]
    return [*gains, *below, *less]


def _estimate_wins(view: View) -> list[Condition]:
    high = (view.cut.high, np.inf)
    better = [
        view.summary(("Fe", "F"), name, POSITIVE, ratios=high, what="ratio_2k")
        for name in ("A", "M")
    ]
    return [*better, *_same(view, ("Fe", "F"), ("Hp",), what="ratio_2k")]


def _t_against_ndcg(view: View) -> list[Condition]:
    high, pair = view.cut.high, ("T", "nDCG")
    conditions = [view.summary(pair, "A", POSITIVE, ratios=(0, high))]
    for name in ("M", "N", "Hs", "Hp"):
        conditions.append(view.summary(pair, name, POSITIVE, ratios=(0, high)))
        above = view.summary(pair, name, POSITIVE, ratios=(high, np.inf))
        if not above.missing:  # HotpotQA paragraphs may have no high ratios at all
            conditions.append(above)
    return conditions


def _order_matters(view: View) -> list[Condition]:
    high = (view.cut.high, np.inf)
    found = [
        view.summary(("nDCG", other), name, POSITIVE, ratios=high)
        for name in PAPER
        for other in ("F", "T")
    ]
    there = [condition for condition in found if not condition.missing]
    named = {condition.name for condition in there}
    asked = [condition for condition in found if " on A" in condition.name]
    lacking = [condition for condition in asked if condition.name not in named]
    if len(there) < 4:
        lacking = lacking or [_missing("nDCG − F at high ratios", "fewer than two datasets there")]
    return [*lacking, *there]


def _t_at_low_ratios(view: View) -> list[Condition]:
    low, least = view.cut.low, -view.cut.noticeable
    conditions = []
    for name in PAPER:
        conditions.append(view.summary(("T", "nDCG"), name, POSITIVE, ratios=(0, low)))
        below = (0, low - 0.05)
        conditions.append(view.summary(("T", "F"), name, (least, np.inf), ratios=below))
        conditions.append(view.premise("F", name, ratios=below))
    return conditions


# --- what goes with what ------------------------------------------------------------------------


def _embedding_matters_least(view: View) -> list[Condition]:
    cells = view.cells()
    quantities = {
        "the mean grade": cells.grade,
        "T − F": cells.difference("T", "F"),
        "T − nDCG": cells.difference("T", "nDCG"),
    }
    conditions = []
    for name, values in quantities.items():
        told = f"variance of {name} between datasets and ratios less that between embeddings"
        defined = evidence.steady(values) & ~np.isnan(values).any(axis=0)
        frame = cells.frame[defined].reset_index(drop=True)
        support = attribution.common_support(
            frame.astype({"dataset": str, "embedding": str, "segment": str})
        )
        if min(len(support.datasets), len(support.ratios), len(support.embeddings)) < 2:
            what = "no grid of two datasets, two ratios and two embeddings"
            conditions.append(_missing(told, what, POSITIVE))
            continue
        grid = support.positions(frame)
        documents, embedding = attribution.between(values[:, defined][:, grid])
        # in units of the larger of the two on the data, so that the number can be read
        unit_ = max(abs(documents[0]), abs(embedding[0])) or 1.0
        told += f" (of {'datasets and ratios' if documents[0] >= embedding[0] else 'embeddings'})"
        n = int(frame["n"].to_numpy()[grid.ravel()].sum())
        sample = (documents - embedding) / unit_
        conditions.append(Condition(told, sample, POSITIVE, n, support.n_cells))
    return conditions


def _moderate(view: View) -> list[Condition]:
    inside = (view.cut.moderate_from, view.cut.moderate_to)
    return [view.summary(("F",), name, inside, how="median") for name in PAPER]


def _alike(view: View) -> list[Condition]:
    cells = view.cells()
    values = cells.values["T"]
    which = evidence.steady(values)
    name = "standard deviation of T's Spearman over datasets, ratios and embeddings, without noise"
    inside = (-np.inf, view.cut.alike)
    there = set(cells.frame.loc[which, "dataset"].astype(str))
    if len(there) < 2 or len(set(cells.frame.loc[which, "segment"].astype(str))) < 2:
        return [_missing(name, "fewer than two datasets and two ratios", inside)]
    n = int(cells.frame.loc[which, "n"].sum())
    sample = evidence.spread(values[:, which])
    level = [view.premise("T", dataset) for dataset in view.present()]
    return [Condition(name, sample, inside, n, int(which.sum())), *level]


def _level_of_f(view: View) -> list[Condition]:
    parts = [view.summary(("F",), name, ANY, what="width") for name in PAPER]
    lacking = [part for part in parts if part.missing]
    if lacking:
        return lacking
    level = np.mean([part.sample for part in parts], axis=0)
    inside = _within(view.cut.alike)
    n, cells = sum(part.n for part in parts), sum(part.cells for part in parts)
    name = "mean of F over the datasets"
    return [
        *(
            replace(
                part, name=f"{part.name} less {name}", sample=part.sample - level, inside=inside
            )
            for part in parts
        ),
        Condition(name, level, POSITIVE, n, cells, premise=True),
    ]


def _same_trends(view: View) -> list[Condition]:
    """Correlation over cells of a difference by one coefficient and by another, without noise.

    The difference by Spearman on one half of the queries is set against that by the other
    coefficient on the other half, so that they share no noise, and the result is divided by what
    each reaches with itself.
    """
    values = view.ledger.half_values("spearman")
    conditions = []
    frame = view.cells("width").frame
    for first, second in (("T", "F"), ("nDCG", "F")):
        ours = values[first] - values[second]
        whole = np.asarray(~np.isnan(ours).any(axis=(0, 1, 2)))
        pair = f"{measure_name(first)} − {measure_name(second)}"
        name = f"correlation of {pair} over segments by Spearman with itself, other queries"
        if whole.sum() < 6:
            conditions.append(_missing(name, "fewer than six narrow or wide segments"))
            continue
        itself = _across(ours, ours, whole)
        n, cells = int(frame.loc[whole, "n"].sum()), int(whole.sum())
        there = Condition(name, itself, POSITIVE, n, cells, premise=True)
        conditions.append(there)
        void = "" if there.verdict == "holds" else f"{pair} does not go with itself: no trend"
        for coefficient in OTHER_COEFFICIENTS:
            other = view.ledger.half_values(coefficient)
            theirs = other[first] - other[second]
            known = np.asarray(whole & ~np.isnan(theirs).any(axis=(0, 1, 2)))
            both = _across(ours, theirs, known)
            scale: FloatArray = np.asarray(itself * _across(theirs, theirs, known))
            shared = np.where(scale > 0, both / np.sqrt(np.where(scale > 0, scale, 1)), np.nan)
            name = f"correlation of {pair} by {COEFFICIENTS[coefficient]} with that by Spearman"
            inside = (view.cut.trend, np.inf)
            conditions.append(Condition(name, shared, inside, n, cells, void))
    return conditions


def _across(one: FloatArray, other: FloatArray, which: Mask) -> FloatArray:
    """Correlation over cells of one half with the other, mean over splits and both ways round."""
    found = []
    for first, second in zip(one[..., which], other[..., which], strict=True):
        for a, b in ((first[0], second[1]), (first[1], second[0])):
            x = a - a.mean(axis=1, keepdims=True)
            y = b - b.mean(axis=1, keepdims=True)
            scale = np.sqrt((x**2).sum(axis=1) * (y**2).sum(axis=1))
            product = (x * y).sum(axis=1)
            found.append(np.divide(product, scale, out=np.full(len(x), np.nan), where=scale > 0))
    return np.asarray(np.mean(found, axis=0))


def _people_agree(view: View) -> list[Condition]:
    human = view.ledger.human
    name = "Krippendorff's alpha (ordinal), mean over pairs of the LLM and a person"
    if human is None:
        return [_missing(name, "no human grades")]
    n = int(human["n"][0])
    inside = (view.cut.agreement, np.inf)
    conditions = [Condition(name, human["llm"], inside, n, 1)]
    if not np.isnan(human["people"][0]):
        shown = "the same over pairs of persons; the paper has 0.77 to 0.82"
        conditions.append(Condition(shown, human["people"], ANY, n, 1))
    return conditions


_SEVERAL = "Only ratios count in which questions of several N_p meet."
_EXACT_RATIO = (
    "At the best alpha of the same rows it holds by construction in every segment of one exact "
    "ratio; it is therefore judged at an alpha that other datasets chose."
)
_CUT = Cuts()

CLAIMS: tuple[Claim, ...] = (
    Claim(
        1,
        "Section 3.1, Figure 2",
        "On ARXIV answers are best where K is near N_p: below, positives are missing; above, "
        "confusing negatives come along.",
        f"The mean grade at ratios near 1 (from 1/{_CUT.near:g} to {_CUT.near:g}) exceeds that at "
        f"lower ones, and that at higher ones, by {_CUT.grade} of a grade or more. {_SEVERAL}",
        "One of the two differences is smaller.",
        (2,),
        _arxiv_peak,
    ),
    Claim(
        2,
        "Section 3.1, Figure 3",
        "On MSMARCO the grade has the same shape with its best at a higher ratio.",
        "The ratio that is best for one half of the queries is looked at in the other half: there "
        f"the mean grade exceeds that at the lowest and at the highest ratio by {_CUT.grade} or "
        f"more, and the ratio is higher than on ARXIV. {_SEVERAL}",
        "The grade does not fall on one side, or the best ratio is not higher.",
        (3, 2),
        _msmarco_peak,
    ),
    Claim(
        3,
        "Section 3.1, appendix B, Figures 4, 19, 20",
        "On HotpotQA and Natural Questions a larger ratio means a better grade.",
        f"On each, the mean grade gains {_CUT.grade} or more per doubling of the ratio, and over "
        f"the highest third of the ratios it falls less than {_CUT.grade} behind the middle third.",
        "One of these is not so, on one of them.",
        (4, 19, 20),
        _rising,
    ),
    Claim(
        4,
        "Section 3.2, Figure 5",
        "On many narrow and wide segments T loses little against F.",
        f"The mean of T − F is above −{_CUT.little} over the narrow segments and over the wide "
        "ones of each dataset, where F itself goes with the grade.",
        "The mean loss is larger on one of them.",
        (5,),
        _loses_little,
    ),
    Claim(
        5,
        "Section 3.3, Figures 7, 8",
        "T is better than F in most ratio segments of ARXIV and HotpotQA sentences.",
        "The median of T − F over the segments is above 0, on each.",
        "It is not above 0 on one of them.",
        (7, 8),
        _t_beats_f,
        _EXACT_RATIO,
    ),
    Claim(
        6,
        "Section 3.3, Figure 9",
        "On MSMARCO T is worse than F.",
        "The mean of T − F over the ratio segments is below 0.",
        "It is not below 0.",
        (9,),
        _t_worse_on_m,
    ),
    Claim(
        7,
        "Section 3.3",
        "On HotpotQA paragraphs and Natural Questions T and F do not differ noticeably.",
        f"The mean of T − F lies within ±{_CUT.noticeable} on each, where F itself goes with the "
        "grade.",
        "It lies outside on one of them.",
        (29, 33, 27, 35),
        _t_same,
        extras=("extra-t-minus-f-hp", "extra-t-minus-f-n"),
    ),
    Claim(
        8,
        "Section 3.3, Figures 10 to 12",
        "T_u is worse than T on ARXIV and HotpotQA sentences; on MSMARCO the difference is mixed "
        "and smaller; on HotpotQA paragraphs and Natural Questions it is not noticeable.",
        "The mean of T_u − T is below 0 on A and on Hs; on M the share of segments above 0 lies "
        f"between {1 - _CUT.mixed:.1f} and {_CUT.mixed}, and the mean is above those on A and Hs; "
        f"on Hp and N the mean lies within ±{_CUT.noticeable}, where T itself goes with the grade.",
        "One of these is not so.",
        (10, 11, 12),
        _tu_worse,
    ),
    Claim(
        9,
        "Section 2.1",
        "T_u is equivalent to T up to a reparameterisation of α.",
        "At one K: algebra, for both rise with n_p. Across K: whether some α of each puts 1 "
        "positive of K = 2 ahead of 2 positives of K = 4. The mean of T_u − T is shown beside it.",
        "Two retrievals that one of the measures can order in a way that the other never does.",
        (10, 11, 12),
        _tu_is_t,
    ),
    Claim(
        10,
        "Section 3.3, Figures 13 to 15, 36, 37",
        "nDCG is worse than F for the majority of the datasets, but better at high ratios on "
        "ARXIV.",
        "The mean of nDCG − F over the ratio segments is below 0 on three of the five datasets or "
        f"more; on ARXIV at ratios from {_CUT.high:g} it is above 0.",
        "It is not below 0 on three of them, or not above 0 there.",
        (13, 14, 15, 36, 37),
        _ndcg_against_f,
    ),
    Claim(
        11,
        "Section 3.3, Figures 14, 15, 36, 37",
        "On MSMARCO and Natural Questions nDCG gains on F with the ratio and stays below it; on "
        "HotpotQA this is less pronounced.",
        "On M and on N nDCG − F rises with the logarithm of the ratio; its mean is below 0, over "
        f"all segments and at ratios from {_CUT.high:g}; the rise is steeper than on Hs and on Hp.",
        "One of these is not so.",
        (14, 15, 36, 37),
        _ndcg_gains,
    ),
    Claim(
        12,
        "Section 3.3, Figures 16, 17",
        "At high ratios F with an estimated N_p is better than F with the true one (ARXIV, "
        "MSMARCO); on HotpotQA paragraphs there is no noticeable difference.",
        f"The mean of F_e − F at ratios from {_CUT.high:g} is above 0, on A and on M; on Hp over "
        f"all ratios it lies within ±{_CUT.noticeable}, where F itself goes with the grade.",
        "One of these is not so.",
        (16, 17, 38, 39),
        _estimate_wins,
        _EXACT_RATIO,
    ),
    Claim(
        13,
        "Section 3.3, appendix D, Figures 18, 40 to 43",
        "T is better than nDCG: on ARXIV unless the ratio is high, and on the other datasets.",
        f"The mean of T − nDCG is above 0 at ratios up to {_CUT.high:g} on each dataset, and from "
        "there on each but ARXIV that has such segments.",
        "It is not above 0 in one of these.",
        (18, 40, 41, 42, 43),
        _t_against_ndcg,
    ),
    Claim(
        14,
        "Conclusion 1 (section 3.3 says so of ARXIV only, and of others the opposite: claim 13)",
        "At high ratios the order of the documents matters to the LLM, and nDCG is better than F "
        "and T.",
        f"The means of nDCG − F and nDCG − T at ratios from {_CUT.high:g} are above 0, on ARXIV "
        "and on each other dataset that has such segments.",
        "One of them is not above 0.",
        (13, 18),
        _order_matters,
    ),
    Claim(
        15,
        "Conclusion 2",
        "At ratios near 1 or lower T is better than nDCG, and below 1 better than F or equal, "
        "depending on the type of the documents.",
        f"On each dataset the mean of T − nDCG at ratios up to {_CUT.low:g} is above 0, and below "
        f"that the mean of T − F is above −{_CUT.noticeable}, where F itself goes with the grade.",
        "One of the two is not so, on one dataset.",
        (7, 8, 9, 18),
        _t_at_low_ratios,
    ),
    Claim(
        16,
        "Section 3.3, conclusion 4",
        "Kind of document and ratio matter more than the embedding, for the grade and for the "
        "choice of a measure.",
        "On the complete grid of datasets, ratios and embeddings the variance component of dataset "
        "and ratio exceeds that of the embedding with all its interactions, both without noise, "
        "for the mean grade, T − F and T − nDCG.",
        "The embedding's is as large for one of them.",
        (2, 3, 4, 7, 8, 9, 18),
        _embedding_matters_least,
    ),
    Claim(
        17,
        "Appendix C.2",
        "F's correlations are moderate.",
        f"The median over the ratio segments lies between {_CUT.moderate_from} and "
        f"{_CUT.moderate_to}, on each dataset.",
        "It lies outside on one of them.",
        (6, 26, 27, 28, 29),
        _moderate,
    ),
    Claim(
        18,
        "Appendix C.2, Figures 31 to 35",
        "T's correlations are similar across datasets and ratios.",
        "Their standard deviation over the ratio segments, without the noise of the segments, is "
        f"below {_CUT.alike}, and T goes with the grade on each dataset.",
        "It is larger.",
        (31, 32, 33, 34, 35),
        _alike,
    ),
    Claim(
        19,
        "Section 3.2, Figures 23 to 25",
        "Pearson's and Kendall's coefficients show trends similar to Spearman's.",
        "T − F and nDCG − F, each over the narrow and wide segments: the correlation of the "
        "difference by another coefficient with that by Spearman, on other queries and divided by "
        f"what each reaches with itself, is above {_CUT.trend}. Kendall's coefficient is close to "
        "Spearman's by construction; Pearson's need not be.",
        "It is lower for one of them.",
        (23, 24, 25, 5),
        _same_trends,
    ),
    Claim(
        20,
        "Version 2, human check",
        "The LLM's grades agree with people's.",
        "Krippendorff's alpha (ordinal) of the LLM with a person, the mean over persons, is above "
        f"{_CUT.agreement:.2f}; that of persons with each other is shown beside it.",
        "It is lower.",
        (),
        _people_agree,
    ),
    Claim(
        21,
        "Section 3.2, Figure 5",
        "The level of F's correlations is similar across the datasets.",
        "The mean of F over the narrow and wide segments of each dataset is less than "
        f"{_CUT.alike} from the mean over the datasets, which is above 0.",
        "One dataset lies further off.",
        (5, 6, 26, 27, 28, 29),
        _level_of_f,
    ),
)


# --- judging ------------------------------------------------------------------------------------


def evaluate(
    dataset: Dataset, parameters: Parameters | None = None, *, replicates: int = 400
) -> list[dict[str, Any]]:
    """Judge every claim by the loaded data.

    Parameters
    ----------
    dataset : Dataset
        The data.
    parameters : Parameters, optional
        Minimum sizes, datasets, embeddings, seed.
    replicates : int
        Bootstrap replicates.

    Returns
    -------
    list of dict
        One a claim: ``id, number, statement, where, test, refuted_by, by_construction, verdict,
        effect, low, high, detectable, n, cells, conditions, details, missing, verdicts,
        sensitivity, p_value, p_holm, note, figures, extras, data``. `effect`, `low`, `high`,
        `detectable`, `n` and `cells` are those of the condition that decides: the first with the
        verdict of the claim. ``verdicts`` is by kind of alpha, ``sensitivity`` by limit: the
        verdict with the limit moved to either alternative. ``p_holm`` is corrected for the number
        of claims tested. ``None`` where undefined.
    """
    return judge(Ledger(dataset, parameters or Parameters(), replicates))


def judge(ledger: Ledger) -> list[dict[str, Any]]:
    """Judge every claim by the evidence of a ledger; see `evaluate`."""
    dataset = ledger.dataset
    data = {
        "name": dataset.name,
        "simulated": dataset.simulated,
        "digest": dataset.digest,
        "commit": dataset.commit,
    }
    judged = [_judge(claim, ledger) | {"data": data} for claim in CLAIMS]
    _correct(judged)
    return judged


def _judge(claim: Claim, ledger: Ledger) -> dict[str, Any]:
    view = ledger.at(ledger.kinds[0])
    conditions = claim.evaluate(view)
    used = list(view.watched.used)
    verdict, deciding = decide(conditions)
    missing = list(dict.fromkeys(each.missing for each in conditions if each.missing))
    notes = [f"The data have {what}." for what in missing]
    if ledger.dataset.simulated:
        notes.append(f"{STAMP[0].upper()}{STAMP[1:]}.")
    number = deciding if deciding is not None and not deciding.missing else None
    low, high = number.interval if number else (np.nan, np.nan)
    return {
        "id": f"claim-{claim.number:02d}",
        "number": claim.number,
        "statement": claim.statement,
        "where": claim.where,
        "test": claim.test,
        "refuted_by": claim.refuted_by,
        "by_construction": claim.by_construction,
        "verdict": verdict,
        "effect": _plain(number.effect if number else np.nan),
        "low": _plain(low),
        "high": _plain(high),
        "detectable": _plain(number.detectable if number else np.nan),
        "n": number.n if number else 0,
        "cells": number.cells if number else 0,
        "conditions": [str(condition) for condition in conditions],
        "details": [condition.as_dict() for condition in conditions],
        "missing": missing,
        "verdicts": {kind: _verdict_at(claim, ledger, kind) for kind in ledger.kinds},
        "sensitivity": {
            name: {f"{value:g}": _verdict_with(claim, ledger, name, value) for value in moved}
            for name, moved in ((name, ALTERNATIVES[name]) for name in used)
        },
        "p_value": _plain(p_value(conditions)),
        "p_holm": None,
        "note": " ".join(notes),
        "figures": list(claim.figures),
        "extras": list(claim.extras),
    }


def _verdict_at(claim: Claim, ledger: Ledger, kind: str) -> str:
    verdict, _ = decide(claim.evaluate(ledger.at(kind)))
    sure = kind == "best" and claim.by_construction and verdict == "holds"
    return "by construction" if sure else verdict


def _verdict_with(claim: Claim, ledger: Ledger, name: str, value: float) -> str:
    moved = replace(Cuts(), **{name: value})
    return decide(claim.evaluate(ledger.at(ledger.kinds[0], moved)))[0]


def decide(conditions: Sequence[Condition]) -> tuple[str, Condition | None]:
    """Verdict of several conditions, and the one that decides.

    Parameters
    ----------
    conditions : sequence of Condition
        Those of one claim.

    Returns
    -------
    verdict : str
        ``not evaluable`` if something is missing or a number is undefined, or there is no
        condition; else ``fails`` or ``mixed`` if one fails; else ``cannot tell`` if one cannot be
        told; else ``holds``. Conditions with a vote are one together: it holds if more than half
        do, and fails if half or more fail.
    deciding : Condition or None
        The first that has the verdict, of ``mixed`` the first that fails.
    """
    asked = [each for each in conditions if each.inside != ANY or each.missing]
    for condition in asked:
        if condition.verdict == "not evaluable":
            return "not evaluable", condition
    outcomes = [(each.verdict, each) for each in asked if not each.vote]
    for name in dict.fromkeys(each.vote for each in asked if each.vote):
        outcomes.append(_majority([each for each in asked if each.vote == name]))
    failing = [each for verdict, each in outcomes if verdict == "fails"]
    holding = [each for verdict, each in outcomes if verdict == "holds" and not each.premise]
    if failing:
        return ("mixed" if holding else "fails"), failing[0]
    for verdict in ("cannot tell", "holds"):
        for found, each in outcomes:
            if found == verdict:
                return verdict, each
    return "not evaluable", None


def _majority(votes: Sequence[Condition]) -> tuple[str, Condition]:
    """Verdict of more than half of the conditions."""
    by: dict[str, list[Condition]] = {}
    for vote in votes:
        by.setdefault(vote.verdict, []).append(vote)
    if 2 * len(by.get("holds", [])) > len(votes):
        return "holds", by["holds"][0]
    if 2 * len(by.get("fails", [])) >= len(votes):
        return "fails", by["fails"][0]
    return "cannot tell", next(vote for vote in votes if vote.verdict != "holds")


def p_value(conditions: Sequence[Condition]) -> float:
    """Chance of conditions that all hold as clearly, were one of them just not so.

    Parameters
    ----------
    conditions : sequence of Condition
        Those of one claim.

    Returns
    -------
    float
        The largest p-value of a condition; of conditions with a vote the smallest that more than
        half of them reach. NaN where the claim is not evaluable or nothing is resampled.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> one = Condition("x", np.append(1.0, 1 + rng.normal(0, 0.5, 400)), (0, np.inf), 1, 1)
    >>> p_value([one]) < 0.05
    True
    """
    asked = [each for each in conditions if each.inside != ANY or each.missing]
    if not asked or any(each.verdict == "not evaluable" for each in asked):
        return np.nan
    found = [each.p_value for each in asked if not each.vote and each.cells]
    for name in dict.fromkeys(each.vote for each in asked if each.vote):
        votes = sorted(each.p_value for each in asked if each.vote == name)
        found.append(votes[len(votes) // 2])
    return max(found) if found else np.nan


def _correct(judged: list[dict[str, Any]]) -> None:
    """Enter Holm's p-values over the claims that have one."""
    tested = sorted(
        (claim for claim in judged if claim["p_value"] is not None), key=lambda c: c["p_value"]
    )
    largest = 0.0
    for i, claim in enumerate(tested):
        largest = max(largest, min(1.0, (len(tested) - i) * claim["p_value"]))
        claim["p_holm"] = _plain(largest)


def _plain(value: float) -> float | None:
    return round(float(value), 6) if np.isfinite(value) else None


# --- in words -----------------------------------------------------------------------------------

_KIND_NAMES = {"foreign": "of the other datasets", "crossfit": "cross-fitted", "best": "the best"}


def told(claim: dict[str, Any]) -> dict[str, str]:
    """Say of a judged claim what goes beyond its verdict, for a page.

    Parameters
    ----------
    claim : dict
        From `evaluate`.

    Returns
    -------
    dict of str to str
        Text by heading; empty where there is nothing to say.
    """
    at = "; ".join(f"{_KIND_NAMES[kind]}: {word}" for kind, word in claim["verdicts"].items())
    moved = [
        f"{name.replace('_', ' ')} {value}: {word}"
        for name, words in claim["sensitivity"].items()
        for value, word in words.items()
        if word != claim["verdict"]
    ]
    limits = "; ".join(moved) or "the verdict stays with each of our limits moved either way"
    if not claim["sensitivity"]:
        limits = "no limit of ours is used"
    sure = ""
    if claim["p_holm"] is not None:
        stands = claim["verdict"] != "holds" or claim["p_holm"] <= ONE_SIDE
        sure = f"p = {claim['p_value']:.4f}, over all claims tested {claim['p_holm']:.4f}"
        sure += "" if stands else ": it does not hold once the number of claims is counted"
    return {
        "At the α": at if len(set(claim["verdicts"].values())) > 1 else f"{at} (all alike)",
        "With other limits": limits,
        "Corrected": sure,
        "Missing": "; ".join(claim["missing"]),
    }


def calibration() -> pd.DataFrame | None:
    """Give the result of the calibration benchmark, which lies in a checkout; None without one.

    Returns
    -------
    DataFrame or None
        As ``benchmarks/claims_calibration.py`` writes it: one row a claim and law.
    """
    path = Path(__file__).parents[3] / "benchmarks" / "results" / "claims_calibration.csv"
    return pd.read_csv(path) if path.is_file() else None


def calibration_notes(found: pd.DataFrame) -> list[str]:
    """Say how often claims held under laws that do not support them, and under one that does.

    Parameters
    ----------
    found : DataFrame
        From `calibration`.

    Returns
    -------
    list of str
        One sentence a law with claims that were asked of it, and one on the edge.
    """
    notes = []
    for law, part in found[found["claim"] != 9].groupby("law", sort=False):
        worlds = f"{part['worlds'].min()} to {part['worlds'].max()} worlds"
        if part["worlds"].nunique() == 1:
            worlds = f"{part['worlds'].max()} worlds"
        wrong = part[part["refuted"] & (part["holds"] > MOST_WRONG)]
        right = part[part["supported"]]
        weak = right[right["holds"] < LEAST_RIGHT]
        if part["refuted"].any():
            names = ", ".join(str(claim) for claim in wrong["claim"]) or "none"
            notes.append(
                f"Law {law} ({worlds}): {int(part['refuted'].sum())} claims are not true; holding "
                f"in more than {MOST_WRONG:.0%} of the worlds: {names}."
            )
        if len(right):
            names = ", ".join(str(claim) for claim in weak["claim"]) or "none"
            notes.append(
                f"Law {law} ({worlds}): {len(right)} claims are true; holding in less than "
                f"{LEAST_RIGHT:.0%} of the worlds: {names}."
            )
    edge = found[found["supported"] & found["edge"].notna()]
    if len(edge):
        over = edge[edge["edge"] > MOST_WRONG]
        names = ", ".join(f"{row.claim} ({row.edge:.1%})" for row in over.itertuples()) or "none"
        notes.append(
            "At the edge, the limit of one condition put where the law has its mean: holding in "
            f"more than {MOST_WRONG:.0%} of the worlds: {names}."
        )
    return notes


MOST_WRONG, LEAST_RIGHT = 0.05, 0.8
"""Share of worlds in which a claim may hold where it is not true, and must where it is."""
