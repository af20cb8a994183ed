"""Files that tests compare with, kept compressed in ``data`` (its README says where from)."""

import gzip
import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "data"
REFERENCE = FOLDER / "reference"


def read_text(name: str) -> str:
    """Give the text of a file, named as before it was compressed."""
    return gzip.decompress((FOLDER / f"{name}.gz").read_bytes()).decode("utf-8")


def read_json(name: str) -> Any:
    """Give the content of a JSON file, named as before it was compressed."""
    return json.loads(read_text(name))
