"""Before anything is built: is the dataset there already, and may a build begin here?

No Beam here: a rerun of a finished build has to answer in seconds, so the launcher compares options and then lists the input
again itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.config import BuildConfig
from shardfeed import naming, storage
from shardfeed.errors import ConflictError, clip
from shardfeed.manifest import Manifest, parse_manifest
from transforms.claim import describe_conflict, discard_incomplete
from transforms.elements import Totals
from transforms.listing import list_all
from transforms.totals import add_totals, count_batch, label_batch, listing_of

_ROWS = 20  # differing classes shown


def find_existing(config: BuildConfig) -> Manifest | None:
    """The manifest of this very build, if the output holds it; None when there is work to do.

    With ``discard_incomplete`` a broken build's files are removed first.

    Raises:
        ConflictError: the output holds another dataset, or this one's input has changed since.
    """
    store = storage.open_store(config.output)
    for root in config.roots:
        storage.open_source(root.url).sections()  # an absent or unreadable input is an error before anything starts
    if config.discard_incomplete:
        discard_incomplete(store)
    if store.stat(naming.MANIFEST) is None:
        return None
    manifest = parse_manifest(store.read(naming.MANIFEST), f"{config.output}/{naming.MANIFEST}")
    if manifest.config != config.options.config():
        theirs = {"config": manifest.config, "listing": ""}
        ours = {"config": config.options.config(), "listing": ""}
        raise ConflictError(describe_conflict(config.output, "holds a complete dataset", theirs, ours))
    if not config.trust_manifest:
        _compare_listing(config, manifest)
    return manifest


def relist(config: BuildConfig) -> Totals:
    """The input's totals as they are now."""
    options = config.options
    return add_totals(
        count_batch(labelled, options) for batch in list_all(config.roots) for labelled in label_batch(batch, options)
    )


def _compare_listing(config: BuildConfig, manifest: Manifest) -> None:
    now = listing_of(relist(config))
    then = manifest.listing
    if now["digest"] == then["digest"]:
        return
    rows = list(_changes(then["by_split"], now["by_split"]))
    shown = "\n".join(rows[:_ROWS]) + (f"\n  … and {len(rows) - _ROWS:,} more classes" if len(rows) > _ROWS else "")
    if not rows:
        shown = "  the same numbers of images and bytes, but other names or modification times"
    raise ConflictError(
        f"{config.output} was built from another state of the input:\n{shown}\nA dataset is never overwritten: give a new "
        "--output for the new input, or remove this one yourself."
    )


def _changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    rows = []
    for split in sorted(then.keys() | now.keys()):
        before, after = then.get(split, {}), now.get(split, {})
        for name in sorted(before.keys() | after.keys()):
            (images, size), (images2, size2) = before.get(name, (0, 0)), after.get(name, (0, 0))
            if (images, size) != (images2, size2):
                label = f"{split}/{clip(name, 40)}"
                rows.append(
                    f"  {label}: {images:,} images, {size:,} bytes then; {images2:,} images, {size2:,} bytes now"
                )
    return rows
