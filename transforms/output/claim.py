"""The claim: who builds here.

A build creates ``_parts/CLAIM`` first and only then looks for the manifest. The other order loses
one of six interleavings of two builds. The claim records config and listing digest, so that a
conflict can name the flag that differs. A build with the same fingerprint joins. The claim is
the last thing swept.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from shardfeed.errors import ConflictError, DatasetError, IncompleteError, clip
from shardfeed.format import naming
from shardfeed.format.columns import Column, as_flag
from shardfeed.format.manifest import Manifest, canonical_json, parse_manifest
from shardfeed.storage import NotFoundError
from shardfeed.transforms.elements import Plan
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.run.outcome import AlreadyBuiltError
from shardfeed.transforms.stores.base import WritableStore

_MOST = 2**63 - 1  # images and parts, as in a manifest
_TRIES = 5  # times that the claim is lost to a build which is gone when looked at

# File managers make these files when somebody looks at a folder, so they are not foreign.
DESKTOP_FILES = frozenset({".DS_Store", "Thumbs.db", "desktop.ini"})
# These are None if another flag, which then differs too, makes them meaningless.
_DEPENDENT = frozenset({"quality", "shard_bytes"})
_DISCARDING = "discarding"  # in place of a fingerprint: nobody builds here until the discard has ended
REMEDY_CLAIM = (
    "Use the same options to join it, give another --output, or remove an unfinished build with --discard_incomplete."
)
REMEDY_CHANGED = (
    "If the input has changed since, begin again with --discard_incomplete; for another input give another --output."
)
CLAIMED = "is claimed by another build"
_LABELS = ("one label per image", "lists of labels")  # as ``multi_label`` says
_INPUT = "the input's files (names, sizes or versions)"
REMEDY_DATASET = "Use the same options, or give another --output: a dataset is never overwritten."


@dataclass(frozen=True, slots=True)
class Claim:
    """Which build works here, and what tells it apart from others.

    ``versions``, ``listing``: None if not known. ``splits``: {name: (images, parts)}, for
    ``status``; empty if an older release claimed.
    """

    fingerprint: str
    config: Mapping[str, Any]
    versions: Mapping[str, str] | None = None
    listing: str | None = None
    splits: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def discarding(self) -> bool:
        """Whether it only keeps others away while a build's files are deleted."""
        return self.fingerprint == _DISCARDING

    def to_bytes(self) -> bytes:
        """Bytes of the claim's file."""
        splits = {name: {"images": images, "parts": parts} for name, (images, parts) in self.splits.items()}
        return canonical_json({**asdict(self), "splits": splits})


def claim_of(plan: Plan, options: BuildOptions, digest: int) -> Claim:
    """The claim of a build; ``digest``: the listing's."""
    splits = {name: (split.images, split.parts) for name, split in plan.splits.items()}
    return Claim(plan.fingerprint, options.config(), dict(plan.versions), f"{digest:032x}", splits)


def read_claim(store: WritableStore) -> Claim:
    """The claim of an output. Anybody can edit the file or put it there, so every field is checked.

    Raises:
        NotFoundError: there is none.
        ConflictError: it is damaged. To join it or to build beside it would be a guess.
    """
    try:
        raw = json.loads(store.read(naming.CLAIM))
        fingerprint, config = raw["fingerprint"], raw["config"]
        versions, listing = raw.get("versions"), raw.get("listing")
        splits = {name: (said["images"], said["parts"]) for name, said in raw.get("splits", {}).items()}
        for column in config.get("columns", ()):
            Column.from_raw(column)
        readable = (
            (fingerprint == _DISCARDING or bool(naming.FINGERPRINT.fullmatch(fingerprint)))
            and isinstance(config, dict)
            and (versions is None or isinstance(versions, dict))
            and (listing is None or bool(naming.FINGERPRINT.fullmatch(listing)))
            # JSON's true is an int in Python.
            and all(type(count) is int and 1 <= count <= _MOST for counts in splits.values() for count in counts)
        )
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):  # no JSON, or of another shape
        readable = False
    if not readable:
        raise ConflictError(
            f"{store.url}/{naming.CLAIM} is not readable as a claim. Give another --output, or begin again with "
            "--discard_incomplete."
        )
    return Claim(fingerprint, config, versions, listing, splits)


def claim_output(store: WritableStore, plan: Plan, options: BuildOptions, digest: int) -> bool:
    """Makes the output this build's, or joins the same build; True if this call made the claim.

    Raises:
        ConflictError: another build's claim or dataset, or files that are not ours.
        AlreadyBuiltError: this very dataset is complete.
    """
    claim = claim_of(plan, options, digest)
    refuse_foreign(store)
    created = _create_or_join(store, claim)
    if store.stat(naming.MANIFEST) is None:
        return created
    try:
        built = read_manifest(store)
    finally:
        if created:
            store.delete(naming.CLAIM)
    if built.fingerprint == plan.fingerprint:
        raise _already_built(store)
    theirs = Claim(built.fingerprint, built.config, listing=built.listing.get("digest"))
    raise ConflictError(describe_conflict(store.url, "holds a dataset", theirs, claim))


def refuse_unclaimable(store: WritableStore, options: BuildOptions) -> None:
    """Raises what a claim would be refused for, as far as the options show it.

    Nothing is written. Neither input nor codecs are looked at, so the claim may still be refused.

    Raises:
        ConflictError: files that are not ours, a discard, or a claim with other options.
    """
    refuse_foreign(store)
    try:
        theirs = read_claim(store)
    except NotFoundError:
        return
    _refuse_discarding(store, theirs)
    if theirs.config != options.config():
        ours = replace(theirs, config=options.config())
        raise ConflictError(describe_conflict(store.url, CLAIMED, theirs, ours, remedy=REMEDY_CLAIM))


def _refuse_discarding(store: WritableStore, theirs: Claim) -> None:
    if theirs.discarding:
        raise ConflictError(
            f"{store.url} is being discarded by another command, or that command was stopped. Wait for it, or rerun with "
            "--discard_incomplete."
        )


def read_manifest(store: WritableStore) -> Manifest:
    """The manifest of the dataset that is in the output already.

    Raises:
        ConflictError: it is damaged or of another version. No build overwrites it.
    """
    try:
        return parse_manifest(store.read(naming.MANIFEST), f"{store.url}/{naming.MANIFEST}")
    except DatasetError as error:
        raise ConflictError(
            f"--output {store.url} holds a dataset already, which is never overwritten: {error} Or give another --output."
        ) from None


def _create_or_join(store: WritableStore, claim: Claim) -> bool:
    for _ in range(_TRIES):
        if store.create(naming.CLAIM, claim.to_bytes()):
            return True
        try:
            theirs = read_claim(store)
        except NotFoundError:  # swept or discarded between create and read; nobody may build without a claim
            continue
        _refuse_discarding(store, theirs)
        if theirs.fingerprint != claim.fingerprint:
            raise ConflictError(describe_conflict(store.url, CLAIMED, theirs, claim, remedy=REMEDY_CLAIM))
        return False
    raise IncompleteError(
        f"{store.url}/{naming.CLAIM} appears and vanishes; is another build starting here? Rerun the same command."
    )


def describe_conflict(url: str, what: str, theirs: Claim, ours: Claim, *, remedy: str = REMEDY_DATASET) -> str:
    """A message that names what differs between two builds, and the ``remedy``."""
    differing = [
        "--label_column (there {}, here {})".format(*(_LABELS[bool(many)] for many in (there, here)))
        if name == "multi_label"
        else f"--{name} (there {_as_given(there, here)}, here {_as_given(here, there)})"
        for name in sorted({*theirs.config, *ours.config})
        for there, here in [(theirs.config.get(name), ours.config.get(name))]
        if there != here and not (name in _DEPENDENT and None in (there, here))
    ]
    if theirs.listing != ours.listing:
        differing.append(_INPUT)
    if theirs.versions is not None and theirs.versions != ours.versions:
        differing.append("codec versions")
    if differing == [_INPUT] and remedy == REMEDY_CLAIM:
        remedy = REMEDY_CHANGED
    return f"{url} {what} that differs in {'; '.join(differing) or 'the release of shardfeed'}. {remedy}"


def _as_given(value: Any, other: Any) -> str:
    """An option's value as it is typed; of columns those that ``other`` has not."""
    if isinstance(value, list) and all(isinstance(item, Mapping) for item in value):
        more = ",".join(as_flag(item) for item in value if item not in (other or []))
        value = more or ("none of these" if value else None)
    if value is None:
        return "not given"
    if isinstance(value, Mapping):
        value = ",".join(f"{name}={count}" for name, count in value.items())
    elif isinstance(value, list):
        value = ("x" if all(isinstance(side, int) for side in value) else ", ").join(map(str, value))
    return clip(value, 60)


def refuse_foreign(store: WritableStore) -> None:
    """Refuses an output with files that are not our format's, or that no build of ours made.

    A build claims before it writes, and gives the claim up after its manifest. So a shard without
    claim and manifest is somebody else's.

    Raises:
        ConflictError: such files, some of them by name.
    """
    names = [name for name, _ in store.list() if name.rpartition("/")[2] not in DESKTOP_FILES]
    foreign = [name for name in names if not naming.is_ours(name)]
    published = [name for name in names if naming.is_published_name(name)]
    if not foreign and published and store.stat(naming.CLAIM) is None and store.stat(naming.MANIFEST) is None:
        foreign = published
    if foreign:
        raise ConflictError(
            f"--output {store.url} holds files that are not a shardfeed build's: {_shown(foreign)}. Give an empty or new folder; "
            "nothing is ever overwritten."
        )


def _shown(names: list[str]) -> str:
    return ", ".join(clip(name, 80) for name in sorted(names)[:3]) + (", …" if len(names) > 3 else "")


def own_files(store: WritableStore) -> list[str]:
    """Every file below the output that our format makes, the claim last."""
    return [*(name for name, _ in store.list() if naming.is_ours(name) and name != naming.CLAIM), naming.CLAIM]


def hold_claim(store: WritableStore, fingerprint: str) -> None:
    """The last look before a manifest is published: is the output still this build's?

    It passes too if a dataset is there already.

    Raises:
        IncompleteError: another command has discarded the build while it ran.
    """
    with contextlib.suppress(NotFoundError):
        if read_claim(store).fingerprint == fingerprint:
            return
    if store.stat(naming.MANIFEST) is None:
        raise discarded(store.url)


def require_unpublished(store: WritableStore, fingerprint: str) -> None:
    """Ends a build that another run of it has overtaken.

    That run publishes, then sweeps the parts and at last the claim.

    Raises:
        AlreadyBuiltError: this very dataset is complete.
    """
    if store.stat(naming.CLAIM) is None:
        refuse_published(store, fingerprint)


def refuse_published(store: WritableStore, fingerprint: str) -> None:
    """Ends a build whose dataset is there. Its parts may be swept.

    Raises:
        AlreadyBuiltError: this very dataset is complete.
    """
    if store.stat(naming.MANIFEST) is not None and read_manifest(store).fingerprint == fingerprint:
        raise _already_built(store)


def _already_built(store: WritableStore) -> AlreadyBuiltError:
    return AlreadyBuiltError(f"{store.url} was built meanwhile, with the same input and options.")


def discarded(url: str) -> IncompleteError:
    """The end of a build whose files another command has deleted while it ran."""
    return IncompleteError(
        f"this build of {url} was discarded by another command (--discard_incomplete) while it ran. Nothing was "
        "published. Rerun the command to build it."
    )


def discard_incomplete(store: WritableStore) -> None:
    """Deletes a broken build's files. Refused if there is a manifest.

    The claim is taken over first, so that a build that still runs here sees it before it publishes.
    It is given up last.

    Raises:
        ConflictError: the output is a complete dataset, or other builds keep the claim.
    """
    _refuse_complete(store)
    if store.stat(naming.CLAIM) is None:
        names = own_files(store)
        if unclaimed := [name for name in names if naming.is_published_name(name)]:
            raise ConflictError(
                f"--discard_incomplete: {store.url} holds {_shown(unclaimed)}, but no build claims them; they may be somebody's. "
                "Remove them yourself, or give another --output."
            )
        if names == [naming.CLAIM]:
            return
    for _ in range(_TRIES):
        store.delete(naming.CLAIM)
        if store.create(naming.CLAIM, Claim(_DISCARDING, {}).to_bytes()):
            break
    else:
        raise ConflictError(
            f"--discard_incomplete: another command claims {store.url} again each time its claim is removed. No finished work "
            "was deleted. Stop the builds that run there, then rerun the same command."
        )
    names = own_files(store)  # before the look for the manifest: one that is published meanwhile is seen
    try:
        _refuse_complete(store)
    except ConflictError:
        store.delete(naming.CLAIM)
        raise
    for name in names:
        store.delete(name)
    store.prune(naming.PARTS)


def _refuse_complete(store: WritableStore) -> None:
    if store.stat(naming.MANIFEST) is not None:
        raise ConflictError(
            f"--discard_incomplete: {store.url} is a complete dataset, not an incomplete build. Remove it yourself if it is not "
            "wanted, or give another --output."
        )
