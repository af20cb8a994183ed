"""Embedding models: the paper's four with what their cards say, and any other by name or folder."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from retrieval_quality.data.schema import EMBEDDINGS, embedding_code
from retrieval_quality.errors import DataError, UsageError

Kind = Literal["query", "passage"]

INSTALL = (
    "Ranking needs sentence-transformers: pip install 'retrieval-quality[models]'. On Linux that "
    "brings PyTorch for graphics cards, several GB; without one, first install PyTorch's CPU build "
    "by the command that pytorch.org/get-started shows for Linux, pip and CPU"
)


class Embedder(Protocol):
    """What ranking needs of an embedding model.

    Attributes
    ----------
    code : str
        What stands under ``E`` in the published files.
    """

    code: str

    def described(self) -> dict[str, Any]:
        """Return what determines the vectors; a cache made under another description is refused."""

    def worded(self, text: str, kind: Kind) -> str:
        """Return what is encoded for a text: the text, after a prefix if the model has one."""

    def encode(self, texts: Sequence[str], batch_size: int) -> np.ndarray:
        """Return one vector a text, shape (texts, dimensions), of worded texts."""


@dataclass(frozen=True)
class Request:
    """An embedding as it was asked for.

    Attributes
    ----------
    code : str
        What stands under ``E`` in the published files.
    model : str
        Name on the Hugging Face hub, or a folder.
    query_prefix, passage_prefix : str or None
        What its card says to put before a text; None to use what the model itself declares.
    pooling : str or None
        What its card says; None to use what the model itself declares.
    """

    code: str
    model: str
    query_prefix: str | None = None
    passage_prefix: str | None = None
    pooling: str | None = None


_CARDS: dict[str, tuple[str, str]] = {
    # what the four models' cards say to put before a query and a passage; all pool by the mean
    "AML12v2": ("", ""),
    "ME5S": ("query: ", "passage: "),
    "E5Sv2": ("query: ", "passage: "),
    "MQML6Cv1": ("", ""),
}


def parse(text: str) -> Request:
    """Return the embedding that a text names.

    Parameters
    ----------
    text : str
        One of the paper's four by code or label (``AML12v2`` or ``AM``), a name on the Hugging
        Face hub, a folder, or ``CODE=NAME_OR_FOLDER`` to choose the code. One of the paper's
        codes before ``=`` names a copy of that model and keeps its prefixes.

    Returns
    -------
    Request

    Raises
    ------
    UsageError
        Nothing is named, or a code has characters other than letters, digits, ``.``, ``_``, ``-``.

    Examples
    --------
    >>> parse("ES").model, parse("ES").query_prefix, parse("E5Sv2=/models/e5").model
    ('intfloat/e5-small-v2', 'query: ', '/models/e5')
    >>> parse("BAAI/bge-small-en").code, parse("/models/my model/").code, parse("X=a/b").code
    ('bge-small-en', 'my-model', 'X')
    """
    alias, equals, model = text.strip().partition("=")
    alias, model = (alias.strip(), model.strip()) if equals else ("", alias)
    if not model or (equals and not alias):
        raise UsageError(f"Embedding '{text}' names no model; give NAME, FOLDER or CODE=FOLDER.")
    code = embedding_code(alias or model)
    if code in _CARDS:
        query, passage = _CARDS[code]
        return Request(code, model if equals else EMBEDDINGS[code].model, query, passage, "mean")
    if not alias:
        base = re.split(r"[/\\]", model.rstrip("/\\"))[-1]
        code = re.sub(r"[^A-Za-z0-9_.-]+", "-", base).strip("-.")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", code):
        raise UsageError(
            f"'{code}' cannot be the code of an embedding: letters, digits, '.', '_' and '-' can; "
            f"choose one with CODE={model}."
        )
    return Request(code, model)


class SentenceTransformerEmbedder:
    """A model of the sentence-transformers library.

    Parameters
    ----------
    request : Request
        The model.
    prefixes : bool
        Whether texts get the prefixes of the model's card, or those it declares itself.
    device : str, optional
        ``cpu``, ``cuda`` ...; the library chooses by default.

    Raises
    ------
    UsageError
        The library is not installed.
    DataError
        There is no such model, or its pooling is not what its card says.
    """

    def __init__(self, request: Request, *, prefixes: bool = True, device: str | None = None):
        try:
            import sentence_transformers
        except ImportError:
            raise UsageError(INSTALL) from None
        self.code = request.code
        try:
            self._model = sentence_transformers.SentenceTransformer(request.model, device=device)
        except (OSError, ValueError) as error:
            raise DataError(
                f"The model '{request.model}' could not be loaded "
                f"({str(error).splitlines()[0] if str(error) else type(error).__name__}). Without "
                f"a network, give the folder that holds it: --embedding {request.code}=FOLDER."
            ) from None
        self._prefixes = _prefixes(request, dict(self._model.prompts)) if prefixes else ("", "")
        self._described = {
            # a folder's own name, not its path: the vectors do not depend on where it lies
            "model": Path(request.model).name if Path(request.model).is_dir() else request.model,
            "revision": _revision(self._model),
            "weights_sha256": _weights(request.model),
            "query_prefix": self._prefixes[0],
            "passage_prefix": self._prefixes[1],
            "pooling": _pooling(self._model),
            "max_tokens": self._model.max_seq_length,
        }
        if request.pooling not in (None, self._described["pooling"]):
            raise DataError(
                f"{request.model}: its texts should be pooled by '{request.pooling}', but the "
                f"model says '{self._described['pooling']}'; this is not the model of that name."
            )

    def described(self) -> dict[str, Any]:
        """Return the model, its weights' digest if in a folder, prefixes, pooling, most tokens."""
        return dict(self._described)

    def worded(self, text: str, kind: Kind) -> str:
        """Return the text after its prefix."""
        return self._prefixes[kind == "passage"] + text

    def encode(self, texts: Sequence[str], batch_size: int) -> np.ndarray:
        """Return one vector a text."""
        # prompt="" keeps the library from adding a default prompt: prefixes are added by `worded`
        vectors: np.ndarray = self._model.encode(
            list(texts), batch_size=batch_size, prompt="", show_progress_bar=False
        )
        return vectors


def _prefixes(request: Request, declared: dict[str, str]) -> tuple[str, str]:
    if request.query_prefix is not None and request.passage_prefix is not None:
        return request.query_prefix, request.passage_prefix
    passage = declared.get("passage") or declared.get("document") or ""
    return declared.get("query") or "", passage


def _pooling(model: Any) -> str:
    modes = [str(module.pooling_mode) for module in model if hasattr(module, "pooling_mode")]
    return "+".join(modes) or "none"


def _revision(model: Any) -> str | None:
    """Return the commit on the hub that a model was loaded from, as far as it says."""
    config = getattr(getattr(model[0], "auto_model", None), "config", None)
    return getattr(config, "_commit_hash", None)


def _weights(model: str) -> str | None:
    """Return a digest of the weights in a folder; None for a name on the hub."""
    folder = Path(model)
    if not folder.is_dir():
        return None
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.suffix in (".safetensors", ".bin")):
        with path.open("rb") as source:
            while block := source.read(1 << 22):
                digest.update(block)
    return digest.hexdigest()


def load(text: str, *, prefixes: bool = True, device: str | None = None) -> Embedder:
    """Return the embedding model that a text names, see `parse`."""
    return SentenceTransformerEmbedder(parse(text), prefixes=prefixes, device=device)
