"""Print as constraints the lowest versions that pyproject.toml allows, for `make test-lowest`."""

import re
import sys
import tomllib
from pathlib import Path


def lowest(pyproject: str, extras: list[str]) -> list[str]:
    r"""Give ``name==version`` of each dependency of the core and of some extras.

    >>> lowest('[project]\ndependencies = ["numpy>=2.2"]\noptional-dependencies = {}', [])
    ['numpy==2.2']
    """
    project = tomllib.loads(pyproject)["project"]
    chosen = [*project["dependencies"]]
    for extra in extras:
        chosen += project["optional-dependencies"][extra]
    found = []
    for requirement in chosen:
        bound = re.fullmatch(r"([A-Za-z0-9._-]+)(?:>=|==)([^,; ]+)", requirement)
        if bound is None:
            raise SystemExit(f"{requirement!r} does not say its lowest version")
        found.append(f"{bound[1]}=={bound[2]}")
    return sorted(set(found))


if __name__ == "__main__":
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    print("\n".join(lowest(text, sys.argv[1:])))
