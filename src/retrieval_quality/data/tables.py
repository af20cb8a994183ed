"""Records -> checked Arrow tables: every key, type, length and range that a record promises.

What would make an analysis wrong is refused with file, record and id; what can be read in one way
only (a grade written as 4.0 or "4", a key that is not part of the format) is read and counted.
Whole batches are checked by their set of types and as arrays; only where that fails is the record
looked for.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from retrieval_quality.data import schema
from retrieval_quality.data.records import Batch, read_batches
from retrieval_quality.errors import DataError

TYPES: dict[str, pa.DataType] = {
    "text": pa.string(),
    "texts": pa.list_(pa.string()),
    "whole": pa.int32(),
    "wholes": pa.list_(pa.int32()),
    "bits": pa.list_(pa.int8()),
    "number": pa.float64(),
    "numbers": pa.list_(pa.float64()),
    "grade": pa.float64(),
}
"""Arrow type of each kind of value in `schema.Field`."""

_ELEMENTS = {"texts": "text", "wholes": "whole", "bits": "bit", "numbers": "number"}
_WANTED = {
    "text": "text",
    "whole": f"a whole number from 0 to {schema.LARGEST}",
    "bit": "0 or 1",
    "number": "a finite number",
}


@dataclass(frozen=True)
class Notice:
    """What was accepted, converted or left out, and how often.

    Attributes
    ----------
    part : str
        Part of the dataset.
    kind : str
        Short name: ``null``, ``converted``, ``left out``, ``json lines``, ``missing``,
        ``relation``, ``one grader``, ``no LLM grade``, ``not matched``, ``miniature``.
    count : int
        Number of values or records.
    text : str
        One sentence for a person.
    """

    part: str
    kind: str
    count: int
    text: str


class _BadValueError(Exception):
    """A value that is refused: index of its record in the batch, and what is wrong."""

    def __init__(self, index: int, problem: str) -> None:
        super().__init__(problem)
        self.index, self.problem = index, problem


class Tally:
    """Counts of what is accepted with a notice; iterating gives the notices."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, str]] = Counter()

    def add(self, part: str, kind: str, text: str, count: int = 1) -> None:
        """Count something; the same part, kind and text add up to one notice."""
        if count:
            self._counts[part, kind, text] += count

    def __iter__(self) -> Iterator[Notice]:
        for (part, kind, text), count in self._counts.items():
            yield Notice(part, kind, count, text)


def read_tables(
    part: str, path: Path, tally: Tally, on_bytes: Callable[[int], object] = lambda count: None
) -> Iterator[pa.Table]:
    """Yield a file of the published format as checked tables, in the order of its records.

    Parameters
    ----------
    part : str
        Which of `schema.PARTS` the file is.
    path : Path
        The file.
    tally : Tally
        Counts what is accepted with a notice.
    on_bytes : callable, optional
        Told how many bytes each step has read.

    Yields
    ------
    Table
        The declared columns with the types of `TYPES`, and in a part that keeps other keys these.

    Raises
    ------
    DataError
        At the first record that is refused: names file, record and id, and what is wrong.
    """

    def on_lines() -> None:
        if path.name.endswith((".json", ".json.gz")):
            tally.add(part, "json lines", f"{path.name} holds one record a line and was read so")

    batches = read_batches(path, on_bytes=on_bytes, on_lines=on_lines)
    if schema.PARTS[part].keeps_others:
        yield _whole_table(part, list(batches), tally)
    else:
        for batch in batches:
            yield _declared_table(part, batch, _columns(part, batch, tally), tally)


def _columns(part: str, batch: Batch, tally: Tally) -> dict[str, Sequence[Any]]:
    """Turn records into columns; refuse what is no object or has not the keys it must have."""
    records = batch.records
    if set(map(type, records)) != {dict}:
        index = next(i for i, record in enumerate(records) if type(record) is not dict)
        raise DataError(
            f"{batch.where(index)}: is {_show(records[index])}, not an object with keys."
        )
    declared = schema.PARTS[part]
    shapes = Counter(map(tuple, records))
    for shape in shapes:
        if problem := _key_problem(declared, shape):
            index = next(i for i, record in enumerate(records) if tuple(record) == shape)
            raise _error(batch, index, problem)
    if len(shapes) == 1:
        columns = dict(zip(shape, zip(*map(dict.values, records), strict=True), strict=True))
    else:
        names = dict.fromkeys(chain.from_iterable(shapes))
        columns = {name: [record.get(name) for record in records] for name in names}
    if not declared.keeps_others:
        for name in columns.keys() - {field.name for field in declared.fields}:
            count = sum(times for shape, times in shapes.items() if name in shape)
            text = f"the key {name!r} is not part of the format and was left out"
            tally.add(part, "left out", text, count)
    return columns


def _key_problem(declared: schema.Part, shape: tuple[str, ...]) -> str | None:
    known = {field.name.lower(): field.name for field in declared.fields}
    folded: dict[str, str] = {}
    for name in shape:
        other = folded.setdefault(name.lower(), name)
        if other != name:
            return f"has both {other!r} and {name!r}; keys that differ only in case are refused"
        if known.get(name.lower(), name) != name:
            return f"has {name!r} where {known[name.lower()]!r} is expected; case counts"
    missing = [name for name in declared.required if name not in shape]
    return f"the key {missing[0]!r} is missing" if missing else None


def _error(batch: Batch, index: int, problem: str) -> DataError:
    sample = batch.records[index].get("id")
    named = f", id {sample!r}" if isinstance(sample, str) else ""
    return DataError(f"{batch.where(index)}{named}: {problem}.")


def _show(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _declared_table(
    part: str, batch: Batch, columns: Mapping[str, Sequence[Any]], tally: Tally
) -> pa.Table:
    """Check and convert the declared keys of a batch."""
    absent = [None] * len(batch.records)
    arrays: dict[str, pa.Array] = {}
    try:
        for field in schema.PARTS[part].fields:
            values = columns.get(field.name, absent)
            if field.kind == "grade":
                arrays[field.name] = _grade_column(part, field.name, values, tally)
            elif field.kind in _ELEMENTS:
                arrays[field.name] = _list_column(field, values)
            else:
                arrays[field.name] = _scalar_column(part, field, values, tally)
        _CHECKS[part](arrays)
    except _BadValueError as bad:
        raise _error(batch, bad.index, bad.problem) from None
    return pa.table(arrays)


def _scalar_column(part: str, field: schema.Field, values: Sequence[Any], tally: Tally) -> pa.Array:
    nulls = values.count(None) if field.nullable else 0
    present = [value for value in values if value is not None] if nulls else values
    if not _all_valid(field.kind, present):
        for index, value in enumerate(values):
            if not (field.nullable and value is None) and not _all_valid(field.kind, [value]):
                wanted = _WANTED[field.kind]
                raise _BadValueError(index, f"{field.name} is {_show(value)}, not {wanted}")
    if field.required:
        tally.add(part, "null", f"{field.name} is null", nulls)
    return pa.array(values, TYPES[field.kind])


def _list_column(field: schema.Field, values: Sequence[Any]) -> pa.Array:
    if set(map(type, values)) != {list}:
        index = next(i for i, value in enumerate(values) if type(value) is not list)
        raise _BadValueError(index, f"{field.name} is {_show(values[index])}, not a list")
    flat = list(chain.from_iterable(values))
    kind = _ELEMENTS[field.kind]
    if not _all_valid(kind, flat):
        for index, value in enumerate(values):
            for item in value:
                if not _all_valid(kind, [item]):
                    problem = f"{field.name} contains {_show(item)}, not {_WANTED[kind]}"
                    raise _BadValueError(index, problem)
    ends = np.cumsum([0, *map(len, values)], dtype=np.int32)
    return pa.ListArray.from_arrays(ends, pa.array(flat, TYPES[field.kind].value_type))


def _all_valid(kind: str, values: Sequence[Any]) -> bool:
    """Say whether all values are of a kind; True and False are no numbers."""
    types = set(map(type, values))
    if kind == "text":
        return types <= {str}
    if kind == "number":
        try:
            return types <= {int, float} and bool(np.isfinite(np.array(values, dtype=float)).all())
        except OverflowError:  # a whole number beyond the largest double
            return False
    highest = 1 if kind == "bit" else schema.LARGEST
    return types <= {int} and (not values or (min(values) >= 0 and max(values) <= highest))


def _grade_column(part: str, name: str, values: Sequence[Any], tally: Tally) -> pa.Array:
    """Convert grades: whole numbers 1-5 and null, also written as 4.0 or "4"."""
    if set(map(type, values)) == {int} and min(values) >= 1 and max(values) <= 5:
        return pa.array(values, pa.float64())
    grades = []
    for index, value in enumerate(values):
        grade = _grade(value)
        if grade == 0:
            wanted = "grades are whole numbers from 1 to 5, or null"
            raise _BadValueError(index, f"{name} is {_show(value)}; {wanted}")
        if grade is None:
            tally.add(part, "null", f"{name} is null")
        elif type(value) is not int:
            form = "text" if isinstance(value, str) else "a decimal number"
            tally.add(part, "converted", f"{name} is written as {form}")
        grades.append(grade)
    return pa.array(grades, pa.float64())


def _grade(value: object) -> int | None:
    """Read one grade; None if null, 0 if it is no grade."""
    if value is None or (type(value) is float and np.isnan(value)):
        return None
    if isinstance(value, str) and re.fullmatch(r"\s*[1-5](\.0+)?\s*", value):
        return int(float(value))
    if type(value) in (int, float, Decimal) and value in schema.GRADES:
        return int(value)  # type: ignore[call-overload]
    return 0


# --- what must hold within a record ----------------------------------------------------------


def _require(holds: np.ndarray, problem: Callable[[int], str]) -> None:
    """Refuse the first record for which a condition does not hold."""
    if not holds.all():
        index = int(np.argmin(holds))
        raise _BadValueError(index, problem(index))


def _flat(column: pa.ListArray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lengths of the lists, their elements one after the other, and the list of each element."""
    lengths = column.value_lengths().to_numpy().astype(np.int64)
    return lengths, column.flatten().to_numpy(), np.repeat(np.arange(len(lengths)), lengths)


def _all_of(condition: np.ndarray, row: np.ndarray, rows: int) -> np.ndarray:
    """Say of each list whether a condition holds for all its elements."""
    holds = np.ones(rows, dtype=bool)
    holds[row[~condition]] = False
    return holds


def _check_texts(columns: Mapping[str, pa.Array]) -> None:
    ids = columns["id"]
    _require(
        pc.find_substring(ids, "-").to_numpy() > 0,
        lambda i: f"id is {_show(ids[i].as_py())}, not a subset name, a hyphen and a number",
    )


def _check_candidates(columns: Mapping[str, pa.Array]) -> tuple[np.ndarray, np.ndarray]:
    _check_texts(columns)
    blank = pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(columns["E"])), 0).to_numpy(False)
    _require(~blank, lambda i: "E is blank; the embedding needs a name")
    n_candidates, n_positives = columns["Nc"].to_numpy(), columns["Np"].to_numpy()
    _require(n_positives >= 1, lambda i: "Np is 0; without a positive there is nothing to find")
    _require(
        n_positives <= n_candidates,
        lambda i: f"Np is {n_positives[i]}, more than the Nc = {n_candidates[i]} candidates",
    )
    return n_candidates, n_positives


def _check_ranked(columns: Mapping[str, pa.Array]) -> None:
    n_candidates, _ = _check_candidates(columns)
    rows = len(n_candidates)
    n_tops, tops, row = _flat(columns["K"])
    for name in ("P", "R"):
        lengths = _flat(columns[name])[0]
        _require(
            lengths == n_tops,
            lambda i, name=name, lengths=lengths: (  # type: ignore[misc]
                f"{name} has {lengths[i]} values for {n_tops[i]} values of K"
            ),
        )
    ascending = np.ones(len(tops), dtype=bool)
    ascending[1:] = (np.diff(tops) > 0) | (np.diff(row) > 0)
    _require(_all_of(ascending, row, rows), lambda i: "K is not ascending")
    _require(
        _all_of((tops >= 1) & (tops <= n_candidates[row]), row, rows),
        lambda i: f"K contains a number outside 1 to Nc = {n_candidates[i]}",
    )
    lengths = _check_rank(columns, n_candidates)
    _require(
        lengths == n_candidates,
        lambda i: f"rank has {lengths[i]} places for Nc = {n_candidates[i]} candidates",
    )


def _check_rank(columns: Mapping[str, pa.Array], n_candidates: np.ndarray) -> np.ndarray:
    lengths, ranks, row = _flat(columns["rank"])
    _require(
        _all_of(ranks < n_candidates[row], row, len(n_candidates)),
        lambda i: f"rank contains an index that is not below Nc = {n_candidates[i]}",
    )
    pairs = (row.astype(np.int64) << 31) | ranks
    order = np.argsort(pairs, kind="stable")
    again = np.zeros(len(pairs), dtype=bool)
    again[order[1:]] = np.diff(pairs[order]) == 0
    _require(
        _all_of(~again, row, len(n_candidates)),
        lambda i: "rank contains one candidate twice",
    )
    return lengths


def _check_top(columns: Mapping[str, pa.Array], n_positives: np.ndarray) -> None:
    """Check that the lists of a graded row have K places and not too many positives."""
    top_k = columns["K"].to_numpy()
    for name in ("rank", "inK"):
        lengths = _flat(columns[name])[0]
        _require(
            lengths == top_k,
            lambda i, name=name, lengths=lengths: (  # type: ignore[misc]
                f"{name} has {lengths[i]} places, and K is {top_k[i]}"
            ),
        )
    _, found, row = _flat(columns["inK"])
    sums = np.bincount(row, weights=found, minlength=len(top_k)).astype(np.int64)
    _require(
        sums <= n_positives,
        lambda i: f"inK has {sums[i]} positives, more than there are (Np = {n_positives[i]})",
    )


def _check_graded(columns: Mapping[str, pa.Array]) -> None:
    n_candidates, n_positives = _check_candidates(columns)
    top_k = columns["K"].to_numpy()
    _require(
        (top_k >= 1) & (top_k <= n_candidates),
        lambda i: f"K is {top_k[i]}, not from 1 to Nc = {n_candidates[i]}",
    )
    _check_top(columns, n_positives)
    _check_rank(columns, n_candidates)
    _, ranks, row = _flat(columns["rank"])
    found = _flat(columns["inK"])[1]
    _require(
        _all_of((ranks < n_positives[row]) == (found == 1), row, len(top_k)),
        lambda i: (
            f"inK contradicts rank: the indices below Np = {n_positives[i]} are the positives"
        ),
    )


def _check_controls(columns: Mapping[str, pa.Array]) -> None:
    _check_texts(columns)
    _check_top(columns, columns["Np"].to_numpy())


_CHECKS: dict[str, Callable[[Mapping[str, pa.Array]], None]] = {
    "texts": _check_texts,
    "ranked": _check_ranked,
    "graded": _check_graded,
    "human": lambda columns: None,
    "controls": _check_controls,
}


# --- files of which every key is kept --------------------------------------------------------


def _whole_table(part: str, batches: list[Batch], tally: Tally) -> pa.Table:
    """Convert a file whose other keys are kept, whatever they are; it is small."""
    declared = {field.name for field in schema.PARTS[part].fields}
    if part == "human":
        _check_human(batches, tally)
    checked = [
        _declared_table(part, batch, _columns(part, batch, tally), tally) for batch in batches
    ]
    table = pa.concat_tables(checked)
    columns = {name: table[name] for name in table.column_names}
    records = list(chain.from_iterable(batch.records for batch in batches))
    for name in dict.fromkeys(chain.from_iterable(records)):
        if part == "human" and (name == "grade" or name.startswith(schema.HUMAN_GRADE_PREFIX)):
            columns[name] = _human_grades(name, batches, tally)
        elif name not in declared:
            columns[name] = _free_column(part, name, [r.get(name) for r in records], tally)
    return pa.table(columns)


def _check_human(batches: list[Batch], tally: Tally) -> None:
    """Refuse a file of human grades without any; tell what cannot be said from it."""
    prefix = schema.HUMAN_GRADE_PREFIX
    names: set[str] = set()
    for batch in batches:
        for index, record in enumerate(batch.records):
            for name in record if type(record) is dict else ():
                if name.lower().startswith(prefix) and not name.startswith(prefix):
                    raise _error(batch, index, f"has {name!r}; human grades are {prefix!r}...")
                names.add(name)
    people = sorted(name for name in names if name.startswith(prefix))
    if not people:
        raise _error(batches[0], 0, f"no key begins with {prefix!r}, so there are no human grades")
    rows = sum(len(batch.records) for batch in batches)
    if len(people) == 1:
        text = f"only {people[0]} is there: how far people agree with each other cannot be said"
        tally.add("human", "one grader", text, rows)
    if "grade" not in names:
        text = "the LLM's grade is not beside those of people: how far they agree cannot be said"
        tally.add("human", "no LLM grade", text, rows)
    if missing := [name for name in schema.PARTS["graded"].key if name not in names]:
        text = f"there is no {', '.join(missing)}: the grades cannot be matched with graded rows"
        tally.add("human", "not matched", text, rows)


def _human_grades(name: str, batches: list[Batch], tally: Tally) -> pa.Array:
    arrays = []
    for batch in batches:
        values = [record.get(name) for record in batch.records]
        try:
            arrays.append(_grade_column("human", name, values, tally))
        except _BadValueError as bad:
            raise _error(batch, bad.index, bad.problem) from None
    return pa.chunked_array(arrays)


def _free_column(part: str, name: str, values: list[Any], tally: Tally) -> pa.Array:
    """Keep an undeclared key: with its type where all values have one, else as JSON text."""
    types = {type(value) for value in values} - {type(None)}
    if len(types) <= 1 or types <= {int, float}:
        with contextlib.suppress(pa.ArrowException, OverflowError):
            return pa.array(values)
    tally.add(part, "converted", f"{name} has values of several types and was kept as JSON text")
    return pa.array([None if value is None else json.dumps(value, default=str) for value in values])
