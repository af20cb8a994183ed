"""The published format, declared once: files, keys, types, embeddings, subsets, counts.

The published dataset is four JSON arrays of objects, ``samples_texts``, ``samples_ranked``,
``samples_graded`` and ``samples_human``; this project adds ``samples_controls`` (the same answers
graded with no documents, or with random ones). Everything that reads, writes or checks such files
takes names, types, keys and limits from here. Only the standard library is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

VERSION = 4
"""Version of the columnar cache's layout; a cache written under another version is made anew."""

GRADES = (1, 2, 3, 4, 5)
"""The grades an answer can get, worst first."""

LARGEST = 2**31 - 1
"""The largest whole number that the cache's columns hold."""


@dataclass(frozen=True)
class Field:
    """One key of a record.

    Attributes
    ----------
    name : str
        The key as the published files spell it.
    kind : str
        ``text``, ``texts`` (list of text), ``whole`` (whole number >= 0), ``wholes``, ``bits``
        (list of 0 and 1), ``numbers`` (list of finite numbers), ``number``, or ``grade``
        (whole number 1-5, or null).
    meaning : str
        One line for a person.
    required : bool
        Whether every record must have the key.
    nullable : bool
        Whether the value may be null where the key is there; always true of a grade.
    """

    name: str
    kind: str
    meaning: str
    required: bool = True
    nullable: bool = False


@dataclass(frozen=True)
class Part:
    """One file of the dataset.

    Attributes
    ----------
    name : str
        ``texts``, ``ranked``, ``graded``, ``human`` or ``controls``.
    fields : tuple of Field
        The declared keys, in the order of the published files.
    key : tuple of str
        The keys that together are unique in the file; empty where none is promised.
    keeps_others : bool
        Whether undeclared keys are kept (True) or counted and left out (False).
    """

    name: str
    fields: tuple[Field, ...]
    key: tuple[str, ...]
    keeps_others: bool = False

    @property
    def stem(self) -> str:
        """File name without its ending, such as ``samples_graded``."""
        return f"samples_{self.name}"

    @property
    def required(self) -> tuple[str, ...]:
        """Names of the keys that every record must have."""
        return tuple(field.name for field in self.fields if field.required)


_ID = Field("id", "text", "text sample: subset name, hyphen, number")
_EMBEDDING = Field("E", "text", "code of the embedding that ranked the candidates")
_N_CANDIDATES = Field("Nc", "whole", "number of candidates")
_N_POSITIVES = Field("Np", "whole", "number of positives among the candidates")
_GRADED = (
    _ID,
    _EMBEDDING,
    _N_CANDIDATES,
    _N_POSITIVES,
    Field("K", "whole", "number of retrieved documents"),
    Field("rank", "wholes", "indices of the K retrieved candidates, best first"),
    Field("inK", "bits", "1 where the retrieved document is a positive, in rank order"),
    Field("answer_ideal", "text", "answer written from all positives", nullable=True),
    Field("answer_topK", "text", "answer written from the K retrieved documents", nullable=True),
    Field("grade", "grade", "grade of answer_topK against answer_ideal, 1 to 5", nullable=True),
    Field("P", "number", "precision, positives retrieved / K"),
    Field("R", "number", "recall, positives retrieved / Np"),
)

PARTS: dict[str, Part] = {
    part.name: part
    for part in (
        Part(
            "texts",
            (
                _ID,
                Field("q", "text", "query"),
                Field("p", "texts", "positives: texts relevant to the query"),
                Field("n", "texts", "negatives: texts that are not"),
                Field("c1", "text", "ARXIV: category of the positives", False, True),
                Field("c2", "text", "ARXIV: category of the negatives", False, True),
                Field("q2", "text", "ARXIV: name of the negatives' category", False, True),
            ),
            key=("id",),
        ),
        Part(
            "ranked",
            (
                _ID,
                _EMBEDDING,
                _N_CANDIDATES,
                _N_POSITIVES,
                Field("K", "wholes", "the numbers of retrieved documents looked at, ascending"),
                Field("P", "numbers", "precision at each K"),
                Field("R", "numbers", "recall at each K"),
                Field("rank", "wholes", "all candidates by index, best first"),
            ),
            key=("id", "E", "Nc", "Np"),
        ),
        Part("graded", _GRADED, key=("id", "E", "Nc", "Np", "K")),
        Part("human", (), key=(), keeps_others=True),
        Part(
            "controls",
            (
                *(field for field in _GRADED if field.name not in ("P", "R")),
                Field("P", "number", "precision; null at K = 0", nullable=True),
                Field("R", "number", "recall", nullable=True),
                Field("control", "text", "what the LLM was given instead"),
            ),
            key=("control", "id", "E", "Nc", "Np", "K"),
            keeps_others=True,
        ),
    )
}
"""The files of a dataset by part name, in the order in which they are read."""

HUMAN_GRADE_PREFIX = "grade_human_"
"""Keys of ``samples_human`` that hold a person's grade begin so."""


@dataclass(frozen=True)
class Embedding:
    """One of the paper's four embeddings: code in the files, label on plots, model behind it."""

    code: str
    label: str
    model: str
    dimensions: int = 384


EMBEDDINGS: dict[str, Embedding] = {
    embedding.code: embedding
    for embedding in (
        Embedding("AML12v2", "AM", "sentence-transformers/all-MiniLM-L12-v2"),
        Embedding("ME5S", "EM", "intfloat/multilingual-e5-small"),
        Embedding("E5Sv2", "ES", "intfloat/e5-small-v2"),
        Embedding("MQML6Cv1", "QM", "sentence-transformers/multi-qa-MiniLM-L6-cos-v1"),
    )
}
"""The paper's embeddings by the code that the published files use."""

_CODE_OF_LABEL = {embedding.label: code for code, embedding in EMBEDDINGS.items()}

DATASETS: dict[str, str] = {
    "A": "ARXIV",
    "M": "MSMARCO",
    "N": "Natural Questions",
    "Hs": "HotpotQA sentences",
    "Hp": "HotpotQA paragraphs",
}
"""Long names of the paper's datasets by what stands before the first hyphen of an id."""

_DIFFICULTIES = {"e": "easy", "m": "medium", "h": "hard"}

SUBSETS: dict[str, str] = {
    "A": DATASETS["A"],
    "M": DATASETS["M"],
    "N": DATASETS["N"],
    **{
        f"{dataset}-{letter}": f"{DATASETS[dataset]}, {word}"
        for dataset in ("Hs", "Hp")
        for letter, word in _DIFFICULTIES.items()
    },
}
"""Long names of the paper's subsets by what stands before the number of an id."""

PUBLISHED_ROWS: dict[str, int] = {"texts": 6_112, "ranked": 42_992, "graded": 535_888}
"""Rows of the published files, as far as they are known."""

PUBLISHED_RANKED_PER_EMBEDDING = 10_748
"""Ranked rows of each of the four embeddings in the published file."""

TABLE_1_FIRST_ROW: dict[str, int] = {"ranked": 300, "K_low": 2, "K_high": 15, "graded": 4_200}
"""What is known of the paper's Table 1: its first row, 300 * (15 - 2 + 1) = 4200 graded samples."""

PUBLISHED_NP_RANGE = (2, 15)
"""Smallest and largest number of positives in the published data."""


def embedding_label(code: str) -> str:
    """Give the plot label of an embedding; an unknown code is its own label.

    Examples
    --------
    >>> embedding_label("MQML6Cv1"), embedding_label("QM"), embedding_label("my-model")
    ('QM', 'QM', 'my-model')
    """
    return EMBEDDINGS[code].label if code in EMBEDDINGS else code


def embedding_code(name: str) -> str:
    """Give the code that the files use for an embedding named by code or by plot label.

    Examples
    --------
    >>> embedding_code("AM"), embedding_code("AML12v2"), embedding_code("my-model")
    ('AML12v2', 'AML12v2', 'my-model')
    """
    return _CODE_OF_LABEL.get(name, name)


def embedding_order(codes: list[str]) -> list[str]:
    """Order embeddings as the paper does, others behind them by name.

    Examples
    --------
    >>> embedding_order(["zeta", "ME5S", "AML12v2", "beta"])
    ['AML12v2', 'ME5S', 'beta', 'zeta']
    """
    return _known_first(codes, list(EMBEDDINGS))


def dataset_order(names: list[str]) -> list[str]:
    """Order datasets as the paper does, others behind them by name.

    Examples
    --------
    >>> dataset_order(["Hp", "X", "A"])
    ['A', 'Hp', 'X']
    """
    return _known_first(names, list(DATASETS))


def subset_order(names: list[str]) -> list[str]:
    """Order subsets as the paper does, others behind them by name.

    Examples
    --------
    >>> subset_order(["Hs-h", "X", "Hs-e", "M"])
    ['M', 'Hs-e', 'Hs-h', 'X']
    """
    return _known_first(names, list(SUBSETS))


def _known_first(names: list[str], known: list[str]) -> list[str]:
    return sorted(
        names, key=lambda name: (known.index(name) if name in known else len(known), name)
    )


def subset_of(sample_id: str) -> str:
    """Give the subset of an id: all before its last hyphen.

    Examples
    --------
    >>> subset_of("Hp-e-17"), subset_of("A-3")
    ('Hp-e', 'A')
    """
    return sample_id.rpartition("-")[0]


def dataset_of(sample_id: str) -> str:
    """Give the dataset of an id: all before its first hyphen.

    Examples
    --------
    >>> dataset_of("Hp-e-17"), dataset_of("A-3")
    ('Hp', 'A')
    """
    return sample_id.partition("-")[0]


def dataset_name(code: str) -> str:
    """Give the long name of a dataset; an unknown one is its own name.

    Examples
    --------
    >>> dataset_name("M"), dataset_name("wiki")
    ('MSMARCO', 'wiki')
    """
    return DATASETS.get(code, code)
