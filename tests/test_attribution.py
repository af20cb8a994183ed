"""Shares of variation on a complete grid."""

import numpy as np
import pandas as pd
import pytest

from retrieval_quality.statistics.attribution import PARTS, Support, common_support, shares


def grid(d=3, r=4, e=2):
    return np.zeros((d, r, e))


@pytest.mark.parametrize(("axis", "part"), [(0, "dataset"), (1, "ratio"), (2, "embedding")])
def test_what_varies_along_one_axis_goes_with_it(axis, part):
    values = grid()
    shape = [1, 1, 1]
    shape[axis] = values.shape[axis]
    values = values + np.arange(values.shape[axis], dtype=float).reshape(shape)
    assert shares(values)[PARTS.index(part)] == pytest.approx(1)


def test_shares_agree_with_least_squares():
    rng = np.random.default_rng(3)
    values = rng.normal(size=(3, 4, 2))
    d, r, e = (index.ravel() for index in np.indices(values.shape))
    y = values.ravel() - values.mean()

    def explained(*columns):
        design = np.column_stack(
            [(code[:, None] == np.unique(code)).astype(float) for code in columns]
        )
        fitted = design @ np.linalg.lstsq(design, y, rcond=None)[0]
        return (fitted**2).sum() / (y**2).sum()

    found = dict(zip(PARTS, shares(values), strict=True))
    assert found["dataset"] == pytest.approx(explained(d))
    assert found["ratio"] == pytest.approx(explained(r))
    assert found["embedding"] == pytest.approx(explained(e))
    assert found["dataset x ratio"] == pytest.approx(
        explained(d * 10 + r) - explained(d) - explained(r)
    )
    assert sum(found.values()) == pytest.approx(1)


def test_replicates_are_decomposed_each_for_itself():
    rng = np.random.default_rng(4)
    values = rng.normal(size=(5, 3, 4, 2))
    assert shares(values) == pytest.approx(np.stack([shares(one) for one in values]))


def test_nothing_to_share_is_undefined():
    assert np.isnan(shares(grid() + 0.1)).all()
    holed = grid() + np.arange(4.0)[:, None]
    holed[0, 0, 0] = np.nan
    assert np.isnan(shares(holed)).all()


def cells(*keys):
    return pd.DataFrame(keys, columns=["dataset", "segment", "embedding"])


def test_the_support_is_complete():
    found = cells(
        ("A", "0.5", "x"),
        ("A", "0.5", "y"),
        ("A", "2.0", "x"),
        ("A", "2.0", "y"),
        ("M", "0.5", "x"),
        ("M", "0.5", "y"),
        ("M", "2.0", "x"),
        ("N", "9.0", "x"),
    )
    support = common_support(found)
    assert support == Support(("A", "M"), ("0.5",), ("x", "y"), 8)
    assert (support.n_cells, support.n_total) == (4, 8)
    assert found.loc[support.positions(found).ravel(), "segment"].unique().tolist() == ["0.5"]


def test_no_cells_no_support():
    assert common_support(cells()).n_cells == 0
