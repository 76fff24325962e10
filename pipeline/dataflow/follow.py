"""One job on Dataflow: handed over, followed to its end, and its failure explained.

Beam's own waiting logs every message through ``logging`` and looks again every five seconds five times over; what a user wants
is a link, a line now and then, and at the end the reason. The job's end is not trusted for success: only the manifest is
(``shardfeed.pipeline.run_build`` reads it back).
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TextIO, TypeVar

from shardfeed import signals
from shardfeed.errors import IncompleteError, ShardfeedError, UsageError, clip
from shardfeed.pipeline.dataflow.remedies import explain_failure, explain_refusal
from shardfeed.pipeline.engines.counters import counted
from shardfeed.storage.address import split_gs_url
from shardfeed.storage.gcs_errors import FAILURES, is_transient
from shardfeed.storage.retry import call_with_retries
from shardfeed.words import human_bytes

if TYPE_CHECKING:
    from shardfeed.pipeline.dataflow.submission import Submission

T = TypeVar("T")

POLL_SECONDS = 5.0  # between two looks
METRICS_SECONDS = 30.0  # between two lines of progress; the service counts about as often
LAST_WORDS_SECONDS = 50.0  # that a failed job's reason may come later than its state

sleep = time.sleep  # looked up at every call, so that tests need not wait

_ENDED_BY_A_USER = {"CANCELLED", "DRAINED", "UPDATED"}
# Whatever else a job is, a queued one or what no release knows yet, can go on.
_ENDED = {"DONE", "FAILED", *_ENDED_BY_A_USER}


def submit(pipeline: Any, options: Any, *, named: bool) -> Any:
    """Hands the graph over; gives Beam's result. ``named``: the user named the job, so another may have that name.

    Raises:
        UsageError: Dataflow, or the bucket for staged files, refuses; or Beam cannot make the packages for the workers.
        IncompleteError: Dataflow takes no jobs at present, or did not say whether it took this one.
    """
    from shardfeed.pipeline.dataflow.submission import NO_GOOD_ANSWER, NotStagedError, watched

    with watched() as submission, signals.on_stop(lambda: _leave(submission, options)):
        try:
            return pipeline.run()
        except NotStagedError as error:
            raise _not_staged(error.__cause__, error.folder) from error
        except NO_GOOD_ANSWER as error:
            if submission.asked:
                raise _not_taken(error, options, named) from error
            raise _not_staged(error, _cloud(options).staging_location or _cloud(options).temp_location) from error
        except RuntimeError as error:  # Beam's for what is to be staged: a file that is absent, a setup.py that fails
            raise UsageError(
                f"no job was submitted: {_unpackaged(error)} docs/how-to/dataflow.md has what workers need."
            ) from error


def _leave(submission: Submission, options: Any) -> NoReturn:
    if submission.never_asks():
        signals.leave("stopped before Dataflow was asked for a job: none runs. Rerun the same command.")
    signals.leave(f"stopped while job {_cloud(options).job_name} was handed over. {_may_be_taken(options)}")


def _not_staged(error: BaseException | None, folder: str) -> ShardfeedError:
    code, text = _said_by(error)
    what = f"no job was submitted, for no file could be staged in {clip(folder)}: {clip(text, 600)}"
    if code is None or code in (408, 429) or code >= 500:
        return IncompleteError(f"{what}\nRerun the same command later.")
    if code == 401:
        return UsageError(f"{what}\nLog in: gcloud auth application-default login")
    bucket = split_gs_url(folder)[0]
    return UsageError(
        f"{what}\nIs the folder right (--temp_location, --staging_location, --template_location)? On its bucket you need "
        f"roles/storage.objectUser and roles/storage.legacyBucketReader: gcloud storage buckets add-iam-policy-binding "
        f"gs://{bucket} --member=user:YOU --role=ROLE"
    )


def _not_taken(error: Exception, options: Any, named: bool) -> ShardfeedError:
    cloud = _cloud(options)
    code, text = _said_by(error)
    # No other job has a name of ours: what is there already came of an attempt of Beam's whose answer was lost.
    if code is None or code == 408 or code >= 500 or (code == 409 and not named):
        return IncompleteError(
            f"Dataflow did not say whether it took job {cloud.job_name}: {clip(text, 600)}\n{_may_be_taken(options)}"
        )
    kind = IncompleteError if code == 429 else UsageError
    return kind(explain_refusal(text, project=cloud.project, region=cloud.region))


def _said_by(error: BaseException | None) -> tuple[int | None, str]:
    """Status and words of Google's answer, without the request; None where there was none."""
    code = getattr(error, "code", None)
    said = re.sub(r"^[A-Z]+ https?://\S+: ", "", getattr(error, "message", "") or str(error))
    return code, f"{code or 'no answer'} {said}"


def _cloud(options: Any) -> Any:
    from apache_beam.options.pipeline_options import GoogleCloudOptions

    return options.view_as(GoogleCloudOptions)


def _may_be_taken(options: Any) -> str:
    """What to do about a job of which nobody knows whether Dataflow has it."""
    cloud = _cloud(options)
    return (
        f"It may have been taken, and then it goes on. Look with: gcloud dataflow jobs list --project {cloud.project} "
        f"--region {cloud.region}; rerun the same command to join it."
    )


def _unpackaged(error: RuntimeError) -> str:
    """Why there is no package for the workers; what pip or a setup.py says goes to this process's stderr by itself."""
    cause = error.__cause__
    if not isinstance(cause, subprocess.CalledProcessError):
        return f"{clip((str(error) or type(error).__name__).splitlines()[0].rstrip('.'), 300)}."
    flag = "--requirements_file" if "pip" in cause.cmd else "--setup_file"
    return f"the command that packs {flag} ended with exit code {cause.returncode}; its own message is above. Mend that file."


def job_link(result: Any, options: Any) -> str:
    """Address of the job's page."""
    cloud = _cloud(options)
    return f"https://console.cloud.google.com/dataflow/jobs/{cloud.region}/{result.job_id()}?project={cloud.project}"


def follow(result: Any, client: Any, stream: TextIO | None) -> None:
    """Waits for the job's end and shows on ``stream`` how far it is.

    Raises:
        UsageError: its workers lacked the package, or what that needs.
        IncompleteError: the job did not end well.
    """
    say = _to(stream)
    errors = _Errors(client, result.job_id())
    shown, since_metrics, waited = "", 0.0, 0.0
    while True:
        state = _asked(result, lambda: str(result.state))
        if (name := _name_of(state, result)) != shown:
            say(f"job {result.job_id()}: {name}")
            shown = name
        for text in _asked(result, errors.new):
            say(f"job error: {clip(text.splitlines()[0], 600)}")
        if state == "DONE":
            return
        if state in _ENDED:
            if errors.worst or state in _ENDED_BY_A_USER or waited >= LAST_WORDS_SECONDS:
                raise explain_failure(state.lower(), errors.worst)
            waited += POLL_SECONDS
        sleep(POLL_SECONDS)
        since_metrics += POLL_SECONDS
        if state not in _ENDED and since_metrics >= METRICS_SECONDS:
            since_metrics = 0.0
            # Whatever Beam's client makes of a busy service: only a line is missing.
            with contextlib.suppress(Exception):
                if text := progress_text(result):
                    say(text)


def _name_of(state: str, result: Any) -> str:
    """A state as it is shown; where Beam has no name for it, such as for a FlexRS job's ``queued``, the service's own."""
    if state == "UNRECOGNIZED":
        state = getattr(result._job.current_state, "name", state)
    return state.removeprefix("JOB_STATE_").lower()


def _asked(result: Any, question: Callable[[], T]) -> T:
    """What Dataflow answers, asked again while it is busy.

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


def progress_text(result: Any) -> str:
    """Images encoded so far, as the workers count them; empty where nothing is counted yet."""
    counts = counted(result)
    done = counts.get("images_written", 0) + counts.get("images_rejected", 0)
    if not done:
        return f"listed {counts['images_listed']:,} images" if counts.get("images_listed") else ""
    text = f"encoded {done:,} of {counts.get('images_listed', 0):,} images, {human_bytes(counts.get('bytes_out', 0))}"
    if counts.get("images_rejected"):
        text += f", {counts['images_rejected']:,} rejected"
    if counts.get("retries"):
        text += f", {counts['retries']:,} requests tried again"
    return text


class _Errors:
    """Error messages of a job that say something, each once; ``worst`` is the one that tells most."""

    def __init__(self, client: Any, job_id: str) -> None:
        self._client, self._job_id = client, job_id
        self._seen: set[str] = set()
        self.worst = ""

    def new(self) -> list[str]:
        """Those that were not given before. Asked again from the first page if one fails, so none is noted before the last."""
        found: list[Any] = []
        token = None
        while True:
            messages, token = self._client.list_messages(
                self._job_id, page_token=token, minimum_importance="JOB_MESSAGE_ERROR"
            )
            found += messages
            if not token:
                break
        texts = [text for message in found if message.id not in self._seen and (text := message.message_text.strip())]
        self._seen.update(message.id for message in found)
        for text in texts:
            if _rank(text) >= _rank(self.worst):
                self.worst = text
        return texts


def _rank(text: str) -> int:
    """A traceback tells more than a sentence, and that more than that the job has failed or was tried again."""
    if not text:
        return 0
    if "Traceback" in text:
        return 3
    return 1 if "attempted" in text or "Workflow failed" in text else 2


def _to(stream: TextIO | None) -> Callable[[str], None]:
    def say(text: str) -> None:
        if stream is not None:
            stream.write(text + "\n")
            stream.flush()

    return say
