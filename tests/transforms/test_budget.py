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


@pytest.mark.parametrize(("limit", "first", "second"), [(10, 6, 5), (10, 99, 1), (10, 1, 99)], ids=str)
def test_a_budget_holds_back_what_does_not_fit(limit: int, first: int, second: int) -> None:
    budget, condition = MemoryBudget(limit), _Announcing()
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


def test_a_budget_lets_in_what_fits() -> None:
    budget = MemoryBudget(10)

    with budget.hold(4), budget.hold(6):
        pass


def test_a_budget_is_given_back_when_the_work_fails() -> None:
    budget = MemoryBudget(10)
    for _ in range(3):
        with pytest.raises(ValueError, match="broken"), budget.hold(10):
            raise ValueError("broken")

    with budget.hold(10):
        pass
