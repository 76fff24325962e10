"""A job is handed over, and Dataflow refuses it, or gives no answer, or is not even asked."""

from __future__ import annotations

import gc
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.utils import retry as beam_retry
from google.api_core.exceptions import GoogleAPICallError, from_http_status
from google.auth.exceptions import TransportError

from shardfeed.errors import IncompleteError, ShardfeedError, UsageError
from shardfeed.pipeline.dataflow import buckets
from shardfeed.pipeline.dataflow.submission import DataflowRunner, submit
from tests.dataflow.cloud import Cloud
from tests.dataflow.service import End, Refusal
from tests.kit.servers.gcs_requests import Request
from tests.kit.servers.strict_gcs import StrictGCS

IMAGE = ("--sdk_container_image", "shardfeed:1", "--no_wait_until_finish")
LOST: Any = TransportError

TAKEN = "(4a1): The workflow could not be created. Causes: (5b): There is already an active job named mine."

pytestmark = pytest.mark.usefixtures("as_usual")


def not_submitted(fails: Callable[[DataflowRunner], None], *, named: bool = False) -> ShardfeedError:
    """What becomes of a pipeline whose run ``fails``."""
    options = PipelineOptions(["--project=my-project", "--region=us-central1", "--job_name=job-a"])
    runner = DataflowRunner()
    pipeline: Any = SimpleNamespace(runner=runner, run=lambda **_: fails(runner))
    with pytest.raises(ShardfeedError) as caught:
        submit(pipeline, options, named=named)
    return caught.value


def answered(error: Exception) -> Callable[[DataflowRunner], None]:
    """Dataflow, asked for a job, answers so."""

    def ask(runner: DataflowRunner) -> None:
        def client_raises(_job: object) -> None:
            raise error

        runner.dataflow_client = SimpleNamespace(submit_job_description=client_raises)
        runner.dataflow_client.submit_job_description(None)

    return ask


def google(code: int, text: str) -> GoogleAPICallError:
    make: Any = from_http_status  # Google's are not typed
    error: GoogleAPICallError = make(code, f"POST https://dataflow.googleapis.com/v1b3: {text}")
    return error


@pytest.mark.parametrize(
    ("code", "text", "named", "kind", "remedy"),
    [
        (403, "Current user cannot act as service account", False, UsageError, "You may not use the workers' service account."),
        (404, "Requested project my-project was not found", False, UsageError, ""),
        (409, TAKEN, True, UsageError, "An active job has this name: "),
        (429, "The project has 25 running jobs", False, IncompleteError, "Wait until other jobs have ended"),
    ],
)  # fmt: skip
def test_a_job_that_dataflow_does_not_take_is_a_bad_argument_or_is_taken_later(
    code: int, text: str, named: bool, kind: type[ShardfeedError], remedy: str
) -> None:
    error = not_submitted(answered(google(code, text)), named=named)
    first, _, last = str(error).partition("\n")
    assert (type(error), first) == (kind, f"Dataflow did not take the job: {code} {text}")
    assert last.startswith(remedy) and bool(last) == bool(remedy)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        *((google(code, "try again"), f"{code} try again") for code in (408, 500, 503, 504)),
        (LOST("hung up"), "no answer hung up"),
        (ConnectionResetError("hung up"), "no answer hung up"),
        (google(409, TAKEN), f"409 {TAKEN}"),  # no other job has a name of ours: an answer to it was lost
    ],
    ids=["408", "500", "503", "504", "no answer", "no connection", "our own lost request"],
)
def test_a_job_that_may_have_been_taken_is_incomplete_and_can_be_joined(error: Exception, said: str) -> None:
    found = not_submitted(answered(error))
    assert (type(found), str(found)) == (
        IncompleteError,
        f"Dataflow did not say whether it took job job-a: {said}\nIt may have been taken, and then it goes on. Look with: gcloud "
        "dataflow jobs list --project my-project --region us-central1; rerun the same command to join it.",
    )


def test_a_job_beside_this_one_that_dataflow_was_asked_for_is_not_taken_for_it() -> None:
    def stage_while_another_is_asked(_runner: DataflowRunner) -> None:
        assert "whether it took job" in str(not_submitted(answered(LOST("hung up"))))
        raise ConnectionResetError("hung up")

    assert str(not_submitted(stage_while_another_is_asked)).startswith(
        "no job was submitted, because a file could not be"
    )


def test_a_job_that_dataflow_does_not_take_publishes_nothing(cloud: Cloud) -> None:
    text = "Dataflow API has not been used in project my-project before or it is disabled."
    cloud.service.refusal = Refusal(403, "PERMISSION_DENIED", text)
    ended = cloud.submit(*IMAGE)
    assert (ended.code, ended.out, cloud.objects("data")) == (2, "", {})
    assert ended.err.endswith(
        f"shardfeed: Dataflow did not take the job: 403 {text}\nAn API is off. Turn them on: gcloud services enable "
        "dataflow.googleapis.com compute.googleapis.com storage.googleapis.com --project=my-project\n"
    )


def test_a_name_that_an_active_job_has_is_a_bad_argument_and_names_that_job(cloud: Cloud) -> None:
    over = threading.Event()
    cloud.service.execute = lambda _job: End() if over.wait(60) else End("JOB_STATE_FAILED")
    first, ended = (cloud.submit(*IMAGE, "--job_name", "mine") for _ in range(2))
    over.set()
    job = cloud.service.jobs[-1]["id"]
    assert (first.code, ended.code, ended.out) == (0, 2, "")
    said = f"shardfeed: Dataflow did not take the job: 409 There is already active job named mine with id: {job}. "
    assert said in ended.err and "\nAn active job has this name: " in ended.err


@pytest.mark.parametrize(
    ("setup", "said"),
    [
        ("absent/setup.py", "The file {path} cannot be found. It was specified in the --setup_file"),
        ("setup.py", "the command that packs --setup_file ended with exit code 1; its own message is above."),
    ],
    ids=["no setup.py", "a setup.py that raises"],
)
def test_a_package_that_cannot_be_made_is_a_bad_argument(cloud: Cloud, tmp_path: Path, setup: str, said: str) -> None:
    (tmp_path / "setup.py").write_text("raise ValueError('this one')\n")
    before = len(cloud.service.jobs)
    ended = cloud.submit("--setup_file", str(tmp_path / setup))
    last = ended.err.splitlines()[-1]
    assert (ended.code, ended.out, len(cloud.service.jobs)) == (2, "", before)
    assert last.startswith("shardfeed: no job was submitted: " + said.format(path=tmp_path / setup))
    assert last.endswith(" docs/how-to/dataflow.md has what workers need.")
    assert "Traceback" not in ended.err


@pytest.fixture
def gcs(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[StrictGCS]:
    """The cloud's buckets on a server that can misbehave; Beam does not pause."""
    with StrictGCS() as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        monkeypatch.setattr(server.objects, "check_write", lambda *_: None)  # Beam stages files without preconditions
        monkeypatch.setattr(buckets, "check", lambda *_, **__: None)
        monkeypatch.setattr(beam_retry.Clock, "sleep", lambda *_: None)
        server.objects.buckets.update(data={}, scratch={}, photos={})
        server.objects.put("photos", "in/cat/0.jpg", b"")
        yield server
        gc.collect()  # Google's writer of an upload that failed begins it again when it is collected: not after the server's end


FOLDER = (
    "Is the folder right (--temp_location, --staging_location, --template_location)? docs/how-to/dataflow.md has the"
)


@pytest.mark.parametrize(
    ("kind", "status", "code", "told"),
    [
        ("upload", 403, 2, FOLDER),
        ("bucket", 404, 2, FOLDER),
        ("upload", 400, 2, FOLDER),
        ("upload", 501, 4, "Rerun the same command later."),  # 503 is tried again by Google's client, for two minutes
    ],
    ids=["not written", "absent", "no name", "busy"],
)
def test_a_bucket_that_takes_no_file_is_named_and_no_job_was_asked_for(
    cloud: Cloud, gcs: StrictGCS, kind: Any, status: int, code: int, told: str
) -> None:
    def staging(request: Request) -> bool:
        return request.bucket == "scratch"

    gcs.inject("status", kind, matches=staging, status=status, text="no such thing", times=None)
    before = len(cloud.service.jobs)
    ended = cloud.submit(*IMAGE)
    said, last = ended.err.splitlines()[-2:]
    assert (ended.code, ended.out, len(cloud.service.jobs)) == (code, "", before)
    assert re.match(r"shardfeed: no job was submitted, because a file could not be staged: .*no such thing", said)
    assert last.startswith(told)
