"""Weigh the pages of a built book, and time how soon they are painted.

    python benchmarks/pages.py [--book _build/html] [--rounds 5]

A page weighs what a browser reads from disk to show it, its pictures and scripts included. Times
are those of headless Chromium with an empty cache: first paint, and until everything is loaded.
What each stage of the build took stands in ``seconds.json``. Needs ``.[test,browser]``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from playwright.sync_api import Browser, sync_playwright

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN"
LOADED = "performance.getEntriesByType('navigation')[0].loadEventEnd"


def visit(browser: Browser, page: Path) -> tuple[set[Path], float, float]:
    """Files that a page reads, and its first paint and end of loading in milliseconds."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    tab = context.new_page()
    asked: set[Path] = set()

    def note(url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme == "file":
            asked.add(Path(unquote(parts.path)))

    tab.on("request", lambda request: note(request.url))
    tab.goto(page.as_uri(), wait_until="load")
    tab.wait_for_function(f"() => !Number.isNaN({PAINT}) && {LOADED} > 0")
    times = tab.evaluate(PAINT), tab.evaluate(LOADED)
    context.close()
    return asked, *times


def measure(book: Path, rounds: int) -> list[dict[str, Any]]:
    """One record a page, the heaviest first."""
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    pages = [page for page in sorted(book.rglob("*.html")) if "_static" not in page.parts]
    records = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for page in pages:
            visits = [visit(browser, page) for _ in range(rounds)]
            files = [file for file in visits[0][0] if file.is_file()]
            records.append(
                {
                    "page": page.relative_to(book).as_posix(),
                    "html_kb": round(page.stat().st_size / 1e3),
                    "all_kb": round(sum(file.stat().st_size for file in files) / 1e3),
                    "first_paint_ms": round(statistics.median(times[1] for times in visits)),
                    "loaded_ms": round(statistics.median(times[2] for times in visits)),
                }
            )
        browser.close()
    return sorted(records, key=lambda record: -record["all_kb"])


def main() -> None:
    """Print the pages, the whole book, and what each stage of the build took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--book", type=Path, default=Path("_build/html"))
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    book = given.book.resolve()
    files = [path for path in book.rglob("*") if path.is_file()]
    by_kind: dict[str, int] = {}
    for file in files:
        by_kind[file.suffix] = by_kind.get(file.suffix, 0) + file.stat().st_size
    kinds = {
        kind: round(by_kind[kind] / 1e6, 1) for kind in sorted(by_kind, key=by_kind.__getitem__)
    }
    print(f"book: {sum(by_kind.values()) / 1e6:.1f} MB in {len(files)} files; MB by kind: {kinds}")
    seconds = book.parent / "seconds.json"
    if seconds.is_file():
        print(f"seconds of the build: {json.loads(seconds.read_text(encoding='utf-8'))}")
    print(f"{'page':42} {'html kB':>8} {'all kB':>8} {'paint ms':>9} {'loaded ms':>10}")
    for record in measure(book, given.rounds):
        print("{page:42} {html_kb:8} {all_kb:8} {first_paint_ms:9} {loaded_ms:10}".format(**record))


if __name__ == "__main__":
    main()
