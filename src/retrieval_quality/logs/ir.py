"""T, T_u and the paper's nDCG as measures of ir_measures, and of what calls it (PyTerrier).

Importing this module registers them; then ``ir_measures.parse_measure("T(alpha=0.5)@10")`` and
``pt.Experiment(..., [T(alpha=0.5) @ 10])`` know them::

    import ir_measures
    from retrieval_quality.logs.ir import T, Tu, nDCG_paper

    ir_measures.calc_aggregate([T(alpha=0.5) @ 10, nDCG_paper @ 10], qrels, run)

K is what was retrieved, at most the cut-off. A judged query for which nothing was retrieved has no
T: its value is NaN, where ir_measures would take 0, and the mean leaves it out; `undefined` counts
them. T_u and nDCG of it are 0. Needs ir_measures: ``pip install retrieval-quality[logs]``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

try:
    import ir_measures
    from ir_measures import Evaluator, Metric, Provider
    from ir_measures.measures import base
    from ir_measures.providers.base import Any as AnyValue
except ImportError as error:  # pragma: no cover
    raise ImportError(
        "retrieval_quality.logs.ir needs ir_measures: pip install retrieval-quality[logs]"
    ) from error

from retrieval_quality import measures


class DefinedMean(base.Agg):
    """Mean of the values that are defined; NaN where none is.

    `undefined` counts the others.
    """

    def __init__(self) -> None:
        self.total = 0.0
        self.count = 0
        self.undefined = 0

    def add(self, value: float) -> None:
        """Take a value in, or count it as undefined."""
        if value is None or math.isnan(value):
            self.undefined += 1
        else:
            self.total += float(value)
            self.count += 1

    def result(self) -> float:
        """Return the mean of what is defined."""
        return self.total / self.count if self.count else math.nan


class _Ours(base.Measure):
    """What the three have in common."""

    DEFAULT = math.nan

    def aggregator(self) -> DefinedMean:
        return DefinedMean()


class _T(_Ours):
    """Positives found less the share of negatives, T (arXiv 2512.20854, equation 3)."""

    __name__ = "T"
    NAME = __name__
    PRETTY_NAME = "T"
    SHORT_DESC = "Positives found less the share of negatives; needs no count of all relevant."
    SUPPORTED_PARAMS = {  # noqa: RUF012
        "cutoff": base.ParamInfo(dtype=int, required=False, desc="ranking cutoff threshold"),
        "alpha": base.ParamInfo(
            dtype=(int, float), default=0.5, desc="weight of the negatives, 0 to 1"
        ),
        "rel": base.ParamInfo(dtype=int, default=1, desc="minimum relevance score"),
    }


class _Tu(_Ours):
    """T without its normalisation by K (equation 4); 0 where nothing was retrieved."""

    __name__ = "T_u"
    NAME = __name__
    PRETTY_NAME = "T_u"
    SHORT_DESC = "Positives less negatives, weighted; T without its normalisation."
    SUPPORTED_PARAMS = _T.SUPPORTED_PARAMS
    DEFAULT = 0.0


class _Ndcg(_Ours):
    """The paper's nDCG: its ideal ranks the retrieved positives first."""

    __name__ = "nDCG_paper"
    NAME = __name__
    PRETTY_NAME = "nDCG of the retrieved"
    SHORT_DESC = "DCG over that of the same documents with the positives first."
    SUPPORTED_PARAMS = {  # noqa: RUF012
        "cutoff": base.ParamInfo(dtype=int, required=False, desc="ranking cutoff threshold"),
        "rel": base.ParamInfo(dtype=int, default=1, desc="minimum relevance score"),
    }
    DEFAULT = 0.0


T = _T()
Tu = _Tu()
nDCG_paper = _Ndcg()  # noqa: N816
for _one in (T, Tu, nDCG_paper):
    if _one.NAME not in base.registry:
        base.register(_one)


class _Provider(Provider):
    """Computes the three for ir_measures."""

    NAME = "retrieval_quality"
    SUPPORTED_MEASURES = [  # noqa: RUF012
        _T(cutoff=AnyValue(), alpha=AnyValue(), rel=AnyValue()),
        _Tu(cutoff=AnyValue(), alpha=AnyValue(), rel=AnyValue()),
        _Ndcg(cutoff=AnyValue(), rel=AnyValue()),
    ]

    def _evaluator(self, measures: Iterable[Any], qrels: Any) -> Evaluator:
        wanted = list(measures)
        return _Evaluator(wanted, ir_measures.util.QrelsConverter(qrels).as_dict_of_dict())

    def is_available(self) -> bool:
        return True


class _Evaluator(Evaluator):
    """Holds the qrels."""

    def __init__(self, wanted: Any, qrels: dict[str, dict[str, int]]) -> None:
        super().__init__(wanted, set(qrels))
        self.qrels = qrels

    def _iter_calc(self, run: Any) -> Iterator[Metric]:
        lists = ir_measures.util.RunConverter(run).as_dict_of_dict()
        for query in self.qrels:
            scores = lists.get(query, {})
            order = sorted(scores, reverse=True)
            order.sort(key=lambda one: -scores[one])
            for wanted in self.measures:
                yield Metric(
                    query_id=query,
                    measure=wanted,
                    value=value(wanted, order, self.qrels[query]),
                )


def value(measure: Any, documents: list[str], labels: dict[str, int]) -> float:
    """Compute one measure of a ranked list.

    Parameters
    ----------
    measure : ir_measures measure
        T, T_u or nDCG_paper with its parameters.
    documents : list of str
        In rank order.
    labels : dict
        Relevance by document.

    Returns
    -------
    float
        NaN for T where nothing was retrieved.

    Examples
    --------
    >>> value(T(alpha=0.5) @ 2, ["a", "b", "c"], {"a": 1})
    0.25
    """
    cutoff = measure.params.get("cutoff")
    top = documents[:cutoff]
    least = measure["rel"]
    pattern = "".join("1" if labels.get(one, 0) >= least else "0" for one in top)
    if isinstance(measure, _Ndcg):
        return float(measures.ndcg(pattern))
    alpha = float(measure["alpha"])
    if isinstance(measure, _Tu):
        return float(measures.tu_measure(pattern.count("1"), len(top), alpha))
    if not top:
        return math.nan
    return float(measures.t_measure(pattern.count("1"), len(top), alpha))


def undefined(metrics: Iterable[Any]) -> dict[str, int]:
    """Count the queries without a value, by measure.

    Parameters
    ----------
    metrics : iterable of ir_measures Metric
        From ``ir_measures.iter_calc``.

    Examples
    --------
    >>> qrels = [ir_measures.Qrel("1", "a", 1), ir_measures.Qrel("2", "a", 1)]
    >>> run = [ir_measures.ScoredDoc("1", "a", 2.0)]
    >>> undefined(ir_measures.iter_calc([T @ 5], qrels, run))
    {'T@5': 1}
    """
    found: dict[str, int] = {}
    for metric in metrics:
        name = str(metric.measure)
        found[name] = found.get(name, 0) + math.isnan(metric.value)
    return found


provider = _Provider()
if provider.NAME not in ir_measures.providers.registry:
    ir_measures.providers.register(provider)
    ir_measures.DefaultPipeline.providers.append(provider)
