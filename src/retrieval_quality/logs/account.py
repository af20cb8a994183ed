"""What a reading noticed, left out and refuses: counted, with the places, said once."""

from __future__ import annotations

from dataclasses import dataclass, field

from retrieval_quality.errors import DataError
from retrieval_quality.text import visible

SHOWN = 5
"""Places that a notice names."""
MOST = 20
"""Faults that are collected before a reading gives up."""
LONGEST = 60
"""Characters of somebody's text that a message quotes."""


def quote(value: object) -> str:
    r"""Quote a value of a log in a message: one short line, nothing that a terminal would obey.

    Examples
    --------
    >>> quote("nan"), quote("a" + chr(27) + "[0m")
    ("'nan'", "'a\\x1b[0m'")
    """
    text = visible(str(value)).replace("\n", "\\n").replace("\t", "\\t")
    cut = text if len(text) <= LONGEST else text[:LONGEST] + "…"
    return f"'{cut}'" if isinstance(value, str) else cut


@dataclass
class Notice:
    """Something that was accepted, converted or left out: how often, and where first."""

    kind: str
    count: int = 0
    places: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        if not self.places:
            return f"{self.kind}: {self.count}"
        more = ", …" if self.count > len(self.places) else ""
        return f"{self.kind}: {self.count} ({', '.join(self.places)}{more})"


class Account:
    """Keeps the notices and the faults of one reading.

    Parameters
    ----------
    source : str
        Name of the file or folder, for messages.
    lenient : bool
        Leave out what is broken and count it, instead of refusing the whole.
    """

    def __init__(self, source: str, lenient: bool = False) -> None:
        self.source = source
        self.lenient = lenient
        self.notices: dict[str, Notice] = {}
        self.faults: list[str] = []
        self.evaluations: dict[str, int] = {}

    def note(self, kind: str, place: str = "", count: int = 1) -> None:
        """Count something; `place` says where."""
        notice = self.notices.setdefault(kind, Notice(kind))
        notice.count += count
        if place and len(notice.places) < SHOWN and place not in notice.places:
            notice.places.append(visible(place))

    def fault(self, place: str, field: str, what: str, source: str = "") -> None:
        """Record what is wrong at a place; the row it belongs to gives no result.

        Raises
        ------
        DataError
            There are too many by now.
        """
        said = ", ".join(part for part in (source, place, field) if part)
        if self.lenient:
            self.note("rows left out as broken", f"{said}: {what}")
            return
        self.faults.append(f"{visible(said)}: {what}" if said else what)
        if len(self.faults) >= MOST:
            self.settle()

    def count(self, kind: str) -> int:
        """How often something was noticed."""
        return self.notices[kind].count if kind in self.notices else 0

    def grade(self, found: dict[str, float], name: str | None) -> float | None:
        """Take the grade among the evaluations of a row: the one of that name, or the only one.

        Parameters
        ----------
        found : dict
            Evaluations with a number.
        name : str or None
            The one that is wanted; None takes an evaluation only while all rows have that one
            and no other.
        """
        for one in found:
            self.evaluations[one] = self.evaluations.get(one, 0) + 1
        if name is not None:
            return found.get(name)
        if len(self.evaluations) == 1 and len(found) == 1:
            return next(iter(found.values()))
        if found:
            names = ", ".join(quote(one) for one in list(self.evaluations)[:SHOWN])
            self.note(f"rows without a grade, as there are several evaluations ({names}; --grade)")
        return None

    def settle(self) -> None:
        """Refuse the source if anything in it is wrong.

        Raises
        ------
        DataError
            Names the file and every place.
        """
        if self.faults:
            more = " (and perhaps more)" if len(self.faults) >= MOST else ""
            raise DataError(
                f"{self.source}: {'; '.join(self.faults)}{more}. "
                "Mend the file, or leave broken rows out and counted with --skip-broken."
            )

    def as_list(self) -> list[dict[str, object]]:
        """Return the notices for a JSON file."""
        return [
            {"kind": one.kind, "count": one.count, "places": one.places}
            for one in self.notices.values()
        ]
