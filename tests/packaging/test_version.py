"""One version, written once."""

from __future__ import annotations

import re

from tests.kit import sources

VERSION = (sources.ROOT / "shardfeed" / "_version.py").read_text().split('__version__ = "')[1].split('"')[0]


def test_the_version_is_written_in_one_file() -> None:
    written = [
        sources.relative(path)
        for package in sources.PACKAGES
        for path in sources.files(package)
        if f'"{VERSION}"' in path.read_text()
    ]
    assert written == ["shardfeed/_version.py"]
    assert f'"{VERSION}"' not in (sources.ROOT / "pyproject.toml").read_text()


def test_the_newest_release_in_the_changelog_is_this_version() -> None:
    releases = re.findall(r"^## (\S+)", (sources.ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert releases[0] == VERSION
