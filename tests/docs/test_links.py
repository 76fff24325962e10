"""Links between the pages lead somewhere, in the repository and on the site."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT
from tools.docs_site import OUTSIDE, on_post_build, site_links

LINK = re.compile(r"\]\((?![a-z]+:)([^)#]*)(?:#([^)]*))?\)")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and MkDocs make them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_file_and_heading_that_a_page_links_to_is_there(page: Path) -> None:
    dead = []
    for target, anchor in LINK.findall(page.read_text()):
        to = page.parent / target if target else page
        if not to.exists() or (anchor and anchor not in anchors(to)):
            dead.append((target, anchor))

    assert dead == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_page_holds_both_sides_of_a_merge(page: Path) -> None:
    assert re.findall(r"^(?:<{7}|>{7}|={7}$).*", page.read_text(), re.MULTILINE) == []


def test_links_become_those_of_the_site_or_paths() -> None:
    text = "[a](docs/how-to/build.md#x), [b](CHANGELOG.md), [c](tests/verify), [d](https://e.org), [e](#f)"

    assert site_links(text, "README.md", "index.md") == (
        "[a](how-to/build.md#x), [b](project/changelog.md), `tests/verify`, [d](https://e.org), [e](#f)"
    )
    assert site_links("[a](../../README.md)", "docs/how-to/build.md", "how-to/build.md") == "[a](../index.md)"


@pytest.mark.parametrize(
    ("tag", "refused"),
    [
        ('<script src="https://cdn.example/x.js"></script>', True),
        ('<link rel="stylesheet" href="//fonts.example/css">', True),
        ('<a href="https://example.org">a link</a><img src="../sheet.jpg">', False),
    ],
)
def test_a_site_that_loads_from_another_host_is_refused(tmp_path: Path, tag: str, refused: bool) -> None:
    (tmp_path / "index.html").write_text(f"<html>{tag}</html>")

    with pytest.raises(ValueError, match="another host") if refused else contextlib.nullcontext():
        on_post_build({"site_dir": str(tmp_path)})


def test_every_page_is_in_the_site_and_its_navigation() -> None:
    listed = set(re.findall(r"^ +- (?:.+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}

    assert listed == pages | set(OUTSIDE.values())


def test_no_message_names_a_page_that_is_gone() -> None:
    tops = [path for path in ROOT.iterdir() if not path.name.startswith(".") and path.name != "site"]
    files = [path for top in tops for path in [top, *top.rglob("*")] if path.suffix in (".py", ".sh", ".toml")]
    gone = {
        (path.relative_to(ROOT).as_posix(), name)
        for path in files
        for name in re.findall(r"(?<![\w/.])docs/[\w/-]+\.md", path.read_text())
        if not (ROOT / name).exists()
    }

    assert gone == set()
