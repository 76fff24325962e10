"""What the claim of an output says, field by field: a claim is a file that anybody can edit or put there.

The one decision: a claim that no build of ours can have written is an error of its own, «damaged». To count with what it says
would be a guess, and to take it for another build's would advise to join it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shardfeed.errors import ConflictError, clip
from shardfeed.format import naming
from shardfeed.transforms.output.claim import DISCARDING, parse_claim
from shardfeed.transforms.stores.base import WritableStore

_MOST = 2**63 - 1  # images and parts, as in a manifest


@dataclass(frozen=True, slots=True)
class FoundClaim:
    """A claim. ``splits``: (images, parts) by name, empty where an older shardfeed claimed; ``raw``: all of it."""

    fingerprint: str
    config: Mapping[str, Any]
    splits: Mapping[str, tuple[int, int]]
    raw: Mapping[str, Any]

    @property
    def discarding(self) -> bool:
        """Whether it only keeps others away while a build's files are deleted."""
        return self.fingerprint == DISCARDING


def read_claim(store: WritableStore) -> FoundClaim:
    """The claim of an output.

    Raises:
        NotFoundError: there is none.
        ConflictError: it is damaged.
    """
    raw = parse_claim(store, store.read(naming.CLAIM))
    fingerprint, splits = raw["fingerprint"], raw.get("splits", {})
    if fingerprint != DISCARDING and not naming.FINGERPRINT.fullmatch(fingerprint):
        raise _damaged(store, f"fingerprint {clip(fingerprint, 60)} where 32 hex digits are expected")
    if not isinstance(splits, dict):
        raise _damaged(store, f"splits {_shown(splits)} where an object is expected")
    counts = {
        name: (_count(store, name, said, "images"), _count(store, name, said, "parts")) for name, said in splits.items()
    }
    return FoundClaim(fingerprint, raw["config"], counts, raw)


def _count(store: WritableStore, split: str, said: object, what: str) -> int:
    value = said.get(what) if isinstance(said, dict) else None
    if type(value) is int and 1 <= value <= _MOST:  # JSON's true is an int in Python
        return value
    shown = f"split {clip(split, 60)} has {what} {_shown(value)}"
    raise _damaged(store, f"{shown} where a number from 1 on is expected")


def _shown(value: object) -> str:
    return clip(repr(value), 60) if value is None or isinstance(value, (str, int, float)) else type(value).__name__


def _damaged(store: WritableStore, what: str) -> ConflictError:
    return ConflictError(
        f"{store.url}/{naming.CLAIM} is damaged: {what}. Give another --output, or begin again with --discard_incomplete."
    )
