"""One run's configuration: every error that the arguments alone can show, and what flags mean."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from shardfeed.arguments import parse_image_size
from shardfeed.errors import UsageError
from shardfeed.pipeline.config.build_config import BuildConfig
from shardfeed.pipeline.config.engine import Engine
from shardfeed.pipeline.config.values import (
    parse_bytes,
    parse_colour,
    parse_num_shards,
    parse_rejected,
    parse_unmatched,
    read_class_list,
)
from shardfeed.transforms.images.limits import Limits
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.inputs.roots import InputRoot
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.planning.limit import Limit
from shardfeed.transforms.publish.manifest_commit import class_line


def _config(**changes: Any) -> BuildConfig:
    return BuildConfig(**{"inputs": ("/in",), "output": "/out", **changes})


def _options(**changes: Any) -> dict[str, BuildOptions]:
    return {"options": replace(BuildOptions(), **changes)}


def _image(**changes: Any) -> dict[str, BuildOptions]:
    return _options(image=replace(ImageOptions(), **changes))


def _limits(**changes: Any) -> dict[str, BuildOptions]:
    return _image(limits=Limits(**changes))


def test_roots_and_paths_are_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))

    config = _config(inputs=("in/*/*.jpg", "~/more"), output="~/out/")
    here = os.path.realpath(tmp_path)
    assert config.roots == (InputRoot(f"{here}/in", ("*/*.jpg",)), InputRoot(f"{here}/more"))
    assert config.output == f"{here}/out"


def test_what_ctrl_c_does_can_be_chosen() -> None:
    Engine(on_interrupt="cancel").check()  # which happens anyway to a build in this process
    Engine("PortableRunner", ("--job_endpoint", "host:1"), on_interrupt="detach").check()


def test_buckets_stay_as_they_are() -> None:
    config = _config(inputs=("gs://flowers/",), output="gs://datasets/flowers/v1/")

    assert (config.roots, config.output) == ((InputRoot("gs://flowers"),), "gs://datasets/flowers/v1")


ITS_OWN = "the next build would list its own files, and the input is never written to. Give an --output outside of it."
THREADS = "give 1 to 512, or leave it out for one per core (at least 8 from a bucket)."
SIDE = "allowed are 1 to 8,192. Example: --image_size 224"
ONE_NUMBER = "takes one number for --image_size (the length of that side), not"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"inputs": ("",)},
            "--input is empty. Give a folder (photos/), a bucket (gs://photos) or a glob (photos/*/*.jpg).",
        ),
        ({"output": ""}, "--output is empty. Give a folder (out/) or gs://bucket/folder."),
        *(
            (
                {"output": f"/o{character}ut"},
                f"--output /o{character}ut has characters that file globs use (* ? [ ]); engines and readers would misread it. "
                "Give a plain path.",
            )
            for character in "*?[]"
        ),
        ({"inputs": ("/caf\udce9",)}, "--input /caf\\xe9 is not UTF-8. Rename the folder."),
        ({"output": "/caf\udce9/out"}, "--output /caf\\xe9/out is not UTF-8. Rename the folder."),
        ({"output": "/in"}, f"--output /in is --input /in: {ITS_OWN}"),
        ({"output": "/in/out"}, f"--output /in/out lies inside --input /in: {ITS_OWN}"),
        ({"inputs": ("/out/in",)}, f"--output /out contains --input /out/in: {ITS_OWN}"),
        ({"output": "/"}, f"--output / contains --input /in: {ITS_OWN}"),
        (
            {"inputs": ("gs://b/in/*/*.jpg",), "output": "gs://b/in/out"},
            f"--output gs://b/in/out lies inside --input gs://b/in: {ITS_OWN}",
        ),
        (
            {"inputs": ("/in", "/in/cat")},
            "--input /in/cat lies inside --input /in: its images would be listed twice with different classes. Give only one of "
            "them, or build two datasets.",
        ),
        ({"threads": 0}, f"--threads 0: {THREADS}"),
        ({"threads": 513}, f"--threads 513: {THREADS}"),
        (
            {"engine": Engine(on_interrupt="detach")},
            "--on_interrupt detach: the work is done in this process and its children, so the build ends with this command and "
            "cannot be left running. Leave the option out (a build that was stopped is carried on by the same command), or use "
            "an engine that runs elsewhere (docs/how-to/engines.md).",
        ),
        (_limits(min_size=0), "--min_size 0: allowed are 1 to 65,535 pixels of the shorter side."),
        (
            _limits(max_pixels=(1 << 30) + 1),
            "--max_pixels 1073741825: allowed are 1 to 1,073,741,824. 64 Mpx is 67108864.",
        ),
        (_limits(max_file_bytes=0), "--max_file_bytes 0: allowed are 1 byte to 1GiB."),
        (_limits(max_file_bytes=10 << 30), "--max_file_bytes 10737418240: allowed are 1 byte to 1GiB."),
        (
            _limits(max_aspect=float("nan")),
            "--max_aspect nan: allowed are 1 to 65,535; 2 rejects what is more than twice as long as wide.",
        ),
        (
            _limits(min_size=100, max_pixels=9_999),
            "--min_size 100 and --max_pixels 9999 leave no image: a square of that size has more pixels. Lower the one or raise "
            "the other.",
        ),
        (_image(height=0), f"--image_size: a side of 0 pixels; {SIDE}"),
        (_image(width=100_000), f"--image_size: a side of 100000 pixels; {SIDE}"),
        (
            _image(height=2_049, width=2_048),
            "--image_size 2049x2048 is 4,196,352 pixels; at most 4,194,304 are allowed, such as 2048x2048.",
        ),
        (_image(resize="shortest", width=320), f"--resize shortest {ONE_NUMBER} 224x320."),
        (_image(resize="longest", height=320), f"--resize longest {ONE_NUMBER} 320x224."),
        (_image(quality=0), "--quality 0: allowed are 1 to 100 (95 by default)."),
        (_image(quality=101), "--quality 101: allowed are 1 to 100 (95 by default)."),
        (_options(seed=2**63), "--seed 9223372036854775808: allowed are signed 64-bit integers."),
        (_options(seed=-(2**63) - 1), "--seed -9223372036854775809: allowed are signed 64-bit integers."),
        (_options(shard_bytes=0), "--shard_bytes 0: give at least 1 byte; 100MB is usual."),
        (
            _options(splits="train=0.9"),
            "--splits train=0.9: the shares add up to 0.9; each must be above 0 and together they must be exactly 1. Example: "
            "--splits train=0.8,validation=0.1,test=0.1",
        ),
    ],
    ids=lambda value: value.partition(":")[0].partition(" is ")[0][:60] if isinstance(value, str) else "",
)
def test_a_config_that_cannot_be_is_refused_with_the_remedy(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as found:
        _config(**changes)
    assert str(found.value) == message


@pytest.mark.parametrize(
    ("inputs", "output"),
    [
        (("/in",), "/in2"),
        (("/in",), "/into/out"),
        (("/in2",), "/in"),
        (("gs://b/in",), "gs://b/in2"),
        (("gs://b/in",), "gs://b2/in"),
        (("/",), "gs://b/in"),
    ],
)
def test_neighbours_are_neither_inside_nor_outside(inputs: tuple[str, ...], output: str) -> None:
    assert _config(inputs=inputs, output=output).output == output


def test_a_link_does_not_hide_that_the_output_lies_inside_the_input(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "link").symlink_to("in")

    with pytest.raises(UsageError, match="lies inside --input"):
        _config(inputs=(str(tmp_path / "in"),), output=str(tmp_path / "link" / "out"))


def _refused(parse: Callable[[str], object], text: str) -> str:
    with pytest.raises(UsageError) as found:
        parse(text)
    return str(found.value)


# What flags are given, good and bad; the template's patterns are tested with the same values.
SIZES = {
    "224": (224, 224), "224x320": (224, 320), "1X2": (1, 2), "0000000000224x0320": (224, 320), "0": (0, 0),
    "100000": (100_000, 100_000),
}  # fmt: skip
NO_SIZES = ["", "x", "224x", "x224", "224,320", "-1", "2.5", "1x2x3", "224 x 320", "9" * 10, "２２４"]
BYTES = {
    "0": 0, "0.0 MB": 0, "1000000": 10**6, "0100MB": 10**8, "100MB": 10**8, "64MiB": 64 << 20, "1.5gb": 1_500_000_000,
    "0.5GB": 500_000_000, "2KiB": 2048, "7 kb": 7000, "3b": 3, "1GIB": 1 << 30, "1.0001 KB": 1001, "0.00001KB": 1, "0.5": 1,
}  # fmt: skip
NO_BYTES = ["", "MB", "-1", "1TB", "1e6", "1,000", "1.MB", ".5MB", "100 M B", "100M", "100iB", "１００MB"]
SHARDS = {
    "1": 1, "16": 16, "016": 16, "1000000": 10**6, "train=16,validation=2": (("train", 16), ("validation", 2)),
    "b=1,a=2": (("a", 2), ("b", 1)),
}  # fmt: skip
NO_SHARDS = ["", "0", "-1", "many", "1.5", "1000001", "train=", "train=0", "train=1,2", "train=1=2", "a=1,a=2", "=3"]
NO_LIMITS = ["", "%", "-1", "-1%", "101%", "1.5", "many", "1 %x", "1/3%", "1/0%", "nan%", "1e1%", "1_0", " 1", "+1"]
NO_COLOURS = ["", "red", "#fff", "0a0b0c", "#0a0b0g", "#0a0b0c0d"]


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        *((parse_image_size, *row) for row in SIZES.items()),
        *((parse_bytes, *row) for row in BYTES.items()),
        *((parse_num_shards, *row) for row in SHARDS.items()),
        (parse_colour, "black", (0, 0, 0)),
        (parse_colour, "gray", (128,) * 3),
        (parse_colour, "white", (255,) * 3),
        (parse_colour, "#0a0B0c", (10, 11, 12)),
        (parse_rejected, None, Limit(count=None, share=Fraction(1, 100), floor=10)),
        (parse_rejected, "0", Limit(count=0)),
        (parse_rejected, "25", Limit(count=25)),
        (parse_rejected, "1%", Limit(share=Fraction(1, 100), floor=0)),
        (parse_rejected, "0%", Limit(share=Fraction(0, 1), floor=0)),
        (parse_rejected, "100%", Limit(share=Fraction(1, 1), floor=0)),
        (parse_rejected, "0.5%", Limit(share=Fraction(1, 200), floor=0)),
        (parse_rejected, ".5%", Limit(share=Fraction(1, 200), floor=0)),
        (parse_unmatched, None, Limit(count=0)),
        (parse_unmatched, "3", Limit(count=3)),
        (parse_unmatched, "1%", Limit(share=Fraction(1, 100), floor=0)),
    ],
)
def test_a_value_means(parse: Callable[[str | None], object], text: str | None, value: object) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "texts", "said"),
    [
        (parse_image_size, NO_SIZES, "--image_size {}: give one number (224) or HEIGHTxWIDTH (224x320), in pixels."),
        (
            parse_bytes,
            NO_BYTES,
            "--shard_bytes {}: give bytes with an optional unit (KB, MB, GB, KiB, MiB, GiB): 100MB.",
        ),
        (
            parse_num_shards,
            NO_SHARDS,
            "--num_shards {}: give 1 to 1,000,000 (16), or a count by split (train=16,validation=2).",
        ),
        (parse_colour, NO_COLOURS, "--background {}: give #rrggbb, black, gray or white."),
        (
            parse_rejected,
            NO_LIMITS,
            "--max_rejected {}: give a number of images (25) or a share of them (1%), 0% to 100%.",
        ),
        (parse_unmatched, ["many"], "--max_unmatched {}: give a number (25) or a share (1%), 0% to 100%."),
    ],
    ids=["sizes", "bytes", "shards", "colours", "limits", "limits of what does not match"],
)
def test_other_values_are_refused(parse: Callable[[str], object], texts: list[str], said: str) -> None:
    assert [_refused(parse, text) for text in texts] == [said.format(text) for text in texts]


@pytest.fixture
def class_list(tmp_path: Path) -> Path:
    return tmp_path / "classes.txt"


@pytest.mark.parametrize(
    ("content", "classes"),
    [
        ("dog\r\n\ncät\n with space \nlast", ("dog", "cät", " with space ", "last")),
        ("\ufeffcat\ndog\n", ("cat", "dog")),
    ],
    ids=["one class a line", "with a byte order mark"],
)
def test_a_class_list_has_one_class_a_line(class_list: Path, content: str, classes: tuple[str, ...]) -> None:
    class_list.write_bytes(content.encode())
    assert read_class_list(str(class_list)) == classes


ONE_A_LINE = ". Give one class per line, each once, in label order."


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("", f" names no classes{ONE_A_LINE}"),
        ("\n\n", f" names no classes{ONE_A_LINE}"),
        ("a\nb\na\nb\n", f" names a, b twice{ONE_A_LINE}"),
        ("a\\qb\n", ": a\\qb is not a class. Write a backslash in a name as two."),
    ],
    ids=["empty", "blank", "twice", "half an escape"],
)
def test_a_class_list_that_cannot_be_is_refused(class_list: Path, content: str, what: str) -> None:
    class_list.write_text(content)
    assert _refused(read_class_list, str(class_list)) == f"--class_list {class_list}{what}"


class _Counted(str):
    """A name that counts how often it is compared."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        _Counted.compared += 1
        return super().__eq__(other)


def test_a_name_of_a_class_list_is_not_compared_with_each_other_one(
    class_list: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class_list.write_text("".join(f"n{i:04}\n" for i in range(1_000)))
    monkeypatch.setattr("shardfeed.pipeline.config.values._unescaped", lambda line, _path: _Counted(line))

    assert len(read_class_list(str(class_list))) == 1_000
    assert _Counted.compared <= 10_000


@pytest.mark.parametrize("kind", ["absent", "folder", "not utf-8"])
def test_a_class_list_that_cannot_be_read_is_refused(class_list: Path, kind: str) -> None:
    if kind == "folder":
        class_list.mkdir()
    elif kind == "not utf-8":
        class_list.write_bytes(b"caf\xe9\n")

    message = _refused(read_class_list, str(class_list))
    assert message.startswith(f"--class_list {class_list} cannot be read: ")
    assert message.endswith(". Give a UTF-8 text file, one class per line.")


@pytest.mark.parametrize(
    "name", ["dög", "می‌خواهم", "tab\tin it", "two\nlines", "back\\slash", 'quo"ted', "\U0001f469‍\U0001f33e"]
)
def test_a_datasets_own_classes_txt_can_be_its_class_list(class_list: Path, name: str) -> None:
    class_list.write_text(f"cat\n{class_line(name)}\n", encoding="utf-8")
    assert read_class_list(str(class_list)) == ("cat", name)


@pytest.mark.parametrize(
    ("text", "candidates", "images"),
    [
        (None, 1, 10),
        (None, 1_000, 10),
        (None, 1_099, 10),
        (None, 1_100, 11),
        (None, 10**8, 10**6),
        ("1%", 99, 0),
        ("1%", 100, 1),
        ("50%", 3, 1),
        ("100%", 7, 7),
        ("25", 5, 25),
    ],
)
def test_only_the_default_limit_has_a_floor(text: str | None, candidates: int, images: int) -> None:
    assert parse_rejected(text).images(candidates) == images
