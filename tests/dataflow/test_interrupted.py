"""Ctrl-C and SIGTERM while a job is handed over to Dataflow, or followed there."""

from __future__ import annotations

import os
import re
import signal
import threading
from functools import partial
from pathlib import Path

import pytest

from shardfeed.pipeline.dataflow import buckets, follow
from tests.dataflow.cloud import Cloud
from tests.dataflow.service import End
from tests.kit.hooks import put
from tests.kit.servers.strict_gcs import StrictGCS

pytestmark = pytest.mark.usefixtures("as_usual")

IMAGE = ("--sdk_container_image", "shardfeed:1")
SECONDS = 60.0


def pass_buckets() -> None:
    """A hook: this test's buckets pass."""
    put(buckets, "check", lambda *_, **__: None)


def test_a_signal_while_files_are_staged_says_that_no_job_runs(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    staged, over = threading.Event(), threading.Event()

    def stage() -> None:
        staged.set()
        over.wait(SECONDS)

    with StrictGCS() as gcs:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", gcs.url)
        gcs.objects.buckets.update(data={}, scratch={}, photos={})
        gcs.objects.put("photos", "in/cat/0.jpg", b"")
        gcs.inject("call", "upload", matches=lambda request: request.bucket == "scratch", action=stage)
        before = len(cloud.service.jobs)
        with cloud.launcher(tmp_path, *IMAGE, hooks=(pass_buckets,)) as launcher:
            assert staged.wait(SECONDS), "nothing is staged"
            launcher.send_signal(signal.SIGINT)
            ended = launcher.ended()
            over.set()
    assert (ended.code, ended.out, len(cloud.service.jobs)) == (4, "", before)
    assert ended.err.splitlines()[-1] == (
        "shardfeed: stopped before Dataflow was asked for a job: none runs. Rerun the same command."
    )


def test_ctrl_c_while_the_job_is_handed_over_says_that_it_may_run(cloud: Cloud, tmp_path: Path) -> None:
    asked, over = threading.Event(), threading.Event()

    def taking() -> None:
        asked.set()
        over.wait(SECONDS)

    cloud.service.taking = taking
    with cloud.launcher(tmp_path, *IMAGE) as launcher:
        assert asked.wait(SECONDS), "nobody asks for a job"
        launcher.send_signal(signal.SIGINT)
        ended = launcher.ended()
        over.set()
    assert (ended.code, ended.out) == (4, "")
    assert re.search(r"stopped while job shardfeed-data-out-\S+ was handed over\. It may have been taken", ended.err)
    assert ended.err.endswith(
        "gcloud dataflow jobs list --project my-project --region us-central1; rerun the same command to join it.\n"
    )


@pytest.mark.parametrize(
    ("number", "flags", "asked_for", "said"),
    [
        (
            signal.SIGTERM,
            (),
            [],
            "no longer waiting; job {job} on Dataflow goes on. To wait for it again, rerun the same command: it joins, and "
            "nothing that is finished is done twice.",
        ),
        (
            signal.SIGINT,
            ("--on_interrupt", "cancel"),
            [5],  # JOB_STATE_CANCELLED
            "job {job} on Dataflow was cancelled. What is finished is kept under gs://data/out/_parts; rerun the same command to "
            "carry on.",
        ),
    ],
    ids=["left by default", "cancelled by the flag"],
)
def test_a_signal_while_a_job_is_followed(
    cloud: Cloud, number: signal.Signals, flags: tuple[str, ...], asked_for: list[int], said: str, tmp_path: Path
) -> None:
    over = threading.Event()
    cloud.service.execute = lambda _job: End() if over.wait(SECONDS) else End("JOB_STATE_FAILED")
    with cloud.launcher(tmp_path, *flags, *IMAGE) as launcher:
        assert cloud.service.looked_at.wait(SECONDS), "nobody follows the job"
        launcher.send_signal(number)
        ended = launcher.ended()
    over.set()
    job = cloud.service.jobs[-1]["id"]
    assert (ended.code, ended.out, cloud.service.asked_for) == (4, "", asked_for)
    assert ended.err.splitlines()[-1] == f"shardfeed: {said.format(job=job)}"


def look_seldom(pipe: Path) -> None:
    """A hook: the main thread looks at the job once, and again when a line comes."""
    put(follow, "sleep", lambda _seconds: pipe.read_text())


def test_a_job_that_ends_before_it_is_cancelled_ended_as_it_did(cloud: Cloud, tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "look")
    end = End("JOB_STATE_FAILED", ["No space left on device"])
    looked = threading.Event()
    cloud.service.execute = lambda _job: end if looked.wait(SECONDS) else End("JOB_STATE_STOPPED")
    hooks = (partial(look_seldom, pipe),)
    with cloud.launcher(tmp_path, "--on_interrupt", "cancel", *IMAGE, hooks=hooks) as launcher:
        assert cloud.service.looked_at.wait(SECONDS), "nobody follows the job"
        looked.set()
        assert cloud.service.ended.wait(SECONDS)
        cloud.service.looked_at.clear()
        launcher.send_signal(signal.SIGINT)
        assert cloud.service.looked_at.wait(SECONDS), "nobody looks whether the job has ended"
        pipe.write_text("look\n")
        ended = launcher.ended()
    assert (ended.code, ended.out, cloud.service.asked_for) == (4, "", [])
    assert "shardfeed: the job ended as failed: No space left on device" in ended.err
    assert "cancel" not in ended.err.lower()
