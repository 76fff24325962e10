"""The page in a real Chromium: it says no error, asks for nothing, and axe-core finds nothing serious."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shardfeed.reporting.page import report
from tests.kit import fetched
from tests.kit.browser import Page, chromium
from tests.kit.datasets import write_dataset
from tests.reporting.findings import add_duplicates, add_rejects, edge

SCRIPT = "<script>document.title = 'run'</script>"
CLASSES = (SCRIPT, "=1+1", "فستان", "a\u202eb\x00c", "long " * 30)


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    with chromium(fetched.chromium()) as page:
        yield page


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with each of its sections, on names that nobody should give."""
    folder = tmp_path_factory.mktemp("report")
    splits = {"train": 37, "validation": 10, "a_split_with_a_name_that_is_wider_than_a_telephone": 5}
    out = write_dataset(folder / "out", classes=CLASSES, size=None, splits=splits).path
    source = folder / "photos" / "a"
    source.mkdir(parents=True)
    source.joinpath("text.jpg").write_text("no image")
    add_rejects(out, [("a/text.jpg", "FORMAT", SCRIPT), ("a/\u202egone.jpg", "EMPTY", "\x1b[31m")])
    first, other = (f"train/{CLASSES[number]}/{number:05}.jpg" for number in range(2))
    edges = [edge(0, 2, (first, CLASSES[0], "train"), (other, CLASSES[1], "validation"))]
    add_duplicates(out, edges, groups=1, pairs=1, exact=0, labels=1, splits=1, flat=2)
    (folder / "report.html").write_text(report(str(out), [str(folder / "photos")]))
    return folder / "report.html"


@pytest.mark.parametrize(("width", "dark"), [(390, False), (1440, True)], ids=["narrow, light", "wide, dark"])
def test_it_opens_without_an_error_or_a_request_and_is_accessible(
    browser: Page, page: Path, width: int, dark: bool
) -> None:
    browser.said.clear()
    browser.requests.clear()
    browser.open(page, width, dark=dark)
    browser.run("document.querySelectorAll('details').forEach(each => each.open = true)")

    assert browser.run("document.title") == "out: shardfeed report"  # no script of a class was run
    assert browser.run("document.documentElement.scrollWidth") == width  # nothing is cut off
    assert browser.run("[...document.images].every(each => each.complete && each.naturalWidth)")
    assert (browser.said, browser.requests) == ([], [page.as_uri()])
    browser.run(fetched.axe().read_text())
    found = browser.run("axe.run().then(found => found.violations.map(each => [each.impact, each.id, each.help]))")
    assert found == []


def test_whatever_a_page_would_load_is_refused_by_its_policy(browser: Page, page: Path, tmp_path: Path) -> None:
    """Were a name of a dataset not escaped, the browser would still run and load nothing."""
    hostile = f"<main>{SCRIPT}<img src='http://127.0.0.1:9/x.png'><style>@import 'http://127.0.0.1:9/y'</style>"
    (tmp_path / "hostile.html").write_text(page.read_text().replace("<main", f"{hostile}<main", 1))
    browser.said.clear()
    browser.open(tmp_path / "hostile.html", 390)

    assert browser.run("document.title") == "out: shardfeed report"
    assert len([text for text in browser.said if "Content Security Policy" in text]) == 3
