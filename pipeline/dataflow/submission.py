"""Hands one job over to Dataflow: Beam stages files, then asks the service for the job.

Beam does both in one call. The message of a failure depends on which of the two failed, because a
job that was asked for may run although no answer came.
"""

import re
import subprocess
import threading
from typing import Any, NoReturn

from apache_beam.options.pipeline_options import GoogleCloudOptions
from apache_beam.runners.dataflow import dataflow_runner
from apache_beam.runners.dataflow.internal.apiclient import DataflowJobAlreadyExistsError
from google.api_core.exceptions import GoogleAPIError, from_http_response
from google.auth.exceptions import TransportError
from google.cloud.storage.exceptions import InvalidResponse

from shardfeed import signals
from shardfeed.errors import IncompleteError, ShardfeedError, UsageError, clip
from shardfeed.pipeline.dataflow.remedies import explain_refusal


class DataflowRunner(dataflow_runner.DataflowRunner):
    """Beam's runner, which knows whether it has asked for the job. Beam checks the class's name."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = False
        self._asking = threading.Lock()
        self._client: Any = None

    @property
    def dataflow_client(self) -> Any:
        """Beam's client of the service; Beam sets it before it stages the first file."""
        return self._client

    @dataflow_client.setter
    def dataflow_client(self, client: Any) -> None:
        submit = client.submit_job_description

        def ask(job: Any) -> Any:
            with self._asking:
                self.asked = True
            return submit(job)

        client.submit_job_description = ask
        self._client = client

    def forbid_asking(self) -> bool:
        """Whether Dataflow was not asked yet. A thread that asks from now on waits for ever."""
        self._asking.acquire()
        return not self.asked


def submit(pipeline: Any, options: Any, *, named: bool) -> Any:
    """Hands the graph over and returns Beam's result. ``named``: the user chose the job's name.

    Raises:
        UsageError: Dataflow, or the bucket for staged files, refuses; or Beam cannot make the
        packages for the workers. IncompleteError: Dataflow takes no jobs at present, or did not say
        whether it took this one.
    """
    cloud, runner = options.view_as(GoogleCloudOptions), pipeline.runner
    with signals.on_stop(lambda: _leave(runner, cloud)):
        try:
            return pipeline.run(test_runner_api=False)  # else Beam makes the graph twice
        except DataflowJobAlreadyExistsError as error:
            raise UsageError(explain_refusal(f"409 {error}", project=cloud.project)) from error
        except (GoogleAPIError, TransportError, InvalidResponse, OSError) as error:
            raise (_not_taken(error, cloud, named) if runner.asked else _not_staged(error)) from error
        except RuntimeError as error:  # Beam's for what is to be staged: a file that is absent, a setup.py that fails
            raise UsageError(
                f"no job was submitted: {_unpackaged(error)} docs/how-to/dataflow.md has what workers need."
            ) from error


def _leave(runner: DataflowRunner, cloud: Any) -> NoReturn:
    if runner.forbid_asking():
        signals.leave("stopped before Dataflow was asked for a job: none runs. Rerun the same command.")
    signals.leave(f"stopped while job {cloud.job_name} was handed over. {_may_be_taken(cloud)}")


def _not_staged(error: Exception) -> ShardfeedError:
    if isinstance(error, InvalidResponse):
        error = from_http_response(error.response)
    what = f"no job was submitted, because a file could not be staged: {clip(_words_of(error), 600)}"
    # OSError itself is Beam's for 403 and 404.
    if type(error) is OSError or getattr(error, "code", None) in (400, 401, 403, 404):
        return UsageError(
            f"{what}\nIs the folder right (--temp_location, --staging_location, --template_location)? docs/how-to/dataflow.md "
            "has the roles that you need on its bucket."
        )
    return IncompleteError(f"{what}\nRerun the same command later.")


def _not_taken(error: Exception, cloud: Any, named: bool) -> ShardfeedError:
    code, text = getattr(error, "code", None), _words_of(error)
    # No other job has a name that we chose: a job of this name is ours, and Beam lost the answer
    # for it.
    if code is None or code == 408 or code >= 500 or (code == 409 and not named):
        return IncompleteError(
            f"Dataflow did not say whether it took job {cloud.job_name}: {clip(text, 600)}\n{_may_be_taken(cloud)}"
        )
    kind = IncompleteError if code == 429 else UsageError
    return kind(explain_refusal(text, project=cloud.project))


def _words_of(error: Exception) -> str:
    """Status and words of Google's answer, without the request."""
    code = getattr(error, "code", None)
    said = re.sub(r"^[A-Z]+ https?://\S+: ", "", getattr(error, "message", "") or str(error))
    return f"{code or 'no answer'} {said}"


def _may_be_taken(cloud: Any) -> str:
    """What to do about a job of which nobody knows whether Dataflow has it."""
    return (
        f"It may have been taken, and then it goes on. Look with: gcloud dataflow jobs list --project {cloud.project} "
        f"--region {cloud.region}; rerun the same command to join it."
    )


def _unpackaged(error: RuntimeError) -> str:
    """Why there is no package for the workers; pip and setup.py write to our stderr themselves."""
    cause = error.__cause__
    if not isinstance(cause, subprocess.CalledProcessError):
        return f"{clip((str(error) or type(error).__name__).splitlines()[0].rstrip('.'), 300)}."
    flag = "--requirements_file" if "pip" in cause.cmd else "--setup_file"
    return f"the command that packs {flag} ended with exit code {cause.returncode}; its own message is above. Repair that file."
