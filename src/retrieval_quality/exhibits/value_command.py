"""The command ``value``: what it is worth to know N_p, the order, the embedding, the top 2K."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import pandas as pd


def as_json(records: pd.DataFrame) -> str:
    r"""Write records as a JSON array; undefined numbers are null.

    Examples
    --------
    >>> import pandas as pd
    >>> as_json(pd.DataFrame({"gain": [math.nan], "reason": ["one embedding"]}))
    '[\n {"gain": null, "reason": "one embedding"}\n]\n'
    """

    def plain(number: Any) -> Any:
        return None if isinstance(number, float) and not math.isfinite(number) else number

    lines = [
        " " + json.dumps({k: plain(v) for k, v in record.items()}, ensure_ascii=False)
        for record in records.to_dict("records")
    ]
    return "[\n" + ",\n".join(lines) + "\n]\n"


@click.command("value")
@click.option(
    "--data",
    default="simulated",
    show_default=True,
    help="simulated, paper, a folder or file in the published format, or a pipeline configuration.",
)
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0), help="Of the folds.")
@click.option(
    "--out",
    default="-",
    show_default=True,
    help="A .json file, or - for standard output.",
)
def command(data: str, seed: int, out: str) -> None:
    """Say what it is worth to know N_p (n_relevant), the order, the embedding, the top 2K.

    The grade is predicted with and without each, from queries that the models have not seen. One
    record a quantity, dataset and range of K/N_p, each with "all": gain in log_loss (nats a row)
    and in rank_correlation, positive where knowing helps, with its 95% interval by query.
    """
    from retrieval_quality import outputs, sources
    from retrieval_quality.errors import UsageError
    from retrieval_quality.statistics import value

    if out != "-" and Path(out).suffix != ".json":
        raise UsageError(f"--out {out}: the ending must be .json (or - for standard output)")
    dataset = sources.load(data, seed=seed)
    if dataset.simulated:
        click.echo("The data is simulated: the values are those of its model.", err=True)
    records = value.value(dataset.scored(), seed=seed)
    text = as_json(records)
    if out == "-":
        click.echo(text, nl=False)
    else:
        outputs.write_text(Path(out), text)
        click.echo(f"{len(records)} records: {out}", err=True)
