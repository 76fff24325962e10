"""The command line: its commands and flags, what it refuses, and what it prints."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from pathlib import Path

import pytest

from shardfeed._version import __version__
from shardfeed.cli import main
from shardfeed.format.manifest import parse_manifest
from tests.kit.commands import command, environment, said, shardfeed, write_photos
from tests.kit.datasets import write_dataset

BUILD_FLAGS = {
    "--input", "--output", "--image_size", "--resize", "--channels", "--image_format", "--quality", "--background",
    "--keep_original", "--resizer", "--num_shards", "--shard_bytes", "--splits",
    "--group_by", "--stratify", "--label_from", "--class_list", "--max_rejected",
    "--seed", "--threads", "--discard_incomplete", "--keep_parts", "--trust_manifest", "--cross_region", "--on_interrupt",
    "--list_root", "--retry_rejects", "--metadata", "--label_column", "--key_column", "--key_format", "--columns",
    "--label_depth", "--label_regex", "--class_map", "--duplicates", "--max_unmatched", "--image_timeout",
    "--formats", "--min_size", "--max_pixels", "--max_file_bytes", "--max_aspect",
    "--runner", "--json",
}  # fmt: skip
COMMANDS = {
    "build": BUILD_FLAGS,
    "plan": BUILD_FLAGS | {"--list_at_most"},
    "verify": {"--deep", "--json"},
    "status": {"--json"},
    "inspect": {"-n", "--sheet"},
    "find": {"--where", "--split", "--limit", "--sheet", "--json"},
    "report": {"--output", "--source"},
    "benchmark": {"--batch_size", "--step_ms", "--seconds", "--reader", "--image_size", "--crop", "--json"},
}


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return write_photos(tmp_path / "in", cat=6, dog=6)


def _run(*args: object) -> int:
    """The exit code, also where argparse leaves by itself."""
    try:
        return main.main([str(arg) for arg in args])
    except SystemExit as leaving:
        assert isinstance(leaving.code, int)
        return leaving.code


def _unquoted(text: str) -> str:
    """Without the quotes that some versions of argparse put around choices."""
    return text.replace("'", "")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_lists_exactly_the_flags_of_a_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(command, "--help") == 0

    options = capsys.readouterr().out.partition("options:")[2].partition("examples:")[0]
    assert set(re.findall(r"^  (--?\w+)", options, re.M)) - {"-h"} == COMMANDS[command]


def test_a_command_that_is_not_there_or_abbreviated_is_refused_with_all_that_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _run("bui") == 2
    assert _unquoted(capsys.readouterr().err) == (
        f"shardfeed: argument COMMAND: invalid choice: bui (choose from {', '.join(COMMANDS)}). See `shardfeed --help`.\n"
    )


@pytest.mark.parametrize(
    ("args", "code", "shown"),
    [([], 2, "usage: shardfeed [-h] [--version] COMMAND ..."), (["--version"], 0, f"shardfeed {__version__}\n")],
    ids=["no command", "version"],
)
def test_without_a_command_it_shows(args: list[str], code: int, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(*args) == code
    assert capsys.readouterr().out.startswith(shown)


SEE = "See `shardfeed build --help`."
NEITHER = f"It is neither a flag of shardfeed nor of Apache Beam. {SEE}"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            "--quality best",
            f"argument --quality: 'best' is no whole number; allowed are 1 to 100 (95 by default). {SEE}",
        ),
        (
            "--max_aspect wide",
            "argument --max_aspect: 'wide' is no number; allowed are 1 to 65,535; 2 rejects what is more than twice as long as "
            f"wide. {SEE}",
        ),
        (
            "--metadata t.csv --group_by column:",
            "--group_by column: names no column. Example: --group_by column:patient",
        ),
        (
            "--resize fit",
            "argument --resize: invalid choice: 'fit' (choose from 'crop', 'squash', 'pad', 'shortest', 'longest'). "
            + SEE,
        ),
        (
            "--max_unmatched 3",
            "--max_unmatched counts rows of a table. Give --metadata TABLE too, or leave it out.",
        ),
        ("--num_shards 3 --shard_bytes 5", f"argument --shard_bytes: not allowed with argument --num_shards. {SEE}"),
        ("--out o", f"build: unknown argument --out; did you mean --output? {SEE}"),
        ("--zzz 1 --runer=DirectRunner", f"build: unknown argument --runer; did you mean --runner? {SEE}"),
        (
            "more",
            "more belongs to no flag. Name each input and the output by a flag: --input a/ --input b/ --output out/. "
            "Quote a glob, or a name with spaces: --input 'photos/*/*.jpg'",
        ),
        (
            "--more",
            "unknown argument --more. If it is an option of Apache Beam, it needs --runner (for example --runner DirectRunner). "
            "For shardfeed's own flags see `shardfeed build --help`.",
        ),
        ("--quality x", f"argument --quality: 'x' is no whole number; allowed are 1 to 100 (95 by default). {SEE}"),
        ("--runner DirectRunner --zzz", f"build: unknown argument --zzz. {NEITHER}"),
        ("--runner DirectRunner more", f"build: unknown argument more. {NEITHER}"),
    ],
)
def test_arguments_that_cannot_be_are_refused(args: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("build", "--input", "i", "--output", "o", *args.split()) == 2

    shown = capsys.readouterr()
    assert (shown.out, _unquoted(shown.err)) == ("", _unquoted(f"shardfeed: {message}\n"))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("build --input i", f"build: --output is required. {SEE}"),
        ("build --input", f"argument --input: expected one argument. {SEE}"),
        ("verify x --input y", "verify: unknown argument --input. See `shardfeed verify --help`."),
        ("verify", "the following arguments are required: DIR. See `shardfeed verify --help`."),
    ],
)
def test_a_command_with_too_little_or_too_much_is_refused(
    args: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(*args.split()) == 2
    assert capsys.readouterr() == ("", f"shardfeed: {message}\n")


@pytest.mark.parametrize("flag", ["--num_shard", "--image"], ids=["of one flag", "of several"])
def test_no_flag_may_be_abbreviated(flag: str, photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("build", "--input", photos, "--output", photos.parent / "out", flag, "1") == 2
    assert f"unknown argument {flag}" in capsys.readouterr().err
    assert not (photos.parent / "out").exists()


def test_flags_may_be_spelled_with_hyphens_and_beams_are_passed_on(
    photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = photos.parent / "my-out"
    code = _run(
        *("build", "--input", photos, f"--output={out}", "--image-size", "16", "--num-shards=2", "--keep-parts"),
        *("--runner", "DirectRunner", "--direct-num-workers", "1", "--direct_running_mode=in_memory"),
    )

    assert (code, said(capsys.readouterr().err)) == (0, "")
    assert json.loads((out / "run.json").read_bytes())["runner"] == "DirectRunner"
    manifest = parse_manifest((out / "manifest.json").read_bytes(), "m")
    assert (manifest.image.height, len(manifest.splits["train"].shards)) == (16, 2)
    assert (out / "_parts").is_dir()


def test_underscores_and_hyphens_in_values_stay() -> None:
    assert main._underscored(["--class-list", "my-file", "--input=a-b_c--d", "-n", "--", "--a-b=c-d=e"]) == [
        *("--class_list", "my-file", "--input=a-b_c--d", "-n", "--", "--a_b=c-d=e")
    ]


def test_another_build_in_one_process_owes_nothing_to_those_before(
    tmp_path: Path, photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (photos / "cat" / "bad.jpg").write_bytes(b"")
    build = ("build", "--input", photos, "--image_size", "16", "--json")
    assert _run(*build, "--output", tmp_path / "one", "--max_rejected", "0") == 3
    assert _run(*build, "--output", tmp_path / "one", "--max_rejected", "1") == 0  # from parts that were kept
    capsys.readouterr()

    assert _run(*build, "--output", tmp_path / "two") == 0
    assert json.loads(capsys.readouterr().out)["encoded_in_this_run"] == 13
    assert json.loads((tmp_path / "two" / "run.json").read_bytes())["runner"] == "local"


def test_fewer_shards_than_asked_for_are_noted(
    photos: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardfeed.transforms.planning.plan.PARTS_A_SHARD", 1)  # 12 images in 12 parts: some stay empty
    out = photos.parent / "o"
    assert _run("build", "--input", photos, "--output", out, "--image_size", "16", "--num_shards", "12") == 0

    count = len(list(out.glob("train-*.tfrecord")))
    assert 1 < count < 12
    shown = capsys.readouterr().out
    assert f"  train      12 records in {count} shards" in shown
    note = f"train: {count} shards instead of 12: a shard is never empty, and there are no more parts"
    assert f"  note       {note}\n" in shown


def test_a_name_that_the_terminal_cannot_show_is_escaped(tmp_path: Path) -> None:
    write_photos(tmp_path / "in", **{"Käse": 3})
    ended = shardfeed(
        *("build", "--input", tmp_path / "in", "--output", tmp_path / "oüt", "--image_size", "16"),
        PYTHONIOENCODING="ascii",
    )

    assert ended.returncode == 0, ended.stderr
    assert "K\\xe4se 3" in ended.stdout


@pytest.mark.parametrize(
    ("name", "reader", "cut", "code"),
    [
        ("verify", "| true", True, 4),
        ("verify", "> /dev/full", False, 0),
        ("find --where 1", "| true", False, 0),
        ("find --where 1", "> /dev/full", False, 4),
        ("inspect", "> /dev/full", False, 4),
    ],
)
def test_a_result_that_cannot_be_printed_changes_the_exit_code_only_if_it_is_all_there_is(
    tmp_path: Path, name: str, reader: str, cut: bool, code: int
) -> None:
    out = write_dataset(tmp_path / "out", splits={"train": 5}).path
    if cut:
        (out / "classes.txt").write_bytes(b"")
    shown = subprocess.run(
        " ".join([*command(*name.split(), out), reader, "; exit ${PIPESTATUS[0]}"]),
        shell=True, executable="/bin/bash", capture_output=True, text=True, env=environment(), timeout=60, check=False,
    )  # fmt: skip
    assert (shown.returncode, "Traceback" in shown.stderr) == (code, False)


def test_a_system_that_allows_no_further_thread_ends_the_build_as_incomplete(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)

    assert _run("build", "--input", photos, "--output", tmp_path / "out") == 4
    assert (
        capsys.readouterr()
        .err.splitlines()[-1]
        .startswith("shardfeed: the system allows no further thread or process.")
    )
