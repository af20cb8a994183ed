"""What a notebook shows: header, figures, tables, listings, computed remarks and closing checks.

Everything is HTML that stands alone, so that it is the same in the book, in JupyterLab and in an
executed notebook in any folder. Text of a dataset is text: escaped, its control and direction
characters spelled out.
"""

from __future__ import annotations

import base64
import json
import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from retrieval_quality import markup, sources
from retrieval_quality.book.links import address_of
from retrieval_quality.book.mathml import to_mathml
from retrieval_quality.data import schema
from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.exhibits import catalogue, cells, distribution, exactness, export, intervals
from retrieval_quality.exhibits.heatmap import Difference, Heatmap, difference, places_of_cells
from retrieval_quality.exhibits.words import measure_name
from retrieval_quality.measures import MEASURES, lookup
from retrieval_quality.measures.segments import segment_order, segment_sizes
from retrieval_quality.parameters import COEFFICIENTS, Parameters, check_place
from retrieval_quality.statistics import correlation
from retrieval_quality.text import escape, signed, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from retrieval_quality.data.dataset import Dataset
    from retrieval_quality.exhibits.exhibit import Exhibit, Result
    from retrieval_quality.measures import Measure

SIMULATED = "Simulated data: this says nothing about real retrieval."

_CROSS_FITTED = "cross-fitted"
_SMALLEST = 0.9  # of its own width, below which a picture scrolls instead of shrinking


@dataclass(frozen=True)
class Shown:
    """Something to look at: HTML for a page, one line of text for a terminal."""

    html: str
    text: str

    def _repr_html_(self) -> str:
        return f'<div class="rq mathjax_ignore tex2jax_ignore">{self.html}</div>'

    def __repr__(self) -> str:
        """Give the text."""
        return self.text


@dataclass(frozen=True)
class Cell:
    """One value of a figure, to be worked out by hand beside it.

    Attributes
    ----------
    figure : str
        What the figure is called.
    dataset, embedding, segment : str
        Which rows it rests on, as in the columns of the figure's numbers.
    value : float
        What the figure shows, by Spearman's ρ and on the published grid of α; NaN where the figure
        has no cell with a value.
    """

    figure: str
    dataset: str = ""
    embedding: str = ""
    segment: str = ""
    value: float = math.nan

    @property
    def found(self) -> bool:
        """Whether the figure has a cell with a value."""
        return not math.isnan(self.value)

    @property
    def ratio(self) -> float:
        """K/N_p of its rows, rounded to one decimal; NaN where there is none."""
        return float(self.segment) if self.found else math.nan


def start(**parameters: Any) -> Run:
    """Load the data of a notebook.

    Parameters
    ----------
    **parameters
        The parameters of a run by their names, see `parameters.Parameters`; ``out``, the folder
        that pictures and numbers are written to; and, on the page of intervals, in the place of
        ``alpha``, ``alpha_of_intervals``: ``"cross-fitted"`` or a number from 0 to 1.

    Returns
    -------
    Run
        Shows a header: what data, which parameters. Of these it names those that were given, which
        are the ones that the notebook heeds.

    Raises
    ------
    UsageError
        A parameter is unknown or has a value it cannot have.
    DataError
        The data cannot be loaded.
    """
    out = check_place(parameters.pop("out", ""))
    fixed = _fixed_alpha(parameters.pop("alpha_of_intervals", _CROSS_FITTED))
    given = Parameters.parse(parameters | fixed)
    dataset = sources.load(given.data, seed=given.seed)
    return Run(dataset, given, out, (*parameters, *fixed))


def _fixed_alpha(value: str | float) -> dict[str, float]:
    """Read the α of intervals: nothing where it is cross-fitted, else the number."""
    if value == _CROSS_FITTED:
        return {}
    refusal = UsageError(
        f"the parameter alpha_of_intervals cannot be {value!r}; it is {_CROSS_FITTED} or a number "
        "from 0 to 1"
    )
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        raise refusal from None
    if not 0 <= number <= 1:
        raise refusal
    return {"alpha": number}


@dataclass
class Run:
    """The data and parameters of a notebook, and what it shows of them.

    Attributes
    ----------
    dataset : Dataset
        Loaded data.
    parameters : Parameters
        Of the run.
    out : str
        Folder that pictures and numbers are written to; empty: nothing is written.
    declared : tuple of str
        The parameters that the notebook declares; all where it names none.
    """

    dataset: Dataset
    parameters: Parameters
    out: str = ""
    declared: tuple[str, ...] = ()
    _results: dict[str, Result] = field(default_factory=dict)
    _claims: list[tuple[str, bool]] = field(default_factory=list)

    def _repr_html_(self) -> str:
        return Shown(self._header(), repr(self))._repr_html_()

    def __repr__(self) -> str:
        """One line: the data and its size."""
        kind = " (simulated)" if self.dataset.simulated else ""
        return f"{visible(self.dataset.name)}{kind}: {self._graded:,} graded rows"

    @cached_property
    def _graded(self) -> int:
        return self.dataset.row_counts().get("graded", 0)

    def _header(self) -> str:
        described = Parameters.describe()
        values = self.parameters.as_dict()
        rows = [
            (row["name"], _plain(values[row["name"]]), _plain(row["default"]), row["meaning"])
            for row in described
            if row["name"] in (self.declared or values)
        ]
        changed = [f"{name} = {value}" for name, value, default, _ in rows if value != default]
        told = "Run with " + (", ".join(changed) if changed else "the default parameters") + "."
        table = pd.DataFrame(rows, columns=["parameter", "value", "default", "meaning"])
        commit = f", commit {self.dataset.commit}" if self.dataset.commit else ""
        return (
            self._banner() + f"<p>Data: <strong>{escape(self.dataset.name)}</strong>"
            f"{escape(commit)}, {self._graded:,} graded rows. {escape(told)}</p>"
            + markup.details(
                "All parameters of this run", markup.table(table, "parameters of this run")
            )
        )

    def _banner(self) -> str:
        return f'<p class="rq-simulated">{SIMULATED}</p>' if self.dataset.simulated else ""

    # --- figures and tables --------------------------------------------------------------------

    def figure(self, which: int | str) -> Shown:
        """Show a figure: picture, caption, its numbers, and its files where they are written.

        Parameters
        ----------
        which : int or str
            Number in the paper, or the anchor of an extra.
        """
        entry = catalogue.figure(which)
        result = self._result(entry)
        drawing = entry.draw(result)
        written = self._write(entry, drawing)
        numbers = markup.details(
            f"The numbers of {entry.label}" if entry.number else "The numbers",
            markup.table(result.numbers, f"numbers of {entry.title}"),
        )
        folded = [] if result.numbers.empty else [numbers]
        caption, links = self._caption(entry, result), self._links(entry, written)
        return self._shown(
            entry, [self._picture(result, drawing, written), caption, links, *folded]
        )

    def table(self, which: int | str) -> Shown:
        """Show a table of the paper by its number, or one of a study by its anchor."""
        entry = catalogue.table(which)
        result = self._result(entry)
        body = _missing(result) or markup.table(result.numbers, f"{entry.label}: {entry.title}")
        notes = "".join(f"<p>{markup.prose(note)}</p>" for note in result.notes)
        caption, links = self._caption(entry, result), self._links(entry, self._write(entry))
        return self._shown(entry, [caption, body, notes, links])

    def code(self, number: int) -> Shown:
        """Show a listing of the paper with what it gives on the data of the run."""
        entry = catalogue.figure(number)
        result = self._result(entry)
        body = _missing(result) or (
            f'<pre tabindex="0" role="group" aria-label="{escape(entry.title)}">'
            f"<code>{escape(result.text)}</code></pre>"
        )
        caption, links = self._caption(entry, result), self._links(entry, self._write(entry))
        return self._shown(entry, [body, caption, links])

    def _shown(self, entry: Exhibit, parts: list[str]) -> Shown:
        """Put the parts of a figure or table under its id."""
        line = escape(export.provenance_line(self.dataset, self.parameters))
        body = "".join([*parts, f'<p class="rq-provenance">{line}</p>'])
        text = f"{entry.label}: {entry.title}"
        return Shown(f'<figure id="{entry.anchor}">{body}</figure>', text)

    def observe(self, which: int | str) -> Shown:
        """Say in computed sentences what a figure shows."""
        entry = catalogue.figure(which)
        said = entry.observe(self._result(entry))
        opening = "Seen here, on simulated data:" if self.dataset.simulated else "Seen here:"
        listed = self.note(*said)
        return Shown(f"<p>{opening}</p>{listed.html}", listed.text)

    def note(self, *sentences: str) -> Shown:
        """Show sentences of plain text, each as an item of a list."""
        items = "".join(f"<li>{markup.prose(sentence)}</li>" for sentence in sentences)
        return Shown(f"<ul>{items}</ul>", " ".join(sentences))

    def show(self, frame: pd.DataFrame, title: str = "") -> Shown:
        """Show a table of one's own: text escaped, wide tables scroll."""
        name = title or "table"
        heading = f'<p class="rq-number">{escape(title)}</p>' if title else ""
        text = f"{name}: {len(frame)} rows"
        return Shown(heading + markup.table(frame, name), text)

    def measures(self, *names: str) -> Shown:
        """Show what is declared of measures: of all, or of those that are named."""
        chosen = lookup(names or MEASURES)
        titles = ("measure", "formula", "meaning", "range", "needs N_p", "has α", "source")
        head = "".join(f'<th scope="col">{markup.prose(title)}</th>' for title in titles)
        body = "".join(_measure_row(measure) for measure in chosen)
        table = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
        return Shown(markup.scrolling(table, "measures"), f"{len(chosen)} measures")

    # --- one cell by hand ------------------------------------------------------------------------

    def rows(self) -> pd.DataFrame:
        """Give the graded rows of the run, one row a sample: see `Dataset.scored`."""
        rows = cells.scored_rows(self.dataset, self.parameters)
        return rows[rows["grade"].notna()].reset_index(drop=True)

    def first_cell(self, which: int | str, **of: Any) -> Cell:
        """Give the first cell of a figure whose value is not 0, or else the first that has one.

        Parameters
        ----------
        which : int or str
            As in `figure`.
        **of
            What a column of the figure's numbers must hold, where a cell has several values.

        Returns
        -------
        Cell
            By Spearman's ρ and on the published grid of α, whatever the run asks for elsewhere.
        """
        entry = catalogue.figure(which)
        usual = Parameters()
        run = replace(self.parameters, coefficient=usual.coefficient, alpha=usual.alpha)
        result = self._result(entry) if run == self.parameters else entry.compute(self.dataset, run)
        numbers = result.numbers
        for column, wanted in of.items():
            numbers = numbers[numbers[column] == wanted]
        known = numbers.dropna(subset=entry.value)
        if known.empty:
            return Cell(entry.label)
        telling = known[known[entry.value] != 0]
        first = (known if telling.empty else telling).iloc[0]
        dataset, embedding, segment = (str(first[name]) for name in cells.CELL)
        return Cell(entry.label, dataset, embedding, segment, float(first[entry.value]))

    def by_hand(self, cell: Cell, value: float) -> Shown:
        """Show a value that was worked out by hand beside that of the figure."""
        if not cell.found:
            return self.note(f"{cell.figure} has no cell with a value that could be worked out.")
        place = f"{cell.dataset}, {schema.embedding_label(cell.embedding)}, {cell.segment}"
        return self.note(
            f"{cell.figure}, {place}: {value:.8f} by hand, {cell.value:.8f} by the engine."
        )

    def _result(self, entry: Exhibit) -> Result:
        if entry.anchor not in self._results:
            self._results[entry.anchor] = entry.compute(self.dataset, self.parameters)
        return self._results[entry.anchor]

    def _picture(self, result: Result, drawing: Figure, written: list[Path]) -> str:
        """Embed the drawing, so that it is there in any folder and without a network."""
        files = [path for path in written if path.suffix == ".svg"]
        svg = files[0].read_bytes() if files else export.svg_bytes(drawing)
        width, height, cells = _layout(drawing, result)
        alt = escape(result.exhibit.describe(result))
        source = base64.b64encode(svg).decode("ascii")
        image = (
            f'<img alt="{alt}" width="{width}" height="{height}" '
            f'style="min-width:{round(_SMALLEST * width)}px" '
            f'src="data:image/svg+xml;base64,{source}">'
        )
        explored = f' data-cells="{escape(json.dumps(cells))}"' if cells else ""
        name = escape(f"{result.exhibit.label}, the picture")
        return (
            f'<div class="rq-view" tabindex="0" role="group" aria-label="{name}">'
            f'<div class="rq-picture"{explored}>{image}</div></div>'
        )

    def _caption(self, entry: Exhibit, result: Result) -> str:
        simulated = " Simulated data." if result.simulated else ""
        label = f'<span class="rq-number">{escape(entry.label)}.</span>'
        said = markup.prose(entry.caption(self.parameters))
        return f"<figcaption>{label} {said}{simulated}</figcaption>"

    def _write(self, entry: Exhibit, drawing: Figure | None = None) -> list[Path]:
        """Write the files of an entry if a folder was named."""
        if not self.out:
            return []
        return export.write_result(self._result(entry), self.dataset, self.out, drawing)

    def _links(self, entry: Exhibit, written: list[Path]) -> str:
        """Link the files of an entry within the book; elsewhere say where they are."""
        folder = address_of(self.out)
        if not written:
            return ""
        if folder is None:
            place = escape(self.out)
            return f'<p class="rq-links">Written to {place}.</p>'
        return _downloads(entry, folder) + _doubts(entry)

    # --- what single notebooks add ----------------------------------------------------------------

    def best_ratios(self) -> Shown:
        """Show at which ratio the mean grade is highest, for every dataset and embedding."""
        shown = (e for e in catalogue.FIGURES.values() if isinstance(e, distribution.Distribution))
        results = [self._result(entry) for entry in shown]
        frames = [distribution.best_ratios(result) for result in results if not result.missing]
        if not frames:
            return self.note("No dataset has a segment large enough.")
        return self.show(pd.concat(frames, ignore_index=True), "Mean grade by ratio")

    def lone_bars(self) -> Shown:
        """Say how many bars hold questions of one N_p only, and which of the best ratios do."""
        rows = cells.scored_rows(self.dataset, self.parameters)
        return self.note(distribution.lone_bars(rows, self.parameters.min_samples_ratio))

    def best(
        self,
        rows: pd.DataFrame,
        measures: tuple[str, ...] = ("P", "F", "T", "Tu"),
        alpha: str | float = "published",
    ) -> pd.DataFrame:
        """Correlate measures with the grade on some of the rows, by the coefficient of the run.

        Parameters
        ----------
        rows : DataFrame
            Scored rows.
        measures : tuple of str
            Names in `MEASURES`.
        alpha : "published", "exact", or float in [0, 1]
            As in `correlation.correlate`.

        Returns
        -------
        DataFrame
            One row a dataset, embedding and ratio; one column a measure.
        """
        run = self.parameters
        found = correlation.correlate(
            rows,
            measures=measures,
            coefficients=(run.coefficient,),
            min_samples=run.min_samples_ratio,
            alpha=alpha,
        )
        wide = found.pivot(index=cells.CELL, columns="measure", values="correlation")
        return wide.reindex(columns=list(measures))

    def holdings(self) -> Shown:
        """Say in a sentence what the data is: rows, questions, segments that are large enough."""
        rows = cells.scored_rows(self.dataset, self.parameters)
        fewest = self.parameters.min_samples_ratio
        sizes = segment_sizes(rows, "ratio")
        large = int((sizes["n"] >= fewest).sum())
        unit = "query" if "query" in rows else "id"
        datasets = schema.dataset_order([str(name) for name in rows["dataset"].unique()])
        sentence = (
            f"{self.dataset.name}: {len(rows):,} graded rows of {rows[unit].nunique():,} "
            f"questions, from {', '.join(datasets)}. {large:,} of {len(sizes):,} segments of one "
            f"dataset, embedding and ratio have the {fewest} rows that a cell of a figure needs."
        )
        return Shown(self._banner() + f"<p>{markup.prose(sentence)}</p>", sentence)

    def notices(self) -> Shown:
        """Show what was accepted, converted or left out while the data was loaded."""
        if not self.dataset.notices:
            return self.note("Nothing was converted or left out.")
        rows = [(n.part, n.kind, n.count, n.text) for n in self.dataset.notices]
        return self.show(
            pd.DataFrame(rows, columns=["file", "what", "count", "meaning"]), "Notices"
        )

    def agreement(self) -> Shown:
        """Show how far the LLM and people agree, where the data has grades of people."""
        from retrieval_quality.statistics import agreement

        if (human := self._human()) is None:
            return self._no_human()
        agreed = agreement.agree(human, ("ordinal", "interval"))
        return self.show(agreed, "Krippendorff's α")

    def confusion(self) -> Shown:
        """Show who gave which grade, LLM against people."""
        from retrieval_quality.statistics import agreement

        if (human := self._human()) is None:
            return self._no_human()
        if agreement.LLM not in human:
            return self.note(
                "The LLM's grade is not beside those of people, so the two cannot be counted "
                "against each other."
            )
        counts = agreement.confusion(human, agreement.PEOPLE, agreement.LLM)
        counts.columns = [f"LLM {grade}" for grade in counts.columns]
        counts.insert(0, "people", [str(grade) for grade in counts.index])
        return self.show(counts, "Grades of people (down) and of the LLM (across)")

    def human_correlations(self) -> Shown:
        """Show each measure's correlation with human grades beside that with the LLM's."""
        from retrieval_quality.statistics import agreement

        if (human := self._human()) is None:
            return self._no_human()
        scored = self.dataset.scored(self.parameters.embeddings, self.parameters.datasets)
        matched = agreement.human_scored(human, scored)
        if matched.rows["grade_human"].notna().sum() < 2:
            return self.note(matched.reason or "Fewer than 2 rows have a grade of a person.")
        table = agreement.correlate_graders(
            matched.rows,
            coefficients=(self.parameters.coefficient,),
            alpha=self.parameters.alpha,
        )
        names = {"people": "with people", "llm": "with the LLM"}
        shown = self.show(
            table.drop(columns="coefficient").rename(columns=names),
            "Correlation with the mean human grade and with the LLM's, embeddings together",
        )
        return Shown(self.note(*filter(None, [matched.reason])).html + shown.html, shown.text)

    def _human(self) -> pd.DataFrame | None:
        return self.dataset.read("human") if "human" in self.dataset.parts else None

    def _no_human(self) -> Shown:
        return self.note(
            "The data has no grades of people (samples_human), so nothing can be said here."
        )

    def overview(self) -> Shown:
        """Show who is ahead, and how far, for each dataset, pair of measures and coefficient."""
        rows = []
        for pair in _pairs():
            for coefficient in COEFFICIENTS:
                for dataset in self._datasets():
                    values = self._difference(pair, dataset, coefficient).numbers["difference"]
                    rows.append((pair, dataset, coefficient, values.astype(float)))
        frame = pd.DataFrame(
            {
                "pair": f"{measure_name(pair[0])} minus {measure_name(pair[1])}",
                "dataset": dataset,
                "coefficient": coefficient,
                "cells": len(values),
                "undefined": int(values.isna().sum()),
                "ahead": int((values > 0).sum()),
                "behind": int((values < 0).sum()),
                "equal": int((values == 0).sum()),
                "median": values.median(),
                "lowest": values.min(),
                "highest": values.max(),
            }
            for pair, dataset, coefficient, values in rows
        )
        kinds = ["ahead", "behind", "equal", "undefined"]
        self._claims.append(
            (
                f"all {int(frame['cells'].sum()):,} cells are ahead, behind, equal or undefined",
                bool((frame[kinds].sum(axis=1) == frame["cells"]).all()),
            )
        )
        return self.show(frame, "All pairs, datasets and coefficients")

    def maps(self, first: str, second: str) -> Shown:
        """Show one measure minus another on every dataset, by every coefficient, as tables."""
        largest = max(
            (
                self._difference((first, second), dataset, coefficient)
                .numbers["difference"]
                .abs()
                .max()
                for dataset in self._datasets()
                for coefficient in COEFFICIENTS
            ),
            default=math.nan,
        )
        scale = largest if largest == largest and largest > 0 else 1.0
        parts = []
        for coefficient, name in COEFFICIENTS.items():
            maps = [
                _map(self._difference((first, second), dataset, coefficient), scale)
                for dataset in self._datasets()
            ]
            opened = markup.details(name, "".join(maps), opened=coefficient == "spearman")
            parts.append(opened)
        title = f"{measure_name(first)} minus {measure_name(second)}"
        return Shown("".join(parts), f"{title}: {len(COEFFICIENTS)} coefficients")

    def _datasets(self) -> list[str]:
        """Datasets of the run, those of the paper first."""
        rows = cells.scored_rows(self.dataset, self.parameters)
        return schema.dataset_order([str(name) for name in rows["dataset"].unique()])

    def _difference(self, pair: tuple[str, str], dataset: str, coefficient: str) -> Result:
        """Compute a difference by the coefficient that is named, whatever that of the run."""
        entry = difference(pair, dataset, coefficient=coefficient)
        parameters = replace(self.parameters, coefficient=Parameters().coefficient)
        key = f"{entry.anchor} {coefficient}"
        if key not in self._results:
            self._results[key] = entry.compute(self.dataset, parameters)
        return self._results[key]

    def beside_exact(self, *pairs: tuple[str, str], standing: bool = False) -> Shown:
        """Say how much of a difference is owed to the published grid of α and to float ties.

        Parameters
        ----------
        *pairs : tuple of str
            The measure, and the one that is taken from it.
        standing : bool
            Whether to set it beside the cells that stand.
        """
        run = self.parameters
        exact = exactness.exact_cells(self.dataset, run)
        marked = intervals.marked_differences(self.dataset, run) if standing else None
        said = [line for pair in pairs for line in exactness.beside_exact(exact, pair, marked)]
        return self.note(*said)

    def gallery(self) -> Shown:
        """Show every figure and table of the paper with its chapter and its files."""
        entries = [*catalogue.FIGURES.values(), *catalogue.TABLES.values(), *catalogue.EXTRAS]
        cards = "".join(_card(entry, address_of(self.out, entry.notebook)) for entry in entries)
        return Shown(f'<div class="rq-gallery">{cards}</div>', f"{len(entries)} figures and tables")

    # --- how sure it is ---------------------------------------------------------------------------

    def standing(self, alpha: float | None = None) -> Shown:
        """Count the cells whose difference stands, for each pair of measures and dataset.

        Parameters
        ----------
        alpha : float, optional
            Instead of the cross-fitted one, or of that of the run.
        """
        run = self.parameters if alpha is None else replace(self.parameters, alpha=alpha)
        counted = intervals.standing(self.dataset, run)
        if counted.empty:
            return self.note("No segment has enough graded rows.")
        total = f"{int(counted['stand'].sum())} of {int(counted['cells'].sum())} cells stand."
        shown = self.show(counted, "Cells that stand at a false discovery rate of 5%")
        return Shown(f"<p>{total}</p>{shown.html}", total)

    def standing_maps(self, first: str, second: str) -> Shown:
        """Show one measure minus another on every dataset, the cells that stand marked."""
        entries = [
            entry
            for entry in catalogue.STUDIES.values()
            if isinstance(entry, intervals.Intervals) and entry.measures == (first, second)
        ]
        shown = [
            part
            for entry in entries
            for part in (self.figure(entry.anchor), self.observe(entry.anchor))
        ]
        title = f"{measure_name(first)} minus {measure_name(second)}"
        return Shown("".join(part.html for part in shown), f"{title}: {len(entries)} maps")

    def coverage(self) -> Shown:
        """Show how often intervals hold the true value, where it is known."""
        found = intervals.coverage()
        if found is None:
            return self.note(
                "The results of the coverage benchmark are not here; "
                "benchmarks/interval_coverage.py makes them."
            )
        told = self.note(*intervals.coverage_notes(found))
        shown = self.show(found, "Coverage of nominal 95% intervals, on simulated sets")
        return Shown(told.html + shown.html, told.text)

    def calibration(self) -> Shown:
        """Show how often the verdicts of the claims are right, where the law is known."""
        from retrieval_quality.exhibits import claims

        found = claims.calibration()
        if found is None:
            return self.note(
                "The results of the calibration benchmark are not here; "
                "benchmarks/claims_calibration.py makes them."
            )
        noted = self.note(*claims.calibration_notes(found))
        shown = self.show(found, "Verdicts on worlds of a known law")
        return Shown(noted.html + shown.html, noted.text)

    def claims(self) -> Shown:
        """Show the claims of the paper with their verdicts."""
        from retrieval_quality.exhibits import claims

        ledger = claims.evaluate(self.dataset, self.parameters)
        counts = pd.Series([claim["verdict"] for claim in ledger]).value_counts()
        told = ", ".join(f"{verdict}: {count}" for verdict, count in counts.items())
        self._claims += [
            (
                f"each of {len(ledger)} claims has a verdict",
                all(claim["verdict"] in claims.VERDICTS for claim in ledger),
            ),
            (
                "no interval ends below where it begins",
                all(c["low"] is None or c["low"] <= c["high"] for c in ledger),
            ),
        ]
        stamp = f'<p class="rq-simulated">{SIMULATED}</p>' if self.dataset.simulated else ""
        index = "".join(_claim_line(claim) for claim in ledger)
        head = "".join(f'<th scope="col">{title}</th>' for title in ("no.", "verdict", "claim"))
        rows = f"<thead><tr>{head}</tr></thead><tbody>{index}</tbody>"
        table = markup.scrolling(rows, "claims of the paper")
        cards = "".join(_claim_card(claim) for claim in ledger)
        file = self._ledger_file(ledger)
        ours = (
            "What counts as little, near, high, moderate or alike is this book's choice, stated in "
            "each test: the paper gives no thresholds. Where a claim names no coefficient it is "
            "Spearman's, at the α of the other datasets, whatever the run asks for elsewhere."
        )
        return Shown(f"{stamp}<p>{escape(told)}. {ours}</p>{file}{table}{cards}", told)

    def _ledger_file(self, ledger: list[dict[str, Any]]) -> str:
        """Write the ledger if a folder was named, and link it or say where it is."""
        if not self.out:
            return ""
        path = export.write_claims(ledger, Path(self.out) / "claims.json")
        folder = address_of(self.out)
        if folder is None:
            return f'<p class="rq-links">Written to {escape(str(path))}.</p>'
        return f'<p class="rq-links">Download: <a href="{folder}/claims.json" download>JSON</a></p>'

    # --- checks -----------------------------------------------------------------------------------

    def check(self, *claims: tuple[str, bool]) -> Shown:
        """Check what must hold of everything that was shown.

        Parameters
        ----------
        *claims : tuple of str and bool
            Statements of the notebook's own, and whether each holds.

        Raises
        ------
        DataError
            A check failed.
        """
        found = [*claims, *self._claims]
        results = [one for key, one in self._results.items() if key == one.exhibit.anchor]
        for result in results:
            found += result.exhibit.checks(result)
        failed = [statement for statement, holds in found if not holds]
        if failed:
            raise DataError(f"checks failed: {'; '.join(failed)}")
        nothing = [f"{r.exhibit.label} shows nothing to check." for r in results if r.missing]
        told = [*(statement for statement, _ in found), *nothing]
        items = "".join(f"<li>{markup.prose(statement)}</li>" for statement in told)
        passed = "The one check passed." if len(found) == 1 else f"All {len(found)} checks passed."
        listed = f'<ul class="rq-checks">{items}</ul>'
        if not found:
            return Shown(listed, "0 checks hold")
        return Shown(markup.details(passed, listed), f"{len(found)} checks hold")


def _pairs() -> list[tuple[str, str]]:
    """Pairs of measures that the paper compares."""
    shown = (e for e in catalogue.FIGURES.values() if isinstance(e, Difference))
    return list(dict.fromkeys(entry.pair for entry in shown))


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "all"
    return str(value)


def _measure_row(measure: Measure) -> str:
    """Write the row of a measure, its formula as MathML."""
    low = "(−∞" if math.isinf(measure.low) else f"[{measure.low:g}".replace("-", "−")
    high = "∞)" if math.isinf(measure.high) else f"{measure.high:g}]"
    traits = (measure.needs_relevant, measure.has_alpha)
    cells = [f"{low}, {high}", *("yes" if holds else "no" for holds in traits)]
    return (
        f'<tr><th scope="row">{markup.prose(measure.label)}</th>'
        f"<td>{to_mathml(measure.formula)}</td>"
        f'<td class="rq-long">{markup.prose(measure.summary)}</td>'
        + "".join(f"<td>{cell}</td>" for cell in cells)
        + f'<td class="rq-long">{markup.prose(measure.source)}</td></tr>'
    )


def _claim_line(claim: dict[str, Any]) -> str:
    """Write one claim as a row of the overview."""
    number = int(claim["id"].removeprefix("claim-"))
    return (
        f'<tr><th scope="row"><a href="#{claim["id"]}">{number}</a></th>'
        f"<td>{escape(claim['verdict'])}</td>"
        f'<td class="rq-long">{markup.prose(claim["statement"])}</td></tr>'
    )


def _claim_card(claim: dict[str, Any]) -> str:
    """Write one claim with its test and every number behind it, its id as the place to link to."""
    from retrieval_quality.exhibits.claims import told

    number = int(claim["id"].removeprefix("claim-"))
    entries = [catalogue.FIGURES[figure] for figure in claim["figures"]]
    entries += [catalogue.find(anchor) for anchor in claim["extras"]]
    links = ", ".join(
        f'<a href="{entry.notebook}.html#{entry.anchor}">{markup.prose(entry.label)}'
        f"{'' if entry.number else f' ({markup.prose(entry.title)})'}</a>"
        for entry in entries
    )
    simulated = " on simulated data" if claim["data"]["simulated"] else ""
    conditions = "".join(f"<li>{markup.prose(condition)}</li>" for condition in claim["conditions"])
    lines = {
        "Tested by": markup.prose(claim["test"]),
        "Refuted if": markup.prose(claim["refuted_by"]),
        "By construction": markup.prose(claim["by_construction"]),
        "Found": f"<ul>{conditions}</ul>" if conditions else markup.prose(claim["note"]),
        **{name: markup.prose(text) for name, text in told(claim).items()},
        "Shown by": links,
    }
    body = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in lines.items() if text)
    return (
        f'<section class="rq-claim" id="{claim["id"]}"><p><strong>Claim {number}. '
        f"{markup.prose(claim['statement'])}</strong> ({markup.prose(claim['where'])})</p>"
        f'<p class="rq-verdict">Verdict{simulated}: {escape(claim["verdict"])}</p>'
        f"<dl>{body}</dl></section>"
    )


def _map(result: Result, scale: float) -> str:
    """Write a difference by ratio as a table whose cells are shaded by their value."""
    dataset = f"{schema.dataset_name(result.exhibit.dataset)}"
    if result.missing:
        return f"<p>{escape(dataset)}: {escape(result.missing)}</p>"
    grid = result.numbers.pivot(index="embedding", columns="segment", values="difference")
    segments = segment_order([str(name) for name in grid.columns])
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in segments)
    rows = "".join(
        f'<tr><th scope="row">{escape(schema.embedding_label(code))}</th>'
        + "".join(markup.shade(grid.loc[code, name], scale) for name in segments)
        + "</tr>"
        for code in schema.embedding_order([str(code) for code in grid.index])
    )
    name = f"{result.exhibit.title}, {COEFFICIENTS[result.exhibit.coefficient]}"
    return f"<p>{escape(dataset)}, by K/N<sub>p</sub></p>" + markup.scrolling(
        f'<thead><tr><th scope="col">embedding</th>{head}</tr></thead><tbody>{rows}</tbody>', name
    )


def _card(entry: Exhibit, folder: str | None) -> str:
    page = f"{entry.notebook}.html#{entry.anchor}"
    title = f'<a href="{page}">{escape(entry.label)}: {markup.prose(entry.title)}</a>'
    if folder is None:
        return f"<div><p>{title}</p></div>"
    picture = (
        f'<img src="{folder}/{entry.anchor}.svg" alt="" loading="lazy">' if entry.drawn else ""
    )
    return f"<div>{picture}<p>{title}</p>{_downloads(entry, folder)}</div>"


def _missing(result: Result) -> str:
    return f'<p class="rq-missing">{markup.prose(result.missing)}</p>' if result.missing else ""


def _downloads(entry: Exhibit, folder: str) -> str:
    links = "".join(
        f'<a href="{folder}/{entry.anchor}{suffix}" download '
        f'aria-label="{escape(entry.title)}, {suffix[1:].upper()}">{suffix[1:].upper()}</a>'
        for suffix in entry.suffixes
    )
    return f'<p class="rq-links">Download: {links}</p>'


def _doubts(entry: Exhibit) -> str:
    """Link a figure of the paper to its intervals and to the claims that it bears on."""
    from retrieval_quality.exhibits.claims import CLAIMS

    links = []
    if isinstance(entry, Difference) and not isinstance(entry, intervals.Intervals):
        study = catalogue.interval_study(entry)
        links.append(f'<a href="intervals.html#{study.anchor}">which of these cells stand</a>')
    links += [
        f'<a href="claims.html#claim-{claim.number:02d}">claim {claim.number}</a>'
        for claim in CLAIMS
        if entry.noun == "Figure" and entry.number in claim.figures
    ]
    return f'<p class="rq-links">How sure is it: {" ".join(links)}</p>' if links else ""


def _layout(drawing: Figure, result: Result) -> tuple[int, int, list[tuple[Any, ...]]]:
    """Width and height of a drawing in pixels, and place and reading of each cell of a heat map.

    A cell is (left, top, width, height, text, row, column): its place in percent of the drawing,
    its reading, and its place in the grid of embeddings and ratios, which may be drawn in strips.
    """
    width, height = (round(96 * inches) for inches in drawing.get_size_inches())
    if result.missing or not isinstance(result.exhibit, Heatmap):
        return width, height, []
    rows = result.numbers.to_dict("records")
    places = (cell.box() for cell in places_of_cells(drawing, result.numbers))
    embeddings, ratios = (
        {name: at for at, name in enumerate(result.numbers[key].unique())}
        for key in ("embedding", "segment")
    )
    ratios = {name: at for at, name in enumerate(sorted(ratios, key=float))}
    drawn = [
        (
            *(round(100 * part, 2) for part in place),
            _reading(row),
            embeddings[row["embedding"]],
            ratios[row["segment"]],
        )
        for place, row in zip(places, rows, strict=True)
    ]
    return width, height, drawn


def _reading(cell: dict[str, Any]) -> str:
    """Say in one line what a cell of a heat map holds."""
    where = f"{schema.embedding_label(str(cell['embedding']))} at K/N_p = {cell['segment']}"
    rows = f"n = {cell['n']:,} of {cell['n_total']:,} rows"
    if "difference" not in cell:
        if cell["reason"]:
            return f"{where}: undefined, {cell['reason']}"
        return f"{where}: {cell['correlation']:.3f}{_at_alpha(cell['alpha'])}, {rows}"
    if cell["reason"]:
        return f"{where}: undefined, {cell['reason']}"
    sides = ", ".join(
        f"{measure_name(cell[side])} {cell[f'correlation_{side}']:.3f}"
        f"{_at_alpha(cell[f'alpha_{side}'])}"
        for side in ("first", "second")
    )
    return f"{where}: {signed(cell['difference'])}{_sureness(cell)} ({sides}), {rows}"


def _sureness(cell: dict[str, Any]) -> str:
    """Say how sure a difference is, where it has an interval."""
    if "stands" not in cell or math.isnan(cell["low"]):
        return ""
    ends = f"{signed(cell['low'])} to {signed(cell['high'])}"
    return f", 95% interval {ends}, {'stands' if cell['stands'] else 'does not stand'}"


def _at_alpha(alpha: float) -> str:
    return "" if math.isnan(alpha) else f" at α = {alpha:.3g}"
