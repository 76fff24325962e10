"""Before anything is built: is the dataset there already, and may a build begin here?

No Beam here: a rerun of a finished build has to answer in seconds, so the launcher compares options and then lists the input
again itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardfeed import storage
from shardfeed.errors import ConflictError, clip
from shardfeed.format import naming
from shardfeed.format.manifest import Manifest
from shardfeed.pipeline.config.build_config import BuildConfig
from shardfeed.pipeline.output.folder import check_folder
from shardfeed.transforms import stores
from shardfeed.transforms.elements import Totals
from shardfeed.transforms.inputs.listing import list_all
from shardfeed.transforms.inputs.roots import check_root
from shardfeed.transforms.output.claim import describe_conflict, discard_incomplete, read_manifest, refuse_unclaimable
from shardfeed.transforms.planning.plan import make_plan
from shardfeed.transforms.planning.totals import add_totals, count_batch, label_batch, listing_of
from shardfeed.transforms.sources import open_source
from shardfeed.transforms.stores.base import WritableStore

_ROWS = 20  # differing classes shown


def find_existing(config: BuildConfig) -> Manifest | None:
    """The manifest of this very build, if the output holds it; None when there is work to do.

    A job elsewhere costs money before it claims the output, so what it would be refused for is looked for here; in this process
    the claim says it at once. With ``discard_incomplete`` a broken build's files are removed first, after a look at the whole
    input: one that cannot give a dataset discards nothing.

    Raises:
        UsageError: output or input are not there, or cannot be what they have to be.
        ConflictError: the output holds another dataset, or this one's input has changed since; or it cannot be claimed.
    """
    check_folder(config.output)
    store = stores.open_output(config.output)
    complete = _has_manifest(store)
    for root in config.roots:
        check_root(root, open_source(root.url))
    if config.discard_incomplete:
        if not complete:
            make_plan(relist(config), config.options, {})
        discard_incomplete(store)
    if not complete:
        if not config.engine.in_process:
            refuse_unclaimable(store, config.options)
        return None
    manifest = read_manifest(store)
    if manifest.config != config.options.config():
        theirs = {"config": manifest.config, "listing": ""}
        ours = {"config": config.options.config(), "listing": ""}
        raise ConflictError(describe_conflict(config.output, "holds a complete dataset", theirs, ours))
    if not config.trust_manifest:
        _compare_listing(config, manifest)
    return manifest


def _has_manifest(store: WritableStore) -> bool:
    if storage.is_remote(
        store.url
    ):  # a bucket that is not there lists with an error; a look at a name in it finds nothing
        return any(name == naming.MANIFEST for name, _ in store.list(naming.MANIFEST))
    return store.stat(naming.MANIFEST) is not None


def relist(config: BuildConfig) -> Totals:
    """The input's totals as they are now."""
    options = config.options
    return add_totals(
        count_batch(labelled, options) for batch in list_all(config.roots) for labelled in label_batch(batch, options)
    )


def _compare_listing(config: BuildConfig, manifest: Manifest) -> None:
    now = listing_of(relist(config))
    then = manifest.listing
    if now["digest"] == then.get("digest"):
        return
    rows = list(_changes(then.get("by_split", {}), now["by_split"]))
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
