"""The command line ``retrieval-quality``: thin, each command calls one function.

Results go to standard output or files (in UTF-8), progress and messages to standard error.
Exit codes: 0 done, 1 the data or a check failed, 2 wrong usage, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from retrieval_quality import outputs
from retrieval_quality.commandline import (
    FRAME_ENDINGS,
    check_file,
    data_option,
    parameters_option,
    parse,
    printable,
    say,
    write_any_text,
    write_frame,
)
from retrieval_quality.errors import RetrievalQualityError, UsageError
from retrieval_quality.exhibits.counts_command import counts as counts_group
from retrieval_quality.exhibits.value_command import command as value
from retrieval_quality.logs.command import logs
from retrieval_quality.parameters import (
    COEFFICIENTS,
    WHERE,
    Parameters,
    check_place,
    read_pairs,
)

if TYPE_CHECKING:
    import pandas as pd

    from retrieval_quality.data.dataset import Dataset
    from retrieval_quality.exhibits.exhibit import Exhibit

Command = Callable[..., Any]


def _load(parameters: Parameters) -> Dataset:
    from retrieval_quality import sources

    return sources.load(parameters.data, seed=parameters.seed)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="retrieval-quality")
def cli() -> None:
    """Find the measure of a retrieval that predicts the quality of the answer.

    The companion to "How important is Recall for Measuring Retrieval Quality?"
    (arXiv 2512.20854): its figures, tables and book from any data in the published format.
    """


# --- figures, tables, correlations -------------------------------------------------------------


_WHAT = ("data", "min_samples_ratio", "min_samples_width", "embeddings", "datasets")
_UNUSED = {
    "min_samples_ratio": "it has no segments by K/N_p",
    "min_samples_width": "it has no narrow and wide segments",
    "embeddings": "it is about no data",
    "datasets": "it is about no data",
    "coefficient": "it shows no correlation",
    "alpha": "it shows no measure with α",
}


def _export(
    kind: Literal["figure", "table"], which: str, data: str | None, pairs: tuple[str, ...], out: str
) -> None:
    """Write figures or tables: all of them beside their place, and there when the last is done."""
    from retrieval_quality.exhibits import catalogue, export

    chosen = catalogue.select(kind, which)
    parameters = _parse_for(chosen, kind, data, pairs)
    folder = Path(check_place(out, "--out") or ".")
    outputs.check_writable(folder)
    names = tuple(f"{entry.anchor}{suffix}" for entry in chosen for suffix in entry.suffixes)
    outputs.check_ours(folder, names, export.recognised)
    dataset = _load(parameters)
    with (
        outputs.sole_run(folder, kind),
        tempfile.TemporaryDirectory(prefix=".unfinished-", dir=folder) as beside,
    ):
        for entry in chosen:
            export.write(entry, dataset, parameters, beside)
        outputs.mark_ours(folder, names)
        for name in names:
            outputs.write_bytes(folder / name, (Path(beside) / name).read_bytes())
    for name in names:
        click.echo(folder / name)


def _parse_for(
    chosen: tuple[Exhibit, ...], kind: str, data: str | None, pairs: tuple[str, ...]
) -> Parameters:
    """Read parameters for figures or tables; each must be used by one of them at least."""
    uses = dict.fromkeys(name for entry in chosen for name in entry.uses)
    reasons = dict(_UNUSED)
    if fixed := [COEFFICIENTS[e.coefficient] for e in chosen if e.kind == "narrow-wide"]:
        reasons["coefficient"] = f"it shows {', '.join(fixed)} by definition"
    by = chosen[0].label if len(chosen) == 1 else f"{kind} all"
    return parse(data, pairs, by=by, uses=["data", *uses], reasons=reasons)


@cli.command()
@click.argument("which", metavar="N|all")
@data_option
@parameters_option
@click.option("--out", default="figures", show_default=True, help="Folder to write to.")
def figure(which: str, data: str | None, pairs: tuple[str, ...], out: str) -> None:
    """Write figure N, or all: picture (.svg, .png), numbers (.csv), provenance (.json)."""
    _export("figure", which, data, pairs, out)


@cli.command()
@click.argument("which", metavar="N|all")
@data_option
@parameters_option
@click.option("--out", default="figures", show_default=True, help="Folder to write to.")
def table(which: str, data: str | None, pairs: tuple[str, ...], out: str) -> None:
    """Write table N, or all: numbers (.csv) and provenance (.json)."""
    _export("table", which, data, pairs, out)


def _names(option: str, text: str) -> tuple[str, ...]:
    """Read a list, each name once; two equal rows of one cell would be taken for two cells."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise UsageError(f"{option} {text!r}: name at least one")
    return names


@cli.command()
@data_option
@parameters_option
@click.option(
    "--segments",
    type=click.Choice(["ratio", "narrow-wide"]),
    default="ratio",
    show_default=True,
    help="How rows are divided.",
)
@click.option("--min-samples", type=click.IntRange(min=1), help="Fewest rows of a segment.")
@click.option("--measures", default="F,nDCG,T", show_default=True, help="Comma-separated.")
@click.option("--coefficients", help="Comma-separated.  [default: spearman]")
@click.option("--require-2k", is_flag=True, help="Only rows whose top 2K was graded too.")
@click.option(
    "--alpha", help="published, exact, crossfit, or a number from 0 to 1.  [default: published]"
)
@click.option(
    "--by", type=click.Choice(["dataset", "subset"]), default="dataset", help="What a cell spans."
)
@click.option("--interval", type=click.Choice(["bootstrap"]), help="Add 95% intervals, by query.")
@click.option("--replicates", type=click.IntRange(min=1), help="Of an interval.  [default: 1000]")
@click.option("--counts", help="A file of `counts write` or `counts add`, instead of data.")
@click.option("--out", required=True, help="FILE.csv, FILE.parquet, FILE.json, or - for CSV.")
def correlations(
    data: str | None,
    pairs: tuple[str, ...],
    segments: str,
    min_samples: int | None,
    measures: str,
    coefficients: str | None,
    require_2k: bool,
    alpha: str | None,
    by: str,
    interval: str | None,
    replicates: int | None,
    counts: str | None,
    out: str,
) -> None:
    """Correlate measures with the grade in every segment: one row a cell."""
    from retrieval_quality.measures import lookup
    from retrieval_quality.statistics import correlation

    if counts is not None:
        _check_counts(data, pairs, alpha, interval)
        data = counts
    asked = _names("--measures", measures)
    fewest = "min_samples_ratio" if segments == "ratio" else "min_samples_width"
    options = {"coefficient": coefficients, "alpha": alpha, fewest: min_samples}
    resampled = interval is not None or alpha == "crossfit"
    with_alpha = any(measure.has_alpha for measure in lookup(asked))
    parameters = parse(
        data,
        pairs,
        by="correlations",
        uses=_used_by_correlations(options, resampled, with_alpha),
        reasons={
            **dict.fromkeys(options, "an option of the command says it already"),
            "alpha": "an option of the command says it already"
            if alpha is not None
            else f"none of {', '.join(asked)} has an α",
            "min_samples_width" if segments == "ratio" else "min_samples_ratio": (
                f"the segments are by {segments} (--segments)"
            ),
            "seed": "the data is not simulated and no interval or cross-fitting was asked for",
        },
    )
    if alpha is not None and not with_alpha:
        raise UsageError(f"--alpha {alpha}: none of {', '.join(asked)} has an α")
    if replicates is not None and interval is None:
        raise UsageError("--replicates: nothing is resampled; ask for --interval bootstrap")
    chosen = _names("--coefficients", coefficients or parameters.coefficient)
    settings: dict[str, Any] = {
        "segmentation": segments,
        "min_samples": min_samples or getattr(parameters, fewest),
        "measures": asked,
        "require_2k": require_2k,
        "alpha": parameters.alpha if alpha is None else _alpha(alpha),
        "by": by,
    }
    out = check_file(out, FRAME_ENDINGS, parameters.data)
    with outputs.sole_file(out):
        if counts is not None:
            rows, settings["weight"] = _counted(parameters)
        else:
            rows = _load(parameters).scored(parameters.embeddings, parameters.datasets)
        if resampled:
            frame = _with_intervals(rows, chosen, replicates or 1000, parameters.seed, settings)
        else:
            frame = correlation.correlate(rows, coefficients=chosen, **settings)
        _tell_left_out(rows, frame, settings)
        write_frame(frame, out)


def _check_counts(
    data: str | None, pairs: tuple[str, ...], alpha: str | None, interval: str | None
) -> None:
    """Refuse what counts cannot honour."""
    given = read_pairs(pairs)
    if data is not None or "data" in given:
        raise UsageError("--counts: the data is in the counts; leave --data out")
    for option, asked in (("--interval", interval), ("--alpha", alpha or given.get("alpha"))):
        if asked in ("bootstrap", "crossfit"):
            raise UsageError(
                f"{option} {asked}: it resamples queries, which counts do not keep apart; "
                "use --data with the rows"
            )


def _counted(parameters: Parameters) -> tuple[pd.DataFrame, str]:
    """Read counts, the chosen embeddings and datasets of them, and the name of their weight."""
    from retrieval_quality.data.dataset import keep_only
    from retrieval_quality.statistics import counting

    rows = counting.read(parameters.data)
    return keep_only(rows, parameters.embeddings, parameters.datasets), counting.WEIGHT


def _used_by_correlations(options: dict[str, Any], resampled: bool, with_alpha: bool) -> list[str]:
    """Name the parameters that are left to ``-p`` where these options are not given."""
    uses = ["data", "embeddings", "datasets", *(n for n, value in options.items() if value is None)]
    if not with_alpha and "alpha" in uses:
        uses.remove("alpha")
    return [*uses, "seed"] if resampled else uses


def _tell_left_out(rows: pd.DataFrame, frame: pd.DataFrame, options: dict[str, Any]) -> None:
    """Say how many segments were too small; in the result they are just not there."""
    from retrieval_quality.measures import segments

    sizes = segments.segment_sizes(
        rows, options["segmentation"], options["by"], options.get("weight")
    )
    kept = len(frame[["dataset", "embedding", "segment"]].drop_duplicates())
    if kept < len(sizes):
        say(
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
@data_option
@parameters_option
@click.option("--out", required=True, help="FILE.json, or - for standard output.")
def claims(data: str | None, pairs: tuple[str, ...], out: str) -> None:
    """Evaluate the paper's 21 claims on the data."""
    parameters = parse(data, pairs, by="claims", uses=[*_WHAT, "seed"], reasons=_FIXED_BY_CLAIMS)
    out = check_file(out, (".json",), parameters.data)
    from retrieval_quality.exhibits import claims as ledger
    from retrieval_quality.exhibits import export

    with outputs.sole_file(out):
        verdicts = ledger.evaluate(_load(parameters), parameters)
        if out == "-":
            click.echo(json.dumps(verdicts, indent=1, ensure_ascii=False))
        else:
            say(f"{len(verdicts)} claims: {export.write_claims(verdicts, out)}")


_FIXED_BY_CLAIMS = {
    "coefficient": "each claim names its own, which is Spearman's where the paper names none",
    "alpha": "claims are tested at the α of the other datasets",
}


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

    folder = Path(check_place(out, "--out")) if out else None
    if folder:
        simulation.check_free(folder)
    dataset = simulation.simulate(seed, scale=scale)
    say(f"simulated data, seed {seed}, scale {scale:g}: {dataset.folder}")
    if folder:
        with outputs.sole_run(folder, "data simulate"):
            written = simulation.write_json(dataset, folder)
        for path in written:
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
@parameters_option
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
        known = [*Parameters.describe(), WHERE]
        for item in known if name is None else book.notebook_parameters(name):
            click.echo(f"  {item['name']} = {item['default']!r}\n      {item['meaning']}")
        return
    if out is None:
        raise UsageError("notebook: --out FILE.ipynb is needed")
    click.echo(book.run_notebook(name, pairs, Path(out)))


@cli.command("book")
@data_option
@parameters_option
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
    data: str | None, pairs: tuple[str, ...], out: str, jobs: int, check: tuple[str, str] | None
) -> None:
    """Execute every notebook and render the book."""
    from retrieval_quality.book import build as book

    if check:
        if pairs or data:
            raise UsageError("book --check compares two builds; it takes no data or parameters")
        differences = book.check(Path(check[0]), Path(check[1]))
        for line in differences:
            click.echo(printable(line))
        say(f"{len(differences)} differences" if differences else "the two builds agree")
        sys.exit(bool(differences))
    given = read_pairs(pairs)
    if data is not None and given.setdefault("data", data) != data:
        raise UsageError(f"the data is named twice: --data {data} and -p data={given['data']}")
    click.echo(book.build(given, check_place(out, "--out") or ".", jobs=jobs))


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
        click.option(
            "--prompt", help="Another of the package's prompts, or a file of yours (.yml)."
        ),
        click.option(
            "--again",
            type=click.Choice(["failed"]),
            help="Ask once more for what failed or could not be read.",
        ),
        click.option("--prices", help="YAML: {model: {input: …, output: …}}, dollars a million."),
        click.option(
            "--engine",
            type=click.Choice(["chat", "batch"]),
            default="chat",
            show_default=True,
            help="One call a request, or the Batch API: half the price, within a day.",
        ),
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
    type=click.Choice(["all", "per-np"]),
    default="all",
    show_default=True,
    help="The ideal answer from all positives, or from the first N_p.",
)
@click.option("--control", "controls", multiple=True, help="none, random, reversed.")
def answer(
    folder: Path,
    ideal: str,
    controls: tuple[str, ...],
    prompt: str | None,
    again: str | None,
    dry_run: bool,
    **settings: Any,
) -> None:
    """Write answers from the ranked documents, and the ideal answers."""
    from retrieval_quality.pipeline import answer as stage

    outcome = stage.answer(
        folder,
        _settings(settings),
        ideal=ideal,
        controls=controls,
        prompt=prompt,
        again=again,
        dry_run=dry_run,
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
    again: str | None,
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
        again=again,
        dry_run=dry_run,
    )
    _tell(outcome, folder)


@pipeline.command("run")
@click.argument("config", metavar="CONFIG.yml", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--again",
    type=click.Choice(["failed"]),
    help="Ask once more for what failed or could not be read.",
)
def run_pipeline(config: Path, again: str | None) -> None:
    """Run all stages of a configuration, or go on where it stopped."""
    from retrieval_quality.pipeline import run

    click.echo(run.status_text(run.status(run.run(config, again=again))))


@pipeline.command("merge")
@click.argument(
    "folders", nargs=-1, required=True, type=click.Path(path_type=Path, file_okay=False)
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="A new folder.")
def merge_folders(folders: tuple[Path, ...], out: Path) -> None:
    """Merge folders that were made on several machines; nothing is asked, nothing bought again."""
    from retrieval_quality.pipeline import merge, run

    for line in merge.merge(folders, out):
        say(line)
    click.echo(run.status_text(run.status(out)))


@pipeline.command()
@_folder
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def status(folder: Path, as_json: bool) -> None:
    """Say what is done, left, failed, ungraded by reason, and spent."""
    from retrieval_quality.pipeline import run

    told = run.status(folder)
    click.echo(json.dumps(told, indent=1, ensure_ascii=False) if as_json else run.status_text(told))


cli.add_command(counts_group)
cli.add_command(logs)
cli.add_command(value)


def main() -> None:
    """Run the command line; every expected failure is one sentence and an exit code."""
    write_any_text(sys.stdout)
    try:
        # not cli.main, for which a reader that has seen enough (| head) is a failure
        with cli.make_context("retrieval-quality", sys.argv[1:]) as context:
            cli.invoke(context)
        _flush()
    except click.exceptions.Exit as stopped:
        _end(stopped.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except RetrievalQualityError as error:
        say(f"retrieval-quality: {printable(error)}")
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        say("retrieval-quality: stopped")
        sys.exit(130)
    except OSError as error:
        _end(_told(error))


def _told(error: OSError) -> int:
    """Say what the system refused in one sentence; a reader that went away is no failure."""
    if isinstance(error, BrokenPipeError) or error.errno == errno.EPIPE:
        return 0
    where = f" ({error.filename})" if error.filename else ""
    say(f"retrieval-quality: {printable(f'{error.strerror or error}{where}')}")
    return 1


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _end(code: int) -> None:
    """Leave with an exit code; what standard output cannot take any more is let go."""
    try:
        _flush()
    except OSError as error:
        code = code or _told(error)
        with open(os.devnull, "w") as nowhere:  # else Python fails again while it ends
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
    sys.exit(code)
