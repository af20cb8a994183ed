"""Which correlations are meant: the arguments that travel together through the engine, as one."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Selection:
    """Which rows, cut how, and which measures are correlated with what, by which coefficients.

    A record, so that it can be the key of what was worked out before.

    Attributes
    ----------
    segmentation : {"ratio", "narrow-wide"}
        How rows are cut into segments.
    min_samples : int, optional
        Rows that a segment must have; the published number of the segmentation when left out.
    measures : tuple of str
        Names in `measures.MEASURES`.
    coefficients : tuple of str
        Keys of `parameters.COEFFICIENTS`.
    alpha : {"published", "exact"} or float
        At which α measures that have one are taken.
    require_2k : bool
        Whether only rows whose 2K row exists count.
    by : str
        Column that rows are grouped by beside the embedding.
    grade : str
        Column that is correlated with.

    Examples
    --------
    >>> Selection(measures=("T",), alpha=0.5).options()["alpha"]
    0.5
    """

    segmentation: str = "ratio"
    min_samples: int | None = None
    measures: tuple[str, ...] = ("F", "nDCG", "T")
    coefficients: tuple[str, ...] = ("spearman",)
    alpha: str | float = "published"
    require_2k: bool = False
    by: str = "dataset"
    grade: str = "grade"

    def options(self) -> dict[str, Any]:
        """Give it as the named arguments of `correlation.correlate`."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
