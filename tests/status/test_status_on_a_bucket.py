"""``shardfeed status`` of a build whose output is a bucket: times come from generations, where those are times."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from shardfeed.format import naming
from shardfeed.pipeline.status.command import status_of
from shardfeed.transforms import stores
from shardfeed.transforms.elements import PartResult, Plan, SplitPlan
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.output.claim import claim_output
from shardfeed.transforms.output.part_files import Sidecar
from tests.kit.servers.strict_gcs import StrictGCS

FINGERPRINT = "a" * 32
NOW = 1_800_000_000.0
URL = "gs://data/out"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[StrictGCS]:
    """An empty bucket ``data``."""
    with StrictGCS() as strict:
        strict.objects.buckets["data"] = {}
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", strict.url)
        yield strict


def _five_parts_of_twenty() -> None:
    plan = Plan(FINGERPRINT, ("cat",), {}, 200, {"train": SplitPlan(20, 2, 200)})
    store = stores.open_output(URL)
    claim_output(store, plan, BuildOptions(), 7)
    for number in range(5):
        result = PartResult("train", number, 1000, 10, 0, 0, {}, {}, {"cat": 10}, None)
        name = naming.sidecar_name(FINGERPRINT, "train", number)
        store.create(name, Sidecar(result, (100,) * 10, (), {}).to_bytes())


def test_generations_that_are_microseconds_give_rate_and_time_left(server: StrictGCS) -> None:
    server.objects.generations = itertools.count(round((NOW - 10) * 1e6), 2_000_000)
    _five_parts_of_twenty()

    assert status_of(URL, now=NOW + 4).to_text().splitlines()[:4] == [
        f"{URL}: a build, encoding, last file written 4 s ago",
        "  images     50 of 200 (25 %)",
        "  parts      5 finished, 5.0 kB",
        "  rate       5 img/s over the latest parts, about 30 s of encoding left",
    ]


def test_generations_that_are_no_times_are_not_taken_for_any(server: StrictGCS) -> None:
    server.objects.generations = itertools.count(1)
    _five_parts_of_twenty()

    status = status_of(URL, now=NOW)
    assert (status.rate, status.quiet, status.silent) == (None, None, None)
    assert status.to_text().splitlines()[0] == f"{URL}: a build, encoding"
    assert status.next.endswith(
        "if it has ended, rerun the same `shardfeed build`: it carries on from the finished parts"
    )


def test_a_look_only_lists_and_reads(server: StrictGCS) -> None:
    _five_parts_of_twenty()
    asked = len(server.log)
    status_of(URL)

    assert [request.kind for request in server.log[asked:]] == ["list", *["get"] * 6]
