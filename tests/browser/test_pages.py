"""Every page of a built book in headless Chromium, from disk: ``make book``, then this.

``BOOK_HTML`` names another book than ``_build/html``, ``CHROMIUM`` another browser.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

playwright = pytest.importorskip("playwright.sync_api")
axe_playwright = pytest.importorskip("axe_playwright_python.sync_playwright")

from retrieval_quality.exhibits import catalogue  # noqa: E402

pytestmark = [pytest.mark.browser, pytest.mark.enable_socket]

BOOK = Path(os.environ.get("BOOK_HTML", Path(__file__).parents[2] / "_build" / "html"))
PAGES = [
    path.relative_to(BOOK).as_posix()
    for path in sorted(BOOK.rglob("*.html"))
    if "_static" not in path.parts  # the theme's templates are no pages
]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PHONE = {"width": 375, "height": 800}
DESK = {"width": 1280, "height": 900}

OPEN_ALL = "document.querySelectorAll('details').forEach(d => { d.open = true; })"
# Rows of a table are alike, and axe looks at every cell: three of each are enough.
FEW_ROWS = "document.querySelectorAll('.rq tbody tr:nth-child(n+4)').forEach(r => r.remove())"
AXE = {"resultTypes": ["violations"], "preload": False}  # preloading asks for files, in vain

# The newest axe where npm brought it (chromium.sh), else the one that the package carries.
NEWEST = Path(__file__).parents[2] / "_build" / "axe" / "node_modules" / "axe-core" / "axe.min.js"

# What the theme writes and we cannot mend here: rule -> the elements of which it is accepted.
UPSTREAM: dict[str, str] = {
    "label-content-name-mismatch": ".search-button__button, .theme-switch-button",  # its two labels
    "region": ".sidebar-primary-item",  # the title stands outside of the landmarks
}


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield launched
        launched.close()


class Visit:
    """A page that was opened, with what it said and asked for."""

    def __init__(self, browser, page: str, scheme: str = "light", viewport=None) -> None:
        context = browser.new_context(color_scheme=scheme, viewport=viewport or DESK)
        self.page = context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.failed: list[str] = []
        self.page.on(
            "console", lambda m: m.type in ("error", "warning") and self.said.append(m.text)
        )
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("requestfailed", lambda request: self.failed.append(request.url))
        path, question, query = page.partition("?")
        self.page.goto((BOOK / path).as_uri() + question + query, wait_until="load")

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.page.context.close()


def is_upstream(page, rule: str, target: list[str]) -> bool:
    accepted = UPSTREAM.get(rule)
    return bool(accepted) and page.evaluate(
        "([target, accepted]) => document.querySelector(target).matches(accepted)",
        [target[0], accepted],
    )


def test_there_is_a_book():
    assert "index.html" in PAGES, f"no book in {BOOK}; make book first"


@pytest.mark.parametrize("page", PAGES)
def test_page_is_quiet_complete_and_asks_nobody(browser, page):
    with Visit(browser, page) as visit:
        empty = visit.page.evaluate(
            """async () => {
                const pictures = [...document.images];
                pictures.forEach(picture => { picture.loading = "eager"; });
                await Promise.all(pictures.map(picture => picture.decode().catch(() => {})));
                return pictures.filter(p => !p.naturalWidth).map(p => p.alt || p.src.slice(0, 80));
            }"""
        )
        assert visit.said == []
        assert [url for url in visit.asked if not url.startswith(("file:", "data:"))] == []
        assert visit.failed == []
        assert empty == []


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_is_accessible(browser, page, scheme):
    with Visit(browser, page, scheme) as visit:
        visit.page.evaluate(OPEN_ALL)
        visit.page.evaluate(FEW_ROWS)
        newest = [NEWEST.read_text(encoding="utf-8")] if NEWEST.is_file() else []
        axe = axe_playwright.Axe(*newest)
        found = axe.run(visit.page, options=AXE).response["violations"]
        ours = {
            f"{finding['id']}: {node['target']}: {node['failureSummary']}"
            for finding in found
            for node in finding["nodes"]
            if not is_upstream(visit.page, finding["id"], node["target"])
        }
    assert ours == set()


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_fits_a_phone(browser, page, scheme):
    with Visit(browser, page, scheme, PHONE) as visit:
        visit.page.evaluate(OPEN_ALL)
        width = visit.page.evaluate("document.documentElement.scrollWidth")
        assert width <= PHONE["width"]


@pytest.mark.parametrize("page", PAGES)
def test_links_within_the_book_lead_somewhere(browser, page):
    with Visit(browser, page) as visit:
        links = visit.page.evaluate("[...document.links].map(link => link.href)")
    inside = {link.partition("#")[0] for link in links if link.startswith(BOOK.as_uri())}
    from urllib.parse import unquote, urlparse

    missing = [link for link in inside if not Path(unquote(urlparse(link).path)).exists()]
    assert missing == []


def test_dark_pages_are_dark(browser):
    with Visit(browser, "index.html", "dark") as visit:
        colour = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
        channels = [int(part) for part in colour.strip("rgba()").split(",")[:3]]
        assert max(channels) < 64


@pytest.mark.parametrize("entry", catalogue.ENTRIES.values(), ids=lambda entry: entry.anchor)
def test_each_figure_is_once_on_its_page(browser, entry):
    holders = [
        page
        for page in PAGES
        if f'id="{entry.anchor}"' in (BOOK / page).read_text(encoding="utf-8")
    ]
    assert holders == [f"notebooks/{entry.notebook}.html"]
    with Visit(browser, holders[0]) as visit:
        shown = visit.page.locator(f"#{entry.anchor}")
        assert shown.count() == 1
        if entry.kind in ("code", "table"):
            assert shown.locator("pre, table, .rq-missing").count() >= 1
        else:
            assert shown.locator("img").get_attribute("alt")


def test_cells_of_a_heat_map_can_be_read(browser):
    with Visit(browser, "notebooks/t-minus-f.html") as visit:
        picture = visit.page.locator(".rq-picture[data-cells]").first
        if picture.count() == 0:
            pytest.skip("the data of this book has no heat map here")
        reading = visit.page.locator(".rq-reading").first
        picture.scroll_into_view_if_needed()
        picture.focus()
        first = reading.inner_text()
        assert "K/N_p" in first
        visit.page.keyboard.press("ArrowRight")
        assert reading.inner_text() != first
        left, top, width, height, text, *_ = visit.page.evaluate(
            "JSON.parse(document.querySelector('.rq-picture[data-cells]').dataset.cells)[0]"
        )
        box = picture.bounding_box()
        visit.page.mouse.move(
            box["x"] + box["width"] * (left + width / 2) / 100,
            box["y"] + box["height"] * (top + height / 2) / 100,
        )
        assert reading.inner_text() == text


HEAT_MAPS = [page for page in PAGES if "data-cells=" in (BOOK / page).read_text(encoding="utf-8")]
TAP_EVERY_CELL = """picture => {
    const image = picture.querySelector("img");
    const view = picture.parentElement;
    let reading = view.nextElementSibling;
    while (!reading.classList.contains("rq-reading")) reading = reading.nextElementSibling;
    const wrong = [];
    for (const [left, top, width, height, text] of JSON.parse(picture.dataset.cells)) {
        const box = image.getBoundingClientRect();
        const x = box.left + box.width * (left + width / 2) / 100;
        const y = box.top + box.height * (top + height / 2) / 100;
        image.dispatchEvent(new MouseEvent("click", {bubbles: true, clientX: x, clientY: y}));
        const mark = picture.querySelector(".rq-cell").getBoundingClientRect();
        const hit = mark.left <= x && x <= mark.right && mark.top <= y && y <= mark.bottom;
        if (reading.textContent !== text || !hit) wrong.push([text, reading.textContent]);
    }
    return wrong;
}"""


@pytest.mark.parametrize("width", [375, 600, 1280])
@pytest.mark.parametrize("page", HEAT_MAPS)
def test_a_tap_reads_the_cell_under_it(browser, page, width):
    with Visit(browser, page, viewport={"width": width, "height": 900}) as visit:
        visit.page.evaluate(OPEN_ALL)
        for picture in visit.page.locator(".rq-picture[data-cells]").all():
            assert picture.evaluate(TAP_EVERY_CELL) == []


@pytest.mark.parametrize("width", [375, 600])
def test_a_finger_reads_the_cell_under_it(browser, width):
    if not HEAT_MAPS:
        pytest.skip("the data of this book has no heat map")
    with Visit(browser, HEAT_MAPS[0], viewport={"width": width, "height": 900}) as visit:
        picture = visit.page.locator(".rq-picture[data-cells]").first
        picture.scroll_into_view_if_needed()
        image = picture.locator("img").bounding_box()
        view = visit.page.locator(".rq-view:has([data-cells])").first.bounding_box()
        cells = picture.evaluate("p => JSON.parse(p.dataset.cells)")
        for left, top, wide, high, text, *_ in cells[:: max(1, len(cells) // 9)]:
            x = image["x"] + image["width"] * (left + wide / 2) / 100
            y = image["y"] + image["height"] * (top + high / 2) / 100
            if view["x"] <= x < view["x"] + view["width"] and 0 <= y < 900:
                visit.page.mouse.click(x, y)
                assert visit.page.locator(".rq-reading").first.inner_text() == text


def test_arrow_keys_step_through_every_cell(browser):
    if not HEAT_MAPS:
        pytest.skip("the data of this book has no heat map")
    with Visit(browser, HEAT_MAPS[0], viewport=PHONE) as visit:
        picture = visit.page.locator(".rq-picture[data-cells]").first
        reading = visit.page.locator(".rq-reading").first
        grid = {
            (row, column): text
            for *_, text, row, column in picture.evaluate("p => JSON.parse(p.dataset.cells)")
        }
        rows, columns = (max(place[axis] for place in grid) for axis in (0, 1))
        picture.focus()
        press = visit.page.keyboard.press
        press("Control+Home")
        for row in range(rows + 1):
            press("Home")
            for column in range(columns + 1):
                assert reading.inner_text() == grid[row, column]
                press("ArrowRight")
            assert reading.inner_text() == grid[row, columns]
            press("ArrowDown")
        press("Control+End")
        assert reading.inner_text() == grid[rows, columns]
        press("Home")
        press("End")
        press("ArrowUp")
        assert reading.inner_text() == grid[max(rows - 1, 0), columns]


def test_search_finds_words(browser):
    with Visit(browser, "search.html?q=recall") as visit:
        visit.page.wait_for_selector("#search-results li", timeout=10_000)
        assert visit.page.locator("#search-results li a").count() > 0
        assert visit.said == []


@pytest.mark.parametrize(
    ("query", "leads_to"),
    [
        ("which measure should I use", "notebooks/which-measure.html"),
        ("which alpha should I use", "notebooks/honest-alpha.html"),
        ("how do I measure my own retrieval", "notebooks/own-retrieval.html"),
        ("Figure 7", "notebooks/t-minus-f.html#figure-7"),
        ("figure 21", "notebooks/dataset-code.html#figure-21"),
        ("Table 2", "notebooks/tables.html#table-2"),
    ],
)
def test_search_leads_to_the_place(browser, query, leads_to):
    with Visit(browser, f"search.html?q={query.replace(' ', '+')}") as visit:
        visit.page.wait_for_selector("#search-results li a", timeout=10_000)
        first = visit.page.locator("#search-results li a").first.get_attribute("href")
        assert first.startswith(leads_to)
