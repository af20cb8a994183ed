r"""Sphinx extension: the look of the book, and its mathematics as MathML.

The book must read the same from a folder without a network. Mathematics is therefore turned into
MathML while the book is built (``latex2mathml``), so that a page needs no script for it, and the
style sheet and the script of the heat maps come from ``static/`` beside this file.

Active through ``extra_extensions: [retrieval_quality.book.mathml]`` in ``_config.yml``.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrieval_quality.errors import needing

with needing("book"):
    from latex2mathml.converter import convert

if TYPE_CHECKING:
    from docutils.nodes import Element
    from sphinx.application import Sphinx
    from sphinx.config import Config

STATIC = Path(__file__).parent / "static"
STYLE = "retrieval-quality.css"
SCRIPT = "retrieval-quality.js"
PUBLISHED = "gh-pages"
"""Branch that the built book is published on."""

_UNKNOWN = re.compile(r"<m[io]>(\\[A-Za-z]+)</m[io]>")


@cache
def to_mathml(latex: str, *, block: bool = False) -> str:
    r"""MathML of a formula.

    Parameters
    ----------
    latex : str
        What would stand between dollar signs.
    block : bool
        Whether the formula stands on a line of its own.

    Returns
    -------
    str
        One ``<math>`` element.

    Raises
    ------
    ValueError
        The formula is broken, or has a command that the converter does not know and would print
        as it is.

    Examples
    --------
    >>> to_mathml(r"n_p").count("<mi>")
    2
    >>> to_mathml(r"\nosuchcommand")
    Traceback (most recent call last):
        ...
    ValueError: \nosuchcommand is not known, in: \nosuchcommand
    """
    try:
        text = convert(latex.strip(), display="block" if block else "inline")
    except Exception as error:
        raise ValueError(f"{type(error).__name__} in: {latex}") from error
    unknown = _UNKNOWN.search(text)
    if unknown:
        raise ValueError(f"{unknown.group(1)} is not known, in: {latex}")
    return text


_NAMES = {
    "alpha": "α", "beta": "β", "rho": "ρ", "tau": "τ", "delta": "δ", "theta": "θ",
    "varepsilon": "ε", "ge": "≥", "le": "≤", "min": "min",
}  # fmt: skip
_TOKEN = re.compile(
    r"\\(?P<name>[A-Za-z]+)|(?P<letter>[A-Za-z])|(?P<number>\d+)|(?P<sign>[-+=<>/(),])"
    r"|(?P<script>[_^])(?:\{(?P<long>[-\w,]+)\}|(?P<short>\w))|(?P<blank>\s+|\\,)"
)
_RELATIONS = {"=", "<", ">", "≥", "≤", "+", "−"}


def to_inline(latex: str) -> str | None:
    r"""HTML of a formula in a line of text, where it is no more than letters, indices and signs.

    Without a font for mathematics browsers set MathML with gaps, before a full stop above all;
    letters in italics and their indices need none.

    Parameters
    ----------
    latex : str
        What would stand between dollar signs.

    Returns
    -------
    str or None
        None where it takes more than one line of letters, such as a fraction.

    Examples
    --------
    >>> to_inline(r"K \ge N_p")
    '<i>K</i>\u202f≥\u202f<i>N</i><sub>p</sub>'
    >>> to_inline(r"\frac{1}{2}") is None
    True
    """
    parts: list[str] = []
    at = 0
    while at < len(latex):
        token = _TOKEN.match(latex, at)
        if not token:
            return None
        at = token.end()
        found = token.groupdict()
        if found["script"]:
            tag = "sub" if found["script"] == "_" else "sup"
            inner = (found["long"] or found["short"]).replace("-", "−")
            parts.append(f"<{tag}>{inner}</{tag}>")
        elif found["name"]:
            if found["name"] not in _NAMES:
                return None
            sign = _NAMES[found["name"]]
            parts.append(f"\u202f{sign}\u202f" if sign in _RELATIONS else _letter(sign))
        elif found["letter"]:
            parts.append(f"<i>{found['letter']}</i>")
        elif found["sign"]:
            sign = found["sign"].replace("-", "−")
            sign = {"<": "&lt;", ">": "&gt;"}.get(sign, sign)
            between = parts and sign in _RELATIONS | {"&lt;", "&gt;"} and parts[-1][-1] not in "(,"
            parts.append(f"\u202f{sign}\u202f" if between else f"{sign} " if sign == "," else sign)
        elif found["number"]:
            parts.append(found["number"])
        elif found["blank"] and parts and parts[-1][-1] in ">)" and latex[at : at + 1].isalpha():
            parts.append("\u2009")
    return "".join(parts)


def _letter(sign: str) -> str:
    return sign if len(sign) > 1 else f"<i>{sign}</i>"


def _visit(writer: Any, node: Element, *, block: bool) -> None:
    """Write one formula; a broken one is a warning, and so stops a strict build."""
    from docutils.nodes import SkipNode
    from sphinx.util import logging

    latex = node.astext()
    if not block and (plain := to_inline(latex)):
        # a symbol and its full stop stay on one line
        starts = writer.starttag(node, "span", "", CLASS="math rq-math")
        writer.body.append(f"{starts}{plain}</span>")
        raise SkipNode
    try:
        formula = to_mathml(latex, block=block)
    except ValueError as error:
        logging.getLogger(__name__).warning("mathematics: %s", error, location=node)
        formula = f"<code>{writer.encode(latex)}</code>"
    if not block:
        writer.body.append(writer.starttag(node, "span", "", CLASS="math") + formula + "</span>")
        raise SkipNode
    # A formula wider than the page scrolls, so it must be reachable by keyboard.
    attributes = {"CLASS": "math", "tabindex": "0", "role": "group", "aria-label": "formula"}
    writer.body.append(writer.starttag(node, "div", **attributes))
    if node.get("number"):
        writer.body.append(f'<span class="eqno">({node["number"]})</span>')
    writer.body.append(f"{formula}</div>\n")
    raise SkipNode


def visit_inline(writer: Any, node: Element) -> None:
    """Write an inline formula."""
    _visit(writer, node, block=False)


def visit_block(writer: Any, node: Element) -> None:
    """Write a formula on a line of its own."""
    _visit(writer, node, block=True)


def _add_look(app: Sphinx, config: Config) -> None:
    config.html_static_path = [*config.html_static_path, str(STATIC)]
    config.html_math_renderer = "mathml"
    if not config.html_theme_options.get("repository_url"):  # there is nowhere to launch
        config.html_theme_options.pop("launch_buttons", None)


def _index_figures(app: Sphinx, doctree: Any) -> None:
    """Enter each section of a figure or table in the index, where a search finds it first."""
    from docutils.nodes import section, title
    from sphinx.addnodes import index

    for part in doctree.findall(section):
        heading = next((node.astext() for node in part.children if isinstance(node, title)), "")
        numbered = re.match(r"(Figure|Table) \d+", heading)
        if numbered and part.get("ids"):
            entry = ("single", numbered.group(), part["ids"][0], "main", None)
            part.insert(0, index(entries=[entry]))


_MENDED = {
    # the name of a fold is what it shows
    '<summary aria-label="Toggle hidden content">': "<summary>",
    # the targets of links stand between the items, which a list may not hold
    '<div role="list" class="citation-list">': '<div class="citation-list">',
    ' role="doc-biblioentry"': "",  # deprecated
}


def _mend_roles(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Take back roles and labels that extensions give and that do not fit what they stand on."""
    for given, right in _MENDED.items():
        context["body"] = context.get("body", "").replace(given, right)


def _aim_launchers(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Point the buttons for launching, source and edit at files that are in git.

    The theme takes for granted that the executed notebook is. Here the text notebook is, which
    Binder opens; Colab, which cannot, gets the copy that is published with the book.
    """
    branch = app.config.html_theme_options.get("repository_branch", "main")
    for group in context.get("header_buttons", []):
        if group.get("label") == "source-buttons":
            for button in group["buttons"]:
                page, plain, query = button["url"].partition("?plain")
                button["url"] = re.sub(r"\.ipynb$", ".md", page) + plain + query
        if group.get("label") != "launch-buttons":
            continue
        for button in group["buttons"]:
            stem = button["url"].removesuffix(".ipynb").removesuffix(".md")
            if button["text"] == "Colab":
                name = pagename.rpartition("/")[2]
                stem = stem.partition(f"/blob/{branch}/")[0]
                button["url"] = f"{stem}/blob/{PUBLISHED}/colab/{name}.ipynb"
            else:
                button["url"] = f"{stem}.md"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    app.connect("config-inited", _add_look)
    app.connect("doctree-read", _index_figures)
    app.connect("html-page-context", _mend_roles)
    app.connect("html-page-context", _aim_launchers, priority=900)  # after the theme
    app.add_css_file(STYLE)
    app.add_js_file(SCRIPT, loading_method="defer")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
