"""A measure and a kind of exhibit are added as ``design/how-to-add.md`` says, and nothing else."""

from dataclasses import dataclass

import numpy as np
import pytest

import made_data
from retrieval_quality.book import pages
from retrieval_quality.exhibits import catalogue, export
from retrieval_quality.exhibits.cells import scored_rows
from retrieval_quality.exhibits.drawing import Sheet
from retrieval_quality.exhibits.exhibit import Exhibit, all_of
from retrieval_quality.exhibits.heatmap import difference
from retrieval_quality.measures import MEASURES, measure, score
from retrieval_quality.parameters import Parameters

RUN = Parameters(min_samples_ratio=5)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return made_data.write(tmp_path_factory.mktemp("made"), made_data.records(n_texts=8))


@pytest.fixture
def miss():
    @measure(
        name="miss",
        symbol="m",
        label="miss rate",
        formula="[n_p = 0]",
        source="common use",
        columns=("n_positives",),
        summary="Whether nothing relevant was retrieved.",
    )
    def miss_rate(n_positives):
        return (np.asarray(n_positives) == 0).astype(float)

    yield
    del MEASURES["miss"]


def test_a_measure_is_correlated_drawn_and_offered(miss, data):
    exhibit = difference(("miss", "P"), "A")
    result = exhibit.compute(data, RUN)
    assert result.numbers["correlation_first"].notna().any()
    assert exhibit.draw(result).axes
    assert "miss rate minus P" in exhibit.describe(result)
    assert all(holds for _, holds in exhibit.checks(result))
    assert score({"n_positives": [0, 2]})["miss"].tolist() == [1.0, 0.0]


@dataclass(frozen=True)
class GradeCounts(Exhibit):
    """How many rows have each grade."""

    kind = "grades"
    columns = ("grade", "n")

    @property
    def title(self):
        return "Grades of all rows"

    def caption(self, parameters=None):
        return "How many rows have each grade."

    def _numbers(self, dataset, run):
        numbers = scored_rows(dataset, run)["grade"].value_counts().sort_index()
        numbers = numbers.rename("n").rename_axis("grade").reset_index()
        return self._result(dataset, run, numbers, n=int(numbers["n"].sum()))

    def _picture(self, result):
        sheet = Sheet(result, 4, 2)
        sheet.axes(0.5, 0.5, 3, 1).bar(result.numbers["grade"], result.numbers["n"])
        return sheet.figure

    def _told(self, result):
        return f"Bars of {result.n} rows."

    def _seen(self, result):
        return [f"There are {result.n} rows."]

    def _held(self, result):
        return [("every grade has rows", all_of(result.numbers["n"] > 0))]


def test_a_kind_of_exhibit_is_exported_and_shown(data, tmp_path, monkeypatch):
    exhibit = GradeCounts("grades", "grades")
    written = export.write(exhibit, data, RUN, tmp_path)
    assert [path.name for path in written] == [f"grades{end}" for end in exhibit.suffixes]
    monkeypatch.setitem(catalogue.ENTRIES, "grades", exhibit)
    run = pages.Run(data, RUN)
    assert f"Bars of {len(data.scored())} rows." in run.figure("grades").html
    assert "There are" in run.observe("grades").html
    assert "every grade has rows" in run.check().html
