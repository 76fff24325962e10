"""A bucket that does not take the files for the workers: no job is asked for, and what is said says so."""

from __future__ import annotations

import gc
import re
import signal
import sys
import threading
from collections.abc import Iterator

import pytest
from apache_beam.utils import retry as beam_retry

from shardfeed.pipeline.dataflow import preflight
from tests.dataflow.cloud import Cloud
from tests.kit.servers.gcs_requests import Kind, Request
from tests.kit.servers.strict_gcs import StrictGCS

IMAGE = ("--sdk_container_image", "shardfeed:1", "--no_wait_until_finish")
FOLDER = r"gs://scratch/tmp/shardfeed-data-out-\S+"

SECONDS = 60.0

# ``shardfeed`` that lets this server's buckets pass.
UNCHECKED = """
import sys
from shardfeed import __main__
from shardfeed.pipeline.dataflow import preflight as dataflow_checks
dataflow_checks._check = lambda *_: None
sys.exit(__main__.main())
"""

pytestmark = pytest.mark.usefixtures("as_usual")


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Beam's before it tries again, noted instead of waited for."""
    noted: list[float] = []
    monkeypatch.setattr(beam_retry.Clock, "sleep", lambda _, seconds: noted.append(seconds))
    return noted


@pytest.fixture
def gcs(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[StrictGCS]:
    """The cloud's buckets on a server that misbehaves on request; they pass the checks."""
    with StrictGCS() as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        monkeypatch.setattr(server.objects, "check_write", lambda *_: None)  # Beam stages files without preconditions
        monkeypatch.setattr(preflight, "_check", lambda *_: None)
        server.objects.buckets.update(data={}, scratch={}, photos={})
        server.objects.put("photos", "in/cat/0.jpg", b"")
        yield server
        gc.collect()  # Google's writer of an upload that failed begins it again when it is collected: not after the server's end


def staging(request: Request) -> bool:
    return request.bucket == "scratch"


@pytest.mark.parametrize(
    ("kind", "status", "text"),
    [
        ("bucket", 403, "you@example.com does not have storage.buckets.get access to the Google Cloud Storage bucket."),
        ("bucket", 404, "The specified bucket does not exist."),
        (
            "upload",
            403,
            "you@example.com does not have storage.objects.create access to the Google Cloud Storage object.",
        ),
        ("upload", 400, "Invalid object name"),
    ],
    ids=["not seen", "absent", "not written", "no name"],
)
def test_a_bucket_that_refuses_a_file_is_a_bad_argument_at_once(
    cloud: Cloud, gcs: StrictGCS, pauses: list[float], kind: Kind, status: int, text: str
) -> None:
    gcs.inject("status", kind, matches=staging, status=status, text=text, times=None)
    before = len(cloud.service.jobs)
    ended = cloud.submit(*IMAGE)
    said, told = ended.err.splitlines()[-2:]
    assert (ended.code, ended.out, len(cloud.service.jobs), pauses) == (2, "", before, [])
    assert re.fullmatch(
        rf"shardfeed: no job was submitted, for no file could be staged in {FOLDER}: {re.escape(f'{status} {text}')}",
        said,
    )
    assert told == (
        "Is the folder right (--temp_location, --staging_location, --template_location)? On its bucket you need "
        "roles/storage.objectUser and roles/storage.legacyBucketReader: gcloud storage buckets add-iam-policy-binding "
        "gs://scratch --member=user:YOU --role=ROLE"
    )


def test_a_template_that_its_bucket_refuses_names_that_bucket(cloud: Cloud, gcs: StrictGCS) -> None:
    gcs.objects.buckets["templates"] = {}
    gcs.inject("status", "bucket", matches=lambda request: request.bucket == "templates", status=403, times=None)
    ended = cloud.submit(*IMAGE, "--template_location", "gs://templates/a/job")
    assert (ended.code, ended.out) == (2, "")
    assert "no job was submitted, for no file could be staged in gs://templates/a: 403 injected\n" in ended.err
    assert "add-iam-policy-binding gs://templates --member=user:YOU" in ended.err


def test_a_bucket_that_takes_no_file_for_now_is_incomplete_and_no_job_was_asked_for(
    cloud: Cloud, gcs: StrictGCS, pauses: list[float]
) -> None:
    # No 503, which Google's client tries again for two minutes.
    gcs.inject("status", "upload", matches=staging, status=501, text="Backend Error", times=None)
    before = len(cloud.service.jobs)
    ended = cloud.submit(*IMAGE)
    said, told = ended.err.splitlines()[-2:]
    assert (ended.code, ended.out, len(cloud.service.jobs), pauses) == (4, "", before, [])
    assert re.fullmatch(
        rf"shardfeed: no job was submitted, for no file could be staged in {FOLDER}: 501 Backend Error", said
    )
    assert told == "Rerun the same command later."


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_a_signal_while_files_are_staged_says_that_no_job_runs(
    cloud: Cloud, gcs: StrictGCS, number: signal.Signals
) -> None:
    staged, over = threading.Event(), threading.Event()

    def stage() -> None:
        staged.set()
        over.wait(SECONDS)

    gcs.inject("call", "upload", matches=staging, action=stage)
    before = len(cloud.service.jobs)
    with cloud.launcher(*IMAGE, program=(sys.executable, "-c", UNCHECKED)) as launcher:
        assert staged.wait(SECONDS), "nothing is staged"
        launcher.send_signal(number)
        out, err = launcher.communicate(timeout=SECONDS)
        over.set()
    assert (launcher.returncode, out, len(cloud.service.jobs)) == (4, "", before)
    assert err.splitlines()[-1] == (
        "shardfeed: stopped before Dataflow was asked for a job: none runs. Rerun the same command."
    )
