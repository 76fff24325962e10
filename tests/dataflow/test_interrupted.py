"""Ctrl-C and SIGTERM while a job is handed over to Dataflow, or followed there."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator

import pytest

from pipeline import waiting
from tests.dataflow.cloud import Cloud
from tests.dataflow.service import End
from tests.pipeline.photos import command, environment

pytestmark = pytest.mark.usefixtures("as_usual")

IMAGE = ("--sdk_container_image", "shardfeed:1")
SECONDS = 60.0


def interrupted(job: object) -> End:
    """Somebody types Ctrl-C while the job runs, and it would run for a minute more."""
    os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait(60)
    return End()


def test_ctrl_c_cancels_the_job_where_the_flag_says_so(cloud: Cloud) -> None:
    def execute(job: object) -> End:
        cloud.service.looked_at.wait(SECONDS)
        return interrupted(job)

    cloud.service.execute = execute
    ended = cloud.submit(*IMAGE, "--on_interrupt", "cancel")
    job = cloud.service.jobs[-1]["id"]
    assert cloud.service.asked_for == [5]  # JOB_STATE_CANCELLED
    assert ended.code == 4
    assert f"job {job} on Dataflow was cancelled. What is finished is kept under gs://data/out/_parts" in ended.err


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (
            End(),
            "gs://data/out/manifest.json is not there although the engine reported success. Rerun the same command.",
        ),
        (End("JOB_STATE_FAILED", ["No space left on device"]), "the job ended as failed: No space left on device"),
    ],
    ids=["done", "failed"],
)
def test_a_job_that_ends_before_it_is_cancelled_ended_as_it_did(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, end: End, said: str
) -> None:
    asking = threading.Event()

    def execute(job: object) -> End:
        cloud.service.looked_at.wait(SECONDS)
        os.kill(os.getpid(), signal.SIGINT)
        asking.wait(SECONDS)
        return end

    def answered(*_: object) -> bool:
        asking.set()
        assert cloud.service.ended.wait(SECONDS)
        return True

    cloud.service.execute = execute
    monkeypatch.setattr(waiting, "_shall_cancel", answered)
    ended = cloud.submit(*IMAGE)
    assert (ended.code, ended.out, cloud.service.asked_for) == (4, "", [])
    assert f"shardfeed: {said}" in ended.err
    assert "cancel" not in ended.err.lower() + caplog.text.lower()


def test_ctrl_c_while_the_job_is_handed_over_says_that_it_may_run(cloud: Cloud) -> None:
    def taking() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait(2)

    cloud.service.taking = taking
    ended = cloud.submit(*IMAGE)
    assert ended.code == 4
    assert re.search(r"stopped while job shardfeed-data-out-\S+ was handed over\. It may have been taken", ended.err)
    assert (
        "gcloud dataflow jobs list --project my-project --region us-central1; rerun the same command to join it."
        in ended.err
    )


@pytest.fixture
def running(cloud: Cloud) -> Iterator[None]:
    """Jobs run until the test is over."""
    over = threading.Event()
    cloud.service.execute = lambda _job: End() if over.wait(SECONDS) else End("JOB_STATE_FAILED")
    yield
    over.set()


@pytest.mark.parametrize(
    ("flags", "asked_for", "said"),
    [
        (
            (),
            [],
            "no longer waiting; job {job} on Dataflow goes on. To wait for it again, rerun the same command: it joins, and "
            "nothing that is finished is done twice.",
        ),
        (
            ("--on_interrupt", "cancel"),
            [5],  # JOB_STATE_CANCELLED
            "job {job} on Dataflow was cancelled. What is finished is kept under gs://data/out/_parts; rerun the same command to "
            "carry on.",
        ),
    ],
    ids=["left by default", "cancelled by the flag"],
)
@pytest.mark.usefixtures("running")
def test_sigterm_while_a_job_is_followed(cloud: Cloud, flags: tuple[str, ...], asked_for: list[int], said: str) -> None:
    """In a process of its own: the launcher that leaves a job ends at once."""
    program = command(*cloud.arguments(*flags, *IMAGE))
    with subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as launcher:
        try:
            assert cloud.service.looked_at.wait(SECONDS), "nobody follows the job"
            launcher.send_signal(signal.SIGTERM)
            out, err = launcher.communicate(timeout=SECONDS)
        finally:
            launcher.kill()
    job = cloud.service.jobs[-1]["id"]
    assert (launcher.returncode, out, cloud.service.asked_for) == (4, "", asked_for)
    assert err.splitlines()[-1] == f"shardfeed: {said.format(job=job)}"
