"""The command line: its commands and flags, what it refuses, and what it prints."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from shardfeed._version import __version__
from shardfeed.cli import main
from shardfeed.format.manifest import parse_manifest
from tests.kit.commands import command, environment, said, shardfeed, write_photos

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


def _subparsers(command: str | None = None) -> dict[str, argparse.ArgumentParser]:
    (action,) = [a for a in main._parser(command)._actions if isinstance(a, argparse._SubParsersAction)]
    return dict(action.choices)


def test_the_commands_are_those_that_are_built() -> None:
    assert set(_subparsers()) == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_lists_exactly_the_flags_of_a_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(command, "--help") == 0

    shown = capsys.readouterr().out
    options = shown.partition("options:")[2].partition("examples:")[0]
    assert set(re.findall(r"^  (--?\w+)", options, re.M)) - {"-h"} == COMMANDS[command]
    assert {flag for action in _subparsers(command)[command]._actions for flag in action.option_strings} == COMMANDS[
        command
    ] | {"-h", "--help"}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_flag_has_a_help_text(command: str) -> None:
    assert [action.dest for action in _subparsers(command)[command]._actions if not action.help] == []


@pytest.mark.parametrize("command", ["export", "repair", "metadata", "Build", "bui"])
def test_a_command_that_is_not_built_is_unknown(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(command) == 2
    assert _unquoted(capsys.readouterr().err) == (
        f"shardfeed: argument COMMAND: invalid choice: {command} (choose from {', '.join(COMMANDS)}). See `shardfeed "
        "--help`.\n"
    )


def test_no_command_shows_the_help_and_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run() == 2
    assert capsys.readouterr().out.startswith("usage: shardfeed [-h] [--version] COMMAND ...")


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("--version") == 0
    assert capsys.readouterr().out == f"shardfeed {__version__}\n"


UNKNOWN = (
    "unknown argument {}. If it is an option of Apache Beam, it needs --runner (for example --runner DirectRunner). For "
    "shardfeed's own flags see `shardfeed build --help`."
)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--output", "o"], "build: --input is required. See `shardfeed build --help`."),
        (["--input", "i"], "build: --output is required. See `shardfeed build --help`."),
        (["--input"], "argument --input: expected one argument. See `shardfeed build --help`."),
        (
            ["--input", "i", "--output", "o", "--quality", "best"],
            "argument --quality: 'best' is no whole number; allowed are 1 to 100 (95 by default). See `shardfeed build --help`.",
        ),
        (
            ["--input", "i", "--output", "o", "--max_aspect", "wide"],
            "argument --max_aspect: 'wide' is no number; allowed are 1 to 65,535; 2 rejects what is more than twice as long as "
            "wide. See `shardfeed build --help`.",
        ),
        (
            ["--input", "i", "--output", "o", "--metadata", "t.csv", "--group_by", "column:"],
            "--group_by column: names no column. Example: --group_by column:patient",
        ),
        (
            ["--input", "i", "--output", "o", "--resize", "fit"],
            "argument --resize: invalid choice: 'fit' (choose from 'crop', "
            "'squash', 'pad', 'shortest', 'longest'). See `shardfeed build --help`.",
        ),
        (
            ["--input", "i", "--output", "o", "--max_unmatched", "3"],
            "--max_unmatched counts rows of a table. Give --metadata TABLE too, or leave it out.",
        ),
        (
            ["--input", "i", "--output", "o", "--label_from", "metadata"],
            "argument --label_from: invalid choice: 'metadata' (choose from 'folders', 'regex', 'table', 'none'). "
            "See `shardfeed build --help`.",
        ),
        (
            ["--input", "i", "--output", "o", "--num_shards", "3", "--shard_bytes", "5"],
            "argument --shard_bytes: not allowed with argument --num_shards. See `shardfeed build --help`.",
        ),
        (
            ["--input", "i", "--output", "o", "--image_sise", "64"],
            "build: unknown argument --image_sise; did you mean --image_size? See `shardfeed build --help`.",
        ),
        (
            ["--input", "i", "--out", "o"],
            "build: unknown argument --out; did you mean --output? See `shardfeed build --help`.",
        ),
        (
            ["--input", "i", "--output", "o", "--zzz", "1", "--runer=DirectRunner"],
            "build: unknown argument --runer; did you mean --runner? See `shardfeed build --help`.",
        ),
        (["--zzz"], UNKNOWN.format("--zzz")),
        (["--input", "i", "--output", "o", "more"], UNKNOWN.format("more")),
        (
            ["--input", "i", "--output", "o", "--runner", "DirectRunner", "--zzz"],
            "build: unknown argument --zzz. It is neither a flag of shardfeed nor of "
            "Apache Beam. See `shardfeed build --help`.",
        ),
        (
            ["--input", "i", "--output", "o", "--runner", "DirectRunner", "more"],
            "build: unknown argument more. It is neither a flag of shardfeed nor of "
            "Apache Beam. See `shardfeed build --help`.",
        ),
    ],
    ids=lambda value: " ".join(value[-2:]) if isinstance(value, list) else "",
)
def test_arguments_that_cannot_be_are_refused(
    args: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run("build", *args) == 2

    shown = capsys.readouterr()
    assert (shown.out, _unquoted(shown.err)) == ("", _unquoted(f"shardfeed: {message}\n"))


@pytest.mark.parametrize("flag", ["--inp", "--num_shard", "--split", "--image", "--direct_num_worker"])
def test_no_flag_may_be_abbreviated(flag: str, photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("build", "--input", photos, "--output", photos.parent / "out", flag, "1") == 2
    assert f"unknown argument {flag}" in capsys.readouterr().err
    assert not (photos.parent / "out").exists()


@pytest.mark.parametrize(
    ("command", "args", "message"),
    [
        ("verify", ["x", "--input", "y"], "verify: unknown argument --input. See `shardfeed verify --help`."),
        ("inspect", ["x", "train", "more"], "inspect: unknown argument more. See `shardfeed inspect --help`."),
        ("verify", [], "the following arguments are required: DIR. See `shardfeed verify --help`."),
    ],
)
def test_other_commands_take_no_flags_of_beam(
    command: str, args: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(command, *args) == 2
    assert capsys.readouterr().err == f"shardfeed: {message}\n"


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


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A dataset ``out`` beside its input ``in``, with one bad and one skipped file."""
    folder = tmp_path_factory.mktemp("built")
    write_photos(folder / "in", cat=6, dog=6)
    (folder / "in" / "cat" / "bad.jpg").write_bytes(b"")
    (folder / "in" / "cat" / "notes.txt").touch()
    assert _run("build", "--input", folder / "in", "--output", folder / "out", "--image_size", "16") == 0
    yield folder


def test_the_record_of_a_run_names_its_engine(built: Path) -> None:
    assert json.loads((built / "out" / "run.json").read_bytes())["runner"] == "local"


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
    assert (
        f"  note       train: {count} shards instead of 12: a shard is never empty, and there are no more parts\n"
        in shown
    )


def test_a_name_that_the_terminal_cannot_show_is_escaped(tmp_path: Path) -> None:
    write_photos(tmp_path / "in", **{"Käse": 3})
    ended = shardfeed(
        *("build", "--input", tmp_path / "in", "--output", tmp_path / "oüt", "--image_size", "16"),
        PYTHONIOENCODING="ascii",
    )

    assert ended.returncode == 0, ended.stderr
    assert "K\\xe4se 3" in ended.stdout


@pytest.mark.parametrize("reader", ["| true", "> /dev/full"], ids=["gone", "full"])
@pytest.mark.parametrize(("cut", "code"), [(False, 0), (True, 4)], ids=["in order", "damaged"])
def test_a_result_that_cannot_be_printed_does_not_change_the_exit_code(
    built: Path, tmp_path: Path, reader: str, cut: bool, code: int
) -> None:
    out = tmp_path / "copy"
    shutil.copytree(built / "out", out)
    if cut:
        (out / "classes.txt").write_bytes(b"")
    shown = subprocess.run(
        " ".join([*command("verify", out), reader, "; exit ${PIPESTATUS[0]}"]),
        shell=True, executable="/bin/bash", capture_output=True, text=True, env=environment(), timeout=60, check=False,
    )  # fmt: skip
    assert (shown.returncode, "Traceback" in shown.stderr) == (code, False)
