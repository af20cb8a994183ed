"""The value of knowing: numbers, pictures and sentences of the chapter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from retrieval_quality.data.dataset import Dataset


def scored_rows(
    dataset: Dataset, embeddings: tuple[str, ...] = (), datasets: tuple[str, ...] = ()
) -> pd.DataFrame:
    """Read the scored rows with the unit of resampling, ``query``.

    It is the text of the query where the texts are at hand, for several ids can share one; the id
    elsewhere.
    """
    if "graded" not in dataset.parts:
        return pd.DataFrame()
    rows = dataset.scored(embeddings=embeddings, datasets=datasets)
    if "query" in rows:
        return rows
    if "texts" not in dataset.parts:
        return rows.assign(query=rows["id"].astype(str))
    texts = dataset.read("texts", ["id", "q"]).drop_duplicates("id").set_index("id")["q"]
    ids = rows["id"].cat.categories
    names = texts.reindex(ids)
    named = names.where(names.notna(), pd.Series(ids, index=ids)).to_numpy()
    return rows.assign(query=named[rows["id"].cat.codes.to_numpy()])
