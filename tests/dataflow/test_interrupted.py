"""Ctrl-C and SIGTERM while a job is handed over to Dataflow, or followed there."""

from __future__ import annotations

import re
import signal
import sys
import threading

import pytest

from tests.dataflow.cloud import Cloud
from tests.dataflow.service import End
from tests.kit.servers.strict_gcs import StrictGCS

pytestmark = pytest.mark.usefixtures("as_usual")

IMAGE = ("--sdk_container_image", "shardfeed:1")
SECONDS = 60.0


# ``shardfeed`` that lets this test's buckets pass.
UNCHECKED = """
import sys
from shardfeed import __main__
from shardfeed.pipeline.dataflow import buckets
buckets.check = lambda *_, **__: None
sys.exit(__main__.main())
"""


def test_a_signal_while_files_are_staged_says_that_no_job_runs(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
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
        with cloud.launcher(*IMAGE, program=(sys.executable, "-c", UNCHECKED)) as launcher:
            assert staged.wait(SECONDS), "nothing is staged"
            launcher.send_signal(signal.SIGINT)
            out, err = launcher.communicate(timeout=SECONDS)
            over.set()
    assert (launcher.returncode, out, len(cloud.service.jobs)) == (4, "", before)
    assert err.splitlines()[-1] == (
        "shardfeed: stopped before Dataflow was asked for a job: none runs. Rerun the same command."
    )


def test_ctrl_c_while_the_job_is_handed_over_says_that_it_may_run(cloud: Cloud) -> None:
    asked, over = threading.Event(), threading.Event()

    def taking() -> None:
        asked.set()
        over.wait(SECONDS)

    cloud.service.taking = taking
    with cloud.launcher(*IMAGE) as launcher:
        assert asked.wait(SECONDS), "nobody asks for a job"
        launcher.send_signal(signal.SIGINT)
        out, err = launcher.communicate(timeout=SECONDS)
        over.set()
    assert (launcher.returncode, out) == (4, "")
    assert re.search(r"stopped while job shardfeed-data-out-\S+ was handed over\. It may have been taken", err)
    assert err.endswith(
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
    cloud: Cloud, number: signal.Signals, flags: tuple[str, ...], asked_for: list[int], said: str
) -> None:
    over = threading.Event()
    cloud.service.execute = lambda _job: End() if over.wait(SECONDS) else End("JOB_STATE_FAILED")
    with cloud.launcher(*flags, *IMAGE) as launcher:
        assert cloud.service.looked_at.wait(SECONDS), "nobody follows the job"
        launcher.send_signal(number)
        out, err = launcher.communicate(timeout=SECONDS)
    over.set()
    job = cloud.service.jobs[-1]["id"]
    assert (launcher.returncode, out, cloud.service.asked_for) == (4, "", asked_for)
    assert err.splitlines()[-1] == f"shardfeed: {said.format(job=job)}"


# ``shardfeed``, whose main thread looks at the job once, and again at each line.
LOOKING_SELDOM = """
import sys
from shardfeed import __main__
from shardfeed.pipeline.dataflow import follow
follow.sleep = lambda seconds: sys.stdin.readline()
sys.exit(__main__.main())
"""


def test_a_job_that_ends_before_it_is_cancelled_ended_as_it_did(cloud: Cloud) -> None:
    end = End("JOB_STATE_FAILED", ["No space left on device"])
    looked = threading.Event()
    cloud.service.execute = lambda _job: end if looked.wait(SECONDS) else End("JOB_STATE_STOPPED")
    program = (sys.executable, "-c", LOOKING_SELDOM)
    with cloud.launcher("--on_interrupt", "cancel", *IMAGE, program=program) as launcher:
        assert cloud.service.looked_at.wait(SECONDS), "nobody follows the job"
        looked.set()
        assert cloud.service.ended.wait(SECONDS)
        cloud.service.looked_at.clear()
        launcher.send_signal(signal.SIGINT)
        assert cloud.service.looked_at.wait(SECONDS), "nobody looks whether the job has ended"
        out, err = launcher.communicate("look\nlook\n", timeout=SECONDS)
    assert (launcher.returncode, out, cloud.service.asked_for) == (4, "", [])
    assert "shardfeed: the job ended as failed: No space left on device" in err
    assert "cancel" not in err.lower()
