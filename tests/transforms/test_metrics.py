"""What an engine's screen shows of a build: metrics that agree with the manifest, display data."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2

from shardfeed.format.manifest import parse_manifest
from shardfeed.pipeline.config.build_config import BuildConfig
from shardfeed.pipeline.engines.counters import counted
from shardfeed.pipeline.graph import build
from shardfeed.storage import retry
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.publish.manifest_commit import RunRecord
from shardfeed.transforms.run.state import Run
from shardfeed.transforms.sources.local import LocalSource
from tests.kit.cloud import IN, OUT, photo_server
from tests.kit.commands import write_photos
from tests.kit.servers.gcs_requests import Request

OPTIONS = BuildOptions(image=ImageOptions(height=32, width=32), num_shards=2)


@dataclass(frozen=True)
class Built:
    """A build of fourteen images of 32 x 24 and a hidden file, and what it logged.

    One image is empty, one is no image. The first read of each fails.
    """

    config: BuildConfig
    pipeline: beam.Pipeline
    counters: dict[str, int]
    log: list[str]

    @property
    def photos(self) -> Path:
        return Path(self.config.inputs[0])

    @property
    def parts(self) -> list[Path]:
        return list(Path(self.config.output, "_parts").rglob("0*.json"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    root = tmp_path_factory.mktemp("metrics")
    photos = write_photos(root / "photos", cat=8, dog=6)
    (photos / "cat" / "000.jpg").write_bytes(b"")
    (photos / "cat" / "001.jpg").write_bytes(b"<html>not found</html>")
    (photos / "dog" / ".hidden").write_bytes(b"x")
    read, failed = LocalSource._read, set[bytes]()

    def flaky(self: LocalSource, key: bytes, *version_and_range: Any) -> bytes:
        if key not in failed:
            failed.add(key)
            raise OSError(5, "Input/output error")
        return read(self, key, *version_and_range)

    log = _Lines()
    logger = logging.getLogger("shardfeed")
    logger.addHandler(log)
    logger.setLevel(logging.INFO)
    config = BuildConfig(inputs=(str(photos),), output=str(root / "out"), options=OPTIONS, threads=1, keep_parts=True)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LocalSource, "_read", flaky)
            patch.setattr(retry, "sleep", lambda _seconds: None)
            pipeline, counters = _run(config)
        yield Built(config, pipeline, counters, list(log.lines))
    finally:
        logger.removeHandler(log)
        logger.setLevel(logging.NOTSET)


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def _run(config: BuildConfig) -> tuple[beam.Pipeline, dict[str, int]]:
    """The pipeline of a build, and its counters that are not zero."""
    pipeline = beam.Pipeline(runner="FnApiRunner", options=PipelineOptions([], save_main_session=False))
    build(pipeline, config, RunRecord("run", "now", config.inputs, "DirectRunner"), Run("run", config.output))
    result = pipeline.run()
    result.wait_until_finish()
    return pipeline, {name: count for name, count in counted(result).items() if count}


def test_counters_agree_with_the_manifest_and_the_input(built: Built) -> None:
    manifest = parse_manifest(Path(built.config.output, "manifest.json").read_bytes(), "manifest")

    assert built.counters == {
        "images_listed": 15,
        "images_skipped": 1,
        "bytes_listed": sum(path.stat().st_size for path in built.photos.rglob("*.jpg")),
        "images_written": 12,
        "images_rejected": 2,
        "rejected_empty": 1,
        "rejected_format": 1,
        "fix_upscaled": 12,
        "bytes_out": manifest.splits["train"].bytes,
        "parts_made": len(built.parts),
        "shards_composed": 2,
        "retries": 13,  # an empty file is refused before it is read
    }


def test_requests_of_a_bucket_that_were_tried_again_are_counted_and_a_kept_part_took_no_others(
    built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "sleep", lambda _seconds: None)
    config = BuildConfig(inputs=(IN,), output=OUT, options=OPTIONS, threads=2, keep_parts=True)
    with photo_server(built.photos) as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        for folder in ("cat/", "dog/"):
            server.inject("status", "list", matches=partial(_lists, folder), times=2)
        server.inject("status", "list", matches=lambda request: request.query["prefix"] == "in/", status=429)
        server.inject("status", "get", matches=lambda request: request.bucket == "photos", times=4, status=429)
        server.inject("status", "get", matches=_is_look_for_a_part, times=2)
        server.inject("status", "upload", matches=lambda request: "/train/" in request.name, times=2)
        server.inject("status", "compose")
        server.inject("status", "upload", matches=lambda request: request.name.endswith(".idx"))
        _, made = _run(config)

        objects = server.objects.buckets["data"]
        for name in [name for name in objects if "_parts" not in name]:
            del objects[name]
        server.inject("status", "get", matches=_is_look_for_a_part, times=3)
        _, again = _run(config)

    lists, images, sidecars, uploads, shards = 5, 4, 2, 2, 2
    assert made == {**built.counters, "retries": lists + images + sidecars + uploads + shards}
    kept = {"parts_kept": made.pop("parts_made"), "images_kept": 14}
    assert again == {**made, **kept, "retries": 3}


def _lists(folder: str, request: Request) -> bool:
    return request.query["prefix"].endswith(folder)


def _is_look_for_a_part(request: Request) -> bool:
    return request.bucket == "data" and re.search(r"/train/\d{5}\.json$", request.name) is not None


def test_a_part_is_one_line_of_the_log(built: Built) -> None:
    pattern = r"part train/\d{5}: (\d+) written, (\d+) rejected, (\d+) bytes, by this run"
    lines = [re.fullmatch(pattern, line) for line in built.log]

    assert len(lines) == len(built.parts)
    counts = [tuple(map(int, line.groups())) for line in lines if line is not None]
    names = ("images_written", "images_rejected", "bytes_out")
    assert tuple(map(sum, zip(*counts, strict=True))) == tuple(built.counters[name] for name in names)


def test_the_step_that_encodes_shows_what_it_was_given(built: Built) -> None:
    transforms = built.pipeline.to_runner_api().components.transforms.values()
    (shown,) = [_display_data(transform) for transform in transforms if transform.unique_name == "EncodeParts/Encode"]
    expected = {
        "image_size": "[32, 32]",
        "splits": "train",
        "seed": "0",
        "num_shards": "2",
        "input": str(built.photos),
        "output": built.config.output,
    }
    assert {**expected, "threads": 1}.items() <= shown.items()


def _display_data(transform: beam_runner_api_pb2.PTransform) -> dict[str, object]:
    items = [
        beam_runner_api_pb2.LabelledPayload.FromString(item.payload)
        for item in transform.display_data
        if item.urn == "beam:display_data:labelled:v1"
    ]
    return {item.key: getattr(item, str(item.WhichOneof("value"))) for item in items}
