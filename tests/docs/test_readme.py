"""README.md has what a newcomer needs; test_how_to.py runs its program."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT

PAGE = (ROOT / "README.md").read_text()


def test_build_read_and_train_are_on_its_first_screen() -> None:
    first = "\n".join(PAGE.splitlines()[:45])

    assert all(word in first for word in ("pip install", "shardfeed build --input", "shardfeed.load(", "model.fit("))


def test_each_promise_links_to_its_tests() -> None:
    promises = re.split(r"^### (?=P\d)", PAGE.partition("## Promises")[2].partition("\n## ")[0], flags=re.MULTILINE)[1:]

    assert [promise.split()[0] for promise in promises] == [f"P{number}" for number in range(1, 13)]
    assert [promise for promise in promises if "](tests/" not in promise] == []


def test_it_names_the_targets_of_make() -> None:
    targets = set(re.findall(r"^make (\w+)", PAGE, re.MULTILINE))

    assert targets == {"demo", "check", "test", "docs"}
    assert targets <= set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
