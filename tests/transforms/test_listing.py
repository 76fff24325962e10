"""Which files are candidates, by their names, and folders that must not lose all images."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from shardfeed.errors import IncompleteError, UsageError
from shardfeed.storage import Stat
from shardfeed.transforms.elements import RefBatch, add_counts, unpack_refs
from shardfeed.transforms.inputs import listing
from shardfeed.transforms.inputs.listing import list_all, skip_reason
from shardfeed.transforms.inputs.roots import InputRoot
from shardfeed.transforms.inputs.skipped import SKIPPED
from shardfeed.transforms.run.concurrent_requests import REQUESTS
from shardfeed.transforms.run.state import Run
from shardfeed.transforms.sources.base import Listed
from tests.kit.servers.strict_gcs import StrictGCS


@pytest.mark.parametrize(
    ("reason", "keys"),
    [
        (None, [b"cat/1.jpg", b"cat/IMG.JPG", b"cat/1.JpEg", b"cat/1.tiff", b"cat/1.heic", b"cat/-rf.jpg"]),
        (
            None,
            [b"cat/CON.jpg", b"cat/a.b.png", b"cat/no_suffix", b"cat/\xff\xfe.jpg", b"cat/a\nb.webp", b"cat/licenses"],
        ),
        ("hidden", [b"a/../b.jpg", b"cat/.hidden.jpg", b"cat/._1.jpg", b".git/x.jpg", b"cat/.thumbs/x.jpg"]),
        ("hidden", [b"cat/.DS_Store", b"cat/.jpg"]),
        ("suffix", [b"cat/Thumbs.db", b"cat/notes.txt", b"cat/1.jpg.part", b"cat/1.", b"cat/list.csv"]),
        ("document", [b"README", b"cat/LICENSE", b"cat/_SUCCESS"]),
    ],
)
def test_names_alone_decide_what_is_a_candidate(reason: str | None, keys: list[bytes]) -> None:
    assert {key: skip_reason(Listed(key, Stat(1, 1))) for key in keys} == dict.fromkeys(keys, reason)


@pytest.mark.parametrize("kind", ["symlink", "special", "folder_marker"])
def test_what_is_no_plain_file_is_skipped_by_its_kind(kind: str) -> None:
    assert skip_reason(Listed(b"cat/1.jpg", Stat(1, 1), kind)) == kind  # type: ignore[arg-type]


def _write(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


def _keys_and_skipped(root: InputRoot) -> tuple[set[bytes], dict[str, int]]:
    batches = [batch for batch in list_all((root,)) if not batch.fault]
    return (
        {ref.key for batch in batches for ref in unpack_refs(batch.refs)},
        add_counts(*(batch.skipped for batch in batches)),
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """One of everything that a folder can hold."""
    names = ("cat/1.jpg", "cat/deep/2.png", "dog/3.JPG", "dog/notes.txt", ".git/x.jpg", "top.jpg", "README")
    root = _write(tmp_path / "in", *names)
    (root / "empty").mkdir()
    (root / "dog" / "folder.jpg").mkdir()
    os.mkfifo(root / "dog" / "pipe.jpg")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(root / "dog" / "socket.jpg"))
    (root / "dog" / "hard.jpg").hardlink_to(root / "cat" / "1.jpg")
    (root / "dog" / "link.jpg").symlink_to("../cat/1.jpg")
    (root / "dog" / "dangling.jpg").symlink_to("nowhere")
    (root / "dog" / "loop.jpg").symlink_to("loop.jpg")
    _write(tmp_path, "outside.jpg")
    (root / "dog" / "outside.jpg").symlink_to(tmp_path / "outside.jpg")
    (root / "linked_class").symlink_to("cat")
    return root


def test_every_entry_is_a_candidate_or_counted_as_skipped(tree: Path) -> None:
    keys, skipped = _keys_and_skipped(InputRoot(str(tree)))

    assert keys == {b"cat/1.jpg", b"cat/deep/2.png", b"dog/3.JPG", b"dog/hard.jpg", b"dog/link.jpg", b"top.jpg"}
    assert skipped == {"hidden": 1, "suffix": 1, "document": 1, "special": 2, "symlink": 4}


def test_what_no_glob_matches_is_not_listed_at_all(tree: Path) -> None:
    for name in (b"cat/caf\xe9.jpg", b"cat/\xff.jpg", b"dog/\xff.jpg"):
        with open(os.fsencode(tree) + b"/" + name, "wb"):
            pass
    keys, skipped = _keys_and_skipped(InputRoot(str(tree), ("dog/*", "**/*.png", "*/caf?.jpg")))

    matched = {b"dog/3.JPG", b"dog/hard.jpg", b"dog/link.jpg", b"dog/\xff.jpg"}
    assert keys == {b"cat/deep/2.png", b"cat/caf\xe9.jpg", *matched}
    assert skipped == {"suffix": 1, "special": 2, "symlink": 3}


def test_references_carry_root_size_and_time_of_the_listing(tmp_path: Path) -> None:
    path = _write(tmp_path / "in", "cat/1.jpg") / "cat" / "1.jpg"
    path.write_bytes(b"12345")
    os.utime(path, ns=(1, 123_456_789))
    (tmp_path / "empty").mkdir()

    batches = list_all((InputRoot(f"{tmp_path}/empty"), InputRoot(f"{tmp_path}/in")))
    (ref,) = [ref for batch in batches for ref in unpack_refs(batch.refs)]
    assert (ref.root, ref.key, ref.stat) == (1, b"cat/1.jpg", Stat(5, 123_456_789))


def test_long_listings_travel_in_batches_and_an_empty_one_in_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "BATCH_REFS", 3)
    _write(tmp_path, *(f"cat/{i}.jpg" for i in range(7)), "cat/x.txt")

    batches = list(listing.list_section(InputRoot(str(tmp_path)), 0, b"cat"))
    (tmp_path / "empty").mkdir()
    assert list(listing.list_section(InputRoot(str(tmp_path)), 0, b"empty")) == [RefBatch("", b"", {})]
    assert [len(list(unpack_refs(batch.refs))) for batch in batches] == [3, 3, 1]
    assert [batch.skipped for batch in batches] == [{}, {}, {"suffix": 1}]


def test_small_folders_share_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path, *(f"{i:02d}/{name}" for i in range(20) for name in ("1.jpg", "x.txt")))
    (together,) = (batch for batch in list_all((InputRoot(str(tmp_path)),)) if not batch.fault)
    assert (len(list(unpack_refs(together.refs))), together.skipped) == (20, {"suffix": 20})

    monkeypatch.setattr(listing, "_JOINED", 3 * len(together.refs) // 20)
    batches = [batch for batch in list_all((InputRoot(str(tmp_path)),)) if not batch.fault]
    assert [len(list(unpack_refs(batch.refs))) for batch in batches] == [3] * 6 + [2]
    assert add_counts(*(batch.skipped for batch in batches)) == {"suffix": 20}


def test_a_listing_ends_when_the_run_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "BATCH_REFS", 1)
    _write(tmp_path, "cat/1.jpg")
    run = Run("run", str(tmp_path / "out"))
    run.stop.set()
    with pytest.raises(IncompleteError, match="rerun the same command"):
        list(listing.list_section(InputRoot(str(tmp_path)), 0, b"cat", run.check))


def test_a_key_beyond_64_kib_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class _Source:
        def list(self, section: bytes) -> list[Listed]:
            return [Listed(b"cat/" + b"x" * 65_532, Stat(1, 1))]

    monkeypatch.setattr(listing, "open_root", lambda root: _Source())
    with pytest.raises(UsageError, match=r"^cat/x+…: a key of 65536 bytes; at most 65,535 are possible\. Rename it\.$"):
        list(listing.list_section(InputRoot("gs://b"), 0, b""))


def _faults(root: Path | str, class_depth: int = 1, globs: tuple[str, ...] = ()) -> dict[str, set[bytes]]:
    found: dict[str, set[bytes]] = {}
    for batch in list_all((InputRoot(str(root), globs, class_depth),)):
        if batch.fault not in ("", SKIPPED):
            found.setdefault(batch.fault, set()).update(ref.key for ref in unpack_refs(batch.refs))
    return found


def test_class_folders_with_other_files_only_are_faulty(tmp_path: Path) -> None:
    _write(tmp_path, "cat/1.jpg", "cat/a.txt", "cow/a.txt", "docs/README", "deep/er/b.csv", "deep/er/est/c.csv")
    (tmp_path / "dog").mkdir()
    (tmp_path / "dog" / "1.jpg").symlink_to("nowhere")

    assert _faults(tmp_path) == {"no_images": {b"cow", b"docs", b"deep", b"dog"}}
    assert _faults(tmp_path, globs=("*/*",)) == {}


def test_folders_that_are_empty_to_their_owner_are_no_faults(tmp_path: Path) -> None:
    _write(tmp_path, "cat/1.jpg", "pig/.gitkeep", ".git/HEAD", "__MACOSX/cat/._1.jpg", "top.txt", "cow/.old/1.jpg")
    (tmp_path / "goat" / "young").mkdir(parents=True)
    (tmp_path / "dog").mkdir()
    (tmp_path / "dog" / ".x").symlink_to("nowhere")

    assert _faults(tmp_path) == {}


def test_links_in_the_place_of_class_folders_are_faulty(tmp_path: Path) -> None:
    root = _write(tmp_path / "in", "cat/1.jpg", "cat/deep/2.jpg")
    _write(tmp_path, "outside/1.jpg", "notes.txt")
    for name, target in (
        ("dog", "cat"), ("cow", "../outside"), ("unmounted", "/nowhere/at/all"), ("loop", "loop"), (".hidden", "cat"),
        ("gone.txt", "/nowhere"), ("notes.txt", "../notes.txt"), ("cat/link", "deep"),
    ):  # fmt: skip
        (root / name).symlink_to(target)

    assert _faults(root) == {"linked_folder": {b"dog", b"cow", b"unmounted", b"loop"}}
    assert _faults(root, globs=("*/*",)) == {}


def test_with_split_folders_the_class_folders_are_the_second(tmp_path: Path) -> None:
    _write(
        tmp_path, "train/cat/1.jpg", "train/cow/a.txt", "train/a.txt", "test/cat/1.jpg", "docs/cat/a.txt", "docs/b.txt"
    )
    (tmp_path / "test" / "cow").symlink_to("cat")
    (tmp_path / "validation").symlink_to("test")

    assert _faults(tmp_path, class_depth=2) == {
        "no_images": {b"train/cow", b"docs"},
        "linked_folder": {b"test/cow", b"validation"},
    }


def test_a_buckets_folder_markers_make_no_class_folder(strict_gcs: StrictGCS) -> None:
    for name in ("cat/1.jpg", "cow/a.txt"):
        strict_gcs.objects.put("bucket", name, b"x")
    for name in ("pig/", "cat/"):
        strict_gcs.objects.put("bucket", name, b"")

    assert _faults("gs://bucket") == {"no_images": {b"cow"}}


def test_class_folders_of_a_bucket_are_listed_in_parallel(strict_gcs: StrictGCS) -> None:
    for name in ("cat/1.jpg", "dog/1.jpg"):
        strict_gcs.objects.put("bucket", name, b"x")
    both, waited = threading.Barrier(2, timeout=5), []  # seconds; each of the two lists waits for the other

    def wait() -> None:
        try:
            waited.append(both.wait() >= 0)
        except threading.BrokenBarrierError:
            waited.append(False)

    strict_gcs.inject(
        "call",
        kind="list",
        matches=lambda request: request.query.get("prefix") in ("cat/", "dog/"),
        times=None,
        action=wait,
    )
    found, _ = _keys_and_skipped(InputRoot("gs://bucket"))
    assert (found, waited) == ({b"cat/1.jpg", b"dog/1.jpg"}, [True, True])


def test_a_folder_of_a_bucket_may_have_any_number_of_batches(
    strict_gcs: StrictGCS, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "BATCH_REFS", 1)
    names = {f"cat/{number}.jpg" for number in range(3 * REQUESTS)}
    for name in names:
        strict_gcs.objects.put("bucket", name, b"x")

    found, _ = _keys_and_skipped(InputRoot("gs://bucket"))
    assert found == {name.encode() for name in names}


def test_threads_end_if_nobody_wants_the_rest_of_a_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(*_: object) -> Iterator[RefBatch]:
        while True:
            yield RefBatch("", b"")

    monkeypatch.setattr(listing, "list_section", endless)
    before = set(threading.enumerate())
    batches = listing._list_side_by_side((InputRoot("gs://bucket"),), [(0, b"cat"), (0, b"dog")], lambda: None)
    next(batches)
    begun = set(threading.enumerate()) - before

    batches.close()  # type: ignore[attr-defined]

    for thread in begun:
        thread.join(10)
    assert len(begun) == 2 and not any(thread.is_alive() for thread in begun)
