"""When a request is tried again, for how long, and what is said of it.

Neither clock nor pauses are real.
"""

from __future__ import annotations

import logging
import math

import pytest

from shardfeed.storage import retry


class Store:
    """Fails ``failures`` times, each time after ``seconds``, and then answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, failures: float, seconds: float) -> None:
        self.now = 1000.0
        self.requests = 0
        self._failures, self._seconds = failures, seconds
        monkeypatch.setattr(retry, "clock", lambda: self.now)
        monkeypatch.setattr(retry, "sleep", self._pass)
        monkeypatch.setattr(retry, "_last_logged", -math.inf)

    def _pass(self, seconds: float) -> None:
        self.now += seconds

    def ask(self) -> str:
        self.requests += 1
        if self.requests <= self._failures:
            self._pass(self._seconds)
            raise TimeoutError(f"no answer {self.requests}")
        return "answer"

    def call(self) -> str:
        return retry.call_with_retries(self.ask, lambda error: isinstance(error, TimeoutError))


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "shardfeed"]


def test_a_store_that_refuses_at_once_is_asked_ten_times(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(monkeypatch, math.inf, 0.1)

    with pytest.raises(TimeoutError, match="no answer 10"):
        store.call()
    assert retry.attempts() == store.requests == 10


def test_a_store_that_does_not_answer_is_given_up_after_five_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(monkeypatch, math.inf, 120)

    with pytest.raises(TimeoutError, match="no answer 3"):
        store.call()
    assert retry.attempts() == store.requests == 3
    assert store.now - 1000 < 6.1 * 60


def test_a_request_that_takes_long_is_tried_three_times(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(monkeypatch, 2, 900)

    assert store.call() == "answer"


def test_a_few_seconds_are_not_worth_a_word(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(retry, "pause_after", lambda attempt: 0.1)

    assert Store(monkeypatch, 9, 0.4).call() == "answer"

    assert lines(caplog) == []


def test_a_longer_wait_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(retry, "pause_after", lambda attempt: 1.0)

    assert Store(monkeypatch, 9, 1.0).call() == "answer"

    assert lines(caplog) == [
        "A request failed 4 times in 7 s and is tried again, up to 10 times or for 300 s: no answer 4"
    ]
    assert caplog.records[0].levelno == logging.WARNING


def test_a_request_that_gets_no_answer_is_told_after_its_first_timeout(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    Store(monkeypatch, 1, 120).call()

    assert lines(caplog) == [
        "A request failed 1 time in 120 s and is tried again, up to 10 times or for 300 s: no answer 1"
    ]


def test_many_requests_that_fail_are_one_line_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store(monkeypatch, math.inf, 1)

    for _ in range(5):
        with pytest.raises(TimeoutError):
            store.call()

    minutes = (store.now - 1000) / 60
    assert 2 <= len(lines(caplog)) <= minutes + 1
