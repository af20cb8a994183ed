"""What a measurement leaves behind: two tables, the counts, and one page that opens from disk."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from retrieval_quality import markup, outputs
from retrieval_quality.logs.account import Account
from retrieval_quality.logs.formats import Log
from retrieval_quality.logs.measuring import ALL, Measured, Rules, measure
from retrieval_quality.text import escape

SUMMARY_FILE, PER_QUERY_FILE = "measures.csv", "per_query.csv"
COUNTS_FILE, PAGE_FILE = "counts.json", "report.html"
FILES = (SUMMARY_FILE, PER_QUERY_FILE, COUNTS_FILE, PAGE_FILE)
_WIDE, _HIGH, _LEFT, _FOOT = 720, 180, 56, 34

_STYLE = """
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;font-size:.9rem}
th,td{padding:.2rem .7rem;border-bottom:1px solid #8884;text-align:left}
td.rq-value{text-align:right;font-variant-numeric:tabular-nums}
.rq-scroll{overflow-x:auto;max-height:28rem}
svg{max-width:100%;height:auto}
svg text{fill:currentColor;font:11px system-ui,sans-serif}
.made{color:#666}
"""


def write(
    log: Log,
    rules: Rules,
    folder: Path,
    *,
    per_query: bool = True,
    say: Callable[[str], None] | None = None,
) -> Measured:
    """Measure a log into a folder: ``measures.csv``, ``per_query.csv``, counts and a page.

    Parameters
    ----------
    log : Log
    rules : Rules
    folder : path
        Made if need be; files of an earlier run of this program are replaced when all is done,
        anything else is refused.
    per_query : bool
        Whether to write a line for every query and measure.
    say : callable, optional
        Gets one sentence for each notice.

    Returns
    -------
    Measured

    Raises
    ------
    DataError
        The log is broken; the folder stays as it was.
    UsageError
        The folder holds such files that another program made, or another run writes to it.
    """
    outputs.check_ours(folder, FILES)
    with (
        outputs.sole_run(folder, "logs measure"),
        TemporaryDirectory(dir=folder, prefix=".measure-") as part,
    ):
        lines = Path(part) / PER_QUERY_FILE if per_query else None
        found = measure(log.rows(), rules, lines)
        outputs.write_text(
            Path(part) / SUMMARY_FILE, found.summary.to_csv(index=False, lineterminator="\n")
        )
        told = {
            "source": log.path.name,
            "format": log.format.name,
            "rows": found.tally.rows,
            "counts": found.tally.sentences(),
            "undefined": found.undefined,
            "notices": log.account.as_list(),
        }
        text = json.dumps(told, indent=1, ensure_ascii=False) + "\n"
        outputs.write_text(Path(part) / COUNTS_FILE, text)
        outputs.write_text(Path(part) / PAGE_FILE, page(log, found, rules))
        for name in FILES:
            if (Path(part) / name).exists():
                outputs.swap(Path(part) / name, folder / name)
            else:
                (folder / name).unlink(missing_ok=True)
        outputs.mark_ours(folder, FILES)
    for sentence in sentences(log.account, found) if say else ():
        say(sentence)  # type: ignore[misc]
    return found


def measured(log: Log, rules: Rules) -> Measured:
    """Measure a log and write nothing."""
    return measure(log.rows(), rules)


def sentences(account: Account, found: Measured) -> list[str]:
    """Say all that was counted, one sentence each."""
    undefined = [f"undefined, {why}: {n} values" for why, n in found.undefined.items()]
    return [*found.tally.sentences(), *map(str, account.notices.values()), *undefined]


def page(log: Log, found: Measured, rules: Rules) -> str:
    """Write the page: everything is in it, nothing is loaded from elsewhere."""
    title = f"Retrieval quality: {log.path.name}"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>"
        f"<main><h1>{escape(title)}</h1>{body(log, found, rules)}</main></body></html>\n"
    )


def body(log: Log, found: Measured, rules: Rules) -> str:
    """Write what the page says, as a piece of HTML that also stands in a notebook."""
    notes = "".join(f"<li>{markup.prose(one)}</li>" for one in sentences(log.account, found))
    total = found.summary[found.summary["group"] == ALL]
    parts = [
        f'<p class="made">Read as {escape(log.format.label)}. ',
        f"{markup.prose(_reading(rules))}</p>",
        "<h2>Means</h2>",
        markup.table(total.drop(columns="group").astype({"k": "Float64"}), "Means of all rows"),
        "<p>Intervals are 95%, by query; n_used of n_total rows have a value.</p>",
        "<h2>What was counted</h2>",
        f"<ul>{notes}</ul>",
    ]
    if rules.by != "none":
        parts.append(f"<h2>By {escape(rules.by)}</h2>")
        rest = found.summary[found.summary["group"] != ALL]
        for wanted in rules.wanted:
            same = rest[_is(rest, wanted.name, wanted.alpha, wanted.k)]
            parts.append(f"<h3>{markup.prose(str(wanted))}</h3>{chart(same, str(wanted))}")
        parts.append(
            markup.details("Numbers", markup.table(rest.astype({"k": "Float64"}), "By group"))
        )
    return "".join(parts)


def _reading(rules: Rules) -> str:
    labels = f"Relevant is a label of at least {rules.relevant_from:g}; "
    if rules.trec:
        return labels + "cut-offs, P and nDCG are trec_eval's; nDCG_paper is the paper's."
    return labels + "K is what was retrieved, at most the cut-off; nDCG is the paper's."


def _is(frame: pd.DataFrame, name: str, alpha: float | None, k: int | None) -> pd.Series:
    same = frame["measure"] == name
    same &= frame["alpha"].isna() if alpha is None else frame["alpha"] == alpha
    return same & (frame["k"].isna() if k is None else frame["k"].fillna(-1) == k)


def chart(frame: pd.DataFrame, name: str) -> str:
    """Draw means with their intervals, one place a group, as SVG.

    Parameters
    ----------
    frame : DataFrame
        ``group``, ``mean``, ``low``, ``high``, ``n_used``; the order is kept.
    name : str
        What it shows, for those who do not see it.
    """
    shown = frame[frame["mean"].notna()]
    if shown.empty:
        return "<p>No value.</p>"
    values = pd.concat([shown["mean"], shown["low"], shown["high"]]).dropna()
    low, high = float(values.min()), float(values.max())
    room = (high - low) * 0.08 or 0.5
    low, high = low - room, high + room

    def across(i: int) -> float:
        return _LEFT + (_WIDE - _LEFT - 10) * (i + 0.5) / len(shown)

    def up(value: float) -> float:
        return 8 + (_HIGH - _FOOT - 8) * (high - value) / (high - low)

    marks = [_axis(low, high, up)]
    points = []
    for i, one in enumerate(shown.itertuples(index=False)):
        x, y = across(i), up(one.mean)
        points.append(f"{x:.1f},{y:.1f}")
        said = f"{one.group}: {one.mean:.4g}, {one.n_used} used"
        if not math.isnan(one.low):
            said += f", 95% {one.low:.4g} to {one.high:.4g}"
            marks.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{up(one.low):.1f}" y2="{up(one.high):.1f}" '
                'stroke="#8a6fc9" stroke-width="2"/>'
            )
        title = f"<title>{escape(said)}</title>"
        marks.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="#4b2e83">{title}</circle>')
    marks.insert(1, f'<polyline points="{" ".join(points)}" fill="none" stroke="#8a6fc966"/>')
    marks += _labels([str(one) for one in shown["group"]], across)
    return (
        f'<svg viewBox="0 0 {_WIDE} {_HIGH}" width="{_WIDE}" role="img" '
        f'aria-label="{escape(name)} by group">{"".join(marks)}</svg>'
    )


def _axis(low: float, high: float, up: Callable[[float], float]) -> str:
    ticks = [low + (high - low) * part for part in (0.08, 0.5, 0.92)]
    return "".join(
        f'<line x1="{_LEFT}" x2="{_WIDE}" y1="{up(t):.1f}" y2="{up(t):.1f}" stroke="#8883"/>'
        f'<text x="{_LEFT - 6}" y="{up(t) + 4:.1f}" text-anchor="end">{t:.3g}</text>'
        for t in ticks
    )


def _labels(names: Sequence[str], across: Callable[[int], float]) -> list[str]:
    step = max(1, math.ceil(len(names) / 8))
    return [
        f'<text x="{across(i):.1f}" y="{_HIGH - 12}" text-anchor="middle">'
        f"{escape(names[i][:16])}</text>"
        for i in range(0, len(names), step)
    ]
