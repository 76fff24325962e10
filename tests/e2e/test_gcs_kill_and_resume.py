"""A build into a bucket is killed at one of its writes, and the same command is run again."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from shardfeed.format import naming
from tests.e2e.conftest import Undisturbed
from tests.kit import builds, hooks
from tests.kit.builder import Ended
from tests.kit.cloud import IN, OUT, Cloud, few_parts, output, photo_server, published, write_pid
from tests.kit.servers.gcs_requests import Request

IMAGES = 12  # that can be decoded
POINTS = 8


def is_write(request: Request) -> bool:
    return request.kind in ("upload", "resume", "compose", "delete")


@dataclass(frozen=True)
class Killed:
    """A build killed at a write, and its second run ``again``, which decoded ``encoded`` images.

    ``left``: what lay in the output between them.
    """

    write: str
    code: int
    left: dict[str, bytes]
    again: Ended
    encoded: int
    digests: dict[str, str]


def test_the_same_command_completes_and_encodes_no_finished_part_again(
    photos: Path, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    writes = [f"{request.kind} {request.name}" for request in undisturbed.log if is_write(request)]
    compose = next(number for number, write in enumerate(writes) if write.startswith("compose"))
    numbers = sorted({compose, *(round(point * (len(writes) - 1) / (POINTS - 1)) for point in range(POINTS))})
    points = [(number, writes[number], number % 2 == 0) for number in numbers]
    killed = builds.each(partial(kill_and_rerun, photos, tmp_path), points)

    assert [k.write for k in killed if k.code != -9] == []
    assert {"CLAIM" in killed[0].write, "outcome" in killed[-1].write} == {True}
    assert {k.write.split()[0] for k in killed} == {"upload", "compose", "delete"}
    assert {naming.CLAIM in k.left for k in killed} == {naming.MANIFEST in k.left for k in killed} == {True, False}

    assert {k.write: (k.again.code, k.again.err) for k in killed if k.again.code or k.again.err} == {}
    assert {k.write: sorted(k.digests) for k in killed if k.digests != undisturbed.digests} == {}
    expected = {k.write: 0 if naming.MANIFEST in k.left else IMAGES - finished_images(k.left) for k in killed}
    assert {k.write: k.encoded for k in killed} == expected
    assert set(expected.values()) > {0, IMAGES}


def kill_and_rerun(photos: Path, folder: Path, point: tuple[int, str, bool]) -> Killed:
    """``point``: number and name of the write, and whether the server carries it out, or it never arrives."""
    number, write, done = point
    pid, images = folder / f"pid-{number}", folder / f"images-{number}"

    def kill() -> None:
        os.kill(int(pid.read_text()), signal.SIGKILL)
        if not done:
            raise ConnectionError("the request never arrived")

    with photo_server(photos) as server:
        cloud = Cloud(server.url, folder)
        server.inject("call", matches=is_write, skip=number, action=kill)
        first = cloud.build(IN, OUT, hooks=[few_parts, partial(write_pid, pid)])
        server.wait_until_left()
        left = output(server)
        again = cloud.build(IN, OUT, hooks=[few_parts, partial(hooks.count_images, images)])
        encoded = images.stat().st_size if images.exists() else 0
        return Killed(write, first.code, left, again, encoded, published(server))


def finished_images(left: dict[str, bytes]) -> int:
    """Images in parts that have a sidecar."""
    sidecars = [
        json.loads(data.splitlines()[0]) for name, data in left.items() if name.endswith("json") and "/train/" in name
    ]
    return sum(sidecar["result"]["records"] for sidecar in sidecars)
