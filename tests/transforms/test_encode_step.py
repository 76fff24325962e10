"""The step that encodes, with helpers beside it: what it asks for, and that it gives back what it took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.transforms.conftest import OPTIONS, PLAN
from transforms import encode_parts
from transforms.elements import PartResult, Plan, RefBatch
from transforms.encode_parts import _Encode
from transforms.outcome import Output
from transforms.run_state import Made


class Two:
    """Helpers: two processes of two threads each, that make nothing."""

    count, threads = 2, 4

    def listing(self) -> Mapping[tuple[int, bytes], list[RefBatch]] | None:
        return None

    def settle(self, fingerprint: str) -> None:
        pass

    def take_over(self) -> None:
        pass

    def has_room(self) -> bool:
        return False

    def submit(self, plan: Plan, split: str, part: int, packed: Sequence[bytes]) -> Made | None:
        return None


@dataclass
class Beside:
    """A worker's helpers; ``users`` of them now, and which plans they were for."""

    helpers: Two | None
    users: int = 0
    plans: tuple[str, ...] = ()

    def join(self, plan: Plan) -> Two | None:
        self.plans += (plan.fingerprint,)
        self.users += self.helpers is not None
        return self.helpers

    def leave(self) -> None:
        self.users -= 1


class Encoder:
    """In place of the encoder: what it was made with."""

    made: list[dict[str, Any]]

    def __init__(self, **settings: Any) -> None:
        Encoder.made.append(settings)

    def submit(self, split: str, part: int, packed: Sequence[bytes]) -> Iterator[PartResult]:
        return iter(())

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    Encoder.made = []
    monkeypatch.setattr(encode_parts, "PartEncoder", Encoder)
    monkeypatch.setattr(encode_parts, "require_same", lambda _versions: None)


def step_of(tmp_path: Path, beside: Beside | None, threads: int) -> _Encode:
    return _Encode(("in",), OPTIONS, threads, 0, Output(str(tmp_path), "run"), beside)


@pytest.mark.parametrize(("threads", "own"), [(6, 2), (5, 1), (4, 1)])
def test_threads_and_budgets_are_shared_with_a_worker_s_helpers(threads: int, own: int, tmp_path: Path) -> None:
    beside = Beside(Two())
    step = step_of(tmp_path, beside, threads)
    for part in range(3):
        assert list(step.process((("train", part), []), PLAN)) == []
    (settings,) = Encoder.made
    assert (settings["threads"], settings["processes"], settings["helpers"]) == (own, 3, beside.helpers)
    assert (beside.users, beside.plans) == (1, ("f",))
    step.teardown()
    step.teardown()
    assert beside.users == 0


@pytest.mark.parametrize("beside", [None, Beside(None)], ids=["an engine without", "another worker has them"])
def test_a_worker_without_helpers_encodes_with_all_threads(beside: Beside | None, tmp_path: Path) -> None:
    step = step_of(tmp_path, beside, 6)
    list(step.process((("train", 0), []), PLAN))
    (settings,) = Encoder.made
    assert (settings["threads"], settings["processes"], settings["helpers"]) == (6, 1, None)
    step.teardown()
    assert beside is None or beside.users == 0
