"""Repeated bundles, doubled and late requests change no published byte, and are swept.

An engine may run a piece of work twice, side by side, and a network may deliver a request twice, or
long after whoever sent it has gone. Here every bundle runs three times, every write arrives twice,
and all of a build's writes arrive again at its end.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from shardfeed.format.naming import MANIFEST
from tests.e2e.conftest import Undisturbed
from tests.kit import hooks
from tests.kit.builds import DIRECT
from tests.kit.cloud import IN, OUT, Cloud, few_parts, output, published
from tests.kit.servers.gcs_objects import Refusal
from tests.kit.servers.gcs_requests import Request
from tests.kit.servers.strict_gcs import StrictGCS

REPEAT = (*DIRECT, "--direct_runner_bundle_repeat=2")
WRITES = ("upload", "compose", "delete")


def is_write(request: Request) -> bool:
    return request.bucket == "data" and request.kind in WRITES


def send(server: StrictGCS, *requests: Request) -> None:
    """Requests that arrive once more; nobody hears the answers."""
    for request in requests:
        with contextlib.suppress(Refusal):
            server.answer(request)


def left(server: StrictGCS) -> set[str]:
    """What nobody has swept. A sweep that did nothing would leave the same to both builds."""
    return {name for name in output(server) if name.startswith("_parts/")}


@pytest.fixture
def steps(tmp_path: Path) -> Path:
    """A log of the steps of one build, see ``counting``."""
    return tmp_path / "steps"


def counting(steps: Path) -> list[Callable[[], None]]:
    """Makes few parts, and writes down each step that runs."""
    return [few_parts, partial(hooks.count_bundles, steps)]


def runs(steps: Path) -> set[int]:
    """How often the steps ran: one number, where all of them ran equally often."""
    return set(hooks.runs_by_step(steps).values())


def test_every_write_arrives_twice_while_every_bundle_runs_three_times(
    server: StrictGCS, cloud: Cloud, undisturbed: Undisturbed, steps: Path
) -> None:
    doubled = []

    def double(request: Request) -> bool:
        if is_write(request):
            doubled.append(request)
            send(server, request)  # and is then answered as a second one: the client hears that the name is taken
        return False

    server.inject("call", matches=double)
    cloud.built(IN, OUT, *REPEAT, hooks=counting(steps))
    assert runs(steps) == {3}
    assert (published(server), left(server)) == (undisturbed.digests, set())
    assert {request.kind for request in doubled} == set(WRITES)


def test_writes_that_fail_after_they_were_done_while_every_bundle_runs_three_times(
    server: StrictGCS, cloud: Cloud, undisturbed: Undisturbed, steps: Path
) -> None:
    faults = [
        server.inject("lost_answer", matches=lambda r, kind=kind: is_write(r) and r.kind == kind, times=times)  # type: ignore[misc]
        for kind, times in (("upload", 6), ("compose", 1))
    ]
    cloud.built(IN, OUT, *REPEAT, hooks=counting(steps))
    assert runs(steps) == {3}
    assert [fault.times for fault in faults] == [0, 0]
    assert (published(server), left(server)) == (undisturbed.digests, set())


def test_a_slow_attempt_is_overtaken_by_a_whole_build(
    server: StrictGCS, cloud: Cloud, undisturbed: Undisturbed, steps: Path
) -> None:
    """The first write of a part waits until another build has published and swept."""

    def overtake() -> None:
        cloud.built(IN, OUT, hooks=[few_parts])

    server.inject("call", matches=lambda r: is_write(r) and "/train/" in r.name, action=overtake)
    slow = cloud.build(IN, OUT, *REPEAT, hooks=counting(steps))
    assert (slow.code, slow.err, runs(steps)) == (0, "", {3})
    assert (published(server), left(server)) == (undisturbed.digests, set())


@pytest.mark.parametrize(("moment", "flags"), [("before the manifest", REPEAT), ("after the end", ())])
def test_all_writes_of_a_build_arrive_again(
    moment: str, flags: tuple[str, ...], server: StrictGCS, cloud: Cloud, undisturbed: Undisturbed
) -> None:
    def again() -> None:
        send(server, *[request for request in server.log if is_write(request) and request.kind != "delete"])

    if moment == "before the manifest":
        server.inject("call", "upload", f"out/{MANIFEST}", action=again)
    cloud.built(IN, OUT, *flags, hooks=[few_parts])
    if moment == "after the end":
        again()
        assert {name.rpartition("/")[2] for name in left(server)} >= {"CLAIM", "00000.json"}

    verified = cloud.run("verify", OUT, "--deep", "--json")
    assert (verified.code, json.loads(verified.out)["ok"]) == (0, True)
    cloud.built(IN, OUT, hooks=[few_parts])
    assert (published(server), left(server)) == (undisturbed.digests, set())
