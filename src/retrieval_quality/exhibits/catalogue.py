"""The 43 figures and 2 tables of the paper, what the book adds, and the notebooks: declared once.

Notebooks, command line, README and pages take numbers, titles, captions, file names and anchors
from here; nothing else says which dataset or measures a figure shows. What an exhibit is and does
stands in the module of its kind.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, replace
from typing import Literal

from retrieval_quality.errors import UsageError
from retrieval_quality.exhibits.alpha import AlphaCurves, AlphaOptimism, AlphaPick
from retrieval_quality.exhibits.attribution import Attribution
from retrieval_quality.exhibits.board import WhichAll, WhichCourses, WhichMeasure
from retrieval_quality.exhibits.controls import ControlsCorrelation, ControlsGain
from retrieval_quality.exhibits.distribution import Distribution
from retrieval_quality.exhibits.exactness import ExactCauses, ExactFigures
from retrieval_quality.exhibits.exhibit import Exhibit, Study
from retrieval_quality.exhibits.heatmap import Correlation, Difference, difference
from retrieval_quality.exhibits.intervals import Intervals
from retrieval_quality.exhibits.listings import GradedRelations, RankedRelations, RankOrder
from retrieval_quality.exhibits.narrow_wide import NarrowWide
from retrieval_quality.exhibits.overview import Overview
from retrieval_quality.exhibits.recall import (
    RecallAcross,
    RecallDifference,
    RecallKept,
    RecallPredicts,
)
from retrieval_quality.exhibits.schematic import Schematic
from retrieval_quality.exhibits.tables import CountTable, RankedTable
from retrieval_quality.exhibits.value import (
    ValueAgreement,
    ValueCeiling,
    ValueChoice,
    ValueCorrected,
    ValueGain,
    ValueJudges,
    ValueLabels,
    ValueLevels,
    ValueNoise,
    ValuePairs,
    ValuePoints,
    ValueTotals,
)
from retrieval_quality.statistics import value_ceiling


def _declare_figures() -> dict[int, Exhibit]:
    entries: list[Exhibit] = [Schematic("figure-01", "schematic", 1)]
    for number, dataset in {2: "A", 3: "M", 4: "Hs", 19: "N", 20: "Hp"}.items():
        entries.append(Distribution(f"figure-{number:02d}", "grade-distribution", number, dataset))
    coefficients = {5: "spearman", 23: "pearson", 24: "kendall_b", 25: "kendall_c"}
    for number, name in coefficients.items():
        anchor, shown = f"figure-{number:02d}", ("T", "nDCG", "F")
        entries.append(NarrowWide(anchor, "narrow-wide", number, measures=shown, coefficient=name))
    by_ratio = {
        "F": {6: "A", 26: "M", 27: "N", 28: "Hs", 29: "Hp"},
        "T": {31: "A", 32: "M", 33: "N", 34: "Hs", 35: "Hp"},
    }
    for measure, numbers in by_ratio.items():
        for number, dataset in numbers.items():
            entries.append(
                Correlation(
                    f"figure-{number:02d}",
                    f"{measure.lower()}-by-ratio",
                    number,
                    dataset,
                    (measure,),
                    scaled_with=tuple(by_ratio),
                )
            )
    differences: dict[tuple[str, str], dict[int, str]] = {
        ("T", "F"): {7: "A", 8: "Hs", 9: "M"},
        ("Tu", "T"): {10: "A", 11: "Hs", 12: "M"},
        ("nDCG", "F"): {13: "A", 14: "M", 15: "N", 36: "Hs", 37: "Hp"},
        ("Fe", "F"): {16: "A", 17: "M", 38: "Hs", 39: "N"},
        ("T", "nDCG"): {18: "A", 40: "Hp", 41: "Hs", 42: "M", 43: "N"},
    }
    for measures, numbers in differences.items():
        for number, dataset in numbers.items():
            entries.append(difference(measures, dataset, number=number))
    entries += [
        RankOrder("figure-21", "dataset-code", 21),
        RankedRelations("figure-22", "dataset-code", 22),
        GradedRelations("figure-30", "dataset-code", 30),
    ]
    return {
        entry.number: entry for entry in sorted(entries, key=lambda e: e.anchor) if entry.number
    }


FIGURES: dict[int, Exhibit] = _declare_figures()
TABLES: dict[int, Exhibit] = {
    1: RankedTable("table-1", "tables", 1),
    2: CountTable("table-2", "tables", 2),
}
EXTRAS: tuple[Difference, ...] = (
    difference(("T", "F"), "Hp", place=1),
    difference(("T", "F"), "N", place=2),
    difference(("Tu", "T"), "Hp", place=3),
    difference(("Tu", "T"), "N", place=4),
    difference(("Fe", "F"), "Hp", place=5),
)
ENTRIES: dict[str, Exhibit] = {
    entry.anchor: entry for entry in (*FIGURES.values(), *TABLES.values(), *EXTRAS)
}
"""Figures, tables and what the paper left out, by anchor."""


def _declare_studies() -> dict[str, Study]:
    bars = "Bars: 95% bootstrap intervals by query."
    honest = f"α is taken from the other datasets (½ without any). {bars}"
    ranges = "Means over the embeddings and over the segments of a range of K/N_p"
    curves = [
        AlphaCurves(
            f"study-alpha-curves-{measure.lower()}",
            "honest-alpha",
            measures=(measure,),
            heading=f"Correlation of {measure} against α",
            words=f"Correlation of {measure} with the grade at every α, a line for each range of "
            "K/N_p (mean over the embeddings and segments), with a dot at its maximum.",
            axis=f"{{coefficient}} of {measure} with the grade",
        )
        for measure in ("T", "F")
    ]
    kinds = (NarrowWide, Correlation, Difference)
    correlated = tuple(e for e in (*FIGURES.values(), *EXTRAS) if isinstance(e, kinds))
    studies: list[Study] = [
        *curves,
        RecallPredicts(
            "study-recall-predicts",
            "recall",
            measures=("R", "P", "F", "T", "nDCG"),
            heading="Recall beside the other measures",
            words=f"Correlation of recall, precision and other measures with the grade. {ranges}; "
            + honest,
            axis="{coefficient} with the grade",
        ),
        RecallDifference(
            "study-recall-difference",
            "recall",
            measures=("P", "T", "nDCG", "Fe"),
            heading="What is lost without recall",
            words="Correlation with the grade of measures that need no N_p, minus that of recall "
            "on the "
            f"same rows (for F_e: those whose 2K row exists). {ranges}; {honest}",
            axis="{coefficient} with the grade, minus that of R",
        ),
        RecallKept(
            "study-recall-kept",
            "recall",
            measures=("P", "T", "nDCG", "Fe"),
            heading="How much of recall's predictive power is kept",
            words="Mean correlation of each measure with the grade, divided by that of recall on "
            "the "
            f"same segments; {honest} Where the interval of recall's own correlation reaches 0 "
            "there is nothing to keep, and no value.",
        ),
        RecallAcross(
            "study-recall-across",
            "recall",
            measures=("P", "T", "nDCG", "Fe"),
            heading="Who goes along with recall",
            words=f"Correlation of measures with recall, across rows. {ranges}; α is taken from "
            "the "
            "other datasets.",
            axis="{coefficient} with R",
        ),
        AlphaOptimism(
            "study-alpha-optimism",
            "honest-alpha",
            measures=("T",),
            heading="What choosing α on the same rows adds",
            words="Correlation of T with the grade at the best α of the same rows, cross-fitted "
            "(α from "
            "half of the queries, measured on the other half), at the α of the other datasets for "
            f"the same ratio, and at α = ½. {ranges}.",
            axis="{coefficient} of T with the grade",
        ),
        AlphaPick(
            "study-alpha-pick",
            "honest-alpha",
            measures=("T",),
            heading="If you must pick one α for T",
            words="For each range of K/N_p the α from 0 to 1, in steps of 0.05, at which the mean "
            "correlation of T with the grade is greatest, every dataset with the same weight; the "
            "α's whose mean is less than 0.01 below; and what each segment's own best α would add.",
        ),
        ExactCauses(
            "study-exact-causes",
            "exact-alpha",
            measures=("F", "Fe", "T", "Tu"),
            heading="What the published grid and float ties do",
            words="Largest change of a correlation in a range of K/N_p: by letting values tie "
            "that are "
            "equal in exact arithmetic, on the published grid; then by trying every α instead of "
            "the grid.",
            axis="largest change of {coefficient}",
        ),
        ExactFigures(
            "study-exact-figures",
            "exact-alpha",
            heading="What exact ties and all α change in the figures",
            words="For each figure of the paper: how many cells change by more than 0.000001, "
            "and the "
            "largest change with the published and the exact value.",
            figures=correlated,
        ),
        ValueGain(
            "study-value-log-loss",
            "value-of-knowing",
            heading="What knowing is worth, in nats a row",
            words="How much lower the log loss of the predicted grade is, on queries that the "
            "models have not seen, with N_p, the order, the embedding (beside all else) or the "
            "positives of the top 2K than without. Bars: 95% intervals by query.",
            axis="gain in log loss",
            score="log_loss",
        ),
        ValueGain(
            "study-value-rank",
            "value-of-knowing",
            heading="What knowing is worth, in rank correlation",
            words="How much higher the rank correlation of the predicted mean grade with the grade "
            "is, on queries that the models have not seen. Bars: 95% intervals by query.",
            axis="gain in rank correlation",
            score="rank_correlation",
        ),
        ValueCeiling(
            "study-value-ceiling",
            "value-of-knowing",
            measures=value_ceiling.NAMES,
            heading="What part of the reachable a measure reaches",
            words="Rank correlation of each measure with the grade, as a share of that of the best "
            "prediction of the dataset on the same rows (for F_e: those with a row at 2K). α of F, "
            "F_e and T is chosen on the queries of the other folds, one for each dataset. Bars: "
            "95% intervals by query.",
            axis="share of the best prediction",
        ),
        ValuePoints(
            "study-value-points",
            "value-of-knowing",
            heading="What knowing is worth, in grade points",
            words="How much lower the squared and the absolute error of the predicted grade is "
            "with each quantity, and how much higher the mean grade of the retrieval that is "
            "chosen by the prediction, with 95% intervals by query.",
        ),
        ValueLabels(
            "study-value-labels",
            "value-of-knowing",
            heading="When is it worth to label more?",
            words="Labels beyond the largest top K that tell N_p (the rest of the candidates) or "
            "the top 2K, the grade points that a choice gains by them, and the labels that a grade "
            "point costs.",
        ),
        ValueTotals(
            "study-value-totals",
            "value-of-knowing",
            heading="What knowing is worth, and how many rows would tell",
            words="Scores without and with each quantity over all ratios, the gain with its 95% "
            "interval by query, and the graded rows from which a gain of this size would be told.",
        ),
        ValuePairs(
            "study-value-pairs",
            "value-of-knowing",
            measures=("P", "nDCG", "Fe", "AP", "RR"),
            heading="Does the better-scored retrieval get the better grade?",
            words="Of two retrievals of one query at the same N_p and K that differ in score and "
            "in grade, the share in which the better-scored one has the better grade; 0.5 is a "
            "coin. P stands for R, F and T, which order such pairs alike. Bars: 95% intervals by "
            "query.",
            axis="share of pairs",
        ),
        ValueChoice(
            "study-value-choice",
            "value-of-knowing",
            measures=("P", "R", "F", "T", "nDCG"),
            heading="Which K should be taken?",
            words="Mean grade of the K that has the best score (α = ½), and what it lacks of the "
            "best K in hindsight, in grade points, with 95% intervals by query.",
        ),
        ValueLevels(
            "study-value-levels",
            "value-of-knowing",
            measures=("P", "R", "F", "T", "nDCG"),
            heading="Between and within queries",
            words="Rank correlations with the grade: pooled, of the means of queries, within "
            "queries, and at equal K and N_p (α = ½), with 95% intervals by query.",
        ),
        Overview(
            "study-overview",
            "index",
            measures=("P", "T", "nDCG", "F", "R"),
            heading="Which measure follows the grade?",
            words="Correlation of measures with the grade of the answer, mean over the datasets, "
            "by range of K/N_p. P, T and nDCG need no N_p; F and R do. α is taken from the other "
            "datasets. Bars: 95% bootstrap intervals by query.",
            axis="{coefficient} with the grade",
        ),
        ValueNoise(
            "study-value-noise",
            "value-of-knowing",
            heading="What noise in the grades allows",
            words="Share of the variance of the grade's ranks that is not noise, from lists that "
            "were answered and graded again, answers that were graded again, and the mean of "
            "several people; and its root, the highest correlation that any measure could reach. "
            "95% intervals by query.",
        ),
        ValueCorrected(
            "study-value-corrected",
            "value-of-knowing",
            measures=value_ceiling.NAMES,
            heading="Correlations without the noise of the grade",
            words="Rank correlation of each measure with the grade (α from other queries), and "
            "what it would be without the noise, with 95% intervals by query.",
        ),
        ValueJudges(
            "study-value-judges",
            "value-of-knowing",
            measures=value_ceiling.NAMES,
            heading="Do people say the same?",
            words="Rank correlations of measures, their differences, and gains of knowing, by the "
            "LLM's grade and by the mean grade of people, on the same rows (α from other queries, "
            "for each judge), with paired 95% intervals by query.",
        ),
        ValueAgreement(
            "study-value-agreement",
            "value-of-knowing",
            heading="Does the LLM agree with people as they do with each other?",
            words="Krippendorff's alpha (ordinal) of the LLM and a person, of two persons, and the "
            "difference, means over the pairs, with 95% bootstrap intervals by query.",
        ),
        ControlsGain(
            "study-controls-gain",
            "controls",
            heading="What the documents add to the grade",
            words="Mean grade with the top K minus that of the same question with no documents, "
            "with "
            "random ones, and with the top K reversed, by range of K/N_p. Bars: 95% bootstrap "
            "intervals by query.",
            axis="grade gained",
        ),
        ControlsCorrelation(
            "study-controls-correlation",
            "controls",
            measures=("R", "P", "T", "nDCG"),
            heading="Measures against what the documents add",
            words="Correlation of measures with the grade less that of the same question without "
            f"documents, T at α = ½. {ranges}. Bars: 95% bootstrap intervals by query.",
            axis="{coefficient} with the gain",
        ),
        Attribution(
            "study-attribution",
            "data-ratio-embedding",
            heading="Data, ratio or embedding?",
            words="Share of the variation between segments that goes with the dataset, the "
            "ratio, the "
            "embedding, the dataset's own course over the ratio, and the rest, on the grid of "
            "segments that all share, with α from the other datasets. Bars: 95% bootstrap "
            "intervals by query.",
            axis="share of the variation",
        ),
        WhichMeasure(
            "study-which-measure",
            "which-measure",
            measures=("T", "P", "nDCG", "hit", "RR"),
            heading="Which measure to watch without knowing N_p",
            words="The measure that needs no N_p whose mean correlation with the grade is "
            "highest, for "
            "each dataset and range of K/N_p, with α from the other datasets; below it those that "
            "cannot be told from it: the 95% bootstrap interval of the difference holds 0.",
            axis="mean {coefficient} with the grade",
        ),
        WhichCourses(
            "study-which-courses",
            "which-measure",
            measures=("T", "P", "nDCG", "hit", "RR", "F", "R"),
            heading="Old and new measures by ratio",
            words=f"Correlation of measures with the grade. {ranges}; {honest}",
            axis="{coefficient} with the grade",
        ),
        WhichAll(
            "study-which-all",
            "which-measure",
            measures=("T", "P", "nDCG", "hit", "RR", "F", "R", "F1", "AP", "nDCG_usual"),
            heading="The best of all measures, N_p known or not",
            words=f"{ranges}: the highest correlation of all measures, those that cannot be told "
            "from "
            "it, and the best of those that need no N_p with what it is behind.",
        ),
    ]
    studies += _declare_intervals()
    studies.sort(key=lambda entry: _STUDY_PAGES.index(entry.notebook))
    placed = [replace(entry, place=place) for place, entry in enumerate(studies, start=1)]
    return {entry.anchor: entry for entry in placed}


def differences() -> list[Difference]:
    """Give the differences of the paper and those that it left out, those of a pair together."""
    shown = [e for e in (*FIGURES.values(), *EXTRAS) if isinstance(e, Difference)]
    pairs = list(dict.fromkeys(entry.pair for entry in shown))
    return sorted(shown, key=lambda entry: pairs.index(entry.pair))


def _declare_intervals() -> list[Intervals]:
    return [
        Intervals(
            _interval_anchor(entry),
            "intervals",
            dataset=entry.dataset,
            measures=entry.measures,
            require_2k=entry.require_2k,
            heading=f"{entry.title}: what stands",
            words=f"{entry.title}, as in {entry.label} but at {{alpha}}. Framed and bold: "
            "the difference stands, at a false discovery rate of 5% over the cells of this "
            "picture.",
            axis="difference",
        )
        for entry in differences()
    ]


def _interval_anchor(entry: Exhibit) -> str:
    pair = "-minus-".join(entry.measures).lower()
    return f"study-intervals-{pair}-{entry.dataset.lower()}"


def interval_study(entry: Exhibit) -> Study:
    """Give the study that shows which cells of a difference stand.

    Examples
    --------
    >>> interval_study(FIGURES[7]).anchor
    'study-intervals-t-minus-f-a'
    """
    return STUDIES[_interval_anchor(entry)]


_STUDY_PAGES = (
    "index",
    "intervals",
    "honest-alpha",
    "data-ratio-embedding",
    "controls",
    "recall",
    "value-of-knowing",
    "which-measure",
    "exact-alpha",
)
"""The notebooks that show studies, in the order of the book."""

STUDIES: dict[str, Study] = _declare_studies()


@dataclass(frozen=True)
class Notebook:
    """One notebook: a group of figures that answer one question.

    Attributes
    ----------
    name
        Stem of its file and name on the command line.
    title
        Its heading.
    """

    name: str
    title: str

    @property
    def entries(self) -> tuple[Exhibit, ...]:
        """Give its figures or tables in the order of the paper, extras last.

        Examples
        --------
        >>> [entry.label for entry in NOTEBOOKS["t-minus-f"].entries]
        ['Figure 7', 'Figure 8', 'Figure 9', 'Extra 1', 'Extra 2']
        """
        return tuple(entry for entry in ENTRIES.values() if entry.notebook == self.name)


NOTEBOOKS: dict[str, Notebook] = {
    notebook.name: notebook
    for notebook in (
        Notebook("schematic", "How a retrieval measure is judged"),
        Notebook("tables", "What the dataset holds"),
        Notebook("grade-distribution", "How the grade follows the ratio of K to N_p"),
        Notebook("narrow-wide", "Narrow and wide retrieval"),
        Notebook("f-by-ratio", "F by ratio"),
        Notebook("t-by-ratio", "T by ratio"),
        Notebook("t-minus-f", "T against F"),
        Notebook("tu-minus-t", "T without its normalisation"),
        Notebook("ndcg-minus-f", "nDCG against F"),
        Notebook("fe-minus-f", "F with an estimated number of positives"),
        Notebook("t-minus-ndcg", "T against nDCG"),
        Notebook("dataset-code", "The dataset in code"),
    )
}


def figure(which: int | str) -> Exhibit:
    """Give a figure of the paper by its number, or any exhibit by what it is called.

    Raises
    ------
    UsageError
        There is none.

    Examples
    --------
    >>> figure(7).anchor, figure("study-recall-across").label
    ('figure-07', 'Study 7')
    """
    return select("figure", which)[0] if isinstance(which, int) else find(which)


def table(which: int | str) -> Exhibit:
    """Give a table of the paper by its number, or any exhibit by what it is called.

    Raises
    ------
    UsageError
        There is none.
    """
    return select("table", which)[0] if isinstance(which, int) else find(which)


def find(text: str) -> Exhibit:
    """Find an exhibit by its anchor or by what people call it: ``figure 7``, ``study 7``.

    Raises
    ------
    UsageError
        There is no such exhibit.

    Examples
    --------
    >>> find("Figure 7").anchor, find("extra-t-minus-f-hp").label
    ('figure-07', 'Extra 1')
    """
    name = text.strip().lower()
    known: dict[str, Exhibit] = {**ENTRIES, **STUDIES}
    labels = {entry.label.lower(): entry for entry in known.values()}
    if found := known.get(name) or labels.get(name):
        return found
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise UsageError(f"there is no figure or table {text!r}{hint}")


def select(what: Literal["figure", "table"], which: str | int) -> tuple[Exhibit, ...]:
    """Select a figure or table by its number, or all of them.

    Parameters
    ----------
    what
        ``figure`` or ``table``.
    which
        A number, or ``all``; all figures come with the extras that the paper left out.

    Raises
    ------
    UsageError
        There is no such number.

    Examples
    --------
    >>> [entry.anchor for entry in select("table", "all")]
    ['table-1', 'table-2']
    """
    known = FIGURES if what == "figure" else TABLES
    if str(which) == "all":
        return (*known.values(), *(EXTRAS if what == "figure" else ()))
    if not re.fullmatch(r"[0-9]+", str(which)) or int(which) not in known:
        raise UsageError(f"there is no {what} {which!r}: it is 1 to {len(known)}, or all")
    return (known[int(which)],)


def readme_table() -> str:
    """Table of the README: every notebook with its figures and its page, in Markdown.

    Examples
    --------
    >>> print(readme_table().splitlines()[2])
    | 1 | [How a retrieval measure is judged](notebooks/schematic.md) | `notebooks/schematic.html` |
    """
    lines = ["| figures | notebook | page of the book |", "|---|---|---|"]
    for notebook in NOTEBOOKS.values():
        numbered = [entry for entry in notebook.entries if entry.number is not None]
        shown = ", ".join(
            f"Table {entry.number}" if entry.noun == "Table" else str(entry.number)
            for entry in numbered
        )
        path = f"notebooks/{notebook.name}"
        lines.append(f"| {shown} | [{notebook.title}]({path}.md) | `{path}.html` |")
    return "\n".join(lines)
