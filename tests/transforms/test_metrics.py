"""What an engine's screen shows of a build: metrics that agree with the manifest, display data."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from logging.handlers import BufferingHandler

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
from tests.kit.cloud import IN, OUT, output, photo_server
from tests.kit.commands import write_photos
from tests.kit.graphs import look_once
from tests.kit.servers.gcs_requests import Request
from tests.kit.servers.strict_gcs import StrictGCS

OPTIONS = BuildOptions(image=ImageOptions(height=32, width=32), num_shards=2)
CONFIG = BuildConfig(inputs=(IN,), output=OUT, options=OPTIONS, threads=2, keep_parts=True)


@dataclass(frozen=True)
class Built:
    """A build of fourteen images of 32 x 24 and a hidden file, and what it logged.

    One image is empty, one is no image. The bucket refuses some requests, which are tried again.
    """

    server: StrictGCS
    bytes_listed: int
    pipeline: beam.Pipeline
    counters: dict[str, int]
    log: list[str]

    @property
    def parts(self) -> int:
        return sum(_PART.search(name) is not None for name in output(self.server))


_PART = re.compile(r"/train/\d{5}\.json$")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    photos = write_photos(tmp_path_factory.mktemp("metrics") / "photos", cat=8, dog=6)
    (photos / "cat" / "000.jpg").write_bytes(b"")
    (photos / "cat" / "001.jpg").write_bytes(b"<html>not found</html>")
    (photos / "dog" / ".hidden").write_bytes(b"x")
    log = BufferingHandler(1_000)
    logger = logging.getLogger("shardfeed")
    logger.addHandler(log)
    logger.setLevel(logging.INFO)
    try:
        with photo_server(photos) as server, pytest.MonkeyPatch.context() as patch:
            patch.setenv("STORAGE_EMULATOR_HOST", server.url)
            patch.setattr(retry, "sleep", lambda _seconds: None)
            look_once(patch.setattr)
            for folder in ("cat/", "dog/"):
                server.inject("status", "list", matches=partial(_lists, folder), times=2)
            server.inject("status", "list", matches=lambda request: request.query["prefix"] == "in/", status=429)
            server.inject("status", "get", matches=lambda request: request.bucket == "photos", times=4, status=429)
            server.inject("status", "get", matches=_is_look_for_a_part, times=2)
            server.inject("status", "upload", matches=lambda request: "/train/" in request.name, times=2)
            server.inject("status", "compose")
            server.inject("status", "upload", matches=lambda request: request.name.endswith(".idx"))
            pipeline, counters = _run()
            size = sum(path.stat().st_size for path in photos.rglob("*.jpg"))
            yield Built(server, size, pipeline, counters, [record.getMessage() for record in log.buffer])
    finally:
        logger.removeHandler(log)
        logger.setLevel(logging.NOTSET)


def _lists(folder: str, request: Request) -> bool:
    return request.query["prefix"].endswith(folder)


def _is_look_for_a_part(request: Request) -> bool:
    return request.bucket == "data" and _PART.search(request.name) is not None


def _run() -> tuple[beam.Pipeline, dict[str, int]]:
    """The pipeline of a build, and its counters that are not zero."""
    pipeline = beam.Pipeline(runner="FnApiRunner", options=PipelineOptions([], save_main_session=False))
    build(pipeline, CONFIG, RunRecord("run", "now", CONFIG.inputs, "DirectRunner"), Run("run", CONFIG.output))
    result = pipeline.run()
    result.wait_until_finish()
    return pipeline, {name: count for name, count in counted(result).items() if count}


def test_counters_agree_with_the_manifest_and_the_input_and_requests_that_were_tried_again(built: Built) -> None:
    manifest = parse_manifest(output(built.server)["manifest.json"], "manifest")
    lists, images, sidecars, uploads, shards = 5, 4, 2, 2, 2

    assert built.counters == {
        "images_listed": 15,
        "images_skipped": 1,
        "bytes_listed": built.bytes_listed,
        "images_written": 12,
        "images_rejected": 2,
        "rejected_empty": 1,
        "rejected_format": 1,
        "fix_upscaled": 12,
        "bytes_out": manifest.splits["train"].bytes,
        "parts_made": built.parts,
        "shards_composed": 2,
        "retries": lists + images + sidecars + uploads + shards,
    }


def test_a_part_is_one_line_of_the_log(built: Built) -> None:
    pattern = r"part train/\d{5}: (\d+) written, (\d+) rejected, (\d+) bytes, by this run"
    lines = [re.fullmatch(pattern, line) for line in built.log]

    assert len(lines) == built.parts
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
        "input": IN,
        "output": OUT,
    }
    assert {**expected, "threads": 2}.items() <= shown.items()


def test_a_part_that_is_kept_takes_no_other_requests_and_is_counted_as_kept(built: Built) -> None:
    objects = built.server.objects.buckets["data"]
    for name in [name for name in objects if "_parts" not in name]:
        del objects[name]
    built.server.inject("status", "get", matches=_is_look_for_a_part, times=3)

    _, again = _run()
    made = {name: count for name, count in built.counters.items() if name != "parts_made"}
    assert again == {**made, "parts_kept": built.parts, "images_kept": 14, "retries": 3}


def _display_data(transform: beam_runner_api_pb2.PTransform) -> dict[str, object]:
    items = [
        beam_runner_api_pb2.LabelledPayload.FromString(item.payload)
        for item in transform.display_data
        if item.urn == "beam:display_data:labelled:v1"
    ]
    return {item.key: getattr(item, str(item.WhichOneof("value"))) for item in items}
