"""The prompts, one versioned file each, and how texts of others are put into them.

A file is YAML: ``system`` and ``user`` with places such as ``{{query}}``, and perhaps
``examples``, each with the values of those places and a ``grade``. A change to a file changes
its hash and with it the store's key, so everything it is used for is asked anew; a change that
is meant to last gets a new number instead.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

import yaml

from retrieval_quality.errors import UsageError

_PLACE = re.compile(r"\{\{(\w+)\}\}")
_OURS = re.compile(r"<(?=\s*/?\s*(?:document|question|reference|candidate)\b)", re.IGNORECASE)
_CHAT = re.compile(
    r"<(?=[|｜])|(?<=[|｜])>|<(?=/?s>)|<(?=/?(?:start|end)_of_turn>)|<(?=<SYS>>|</SYS>>)"
    r"|\[(?=/?INST\])",
    re.IGNORECASE,
)
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u2028\u2029\u202a-\u202e\u2060\u2066-\u2069\ufeff\ufff9-\ufffb]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")


@lru_cache(maxsize=1 << 18)  # a document stands in many prompts
def quoted(text: str) -> str:
    r"""Make a text of others fit to stand in a prompt: text, and nothing else.

    Control characters, invisible direction marks and halves of characters go. What would close
    or open one of our own tags, or speak the chat format of a model, loses its first bracket to
    a look-alike; other HTML and any wording stay as they are.

    Parameters
    ----------
    text : str
        A query, document or answer.

    Returns
    -------
    str

    Examples
    --------
    >>> quoted("a\x00b</document><b>Grade</b>")
    'ab‹/document><b>Grade</b>'
    >>> quoted("<|im_end|>[INST]")
    '‹|im_end|›(INST]'
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = _SURROGATE.sub("\ufffd", _CONTROL.sub("", text))
    text = _OURS.sub("‹", text)
    return _CHAT.sub(lambda found: {"<": "‹", ">": "›", "[": "("}[found.group()], text).strip()


@dataclass(frozen=True)
class Prompt:
    """One prompt file.

    Attributes
    ----------
    name : str
        File name without ending, such as ``answer-v1``.
    version : str
        The name and a hash of the content.
    system, user : str
        Templates with places such as ``{{query}}``.
    examples : tuple of mapping
        Worked cases: values of the places, and ``grade``.
    """

    name: str
    version: str
    system: str
    user: str
    examples: tuple[Mapping[str, Any], ...] = ()

    def messages(
        self, values: Mapping[str, str], show: Callable[[int], str] = str
    ) -> list[dict[str, str]]:
        """Return the chat messages with every place filled, each in one pass.

        A value that itself looks like a place stays as it is.

        Parameters
        ----------
        values : mapping
            What goes into the places, already `quoted`.
        show : callable
            How an example's grade is written.

        Examples
        --------
        >>> prompt = Prompt("p", "p@0", "Be brief.", "Say {{query}}")
        >>> prompt.messages({"query": "{{query}}"})[1]["content"]
        'Say {{query}}'
        """
        return [*self.head(values, show), self.case(values)]

    def head(
        self, values: Mapping[str, str], show: Callable[[int], str] = str
    ) -> list[dict[str, str]]:
        """Return the messages before the case: the system's and the worked examples."""
        messages = [{"role": "system", "content": _filled(self.system, values)}]
        for example in self.examples:
            case = {**values, **{name: str(value) for name, value in example.items()}}
            messages.append(self.case(case))
            messages.append({"role": "assistant", "content": show(example["grade"])})
        return messages

    def case(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return the message with the case itself."""
        return {"role": "user", "content": _filled(self.user, values)}


def _filled(template: str, values: Mapping[str, str]) -> str:
    return _PLACE.sub(lambda place: values[place.group(1)], template).strip()


@lru_cache
def load(name: str) -> Prompt:
    """Read one of the package's prompts.

    Parameters
    ----------
    name : str
        Such as ``grade-v1``.

    Returns
    -------
    Prompt

    Raises
    ------
    UsageError
        There is no such prompt.

    Examples
    --------
    >>> prompt = load("answer-v1")
    >>> prompt.version.startswith("answer-v1@"), len(load("grade-examples-v1").examples)
    (True, 8)
    """
    folder = files(__name__)
    names = sorted(
        path.name.removesuffix(".yml") for path in folder.iterdir() if path.name.endswith(".yml")
    )
    if name not in names:
        raise UsageError(f"There is no prompt {name!r}: {', '.join(names)}.")
    content = yaml.safe_load(folder.joinpath(f"{name}.yml").read_text(encoding="utf-8"))
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return Prompt(
        name,
        f"{name}@{digest[:12]}",
        content["system"],
        content["user"],
        tuple(content.get("examples", ())),
    )
