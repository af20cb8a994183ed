"""The claims ledger: what the paper claims, each declared once, and what the loaded data say of it.

A claim becomes one or more conditions. Each condition is a number computed from the data with an
interval, and the range in which the claim says it lies. The claim *holds* where every interval lies
inside its range, *fails* where one lies outside entirely, and otherwise the data *cannot tell*.

Correlations are Spearman's at an alpha chosen on the other datasets (`evidence.gather`), because
the best alpha on the same rows makes some claims true whatever the data: there T is never below F,
nor F_e, in a segment of one exact ratio. Intervals are percentile intervals of a bootstrap by query
in which all cells are resampled together.

References
----------
.. [1] arXiv 2512.20854, sections 4 to 6.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata

from retrieval_quality.data import schema
from retrieval_quality.data.dataset import Dataset
from retrieval_quality.exhibits.words import measure_name
from retrieval_quality.measures.segments import label_segments
from retrieval_quality.parameters import COEFFICIENTS, Parameters
from retrieval_quality.statistics import agreement, attribution, evidence
from retrieval_quality.statistics.correlation import correlate

FloatArray = NDArray[np.float64]
Mask = NDArray[np.bool_]

NOTICEABLE = 0.02
"""Difference of two coefficients that a reader of the paper's heatmaps would notice."""

LITTLE = 0.05
"""Loss of a coefficient that still counts as little."""

LOW_RATIO, HIGH_RATIO = 1.0, 2.0
"""Up to where a ratio K/N_p is low, and from where it is high."""

NEAR = (2 / 3, 3 / 2)
"""Ratios that are near 1."""

RISING = 0.5
"""Rank correlation of ratio and grade from which the grade is said to rise."""

BACK = 0.2
"""Fall of the mean grade, after its best, from which it is said to turn back."""

MODERATE = (0.2, 0.6)
"""Correlations that are moderate."""

ALIKE = 0.1
"""Standard deviation over cells up to which correlations are similar."""

ACCEPTABLE_AGREEMENT = 2 / 3
"""Krippendorff's alpha from which agreement is commonly accepted."""

LEVEL = 0.95
VERDICTS = ("holds", "fails", "cannot tell", "by construction", "not evaluable")
STAMP = "simulated data: this verdict says nothing about the world"


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
    """

    name: str
    sample: FloatArray
    inside: tuple[float, float]
    n: int
    cells: int
    void: str = ""

    @property
    def effect(self) -> float:
        """The number on the data."""
        return float(self.sample[0])

    @cached_property
    def interval(self) -> tuple[float, float]:
        """Percentile interval; NaN where fewer than 95% of the replicates are defined."""
        replicates = self.sample[1:]
        known = replicates[~np.isnan(replicates)]
        if np.isnan(self.effect) or len(known) < max(2, 0.95 * len(replicates)):
            return np.nan, np.nan
        low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return float(low), float(high)

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
        return "fails" if high <= least or low >= most else "cannot tell"

    def __str__(self) -> str:
        low, high = self.interval
        interval = "no interval" if np.isnan(low) else f"[{low:.3f}, {high:.3f}]"
        numbers = "undefined" if np.isnan(self.effect) else f"{self.effect:.3f} {interval}"
        numbers = numbers.replace("-", "−")
        verdict = "shown, not tested" if self.inside == ANY else self.verdict
        notes = [self.void, "" if low <= self.effect <= high or np.isnan(low) else _OUTSIDE]
        told = f"{self.name}: {numbers}, n = {self.n:,} in {self.cells} segments: {verdict}"
        return ". ".join([told, *filter(None, notes)])


@dataclass(frozen=True)
class Claim:
    """One claim of the paper.

    Attributes
    ----------
    number : int
        1 to 20.
    where : str
        Where the paper says so.
    statement : str
        Our paraphrase.
    test : str
        How it is tested here, in words.
    refuted_by : str
        What would refute it.
    figures : tuple of int
        The paper's figures that show it.
    evaluate : callable
        From `Ledger` to conditions; none where the data lack what it needs.
    by_construction : str
        Why it holds whatever the data, as far as it does; else empty.
    always : bool
        Whether all of the claim holds by construction.
    extras : tuple of str
        Anchors of pictures that show it and are not in the paper.
    """

    number: int
    where: str
    statement: str
    test: str
    refuted_by: str
    figures: tuple[int, ...]
    evaluate: Callable[[Ledger], list[Condition]]
    by_construction: str = ""
    always: bool = False
    extras: tuple[str, ...] = ()


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
    """

    def __init__(self, dataset: Dataset, parameters: Parameters, replicates: int = 400) -> None:
        self.dataset = dataset
        self.parameters = parameters
        self.replicates = replicates

    @cached_property
    def rows(self) -> pd.DataFrame:
        """Scored rows of the run."""
        return self.dataset.scored(self.parameters.embeddings, self.parameters.datasets)

    @cached_property
    def ratio(self) -> evidence.Cells:
        """Ratio segments."""
        return self._gather("ratio", ("F", "nDCG", "T", "Tu"))

    @cached_property
    def ratio_2k(self) -> evidence.Cells:
        """Ratio segments of the rows whose 2K row exists."""
        return self._gather("ratio", ("F", "Fe"), require_2k=True)

    @cached_property
    def width(self) -> evidence.Cells:
        """Narrow and wide segments."""
        return self._gather("narrow-wide", ("F", "nDCG", "T"))

    def _gather(
        self, segmentation: str, measures: Sequence[str], require_2k: bool = False
    ) -> evidence.Cells:
        run = self.parameters
        fewest = run.min_samples_ratio if segmentation == "ratio" else run.min_samples_width
        return evidence.gather(
            self.rows,
            segmentation=segmentation,
            min_samples=fewest,
            measures=measures,
            require_2k=require_2k,
            replicates=self.replicates,
            seed=run.seed,
        )

    def difference(
        self,
        first: str,
        second: str,
        datasets: Sequence[str],
        inside: tuple[float, float],
        *,
        ratios: tuple[float, float] = (0, np.inf),
        segment: str = "",
        summary: str = "mean",
        cells: evidence.Cells | None = None,
    ) -> list[Condition]:
        """Mean difference, or share of cells with a positive one, over some cells.

        Parameters
        ----------
        first, second : str
            The measures.
        datasets : sequence of str
            Whose cells.
        inside : tuple of float
            Where the claim says that it lies.
        ratios : tuple of float
            Ratios K/N_p of the cells, ends included.
        segment : str
            The only segment, such as ``narrow``.
        summary : {"mean", "share above"}
            What is made of the cells.
        cells : Cells, optional
            Instead of the ratio segments.

        Returns
        -------
        list of Condition
            One, or none where there are no such cells.
        """
        source = self.ratio if cells is None else cells
        difference = source.difference(first, second)
        which = source.of(datasets) & evidence.steady(difference)
        where = ""
        if ratios != (0, np.inf):
            which &= (source.ratio >= ratios[0]) & (source.ratio <= ratios[1])
            where = f", ratio {ratios[0]:g} to {ratios[1]:g}".replace("to inf", "and above")
        if segment:
            which &= (source.frame["segment"].astype(str) == segment).to_numpy()
            where = f", {segment} segments"
        if not which.any():
            return []
        values = difference[:, which]
        if summary == "mean":
            sample, what = _over_cells(np.nanmean, values), "mean of"
        else:
            above = np.where(np.isnan(values), np.nan, values > 0)
            sample, what = _over_cells(np.nanmean, above), "share of cells above 0 of"
        pair = measure_name(first), measure_name(second)
        name = f"{what} {pair[0]} − {pair[1]} on {', '.join(datasets)}{where}"
        void = COINCIDE.format(*pair) if not values[~np.isnan(values)].any() else ""
        return [replace(_condition(name, sample, inside, source, which), void=void)]

    def present(self, datasets: Sequence[str]) -> list[str]:
        """Those of the datasets that have ratio segments."""
        there = set(self.ratio.frame["dataset"].astype(str))
        return [name for name in datasets if name in there]

    def mean_grade(self, dataset: str) -> tuple[FloatArray, FloatArray, Mask]:
        """Mean grade of each ratio, all embeddings together.

        Returns
        -------
        ratios : ndarray, shape (ratios,)
            Ascending.
        grades : ndarray, shape (1 + replicates, ratios)
            1-5.
        which : ndarray of bool, shape (cells,)
            The cells used: ratios that every embedding of the dataset has, and in which questions
            of several N_p meet, unless all of the dataset have one N_p. A ratio of a single N_p
            has a mean grade of its own because of its questions.
        """
        cells = self.ratio
        mine = cells.of([dataset]) & np.isin(cells.ratio, self._mixed(dataset))
        ratio = cells.ratio
        most = max((int((mine & (ratio == value)).sum()) for value in ratio[mine]), default=0)
        kept = [v for v in np.unique(ratio[mine]) if (mine & (ratio == v)).sum() == most]
        which = mine & np.isin(ratio, kept)
        grades = [cells.grade[:, which & (ratio == value)].mean(axis=1) for value in kept]
        columns = np.column_stack(grades) if grades else np.empty((self.replicates + 1, 0))
        return np.array(kept), columns, which

    def _mixed(self, dataset: str) -> FloatArray:
        """Ratios of a dataset in which several N_p occur; all of them where it has only one."""
        own = self.rows[(self.rows["dataset"] == dataset) & self.rows["grade"].notna()]
        ratios = label_segments(own, "ratio").astype("str").astype(float)
        several = own["Np"].groupby(ratios.to_numpy()).nunique() > 1
        found = several.index[several] if several.any() else several.index
        return found.to_numpy(dtype=float)


def _over_cells(summary: Callable[..., Any], values: FloatArray) -> FloatArray:
    """Summarise the cells that are defined, replicate by replicate; NaN where none is."""
    empty = np.isnan(values).all(axis=1)
    out = np.full(len(values), np.nan)
    out[~empty] = summary(values[~empty], axis=1)
    return out


def _condition(
    name: str, sample: FloatArray, inside: tuple[float, float], cells: evidence.Cells, which: Mask
) -> Condition:
    n = int(cells.frame.loc[which, "n"].sum())
    return Condition(name, sample, inside, n, int(which.sum()))


ANY = (-np.inf, np.inf)
COINCIDE = (
    "At the α that other datasets chose, {} and {} order these rows alike: nothing is compared"
)
"""What is said of two measures that are the same in every cell and replicate."""
_OUTSIDE = (
    "The number lies outside its interval, because resampling adds noise, which moves such a "
    "number to one side"
)
POSITIVE = (0.0, np.inf)
NEGATIVE = (-np.inf, 0.0)
SAME = (-NOTICEABLE, NOTICEABLE)
PAPER = tuple(schema.DATASETS)


# --- how the grade goes with the ratio ----------------------------------------------------------


def _peak(ledger: Ledger, dataset: str) -> list[Condition]:
    """Ratio of the best mean grade, and how far the grade falls to both ends."""
    ratios, grades, which = ledger.mean_grade(dataset)
    if len(ratios) < 3 or not np.ptp(grades[0]):
        return []
    best = ratios[grades.argmax(axis=1)]
    fall = grades.max(axis=1) - np.maximum(grades[:, 0], grades[:, -1])
    return [
        _condition(f"ratio of the best mean grade on {dataset}", best, NEAR, ledger.ratio, which),
        _condition(
            f"best mean grade less the better of both ends on {dataset}",
            fall,
            POSITIVE,
            ledger.ratio,
            which,
        ),
    ]


def _arxiv_peak(ledger: Ledger) -> list[Condition]:
    return _peak(ledger, "A")


def _msmarco_peak(ledger: Ledger) -> list[Condition]:
    arxiv, msmarco = _peak(ledger, "A"), _peak(ledger, "M")
    if not arxiv or not msmarco:
        return []
    later = Condition(
        "ratio of the best mean grade, M less A",
        msmarco[0].sample - arxiv[0].sample,
        POSITIVE,
        arxiv[0].n + msmarco[0].n,
        arxiv[0].cells + msmarco[0].cells,
    )
    return [later, msmarco[1]]


def _rising(ledger: Ledger) -> list[Condition]:
    conditions = []
    for dataset in ("Hs", "Hp", "N"):
        ratios, grades, which = ledger.mean_grade(dataset)
        if len(ratios) >= 3:
            name = f"rank correlation of ratio and mean grade on {dataset}"
            trend = _rank_correlation(ratios, grades)
            conditions.append(_condition(name, trend, (RISING, np.inf), ledger.ratio, which))
            name = f"best mean grade less that at the largest ratio, on {dataset}"
            back = grades.max(axis=1) - grades[:, -1]
            conditions.append(_condition(name, back, (-np.inf, BACK), ledger.ratio, which))
    return conditions


def _rank_correlation(x: FloatArray, y: FloatArray) -> FloatArray:
    """Spearman's coefficient of x, shape (n,), with every row of y, shape (rows, n)."""
    defined = ~np.isnan(y).any(axis=1)
    out = np.full(len(y), np.nan)
    a = rankdata(x) - (len(x) + 1) / 2
    b = rankdata(y[defined], axis=1) - (len(x) + 1) / 2
    scale = np.sqrt((a**2).sum() * (b**2).sum(axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        out[defined] = np.where(scale > 0, b @ a / scale, np.nan)
    return out


# --- measures against each other ----------------------------------------------------------------


def _loses_little(ledger: Ledger) -> list[Condition]:
    names = sorted(set(ledger.width.frame["dataset"].astype(str)))
    inside = (-LITTLE, np.inf)
    return [
        condition
        for segment in ("narrow", "wide")
        for condition in ledger.difference(
            "T", "F", names, inside, segment=segment, cells=ledger.width
        )
    ]


def _t_beats_f(ledger: Ledger) -> list[Condition]:
    half = (0.5, np.inf)
    return [
        condition
        for dataset in ("A", "Hs")
        for condition in ledger.difference("T", "F", [dataset], half, summary="share above")
    ]


def _t_worse_on_m(ledger: Ledger) -> list[Condition]:
    return ledger.difference("T", "F", ["M"], NEGATIVE)


def _t_same(ledger: Ledger) -> list[Condition]:
    return _each(ledger, "T", "F", ("Hp", "N"), SAME)


def _each(
    ledger: Ledger,
    first: str,
    second: str,
    datasets: Sequence[str],
    inside: tuple[float, float],
    ratios: tuple[float, float] = (0, np.inf),
    cells: evidence.Cells | None = None,
) -> list[Condition]:
    """One condition for each dataset."""
    return [
        condition
        for dataset in datasets
        for condition in ledger.difference(
            first, second, [dataset], inside, ratios=ratios, cells=cells
        )
    ]


def _tu_worse(ledger: Ledger) -> list[Condition]:
    worse = _each(ledger, "Tu", "T", ("A", "Hs"), NEGATIVE)
    same = _each(ledger, "Tu", "T", ("Hp", "N"), SAME)
    msmarco = ledger.difference("Tu", "T", ["M"], ANY)
    if not worse or not msmarco:
        return [*worse, *same]
    smaller = np.abs(worse[0].sample) - np.abs(msmarco[0].sample)
    name = "size of T_u − T on A less that on M"
    n, cells = worse[0].n + msmarco[0].n, worse[0].cells + msmarco[0].cells
    return [*worse, Condition(name, smaller, POSITIVE, n, cells), *same]


def _tu_is_t(ledger: Ledger) -> list[Condition]:
    return ledger.difference("Tu", "T", ledger.present(PAPER), ANY)


def _ndcg_against_f(ledger: Ledger) -> list[Condition]:
    return [
        *ledger.difference("F", "nDCG", ledger.present(PAPER), (0.5, 2), summary="share above"),
        *ledger.difference("nDCG", "F", ["A"], POSITIVE, ratios=(HIGH_RATIO, np.inf)),
    ]


def _trend(ledger: Ledger, dataset: str, inside: tuple[float, float]) -> list[Condition]:
    """Rank correlation of the ratio with nDCG less F."""
    cells = ledger.ratio
    which = cells.of([dataset]) & evidence.steady(cells.difference("nDCG", "F"))
    if which.sum() < 3:
        return []
    trend = _rank_correlation(cells.ratio[which], cells.difference("nDCG", "F")[:, which])
    name = f"rank correlation of ratio and nDCG − F on {dataset}"
    return [_condition(name, trend, inside, cells, which)]


def _ndcg_gains(ledger: Ledger) -> list[Condition]:
    gains = [c for name in ("M", "N") for c in _trend(ledger, name, POSITIVE)]
    below = _each(ledger, "nDCG", "F", ("M", "N"), NEGATIVE)
    hotpot = [c for name in ("Hs", "Hp") for c in _trend(ledger, name, ANY)]
    if not gains or not hotpot:
        return [*gains, *below]
    more = np.mean([c.sample for c in gains], axis=0) - np.mean([c.sample for c in hotpot], axis=0)
    used = [*gains, *hotpot]
    name = "that trend on M and N less that on Hs and Hp"
    less = Condition(name, more, POSITIVE, sum(c.n for c in used), sum(c.cells for c in used))
    return [*gains, *below, less]


def _estimate_wins(ledger: Ledger) -> list[Condition]:
    high = (HIGH_RATIO, np.inf)
    return _each(ledger, "Fe", "F", ("A", "M"), POSITIVE, ratios=high, cells=ledger.ratio_2k)


def _t_against_ndcg(ledger: Ledger) -> list[Condition]:
    return [
        *ledger.difference("T", "nDCG", ["A"], POSITIVE, ratios=(0, HIGH_RATIO)),
        *_each(ledger, "T", "nDCG", ("M", "N", "Hs", "Hp"), POSITIVE),
    ]


def _order_matters(ledger: Ledger) -> list[Condition]:
    names, high = ledger.present(PAPER), (HIGH_RATIO, np.inf)
    return [
        *ledger.difference("nDCG", "F", names, POSITIVE, ratios=high),
        *ledger.difference("nDCG", "T", names, POSITIVE, ratios=high),
    ]


def _t_at_low_ratios(ledger: Ledger) -> list[Condition]:
    names, low = ledger.present(PAPER), (0, LOW_RATIO)
    return [
        *ledger.difference("T", "nDCG", names, POSITIVE, ratios=low),
        *ledger.difference("T", "F", names, (-NOTICEABLE, np.inf), ratios=(0, LOW_RATIO - 0.05)),
    ]


# --- what goes with what ------------------------------------------------------------------------


def _embedding_matters_least(ledger: Ledger) -> list[Condition]:
    conditions = []
    quantities = {
        "the grade": ledger.ratio.grade,
        "T − F": ledger.ratio.difference("T", "F"),
        "T − nDCG": ledger.ratio.difference("T", "nDCG"),
    }
    for name, values in quantities.items():
        defined = evidence.steady(values)
        cells = ledger.ratio.frame[defined].reset_index(drop=True)
        support = attribution.common_support(cells.astype({"dataset": str, "embedding": str}))
        if len(support.datasets) < 2 or len(support.ratios) < 2 or len(support.embeddings) < 2:
            continue
        grid = support.positions(cells)
        share = attribution.shares(values[:, defined][:, grid])
        part = dict(zip(attribution.PARTS, share.T, strict=True))
        others = part["dataset"] + part["ratio"] + part["dataset x ratio"]
        conditions.append(
            Condition(
                f"share of {name} with dataset and ratio less that with the embedding",
                others - part["embedding"],
                POSITIVE,
                int(cells["n"].to_numpy()[grid.ravel()].sum()),
                support.n_cells,
            )
        )
    return conditions


def _moderate(ledger: Ledger) -> list[Condition]:
    conditions = []
    for measure in ("T", "nDCG", "F"):
        which = evidence.steady(ledger.ratio.values[measure])
        if which.any():
            median = _over_cells(np.nanmedian, ledger.ratio.values[measure][:, which])
            name = f"median Spearman of {measure} over ratio segments"
            conditions.append(_condition(name, median, MODERATE, ledger.ratio, which))
    return conditions


def _alike(ledger: Ledger) -> list[Condition]:
    values = ledger.ratio.values["T"]
    which = evidence.steady(values)
    if which.sum() < 2:
        return []
    spread = _spread(values[:, which])
    name = "standard deviation of T's Spearman over ratio segments"
    return [_condition(name, spread, (-np.inf, ALIKE), ledger.ratio, which)]


def _spread(values: FloatArray) -> FloatArray:
    """Take the noise of single cells out of their standard deviation.

    On the data the variance over cells holds the noise of a cell once, on a replicate twice.
    """
    noise = float(np.nanmean(np.nanvar(values[1:], axis=0)))
    variance = _over_cells(np.nanvar, values)
    times = np.where(np.arange(len(values)) == 0, 1, 2)
    return np.asarray(np.sqrt(np.maximum(variance - times * noise, 0.0)))


def _same_trends(ledger: Ledger) -> list[Condition]:
    """Rank correlation over cells of the measures' differences by one coefficient and another.

    The coefficients themselves go together because cells differ in level; who is ahead of whom is
    what a trend is. Its interval resamples cells, because the published maximum is taken for each
    coefficient.
    """
    run = ledger.parameters
    table = correlate(
        ledger.rows,
        segmentation="narrow-wide",
        min_samples=run.min_samples_width,
        measures=("F", "nDCG", "T"),
        coefficients=("spearman", "pearson", "kendall_b", "kendall_c"),
    )
    wide = table.pivot_table(
        index=["dataset", "embedding", "segment", "measure", "n"],
        columns="coefficient",
        values="correlation",
        observed=True,
    ).dropna()
    if len(wide) < 4 or "spearman" not in wide:
        return []
    by_measure = {name: wide[name].unstack("measure") for name in wide.columns}
    if not {"F", "nDCG", "T"} <= set(by_measure["spearman"].columns):
        return []
    gaps = {
        name: np.column_stack([f["T"] - f["F"], f["T"] - f["nDCG"], f["nDCG"] - f["F"]])
        for name, f in by_measure.items()
    }
    whole = ~np.isnan(np.hstack(list(gaps.values()))).any(axis=1)
    gaps = {name: gap[whole] for name, gap in gaps.items()}
    if whole.sum() < 2:
        return []
    rng = np.random.default_rng(run.seed)
    drawn = rng.integers(whole.sum(), size=(ledger.replicates, whole.sum()))
    picks = np.vstack([np.arange(whole.sum()), drawn])
    n = int(by_measure["spearman"].reset_index().loc[whole, "n"].sum())
    conditions = []
    for name in ("pearson", "kendall_b", "kendall_c"):
        ranks = [
            _rank_correlation(gaps["spearman"][pick].ravel(), gaps[name][pick].reshape(1, -1))[0]
            for pick in picks
        ]
        text = (
            f"rank correlation of T − F, T − nDCG and nDCG − F by {COEFFICIENTS[name]} with those "
            f"by {COEFFICIENTS['spearman']}"
        )
        conditions.append(Condition(text, np.array(ranks), (0.8, np.inf), n, int(whole.sum())))
    return conditions


def _people_agree(ledger: Ledger) -> list[Condition]:
    if "human" not in ledger.dataset.parts:
        return []
    grades = agreement.read_grades(ledger.dataset.read("human"))
    rng = np.random.default_rng(ledger.parameters.seed)
    if len(grades) < 2:
        return []
    drawn = rng.integers(len(grades), size=(min(ledger.replicates, 200), len(grades)))
    picks = np.vstack([np.arange(len(grades)), drawn])
    alphas = [agreement.krippendorff_alpha(grades.iloc[pick], "ordinal")[0] for pick in picks]
    name = "Krippendorff's alpha (ordinal) of the LLM's and all human grades"
    inside = (ACCEPTABLE_AGREEMENT, np.inf)
    return [Condition(name, np.array(alphas), inside, len(grades), 1)]


_SEVERAL = "Only ratios count in which questions of several N_p meet."
_EXACT_RATIO = (
    "At the best alpha of the same rows it holds by construction in every segment of one exact "
    "ratio; it is therefore tested at an alpha that other datasets chose."
)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        1,
        "Figure 2",
        "On ARXIV answers are best where K is near N_p: below, positives are missing; above, "
        "confusing negatives come along.",
        f"The ratio of the best mean grade lies between {NEAR[0]:.2f} and {NEAR[1]:.2f}, and the "
        f"grade falls to both ends. {_SEVERAL}",
        "The best ratio lies elsewhere, or the grade does not fall on one side.",
        (2,),
        _arxiv_peak,
    ),
    Claim(
        2,
        "Figure 3",
        "On MSMARCO the grade has the same shape with its best at a higher ratio.",
        "The ratio of the best mean grade is higher than on ARXIV, and the grade falls to both "
        f"ends. {_SEVERAL}",
        "The best ratio is not higher, or the grade does not fall on one side.",
        (3, 2),
        _msmarco_peak,
    ),
    Claim(
        3,
        "Figures 4, 19, 20",
        "On HotpotQA and Natural Questions a larger ratio means a better grade.",
        f"The rank correlation of ratio and mean grade over the ratios is above {RISING} on each, "
        f"and the grade at the largest ratio is less than {BACK} below the best.",
        "One of these is not so, on one of them.",
        (4, 19, 20),
        _rising,
    ),
    Claim(
        4,
        "Figure 5",
        "On narrow and wide segments T loses little against F.",
        f"The mean of T − F is above −{LITTLE}, over the narrow segments and over the wide ones.",
        "The mean loss is larger over one of them.",
        (5,),
        _loses_little,
    ),
    Claim(
        5,
        "Figures 7, 8",
        "T is better than F in most ratio segments of ARXIV and HotpotQA sentences.",
        "T − F is above 0 in more than half of the cells, on each.",
        "It is above 0 in half of the cells or fewer on one of them.",
        (7, 8),
        _t_beats_f,
        _EXACT_RATIO,
    ),
    Claim(
        6,
        "Figure 9",
        "On MSMARCO T is worse than F.",
        "The mean of T − F over the ratio segments is below 0.",
        "It is not below 0.",
        (9,),
        _t_worse_on_m,
    ),
    Claim(
        7,
        "Section 4",
        "On HotpotQA paragraphs and Natural Questions T and F do not differ noticeably.",
        f"The mean of T − F lies within ±{NOTICEABLE} on each.",
        "It lies outside on one of them.",
        (29, 33, 27, 35),
        _t_same,
        extras=("extra-t-minus-f-hp", "extra-t-minus-f-n"),
    ),
    Claim(
        8,
        "Figures 10 to 12",
        "T_u is worse than T on ARXIV and HotpotQA sentences, differs less on MSMARCO, and not "
        "noticeably on HotpotQA paragraphs and Natural Questions.",
        "The mean of T_u − T is below 0 on A and Hs, smaller in size on M than on A, and within "
        f"±{NOTICEABLE} on Hp and N.",
        "One of these is not so.",
        (10, 11, 12),
        _tu_worse,
    ),
    Claim(
        9,
        "Section 3",
        "T_u is T up to a change of α.",
        "Algebra: at one fixed K, T_u with weight α orders retrievals as T with another weight. "
        "The mean of T_u − T over ratio segments, where K varies, is shown beside it.",
        "Nothing at one fixed K; across different K the two order retrievals differently.",
        (10, 11, 12),
        _tu_is_t,
        "At one fixed K both are increasing functions of n_p, whatever α. Across "
        "different K they are not the same measure, and the shown difference need not be 0.",
        always=True,
    ),
    Claim(
        10,
        "Figures 13 to 15, 36, 37",
        "nDCG is mostly worse than F, but better at high ratios on ARXIV.",
        "F − nDCG is above 0 in more than half of the cells, and the mean of nDCG − F on ARXIV "
        f"at ratios from {HIGH_RATIO:g} is above 0.",
        "One of the two is not so.",
        (13, 14, 15, 36, 37),
        _ndcg_against_f,
    ),
    Claim(
        11,
        "Figures 14, 15, 36, 37",
        "On MSMARCO and Natural Questions nDCG gains on F with the ratio and stays below it; on "
        "HotpotQA this is less pronounced.",
        "The rank correlation of ratio and nDCG − F is above 0 and the mean difference below 0, on "
        "each; that trend is stronger than on HotpotQA.",
        "One of these is not so.",
        (14, 15, 36, 37),
        _ndcg_gains,
    ),
    Claim(
        12,
        "Figures 16, 17",
        "At high ratios F with an estimated N_p is better than F with the true one (ARXIV, "
        "MSMARCO).",
        f"The mean of F_e − F at ratios from {HIGH_RATIO:g} is above 0, on each.",
        "It is not above 0 on one of them.",
        (16, 17),
        _estimate_wins,
        _EXACT_RATIO,
    ),
    Claim(
        13,
        "Figures 18, 40 to 43",
        "T is better than nDCG: on ARXIV unless the ratio is high, on the other datasets "
        "throughout.",
        f"The mean of T − nDCG is above 0, on ARXIV at ratios up to {HIGH_RATIO:g}, elsewhere "
        "over all.",
        "It is not above 0 on one of them.",
        (18, 40, 41, 42, 43),
        _t_against_ndcg,
    ),
    Claim(
        14,
        "Conclusion 1",
        "At high ratios the order of the documents matters to the LLM, and nDCG is better than F "
        "and T.",
        f"The means of nDCG − F and nDCG − T at ratios from {HIGH_RATIO:g} are above 0.",
        "One of them is not above 0.",
        (13, 18),
        _order_matters,
    ),
    Claim(
        15,
        "Conclusion 2",
        "At ratios near 1 or lower T is better than nDCG, and below 1 better than F or equal.",
        f"At ratios up to {LOW_RATIO:g} the mean of T − nDCG is above 0; below it the mean of "
        f"T − F is above −{NOTICEABLE}.",
        "One of the two is not so.",
        (7, 8, 9, 18),
        _t_at_low_ratios,
    ),
    Claim(
        16,
        "Conclusion 4",
        "Kind of document and ratio matter more than the embedding, for the grade and for the "
        "choice of a measure.",
        "On the complete grid of datasets, ratios and embeddings, the share of variation that "
        "goes with dataset and ratio is larger than that with the embedding, for the grade, T − F "
        "and T − nDCG.",
        "The embedding's share is larger for one of them.",
        (2, 3, 4, 7, 8, 9, 18),
        _embedding_matters_least,
    ),
    Claim(
        17,
        "Section 4",
        "Correlations are moderate.",
        f"The median over ratio segments lies between {MODERATE[0]} and {MODERATE[1]}, for T, nDCG "
        "and F.",
        "It lies outside for one of them.",
        (5, 6, 31),
        _moderate,
    ),
    Claim(
        18,
        "Figures 31 to 35",
        "T's correlations are similar across datasets and ratios.",
        "Their standard deviation over the ratio segments, less the part that is due to chance, "
        f"is below {ALIKE}.",
        "It is larger.",
        (31, 32, 33, 34, 35),
        _alike,
    ),
    Claim(
        19,
        "Figures 23 to 25",
        "Pearson's and Kendall's coefficients show the same trends as Spearman's.",
        "Over the cells of narrow and wide segments and the differences T − F, T − nDCG and "
        "nDCG − F, the rank correlation of each coefficient with Spearman's is above 0.8.",
        "It is lower for one of them.",
        (23, 24, 25, 5),
        _same_trends,
    ),
    Claim(
        20,
        "Version 2, human check",
        "The LLM's grades agree with people's.",
        f"Krippendorff's alpha (ordinal) of all graders is above {ACCEPTABLE_AGREEMENT:.2f}.",
        "It is lower.",
        (),
        _people_agree,
    ),
)


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
        One a claim: ``id, statement, where, test, refuted_by, by_construction, verdict, effect,
        low, high, n, cells, conditions, note, figures, extras, data``. `effect`, `low`, `high`,
        `n` and `cells` are those of the condition that decides: the first that fails, else that
        cannot be told, else the first. ``None`` where undefined.
    """
    ledger = Ledger(dataset, parameters or Parameters(), replicates)
    data = {
        "name": dataset.name,
        "simulated": dataset.simulated,
        "digest": dataset.digest,
        "commit": dataset.commit,
    }
    return [_judge(claim, ledger) | {"data": data} for claim in CLAIMS]


def _judge(claim: Claim, ledger: Ledger) -> dict[str, Any]:
    conditions = claim.evaluate(ledger)
    verdict, deciding = decide(conditions)
    if claim.always:
        verdict = "by construction"
    notes = [] if conditions else ["The data have no segments that this claim is about."]
    if not conditions and claim.evaluate is _people_agree:
        notes = ["The data have no human grades."]
    if ledger.dataset.simulated:
        notes.append(f"{STAMP[0].upper()}{STAMP[1:]}.")
    low, high = deciding.interval if deciding else (np.nan, np.nan)
    return {
        "id": f"claim-{claim.number:02d}",
        "statement": claim.statement,
        "where": claim.where,
        "test": claim.test,
        "refuted_by": claim.refuted_by,
        "by_construction": claim.by_construction,
        "verdict": verdict,
        "effect": _plain(deciding.effect if deciding else np.nan),
        "low": _plain(low),
        "high": _plain(high),
        "n": deciding.n if deciding else 0,
        "cells": deciding.cells if deciding else 0,
        "conditions": [str(condition) for condition in conditions],
        "note": " ".join(notes),
        "figures": list(claim.figures),
        "extras": list(claim.extras),
    }


def decide(conditions: Sequence[Condition]) -> tuple[str, Condition | None]:
    """Verdict of several conditions, and the one that decides.

    Parameters
    ----------
    conditions : sequence of Condition
        Those of one claim.

    Returns
    -------
    verdict : str
        ``fails`` if one does, else ``cannot tell`` if one cannot, else ``holds``; ``not
        evaluable`` where there is none, or one cannot be computed and none fails.
    deciding : Condition or None
        The first with that verdict.
    """
    for verdict in ("fails", "not evaluable", "cannot tell", "holds"):
        for condition in conditions:
            if condition.verdict == verdict:
                return verdict, condition
    return "not evaluable", None


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 6)
