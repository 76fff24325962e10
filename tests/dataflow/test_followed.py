"""A job that was taken: followed to its end, and a failure says what to do."""

from __future__ import annotations

import io
import threading
from types import SimpleNamespace

import pytest
from google.api_core.exceptions import ServiceUnavailable

from shardfeed.errors import IncompleteError, UsageError
from shardfeed.pipeline.dataflow import follow
from shardfeed.pipeline.dataflow.remedies import explain_failure
from shardfeed.storage import retry
from tests.dataflow.cloud import Cloud
from tests.dataflow.service import End

IMAGE = ("--sdk_container_image", "shardfeed:1")

pytestmark = pytest.mark.usefixtures("as_usual")


@pytest.mark.parametrize(
    ("errors", "said"),
    [
        (
            [
                "Startup of the worker pool in zone us-central1-a failed: ZONE_RESOURCE_POOL_EXHAUSTED",
                "Workflow failed.",
            ],
            "Rerun with another --worker_machine_type, or later.",
        ),
        (["Workflow failed. Causes: Quota 'CPUS' exceeded. Limit: 24.0"], "Give fewer workers (--max_num_workers)"),
        (
            ["Error pulling container image us-docker.pkg.dev/p/i:1: manifest unknown"],
            "The workers cannot fetch the image.",
        ),
        (["The worker lost contact with the service."], "--worker_machine_type n2-highmem-4"),
        (
            ["Network default is not accessible to Dataflow Service account"],
            "Name one that exists (--network, --subnetwork)",
        ),
        ([], "the job ended as failed and gave no reason"),
    ],
    ids=["no machines", "quota", "no image", "out of memory", "no network", "silence"],
)
def test_a_failure_names_the_remedy(errors: list[str], said: str) -> None:
    error = explain_failure("failed", errors[0] if errors else "")
    assert isinstance(error, IncompleteError)
    assert said in str(error)
    assert str(error).endswith("What is finished is kept: rerun the same command to carry on.")


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (
            "transforms",
            "The workers have no shardfeed. Give --setup_file (run_dataflow.sh does), or an image that holds it: see Dockerfile "
            "and --sdk_container_image.",
        ),
        (
            "obstore",
            "The workers lack what shardfeed depends on. With --setup_file workers need the network to install it; without, give "
            "an image that holds it: see Dockerfile and --sdk_container_image.",
        ),
    ],
)
def test_what_no_rerun_mends_is_a_bad_argument(module: str, said: str) -> None:
    cause = f"ModuleNotFoundError: No module named '{module}'"
    error = explain_failure("failed", f"Traceback (most recent call last):\n  File x\n{cause}")
    assert isinstance(error, UsageError)
    assert str(error) == f"the job ended as failed: {cause}\n{said}"


def test_a_job_that_fails_is_incomplete_with_its_most_telling_error(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "LAST_WORDS_SECONDS", 0.1)
    errors = ["A work item was attempted 4 times", "Traceback\n  File x\nValueError: no such thing", "Workflow failed."]
    cloud.service.execute = lambda _job: End("JOB_STATE_FAILED", errors)
    ended = cloud.submit(*IMAGE)
    assert (ended.code, ended.out) == (4, "")
    assert ended.err.endswith(
        "shardfeed: the job ended as failed: ValueError: no such thing\nWhat is finished is kept: rerun the same command to "
        "carry on.\n"
    )


def test_a_job_that_fails_without_a_word_is_asked_for_its_last_words(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "LAST_WORDS_SECONDS", 0.1)
    cloud.service.execute = lambda _job: End("JOB_STATE_FAILED", ["\n"])
    ended = cloud.submit(*IMAGE)
    assert ended.code == 4
    assert "job error: " not in ended.err
    assert "shardfeed: the job ended as failed and gave no reason; its page may.\n" in ended.err


def _followed(pages: list[list[str] | Exception]) -> str:
    """What is shown of a job that is looked at once and is then done; each request for messages takes the next of ``pages``."""
    left = [page for page in pages if isinstance(page, list)]
    answers = iter(pages)

    def list_messages(_job: str, page_token: str | None, minimum_importance: str) -> tuple[list[object], str | None]:
        page = next(answers)
        if isinstance(page, Exception):
            raise page
        more = "next" if page is not left[-1] else None
        return [SimpleNamespace(id=text, message_text=text) for text in page], more

    shown = io.StringIO()
    result = SimpleNamespace(state="DONE", job_id=lambda: "job1")
    follow.follow(result, SimpleNamespace(list_messages=list_messages), shown)
    return shown.getvalue()


def test_an_error_is_shown_also_where_the_next_page_has_to_be_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "sleep", lambda _: None)
    first = ["Quota 'CPUS' exceeded"]
    assert _followed([first, ServiceUnavailable("busy"), first, ["and another"]]) == (
        "job job1: done\njob error: Quota 'CPUS' exceeded\njob error: and another\n"
    )


def test_an_error_is_shown_escaped_and_cut() -> None:
    assert _followed([["\x1b[2J" + "x" * 600 + "\nTraceback"]]) == f"job job1: done\njob error: \\x1b[2J{'x' * 592}…\n"


def test_a_job_is_followed_with_what_its_workers_count(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "METRICS_SECONDS", 0.05)
    over = threading.Event()
    cloud.service.counters = {
        "images_listed": 5000, "images_written": 1200, "images_rejected": 3, "bytes_out": 5_000_000, "retries": 9,
    }  # fmt: skip
    cloud.service.asked_for_metrics = over.set
    cloud.service.execute = lambda _job: End() if over.wait(60) else End("JOB_STATE_FAILED")
    ended = cloud.submit(*IMAGE)
    shown = [line for line in ended.err.splitlines() if not line.startswith("dataflow: ")]
    job = cloud.service.jobs[-1]["id"]
    assert shown[0] == f"https://console.cloud.google.com/dataflow/jobs/us-central1/{job}?project=my-project"
    assert "encoded 1,203 of 5,000 images, 5.0 MB, 3 rejected, 9 requests tried again" in shown
    assert shown[-2] == f"job {job}: done"


@pytest.mark.parametrize(
    ("state", "shown"),
    [("JOB_STATE_QUEUED", "queued"), ("JOB_STATE_STOPPED", "stopped"), ("JOB_STATE_PAUSED", "paused")],
)
def test_a_job_that_has_not_ended_is_waited_for(
    state: str, shown: str, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "LAST_WORDS_SECONDS", 0.1)
    over, left = threading.Event(), iter(range(10))  # looks, far more than a failed job gets

    def meanwhile() -> str:
        if next(left, None) is None:
            over.set()
        return state

    cloud.service.meanwhile = meanwhile
    cloud.service.execute = lambda _job: End() if over.wait(60) else End("JOB_STATE_FAILED")
    ended = cloud.submit(*IMAGE)
    job = cloud.service.jobs[-1]["id"]
    told = [line for line in ended.err.splitlines() if line.startswith(f"job {job}: ")]
    assert told == [f"job {job}: {shown}", f"job {job}: done"]
    assert "gs://data/out/manifest.json is not there although the engine reported success" in ended.err


def test_a_job_that_is_done_without_a_dataset_is_incomplete(cloud: Cloud) -> None:
    ended = cloud.submit(*IMAGE)
    assert (ended.code, ended.out) == (4, "")
    assert "gs://data/out/manifest.json is not there although the engine reported success" in ended.err


@pytest.mark.parametrize("what", ["", "/messages", "/metrics"])
def test_a_service_that_is_busy_is_asked_again(what: str, cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "METRICS_SECONDS", 0.05)
    monkeypatch.setattr(retry, "sleep", lambda _: None)
    over = threading.Event()
    cloud.service.busy[what] = 3
    cloud.service.asked_for_metrics = over.set
    cloud.service.execute = lambda _job: End() if over.wait(60) else End("JOB_STATE_FAILED")
    ended = cloud.submit(*IMAGE)
    assert cloud.service.busy == {what: 0}
    assert "gs://data/out/manifest.json is not there although the engine reported success" in ended.err


def test_a_service_that_stays_busy_is_left_and_the_job_goes_on(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "sleep", lambda _: None)
    cloud.service.busy["/messages"] = 1000
    ended = cloud.submit(*IMAGE)
    job = cloud.service.jobs[-1]["id"]
    assert ended.code == 4
    assert (
        f"so nobody waits any more; job {job} goes on. To wait for it again, rerun the same command: it joins."
        in ended.err
    )
