"""The command line ``retrieval-quality``: thin, each command calls one function.

Results go to standard output or files (in UTF-8), progress and messages to standard error.
Exit codes: 0 done, 1 the data or a check failed, 2 wrong usage, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

import click

from retrieval_quality.errors import RetrievalQualityError, UsageError
from retrieval_quality.exhibits.value_command import command as value
from retrieval_quality.logs.command import logs
from retrieval_quality.parameters import Parameters

if TYPE_CHECKING:
    import pandas as pd

    from retrieval_quality.data.dataset import Dataset

Command = Callable[..., Any]

_data = click.option(
    "--data",
    default="simulated",
    show_default=True,
    help="simulated, miniature, paper, a folder or file in the published format, or a pipeline "
    "configuration.",
)
_parameters = click.option(
    "-p",
    "--parameter",
    "pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter of the run; `notebook --help NAME` lists them.",
)


def _parse(data: str | None, pairs: tuple[str, ...], **more: str) -> Parameters:
    given = list(pairs)
    if data is not None and not any(pair.partition("=")[0].strip() == "data" for pair in pairs):
        given.append(f"data={data}")
    given += [f"{name}={value}" for name, value in more.items() if value]
    return Parameters.parse(given)


def _load(parameters: Parameters) -> Dataset:
    from retrieval_quality import sources

    return sources.load(parameters.data, seed=parameters.seed)


def _say(text: str) -> None:
    click.echo(text, err=True)


def write_frame(frame: pd.DataFrame, out: str) -> None:
    """Write a table to a .csv, .parquet or .json file, or as CSV to standard output (``-``).

    Parameters
    ----------
    frame
        The table.
    out
        Path whose ending says the format, or ``-``.

    Raises
    ------
    UsageError
        The ending is none of the three.
    """
    if out == "-":
        frame.to_csv(sys.stdout, index=False, lineterminator="\n")
        return
    path = Path(out)
    writers: dict[str, Callable[[Path], Any]] = {
        ".csv": lambda p: frame.to_csv(p, index=False, lineterminator="\n", encoding="utf-8"),
        ".parquet": lambda p: frame.to_parquet(p, index=False),
        ".json": lambda p: frame.to_json(p, orient="records", indent=1, double_precision=15),
    }
    if path.suffix not in writers:
        raise UsageError(f"--out {out}: the ending must be .csv, .parquet or .json (or - for CSV)")
    _write_whole(path, writers[path.suffix])
    _say(f"{len(frame)} rows: {path}")


def _write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Write a file beside its place, and put it there when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.stem}.unfinished{path.suffix}")
    try:
        write(unfinished)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="retrieval-quality")
def cli() -> None:
    """Find the measure of a retrieval that predicts the quality of the answer.

    The companion to "How important is Recall for Measuring Retrieval Quality?"
    (arXiv 2512.20854): its figures, tables and book from any data in the published format.
    """


# --- figures, tables, correlations -------------------------------------------------------------


def _export(
    kind: Literal["figure", "table"], which: str, data: str, pairs: tuple[str, ...], out: str
) -> None:
    from retrieval_quality.exhibits import catalogue, export

    chosen = catalogue.select(kind, which)
    parameters = _parse(data, pairs)
    dataset = _load(parameters)
    for entry in chosen:
        for path in export.write(entry, dataset, parameters, Path(out)):
            click.echo(path)


@cli.command()
@click.argument("which", metavar="N|all")
@_data
@_parameters
@click.option("--out", default="figures", show_default=True, help="Folder to write to.")
def figure(which: str, data: str, pairs: tuple[str, ...], out: str) -> None:
    """Write figure N, or all: picture (.svg, .png), numbers (.csv), provenance (.json)."""
    _export("figure", which, data, pairs, out)


@cli.command()
@click.argument("which", metavar="N|all")
@_data
@_parameters
@click.option("--out", default="figures", show_default=True, help="Folder to write to.")
def table(which: str, data: str, pairs: tuple[str, ...], out: str) -> None:
    """Write table N, or all: numbers (.csv) and provenance (.json)."""
    _export("table", which, data, pairs, out)


def _names(option: str, text: str) -> tuple[str, ...]:
    """Read a list, each name once; two equal rows of one cell would be taken for two cells."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise UsageError(f"{option} {text!r}: name at least one")
    return names


@cli.command()
@_data
@_parameters
@click.option(
    "--segments",
    type=click.Choice(["ratio", "narrow-wide"]),
    default="ratio",
    show_default=True,
    help="How rows are divided.",
)
@click.option("--min-samples", type=click.IntRange(min=1), help="Fewest rows of a segment.")
@click.option("--measures", default="F,nDCG,T", show_default=True, help="Comma-separated.")
@click.option("--coefficients", default="spearman", show_default=True, help="Comma-separated.")
@click.option("--require-2k", is_flag=True, help="Only rows whose top 2K was graded too.")
@click.option(
    "--alpha",
    default="published",
    show_default=True,
    help="published, exact, crossfit, or a number from 0 to 1.",
)
@click.option(
    "--by", type=click.Choice(["dataset", "subset"]), default="dataset", help="What a cell spans."
)
@click.option("--interval", type=click.Choice(["bootstrap"]), help="Add 95% intervals, by query.")
@click.option("--replicates", type=click.IntRange(min=1), default=1000, show_default=True)
@click.option("--out", required=True, help="FILE.csv, FILE.parquet, FILE.json, or - for CSV.")
def correlations(
    data: str,
    pairs: tuple[str, ...],
    segments: str,
    min_samples: int | None,
    measures: str,
    coefficients: str,
    require_2k: bool,
    alpha: str,
    by: str,
    interval: str | None,
    replicates: int,
    out: str,
) -> None:
    """Correlate measures with the grade in every segment: one row a cell."""
    from retrieval_quality.statistics import correlation

    parameters = _parse(data, pairs)
    asked, chosen = _names("--measures", measures), _names("--coefficients", coefficients)
    fewest = {"ratio": parameters.min_samples_ratio, "narrow-wide": parameters.min_samples_width}
    rows = _load(parameters).scored(parameters.embeddings, parameters.datasets)
    options: dict[str, Any] = {
        "segmentation": segments,
        "min_samples": min_samples or fewest[segments],
        "measures": asked,
        "require_2k": require_2k,
        "alpha": _alpha(alpha),
        "by": by,
    }
    if interval is None and alpha != "crossfit":
        frame = correlation.correlate(rows, coefficients=chosen, **options)
    else:
        frame = _with_intervals(rows, chosen, replicates, parameters.seed, options)
    _tell_left_out(rows, frame, options)
    write_frame(frame, out)


def _tell_left_out(rows: pd.DataFrame, frame: pd.DataFrame, options: dict[str, Any]) -> None:
    """Say how many segments were too small; in the result they are just not there."""
    from retrieval_quality.measures import segments

    sizes = segments.segment_sizes(rows, options["segmentation"], options["by"])
    kept = len(frame[["dataset", "embedding", "segment"]].drop_duplicates())
    if kept < len(sizes):
        _say(
            f"{len(sizes) - kept} of {len(sizes)} segments left out: fewer than "
            f"{options['min_samples']} rows to use; the largest segment has {sizes['n'].max()} "
            "graded rows"
        )


def _alpha(text: str) -> str | float:
    if text in ("published", "exact", "crossfit"):
        return text
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise UsageError(f"--alpha {text}: published, exact, crossfit, or a number from 0 to 1")
    return number


def _with_intervals(
    rows: pd.DataFrame,
    coefficients: tuple[str, ...],
    replicates: int,
    seed: int,
    options: dict[str, Any],
) -> pd.DataFrame:
    import pandas as pd

    from retrieval_quality.statistics import bootstrap

    frames = [
        bootstrap.intervals(
            rows, coefficient=name, replicates=replicates, seed=seed, pairs=(), **options
        )
        for name in coefficients
    ]
    return pd.concat(frames, ignore_index=True)


@cli.command()
@_data
@_parameters
@click.option("--out", required=True, help="FILE.json, or - for standard output.")
def claims(data: str, pairs: tuple[str, ...], out: str) -> None:
    """Evaluate the paper's 20 claims on the data."""
    from retrieval_quality.exhibits import claims as ledger
    from retrieval_quality.exhibits import export

    parameters = _parse(data, pairs)
    verdicts = ledger.evaluate(_load(parameters), parameters)
    if out == "-":
        click.echo(json.dumps(verdicts, indent=1, ensure_ascii=False))
    else:
        _say(f"{len(verdicts)} claims: {export.write_claims(verdicts, out)}")


# --- data --------------------------------------------------------------------------------------


@cli.group()
def data() -> None:
    """Look at, check, make or fetch data."""


@data.command()
@click.argument("source", default="simulated")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def info(source: str, as_json: bool) -> None:
    """Say what the data is: rows, embeddings, subsets, grades, nulls."""
    from retrieval_quality import sources
    from retrieval_quality.data import validate

    facts = validate.describe(sources.load(source))
    click.echo(json.dumps(facts, indent=1, ensure_ascii=False) if as_json else _outline(facts))


def _outline(value: Any, depth: int = 0) -> str:
    """Write nested facts as indented lines; control characters are shown, never sent."""
    named = value.items() if isinstance(value, dict) else [("-", item) for item in value]
    lines: list[str] = []
    for name, item in named:
        start = "  " * depth + (name if name == "-" else f"{printable(name)}:")
        if isinstance(item, dict | list | tuple) and item:
            lines += [start, _outline(item, depth + 1)]
        else:
            lines.append(f"{start} {printable(item)}")
    return "\n".join(lines)


def printable(value: Any) -> str:
    r"""Show any text safely in a terminal: control and direction characters become escapes.

    Examples
    --------
    >>> print(printable("red: " + chr(27) + "[31m"))
    red: \x1b[31m
    """
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in str(value)
    )


@data.command("validate")
@click.argument("source", default="simulated")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def validate_command(source: str, as_json: bool) -> None:
    """Check every relation of the format; exit 1 where one breaks."""
    from retrieval_quality import sources
    from retrieval_quality.data import validate

    report = validate.validate(sources.load(source))
    if as_json:
        click.echo(json.dumps(report.as_dict(), indent=1, ensure_ascii=False))
    else:
        click.echo("\n".join(printable(line) for line in report.lines()))
    if not report.ok:
        sys.exit(1)


@data.command()
@click.option("--out", type=click.Path(file_okay=False), help="Also write the JSON files here.")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@click.option("--scale", type=click.FloatRange(min=0, min_open=True, max=1), default=1.0)
def simulate(out: str | None, seed: int, scale: float) -> None:
    """Make the simulated default."""
    from retrieval_quality.data import simulate as simulation

    dataset = simulation.simulate(seed, scale=scale)
    _say(f"simulated data, seed {seed}, scale {scale:g}: {dataset.folder}")
    if out:
        for path in simulation.write_json(dataset, Path(out)):
            click.echo(path)


@data.command()
@click.option("--revision", default="main", show_default=True, help="Branch, tag or commit.")
def fetch(revision: str) -> None:
    """Fetch the published dataset from the Hugging Face hub."""
    from retrieval_quality.data import hub

    fetched = hub.fetch(revision=revision)
    click.echo(fetched.folder)


# --- notebooks and the book --------------------------------------------------------------------


@cli.command(add_help_option=False)
@click.argument("name", required=False)
@_parameters
@click.option("--out", help="The executed notebook, .ipynb.")
@click.option("-h", "--help", "wants_help", is_flag=True, help="List notebooks or parameters.")
@click.pass_context
def notebook(
    context: click.Context,
    name: str | None,
    pairs: tuple[str, ...],
    out: str | None,
    wants_help: bool,
) -> None:
    """Execute notebook NAME with other parameters; --help NAME lists them."""
    from retrieval_quality.book import build as book

    if name is None or wants_help:
        if name is None:
            click.echo(context.get_help())
            click.echo("\nNotebooks: " + ", ".join(book.notebook_names()))
        for item in Parameters.describe() if name is None else book.notebook_parameters(name):
            click.echo(f"  {item['name']} = {item['default']!r}\n      {item['meaning']}")
        return
    if out is None:
        raise UsageError("notebook: --out FILE.ipynb is needed")
    click.echo(book.run_notebook(name, pairs, Path(out)))


@cli.command("book")
@_data
@_parameters
@click.option("--out", default="_build", show_default=True, help="Folder to build in.")
@click.option("--jobs", type=click.IntRange(min=1), default=2, show_default=True)
@click.option(
    "--check",
    nargs=2,
    type=click.Path(exists=True),
    metavar="A B",
    help="Compare two builds number by number instead; exit 1 where they differ.",
)
def book_command(
    data: str, pairs: tuple[str, ...], out: str, jobs: int, check: tuple[str, str] | None
) -> None:
    """Execute every notebook and render the book."""
    from retrieval_quality.book import build as book

    if check:
        differences = book.check(Path(check[0]), Path(check[1]))
        for line in differences:
            click.echo(printable(line))
        _say(f"{len(differences)} differences" if differences else "the two builds agree")
        sys.exit(bool(differences))
    click.echo(book.build(_parse(data, pairs), Path(out), jobs=jobs))


# --- the pipeline ------------------------------------------------------------------------------


@cli.group()
def pipeline() -> None:
    """From texts to graded samples: corpus, rank, answer, grade."""


_folder = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))


class _WithSources(click.Command):
    """A command whose help lists the sources and what their files look like."""

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write them after the options."""
        from retrieval_quality.pipeline import readers

        with formatter.section("Sources"):
            formatter.write_dl([(name, one.formats) for name, one in readers.SOURCES.items()])
        formatter.write_paragraph()
        with formatter.section("Files"):
            formatter.write_text(readers.FILES)


@pipeline.command(cls=_WithSources)
@click.option("--source", required=True, help="One of the sources below.")
@click.option(
    "--input",
    "inputs",
    required=True,
    multiple=True,
    type=click.Path(path_type=Path),
    help="A file of the source; may be given several times.",
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Pipeline folder.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many queries.")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@click.option("--append", is_flag=True, help="Add to the samples that the folder holds.")
@click.option(
    "--per-category",
    type=click.IntRange(min=1),
    help="At most so many samples of an arXiv category.  [default: 3]",
)
def corpus(
    source: str,
    inputs: tuple[Path, ...],
    out: Path,
    limit: int | None,
    seed: int,
    append: bool,
    per_category: int | None,
) -> None:
    """Make text samples (samples_texts.json) of a source."""
    from retrieval_quality.pipeline import corpus as stage

    manifest = stage.build(
        source, inputs, out, limit=limit, seed=seed, append=append, per_category=per_category
    )
    click.echo(_outline(manifest))


@pipeline.command()
@_folder
@click.option(
    "--embedding",
    "embeddings",
    required=True,
    multiple=True,
    help="AM, EM, ES, QM, a model's name, a folder, or CODE=NAME_OR_FOLDER.",
)
@click.option("--candidates", default="20", show_default=True, help="N_c: 20, or 10,20, or all.")
@click.option("--positives", default="2,3", show_default=True, help="N_p: 2,3, or 2-5, or all.")
@click.option("--top-k", default="1-10", show_default=True, help="K: 1-10, or 1,3,5.")
@click.option("--no-prefixes", is_flag=True, help="Without the models' documented prefixes.")
@click.option("--query-prefix", help="What to put before a question instead.")
@click.option("--passage-prefix", help="What to put before a text instead.")
@click.option("--batch-size", type=click.IntRange(min=1), default=32, show_default=True)
@click.option("--device", help="As PyTorch names it: cpu, cuda.")
def rank(
    folder: Path,
    embeddings: tuple[str, ...],
    candidates: str,
    positives: str,
    top_k: str,
    no_prefixes: bool,
    query_prefix: str | None,
    passage_prefix: str | None,
    batch_size: int,
    device: str | None,
) -> None:
    """Rank the candidates of every sample (samples_ranked.json)."""
    from retrieval_quality.pipeline import rank as stage

    manifest = stage.rank(
        folder,
        embeddings,
        candidates=candidates,
        positives=positives,
        top_k=top_k,
        prefixes=not no_prefixes,
        query_prefix=query_prefix,
        passage_prefix=passage_prefix,
        batch_size=batch_size,
        device=device,
    )
    click.echo(_outline(manifest))


def _model_options(command: Command) -> Command:
    """Add the options of a stage that asks a language model."""
    options = [
        click.option("--model", required=True, help="Its name at the server."),
        click.option("--base-url", help="The server, up to /v1; the key is OPENAI_API_KEY."),
        click.option("--revision", default="", help="Your word for the weights behind the name."),
        click.option(
            "--concurrency",
            type=click.IntRange(min=1),
            default=8,
            show_default=True,
            help="Calls in flight at once.",
        ),
        click.option("--max-tokens", type=click.IntRange(min=1), help="Most tokens of a reply."),
        click.option("--temperature", type=float, default=0.0, show_default=True),
        click.option("--seed", type=int, default=1, show_default=True),
        click.option("--omit", multiple=True, help="A parameter that the model refuses."),
        click.option("--rename", multiple=True, metavar="OLD=NEW", help="A parameter's new name."),
        click.option("--prompt", help="Another of the prompts that come with the package."),
        click.option("--prices", help="YAML: {model: {input: …, output: …}}, dollars a million."),
        click.option("--max-cost", type=float, help="Stop before so many dollars are spent."),
        click.option("--dry-run", is_flag=True, help="Say calls, tokens and cost; ask nothing."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def _settings(given: dict[str, Any]) -> Any:
    from retrieval_quality.pipeline.settings import Settings

    wrong = [pair for pair in given["rename"] if "=" not in pair]
    if wrong:
        raise UsageError(f"--rename {wrong[0]}: write OLD=NEW")
    renamed = dict(pair.split("=", 1) for pair in given["rename"])
    return Settings.from_mapping({**given, "rename": renamed})


def _tell(outcome: Any, folder: Path) -> None:
    """Report what a stage would take, or how far the folder has come."""
    from retrieval_quality.pipeline import client, run

    if isinstance(outcome, client.Estimate):
        click.echo(str(outcome))
    else:
        click.echo(run.status_text(run.status(folder)))


@pipeline.command()
@_folder
@_model_options
@click.option(
    "--ideal",
    type=click.Choice(["per-np", "all"]),
    default="per-np",
    show_default=True,
    help="The ideal answer from the first N_p positives, or from all.",
)
@click.option("--control", "controls", multiple=True, help="none, random, reversed.")
def answer(
    folder: Path,
    ideal: str,
    controls: tuple[str, ...],
    prompt: str | None,
    dry_run: bool,
    **settings: Any,
) -> None:
    """Write answers from the ranked documents, and the ideal answers."""
    from retrieval_quality.pipeline import answer as stage

    options: dict[str, Any] = {"prompt": prompt} if prompt else {}
    outcome = stage.answer(
        folder, _settings(settings), ideal=ideal, controls=controls, dry_run=dry_run, **options
    )
    _tell(outcome, folder)


@pipeline.command()
@_folder
@_model_options
@click.option(
    "--output",
    type=click.Choice(["json_schema", "grammar", "text"]),
    default="json_schema",
    show_default=True,
    help="How the judge is held to a grade.",
)
@click.option("--few-shot", is_flag=True, help="Eight worked examples before the case.")
@click.option(
    "--repeats", type=click.IntRange(min=1), default=1, help="Ask each question so often."
)
def grade(
    folder: Path,
    output: str,
    few_shot: bool,
    repeats: int,
    prompt: str | None,
    dry_run: bool,
    **settings: Any,
) -> None:
    """Grade every answer against its ideal (samples_graded.json)."""
    from retrieval_quality.pipeline import grade as stage

    outcome = stage.grade(
        folder,
        _settings(settings),
        output=output,
        few_shot=few_shot,
        repeats=repeats,
        prompt=prompt,
        dry_run=dry_run,
    )
    _tell(outcome, folder)


@pipeline.command("run")
@click.argument("config", metavar="CONFIG.yml", type=click.Path(path_type=Path, dir_okay=False))
def run_pipeline(config: Path) -> None:
    """Run all stages of a configuration, or go on where it stopped."""
    from retrieval_quality.pipeline import run

    click.echo(run.status_text(run.status(run.run(config))))


@pipeline.command()
@_folder
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def status(folder: Path, as_json: bool) -> None:
    """Say what is done, left, failed, ungraded by reason, and spent."""
    from retrieval_quality.pipeline import run

    told = run.status(folder)
    click.echo(json.dumps(told, indent=1, ensure_ascii=False) if as_json else run.status_text(told))


cli.add_command(logs)
cli.add_command(value)


def _write_any_text(stream: TextIO | None) -> None:
    """Make a stream take any text: files and pipes as UTF-8, a terminal in its own encoding."""
    if isinstance(stream, io.TextIOWrapper):
        encoding = None if stream.isatty() else "utf-8"
        stream.reconfigure(encoding=encoding, errors="backslashreplace")


def main() -> None:
    """Run the command line; every expected failure is one sentence and an exit code."""
    _write_any_text(sys.stdout)
    try:
        cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except RetrievalQualityError as error:
        _say(f"retrieval-quality: {printable(error)}")
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        _say("retrieval-quality: stopped")
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        _say(f"retrieval-quality: {error.strerror or error}{where}")
        sys.exit(1)
