"""The value of knowing: what N_p, the order, the embedding and the top 2K are worth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd

from retrieval_quality.exhibits.cells import scored_rows
from retrieval_quality.exhibits.exhibit import Result, StudyTable
from retrieval_quality.exhibits.ranges import COLUMNS, RangeStudy, StudyOfCells
from retrieval_quality.exhibits.words import counted, measure_name, number, with_interval
from retrieval_quality.parameters import Parameters
from retrieval_quality.statistics import value, value_ceiling, value_choice, value_judges

if TYPE_CHECKING:
    from retrieval_quality.data.dataset import Dataset

KNOWN = {
    "n_relevant": "N_p",
    "order": "the order",
    "embedding": "the embedding",
    "top_2k": "the positives of the top 2K",
}
"""The quantities, as they are called in sentences and legends."""

UNITS = {"log_loss": "nats a row", "rank_correlation": "in rank correlation"}
_POWER = 1.959964 + 0.841621
"""Standard errors that a gain must be away from 0 to be told in 80% of samples."""


@lru_cache(maxsize=2)
def _gains(
    dataset: Dataset, embeddings: tuple[str, ...], datasets: tuple[str, ...], seed: int
) -> pd.DataFrame:
    return value.gains(_fitted(dataset, embeddings, datasets, seed))


@lru_cache(maxsize=1)
def _fitted(
    dataset: Dataset, embeddings: tuple[str, ...], datasets: tuple[str, ...], seed: int
) -> list[value.Fitted]:
    rows = scored_rows(dataset, Parameters(embeddings=embeddings, datasets=datasets))
    return value.fit(rows, seed=seed)


def fitted(dataset: Dataset, run: Parameters) -> list[value.Fitted]:
    """Give the predictions of a run, fitted once in a process."""
    return _fitted(dataset, run.embeddings, run.datasets, run.seed)


def gains(dataset: Dataset, run: Parameters) -> pd.DataFrame:
    """Give the gains of a run, from `value.gains`, worked out once in a process."""
    return _gains(dataset, run.embeddings, run.datasets, run.seed)


class _Unsegmented:
    """No segment is left out for its size: the models see all rows."""

    words: str
    uses: ClassVar[tuple[str, ...]] = ("embeddings", "datasets")

    def caption(self, parameters: Parameters | None = None) -> str:
        """Say what is drawn."""
        return self.words


@dataclass(frozen=True)
class ValueGain(_Unsegmented, RangeStudy):
    """Gain of each quantity in one score, by dataset and range."""

    score: str = "log_loss"

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        found = gains(dataset, run)
        found = found[found["score"] == self.score]
        shown = found[(found["dataset"] != value.ALL) & (found["range"] != value.ALL)]
        shown = shown[shown["n"] > 0]
        numbers = shown.rename(
            columns={"dataset": "panel", "range": "position", "quantity": "series", "gain": "value"}
        ).assign(cells=1)
        numbers["series"] = numbers["series"].map(KNOWN)
        whole = found[(found["dataset"] == value.ALL) & (found["range"] == value.ALL)]
        notes = [_sentence(row, self.score) for _, row in whole.iterrows()]
        return self._shown(dataset, run, numbers[list(COLUMNS)], notes)


def _sentence(row: pd.Series, score: str) -> str:
    what = KNOWN[row["quantity"]]
    if math.isnan(row["gain"]):
        return f"What {what} is worth is undefined: {row['reason']}."
    gain = with_interval(row["gain"], row["low"], row["high"])
    if math.isnan(row["low"]):
        verdict = "has no interval"
    elif row["low"] > 0:
        verdict = "lies above 0"
    elif row["high"] < 0:
        verdict = "lies below 0: the prediction with it is worse, for it has more to learn"
    else:
        verdict = "holds 0: these rows cannot tell"
    return (
        f"Over all datasets and ratios, to know {what} is worth {gain} {UNITS[score]} "
        f"({row['n']:,} rows, {row['queries']:,} queries); the interval {verdict}."
    )


@dataclass(frozen=True)
class ValueCeiling(_Unsegmented, RangeStudy):
    """Share of the best prediction's rank correlation that each measure reaches."""

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        found = value_ceiling.ceiling(fitted(dataset, run), self.measures)
        shown = found[(found["dataset"] != value.ALL) & (found["range"] != value.ALL)]
        shown = shown[shown["n"] > 0]
        names = {"dataset": "panel", "range": "position", "measure": "series", "share": "value"}
        numbers = shown.rename(columns=names).assign(cells=1)
        notes = []
        for name, part in found[found["range"] == value.ALL].groupby("dataset", sort=False):
            where = "All datasets" if name == value.ALL else str(name)
            known = part[part["share"].notna()]
            said = [
                f"{measure_name(row['measure'])} {number(row['correlation'])} of "
                f"{number(row['ceiling'])}, {with_interval(row['share'], row['low'], row['high'])}"
                for _, row in known.iterrows()
            ]
            lacking = part[part["share"].isna()].groupby("reason")["measure"]
            said += [
                f"no share of {', '.join(map(measure_name, names))} ({why})"
                for why, names in lacking
            ]
            notes.append(f"{where}: {'; '.join(said)}.")
        limits = (min(0.0, shown["low"].min()), max(1.0, shown["high"].max()))
        return self._shown(
            dataset, run, numbers[list(COLUMNS)], notes, limits=_whole_tenths(limits)
        )


def _whole_tenths(limits: tuple[float, float]) -> tuple[float, float] | None:
    if not all(map(math.isfinite, limits)):
        return None
    return math.floor(limits[0] * 10) / 10, math.ceil(limits[1] * 10) / 10


@dataclass(frozen=True)
class ValuePoints(_Unsegmented, StudyOfCells, StudyTable):
    """What each quantity is worth in grade points."""

    columns: ClassVar[tuple[str, ...]] = value_ceiling.POINT_COLUMNS

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        numbers = value_ceiling.points(fitted(dataset, run))
        whole = numbers[(numbers["dataset"] == value.ALL) & (numbers["score"] == "choice")]
        notes = [
            f"Choosing among the retrievals of a query with {KNOWN[row['quantity']]} known gains "
            f"{with_interval(row['gain'], row['low'], row['high'])} grade points a choice "
            f"({row['n']:,} choices)."
            for _, row in whole[whole["gain"].notna()].iterrows()
        ]
        return self._shown(dataset, run, numbers, notes)


@dataclass(frozen=True)
class ValueLabels(_Unsegmented, StudyOfCells, StudyTable):
    """What labels beyond the top K cost, and what they gain."""

    columns: ClassVar[tuple[str, ...]] = value_ceiling.LABEL_COLUMNS

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        numbers = value_ceiling.labels(
            fitted(dataset, run), value_ceiling.points(fitted(dataset, run))
        )
        notes = []
        for _, row in numbers[numbers["dataset"] == value.ALL].iterrows():
            what = KNOWN[row["quantity"]]
            if math.isnan(row["labels_a_point"]):
                notes.append(f"{what}: no price ({row['reason']}).")
            else:
                notes.append(
                    f"{what}: {row['labels']:.1f} more labels a choice; a grade point costs "
                    f"{row['labels_a_point']:,.0f} labels. To label more is worth it where one "
                    "point on one answer is worth more than that many labels."
                )
        return self._shown(dataset, run, numbers, notes)


TOTAL_COLUMNS = (
    "quantity",
    "dataset",
    "score",
    "without",
    "with_it",
    "gain",
    "low",
    "high",
    "n",
    "queries",
    "told",
    "rows_needed",
    "reason",
)


@dataclass(frozen=True)
class ValueTotals(_Unsegmented, StudyOfCells, StudyTable):
    """What each quantity is worth in each dataset, and how many rows would tell."""

    columns: ClassVar[tuple[str, ...]] = TOTAL_COLUMNS

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        found = gains(dataset, run)
        found = found[found["range"] == value.ALL]
        told = np.where(found["low"] > 0, "helps", np.where(found["high"] < 0, "misleads", ""))
        told = np.where((told == "") & found["low"].notna(), "cannot tell", told)
        error = (found["high"] - found["low"]) / 2 / 1.959964
        with np.errstate(divide="ignore", invalid="ignore"):
            needed = found["n"] * (_POWER * error / found["gain"].abs()) ** 2
        needed = np.ceil(needed.where(found["gain"] != 0))
        numbers = found.assign(told=told, rows_needed=needed)[list(TOTAL_COLUMNS)]
        open_ = numbers[numbers["told"] == "cannot tell"]
        known = numbers[numbers["gain"].notna()]
        told_ = (
            f"{counted(len(open_), 'gain')} of {len(known)} cannot be told from 0. rows_needed is "
            "the number of graded rows, in as many more queries, from which a gain of the size "
            "seen would be told from 0 in four samples of five."
        )
        return self._shown(dataset, run, numbers, [told_])


@dataclass(frozen=True)
class ValuePairs(_Unsegmented, RangeStudy):
    """Concordance of two retrievals at one query, N_p and K."""

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        found = value_choice.concordance(scored_rows(dataset, run), self.measures)
        shown = found[(found["range"] != value.ALL) & (found["gap"] == value.ALL)]
        shown = shown[shown["tied_score"].notna()]
        numbers = shown.rename(
            columns={
                "dataset": "panel",
                "range": "position",
                "measure": "series",
                "concordance": "value",
            }
        ).assign(cells=1)
        notes = []
        for measure, part in found[found["range"] == value.ALL].groupby("measure", sort=False):
            at = {gap: rows["concordance"].mean() for gap, rows in part.groupby("gap")}
            ties = part.loc[part["gap"] == value.ALL, "tied_score"].mean()
            if not math.isnan(at.get(value.ALL, math.nan)):
                notes.append(
                    f"{measure_name(str(measure))}: {at[value.ALL]:.1%} concordant, "
                    f"{at['small']:.1%} where the scores differ little and {at['large']:.1%} where "
                    f"they differ much; {ties:.1%} of the pairs tie in score (means of datasets)."
                )
        return self._shown(dataset, run, numbers[list(COLUMNS)], notes, limits=(0.0, 1.0))


@dataclass(frozen=True)
class ValueChoice(_Unsegmented, StudyOfCells, StudyTable):
    """Grade lost by taking the K of the best score."""

    columns: ClassVar[tuple[str, ...]] = value_choice.CHOICE_COLUMNS

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        numbers = value_choice.choose(scored_rows(dataset, run), self.measures)
        least = numbers.groupby("measure", sort=False)["lost"].mean().dropna()
        notes = [
            f"Mean loss over the datasets: {measure_name(str(name)) if name != 'any K' else name} "
            f"{number(lost)} grade points."
            for name, lost in least.items()
        ]
        return self._shown(dataset, run, numbers, notes)


@dataclass(frozen=True)
class ValueLevels(_Unsegmented, StudyOfCells, StudyTable):
    """Correlations between queries, within them, and at equal K and N_p."""

    columns: ClassVar[tuple[str, ...]] = (*value_choice.LEVEL_COLUMNS, "reason")

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        found = value_choice.levels(scored_rows(dataset, run), self.measures)
        reason = np.where(found["correlation"].isna(), "the measure or the grade is constant", "")
        numbers = found.assign(reason=reason)
        wide = numbers.set_index(["dataset", "measure", "level"])
        notes = []
        for name, measure in wide.index.droplevel("level").unique():
            between, within = (wide.loc[(name, measure, at)] for at in ("between", "within"))
            if between["low"] > 0 > within["high"] or between["high"] < 0 < within["low"]:
                notes.append(
                    f"{name}, {measure_name(measure)}: the sign turns, "
                    f"{number(between['correlation'])} between queries and "
                    f"{number(within['correlation'])} within them."
                )
        turned = len(notes)
        notes.append(f"The sign turns in {turned} of {len(numbers) // 4} cases.")
        return self._shown(dataset, run, numbers, notes)


NO_PEOPLE = "The data has no grades of people (samples_human.json)."
_LISTED = ["id", "E", "Nc", "Np", "K", "rank", "grade"]


def _human(dataset: Dataset) -> pd.DataFrame | None:
    return dataset.read("human") if "human" in dataset.parts else None


@lru_cache(maxsize=2)
def _reliabilities(
    dataset: Dataset, embeddings: tuple[str, ...], datasets: tuple[str, ...]
) -> value_judges.Reliabilities:
    rows = scored_rows(dataset, Parameters(embeddings=embeddings, datasets=datasets))
    graded = dataset.read("graded", _LISTED)
    graded = graded[graded["E"].isin(list(rows["E"].cat.categories))]
    repeated = value_judges.repeated_lists(graded)
    return value_judges.reliabilities(rows, repeated, _human(dataset))


@dataclass(frozen=True)
class ValueNoise(_Unsegmented, StudyOfCells, StudyTable):
    """Reliability of the grade, and the highest correlation that a measure could reach."""

    columns: ClassVar[tuple[str, ...]] = value_judges.NOISE_COLUMNS

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        numbers = value_judges.noise(_reliabilities(dataset, run.embeddings, run.datasets))
        notes = []
        for _, row in numbers[numbers["dataset"] == value.ALL].iterrows():
            if math.isnan(row["highest"]):
                notes.append(f"{row['source']}: no reliability ({row['reason']}).")
            else:
                ends = with_interval(row["highest"], row["highest_low"], row["highest_high"])
                reliable = with_interval(row["reliability"], row["low"], row["high"])
                notes.append(
                    f"{row['source']}: reliability {reliable}, so that no measure could correlate "
                    f"by more than {ends} ({row['n']:,} grades, {row['queries']:,} queries)."
                )
        return self._shown(dataset, run, numbers, notes)


@dataclass(frozen=True)
class ValueCorrected(_Unsegmented, StudyOfCells, StudyTable):
    """Correlations of measures with the grade, as they would be without its noise."""

    columns: ClassVar[tuple[str, ...]] = value_judges.CORRECTED_COLUMNS

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        known = _reliabilities(dataset, run.embeddings, run.datasets)
        numbers = value_judges.corrected(
            scored_rows(dataset, run), known, _human(dataset), self.measures, run.seed
        )
        if numbers.empty:
            why = "; ".join(
                f"{source}: {reason}"
                for (source, name), (_, reason) in known.items()
                if name == value.ALL
            )
            return self._nothing(dataset, run, f"No noise to correct for ({why}).")
        above = numbers[numbers["corrected"] > 1]
        note = (
            f"{counted(len(above), 'corrected value')} of {len(numbers)} above 1: there the noise "
            "is taken for larger than it can be, or it is chance."
        )
        return self._shown(dataset, run, numbers, [note])


@dataclass(frozen=True)
class ValueJudges(_Unsegmented, StudyOfCells, StudyTable):
    """Measures and gains by the grades of people, and by the LLM's, on the same rows."""

    columns: ClassVar[tuple[str, ...]] = value_judges.JUDGE_COLUMNS

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        human = _human(dataset)
        if human is None:
            return self._nothing(dataset, run, NO_PEOPLE)
        ids = set(human["id"].astype(str)) if "id" in human else set()
        parts = [
            one.rows.assign(
                **{f"known_{key}": found.mean for key, found in one.predictions.items()}
            )
            for one in fitted(dataset, run)
        ]
        rows = pd.concat([part[part["id"].astype(str).isin(ids)] for part in parts])
        numbers = value_judges.judges(rows.reset_index(drop=True), human, self.measures, run.seed)
        if numbers.empty:
            return self._nothing(dataset, run, "No graded row fits a row that people graded.")
        notes = []
        for what in ("T − R", "T − F", "N_p known"):
            part = numbers[(numbers["what"] == what) & (numbers["dataset"] == value.ALL)]
            said = [
                f"{row['judge']} {with_interval(row['value'], row['low'], row['high'])}"
                for _, row in part[part["value"].notna()].iterrows()
            ]
            changed = part[part["judge"] == value_judges.CHANGE]
            if not said or changed["low"].isna().all():
                continue
            low, high = changed[["low", "high"]].iloc[0]
            verdict = (
                "changes with the judge" if low > 0 or high < 0 else "cannot be told to change"
            )
            notes.append(f"{what}, over all datasets: {'; '.join(said)}: it {verdict}.")
        return self._shown(dataset, run, numbers, notes)


@dataclass(frozen=True)
class ValueAgreement(_Unsegmented, StudyOfCells, StudyTable):
    """Agreement of the LLM with a person, beside that of two persons."""

    columns: ClassVar[tuple[str, ...]] = value_judges.AGREE_COLUMNS

    def _numbers(self, dataset: Dataset, run: Parameters) -> Result:
        human = _human(dataset)
        if human is None:
            return self._nothing(dataset, run, NO_PEOPLE)
        numbers = value_judges.agree(scored_rows(dataset, run), human, run.seed)
        notes = [
            f"{row['between']}: {with_interval(row['agreement'], row['low'], row['high'])} "
            f"({row['n']:,} answers, {row['queries']:,} queries)."
            for _, row in numbers[numbers["dataset"] == value.ALL].iterrows()
            if not math.isnan(row["agreement"])
        ]
        return self._shown(dataset, run, numbers, notes)
