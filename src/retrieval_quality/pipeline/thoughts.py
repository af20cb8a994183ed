"""A model's thinking before its answer, cut off in whatever brackets it comes."""

from __future__ import annotations

import re

_NAMES = (
    r"(?:seed:)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflection|scratchpad|"
    r"(?:inner_|internal_)?monologue|analysis)"
)
_PAIRS = (  # what stands before and after the name, opening and closing
    (r"<<?\s*", r"(?:\s[^<>\n]*)?>>?", r"<<?\s*[/\\]\s*", r"\s*>>?"),
    (r"\[", r"\]", r"\[/", r"\]"),
    (r"\{", r"\}", r"\{/", r"\}"),
    (r"[◁◀]", r"[▷▶]", r"[◁◀]/", r"[▷▶]"),
    (r"＜", r"＞", r"＜[/／]", r"＞"),
    (r"【", r"】", r"【/", r"】"),
    (r"[‹«]", r"[›»]", r"[‹«]/", r"[›»]"),
    (r"<[|｜]\s*(?:begin|start)_of_", r"\s*[|｜]>", r"<[|｜]\s*end_of_", r"\s*[|｜]>"),
    (r"<[|｜]\s*(?:begin|start)_", r"\s*[|｜]>", r"<[|｜]\s*end_", r"\s*[|｜]>"),
    (r"<[|｜]\s*", r"_(?:begin|start)\s*[|｜]>", r"<[|｜]\s*", r"_end\s*[|｜]>"),
    (r"<[|｜]\s*", r"\s*[|｜]>", r"<[|｜]\s*/\s*", r"\s*[|｜]>"),
)
_OPEN = "|".join(f"{a}{_NAMES}{b}" for a, b, _, _ in _PAIRS)
_CLOSE = "|".join(f"{c}{_NAMES}{d}" for _, _, c, d in _PAIRS)
_TAG = re.compile(f"(?P<close>{_CLOSE})|(?P<open>{_OPEN})", re.IGNORECASE)

_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)[^<]*(?:<\|message\|>|$)")
_CHANNEL_END = re.compile(r"<\|(?:end|return|start)\|>")
_ANSWER = re.compile(
    r"(?:<(?P<name>answer|solution|response|final|output)>|<\|begin_of_(?P<other>solution|answer)\|>)"
    r"(?P<text>.*?)(?:</(?P=name)>|<\|end_of_(?P=other)\|>)",
    re.DOTALL | re.IGNORECASE,
)
_SPOKEN_OF = re.compile(
    r"[ \t]+(?:is|are|was|were|tags?|tokens?|elements?|blocks?|sections?|markers?|marks?|means?|"
    r"denotes?|stands?|refers?|opens?|begins?|closes?|ends?|starts?|surrounds?|encloses?|has|can|"
    r"may|must|should|and|or|to|before|after|around|in|for)\b"
)
_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "‘": "’", "«": "»", "(": ")"}


def without_thoughts(text: str) -> str | None:
    """Cut a model's thinking off a reply; None where the thinking never ends.

    Thinking stands between an opening and a closing tag, at the start of the reply or of a line
    of its own; or before a closing tag whose opening one stood in the prompt. The usual brackets
    are known: ``<think>``, ``<reasoning>``, ``[THINK]``, ``<|begin_of_thought|>``, ``◁think▷`` and
    their like, and the channels of ``<|channel|>analysis``. A tag that the answer only speaks of,
    in quotes or within a sentence, is kept.

    Parameters
    ----------
    text : str
        The reply.

    Returns
    -------
    str or None

    Examples
    --------
    >>> without_thoughts("<think>Rome?</think> Paris."), without_thoughts("Rome? No.</think>Paris.")
    ('Paris.', 'Paris.')
    >>> without_thoughts("<think> is a tag.")
    '<think> is a tag.'
    >>> without_thoughts("<think>Rome or") is None
    True
    """
    if "<|channel|>" in text:
        return _from_channels(text)
    while tags := _edges(text):
        first = tags[0]
        if first["open"] is not None:
            end = next((tag for tag in tags[1:] if tag["close"] is not None), None)
            if (
                end is None
                and first.group()[0] in "[{«‹【"
                and "think" not in first.group().lower()
            ):
                break  # a heading such as [Analysis]
            if end is None:
                return None
            text = text[: first.start()] + text[end.end() :]
        else:  # the opening tag stood in the prompt
            text = text[first.end() :]
    text = text.strip()
    whole = _ANSWER.fullmatch(text)
    return whole["text"].strip() if whole else text


def _edges(text: str) -> list[re.Match[str]]:
    """Return the tags that begin or end a thought, without those that the text speaks of."""
    edges: list[re.Match[str]] = []
    spoken: re.Match[str] | None = None
    for tag in _TAG.finditer(text):
        pair = spoken is not None and "\n" not in text[spoken.end() : tag.start()]
        in_passing = pair and re.match(r"[,;:.!?)]|[ \t]+[a-z]|\s*$", text[tag.end() :])
        if _is_spoken_of(text, tag) or (tag["close"] is not None and in_passing):
            spoken = tag if tag["open"] is not None else None
        else:
            edges.append(tag)
    return edges


def _is_spoken_of(text: str, tag: re.Match[str]) -> bool:
    """Whether a tag is a word of the answer, not the edge of a thought."""
    before, after = text[: tag.start()], text[tag.end() :]
    if before and _QUOTES.get(before[-1]) == after[:1]:
        return True
    if before.count("```") % 2 and "```" in after:
        return tag["open"] is not None or not _TAG.match(before.lstrip())
    line_before = before.rpartition("\n")[2]
    if tag["open"] is not None:
        spoken = _SPOKEN_OF.match(after)
        if spoken is None:
            return bool(line_before.strip()) and line_before[-1:] in " \t"
        closed = next((one for one in _TAG.finditer(after) if one["close"] is not None), None)
        return closed is None or _is_spoken_of(after, closed)
    if _SPOKEN_OF.match(after):
        return True
    if not line_before.strip() or line_before[-1] not in " \t":
        return False  # it stands at the start of a line, or directly behind what was thought
    return bool(re.match(r"[,;:.!?)]|[ \t]+[a-z]|\s*$", after))


def _from_channels(text: str) -> str | None:
    """Take the last message of the final channel."""
    found = [one for one in _CHANNEL.finditer(text) if one.group(1).lower() == "final"]
    if not found:
        return None
    return _CHANNEL_END.split(text[found[-1].end() :])[0].strip()
