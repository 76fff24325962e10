"""How the memory of images in flight is bounded."""

from __future__ import annotations

import threading

import pytest

from shardfeed.transforms.encode.budget import MemoryBudget


class _Announcing(threading.Condition):
    """A condition that tells when somebody begins to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        self.waiting.set()
        return super().wait(timeout)


@pytest.mark.parametrize(("first", "second"), [(6, 5), (99, 1), (1, 99)], ids=str)
def test_a_budget_holds_back_what_does_not_fit(first: int, second: int) -> None:
    budget, condition = MemoryBudget(10), _Announcing()
    budget._free = condition
    inside: list[int] = []

    def late() -> None:
        with budget.hold(second):
            inside.append(second)

    with budget.hold(first):
        thread = threading.Thread(target=late)
        thread.start()
        assert condition.waiting.wait(30)
        assert inside == []
    thread.join(30)
    assert inside == [second]


def test_a_budget_lets_in_what_fits_and_is_given_back_when_the_work_fails() -> None:
    budget = MemoryBudget(10)
    for _ in range(3):
        with pytest.raises(ValueError, match="broken"), budget.hold(4), budget.hold(6):
            raise ValueError("broken")
