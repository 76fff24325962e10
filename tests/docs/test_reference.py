"""docs/reference is complete: flags, public names, fields, reasons, fixes, skipped files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import pytest

import shardfeed
from shardfeed.format.example import decode_example
from shardfeed.transforms.images.fixes import FIXES
from shardfeed.transforms.images.rejects import Reason
from shardfeed.transforms.inputs import listing
from shardfeed.transforms.inputs.labels import DROPPED
from shardfeed.transforms.metadata.join import NO_ROW
from shardfeed.transforms.sources.base import EntryKind
from tests.docs.pages import ROOT
from tests.kit import disk
from tests.kit.commands import shardfeed as run_shardfeed
from tests.kit.commands import write_photos
from tools import docs_site

FILES = (ROOT / "docs/reference/files.md").read_text()
REJECTS = (ROOT / "docs/reference/rejects.md").read_text()


def rows(page: str, heading: str) -> set[str]:
    """The words in code style in the first column of the table after ``heading``."""
    section = page[page.index(heading) + len(heading) :]
    table = re.search(r"(?:^\|.*\n)+", section, re.MULTILINE)
    assert table
    return {name for row in table[0].splitlines() for name in re.findall(r"`([^`]+)`", row.split("|")[1])}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    photos = write_photos(folder / "photos", cat=3, dog=3)
    ended = run_shardfeed("build", "--input", photos, "--output", folder / "out", "--image_size", "16", "--keep_parts")
    assert ended.returncode == 0, ended.stderr
    return folder / "out"


@pytest.mark.parametrize("command", docs_site.COMMANDS)
def test_every_flag_is_on_the_page_of_commands_with_a_text(command: str) -> None:
    section = docs_site.commands_page().partition(f"## `shardfeed {command}`")[2].partition("\n## ")[0]
    terms = dict(re.findall(r"^`([^`]+)`\n:   (.+)$", section, re.MULTILINE))

    expected = {action.option_strings[0] for action in docs_site.parser_of(command)._actions if action.option_strings}
    if command == "plan":  # its section says that it takes all flags of build
        build = {action.option_strings[0] for action in docs_site.parser_of("build")._actions}
        assert build <= expected
        expected -= build - {"-h"}
    assert {term.split()[0].rstrip(",") for term in terms if term.startswith("-")} == expected - {"-h"}
    assert all(terms.values())


def test_every_public_name_is_on_the_page_of_python() -> None:
    named = re.findall(r"^::: shardfeed\.(\w+)$", (ROOT / "docs/reference/python.md").read_text(), re.MULTILINE)

    assert sorted(named) == sorted(set(dir(shardfeed)) - {"__version__"})


def test_every_field_of_a_manifest_and_a_run_is_on_the_page_of_files(dataset: Path) -> None:
    manifest, run = disk.manifest(dataset), json.loads((dataset / "run.json").read_text())
    split = manifest["splits"]["train"]

    assert rows(FILES, "## `manifest.json`") == set(manifest)
    assert rows(FILES, "`image`:\n") == set(manifest["image"])
    assert rows(FILES, "A split:\n") == set(split)
    assert all(f"`{name}`" in FILES for name in {*split["shards"][0], *manifest["files"][0], *run})


def test_every_feature_of_a_record_is_on_the_page_of_files(dataset: Path) -> None:
    shard = (dataset / "train-00000-of-00001.tfrecord").read_bytes()
    length = int.from_bytes(shard[:8], "little")

    assert rows(FILES, "## Records") == set(decode_example(shard[12 : 12 + length]))


def test_every_file_of_a_build_is_on_the_page_of_files(dataset: Path) -> None:
    named = set(re.findall(r"^out/(\S+)", FILES, re.MULTILINE))
    built = {path.name.replace("of-00001", "of-00016") for path in dataset.iterdir() if path.is_file()}

    assert built | {"_parts/", "rejects-00000-of-00001.jsonl", "unmatched.jsonl"} == named


def test_every_field_of_a_sidecar_is_on_the_page_of_files(dataset: Path) -> None:
    sidecar = next(dataset.glob("_parts/*/train/*.json"))

    assert all(f"`{name}`" in FILES for name in json.loads(sidecar.read_bytes().splitlines()[0]))


def test_every_reason_fix_and_word_for_what_is_skipped_is_on_the_page_of_rejects() -> None:
    words = {*get_args(EntryKind)} - {"file", "missing"}
    source = Path(listing.__file__).read_text().partition("def skip_reason")[2].partition("\ndef ")[0]

    assert rows(REJECTS, "## Rejects") == {reason.value for reason in Reason}
    assert rows(REJECTS, "## Fixes") == set(FIXES)
    assert rows(REJECTS, "## Skipped files") == words | {NO_ROW, DROPPED} | set(re.findall(r'return "(\w+)"', source))


def test_the_table_of_formats_is_the_codes_own() -> None:
    page = (ROOT / "docs/reference/images.md").read_text()
    shown = page.partition("makes this table -->\n")[2].partition("\n<!-- formats end -->")[0]

    assert shown == docs_site.formats_table()


def test_the_drawing_of_the_rooms_has_every_folder() -> None:
    drawing = (ROOT / "docs/explanation/rooms.svg").read_text()
    drawn = re.findall(r">(\w+/)<", drawing)
    folders = [
        f"{folder.name}/"
        for package in ("pipeline", "transforms", "shardfeed")
        for folder in (ROOT / package).iterdir()
        if (folder / "__init__.py").exists()
    ]

    assert sorted(drawn) == sorted([*folders, "pipeline/", "transforms/", "shardfeed/"])
