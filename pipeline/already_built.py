"""Before anything is built: is the dataset there already?

A rerun of a finished build has to answer in seconds. So nothing here needs Beam: the launcher
compares the options, then lists the input again itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from shardfeed import storage
from shardfeed.errors import ConflictError, TooManyRejectsError, clip
from shardfeed.format import naming
from shardfeed.format.manifest import Manifest
from shardfeed.pipeline.config.build_config import BuildConfig
from shardfeed.pipeline.output.changed_rows import changed_rows
from shardfeed.pipeline.output.folder import check_folder
from shardfeed.pipeline.report.summary import shown_duplicates
from shardfeed.transforms import stores
from shardfeed.transforms.elements import RefBatch, Totals
from shardfeed.transforms.inputs.listing import list_all
from shardfeed.transforms.inputs.lists import open_root
from shardfeed.transforms.metadata.join_here import join_here
from shardfeed.transforms.output.claim import Claim, describe_conflict, discard_incomplete, read_manifest
from shardfeed.transforms.planning.plan import make_plan
from shardfeed.transforms.planning.stratify import label_all
from shardfeed.transforms.planning.totals import add_totals, count_batch, listing_of
from shardfeed.transforms.stores.base import WritableStore
from shardfeed.verification.dataset import require_intact
from shardfeed.words import plural

_ROWS = 20  # differing classes shown


def find_existing(config: BuildConfig, *, discard: bool) -> Manifest | None:
    """The manifest of this very build, if the output holds it; None if there is work to do.

    ``discard``: a broken build's files are removed first. Before that the whole input is listed: an
    input that cannot give a dataset discards nothing. With the config's ``trust_manifest``, a
    finished build's input is not listed again.

    Raises:
        UsageError: output or input are not there, or cannot be used.
        ShardfeedError: as ``require_same``.
    """
    options, output = config.options, config.output
    check_folder(output)
    store = stores.open_output(output)
    complete = has_manifest(store)
    for root in config.roots:
        open_root(root).check()
    if discard:
        if not complete:
            make_plan(_relist(config), options, {}, config.max_unmatched)
        discard_incomplete(store)
    if not complete:
        return None
    return require_same(config, store, lambda: _relist(config))


def require_same(config: BuildConfig, store: WritableStore, relist: Callable[[], Totals]) -> Manifest:
    """The manifest in the output, if a build with ``config`` would find its own dataset there.

    ``relist``: gives the input's totals as they are now; not called with ``trust_manifest``.

    Raises:
        ConflictError: it is another dataset, or the input has changed since.
        UsageError: the input has something now that no build accepts.
        DatasetError: a file of it is absent or has another size.
        TooManyRejectsError: it has duplicates, and ``--duplicates fail`` allows none.
    """
    options, manifest = config.options, read_manifest(store)
    if manifest.config != options.config():
        theirs, ours = Claim(manifest.fingerprint, manifest.config), Claim("", options.config())
        raise ConflictError(describe_conflict(config.output, "holds a complete dataset", theirs, ours))
    if not config.trust_manifest:
        totals = relist()
        now = listing_of(totals)
        if now["digest"] != manifest.listing.get("digest"):
            raise ConflictError(_describe_change(config, store, manifest, now))
        make_plan(totals, options, {}, config.max_unmatched)  # no digest shows an image without a label
    require_intact(config.output)  # exit code 0 promises a complete dataset
    if config.fail_on_duplicates and manifest.duplicates and manifest.duplicates["pairs"]:
        raise TooManyRejectsError(
            f"{config.output} holds this dataset, with {shown_duplicates(manifest.duplicates)}. --duplicates fail allows none."
        )
    return manifest


def has_manifest(store: WritableStore) -> bool:
    """Whether the output holds a complete dataset."""
    # A bucket that is not there lists with an error; a look at a name in it finds nothing.
    if storage.is_remote(store.url):
        return any(name == naming.MANIFEST for name, _ in store.list(naming.MANIFEST))
    return store.stat(naming.MANIFEST) is not None


def _relist(config: BuildConfig) -> Totals:
    """The input's totals as they are now."""
    return add_totals(count_batch(batch, config.options) for batch in _labelled(config))


def _labelled(config: BuildConfig) -> Iterator[RefBatch]:
    return label_all(join_here(list_all(config.roots), config.table, config.output), config.options)


def _describe_change(config: BuildConfig, store: WritableStore, manifest: Manifest, now: Mapping[str, Any]) -> str:
    rows = list(_changes(manifest.listing.get("by_split", {}), now["by_split"]))
    shown = "\n".join(rows[:_ROWS]) + (f"\n  … and {len(rows) - _ROWS:,} more classes" if len(rows) > _ROWS else "")
    if not rows:
        shown = "  the same numbers of images and bytes, but other names or modification times"
    if config.table is not None:
        count, keys = changed_rows(store, manifest, config.options, _labelled(config))
        if count:
            changed = f"  {plural(count, 'image')} with another row in --metadata: {', '.join(keys)}"
            shown = f"{shown}\n" * bool(rows) + changed
        elif not rows:
            shown += ", or other rows of rejected images, or groups of other names"
    return (
        f"{config.output} was built from another state of the input:\n{shown}\nA dataset is never overwritten: give a new "
        "--output for the new input, or remove this one yourself."
    )


def _changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    rows = []
    for split in sorted(then.keys() | now.keys()):
        before, after = then.get(split, {}), now.get(split, {})
        for name in sorted(before.keys() | after.keys()):
            old, new = ("{:,} images, {:,} bytes".format(*cells.get(name, (0, 0))) for cells in (before, after))
            if old != new:
                rows.append(f"  {split}/{clip(name, 40)}: {old} then; {new} now")
    return rows
