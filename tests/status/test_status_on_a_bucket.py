"""``shardfeed status`` of an output in a bucket: generations are times there, if they can be."""

from __future__ import annotations

import itertools

from shardfeed.pipeline.status.command import build_status
from shardfeed.transforms import stores
from tests.kit.servers.strict_gcs import StrictGCS
from tests.status.outputs import NOW, claim, write_sidecar

URL = "gs://bucket/out"


def _five_parts_of_twenty() -> None:
    store = stores.open_output(URL)
    claim(store, images=200, parts=20)
    for number in range(5):
        write_sidecar(store, number)


def test_generations_that_are_microseconds_give_rate_and_time_left(strict_gcs: StrictGCS) -> None:
    strict_gcs.objects.generations = itertools.count(round((NOW - 10) * 1e6), 2_000_000)
    _five_parts_of_twenty()

    assert build_status(URL, now=NOW + 4).to_text().splitlines()[:4] == [
        f"{URL}: a build, encoding, last file written 4 s ago",
        "  images     50 of 200 (25 %)",
        "  parts      5 finished, 5.0 kB",
        "  rate       5 img/s over the latest parts, about 30 s of encoding left",
    ]


def test_generations_that_are_no_times_are_not_taken_for_any(strict_gcs: StrictGCS) -> None:
    strict_gcs.objects.generations = itertools.count(1)
    _five_parts_of_twenty()

    status = build_status(URL, now=NOW)
    assert (status.rate, status.idle, status.silent) == (None, None, None)
    assert status.to_text().splitlines()[0] == f"{URL}: a build, encoding"
    assert status.next.endswith(
        "if it has ended, rerun the same `shardfeed build`: it carries on from the finished parts"
    )


def test_a_look_only_lists_and_reads(strict_gcs: StrictGCS) -> None:
    _five_parts_of_twenty()
    asked = len(strict_gcs.log)
    build_status(URL)

    assert [request.kind for request in strict_gcs.log[asked:]] == ["list", *["get"] * 6]
