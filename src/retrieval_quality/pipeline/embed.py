"""Embedding models: the paper's four with what their cards say, and any other by name or folder."""

from __future__ import annotations

import hashlib
import json
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


class Measuring(Protocol):
    """What an embedder may have besides: it can say which texts it cuts."""

    def cut(self, texts: Sequence[str]) -> list[bool] | None:
        """Return for each worded text whether it is longer than the model reads; None: unknown."""


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


@dataclass(frozen=True)
class Card:
    """What is known of one of the paper's models, to tell whether a folder holds it.

    Attributes
    ----------
    query, passage : str
        Prefixes. All four pool by the mean.
    layers, vocabulary, max_tokens : int
        As in its configuration; all four have vectors of `WIDTH` numbers.
    """

    query: str
    passage: str
    layers: int
    vocabulary: int
    max_tokens: int


WIDTH = 384
_CARDS = {
    "AML12v2": Card("", "", 12, 30522, 128),
    "ME5S": Card("query: ", "passage: ", 12, 250037, 512),
    "E5Sv2": Card("query: ", "passage: ", 12, 30522, 512),
    "MQML6Cv1": Card("", "", 6, 30522, 512),
}
_FAMILIES = (
    # families of models whose cards ask for prefixes, by what their names have in common
    (r"\be5-?(small|base|large)\b(?!.*instruct)", "query: ", "passage: "),
    (
        r"\bbge-(small|base|large)-en\b",
        "Represent this sentence for searching relevant passages: ",
        "",
    ),
    (r"\bnomic-embed-text\b", "search_query: ", "search_document: "),
)


def family(name: str) -> tuple[str, str] | None:
    """Return the prefixes that the cards of a family of models ask for; None if it is not known.

    Parameters
    ----------
    name : str
        A model's name, as on the hub, or a text in which it stands.

    Examples
    --------
    >>> family("intfloat/e5-base-v2"), family("my/e5_small_v2"), family("e5-mistral-7b-instruct")
    (('query: ', 'passage: '), ('query: ', 'passage: '), None)
    """
    told = name.lower().replace("_", "-")
    return next(((q, p) for pattern, q, p in _FAMILIES if re.search(pattern, told)), None)


def parse(text: str) -> Request:
    """Return the embedding that a text names.

    Parameters
    ----------
    text : str
        One of the paper's four by code, label or name on the Hugging Face hub (``AML12v2``,
        ``AM``, ``sentence-transformers/all-MiniLM-L12-v2``), another name on the hub, a folder,
        or ``CODE=NAME_OR_FOLDER`` to choose the code. One of the paper's codes before ``=`` names
        a copy of that model.

    Returns
    -------
    Request
        With the prefixes of the model that is named, whatever its code.

    Raises
    ------
    UsageError
        Nothing is named, or a code has characters other than letters, digits, ``.``, ``_``, ``-``.

    Examples
    --------
    >>> parse("ES").model, parse("ES").query_prefix, parse("E5Sv2=/models/e5").model
    ('intfloat/e5-small-v2', 'query: ', '/models/e5')
    >>> parse("intfloat/e5-small-v2") == parse("ES"), parse("X=intfloat/e5-small-v2").query_prefix
    (True, 'query: ')
    >>> parse("BAAI/bge-m3").code, parse("/models/my model/").code, parse("X=a/b").code
    ('bge-m3', 'my-model', 'X')
    """
    alias, equals, model = text.strip().partition("=")
    alias, model = (alias.strip(), model.strip()) if equals else ("", alias)
    if not model or (equals and not alias):
        raise UsageError(f"Embedding '{text}' names no model; give NAME, FOLDER or CODE=FOLDER.")
    code = embedding_code(alias or _CODE_OF_MODEL.get(model.lower(), model))
    if code in _CARDS:
        card = _CARDS[code]
        model = model if equals else EMBEDDINGS[code].model
        return Request(code, model, card.query, card.passage, "mean")
    base = re.split(r"[/\\]", model.rstrip("/\\"))[-1]
    if not alias:
        code = re.sub(r"[^A-Za-z0-9_.-]+", "-", base).strip("-.")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", code):
        raise UsageError(
            f"'{code}' cannot be the code of an embedding: letters, digits, '.', '_' and '-' can; "
            f"choose one with CODE={model}."
        )
    same = _CODE_OF_MODEL.get(model.lower())
    known = (_CARDS[same].query, _CARDS[same].passage) if same else family(_hub_name(model) or base)
    return Request(code, model, *(known or (None, None)))


_CODE_OF_MODEL = {one.model.lower(): code for code, one in EMBEDDINGS.items()}


def _hub_name(model: str) -> str | None:
    """Return the name that the hub's own cache gives a folder (``models--a--b/snapshots/...``)."""
    found = re.search(r"models--([^/\\]+?)--([^/\\]+)", model)
    return f"{found[1]}/{found[2]}" if found else None


def names_in(folder: Path) -> list[str]:
    """Return what a model's folder says about which model it is: its name, its card, its base.

    Parameters
    ----------
    folder : Path
        As the hub or `save_pretrained` writes it.

    Returns
    -------
    list of str
        The folder's own name, lines of the card that name the model, and where its configuration
        says it came from.
    """
    told = [_hub_name(str(folder)) or folder.name]
    card = _read(folder / "README.md")[:20_000]
    told += re.findall(r"(?m)^(?:# |\s*-? ?(?:name|base_model|model_name): ?)(.+)$", card)
    told += re.findall(r"finetuned from \[([^\]]+)\]", card)
    for place in ("config.json", "0_Transformer/config.json"):
        came = _facts(folder / place).get("_name_or_path")
        told += [came] if isinstance(came, str) else []
    return [one.strip() for one in told if one.strip()]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _facts(path: Path) -> dict[str, Any]:
    try:
        told = json.loads(_read(path))
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def check_folder(request: Request) -> None:
    """Refuse a folder that holds another model than the one whose code it is given.

    Parameters
    ----------
    request : Request
        Only a folder behind one of the paper's codes is looked at: at its configuration, and at
        what it says about itself.

    Raises
    ------
    DataError
        It is another model; the message says by what.
    """
    folder, card = Path(request.model), _CARDS.get(request.code)
    if card is None or not folder.is_dir():
        return
    config = _facts(folder / "config.json") or _facts(folder / "0_Transformer/config.json")
    limit = _facts(folder / "sentence_bert_config.json")
    limit = limit or _facts(folder / "0_Transformer/sentence_bert_config.json")
    found = (
        ("layers", config.get("num_hidden_layers"), card.layers),
        ("numbers in a vector", config.get("hidden_size"), WIDTH),
        ("words in its vocabulary", config.get("vocab_size"), card.vocabulary),
    )
    wrong = [f"{is_} {what}, not {must}" for what, is_, must in found if is_ not in (None, must)]
    most = limit.get("max_seq_length")
    if isinstance(most, int) and most < card.max_tokens:  # a higher limit may be a choice
        wrong.append(f"it reads {most} tokens, not {card.max_tokens}")
    own = EMBEDDINGS[request.code].model.rpartition("/")[2].lower()
    for name in names_in(folder):
        named = [one.model.rpartition("/")[2].lower() for one in EMBEDDINGS.values()]
        if own not in name.lower() and (
            any(base in name.lower() for base in named)
            or (family(name) or (card.query, card.passage)) != (card.query, card.passage)
        ):
            wrong.append(f"it says that it is {name}")
    if wrong:
        raise DataError(
            f"{request.code} is {EMBEDDINGS[request.code].model}, but {folder} holds another "
            f"model ({'; '.join(wrong)}). Give it a code of its own: --embedding NAME={folder}."
        )


class SentenceTransformerEmbedder:
    """A model of the sentence-transformers library.

    Parameters
    ----------
    request : Request
        The model.
    prefixes : bool
        Whether texts get the prefixes of the model's card, or those it declares itself.
    query_prefix, passage_prefix : str, optional
        Other prefixes instead.
    device : str, optional
        ``cpu``, ``cuda`` ...; the library chooses by default.

    Raises
    ------
    UsageError
        The library is not installed.
    DataError
        There is no such model, or its pooling is not what its card says.
    """

    def __init__(
        self,
        request: Request,
        *,
        prefixes: bool = True,
        query_prefix: str | None = None,
        passage_prefix: str | None = None,
        device: str | None = None,
    ):
        try:
            import sentence_transformers
        except ImportError:
            raise UsageError(INSTALL) from None
        self.code = request.code
        check_folder(request)
        try:
            self._model = sentence_transformers.SentenceTransformer(request.model, device=device)
        except Exception as error:  # the library, its hub client and PyTorch raise what they like
            raise DataError(
                f"The model '{request.model}' could not be loaded "
                f"({str(error).splitlines()[0] if str(error) else type(error).__name__}). Without "
                f"a network, give the folder that holds it: --embedding {request.code}=FOLDER."
            ) from None
        found = _prefixes(request, dict(self._model.prompts)) if prefixes else ("", "", "left out")
        set_ = "set by the caller" if (query_prefix, passage_prefix) != (None, None) else ""
        self._prefixes = (
            found[0] if query_prefix is None else query_prefix,
            found[1] if passage_prefix is None else passage_prefix,
        )
        self.recorded = {"prefixes_from": set_ or found[2]}
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
        try:
            vectors: np.ndarray = self._model.encode(
                list(texts), batch_size=batch_size, prompt="", show_progress_bar=False
            )
        except RuntimeError as error:  # PyTorch: memory, the device
            raise DataError(
                f"Embedding {self.code} could not encode {len(texts)} texts "
                f"({(str(error) or type(error).__name__).splitlines()[0]}). What was encoded "
                "before is kept; a smaller --batch-size or another --device may help."
            ) from None
        return vectors

    def cut(self, texts: Sequence[str]) -> list[bool] | None:
        """Return for each text whether it has more tokens than the model reads."""
        limit = self._model.max_seq_length
        if limit is None:
            return [False] * len(texts)
        # a token is at least one byte, and what is put around a text a few tokens: most are short
        long = [i for i, text in enumerate(texts) if len(text.encode()) + 8 > limit]
        told = [False] * len(texts)
        if long:
            tokenizer = getattr(self._model, "tokenizer", None)
            if tokenizer is None:
                return None
            counted = tokenizer([texts[i] for i in long], truncation=False, verbose=False)
            for i, tokens in zip(long, counted["input_ids"], strict=True):
                told[i] = len(tokens) > limit
        return told


def _prefixes(request: Request, declared: dict[str, str]) -> tuple[str, str, str]:
    """Return the prefixes of a query and a passage, and how they are known."""
    if request.query_prefix is not None and request.passage_prefix is not None:
        return request.query_prefix, request.passage_prefix, "its card, by the model's name"
    passage = declared.get("passage") or declared.get("document") or ""
    if declared.get("query") or passage:
        return declared.get("query") or "", passage, "declared by the model"
    if Path(request.model).is_dir():
        for name in names_in(Path(request.model)):
            if known := family(name):
                return *known, f"its card, for its folder says {name}"
    return "", "", "none known; --query-prefix and --passage-prefix set them"


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


def load(
    text: str,
    *,
    prefixes: bool = True,
    query_prefix: str | None = None,
    passage_prefix: str | None = None,
    device: str | None = None,
) -> Embedder:
    """Return the embedding model that a text names, see `parse`."""
    return SentenceTransformerEmbedder(
        parse(text),
        prefixes=prefixes,
        query_prefix=query_prefix,
        passage_prefix=passage_prefix,
        device=device,
    )
