"""The prompts, one versioned file each, and how texts of others are put into them.

A file is YAML, one of the package's or one's own: ``system`` and ``user`` with places such as
``{{query}}``, and perhaps ``examples``, each with the values of those places and a ``grade``. A
change to a file changes
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
from pathlib import Path
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
    path : str
        The file, where it is not one of the package's.
    """

    name: str
    version: str
    system: str
    user: str
    examples: tuple[Mapping[str, Any], ...] = ()
    path: str = ""

    def check(self, needed: tuple[str, ...], allowed: tuple[str, ...] = ()) -> Prompt:
        """Return the prompt itself where its places are those that a stage fills.

        Raises
        ------
        UsageError
            A place is missing or unknown.
        """
        where = self.path or self.name
        places = set(_PLACE.findall(self.system + self.user))
        for place in needed:
            if place not in places:
                raise UsageError(
                    f"The prompt {where} has no {{{{{place}}}}}: put it where it goes."
                )
        known = (*needed, *allowed)
        for place in sorted(places - set(known)):
            raise UsageError(
                f"The prompt {where}: nothing fills {{{{{place}}}}}; known are {', '.join(known)}."
            )
        for number, example in enumerate(self.examples, start=1):
            missing = [place for place in needed if place not in example]
            if missing:
                raise UsageError(
                    f"The prompt {where}: example {number} has no {', '.join(missing)}."
                )
        return self

    def manifest(self, what: str = "prompt") -> dict[str, str]:
        """Return what a manifest records of it, see `recorded`."""
        return {what: self.version, **({f"{what}_file": self.path} if self.path else {})}

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
        system = _filled(self.system, values)
        messages = [{"role": "system", "content": system}] if system else []
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


def load(name: str) -> Prompt:
    """Read one of the package's prompts, or a file of one's own, such as the authors'.

    Parameters
    ----------
    name : str
        Such as ``grade-v1``; or the path of a YAML file with ``system``, ``user`` and perhaps
        ``examples``, known by its ending ``.yml`` or ``.yaml``.

    Returns
    -------
    Prompt

    Raises
    ------
    UsageError
        There is no such prompt, or the file is none.

    Examples
    --------
    >>> prompt = load("answer-v1")
    >>> prompt.version.startswith("answer-v1@"), len(load("grade-examples-v1").examples)
    (True, 8)
    """
    if name.endswith((".yml", ".yaml")):
        return _of_a_file(Path(name).expanduser())
    return _of_the_package(name)


@lru_cache
def _of_the_package(name: str) -> Prompt:
    folder = files(__name__)
    names = sorted(
        path.name.removesuffix(".yml") for path in folder.iterdir() if path.name.endswith(".yml")
    )
    if name not in names:
        raise UsageError(
            f"There is no prompt {name!r}: {', '.join(names)}, or a file of your own (.yml)."
        )
    text = folder.joinpath(f"{name}.yml").read_text(encoding="utf-8")
    return _prompt(name, yaml.safe_load(text))


def _of_a_file(path: Path) -> Prompt:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"The prompt {path} cannot be read: {error}.") from error
    if not isinstance(content, dict) or not {"system", "user"} <= set(content):
        raise UsageError(f"The prompt {path} needs `system` and `user`.")
    for key in content:
        if key not in ("system", "user", "examples"):
            raise UsageError(
                f"The prompt {path}: `{key}` is not a key here: system, user, examples."
            )
    for key in ("system", "user"):
        if not isinstance(content[key], str) or (key == "user" and not content[key].strip()):
            raise UsageError(f"The prompt {path}: `{key}` must be text.")
    examples = content.get("examples") or []
    for number, one in enumerate(examples if isinstance(examples, list) else [None], start=1):
        if not isinstance(one, dict) or one.get("grade") not in (1, 2, 3, 4, 5):
            raise UsageError(
                f"The prompt {path}: example {number} needs its texts and a `grade` from 1 to 5."
            )
    return _prompt(path.stem, {**content, "examples": examples}, str(path.resolve()))


def _prompt(name: str, content: Mapping[str, Any], path: str = "") -> Prompt:
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return Prompt(
        name,
        f"{name}@{digest[:12]}",
        content["system"],
        content["user"],
        tuple(content.get("examples", ())),
        path,
    )


def recorded(told: Mapping[str, Any], what: str = "prompt") -> Prompt:
    """Return the prompt that a manifest records, as it is now.

    Parameters
    ----------
    told : mapping
        A manifest with ``prompt`` (name and hash) and, for a file of one's own, ``prompt_file``.
    what : str
        ``prompt`` or ``closed_prompt``.

    Raises
    ------
    UsageError
        It is no longer there.
    """
    path = told.get(f"{what}_file")
    return load(str(path) if path else str(told[what]).partition("@")[0])
