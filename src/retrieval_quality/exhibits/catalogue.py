"""The 43 figures and 2 tables of the paper, and the notebooks they live in, declared once.

Notebooks, command line, README and pages take numbers, titles, captions, file names and anchors
from here; nothing else says which dataset or measures a figure shows.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from retrieval_quality.data import schema
from retrieval_quality.errors import UsageError
from retrieval_quality.measures import MEASURES
from retrieval_quality.parameters import COEFFICIENTS, Parameters

Kind = Literal[
    "schematic",
    "distribution",
    "narrow-wide",
    "correlation",
    "difference",
    "code",
    "table",
    "study",
    "study-table",
]

_CODE = {
    "texts": "The texts of a ranked sample, in rank order",
    "ranked": "What holds for every ranked sample",
    "graded": "What holds for every graded sample",
}


@dataclass(frozen=True)
class Entry:
    """One figure or table: what it shows and where it stands.

    Attributes
    ----------
    anchor
        Its id on the page, and the stem of its files: ``figure-07``, ``table-1``,
        ``extra-t-minus-f-hp`` (a cell that the paper left out).
    kind
        ``schematic``, ``distribution``, ``narrow-wide``, ``correlation`` (one measure by
        ratio), ``difference`` (``measures[0]`` minus ``measures[1]`` by ratio), ``code`` or
        ``table``.
    notebook
        Name of the notebook that draws it, a key of `NOTEBOOKS`.
    number
        Its number in the paper; None for an extra.
    dataset
        The dataset it is about; empty where it is about all.
    measures
        The measures it shows, names in `measures.MEASURES`.
    coefficient
        The coefficient that the paper uses.
    require_2k
        Whether only rows whose 2K row exists count.
    topic
        For code: ``texts``, ``ranked`` or ``graded``. For a study: what is worked out, a key of
        `studies.STUDIES`.
    """

    anchor: str
    kind: Kind
    notebook: str
    number: int | None = None
    dataset: str = ""
    measures: tuple[str, ...] = ()
    coefficient: str = "spearman"
    require_2k: bool = False
    topic: str = ""

    @property
    def stem(self) -> str:
        """Name of its files without the suffix.

        Examples
        --------
        >>> FIGURES[7].stem
        'figure-07'
        """
        return self.anchor

    @property
    def label(self) -> str:
        """How it is referred to: ``Figure 7``; ``Extra 1`` where the paper left it out.

        Examples
        --------
        >>> FIGURES[7].label, TABLES[1].label, EXTRAS[0].label
        ('Figure 7', 'Table 1', 'Extra 1')
        """
        if self.number is None:
            return f"Extra {EXTRAS.index(self) + 1}" if self in EXTRAS else "Extra"
        return f"{'Table' if self.kind == 'table' else 'Figure'} {self.number}"

    @property
    def dataset_name(self) -> str:
        """Full name of the dataset; an unknown one is named by its own code."""
        return schema.dataset_name(self.dataset)

    @property
    def title(self) -> str:
        """What it shows, in a few words of plain text.

        Examples
        --------
        >>> FIGURES[39].title
        'F_e minus F on Natural Questions'
        >>> FIGURES[23].title
        "Narrow and wide segments: Pearson's r with the grade"
        """
        names = [measure_name(measure) for measure in self.measures]
        match self.kind:
            case "schematic":
                return "How a retrieval measure is judged"
            case "distribution":
                return f"Grades by K/N_p on {self.dataset_name}"
            case "narrow-wide":
                return f"Narrow and wide segments: {COEFFICIENTS[self.coefficient]} with the grade"
            case "correlation":
                return f"Correlation of {names[0]} with the grade on {self.dataset_name}"
            case "difference":
                return f"{names[0]} minus {names[1]} on {self.dataset_name}"
            case "code":
                return _CODE[self.topic]
            case _:
                return "Ranked samples by subset" if self.number == 1 else "Sample counts by subset"

    @property
    def uses(self) -> tuple[str, ...]:
        """Names of the parameters, beside the data, that what it shows depends on.

        Examples
        --------
        >>> FIGURES[23].uses
        ('embeddings', 'datasets', 'min_samples_width', 'alpha')
        """
        kept = ("embeddings", "datasets")
        by_ratio = (*kept, "min_samples_ratio")
        match self.kind:
            case "schematic":
                return ()
            case "distribution":
                return by_ratio
            case "narrow-wide":
                return (*kept, "min_samples_width", "alpha")
            case "correlation" | "difference":
                with_alpha = any(MEASURES[name].has_alpha for name in self.measures)
                return (*by_ratio, "coefficient", *(("alpha",) if with_alpha else ()))
            case "code" | "table":
                return kept
            case _:
                return (*by_ratio, "coefficient", "alpha", "seed")

    def coefficient_for(self, parameters: Parameters) -> str:
        """Which coefficient it shows in a run.

        The heatmaps follow ``parameters.coefficient``; Figures 5 and 23 to 25 are one
        coefficient each by definition.

        Examples
        --------
        >>> kendall = Parameters(coefficient="kendall_b")
        >>> FIGURES[7].coefficient_for(kendall), FIGURES[23].coefficient_for(kendall)
        ('kendall_b', 'pearson')
        """
        if self.kind not in ("correlation", "difference"):
            return self.coefficient
        changed = parameters.coefficient != Parameters().coefficient
        return parameters.coefficient if changed else self.coefficient

    def caption(self, parameters: Parameters | None = None) -> str:
        """Say in one or two sentences of plain text what is drawn.

        Parameters
        ----------
        parameters
            Of the run; the paper's when left out.

        Examples
        --------
        >>> print(FIGURES[6].caption())
        Spearman's ρ of F with the response grade on ARXIV, for each embedding (vertical) and \
rounded ratio K/N_p (horizontal); F at the best α of the published grid. Segments of fewer than \
300 graded rows are left out.
        """
        run = parameters or Parameters()
        coefficient = COEFFICIENTS[self.coefficient_for(run)]
        names = [measure_name(measure) for measure in self.measures]
        grid = "for each embedding (vertical) and rounded ratio K/N_p (horizontal)"
        fewest = f"Segments of fewer than {run.min_samples_ratio} graded rows are left out."
        match self.kind:
            case "schematic":
                return (
                    "One top-K retrieval is judged twice: by a measure of the ranking alone, and "
                    "by the grade of the answer that an LLM writes from it. The correlation of "
                    "the two over many samples says how well the measure predicts the quality."
                )
            case "distribution":
                return (
                    f"Share of each grade on {self.dataset_name}, {grid}: each bar is one "
                    "ratio, the height of a colour is the share of its grade, 1 at the bottom "
                    f"and 5 on top, and the shares add up to 1. {fewest}"
                )
            case "narrow-wide":
                return (
                    f"{coefficient} of {', '.join(names[:-1])} and {names[-1]} with the response "
                    f"grade on narrow (K < N_p) and wide (K ≥ N_p) segments of each dataset and "
                    f"embedding; {self._at_alpha(run.alpha)}. Segments of fewer than "
                    f"{run.min_samples_width} graded rows are left out."
                )
            case "correlation":
                return (
                    f"{coefficient} of {names[0]} with the response grade on {self.dataset_name}, "
                    f"{grid}; {self._at_alpha(run.alpha)}. {fewest}"
                )
            case "difference":
                rows = " Only rows whose 2K row exists count." if self.require_2k else ""
                return (
                    f"{coefficient} of {names[0]} with the response grade minus that of "
                    f"{names[1]} on {self.dataset_name}, {grid}; {self._at_alpha(run.alpha)}. "
                    f"0 is exactly equal, .00 and −.00 are less than .005 apart. {fewest}{rows}"
                )
            case "code":
                return {
                    "texts": "How the texts of a sample are put in rank order: an index below "
                    "N_p is a positive, any other a negative.",
                    "ranked": "The relations that hold between the fields of a ranked sample and "
                    "its texts, each run on all of them.",
                    "graded": "The relations that hold between the fields of a graded sample and "
                    "its ranked sample, each run on all of them.",
                }[self.topic]
            case _:
                return {
                    1: "Ranked samples of each subset, by the number of candidates N_c and of "
                    "positives N_p, with the range of K.",
                    2: "Samples of each subset for each embedding: ranked n_r, graded n_g, and "
                    "of the graded the narrow n_gn (K < N_p) and the wide n_gw (K ≥ N_p).",
                }[self.number or 1]

    def _at_alpha(self, alpha: str | float) -> str:
        """Say at which α those of its measures are that have one."""
        names = [measure_name(name) for name in self.measures if MEASURES[name].has_alpha]
        each = "each " if len(names) > 1 else ""
        return f"{' and '.join(names)} {each}{alpha_text(alpha)}"


@dataclass(frozen=True)
class Study(Entry):
    """A picture or table that goes beyond the paper.

    Attributes
    ----------
    place
        Its number: studies are counted in the order in which the book shows them.
    heading
        Its title.
    words
        Its caption; ``{alpha}`` stands for the α of a run.
    axis
        What the values of a picture are; ``{coefficient}`` stands for that of a run.
    """

    place: int = 0
    heading: str = ""
    words: str = ""
    axis: str = ""

    @property
    def label(self) -> str:
        """How it is referred to.

        Examples
        --------
        >>> STUDIES["study-which-measure"].label
        'Study 1'
        """
        return f"Study {self.place}"

    @property
    def title(self) -> str:
        """What it shows."""
        return self.heading

    def caption(self, parameters: Parameters | None = None) -> str:
        """Say what is drawn and which segments are left out."""
        run = parameters or Parameters()
        alpha = "cross-fitted α" if isinstance(run.alpha, str) else f"α = {run.alpha:g}"
        said = self.words.replace("{alpha}", alpha)
        return f"{said} Segments of fewer than {run.min_samples_ratio} graded rows are left out."


@dataclass(frozen=True)
class Notebook:
    """One notebook: a group of figures that answer one question.

    Attributes
    ----------
    name
        Stem of its file and name on the command line.
    title
        Its heading.
    asks
        The question, for a reader who knows retrieval but not the paper.
    reports
        What the paper found there, and why its authors think so.
    """

    name: str
    title: str
    asks: str
    reports: str

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Give its figures or tables in the order of the paper, extras last.

        Examples
        --------
        >>> [entry.label for entry in NOTEBOOKS["t-minus-f"].entries]
        ['Figure 7', 'Figure 8', 'Figure 9', 'Extra 1', 'Extra 2']
        """
        return tuple(entry for entry in ENTRIES.values() if entry.notebook == self.name)


def measure_name(measure: str) -> str:
    """Name a measure in plain text: ``T_u`` for ``Tu``."""
    return MEASURES[measure].label


def alpha_text(alpha: str | float) -> str:
    """Say which α a correlation is taken at.

    Examples
    --------
    >>> alpha_text("exact"), alpha_text(0.5)
    ('at the best of all α', 'at α = 0.5')
    """
    if alpha == "published":
        return "at the best α of the published grid"
    return "at the best of all α" if alpha == "exact" else f"at α = {alpha:g}"


def difference(
    measures: tuple[str, str],
    dataset: str,
    *,
    coefficient: str = "spearman",
    number: int | None = None,
) -> Entry:
    """Declare a heatmap of one measure minus another; without a number it is an extra.

    Parameters
    ----------
    measures
        The measure, and the one that is taken from it.
    dataset
        Dataset code, such as ``A``.
    coefficient
        A key of `parameters.COEFFICIENTS`.
    number
        Number of the figure in the paper, if it has one.

    Examples
    --------
    >>> difference(("Fe", "F"), "Hp").anchor
    'extra-fe-minus-f-hp'
    """
    group = f"{measures[0]}-minus-{measures[1]}".lower()
    name = re.sub(r"[^a-z0-9]+", "-", dataset.lower()).strip("-")
    extra = f"extra-{group}-{name}"
    return Entry(
        anchor=f"figure-{number:02d}"
        if number
        else extra + ("" if coefficient == "spearman" else f"-{coefficient.replace('_', '-')}"),
        kind="difference",
        notebook=group,
        number=number,
        dataset=dataset,
        measures=measures,
        coefficient=coefficient,
        require_2k="Fe" in measures,
    )


def _declare_figures() -> dict[int, Entry]:
    def figure(
        number: int,
        kind: Kind,
        notebook: str,
        *,
        dataset: str = "",
        measures: tuple[str, ...] = (),
        coefficient: str = "spearman",
        topic: str = "",
    ) -> Entry:
        stem = f"figure-{number:02d}"
        return Entry(stem, kind, notebook, number, dataset, measures, coefficient, topic=topic)

    entries = [figure(1, "schematic", "schematic")]
    for number, dataset in {2: "A", 3: "M", 4: "Hs", 19: "N", 20: "Hp"}.items():
        entries.append(figure(number, "distribution", "grade-distribution", dataset=dataset))
    coefficients = {5: "spearman", 23: "pearson", 24: "kendall_b", 25: "kendall_c"}
    for number, name in coefficients.items():
        shown = ("T", "nDCG", "F")
        entries.append(
            figure(number, "narrow-wide", "narrow-wide", measures=shown, coefficient=name)
        )
    by_ratio = {
        "F": {6: "A", 26: "M", 27: "N", 28: "Hs", 29: "Hp"},
        "T": {31: "A", 32: "M", 33: "N", 34: "Hs", 35: "Hp"},
    }
    for measure, numbers in by_ratio.items():
        notebook = f"{measure.lower()}-by-ratio"
        for number, dataset in numbers.items():
            entries.append(
                figure(number, "correlation", notebook, dataset=dataset, measures=(measure,))
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
    for number, topic in {21: "texts", 22: "ranked", 30: "graded"}.items():
        entries.append(figure(number, "code", "dataset-code", topic=topic))
    return {
        entry.number: entry for entry in sorted(entries, key=lambda e: e.anchor) if entry.number
    }


FIGURES: dict[int, Entry] = _declare_figures()
TABLES: dict[int, Entry] = {
    number: Entry(f"table-{number}", "table", "tables", number) for number in (1, 2)
}
EXTRAS: tuple[Entry, ...] = (
    difference(("T", "F"), "Hp"),
    difference(("T", "F"), "N"),
    difference(("Tu", "T"), "Hp"),
    difference(("Tu", "T"), "N"),
    difference(("Fe", "F"), "Hp"),
)
ENTRIES: dict[str, Entry] = {
    entry.anchor: entry for entry in (*FIGURES.values(), *TABLES.values(), *EXTRAS)
}

INTERVALS = "study-intervals"


def _interval_anchor(entry: Entry) -> str:
    pair = "-minus-".join(entry.measures).lower()
    return f"{INTERVALS}-{pair}-{entry.dataset.lower()}"


def interval_study(entry: Entry) -> Study:
    """Give the study that shows which cells of a difference stand.

    Examples
    --------
    >>> interval_study(FIGURES[7]).anchor
    'study-intervals-t-minus-f-a'
    """
    return STUDIES[_interval_anchor(entry)]


_STUDY_PAGES = (
    "which-measure",
    "recall",
    "intervals",
    "honest-alpha",
    "exact-alpha",
    "controls",
    "data-ratio-embedding",
)
"""The notebooks that show studies, in the order of the book."""


def _declare_studies() -> dict[str, Study]:
    def study(
        notebook: str, topic: str, heading: str, words: str, axis: str = "", **more: Any
    ) -> Study:
        kind: Kind = "study" if axis else "study-table"
        return Study(
            f"study-{topic}",
            kind,
            notebook,
            topic=topic,
            heading=heading,
            words=words,
            axis=axis,
            **more,
        )

    bars = "Bars: 95% bootstrap intervals by query."
    honest = f"α is taken from the other datasets (½ without any). {bars}"
    ranges = "Means over the embeddings and over the segments of a range of K/N_p"
    curves = [
        study(
            "honest-alpha",
            f"alpha-curves-{measure.lower()}",
            f"Correlation of {measure} against α",
            f"Correlation of {measure} with the grade at every α, a line for each range of "
            "K/N_p (mean over the embeddings and segments), with a dot at its maximum.",
            f"{{coefficient}} of {measure} with the grade",
            measures=(measure,),
        )
        for measure in ("T", "F")
    ]
    studies = [
        *curves,
        study(
            "recall",
            "recall-predicts",
            "Recall beside the other measures",
            f"Correlation of recall, precision and other measures with the grade. {ranges}; "
            + honest,
            "{coefficient} with the grade",
            measures=("R", "P", "F", "T", "nDCG"),
        ),
        study(
            "recall",
            "recall-difference",
            "What is lost without recall",
            "Correlation with the grade of measures that need no N_p, minus that of recall on the "
            f"same rows (for F_e: those whose 2K row exists). {ranges}; {honest}",
            "{coefficient} with the grade, minus that of R",
            measures=("P", "T", "nDCG", "Fe"),
        ),
        study(
            "recall",
            "recall-kept",
            "How much of recall's predictive power is kept",
            "Mean correlation of each measure with the grade, divided by that of recall on the "
            f"same segments; {honest} Where the interval of recall's own correlation reaches 0 "
            "there is nothing to keep, and no value.",
            measures=("P", "T", "nDCG", "Fe"),
        ),
        study(
            "recall",
            "recall-across",
            "Who goes along with recall",
            f"Correlation of measures with recall, across rows. {ranges}; α is taken from the "
            "other datasets.",
            "{coefficient} with R",
            measures=("P", "T", "nDCG", "Fe"),
        ),
        study(
            "honest-alpha",
            "alpha-optimism",
            "What choosing α on the same rows adds",
            "Correlation of T with the grade at the best α of the same rows, cross-fitted (α from "
            "half of the queries, measured on the other half), at the α of the other datasets for "
            f"the same ratio, and at α = ½. {ranges}.",
            "{coefficient} of T with the grade",
            measures=("T",),
        ),
        study(
            "honest-alpha",
            "alpha-pick",
            "If you must pick one α for T",
            "For each range of K/N_p the α from 0 to 1, in steps of 0.05, at which the mean "
            "correlation of T with the grade is greatest, every dataset with the same weight; the "
            "α's whose mean is less than 0.01 below; and what each segment's own best α would add.",
            measures=("T",),
        ),
        study(
            "exact-alpha",
            "exact-causes",
            "What the published grid and float ties do",
            "Largest change of a correlation in a range of K/N_p: by letting values tie that are "
            "equal in exact arithmetic, on the published grid; then by trying every α instead of "
            "the grid.",
            "largest change of {coefficient}",
            measures=("F", "Fe", "T", "Tu"),
        ),
        study(
            "exact-alpha",
            "exact-figures",
            "What exact ties and all α change in the figures",
            "For each figure of the paper: how many cells change by more than 0.000001, and the "
            "largest change with the published and the exact value.",
        ),
        study(
            "controls",
            "controls-gain",
            "What the documents add to the grade",
            "Mean grade with the top K minus that of the same question with no documents, with "
            "random ones, and with the top K reversed, by range of K/N_p. Bars: 95% bootstrap "
            "intervals by query.",
            "grade gained",
        ),
        study(
            "controls",
            "controls-correlation",
            "Measures against what the documents add",
            "Correlation of measures with the grade less that of the same question without "
            f"documents, T at α = ½. {ranges}. Bars: 95% bootstrap intervals by query.",
            "{coefficient} with the gain",
            measures=("R", "P", "T", "nDCG"),
        ),
        study(
            "data-ratio-embedding",
            "attribution",
            "Data, ratio or embedding?",
            "Share of the variation between segments that goes with the dataset, the ratio, the "
            "embedding, the dataset's own course over the ratio, and the rest, on the grid of "
            "segments that all share, with α from the other datasets. Bars: 95% bootstrap "
            "intervals by query.",
            "share of the variation",
        ),
        study(
            "which-measure",
            "which-measure",
            "Which measure to watch without knowing N_p",
            "The measure that needs no N_p whose mean correlation with the grade is highest, for "
            "each dataset and range of K/N_p, with α from the other datasets; below it those that "
            "cannot be told from it: the 95% bootstrap interval of the difference holds 0.",
            "mean {coefficient} with the grade",
            measures=("T", "P", "nDCG", "hit", "RR"),
        ),
        study(
            "which-measure",
            "which-courses",
            "Old and new measures by ratio",
            f"Correlation of measures with the grade. {ranges}; {honest}",
            "{coefficient} with the grade",
            measures=("T", "P", "nDCG", "hit", "RR", "F", "R"),
        ),
        study(
            "which-measure",
            "which-all",
            "The best of all measures, N_p known or not",
            f"{ranges}: the highest correlation of all measures, those that cannot be told from "
            "it, and the best of those that need no N_p with what it is behind.",
            measures=("T", "P", "nDCG", "hit", "RR", "F", "R", "F1", "AP", "nDCG_usual"),
        ),
    ]
    differences = [entry for entry in FIGURES.values() if entry.kind == "difference"]
    pairs = list(dict.fromkeys(entry.measures for entry in differences))
    for entry in sorted((*differences, *EXTRAS), key=lambda entry: pairs.index(entry.measures)):
        studies.append(
            Study(
                _interval_anchor(entry),
                "difference",
                "intervals",
                dataset=entry.dataset,
                measures=entry.measures,
                require_2k=entry.require_2k,
                topic="intervals",
                heading=f"{entry.title}: what stands",
                words=f"{entry.title}, as in {entry.label} but at {{alpha}}. Framed and bold: "
                "the difference stands, at a false discovery rate of 5% over the cells of this "
                "picture.",
                axis="difference",
            )
        )
    studies.sort(key=lambda entry: _STUDY_PAGES.index(entry.notebook))
    placed = [replace(entry, place=place) for place, entry in enumerate(studies, start=1)]
    return {entry.anchor: entry for entry in placed}


STUDIES: dict[str, Study] = _declare_studies()

NOTEBOOKS: dict[str, Notebook] = {
    notebook.name: notebook
    for notebook in (
        Notebook(
            "schematic",
            "How a retrieval measure is judged",
            "What would it mean for one measure of retrieval to be better than another, when "
            "what counts in the end is the answer that is written from the retrieved documents?",
            "The paper scores each top-K retrieval twice, by a measure and by the grade of the "
            "answer an LLM gives from it, and ranks measures by the correlation of the two.",
        ),
        Notebook(
            "tables",
            "What the dataset holds",
            "How many samples stand behind each number, of which sizes, and how many of them "
            "are narrow (K below N_p) or wide?",
            "The paper lists, subset by subset, how many samples were ranked and graded for "
            "each of its four embeddings, with their numbers of candidates and positives and "
            "the range of K.",
        ),
        Notebook(
            "grade-distribution",
            "How the grade follows the ratio of K to N_p",
            "Does an answer get better the more documents are retrieved, or is there a best "
            "number of them relative to the number of relevant ones?",
            "On ARXIV the grades peak where K is near N_p. On MSMARCO they peak too, at a "
            "higher ratio. On both HotpotQA sets and Natural Questions they keep rising. The "
            "authors' reading: below the peak too few positives are found, above it confusing "
            "negatives come along, and texts that are easy to understand forgive more of them.",
        ),
        Notebook(
            "narrow-wide",
            "Narrow and wide retrieval",
            "If retrievals are only split into those with fewer documents than there are "
            "relevant ones (narrow) and the rest (wide), how well does each measure follow the "
            "grade?",
            "T, which does not need the number of relevant documents, loses little against F, "
            "which does. Correlations are moderate, and Pearson's and Kendall's coefficients "
            "tell the same story as Spearman's.",
        ),
        Notebook(
            "f-by-ratio",
            "F by ratio",
            "How well does F, the weighted mean of precision and recall at its best weight, "
            "follow the grade at each ratio of K to N_p?",
            "Correlations of F are moderate, and depend more on the kind of document and on "
            "the ratio than on the embedding.",
        ),
        Notebook(
            "t-by-ratio",
            "T by ratio",
            "How well does T follow the grade, which counts the relevant documents among those "
            "retrieved and needs no knowledge of the others?",
            "T correlates with the grade to a similar degree across datasets and ratios.",
        ),
        Notebook(
            "t-minus-f",
            "T against F",
            "What is lost, or won, by giving up recall: where is T better than F, and where is "
            "it worse?",
            "T is ahead of F in most segments of ARXIV and HotpotQA sentences and behind on "
            "MSMARCO. On HotpotQA paragraphs and Natural Questions the authors saw no "
            "noticeable difference and left the pictures out; they are drawn here.",
        ),
        Notebook(
            "tu-minus-t",
            "T without its normalisation",
            "T divides the count of irrelevant documents by K. Does that matter: is T_u, which "
            "does not divide, as good?",
            "T_u is worse than T on ARXIV and HotpotQA sentences, worse here and better there "
            "on MSMARCO, and the same on HotpotQA paragraphs and Natural Questions, whose "
            "pictures the paper leaves out; they are drawn here.",
        ),
        Notebook(
            "ndcg-minus-f",
            "nDCG against F",
            "nDCG looks at the order of the retrieved documents and, with the ideal used here, "
            "not at how many were missed. Where does the order tell more than F?",
            "nDCG mostly stays behind F, but is ahead at high ratios on ARXIV. On MSMARCO and "
            "Natural Questions it gains with the ratio without catching up, on HotpotQA less "
            "so. The authors' reading: texts as hard as abstracts make their order matter.",
        ),
        Notebook(
            "fe-minus-f",
            "F with an estimated number of positives",
            "If the number of relevant documents is not known, can those found in the top 2K "
            "stand in for it?",
            "At high ratios on ARXIV and MSMARCO the estimate serves even better than the "
            "truth. The authors' reading: a positive that even the top 2K does not hold is "
            "one that an LLM could not have made use of. The paper leaves HotpotQA paragraphs "
            "out for want of a noticeable difference; the picture is drawn here.",
        ),
        Notebook(
            "t-minus-ndcg",
            "T against nDCG",
            "Neither T nor nDCG needs the number of relevant documents. Which of the two should "
            "be watched?",
            "T is ahead of nDCG on ARXIV unless the ratio is high, and on the other datasets. "
            "The authors conclude that T serves at ratios up to about 1, and nDCG where many "
            "more documents are retrieved than are relevant.",
        ),
        Notebook(
            "dataset-code",
            "The dataset in code",
            "How do the published files fit together, and does what they promise hold for "
            "every row?",
            "The paper gives code that puts the texts of a sample in rank order, and the "
            "assertions that hold for ranked and for graded samples.",
        ),
    )
}


def find(text: str) -> Entry:
    """Find an entry by what people call it: ``figure 7``, ``fig-07``, ``study 7``, an anchor.

    Raises
    ------
    UsageError
        There is no such entry.

    Examples
    --------
    >>> find("Figure 7").anchor
    'figure-07'
    """
    if match := re.fullmatch(r"(fig(?:ure)?|table)[-.\s]*0*([0-9]+)", text.strip().lower()):
        return select("table" if match[1] == "table" else "figure", match[2])[0]
    anchor = text.strip().lower()
    known: dict[str, Entry] = {**ENTRIES, **STUDIES}
    labels = {entry.label.lower(): entry for entry in known.values()}
    if anchor in known or anchor in labels:
        return known.get(anchor) or labels[anchor]
    near = difflib.get_close_matches(anchor, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise UsageError(f"there is no figure or table {text!r}{hint}")


def select(what: Literal["figure", "table"], which: str | int) -> tuple[Entry, ...]:
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
    >>> [entry.stem for entry in select("table", "all")]
    ['table-1', 'table-2']
    """
    known = FIGURES if what == "figure" else TABLES
    if str(which) == "all":
        return (*known.values(), *(EXTRAS if what == "figure" else ()))
    if not re.fullmatch(r"[0-9]+", str(which)) or int(which) not in known:
        raise UsageError(f"there is no {what} {which!r}: it is 1 to {len(known)}, or all")
    return (known[int(which)],)


def find_notebook(name: str) -> Notebook:
    """Find a notebook by its name.

    Raises
    ------
    UsageError
        There is no such notebook.
    """
    if name in NOTEBOOKS:
        return NOTEBOOKS[name]
    near = difflib.get_close_matches(name, NOTEBOOKS, n=1)
    hint = f"; did you mean {near[0]}?" if near else "."
    raise UsageError(f"there is no notebook {name!r}{hint} There are: {', '.join(NOTEBOOKS)}")


def group(entry: Entry) -> Sequence[Entry]:
    """Give the entries that share a scale with an entry: those of its kind in its notebook."""
    return [other for other in NOTEBOOKS[entry.notebook].entries if other.kind == entry.kind]


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
            f"Table {entry.number}" if entry.kind == "table" else str(entry.number)
            for entry in numbered
        )
        path = f"notebooks/{notebook.name}"
        lines.append(f"| {shown} | [{notebook.title}]({path}.md) | `{path}.html` |")
    return "\n".join(lines)
