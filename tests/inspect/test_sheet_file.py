"""``inspect --sheet FILE``: what a sheet may be written over."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardfeed.cli.main import main
from tests.kit.datasets import write_dataset


@pytest.fixture
def out(tmp_path: Path) -> Path:
    write_dataset(tmp_path / "out")
    return tmp_path / "out"


@pytest.mark.parametrize(
    ("sheet", "said"),
    [
        ("sheet.gif", ": a sheet is a PNG or JPEG image. Give a name that ends in .png, .jpg, .jpeg."),
        ("", ": a sheet is a PNG or JPEG image. Give a name that ends in .png, .jpg, .jpeg."),
        ("{out}/../out/sheet.png", " lies in the dataset's folder. Give a file outside of it."),
        ("{out}/../link.png", " lies in the dataset's folder. Give a file outside of it."),
        (
            "/no/folder/x.png",
            " cannot be written: No such file or directory. Give a file in a folder that exists and may be written.",
        ),
    ],
    ids=["no PNG or JPEG", "no name", "in the dataset", "a link into it", "no folder"],
)
def test_a_sheet_that_cannot_be_is_refused_and_the_dataset_untouched(
    out: Path, capsys: pytest.CaptureFixture[str], sheet: str, said: str
) -> None:
    (out.parent / "link.png").symlink_to(out / "manifest.json")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    assert main(["inspect", str(out), "--sheet", sheet.format(out=out)]) == 2
    ended = capsys.readouterr()
    assert (ended.out, ended.err) == ("", f"shardfeed: --sheet {sheet.format(out=out)}{said}\n")
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


@pytest.mark.parametrize(("name", "magic"), [("sheet.PNG", b"\x89PNG"), ("sheet.jpeg", b"\xff\xd8\xff")])
def test_a_sheet_is_drawn_again_over_an_older_one(
    out: Path, capsys: pytest.CaptureFixture[str], name: str, magic: bytes
) -> None:
    sheet = out.parent / name
    sheet.write_bytes(b"older")
    assert main(["inspect", str(out), "--sheet", str(sheet)]) == 0
    assert sheet.read_bytes().startswith(magic)
    assert capsys.readouterr().out.endswith(f"contact sheet: {sheet}\n")
