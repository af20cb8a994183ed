"""A log on a page of the book or in a notebook: opened once, shown section by section."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from retrieval_quality import markup
from retrieval_quality.errors import UsageError
from retrieval_quality.logs import checking, choosing, example, report
from retrieval_quality.logs.formats import open_log
from retrieval_quality.logs.measuring import Rules, check_by, default_measures, parse_measures
from retrieval_quality.logs.options import Options, parse_columns


class Shown:
    """HTML that a notebook shows."""

    def __init__(self, html: str) -> None:
        self.html = html

    def _repr_html_(self) -> str:
        return f'<div class="rq">{self.html}</div>'  # the look of the book, in dark mode too

    def __repr__(self) -> str:
        return "Shown()"


class Page:
    """What a log says, for one notebook.

    Parameters
    ----------
    logs : str
        Path of the log; empty: the made-up one.
    columns, qrels, grade, format : str
        As on the command line.
    top_k, measures : str
        Cut-offs and measures, comma-separated; empty: whole lists, and all that can be computed.
    alpha : float
        For T, T_u, F and F_e.
    by : str
        ``none``, ``day``, ``week``, ``month``, ``group`` or ``stage``.
    seed : int
    """

    def __init__(
        self,
        logs: str = "",
        *,
        columns: str = "",
        qrels: str = "",
        grade: str = "",
        format: str = "",
        top_k: str = "",
        measures: str = "",
        alpha: float = 0.5,
        by: str = "none",
        seed: int = 1,
    ) -> None:
        self._made: TemporaryDirectory[str] | None = None
        self.made_up = not logs
        if not logs:
            self._made = TemporaryDirectory()
            path = example.write(self._made.name, seed)
            top_k, by = top_k or str(example.TOP_K), "week" if by == "none" else by
        else:
            path = Path(os.path.expanduser(logs))
        self.path = path
        self.seed = seed
        self.options = Options(
            format=format,
            columns=parse_columns((columns,) if columns else ()),
            qrels=Path(qrels) if qrels else None,
            grade=grade or None,
        )
        log = open_log(path, self.options)
        trec = bool(qrels) or log.format.name == "beir"
        try:
            ks = [int(one) for one in top_k.split(",") if one.strip()]
        except ValueError as error:
            raise UsageError(f"top_k {top_k!r}: whole numbers with commas between them") from error
        names = measures or ",".join(default_measures(log.peek(200), trec))
        wanted = tuple(parse_measures(names, [alpha], ks))
        self.rules = Rules(wanted, trec=trec, by=check_by(by))
        self.top_k = ks[0] if ks else None

    def _repr_html_(self) -> str:
        return Shown(self._opening())._repr_html_()

    def _opening(self) -> str:
        if not self.made_up:
            return f"<p>{markup.escape(self.path.name)}</p>"
        return (
            "<p><strong>A made-up log.</strong> No log was named, so this page shows one that was "
            "made up; its numbers say nothing about any retriever.</p>"
        )

    def what(self) -> Shown:
        """Say what the log is, what can be computed and what is missing."""
        found = checking.check(self.path, self.options)
        lines = checking.text(found).splitlines()
        return Shown("<ul>" + "".join(f"<li>{markup.prose(one)}</li>" for one in lines) + "</ul>")

    def numbers(self) -> Shown:
        """Show the means, what was counted, and the course over time."""
        log = open_log(self.path, self.options)
        return Shown(report.body(log, report.measured(log, self.rules), self.rules))

    def choice(self) -> Shown:
        """Say which measure follows the grades here."""
        log = open_log(self.path, self.options)
        table = choosing.scored(log.rows(), top_k=self.top_k)
        if table.empty:
            return Shown("<p>The log has no graded and labelled rows.</p>")
        found = choosing.choose(table, seed=self.seed)
        said = "".join(f"<li>{markup.prose(one)}</li>" for one in found.sentences)
        shown = markup.table(found.table, "Correlation with the grade") if len(found.table) else ""
        return Shown(f"{shown}<ul>{said}</ul>")

    def companion(self, data: str) -> Shown:
        """Show the companion's table by K/N_p, and say what data it is from."""
        table, said = choosing.companion(data)
        shown = markup.table(table, "The companion's table")
        return Shown(f"<p>{markup.prose(said)}</p>{shown}")

    def save(self, out: str) -> Shown:
        """Write the tables and one page that opens from disk into a folder, if one is named."""
        if not out:
            return Shown("<p>With <code>out</code> set, the page and its tables are written.</p>")
        folder = Path(out) / "your-retrieval"
        report.write(open_log(self.path, self.options), self.rules, folder)
        return Shown(
            f"<p>Written: {markup.escape(str(Path('your-retrieval') / 'report.html'))}</p>"
        )
