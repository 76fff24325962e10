"""A build's claim on an output, for tests."""

from __future__ import annotations

from shardfeed.transforms.elements import Plan, SplitPlan
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.output.claim import claim_output
from shardfeed.transforms.planning.plan import fingerprint
from shardfeed.transforms.stores.base import WritableStore

OPTIONS = BuildOptions()
VERSIONS = {"pillow": "12.1"}
BUILD = "f" * 32


def plan_of(options: BuildOptions = OPTIONS, digest: int = 7, versions: dict[str, str] = VERSIONS) -> Plan:
    return Plan(
        fingerprint(digest, options, versions, {"train": 16}), ("cat",), versions, 4, {"train": SplitPlan(16, None, 4)}
    )


def claim(
    store: WritableStore, options: BuildOptions = OPTIONS, digest: int = 7, versions: dict[str, str] = VERSIONS
) -> bool:
    return claim_output(store, plan_of(options, digest, versions), options, digest)
