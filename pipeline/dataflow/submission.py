"""One submission by Beam: files are staged, then Dataflow is asked for the job; which of them failed?

Beam does both in one call, and what the user is told depends on the answer. Beam tries again for ten
minutes what a bucket refuses, and for half an hour what Google's own client has already tried for two
minutes. Here a file that cannot be staged ends the submission.
"""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from apache_beam.runners.dataflow.internal import apiclient
from apache_beam.utils.retry import PermanentException
from google.api_core.exceptions import Conflict, GoogleAPICallError, RetryError, from_http_response
from google.auth.exceptions import TransportError
from google.cloud.storage.exceptions import InvalidResponse
from requests.exceptions import RequestException

NO_GOOD_ANSWER = (GoogleAPICallError, TransportError, RequestException)
_SWAPPING = threading.Lock()  # one submission of a process at a time has its client in Beam's module


class Submission:
    """``asked``: whether Dataflow was asked for the job."""

    def __init__(self) -> None:
        self.asked = False
        self._asking = threading.Lock()

    def ask(self) -> None:
        """Called right before Dataflow is asked."""
        with self._asking:
            self.asked = True

    def never_asks(self) -> bool:
        """Whether Dataflow was not asked yet; from now on ``ask`` waits for the end of the process."""
        self._asking.acquire()
        return not self.asked


class NotStagedError(PermanentException):  # which Beam does not try again
    """A bucket did not take a file for ``folder``; the cause is one of ``NO_GOOD_ANSWER``."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self.folder = folder


@contextlib.contextmanager
def watched() -> Iterator[Submission]:
    """Watches the submission in the block. A second thread waits until the first one's has ended.

    Raises:
        NotStagedError: a bucket did not take a file.
    """
    submission = Submission()
    with _SWAPPING:
        before = apiclient.DataflowApplicationClient
        apiclient.DataflowApplicationClient = _client_of(submission)  # type: ignore[misc]
        try:
            yield submission
        finally:
            apiclient.DataflowApplicationClient = before  # type: ignore[misc]


def _client_of(submission: Submission) -> type[apiclient.DataflowApplicationClient]:
    class Client(apiclient.DataflowApplicationClient):
        def stage_file(self, gcs_or_local_path: str, *args: Any, **kwargs: Any) -> None:
            try:
                super().stage_file(gcs_or_local_path, *args, **kwargs)
            except Exception as error:
                answer = _answer(error)
                if isinstance(answer, NO_GOOD_ANSWER):
                    raise NotStagedError(gcs_or_local_path) from answer
                raise

        def submit_job_description(self, job: Any) -> Any:
            submission.ask()
            try:
                return super().submit_job_description(job)
            except apiclient.DataflowJobAlreadyExistsError as error:  # Beam's for another job in the answer
                raise Conflict(str(error)) from error

    return Client


def _answer(error: BaseException | None) -> BaseException | None:
    """What Google answered, which Beam and Google's client wrap."""
    if type(error) is OSError:  # Beam's for 403 and 404
        error = error.__context__
    if isinstance(error, RetryError):
        error = error.cause
    return from_http_response(error.response) if isinstance(error, InvalidResponse) else error
