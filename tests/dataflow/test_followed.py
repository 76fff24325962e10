"""A job that was taken is followed to its end, and its most telling error is shown."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from google.api_core import exceptions

from shardfeed.errors import IncompleteError
from shardfeed.pipeline.dataflow import follow
from shardfeed.storage import retry
from tests.dataflow.cloud import Cloud
from tests.dataflow.service import End

IMAGE = ("--sdk_container_image", "shardfeed:1")
NO_DATASET = "gs://data/out/manifest.json is not there although the engine reported success"
CARRY_ON = "What is finished is kept: rerun the same command to carry on."

BUSY: Exception = cast(Any, exceptions.TooManyRequests)("busy")

Page = Sequence[str] | Exception


class Job:
    """Beam's result and client of a job: each look finds the next state, and the next page."""

    def __init__(self, *states: str | Exception, pages: Sequence[Page] = ()) -> None:
        self._states: Iterator[str | Exception] = iter(states)
        self._pages = iter(pages)
        self.shown = io.StringIO()

    @property
    def state(self) -> str:
        found = next(self._states)
        if isinstance(found, Exception):
            raise found
        return found

    def job_id(self) -> str:
        return "1"

    def list_messages(self, *_: object, **__: object) -> tuple[list[object], str | None]:
        """A page whose texts end with "…" has another one after it."""
        page = next(self._pages, ())
        if isinstance(page, Exception):
            raise page
        more = "next" if page and page[-1] == "…" else None
        return [SimpleNamespace(id=text, message_text=text) for text in page if text != "…"], more

    def follow(self) -> str:
        """What is shown; nobody sleeps meanwhile."""
        with pytest.MonkeyPatch.context() as patch:
            for module in (follow, retry):
                patch.setattr(module, "sleep", lambda _seconds: None)
            follow.follow(self, self, self.shown)
        return self.shown.getvalue()


def test_each_state_and_each_error_is_shown_once_also_if_a_page_must_be_asked_for_again() -> None:
    pages: list[Page] = [
        ["Quota"],
        ["Quota", "…"], BUSY, ["Quota", "…"], ["and another\nwith a second line"],
    ]  # fmt: skip
    job = Job("PENDING", "RUNNING", BUSY, "RUNNING", "DONE", pages=pages)
    assert job.follow() == ("job 1: pending\njob error: Quota\njob 1: running\njob error: and another\njob 1: done\n")


def test_an_error_is_shown_escaped_and_cut() -> None:
    shown = Job("DONE", pages=[["\x1b[2J" + "x" * 600 + "\nTraceback"]]).follow()
    assert shown == f"job 1: done\njob error: \\x1b[2J{'x' * 592}…\n"


TRIED = "A work item was attempted 4 times"


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["Traceback\nValueError: no such thing", "Disk", TRIED], ": ValueError: no such thing"),
        ([TRIED, "one sentence", "another", "Workflow failed."], ": another"),
        ([TRIED, "Workflow failed."], ": Workflow failed."),
    ],
    ids=["a traceback", "the last sentence", "nothing else"],
)
def test_a_job_that_fails_is_incomplete_with_its_most_telling_error(texts: list[str], told: str) -> None:
    job = Job(*["FAILED"] * 20, pages=[texts] * 20)
    with pytest.raises(IncompleteError) as failed:
        job.follow()
    assert str(failed.value) == f"the job ended as failed{told}\n{CARRY_ON}"


def test_a_failed_job_is_asked_for_its_last_words() -> None:
    with pytest.raises(IncompleteError, match="the job ended as failed: late"):
        Job(*["FAILED"] * 20, pages=[*[()] * 9, ["late"]]).follow()


def test_a_service_that_stays_busy_is_left_and_the_job_goes_on() -> None:
    with pytest.raises(IncompleteError) as left:
        Job(*[BUSY] * 20).follow()
    assert str(left.value) == (
        "Dataflow does not answer (429 busy), so nobody waits any more; job 1 goes on. To wait for it again, rerun the same "
        "command: it joins."
    )


@pytest.mark.usefixtures("as_usual")
def test_a_job_is_followed_with_what_its_workers_count(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "METRICS_SECONDS", 0.05)
    over = threading.Event()
    cloud.service.counters = {
        "images_listed": 5000, "images_written": 1200, "images_rejected": 3, "bytes_out": 5_000_000, "retries": 9,
    }  # fmt: skip
    cloud.service.busy["/metrics"] = 3
    cloud.service.asked_for_metrics = over.set
    cloud.service.execute = lambda _job: End() if over.wait(60) else End("JOB_STATE_FAILED")
    ended = cloud.submit(*IMAGE)
    shown = [line for line in ended.err.splitlines() if not line.startswith("dataflow: ")]
    job = cloud.service.jobs[-1]["id"]
    assert shown[0] == f"https://console.cloud.google.com/dataflow/jobs/us-central1/{job}?project=my-project"
    assert "encoded 1,203 of 5,000 images (24 %), 5.0 MB, 3 rejected, 9 requests tried again" in shown
    assert (ended.code, ended.out, shown[-2]) == (4, "", f"job {job}: done")
    assert NO_DATASET in shown[-1]


@pytest.mark.usefixtures("as_usual")
def test_a_job_that_waits_for_its_turn_is_waited_for(cloud: Cloud) -> None:
    over, looks = threading.Event(), iter(range(10))  # far more than a failed job gets

    def meanwhile() -> str:
        if next(looks, None) is None:
            over.set()
        return "JOB_STATE_QUEUED"  # for which Beam has no name

    cloud.service.meanwhile = meanwhile
    cloud.service.execute = lambda _job: End("JOB_STATE_FAILED" if over.wait(60) else "JOB_STATE_DONE", ["no machines"])
    ended = cloud.submit(*IMAGE)
    job = cloud.service.jobs[-1]["id"]
    told = [line for line in ended.err.splitlines() if line.startswith("job ")]
    assert set(told) == {f"job {job}: queued", f"job {job}: failed", "job error: no machines"}
    assert (ended.code, ended.out) == (4, "")
    assert ended.err.endswith(f"shardfeed: the job ended as failed: no machines\n{CARRY_ON}\n")
