"""``shardfeed plan``: its forecast against the build that follows, and that it leaves no trace."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from shardfeed import info
from shardfeed.cli.main import main
from shardfeed.errors import ShardfeedError, UsageError
from shardfeed.pipeline.config.build_config import BuildConfig
from shardfeed.pipeline.config.engine import Engine
from shardfeed.pipeline.plan import notes
from shardfeed.pipeline.plan.command import plan_build
from shardfeed.pipeline.plan.notes import Note
from shardfeed.pipeline.run_build import run_build
from shardfeed.transforms.elements import RefBatch
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.inputs.listing import list_all
from shardfeed.transforms.inputs.roots import InputRoot
from shardfeed.transforms.options import BuildOptions
from tests.kit import disk
from tests.kit.commands import REPOSITORY, environment, write_photos

PHOTOS = REPOSITORY / "examples" / "sample_photos"
NINE_TO_ONE = "train=0.9,validation=0.1"
PNG = ImageOptions(height=48, width=64, format="png")
CROPPED = ImageOptions(height=96, width=96)
KEPT = ImageOptions(height=240, width=240, resize="longest", keep_original=True)
SMALL = BuildOptions(image=ImageOptions(height=16, width=16), num_shards=2)
SAMPLE = 100  # a sample of all images would prove nothing


def _save(image: Image.Image, root: Path, number: int, name: str) -> None:
    folder = root / f"class-{number % 3}"
    folder.mkdir(parents=True, exist_ok=True)
    image.save(folder / name)


def _drawings(root: Path) -> Path:
    """PNGs of 48 x 64 pixels, some transparent, whose compressed sizes differ a hundredfold."""
    rng = np.random.default_rng(7)
    for i in range(250):
        pixels = np.full((48, 64, 4), rng.integers(0, 256, 4), np.uint8)
        rows = int(rng.integers(0, 48))
        pixels[:rows] = rng.integers(0, 256, (rows, 64, 4))
        _save(Image.fromarray(pixels), root, i, f"{i}.png")
    return root


def _flat(root: Path, count: int, name: str = "") -> Path:
    """PNGs of one colour, all about as large; ``name``: what each one's begins with."""
    for i in range(count):
        _save(Image.new("RGB", (64, 64), (i % 256, i // 2 % 256, 90)), root, i, f"{name}{i}.png")
    return root


def _logos_and_photos(root: Path) -> Path:
    """3 % photos among logos; too few of the 100 smallest hashes are photos'."""
    _flat(root, 485, "logo-")
    for i, path in enumerate(sorted(PHOTOS.glob("*/*.jpg"))[:15]):
        shutil.copy(path, root / f"class-{i % 3}" / path.name)
    return root


def _few_large(root: Path) -> Path:
    """JPEGs; one in 40 is far larger, and too many of the 100 smallest hashes are of these."""
    rng = np.random.default_rng(5)
    for i in range(440):
        side = 240 if i % 40 == 0 else 24
        _save(Image.fromarray(rng.integers(0, 256, (side, side, 3), np.uint8)), root, i, f"large-{i}.jpg")
    return root


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (_drawings, BuildOptions(image=PNG, num_shards=20, splits=NINE_TO_ONE)),
        (_logos_and_photos, BuildOptions(image=CROPPED, shard_bytes=20_000, splits=NINE_TO_ONE)),
        (_few_large, BuildOptions(image=KEPT, shard_bytes=20_000, splits=NINE_TO_ONE)),
    ],
    ids=["drawings as PNG", "3 % photos among logos", "few large ones, kept"],
)
def test_the_forecast_agrees_with_the_build(
    make: Callable[[Path], Path], options: BuildOptions, tmp_path: Path
) -> None:
    config = BuildConfig((str(make(tmp_path / "in")),), str(tmp_path / "out"), options)
    forecast = plan_build(config, sample=SAMPLE)
    run_build(config)

    built = info(tmp_path / "out").manifest
    assert len(forecast.sample.trials) < forecast.totals.candidates == built.written
    assert forecast.totals.listed == built.listed
    assert list(forecast.classes) == list(built.classes)
    assert {name: split.by_class for name, split in forecast.splits.items()} == {
        name: split.class_counts for name, split in built.splits.items()
    }
    assert {name: split.records for name, split in forecast.splits.items()} == {
        name: split.records for name, split in built.splits.items()
    }
    for name, split in built.splits.items():
        assert forecast.splits[name].bytes == pytest.approx(split.bytes, rel=0.10)
        assert forecast.splits[name].error < 0.10
        shards = len(split.shards)
        assert forecast.splits[name].shards == (shards if options.num_shards else pytest.approx(shards, rel=0.10))


def test_a_listing_ends_where_it_is_longer_than_the_caller_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    photos, listed = write_photos(tmp_path / "photos", cat=9), 0

    def noted(roots: tuple[InputRoot, ...]) -> Iterator[RefBatch]:
        nonlocal listed
        for batch in list_all(roots):
            listed += 1
            yield batch

    monkeypatch.setattr("shardfeed.transforms.inputs.listing.BATCH_REFS", 1)
    monkeypatch.setattr("shardfeed.transforms.inputs.listing._JOINED", 1)
    monkeypatch.setattr("shardfeed.pipeline.plan.command.list_all", noted)
    flags = ("plan", "--input", str(photos), "--output", str(tmp_path / "out"), "--list_at_most")
    assert main([*flags, "4"]) == 0
    assert listed == 5
    assert capsys.readouterr() == (
        "",
        "shardfeed: no forecast: the input holds more than 4 files, where --list_at_most ends the listing. Addresses and output "
        "were checked; labels, rejects, bytes, time and cost were not. Without --list_at_most, plan lists everything, which can "
        "take minutes per million files.\n",
    )
    assert main([*flags, "9"]) == 0
    assert "9 images" in capsys.readouterr().out
    assert main([*flags, "0"]) == 2
    assert "--list_at_most 0: give a number of files from 1 on" in capsys.readouterr().err


def test_more_shards_than_parts_that_hold_an_image_are_not_promised(tmp_path: Path) -> None:
    """A shard an image is asked for; some images share a part, and no shard is empty."""
    photos = write_photos(tmp_path / "photos", cat=60)
    options = BuildOptions(image=ImageOptions(height=16, width=16), num_shards=60)
    config = BuildConfig(inputs=(str(photos),), output=str(tmp_path / "out"), options=options)
    split = plan_build(config).splits["train"]
    run_build(config)

    assert split.shards == split.parts < 60
    assert split.shards == pytest.approx(len(info(tmp_path / "out").manifest.splits["train"].shards), rel=0.10)


def test_when_time_is_up_one_of_each_stratum_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardfeed.pipeline.plan.sample.LEAST_IMAGES", 0)
    monkeypatch.setattr("shardfeed.pipeline.plan.sample.SAMPLE_SECONDS", -1.0)
    photos = _flat(write_photos(tmp_path / "photos", cat=5), 7)
    (photos / "cat" / "empty.png").touch()
    forecast = plan_build(BuildConfig(inputs=(str(photos),), output=str(tmp_path / "out")))

    assert (len(forecast.sample.trials), forecast.sample.rejected) == (3, {"EMPTY": 1})
    assert forecast.splits["train"].records == 12


def test_a_split_that_is_read_whole_is_forecast_exactly(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", cat=5, dog=4)
    (photos / "dog" / "bad.jpg").write_bytes(b"not an image")
    config = BuildConfig(inputs=(str(photos),), output=str(tmp_path / "out"), options=SMALL)
    forecast = plan_build(config)
    run_build(config)

    built = info(tmp_path / "out").manifest
    (split,) = forecast.splits.values()
    assert (split.records, split.bytes, split.error) == (built.written, built.splits["train"].bytes, 0.0)
    assert (len(forecast.sample.trials), forecast.sample.rejected) == (10, {"FORMAT": 1})


def test_nothing_is_written_and_the_output_is_not_even_made(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", cat=3)
    before = disk.snapshot(tmp_path)

    assert main(["plan", "--input", str(photos), "--output", str(tmp_path / "out" / "deep")]) == 0
    assert disk.snapshot(tmp_path) == before


def test_a_dataset_in_the_output_is_noted_and_left_as_it_is(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", cat=3)
    config = BuildConfig((str(photos),), str(tmp_path / "out"), SMALL)
    run_build(config)
    before = disk.snapshot(tmp_path)

    assert plan_build(config).notes == [
        Note("the output holds this very dataset: a build there changes nothing (exit 0)")
    ]
    discarding = plan_build(replace(config, discard_incomplete=True))
    assert discarding.notes == [
        Note(
            "the build would stop (exit 5): the output is a complete dataset, which --discard_incomplete does not remove",
            5,
        )
    ]
    assert discarding.to_text().splitlines()[-1] == "Next: see the notes; the build would end with exit code 5"
    assert disk.snapshot(tmp_path) == before


def _other_options(config: BuildConfig) -> BuildConfig:
    return replace(config, options=replace(SMALL, seed=7))


def _no_image(config: BuildConfig) -> BuildConfig:
    for path in Path(config.inputs[0]).rglob("*.jpg"):
        path.unlink()
    return config


def _an_image_without_a_class(config: BuildConfig) -> BuildConfig:
    Path(config.inputs[0], "stray.jpg").write_bytes(next(Path(config.inputs[0]).rglob("*.jpg")).read_bytes())
    return config


def _no_duplicates(config: BuildConfig) -> BuildConfig:
    return replace(config, fail_on_duplicates=True)


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        (_other_options, 5, "holds a complete dataset that differs in --seed (there 0, here 7)"),
        (_no_image, 5, "was built from another state of the input"),
        (_an_image_without_a_class, 2, "1 image lies directly in the input root, without a class folder: stray.jpg"),
        (_no_duplicates, 3, "--duplicates fail allows none"),
    ],
)
def test_what_stops_a_build_where_a_dataset_is_stops_its_plan(
    change: Callable[[BuildConfig], BuildConfig], code: int, said: str, tmp_path: Path
) -> None:
    photos = write_photos(tmp_path / "photos", cat=3)
    (photos / "cat" / "again.jpg").write_bytes(next((photos / "cat").iterdir()).read_bytes())
    config = BuildConfig((str(photos),), str(tmp_path / "out"), SMALL)
    run_build(config)
    config = change(config)

    with pytest.raises(ShardfeedError) as planned:
        plan_build(config)
    with pytest.raises(ShardfeedError) as built:
        run_build(config)
    assert (built.value.code, str(built.value)) == (planned.value.code, str(planned.value))
    assert planned.value.code == code
    assert said in str(planned.value)


def test_a_dataset_that_is_trusted_is_not_compared(tmp_path: Path) -> None:
    config = BuildConfig((str(write_photos(tmp_path / "photos", cat=3)),), str(tmp_path / "out"), SMALL)
    run_build(config)
    write_photos(tmp_path / "photos", dog=1)
    config = replace(config, trust_manifest=True)

    assert plan_build(config).code == 0
    assert run_build(config).already_built  # type: ignore[union-attr]


def test_the_text_is_a_screen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photos, out = write_photos(tmp_path / "photos", cat=3, dog=2), tmp_path / "out"
    (photos / "notes.txt").write_text("x")

    assert main(["plan", "--input", str(photos), "--output", str(out), "--num_shards", "2", "--threads", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        f"Plan: {photos} -> {out} (nothing was written)",
        "  images     6 listed = 5 candidates + 1 skipped (suffix 1)",
    ]
    assert lines[2].startswith("  train      5 images, about 5 records, ")
    assert lines[2].endswith(" parts") and " in 2 shards of about " in lines[2]
    assert lines[3:6] == [
        "  formats    avif, bmp, gif, heic, jpeg, png, webp",
        "  classes    2: cat 3, dog 2",
        "  sample     5 images read and encoded; rejects: none",
    ]
    assert [line[:13] for line in lines[6:8]] == ["  here       ", "  Dataflow   "]
    assert lines[8].startswith("             list prices of us-central1, 2026-11; ")
    assert lines[-1] == "Next: the same flags with `shardfeed build`"
    assert len(lines) == 11


def test_json_has_the_same_facts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photos, out = write_photos(tmp_path / "photos", cat=3, dog=2), tmp_path / "out"

    assert main(["plan", "--input", str(photos), "--output", str(out), "--num_shards", "2", "--json"]) == 0
    raw = json.loads(capsys.readouterr().out)
    here, cloud, split = raw.pop("here"), raw.pop("dataflow"), raw["splits"].pop("train")
    size = raw.pop("bytes")
    assert raw == {
        "status": "planned",
        "inputs": [str(photos)],
        "output": str(out),
        "listed": 5,
        "images": 5,
        "skipped": {},
        "classes": ["cat", "dog"],
        "formats": ["avif", "bmp", "gif", "heic", "jpeg", "png", "webp"],
        "splits": {},
        "sample": {"images": 5, "rejected": {}},
        "notes": [],
        "exit_code": 0,
    }
    assert split == {
        "images": 5,
        "records": 5,
        "bytes": size,
        "error": 0.0,
        "parts": 5,
        "shards": 2,
        "by_class": {"cat": 3, "dog": 2},
    }
    assert here.keys() == {"threads", "rate", "seconds"}
    assert (cloud["prices_of"], cloud["prices_in"], cloud["workers"]) == ("2026-11", "us-central1", 1)
    assert cloud["reads"] == 5 + 3 * 5 + 2 * 2 + 6
    assert cloud["dollars"] > 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--num_shrads", "2"], "unknown argument --num_shrads; did you mean --num_shards?"),
        (
            ["--runner", "DirectRunner", "--paralelism", "3"],
            "unknown argument --paralelism. It is neither a flag of shardfeed nor of Apache Beam.",
        ),
        (
            ["--runner", "DirectRunner", "--parallelism", "a"],
            "Beam does not take this: argument --parallelism: invalid int value: 'a'.",
        ),
        ([], "--input is required."),
    ],
    ids=["a misspelt flag", "a misspelt flag of Beam's", "a value that Beam refuses", "no input"],
)  # fmt: skip
def test_messages_name_the_command(flags: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *flags]) == UsageError.code
    assert capsys.readouterr().err.splitlines() == [f"shardfeed: plan: {message} See `shardfeed plan --help`."]


WITHOUT_BEAM = """
import importlib.util, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "apache_beam" else find(name, *more)
sys.modules["apache_beam"] = None
from shardfeed.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def _without_beam(*args: str | Path) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", WITHOUT_BEAM, *args]
    return subprocess.run(program, capture_output=True, text=True, env=environment(), timeout=60, check=False)


def test_without_a_runner_flags_are_checked_without_beam(tmp_path: Path) -> None:
    ended = _without_beam("plan", "--input", tmp_path, "--output", tmp_path / "out", "--max_num_workers", "3")

    assert (ended.returncode, ended.stdout, ended.stderr) == (
        2,
        "",
        "shardfeed: unknown argument --max_num_workers. If it is an option of Apache Beam, it needs --runner (for example "
        "--runner DirectRunner). For shardfeed's own flags see `shardfeed build --help`.\n",
    )


def test_a_plan_takes_the_flags_of_beam_where_beam_is_not_installed(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", cat=3)
    args = ("plan", "--input", photos, "--output", tmp_path / "out", "--runner", "DirectRunner")

    ended = _without_beam(*args, "--worker_machine_type", "n2-standard-8", "--json")

    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout)["dataflow"]["vcpus"] == 8


def test_a_build_that_does_not_fit_into_this_machines_memory_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = BuildConfig((str(write_photos(tmp_path / "photos", cat=5)),), str(tmp_path / "out"))
    monkeypatch.setattr(notes, "memory", lambda: 200_000_999)  # five images at 200 bytes each need one byte more
    assert plan_build(config).notes == [
        Note(
            "a build on this machine would need about 200.0 MB of memory for 5 images, and it may use 200.0 MB. Use an engine "
            "whose workers share the listing: run_dataflow.sh, or another --runner (docs/how-to/engines.md)"
        )
    ]
    assert plan_build(replace(config, engine=Engine("DirectRunner"))).notes == []
    for enough in (200_001_000, None):  # None: not known
        monkeypatch.setattr(notes, "memory", lambda enough=enough: enough)
        assert plan_build(config).notes == []
