"""``state_dict`` of a stream: where it is, and which stream it is, in about 70 bytes of JSON.

A stream is a function of its arguments, so one number says where it is. The rest only proves that
the state belongs to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shardfeed.arguments import COUNT
from shardfeed.errors import UsageError, clip

_FINGERPRINT_DIGITS = 16  # 64 bits
_HALF = 1 << 63
_NAMES = ("dataset (fingerprint)", "split", "batch_size", "seed", "shuffle_buffer (bytes)", "number of hosts")


@dataclass(frozen=True)
class StreamName:
    """What the order of a stream depends on.

    ``seed`` and ``shuffle_buffer`` are None in evaluation. ``hosts`` is None if the stream is
    elastic: then any number of hosts that divides its streams reads the same.
    """

    fingerprint: str
    split: str
    batch_size: int
    seed: int | None
    shuffle_buffer: int | None
    hosts: int | None

    def state(self, step: int) -> dict[str, Any]:
        """The state before batch number ``step``."""
        return {"step": step, "stream": " ".join(self._texts())}

    def step(self, state: object) -> int:
        """The step of a ``state`` of this stream.

        Raises:
            UsageError: it is no state, or of another stream; says what differs, with both values.
        """
        step = state.get("step") if isinstance(state, dict) else None
        stream = state.get("stream") if isinstance(state, dict) else None
        # A split's name may hold spaces.
        first, _, rest = stream.partition(" ") if isinstance(stream, str) else ("", "", "")
        found = [first, *rest.rsplit(" ", len(_NAMES) - 2)]
        if len(found) != len(_NAMES) or isinstance(step, bool) or not isinstance(step, int) or not 0 <= step <= COUNT:
            raise UsageError(
                f"load_state_dict({clip(repr(state))}): expected what state_dict() of array_batches gave, a dict with "
                "the step and the name of the stream."
            )
        pairs = zip(_NAMES, found, self._texts(), strict=True)
        differing = [
            f"{name} is {clip(was)} in the state and {clip(now)} here" for name, was, now in pairs if was != now
        ]
        if differing:
            raise UsageError(
                f"load_state_dict: the state is that of another stream: {'; '.join(differing)}. Pass the arguments with "
                "which the state was saved, or begin anew without it."
            )
        return step

    def _texts(self) -> list[str]:
        # Seeds are equal if their low 64 bits are.
        seed = None if self.seed is None else (self.seed + _HALF) % (2 * _HALF) - _HALF
        texts = ["none" if number is None else str(number) for number in (self.batch_size, seed, self.shuffle_buffer)]
        hosts = "any" if self.hosts is None else str(self.hosts)
        return [self.fingerprint[:_FINGERPRINT_DIGITS], self.split, *texts, hosts]
