"""``shardfeed report``: where the page goes, and what is refused."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from shardfeed.cli.main import main
from tests.kit.datasets import write_dataset


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_dataset(tmp_path / "out").path


def test_it_writes_report_html_again_over_an_older_one_and_says_how_large(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    page = out.parent / "report.html"
    page.write_text("older")

    assert main(["report", "out"]) == 0
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert re.fullmatch(r"report: report\.html \([\d.]+ kB\)\n", capsys.readouterr().out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


INSIDE = "lies in the dataset's folder. Give a file outside of it."


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--output page.pdf", "--output page.pdf: a report is an HTML page. Give a name that ends in .html, .htm."),
        ("--output out/report.html", f"--output out/report.html {INSIDE}"),
        ("--output out/below/report.html", f"--output out/below/report.html {INSIDE}"),
        ("--output link/report.html", f"--output link/report.html {INSIDE}"),
        (
            "--output no/report.html",
            "--output no/report.html cannot be written: No such file or directory. Give a file in a folder that exists and may "
            "be written.",
        ),
        (
            "--source photos",
            "--source photos is no folder. Give the folder or address that the build read; of a list its root, of an archive the "
            "folder that it was unpacked to.",
        ),
    ],
    ids=["no page", "in the dataset", "below it", "through a link", "no folder", "no source"],
)
def test_what_cannot_be_is_refused_and_nothing_written(
    out: Path, capsys: pytest.CaptureFixture[str], arguments: str, said: str
) -> None:
    (out.parent / "link").symlink_to(out)
    before = sorted(out.parent.rglob("*"))

    assert main(["report", "out", *arguments.split()]) == 2
    ended = capsys.readouterr()
    assert (ended.out, ended.err) == ("", f"shardfeed: {said}\n")
    assert sorted(out.parent.rglob("*")) == before


def test_without_jinja2_it_says_what_to_install(
    out: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)

    assert main(["report", str(out)]) == 2
    assert capsys.readouterr().err == (
        "shardfeed: report: jinja2 is not installed here. Install it with: pip install 'shardfeed[report]'\n"
    )
