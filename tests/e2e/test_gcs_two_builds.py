"""Two builds meet in one output: equal ones succeed, a different one stops before it encodes."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

import pytest

from shardfeed.format.naming import MANIFEST
from tests.e2e.conftest import Undisturbed
from tests.kit import builds, hooks
from tests.kit.builder import Ended
from tests.kit.cloud import IN, OUT, Cloud, few_parts, output, photo_server, published
from tests.kit.servers.gcs_requests import Request
from tests.kit.servers.strict_gcs import StrictGCS

POINTS = 5


def is_request_to_output(request: Request) -> bool:
    return request.bucket == "data"


def meet(server: StrictGCS, cloud: Cloud, number: int, *flags: str, images: Path | None = None) -> tuple[Ended, Ended]:
    """A build that is held at a request to the output while a second one runs to its end."""
    second: list[Ended] = []
    count = [] if images is None else [partial(hooks.count_images, images)]

    def run_second() -> None:
        second.append(cloud.build(IN, OUT, *flags, hooks=[few_parts, *count]))

    server.inject("call", matches=is_request_to_output, skip=number, action=run_second)
    return cloud.build(IN, OUT, hooks=[few_parts]), second[0]


@pytest.fixture(scope="module")
def moments(undisturbed: Undisturbed) -> list[int]:
    """Numbers of requests to the output, from the first to the last of a build."""
    count = sum(map(is_request_to_output, undisturbed.log))
    return [round(point * (count - 1) / (POINTS - 1)) for point in range(POINTS)]


def test_equal_builds_that_meet_at_any_moment_both_succeed_with_the_same_bytes(
    photos: Path, undisturbed: Undisturbed, moments: list[int], tmp_path: Path
) -> None:
    def run(number: int) -> tuple[int, str, int, str, dict[str, str]]:
        with photo_server(photos) as server:
            cloud = Cloud(server.url, tmp_path)
            first, second = meet(server, cloud, number)
            cloud.built(IN, OUT, hooks=[few_parts])  # sweeps what the slower one may have left
            return first.code, first.err, second.code, second.err, published(server)

    assert builds.each(run, moments) == [(0, "", 0, "", undisturbed.digests)] * POINTS


def test_equal_builds_that_claim_at_the_same_moment_both_succeed(
    server: StrictGCS, cloud: Cloud, undisturbed: Undisturbed
) -> None:
    both = threading.Barrier(2, timeout=60)
    server.inject("call", "upload", "out/_parts/CLAIM", times=2, action=both.wait)
    ended = builds.each(lambda _number: cloud.build(IN, OUT, hooks=[few_parts]), range(2))
    assert [(one.code, one.err) for one in ended] == [(0, ""), (0, "")]
    cloud.built(IN, OUT, hooks=[few_parts])
    assert published(server) == undisturbed.digests


def test_a_different_build_stops_before_it_encodes_and_disturbs_nothing(
    photos: Path, undisturbed: Undisturbed, moments: list[int], tmp_path: Path
) -> None:
    def run(number: int) -> tuple[int, int, bool, bool, dict[str, str]]:
        images = tmp_path / f"images-{number}"
        with photo_server(photos) as server:
            first, second = meet(server, Cloud(server.url, tmp_path), number, "--quality", "50", images=images)
            named = "--quality (there 95, here 50)" in second.err
            return first.code, second.code, named, images.exists() and images.stat().st_size > 0, published(server)

    claimed = [number for number in moments if number > claim_number(undisturbed)]
    assert len(claimed) >= POINTS - 2
    assert builds.each(run, claimed) == [(0, 5, True, False, undisturbed.digests)] * len(claimed)


def claim_number(undisturbed: Undisturbed) -> int:
    requests = [request for request in undisturbed.log if is_request_to_output(request)]
    return next(number for number, request in enumerate(requests) if request.name.endswith("CLAIM"))


def test_whoever_comes_before_the_claim_wins(server: StrictGCS, cloud: Cloud) -> None:
    first, second = meet(server, cloud, 0, "--quality", "50")
    assert (first.code, second.code) == (5, 0)
    assert "holds a complete dataset that differs in --quality (there 50, here 95)" in first.err
    assert MANIFEST in output(server)
