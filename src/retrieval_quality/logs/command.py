"""The command group ``retrieval-quality logs``: thin, each command calls one function."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from retrieval_quality.errors import DataError, UsageError

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
            help="What orders a TREC run; file: scores, ties as they stand.",
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


def _replaceable(out: Path | None, read: tuple[Path | None, ...], begin: bytes = b"") -> None:
    """Refuse to write over what is read, or over a file that does not begin as ours do."""
    if out is None or not out.exists():
        return
    if out.is_dir():
        raise UsageError(f"--out {out} is a folder; name a file")
    if any(one is not None and one.exists() and one.samefile(out) for one in read):
        raise UsageError(f"--out {out} is what is read: name another file")
    with out.open("rb") as file:
        if not file.read(len(begin)).startswith(begin):
            raise UsageError(
                f"--out {out} is there and was not made by this command: name another file, or "
                "move it away"
            )


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
    from retrieval_quality.logs import plain, rows

    if out.suffix != ".parquet":
        raise UsageError(f"--out {out}: the ending must be .parquet")
    options = _options(given)
    read = (path, options.qrels, options.queries, options.results, options.labels)
    _replaceable(out, read, b"PAR1")
    if out.exists() and not plain.is_own_table(out):
        raise UsageError(f"--out {out} is there and is no table of this program: name another")
    log = _open(path, options)
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
    from retrieval_quality.logs import measuring
    from retrieval_quality.logs import report as reporting

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
    found = reporting.write(log, rules, out, per_query=not no_per_query, say=_say)
    total = found.summary[found.summary["group"] == reporting.ALL]
    click.echo(total.drop(columns="group").to_string(index=False, na_rep=""))
    _say(f"{len(found.summary)} rows: {out / reporting.SUMMARY_FILE}")
    _say(f"page: {out / reporting.PAGE_FILE}")
    if not (total["n_used"] > 0).any():
        raise DataError(
            f"{log.path}: no measure has a value for any query; the page says what was left out "
            "and why, and `retrieval-quality logs check` what is missing"
        )


@logs.command()
@click.argument("first", metavar="A", type=_file)
@click.argument("second", metavar="B", type=_file)
@_reading
@click.option("--measures", default="T,nDCG", show_default=True, help="Such as P@5,T,nDCG.")
@_top_k
@_alpha
@_relevant
@click.option("--by", default="none", show_default=True, help="Groups of B, each against all of A.")
@click.option(
    "--pair-by",
    type=click.Choice(["id", "query"]),
    default="id",
    show_default=True,
    help="What makes two queries the same: ids (of traces, the text), or texts.",
)
@click.option("--replicates", type=click.IntRange(min=100), default=10_000, show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@click.option("--weeks", type=click.IntRange(min=1), default=52, show_default=True)
@click.option("--out", type=_file, help="FILE.csv; without it, CSV on standard output.")
def compare(
    first: Path,
    second: Path,
    measures: str,
    top_k: str,
    alpha: str,
    relevant_from: float,
    by: str,
    pair_by: str,
    replicates: int,
    seed: int,
    weeks: int,
    out: Path | None,
    **given: Any,
) -> None:
    """Compare two systems or two weeks, A and B, query by query."""
    from retrieval_quality import outputs
    from retrieval_quality.logs import comparing, measuring

    options = _options(given)
    _replaceable(out, (first, second, options.qrels), b"measure,alpha,k,group,a,b,")
    logs_ = [_open(path, options) for path in (first, second)]
    trec = any(log.format.name in ("trec", "beir") for log in logs_) and options.qrels is not None
    rules = measuring.Rules(
        _wanted(logs_[0], measures, top_k, alpha, trec),
        trec=trec,
        relevant_from=relevant_from,
        by=measuring.check_by(by),
    )
    before, after = (comparing.score(log.rows(), rules, pair_by == "query") for log in logs_)
    table = comparing.compare(before, after, rules, replicates=replicates, seed=seed)
    for log in logs_:
        for notice in log.account.notices.values():
            _say(f"{log.path.name}: {notice}")
    text = table.to_csv(index=False, lineterminator="\n")
    if out is None:
        click.echo(text, nl=False)
    else:
        outputs.write_text(out, text)
    for sentence in comparing.sentences(table, weeks):
        _say(sentence)
    if table["difference"].isna().all():
        raise DataError("no measure has a value in both logs for any query; see the reasons above")


@logs.command()
@_logs
@_reading
@_relevant
@click.option("--top-k", type=click.IntRange(min=1), help="Cut-off. Default: whole lists.")
@click.option("--replicates", type=click.IntRange(min=100), default=1000, show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@click.option(
    "--data",
    default="simulated",
    show_default=True,
    help="Whose table by K/N_p to show beside: simulated, paper, or a path.",
)
@click.option("--out", type=_file, help="FILE.csv of the correlations.")
def choose(
    path: Path,
    relevant_from: float,
    top_k: int | None,
    replicates: int,
    seed: int,
    data: str,
    out: Path | None,
    **given: Any,
) -> None:
    """Find which measure, at which alpha, follows the grades of LOGS."""
    from retrieval_quality import outputs
    from retrieval_quality.logs import choosing

    options = _options(given)
    read = (path, options.qrels, options.queries, options.results, options.labels)
    _replaceable(out, read, ",".join(choosing.COLUMNS[:2]).encode())
    log = _open(path, options)
    table = choosing.scored(log.rows(), relevant_from, top_k)
    for notice in log.account.notices.values():
        _say(str(notice))
    for why, count in table.attrs["left_out"].items():
        _say(f"left out, {why}: {count} rows")
    found = choosing.choose(table, replicates=replicates, seed=seed)
    if out is not None:
        outputs.write_text(out, found.table.to_csv(index=False, lineterminator="\n"))
    if len(found.table):
        click.echo(found.table.to_string(index=False, na_rep=""))
    for sentence in found.sentences:
        click.echo(sentence)
    advice, said = choosing.companion(data)
    click.echo(said)
    click.echo(advice.to_string(index=False, na_rep=""))
    if table["Np"].notna().any():
        click.echo("Your graded rows by K/N_p:")
        click.echo(choosing.advice_rows(table).to_string(index=False))


@logs.command()
@_logs
@_reading
@click.option("--model", required=True, help="Its name at the server.")
@click.option("--base-url", help="The server, up to /v1; the key is OPENAI_API_KEY.")
@click.option("--revision", default="", help="Your word for the weights behind the name.")
@click.option("--sample", type=click.IntRange(min=1), default=200, show_default=True, help="Rows.")
@click.option("--top-k", type=click.IntRange(min=1), help="K. Default: the length of each list.")
@click.option("--depth", default="2k", show_default=True, help="k, 2k or a number of documents.")
@click.option(
    "--relevant-from",
    type=click.IntRange(1, 3),
    default=2,
    show_default=True,
    help="Judgements (0-3) from here on become the label 1.",
)
@click.option("--hand", type=_file, help="A person's labels: CSV with row, document, label.")
@click.option(
    "--output",
    type=click.Choice(["json_schema", "grammar", "text"]),
    default="json_schema",
    show_default=True,
    help="How the judge is held to a number.",
)
@click.option("--longest", type=click.IntRange(min=100), default=20_000, show_default=True)
@click.option("--concurrency", type=click.IntRange(min=1), default=8, show_default=True)
@click.option("--temperature", type=float, default=0.0, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--max-tokens", type=click.IntRange(min=1), help="Most tokens of a reply.")
@click.option("--omit", multiple=True, help="A parameter that the model refuses.")
@click.option("--rename", multiple=True, metavar="OLD=NEW", help="A parameter's new name.")
@click.option("--prices", help="YAML: {model: {input: …, output: …}}, dollars a million.")
@click.option("--max-cost", type=float, help="Stop before so many dollars are spent.")
@click.option("--dry-run", is_flag=True, help="Say calls, tokens and cost; ask nothing.")
@click.option("--out", type=_file, default="labels", show_default=True, help="Folder to write to.")
def label(
    path: Path,
    sample: int,
    top_k: int | None,
    depth: str,
    relevant_from: int,
    hand: Path | None,
    output: str,
    longest: int,
    dry_run: bool,
    out: Path,
    **given: Any,
) -> None:
    """Have a language model label what was retrieved in a sample of LOGS, one document a call."""
    from retrieval_quality.logs import labelling
    from retrieval_quality.pipeline.client import Estimate
    from retrieval_quality.pipeline.settings import Settings

    options = _options(given)
    wrong = [pair for pair in given["rename"] if "=" not in pair]
    if wrong:
        raise UsageError(f"--rename {wrong[0]}: write OLD=NEW")
    given["rename"] = dict(pair.split("=", 1) for pair in given["rename"])
    settings = Settings.from_mapping(given)
    plan = labelling.Plan(
        sample, top_k, depth.lower(), relevant_from, given["seed"], output, longest
    )
    log = _open(path, options)
    found = labelling.label(log, out, settings, plan, hand=hand, dry_run=dry_run)
    for notice in log.account.notices.values():
        _say(str(notice))
    if isinstance(found, Estimate):
        click.echo(str(found))
        return
    for why, count in found.failed.items():
        _say(f"no label, {why}: {count}")
    click.echo(f"{found.labels} labels for {found.rows} rows: {out / labelling.LABELLED}")
    if hand is not None:
        click.echo((out / labelling.AGREEMENT).read_text(encoding="utf-8"), nl=False)
    else:
        _say(f"Fill in the labels of {out / labelling.TO_LABEL} and give it back with --hand.")


@logs.command()
@_logs
@_reading
@_measures
@_top_k
@_alpha
@click.option("--by", default="none", show_default=True, help="day, week, month, group, stage.")
@click.option("--out", required=True, type=_file, help="PAGE.html, one page that opens from disk.")
def report(
    path: Path, measures: str | None, top_k: str, alpha: str, by: str, out: Path, **given: Any
) -> None:
    """Write what LOGS says as one page, with everything in it."""
    from retrieval_quality import outputs
    from retrieval_quality.logs import measuring
    from retrieval_quality.logs import report as reporting

    if out.suffix not in (".html", ".htm"):
        raise UsageError(f"--out {out}: the ending must be .html")
    log = _open(path, _options(given))
    trec = log.options.qrels is not None or log.format.name == "beir"
    wanted = _wanted(log, measures, top_k, alpha, trec)
    rules = measuring.Rules(wanted, trec=trec, by=measuring.check_by(by))
    found = reporting.measured(log, rules)
    outputs.write_text(out, reporting.page(log, found, rules))
    for sentence in reporting.sentences(log.account, found):
        _say(sentence)
    _say(f"page: {out}")
