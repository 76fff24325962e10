"""Follows one job on Dataflow to its end and explains a failure.

Beam's own function for waiting logs every message of the job and shows no progress. This one
shows a line of progress every half minute, and the reason if the job fails. That the job has
succeeded is not taken from its state: ``shardfeed.pipeline.run_build`` reads the manifest.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any, TextIO, TypeVar

from shardfeed.errors import IncompleteError, clip
from shardfeed.pipeline.dataflow.remedies import explain_failure
from shardfeed.pipeline.engines.counters import counted
from shardfeed.pipeline.report.progress import progress_text, show
from shardfeed.storage.gcs_errors import FAILURES, is_transient
from shardfeed.storage.retry import call_with_retries

T = TypeVar("T")

POLL_SECONDS = 5.0  # between two looks
METRICS_SECONDS = 30.0  # between two lines of progress; the service counts about as often
LAST_WORDS_SECONDS = 50.0  # that a failed job's reason may come later than its state

sleep = time.sleep  # looked up at every call, so that tests need not wait

_ENDED_BY_A_USER = {"CANCELLED", "DRAINED", "UPDATED"}
# A job in any other state can go on, also in one that no release knows yet.
_ENDED = {"DONE", "FAILED", *_ENDED_BY_A_USER}


def follow(result: Any, client: Any, stream: TextIO | None) -> None:
    """Waits for the job's end and shows on ``stream`` how far it is.

    Raises:
        UsageError: its workers lacked the package, or what that needs.
        IncompleteError: the job did not end well.
    """
    shown, errors, since_metrics, waited = "", dict[str, str](), 0.0, 0.0
    while True:
        state = _asked(result, lambda: str(result.state))
        if (name := _name_of(state, result)) != shown:
            show(stream, f"job {result.job_id()}: {name}")
            shown = name
        found = _asked(result, lambda: _errors_of(client, result.job_id()))
        for text in (text for key, text in found.items() if key not in errors):
            show(stream, f"job error: {clip(text.splitlines()[0], 600)}")
        errors.update(found)
        if state == "DONE":
            return
        if state in _ENDED:
            if errors or state in _ENDED_BY_A_USER or waited >= LAST_WORDS_SECONDS:
                raise explain_failure(state.lower(), most_telling([*errors.values()]))
            waited += POLL_SECONDS
        sleep(POLL_SECONDS)
        since_metrics += POLL_SECONDS
        if state not in _ENDED and since_metrics >= METRICS_SECONDS:
            since_metrics = 0.0
            # Whatever Beam's client makes of a busy service: only a line is missing.
            with contextlib.suppress(Exception):
                if text := job_progress(result):
                    show(stream, text)


def _name_of(state: str, result: Any) -> str:
    """A state as it is shown: the service's own name if Beam has none (``queued``)."""
    if state == "UNRECOGNIZED":
        state = getattr(result._job.current_state, "name", state)
    return state.removeprefix("JOB_STATE_").lower()


def _asked(result: Any, question: Callable[[], T]) -> T:
    """Dataflow's answer; a busy service is asked again.

    Raises:
        IncompleteError: it does not answer; the job goes on.
    """
    try:
        return call_with_retries(question, is_transient)
    except FAILURES as error:
        raise IncompleteError(
            f"Dataflow does not answer ({clip(str(error), 300)}), so nobody waits any more; job {result.job_id()} goes on. "
            "To wait for it again, rerun the same command: it joins."
        ) from error


def _errors_of(client: Any, job_id: str) -> dict[str, str]:
    """The texts of a job's error messages by their ids, the oldest first, without empty ones."""
    found: dict[str, str] = {}
    token = None
    while True:
        page, token = client.list_messages(job_id, page_token=token, minimum_importance="JOB_MESSAGE_ERROR")
        found.update({message.id: text for message in page if (text := message.message_text.strip())})
        if not token:
            return found


def most_telling(texts: list[str]) -> str:
    """The last text that tells most: a traceback, else a sentence, else that work failed."""

    def rank(text: str) -> int:
        if "Traceback" in text:
            return 2
        return 0 if "attempted" in text or "Workflow failed" in text else 1

    return max(reversed(texts), key=rank, default="")


def job_progress(result: Any) -> str:
    """How far the workers are, as they count; empty if nothing is counted yet."""
    counts = counted(result)
    listed, rejected = counts["images_listed"], counts["images_rejected"]
    done = counts["images_written"] + rejected
    if not done:
        return f"listed {listed:,} images" if listed else ""
    text = progress_text("encoded", done, listed, rejected, counts["bytes_out"], rate=0)
    return text + (f", {counts['retries']:,} requests tried again" if counts["retries"] else "")
