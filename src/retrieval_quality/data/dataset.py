"""Published files -> checked columnar cache -> `Dataset`.

Each file is streamed once into Parquet, record by record checked; later openings read only the
columns that are asked for. The cache is keyed by content: SHA-256 of the files and the version of
the layout. An entry is written into a temporary folder beside its place and renamed to it when
complete, so that an interruption, a full disk or a second writer never leaves half an entry.

What is refused at opening is what would make an analysis wrong without a word: JSON that is none,
a record without a key, a key in other letters, a value of another type, a grade that is none of
1 to 5, lists whose lengths disagree with K, ranks outside the candidates or twice, more positives
than there are, ``inK`` that contradicts ``rank``, and two rows with one unique key. What is
accepted with a notice that counts it: null grades and answers, grades written as 4.0 or "4",
undeclared keys, one record a line in a ``.json`` file, missing parts, and each other relation of
the format (`retrieval_quality.data.relations`) that does not hold, with its first row.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import platformdirs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from tqdm import tqdm

from retrieval_quality.data import relations, schema
from retrieval_quality.data.records import ENDINGS
from retrieval_quality.data.tables import TYPES, Notice, Tally, read_tables
from retrieval_quality.errors import DataError, UsageError
from retrieval_quality.parameters import expand_home

CACHE_VARIABLE = "RETRIEVAL_QUALITY_CACHE"
"""Environment variable that names another folder for the cache."""

ROW_GROUP = 32_768
"""Rows that are gathered before they are written."""

GROUP_BYTES = 32 * 2**20
"""Bytes that are gathered at most, however few rows they are; bounds a conversion's memory."""

_MANIFEST = "dataset.json"
_SCORED = "scored.arrow"
_CATEGORIES: dict[str, Callable[[list[str]], list[str]]] = {
    "id": sorted,
    "E": schema.embedding_order,
    "dataset": schema.dataset_order,
    "subset": schema.subset_order,
    "pattern": sorted,
}
_STALE_SECONDS = 24 * 3600
_PIECE = 1 << 17  # rows of a piece of what is written in pieces


@dataclass(frozen=True, eq=False)
class Dataset:
    """A checked dataset in the columnar cache; it is equal to another of the same content.

    What it is called, and where it was found, makes no other dataset: a result that was worked out
    for one is right for the other, so that a dataset can be the key of a cache as it is.

    Attributes
    ----------
    name : str
        Short name, such as the folder's.
    simulated : bool
        Whether the rows are made by a model instead of being observed.
    source : str
        What the user gave.
    digest : str
        SHA-256 of the content, hexadecimal.
    commit : str or None
        Revision of a dataset that was downloaded.
    folder : Path
        Where the Parquet files are.
    parts : tuple of str
        Which of ``texts ranked graded human controls`` are there.
    notices : tuple of Notice
        What was accepted, converted or left out.
    """

    name: str
    simulated: bool
    source: str
    digest: str
    commit: str | None
    folder: Path
    parts: tuple[str, ...]
    notices: tuple[Notice, ...] = ()

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, Dataset) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def path(self, part: str) -> Path:
        """Give the Parquet file of a part.

        Raises
        ------
        DataError
            If the dataset has no such part.
        UsageError
            If there is no part of that name in any dataset.
        """
        if part not in schema.PARTS:
            raise UsageError(f"no part is called {part!r}; parts are {', '.join(schema.PARTS)}.")
        if part not in self.parts:
            raise DataError(
                f"{self.source} has no {schema.PARTS[part].stem} file, which is needed here. "
                f"It has: {', '.join(self.parts)}."
            )
        return self.folder / f"{part}.parquet"

    def columns(self, part: str) -> tuple[str, ...]:
        """Give the names of a part's columns."""
        with intact(self):
            return tuple(pq.read_schema(self.path(part)).names)

    def read(self, part: str, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Read the asked columns of a part, in the order of the file.

        Parameters
        ----------
        part : str
            ``texts``, ``ranked``, ``graded``, ``human`` or ``controls``.
        columns : sequence of str, optional
            Columns to read, all by default. Only these are read from disk.

        Returns
        -------
        DataFrame
            One row a record; lists are NumPy arrays, null grades NaN.

        Raises
        ------
        DataError
            If the dataset has no such part.
        UsageError
            If a column is not there.
        """
        path = self.path(part)
        names = self.columns(part)
        if unknown := [name for name in columns or () if name not in names]:
            raise UsageError(
                f"{schema.PARTS[part].stem} has no column {unknown[0]!r}; "
                f"it has {', '.join(names)}."
            )
        chosen = None if columns is None else list(columns)
        with intact(self):
            return pq.read_table(path, columns=chosen).to_pandas()

    def scored(self, embeddings: Iterable[str] = (), datasets: Iterable[str] = ()) -> pd.DataFrame:
        """Give one row a graded sample, with only what an analysis needs.

        Parameters
        ----------
        embeddings : iterable of str, optional
            Embeddings to keep, by code (``AML12v2``) or plot label (``AM``); all by default.
        datasets : iterable of str, optional
            Datasets to keep (``A``, ``Hp`` ...); all by default.

        Returns
        -------
        DataFrame
            Columns ``id``, ``E``, ``dataset``, ``subset`` (categories), ``Nc``, ``Np``, ``K``,
            ``n_positives`` (int32), ``n_positives_2k`` (float64, positives among the first 2K
            where that row was graded too and begins with the top K, else NaN), ``pattern``
            (category of text such as ``"0110"``, rank 1 first) and ``grade`` (float64, 1-5, NaN
            where null), in the order of the graded file. Categories hold only what occurs. Where
            the dataset has texts also ``query`` (category): the first id of the texts with the
            same query, so that rows of one question are known as such, under whatever ids.

        Raises
        ------
        DataError
            If the dataset has no graded part.
        UsageError
            If an embedding or dataset is not there.
        """
        self.path("graded")
        with intact(self), pa.memory_map(str(self.folder / _SCORED)) as file:
            rows = pa.ipc.open_file(file).read_all().to_pandas()
        rows = keep_only(rows, embeddings, datasets)
        same = self.same_query()
        if same:
            names = rows["id"].cat.categories
            first = pd.Categorical([same.get(name, name) for name in names])
            codes = first.codes[rows["id"].cat.codes.to_numpy()]
            rows["query"] = pd.Categorical.from_codes(codes, categories=first.categories)
        return rows

    @contextlib.contextmanager
    def scored_batches(self) -> Iterator[pa.RecordBatchReader]:
        """Give the rows of `scored` piece by piece, for SQL over more of them than memory holds.

        Yields
        ------
        pyarrow.RecordBatchReader
            The columns of `scored` without ``query``, and ``row`` (int64), the place in the graded
            file; to be read once.

        Raises
        ------
        DataError
            If the dataset has no graded part.
        """
        self.path("graded")
        with intact(self), pa.OSFile(str(self.folder / _SCORED)) as file:
            stored = pa.ipc.open_file(file)
            numbered = stored.schema.append(pa.field("row", pa.int64()))

            def batches() -> Iterator[pa.RecordBatch]:
                first = 0
                for number in range(stored.num_record_batches):
                    batch = stored.get_batch(number)
                    places = pa.array(np.arange(first, first + batch.num_rows))
                    first += batch.num_rows
                    yield pa.RecordBatch.from_arrays([*batch.columns, places], schema=numbered)

            yield pa.RecordBatchReader.from_batches(numbered, batches())

    def same_query(self) -> dict[str, str]:
        """Give for every id of the texts the first id with the same query.

        Returns
        -------
        dict of str to str
            Blanks around a query do not count. Empty where the dataset has no texts.
        """
        if "texts" not in self.parts:
            return {}
        texts = self.read("texts", ["id", "q"])
        first = texts["id"].groupby(texts["q"].str.strip(), sort=False).transform("first")
        return dict(zip(texts["id"], first.fillna(texts["id"]), strict=True))

    def table_counts(self) -> pd.DataFrame:
        """Count rows by part, embedding and subset.

        Returns
        -------
        DataFrame
            Columns ``part``, ``embedding`` (empty for texts), ``subset``, ``rows``.
        """
        with intact(self), connect() as connection:
            tables = [
                _sql(
                    connection,
                    f"""SELECT '{part}' AS part, {"''" if part == "texts" else "E"} AS embedding,
                        regexp_replace(id, '-[^-]*$', '') AS subset, count(*) AS rows
                    FROM read_parquet(?) GROUP BY ALL ORDER BY ALL""",
                    self.path(part),
                ).to_pandas()
                for part in ("texts", "ranked", "graded")
                if part in self.parts
            ]
        if not tables:
            return pd.DataFrame(columns=["part", "embedding", "subset", "rows"])
        return pd.concat(tables, ignore_index=True)

    def row_counts(self) -> dict[str, int]:
        """Count the rows of each part."""
        with intact(self):
            return {part: pq.read_metadata(self.path(part)).num_rows for part in self.parts}

    def grade_counts(self) -> dict[int | None, int]:
        """Count the graded rows by grade, worst first; None stands for null grades."""
        grades = self.read("graded", ["grade"])["grade"]
        counts: dict[int | None, int] = {
            grade: int((grades == grade).sum()) for grade in schema.GRADES
        }
        counts[None] = int(grades.isna().sum())
        return counts

    def ideal_answers_that_vary(self) -> tuple[int, int]:
        """Count the ids whose ideal answer is not always the same.

        Returns
        -------
        tuple of int
            Ids with more than one distinct ``answer_ideal``, and ids in all.
        """
        with intact(self), connect() as connection:
            row = _sql(
                connection,
                """SELECT count(*) FILTER (lowest <> highest) AS varying, count(*) AS ids
                FROM (SELECT min(hash(answer_ideal)) AS lowest, max(hash(answer_ideal)) AS highest
                      FROM read_parquet(?) GROUP BY id)""",
                self.path("graded"),
            ).to_pylist()[0]
        return row["varying"], row["ids"]


def keep_only(
    rows: pd.DataFrame, embeddings: Iterable[str] = (), datasets: Iterable[str] = ()
) -> pd.DataFrame:
    """Keep the rows of some embeddings and datasets, as `Dataset.scored` does.

    Parameters
    ----------
    rows : DataFrame
        Scored rows, or counts of them: ``E`` and ``dataset`` are categories.
    embeddings, datasets : iterable of str
        As in `Dataset.scored`; all where empty.

    Returns
    -------
    DataFrame
        Categories hold only what occurs.

    Raises
    ------
    UsageError
        If an embedding or dataset is not there.
    """
    chosen = {
        "E": _chosen(embeddings, rows["E"].cat.categories, "embedding", _notations),
        "dataset": _chosen(datasets, rows["dataset"].cat.categories, "dataset", _as_is),
    }
    keep = np.ones(len(rows), dtype=bool)
    for column, names in chosen.items():
        if names:
            keep &= rows[column].isin(names).to_numpy()
    if not keep.all():
        rows = rows[keep].reset_index(drop=True)
        for column in _CATEGORIES:
            if column in rows:
                rows[column] = rows[column].cat.remove_unused_categories()
    return rows


def category_order(column: str, names: Iterable[str]) -> list[str]:
    """Order the categories of a column of the scored rows, as `Dataset.scored` has them.

    Examples
    --------
    >>> category_order("dataset", {"Hp", "A"})
    ['A', 'Hp']
    """
    return _CATEGORIES[column](list(names))


def cache_root() -> Path:
    """Give the folder of the cache: the user's, or what ``RETRIEVAL_QUALITY_CACHE`` names."""
    named = os.environ.get(CACHE_VARIABLE)
    folder = expand_home(named) if named else platformdirs.user_cache_path("retrieval_quality")
    if str(folder).startswith("~"):  # nobody knows where home is
        raise UsageError(
            "there is no home folder for the cache: set HOME, or name a folder by the environment "
            f"variable {CACHE_VARIABLE}"
        )
    return folder


def open_path(path: str | Path, *, cache: Path | None = None, progress: bool = True) -> Dataset:
    """Open a folder with the published files, or one file, converting it once.

    Parameters
    ----------
    path : str or Path
        A folder with ``samples_<part>`` files, or one such file; a single file of another name
        is taken as the graded one. Endings: ``.json``, ``.jsonl``, ``.ndjson``, each also with
        ``.gz``, and ``.parquet``.
    cache : Path, optional
        Folder of the cache instead of `cache_root`.
    progress : bool, default True
        Whether to show a bar on stderr, if that is a terminal.

    Returns
    -------
    Dataset
        The checked dataset.

    Raises
    ------
    UsageError
        If there is nothing at `path`.
    DataError
        If the content is refused (file, record and id are named) or cannot be stored.
    """
    try:
        files = _find_files(Path(path))
        stamps = _stamps(files)
        digest = _digest(files)
    except OSError as error:
        place = error.filename or path
        raise DataError(f"{place}: cannot be read ({error.strerror or error}).") from None
    found = lookup(digest, cache)
    if found is None:
        found = _convert(files, Path(path), digest, cache, progress)
        if stamps != _stamps(files):
            shutil.rmtree(found.folder, ignore_errors=True)
            raise DataError(f"{path}: a file changed while it was read. Try again.")
    return dataclasses.replace(found, name=_name(Path(path)), source=str(path))


@contextlib.contextmanager
def intact(dataset: Dataset) -> Iterator[None]:
    """Turn the failure to read a stored file into a sentence that names the entry to remove.

    An entry's files are complete when it is opened; a disk can still spoil them, and a person
    remove them, afterwards.

    Raises
    ------
    DataError
        If the body cannot read a file.
    """
    try:
        yield
    except (pa.ArrowException, duckdb.Error, OSError) as error:
        told = str(error).strip().partition("\n")[0]
        raise DataError(
            f"a file of the cache in {dataset.folder} cannot be read ({told}). "
            "Remove that folder and run again: it is made anew."
        ) from None


def connect() -> duckdb.DuckDBPyConnection:
    """Open a database in memory, for SQL over Parquet files, that never writes to stdout.

    Where Python was not started from a file (a notebook, ``python -c``) DuckDB would show the
    progress of a slow query there, among the results. In a notebook without ipywidgets it shows
    none, and refuses to be told so.
    """
    connection = duckdb.connect()
    with contextlib.suppress(duckdb.InvalidInputException):
        connection.execute("SET enable_progress_bar = false")
    return connection


def lookup(digest: str, cache: Path | None = None) -> Dataset | None:
    """Find a dataset in the cache; None if it is not there, or not complete.

    Parameters
    ----------
    digest : str
        What the dataset was stored under.
    cache : Path, optional
        Folder of the cache instead of `cache_root`.
    """
    folder = _entry(digest, cache)
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        complete = manifest["version"] == schema.VERSION and all(
            (folder / file).stat().st_size == size for file, size in manifest["files"].items()
        )
        if not complete:
            return None
        return Dataset(
            name=manifest["name"],
            simulated=manifest["simulated"],
            source=manifest["source"],
            digest=manifest["digest"],
            commit=manifest["commit"],
            folder=folder,
            parts=tuple(manifest["parts"]),
            notices=tuple(Notice(**notice) for notice in manifest["notices"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def store(
    parts: Mapping[str, pa.Table | pd.DataFrame | Iterable[pa.Table]],
    *,
    name: str,
    source: str,
    digest: str,
    simulated: bool = False,
    commit: str | None = None,
    notices: Iterable[Notice] = (),
    check: bool = False,
    cache: Path | None = None,
) -> Dataset:
    """Write tables into the cache and give the dataset back.

    The tables are trusted to hold what the format says (`schema.PARTS`): they come from code, and
    only unique keys are checked. Columns are put into the declared order and cast to the declared
    types (text: string, whole numbers: int32, ``rank`` and ranked ``K``: list<int32>, ``inK``:
    list<int8>, ``P`` and ``R`` and ``grade``: float64, a null grade null or NaN).

    Parameters
    ----------
    parts : mapping of str to Table, DataFrame or iterable of Table
        Parts by name. An iterable is written table by table, so that not all need be in memory.
    name, source, digest : str
        What the dataset is called, where it is from, and the key of the cache: the same digest
        must mean the same content, so it has to cover whatever the content depends on.
    simulated : bool, default False
        Whether the rows are made by a model.
    commit : str, optional
        Revision of a downloaded dataset.
    notices : iterable of Notice, optional
        What was accepted, converted or left out; read after the tables are written.
    check : bool, default False
        Whether `relations.RELATIONS` are looked at; each that breaks becomes a notice.
    cache : Path, optional
        Folder of the cache instead of `cache_root`.

    Returns
    -------
    Dataset
        The dataset, read back from the cache.

    Raises
    ------
    DataError
        If a unique key is there twice, or the cache cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> graded = pd.DataFrame({
    ...     "id": ["A-0", "A-0"], "E": "AML12v2", "Nc": 5, "Np": 2, "K": [1, 2],
    ...     "rank": [[1], [1, 4]], "inK": [[1], [1, 0]], "answer_ideal": "", "answer_topK": "",
    ...     "grade": [4, None], "P": [1.0, 0.5], "R": [0.5, 0.5]})
    >>> dataset = store({"graded": graded}, name="two", source="doctest", digest="0" * 64,
    ...                 simulated=True, cache=Path(folder.name))
    >>> dataset.scored()[["id", "K", "n_positives", "n_positives_2k", "pattern", "grade"]]
        id  K  n_positives  n_positives_2k pattern  grade
    0  A-0  1            1             1.0       1    4.0
    1  A-0  2            1             NaN      10    NaN
    >>> folder.cleanup()
    """
    with _new_entry(digest, cache) as folder:
        for part, tables in parts.items():
            if isinstance(tables, pd.DataFrame):
                tables = pa.Table.from_pandas(tables, preserve_index=False)
            if isinstance(tables, pa.Table):
                tables = [tables]
            _write(folder / f"{part}.parquet", (_cast(part, table) for table in tables))
        with connect() as connection:
            for part in parts:
                _refuse_duplicates(connection, folder, part, source)
                _refuse_two_notations(connection, folder, part, source)
            if "graded" in parts:
                _write_scored(connection, folder)
            said = [*notices, *(_broken_relations(connection, folder, parts) if check else ())]
        manifest = {
            "version": schema.VERSION,
            "name": name,
            "simulated": simulated,
            "source": source,
            "digest": digest,
            "commit": commit,
            "parts": [part for part in schema.PARTS if part in parts],
            "notices": [dataclasses.asdict(notice) for notice in said],
            "files": {file.name: file.stat().st_size for file in sorted(folder.iterdir())},
        }
        # in ASCII, for a path may hold bytes that are no text in any encoding
        (folder / _MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    stored = lookup(digest, cache)
    if stored is None:
        raise DataError(f"{_entry(digest, cache)} could not be read back after it was written.")
    return stored


# --- which files -----------------------------------------------------------------------------


def _find_files(path: Path) -> dict[str, Path]:
    """Find the file of each part."""
    if path.is_file():
        named = [part for part, declared in schema.PARTS.items() if _stem(path) == declared.stem]
        return {named[0] if named else "graded": path}
    if not path.is_dir():
        raise UsageError(
            f"there is no file or folder {path}. Give a folder with samples_graded.json and the "
            "other published files, or one graded file."
        )
    files = {}
    for part, declared in schema.PARTS.items():
        found = sorted(file for file in path.iterdir() if _stem(file) == declared.stem)
        known = [file for file in found if file.name.endswith(ENDINGS)]
        if len(known) > 1:
            names = ", ".join(file.name for file in known)
            raise DataError(f"{path}: {names} are one part in several files. Keep one of them.")
        if found and not known:
            raise DataError(
                f"{found[0]}: files of this kind are not read. Endings that are: "
                f"{', '.join(ENDINGS)}."
            )
        if known:
            files[part] = known[0]
    if not files:
        stems = ", ".join(declared.stem for declared in schema.PARTS.values())
        raise DataError(f"{path}: none of the published files is in this folder ({stems}).")
    return files


def _stem(path: Path) -> str:
    return path.name.partition(".")[0]


def _name(path: Path) -> str:
    return path.resolve().name if path.is_dir() else _stem(path)


def _stamps(files: Mapping[str, Path]) -> list[tuple[int, int]]:
    """Size and time of each file, which tell whether it was written to."""
    return [(file.stat().st_size, file.stat().st_mtime_ns) for file in files.values()]


def _digest(files: Mapping[str, Path]) -> str:
    """Hash part names and file contents, so that neither place nor name of a file matters."""
    total = hashlib.sha256()
    for part, path in files.items():
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        total.update(f"{part} {content}\n".encode())
    return total.hexdigest()


# --- the cache -------------------------------------------------------------------------------


def _entry(digest: str, cache: Path | None) -> Path:
    return (cache or cache_root()) / "datasets" / f"v{schema.VERSION}-{digest}"


@contextlib.contextmanager
def _new_entry(digest: str, cache: Path | None) -> Iterator[Path]:
    """Give a temporary folder that becomes the cache's entry if the body ends without error."""
    target = _entry(digest, cache)
    temporary: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(target.parent)
        temporary = _unused(target.parent, "new")
        temporary.mkdir()
        yield temporary
        _commit(temporary, target, digest, cache)
    except OSError as error:
        raise DataError(
            f"the cache in {target.parent} cannot be written ({error.strerror or error}). "
            f"Make room or give another folder by the environment variable {CACHE_VARIABLE}."
        ) from None
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def _commit(temporary: Path, target: Path, digest: str, cache: Path | None) -> None:
    """Rename a complete entry to its place, unless another process was first."""
    for file in temporary.iterdir():
        with file.open("r+b") as written:
            os.fsync(written.fileno())
    if target.exists() and lookup(digest, cache) is None:
        damaged = _unused(target.parent, "old")
        os.rename(target, damaged)
        shutil.rmtree(damaged, ignore_errors=True)
    try:
        os.rename(temporary, target)
    except OSError:
        if lookup(digest, cache) is None:
            raise


def _unused(folder: Path, kind: str) -> Path:
    return folder / f".{kind}-{os.getpid()}-{secrets.token_hex(4)}"


def _sweep(folder: Path) -> None:
    """Remove what processes that were killed left behind a day ago or more."""
    for path in folder.glob(".*-*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(path, ignore_errors=True)


def _cast(part: str, table: pa.Table) -> pa.Table:
    """Put a table into the declared column order and types; undeclared columns stay behind."""
    declared = {field.name: TYPES[field.kind] for field in schema.PARTS[part].fields}
    names = [name for name in declared if name in table.column_names]
    names += [name for name in table.column_names if name not in declared]
    table = table.select(names)
    types = [pa.field(name, declared.get(name, table.schema.field(name).type)) for name in names]
    return table.cast(pa.schema(types))


def _write(path: Path, tables: Iterable[pa.Table]) -> None:
    """Write tables as one Parquet file, in groups of `ROW_GROUP` rows or `GROUP_BYTES`."""
    writer: pq.ParquetWriter | None = None
    waiting: list[pa.Table] = []
    rows = size = 0
    try:
        for table in tables:
            writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd")
            waiting.append(table)
            rows, size = rows + table.num_rows, size + table.nbytes
            if rows >= ROW_GROUP or size >= GROUP_BYTES:
                writer.write_table(pa.concat_tables(waiting))
                waiting, rows, size = [], 0, 0
        if writer is not None and waiting:
            writer.write_table(pa.concat_tables(waiting))
    finally:
        if writer is not None:
            writer.close()


def _sql(connection: duckdb.DuckDBPyConnection, query: str, path: Path) -> pa.Table:
    return connection.sql(query, params=[str(path)]).to_arrow_table()


def _refuse_duplicates(
    connection: duckdb.DuckDBPyConnection, folder: Path, part: str, source: str
) -> None:
    """Refuse two rows with one unique key, naming both."""
    key = schema.PARTS[part].key
    if not key:
        return
    names = ", ".join(f'"{name}"' for name in key)
    twice = _sql(
        connection,
        f"""SELECT {names}, min(file_row_number) + 1 AS first, count(*) AS times
        FROM read_parquet(?, file_row_number=true) GROUP BY {names} HAVING count(*) > 1
        ORDER BY first LIMIT 1""",
        folder / f"{part}.parquet",
    )
    if twice.num_rows:
        row = twice.to_pylist()[0]
        values = ", ".join(f"{name} {row[name]}" for name in key)
        raise DataError(
            f"{source}: {schema.PARTS[part].stem} has {row['times']} records with {values}, the "
            f"first is record {row['first']}. The key must be unique: remove the surplus records."
        )


def _refuse_two_notations(
    connection: duckdb.DuckDBPyConnection, folder: Path, part: str, source: str
) -> None:
    """Refuse one embedding under two names: its rows would be told apart, and half chosen."""
    if "E" not in (field.name for field in schema.PARTS[part].fields):
        return
    query = "SELECT DISTINCT E FROM read_parquet(?)"
    codes = set(_sql(connection, query, folder / f"{part}.parquet")["E"].to_pylist())
    for code in sorted(codes):
        if (other := schema.embedding_code(code)) != code and other in codes:
            raise DataError(
                f"{source}: {schema.PARTS[part].stem} names one embedding both {code} and {other}. "
                "Write one of the two in every record."
            )


def _broken_relations(
    connection: duckdb.DuckDBPyConnection, folder: Path, parts: Iterable[str]
) -> Iterator[Notice]:
    """Tell of each relation of the format that does not hold, with its first row."""
    rows = relations.open_views(connection, {part: folder / f"{part}.parquet" for part in parts})
    for part, count, text in relations.broken(connection, rows):
        yield Notice(part, "relation", count, text)


def _write_scored(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Write the table behind `Dataset.scored`, joined with the rows of twice the K, in pieces."""
    graded = str(folder / "graded.parquet")
    values = """SELECT id, E, split_part(id, '-', 1) AS dataset,
        regexp_replace(id, '-[^-]*$', '') AS subset, array_to_string(inK, '') AS pattern
        FROM read_parquet(?)"""
    names = {
        column: pa.array(
            order(
                connection.sql(f"SELECT DISTINCT {column} FROM ({values})", params=[graded])
                .to_arrow_table()[column]
                .to_pylist()
            ),
            pa.string(),
        )
        for column, order in _CATEGORIES.items()
    }
    rows = connection.sql(
        """WITH graded AS (
            SELECT file_row_number AS row, id, E, Nc, Np, K, grade,
                CAST(list_sum(inK) AS INTEGER) AS n_positives, array_to_string(inK, '') AS pattern,
                rank
            FROM read_parquet(?, file_row_number=true))
        SELECT one.id, one.E, split_part(one.id, '-', 1) AS dataset,
            regexp_replace(one.id, '-[^-]*$', '') AS subset, one.Nc, one.Np, one.K,
            one.n_positives, CAST(two.n_positives AS DOUBLE) AS n_positives_2k, one.pattern,
            one.grade
        FROM graded AS one LEFT JOIN graded AS two
            ON one.id = two.id AND one.E = two.E AND one.Nc = two.Nc AND one.Np = two.Np
            AND 2 * one.K = two.K AND one.rank = two.rank[:one.K]
        ORDER BY one.row""",
        params=[graded],
    ).to_arrow_reader(_PIECE)
    kinds = [
        pa.field(field.name, pa.dictionary(pa.int32(), pa.string()))
        if field.name in names
        else field
        for field in rows.schema
    ]
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_file(folder / _SCORED, pa.schema(kinds), options=options) as file:
        for batch in rows:
            columns = [
                pa.DictionaryArray.from_arrays(pc.index_in(column, names[name]), names[name])
                if name in names
                else column
                for name, column in zip(batch.schema.names, batch.columns, strict=True)
            ]
            file.write_batch(pa.RecordBatch.from_arrays(columns, schema=pa.schema(kinds)))


def _notations(name: str) -> tuple[str, ...]:
    return name, schema.embedding_code(name), schema.embedding_label(name)


def _as_is(name: str) -> tuple[str, ...]:
    return (name,)


def _chosen(
    names: Iterable[str],
    there: Iterable[str],
    what: str,
    spellings: Callable[[str], tuple[str, ...]],
) -> list[str]:
    """Turn the asked names into those of the data; refuse what is not there."""
    present = list(there)
    chosen = []
    for name in [names] if isinstance(names, str) else names:
        found = [spelling for spelling in spellings(name) if spelling in present]
        if not found:
            raise UsageError(
                f"no {what} {name!r} in this dataset; it has {', '.join(sorted(present))}."
            )
        chosen.append(found[0])
    return chosen


# --- conversion ------------------------------------------------------------------------------


def _convert(
    files: Mapping[str, Path], path: Path, digest: str, cache: Path | None, progress: bool
) -> Dataset:
    tally = Tally()
    for part in schema.PARTS:
        if part not in files and part != "controls":
            tally.add(part, "missing", f"there is no {schema.PARTS[part].stem} file")
    total = sum(file.stat().st_size for file in files.values())
    with tqdm(
        total=total, unit="B", unit_scale=True, desc=_name(path), disable=None if progress else True
    ) as bar:
        return store(
            {part: read_tables(part, file, tally, bar.update) for part, file in files.items()},
            name=_name(path),
            source=str(path),
            digest=digest,
            notices=tally,
            check=True,
            cache=cache,
        )
