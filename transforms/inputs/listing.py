"""Which listed files are candidates.

A file is skipped by a closed rule on names alone (hidden, another suffix, a well-known document
without a suffix, a folder marker) or because it is not a plain file of the tree; everything else
is a candidate, and a candidate is written or rejected, never dropped. Any other name without a
suffix is a candidate: many buckets hold such images.

What is skipped must not take a whole class with it. Below a root without globs, a class folder
that holds files but no candidate is a fault, and so is a link in its place. Hidden files and
folder markers do not count: a folder with nothing else is empty to its owner, and an empty one is
nothing, since a bucket cannot hold it.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from shardfeed import storage
from shardfeed.errors import UsageError, clip
from shardfeed.storage import Stat
from shardfeed.transforms.elements import ImageRef, RefBatch, add_into, pack_ref
from shardfeed.transforms.images.suffixes import IMAGE_SUFFIXES
from shardfeed.transforms.inputs.lists import open_root
from shardfeed.transforms.inputs.roots import InputRoot, glob_regex
from shardfeed.transforms.inputs.skipped import SKIPPED, SkippedSample
from shardfeed.transforms.inputs.splits import SPLIT_FOLDERS
from shardfeed.transforms.run.concurrent_requests import REQUESTS
from shardfeed.transforms.run.state import LOOK_SECONDS
from shardfeed.transforms.sources import suffix_of
from shardfeed.transforms.sources.base import Listed

BATCH_REFS = 10_000  # about 1 MB packed; per-element cost of the engine is then below 1 % of hashing the keys
_JOINED = 1 << 16  # bytes of references, those of about 700 images


_DOCUMENTS = frozenset(
    {b"license", b"licence", b"copying", b"notice", b"readme", b"authors", b"changelog", b"makefile", b"dockerfile"}
    | {b"manifest", b"md5sums", b"sha1sums", b"sha256sums", b"checksums", b"_success"}
)


def skip_reason(listed: Listed) -> str | None:
    """Why a listed entry is not a candidate; None for a candidate."""
    if listed.kind != "file":
        return listed.kind
    name = listed.key.rsplit(b"/", 1)[-1]
    if _is_hidden(listed.key):
        return "hidden"
    stem, dot, suffix = name.rpartition(b".")
    if dot and stem and b"." + suffix.lower() not in IMAGE_SUFFIXES:
        return "suffix"
    if name.lower() in _DOCUMENTS:
        return "document"
    return None


def _is_hidden(key: bytes) -> bool:
    return key.startswith(b".") or b"/." in key


def _is_utf8(key: bytes) -> bool:
    try:
        return bool(key.decode())
    except UnicodeDecodeError:
        return False


def list_section(
    root: InputRoot, index: int, section: bytes, check: Callable[[], None] = lambda: None
) -> Iterator[RefBatch]:
    """Batches of the candidates in one section of a root; the last also counts skipped files.

    Before the last come batches of faulty class folders (see ``FOLDER_FAULTS``), and of a sample of
    the files that were skipped by their suffix. ``check`` is called before each full batch and
    raises to end the listing.
    """
    globs = [glob_regex(glob) for glob in root.globs]
    nest = _Nest() if (root.lists or suffix_of(root.url)) and root.class_depth == 1 else None
    folders, chosen = _ClassFolders(root), bool(globs or root.lists)
    packed: list[bytes] = []
    missing: list[bytes] = []
    skipped: dict[str, int] = {}
    by_suffix = SkippedSample()
    for listed in open_root(root).list(section):
        if globs and not any(glob.fullmatch(os.fsdecode(listed.key)) for glob in globs):
            continue
        if listed.kind == "missing":
            missing.append(pack_ref(ImageRef(index, listed.key, listed.stat)))
            if len(missing) == BATCH_REFS:
                yield RefBatch("", b"".join(missing), fault="missing")
                missing = []
            continue
        reason = skip_reason(listed)
        if not chosen:
            folders.add(listed.key, reason)
        if reason is not None:
            add_into(skipped, {reason: 1})
            if reason == "suffix" and listed.stat.size and _is_utf8(listed.key):
                by_suffix.add((index, listed.key.decode(), listed.stat.size, listed.stat.version))
            continue
        if len(listed.key) > 0xFFFF:
            raise UsageError(
                f"{clip(listed.key)}: a key of {len(listed.key)} bytes; at most 65,535 are possible. Rename it."
            )
        if nest is not None:
            nest.add(listed.key)
        packed.append(pack_ref(ImageRef(index, listed.key, listed.stat)))
        if len(packed) == BATCH_REFS:
            check()
            yield RefBatch("", b"".join(packed))
            packed = []
    yield from folders.faults(index)
    if nest is not None and nest.folder is not None and os.fsdecode(nest.folder) not in SPLIT_FOLDERS:
        fault = "list_of_one_folder" if root.lists else "archive_of_one_folder"
        yield RefBatch("", pack_ref(ImageRef(index, nest.folder, Stat(0, 0))), fault=fault)
    if missing:
        yield RefBatch("", b"".join(missing), fault="missing")
    if sample := [
        pack_ref(ImageRef(root, key.encode(), Stat(size, version))) for root, key, size, version in by_suffix.files()
    ]:
        yield RefBatch("", b"".join(sample), fault=SKIPPED)
    yield RefBatch("", b"".join(packed), skipped)


class _Nest:
    """Whether all class folders lie in one folder, as in an archive or a list of a whole folder.

    ``folder``: that folder, which would be the only class; None if there are images elsewhere.
    """

    def __init__(self) -> None:
        self.folder: bytes | None = None
        self._is_none = False

    def add(self, key: bytes) -> None:
        """Notes the key of an image."""
        top, _, rest = key.partition(b"/")
        self._is_none = self._is_none or b"/" not in rest or self.folder not in (None, top)
        self.folder = None if self._is_none else top


class _ClassFolders:
    """What stands in the places of class folders, and of the split folders above them."""

    def __init__(self, root: InputRoot) -> None:
        self._root = root
        self._has_images: dict[bytes, bool] = {}
        self._links: list[bytes] = []

    def add(self, key: bytes, reason: str | None) -> None:
        """Notes a listed key and the reason if it is skipped."""
        if reason == "folder_marker" or (reason is not None and _is_hidden(key)):
            return
        if reason == "symlink" and key.count(b"/") < self._root.class_depth and self._leads_to_folder(key):
            self._links.append(key)
            return
        slash = -1
        for _ in range(self._root.class_depth):
            slash = key.find(b"/", slash + 1)
            if slash < 0:
                return
            folder = key[:slash]
            self._has_images[folder] = reason is None or self._has_images.get(folder, False)

    def faults(self, index: int) -> Iterator[RefBatch]:
        """Batches that name faulty folders; for a split without images only the split."""
        empty = {folder for folder, has_images in self._has_images.items() if not has_images}
        empty -= {folder for folder in empty if folder.rpartition(b"/")[0] in empty}
        for what, folders in (("no_images", sorted(empty)), ("linked_folder", self._links)):
            if folders:
                refs = [pack_ref(ImageRef(index, folder, Stat(0, 0))) for folder in folders]
                yield RefBatch("", b"".join(refs), fault=what)

    def _leads_to_folder(self, key: bytes) -> bool:
        """A dangling link without a suffix counts as a folder's: its target may not be mounted."""
        path = os.path.join(os.fsencode(self._root.url), key)
        return os.path.isdir(path) or (not os.path.exists(path) and b"." not in key.rpartition(b"/")[2])


Section = tuple[int, bytes]
"""Number of a root, and one of its source's sections."""


def sections_of(roots: tuple[InputRoot, ...]) -> Iterator[Section]:
    """The sections of all roots."""
    for index, root in enumerate(roots):
        yield from ((index, section) for section in open_root(root).sections())


def list_sections(
    roots: tuple[InputRoot, ...], sections: Iterable[Section], check: Callable[[], None] = lambda: None
) -> Iterator[RefBatch]:
    """Batches of all sections; small ones are joined, since each costs the later steps 100 us.

    ``check`` is called now and then; it raises to end the listing.
    """
    packed, skipped = bytearray(), dict[str, int]()
    for batch in _batches_of(roots, sections, check):
        if batch.fault:
            yield batch
            continue
        packed += batch.refs
        add_into(skipped, batch.skipped)
        if len(packed) >= _JOINED:
            check()
            yield RefBatch("", bytes(packed), skipped)
            packed, skipped = bytearray(), {}
    yield RefBatch("", bytes(packed), skipped)


def _batches_of(
    roots: tuple[InputRoot, ...], sections: Iterable[Section], check: Callable[[], None]
) -> Iterator[RefBatch]:
    """Folders on a disk are listed one after another, those of buckets side by side.

    A page of a thousand names of a bucket takes as long as hundreds of images.
    """
    remote = []
    for index, section in sections:
        if storage.is_remote(roots[index].url):
            remote.append((index, section))
        else:
            yield from list_section(roots[index], index, section, check)
    if remote:
        yield from _list_side_by_side(roots, remote, check)


def _list_side_by_side(
    roots: tuple[InputRoot, ...], sections: list[Section], check: Callable[[], None]
) -> Iterator[RefBatch]:
    found: queue.SimpleQueue[RefBatch | Future[None]] = queue.SimpleQueue()
    room = threading.Semaphore(2 * REQUESTS)  # a folder may have more batches than fit in memory
    closed = threading.Event()

    def run(index: int, section: bytes) -> None:
        for batch in list_section(roots[index], index, section, check):
            room.acquire()
            if closed.is_set():
                break
            found.put(batch)

    pool = ThreadPoolExecutor(REQUESTS, thread_name_prefix="list")
    try:
        for section in sections:
            pool.submit(run, *section).add_done_callback(found.put)
        left = len(sections)
        while left:
            check()
            try:
                item = found.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                continue
            if isinstance(item, Future):
                item.result()
                left -= 1
            else:
                room.release()
                yield item
    finally:  # also when one failed, or nobody wants the rest
        closed.set()
        room.release(REQUESTS)
        pool.shutdown(wait=False, cancel_futures=True)  # an answer that is on its way may take minutes


def list_all(roots: tuple[InputRoot, ...]) -> Iterator[RefBatch]:
    """The whole listing, in any order: what the launcher uses to see whether an input changed."""
    return list_sections(roots, sections_of(roots))
