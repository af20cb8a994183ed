"""The command group ``retrieval-quality logs``: thin, each command calls one function."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from retrieval_quality.errors import UsageError

if TYPE_CHECKING:
    from retrieval_quality.logs.formats import Log
    from retrieval_quality.logs.options import Options

Command = Callable[..., Any]
_file = click.Path(path_type=Path)


def _say(text: str) -> None:
    from retrieval_quality.text import visible

    click.echo(visible(text), err=True)


@click.group()
def logs() -> None:
    """Measure one's own retrieval: from the logs of any tool to numbers to watch."""


def _reading(command: Command) -> Command:
    """Add the options of every command that reads a log."""
    options = [
        click.option("--format", "format_", default="", help="The format, instead of the content."),
        click.option(
            "--columns",
            multiple=True,
            metavar="OURS=THEIRS,…",
            help="Where things are in a log of your own: query=question,documents=hits.",
        ),
        click.option("--qrels", type=_file, help="TREC judgements."),
        click.option("--queries", type=_file, help="Texts of the queries: id, tab, text."),
        click.option("--results", type=_file, help="Retrieved lists for a BEIR folder."),
        click.option("--labels", type=_file, help="Document evaluations of Phoenix."),
        click.option("--split", default="test", show_default=True, help="Qrels of a BEIR folder."),
        click.option("--grade", help="Which evaluation, metric or column is the grade."),
        click.option("--group", "group_path", help="Where the group is, such as metadata.team."),
        click.option(
            "--stage",
            type=click.Choice(["default", "final", "all"]),
            default="default",
            show_default=True,
            help="Lists of a trace: top retrievers, the last list (re-ranked), or every one.",
        ),
        click.option(
            "--order",
            type=click.Choice(["score", "rank", "file"]),
            default="score",
            show_default=True,
            help="What orders a TREC run.",
        ),
        click.option("--delimiter", help="Between the columns of a CSV."),
        click.option("--list-separator", help="Between the entries of a list cell."),
        click.option("--decimal", type=click.Choice([".", ","]), default=".", show_default=True),
        click.option(
            "--layout", type=click.Choice(["wide", "long"]), help="A row a query, or a document."
        ),
        click.option("--assume-zone", help="Zone of times without one, such as Europe/Berlin."),
        click.option("--skip-broken", is_flag=True, help="Leave broken rows out, counted."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def _options(given: dict[str, Any]) -> Options:
    """Take the reading options out of a command's arguments."""
    from retrieval_quality.logs.options import Options, parse_columns, parse_zone

    delimiter = given.pop("delimiter")
    return Options(
        format=given.pop("format_"),
        columns=parse_columns(given.pop("columns")),
        qrels=given.pop("qrels"),
        queries=given.pop("queries"),
        results=given.pop("results"),
        labels=given.pop("labels"),
        split=given.pop("split"),
        grade=given.pop("grade"),
        group=given.pop("group_path"),
        stage=given.pop("stage"),
        order=given.pop("order"),
        delimiter="\t" if delimiter in ("\\t", "tab") else delimiter,
        list_separator=given.pop("list_separator"),
        decimal=given.pop("decimal"),
        layout=given.pop("layout") or "",
        zone=parse_zone(given.pop("assume_zone")),
        lenient=given.pop("skip_broken"),
    )


def _open(path: Path, options: Options) -> Log:
    from retrieval_quality.logs.formats import open_log

    log = open_log(path, options)
    if options.qrels and log.format.name not in ("trec", "scores", "beir"):
        raise UsageError(f"--qrels is for runs; {path.name} is {log.format.label}")
    return log


_logs = click.argument("path", metavar="LOGS", type=_file)


@logs.command()
@_logs
@_reading
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def check(path: Path, as_json: bool, **given: Any) -> None:
    """Say what LOGS is, what is in it, what can be computed and what is missing."""
    from retrieval_quality.logs import checking

    found = checking.check(path, _options(given))
    click.echo(json.dumps(found, indent=1, ensure_ascii=False) if as_json else checking.text(found))


@logs.command("import")
@_logs
@_reading
@click.option("--out", required=True, type=_file, help="FILE.parquet")
def import_command(path: Path, out: Path, **given: Any) -> None:
    """Write LOGS as one documented table, with what was left out counted."""
    from retrieval_quality.logs import rows

    if out.suffix != ".parquet":
        raise UsageError(f"--out {out}: the ending must be .parquet")
    log = _open(path, _options(given))
    count = rows.write(log.rows(), out, log.account)
    for notice in log.account.notices.values():
        _say(str(notice))
    _say(f"{count} rows: {out}")


def _numbers(option: str, text: str, kind: type[Any]) -> list[Any]:
    try:
        return [kind(one) for one in text.split(",") if one.strip()]
    except ValueError as error:
        raise UsageError(f"{option} {text!r}: numbers with commas between them") from error


_measures = click.option("--measures", help="Such as P@5,T(alpha=0.3)@10,nDCG. Default: all.")
_alpha = click.option("--alpha", default="0.5", show_default=True, help="For T, T_u, F, F_e.")
_top_k = click.option("--top-k", default="", help="Cut-offs, such as 5,10. Default: whole lists.")
_relevant = click.option(
    "--relevant-from",
    type=float,
    default=1.0,
    show_default=True,
    help="Labels from here on are relevant.",
)


def _wanted(log: Log, measures: str | None, top_k: str, alpha: str, trec: bool) -> tuple[Any, ...]:
    from retrieval_quality.logs import measuring

    ks = _numbers("--top-k", top_k, int)
    alphas = _numbers("--alpha", alpha, float)
    if measures is None:
        names = measuring.default_measures(log.peek(200), trec)
        measures = ",".join(names)
    return tuple(measuring.parse_measures(measures, alphas, ks))


@logs.command()
@click.argument("path", metavar="[LOGS]", type=_file, required=False)
@_reading
@click.option("--run", "run_path", type=_file, help="A TREC run, instead of LOGS.")
@_measures
@_top_k
@_alpha
@_relevant
@click.option("--by", default="none", show_default=True, help="day, week, month, group, stage.")
@click.option(
    "--unlabelled",
    type=click.Choice(["negative", "leave-out"]),
    default="negative",
    show_default=True,
    help="What a retrieved document without a label is.",
)
@click.option("--no-per-query", is_flag=True, help="Without per_query.csv.")
@click.option("--out", required=True, type=_file, help="Folder for the tables and the page.")
def measure(
    path: Path | None,
    run_path: Path | None,
    measures: str | None,
    top_k: str,
    alpha: str,
    relevant_from: float,
    by: str,
    unlabelled: str,
    no_per_query: bool,
    out: Path,
    **given: Any,
) -> None:
    """Measure every retrieval of LOGS (or of --run with --qrels), and average.

    Writes measures.csv, per_query.csv, counts.json and report.html into the folder --out.
    """
    from retrieval_quality.logs import measuring, report

    options = _options(given)
    if (path is None) == (run_path is None):
        raise UsageError("give either LOGS or --run RUN with --qrels QRELS")
    if run_path is not None and options.qrels is None:
        raise UsageError("--run needs --qrels")
    log = _open(path or run_path or Path(), options)
    trec = options.qrels is not None or log.format.name == "beir"
    rules = measuring.Rules(
        _wanted(log, measures, top_k, alpha, trec),
        trec=trec,
        relevant_from=relevant_from,
        unlabelled=unlabelled,
        by=measuring.check_by(by),
    )
    found = report.write(log, rules, out, per_query=not no_per_query, say=_say)
    from retrieval_quality.logs.report import ALL

    total = found.summary[found.summary["group"] == ALL]
    click.echo(total.drop(columns="group").to_string(index=False, na_rep=""))
    _say(f"{len(found.summary)} rows: {out / report.SUMMARY_FILE}; page: {out / report.PAGE_FILE}")
