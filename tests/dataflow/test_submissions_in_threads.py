"""Two jobs that one program submits at the same time, from two threads."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from apache_beam.runners.dataflow.internal import apiclient

from shardfeed.pipeline.dataflow.submission import watched


def ask() -> None:
    """Asks for a job as Beam's runner does: by the client that its module names at the moment."""
    client: Any = apiclient.DataflowApplicationClient
    client.submit_job_description(object.__new__(client), None)


def test_each_sees_its_own_request_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    before = apiclient.DataflowApplicationClient
    monkeypatch.setattr(before, "submit_job_description", lambda self, job: job)
    entered, asked = threading.Event(), list[bool]()

    def second() -> None:
        with watched() as submission:
            entered.set()
            ask()
            asked.append(submission.asked)

    thread = threading.Thread(target=second)
    with watched() as first:
        thread.start()
        entered.wait(0.5)  # long enough for a second submission that nothing holds up
        assert not first.asked
        if not entered.is_set():
            ask()
            assert first.asked
            first.asked = False
    thread.join()
    assert (first.asked, asked, apiclient.DataflowApplicationClient) == (False, [True], before)
