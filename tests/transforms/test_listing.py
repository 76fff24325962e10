"""Roots, globs and the closed rule on names that says which files are candidates."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from shardfeed.errors import IncompleteError, UsageError
from shardfeed.storage.base import Listed, Stat
from transforms import listing
from transforms.elements import RefBatch, add_counts, unpack_refs
from transforms.listing import InputRoot, glob_regex, list_all, parse_inputs, skip_reason
from transforms.run_state import RUN


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (b"cat/1.jpg", None),
        (b"cat/IMG.JPG", None),
        (b"cat/1.JpEg", None),
        (b"cat/1.tiff", None),
        (b"cat/1.heic", None),
        (b"cat/-rf.jpg", None),
        (b"cat/CON.jpg", None),
        (b"cat/a.b.png", None),
        (b"cat/no_suffix", None),
        (b"cat/\xff\xfe.jpg", None),
        (b"cat/a\nb.webp", None),
        (b"a/../b.jpg", "hidden"),
        (b"cat/.hidden.jpg", "hidden"),
        (b"cat/._1.jpg", "hidden"),
        (b".git/x.jpg", "hidden"),
        (b"cat/.thumbs/x.jpg", "hidden"),
        (b"cat/.DS_Store", "hidden"),
        (b"cat/.jpg", "hidden"),
        (b"cat/Thumbs.db", "suffix"),
        (b"cat/notes.txt", "suffix"),
        (b"cat/1.jpg.part", "suffix"),
        (b"cat/1.", "suffix"),
        (b"cat/list.csv", "suffix"),
        (b"README", "document"),
        (b"cat/LICENSE", "document"),
        (b"cat/_SUCCESS", "document"),
        (b"cat/licenses", None),
    ],
    ids=repr,
)
def test_names_alone_decide_what_is_a_candidate(key: bytes, reason: str | None) -> None:
    assert skip_reason(Listed(key, Stat(1, 1))) == reason


@pytest.mark.parametrize("kind", ["symlink", "special", "folder_marker"])
def test_what_is_no_plain_file_is_skipped_by_its_kind(kind: str) -> None:
    assert skip_reason(Listed(b"cat/1.jpg", Stat(1, 1), kind)) == kind  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("glob", "matching", "others"),
    [
        ("*/*.jpg", ["cat/1.jpg", "cat/.jpg"], ["1.jpg", "a/b/1.jpg", "cat/1.png", "cat/1.jpgx"]),
        ("**/*.jpg", ["1.jpg", "a/1.jpg", "a/b/c/1.jpg"], ["a/1.png"]),
        ("cat/**", ["cat/1", "cat/a/b"], ["dog/1", "cat"]),
        ("a**b", ["ab", "a/x/b", "axb"], ["b"]),
        ("**/x/*.png", ["x/1.png", "a/x/1.png"], ["ax/1.png", "x/a/1.png"]),
        ("?/1.jpg", ["a/1.jpg", "é/1.jpg"], ["ab/1.jpg", "/1.jpg"]),
        ("[cd]og/*", ["cog/1", "dog/1"], ["fog/1", "cog/a/b"]),
        ("[!c]og/*", ["dog/1"], ["cog/1"]),
        ("[a-c]/*", ["b/1"], ["d/1"]),
        ("[é]/*", ["é/1"], ["ê/1"]),
        ("a[!b]c", ["axc"], ["abc", "a/c"]),
        ("[]]/*", ["]/1"], ["a/1"]),
        ("[!]]/*", ["a/1"], ["]/1"]),
        ("a[1", ["a[1"], ["a1"]),
        ("a.b+(c)/*", ["a.b+(c)/1"], ["axb+(c)/1"]),
        ("[\\]/*", ["\\/1"], ["a/1"]),
        ("*\n*", ["a\nb"], ["ab"]),
        ("[[]/*", ["[/1"], ["a/1"]),
    ],
    ids=lambda value: repr(value) if isinstance(value, str) else "",
)
def test_a_glob_matches_whole_keys(glob: str, matching: list[str], others: list[str]) -> None:
    regex = glob_regex(glob)

    assert [key for key in matching + others if regex.fullmatch(key)] == matching


@pytest.mark.parametrize(("glob", "range_"), [("[z-a]/*", "z-a"), ("x[9-0].jpg", "9-0")])
def test_a_glob_that_can_match_nothing_is_refused_at_once(glob: str, range_: str) -> None:
    with pytest.raises(UsageError) as found:
        parse_inputs([f"gs://flowers/{glob}"])
    assert str(found.value) == (
        f"--input gs://flowers/{glob}: {glob!r} is not a glob (bad character range {range_}). Allowed are * ? ** and sets "
        "such as [abc], [a-z], [!abc]."
    )


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder, also HOME, that holds ``photos/cat`` and ``we[i]rd``."""
    root = tmp_path.resolve()
    (root / "photos" / "cat").mkdir(parents=True)
    (root / "we[i]rd").mkdir()
    monkeypatch.chdir(root)
    monkeypatch.setenv("HOME", str(root))
    return root


@pytest.mark.parametrize(
    ("inputs", "roots"),
    [
        (["photos"], [("photos", ())]),
        (["photos/"], [("photos", ())]),
        (["./photos//"], [("photos", ())]),
        (["~/photos"], [("photos", ())]),
        (["~/photos/*/*.jpg"], [("photos", ("*/*.jpg",))]),
        (["photos/*/*.jpg", "photos/*/*.png"], [("photos", ("*/*.jpg", "*/*.png"))]),
        (["photos/*/*.jpg", "photos/*/*.jpg"], [("photos", ("*/*.jpg",))]),
        (["photos/*/*.jpg", "photos"], [("photos", ())]),
        (["photos", "photos/*/*.jpg"], [("photos", ())]),
        (["photos/cat*/1.jpg"], [("photos", ("cat*/1.jpg",))]),
        (["**/*.jpg"], [("", ("**/*.jpg",))]),
        (["*.jpg"], [("", ("*.jpg",))]),
        (["we[i]rd"], [("we[i]rd", ())]),
        (["we[i]*"], [("", ("we[i]*",))]),
        (["photos", "other"], [("other", ()), ("photos", ())]),
        (["photos", "photos2"], [("photos", ()), ("photos2", ())]),
    ],
    ids=lambda value: " ".join(value) if value and isinstance(value[0], str) else "",
)
def test_inputs_name_roots_and_globs(here: Path, inputs: list[str], roots: list[tuple[str, tuple[str, ...]]]) -> None:
    expected = [InputRoot(str(here / root) if root else str(here), globs) for root, globs in roots]

    assert parse_inputs(inputs) == tuple(expected)


def test_a_root_may_be_a_link_to_a_folder(here: Path) -> None:
    (here / "link").symlink_to("photos")

    assert parse_inputs(["link", "photos"]) == (InputRoot(str(here / "photos")),)


@pytest.mark.parametrize(
    ("inputs", "roots"),
    [
        (["gs://flowers"], [InputRoot("gs://flowers")]),
        (["gs://flowers/"], [InputRoot("gs://flowers")]),
        (["gs://flowers/*/*.jpg"], [InputRoot("gs://flowers", ("*/*.jpg",))]),
        (["gs://flowers/2024/*/*.jpg"], [InputRoot("gs://flowers/2024", ("*/*.jpg",))]),
        (["gs://flowers/**"], [InputRoot("gs://flowers", ("**",))]),
        (["gs://a/x", "gs://a/xy"], [InputRoot("gs://a/x"), InputRoot("gs://a/xy")]),
        (["gs://b/*", "gs://b/c*"], [InputRoot("gs://b", ("*", "c*"))]),
    ],
    ids=lambda value: " ".join(value) if value and isinstance(value[0], str) else "",
)
def test_buckets_are_roots_too(inputs: list[str], roots: list[InputRoot]) -> None:
    assert parse_inputs(inputs) == tuple(roots)


@pytest.mark.parametrize(
    ("outer", "inner"),
    [("gs://a", "gs://a/b"), ("gs://a/b/*.jpg", "gs://a/b/c/*.jpg"), ("/", "/srv"), ("/srv", "/srv/photos/cat")],
)
def test_a_root_inside_another_is_refused(outer: str, inner: str) -> None:
    roots = [parse_inputs([text])[0].url for text in (outer, inner)]
    for inputs in ([outer, inner], [inner, outer]):
        with pytest.raises(UsageError) as found:
            parse_inputs(inputs)
        assert str(found.value) == (
            f"--input {roots[1]} lies inside --input {roots[0]}: its images would be listed twice with different classes. "
            "Give only one of them, or build two datasets."
        )


def test_an_empty_input_is_refused() -> None:
    with pytest.raises(UsageError) as found:
        parse_inputs(["photos", ""])
    assert str(found.value) == (
        "--input is empty. Give a folder (photos/), a bucket (gs://photos) or a glob (photos/*/*.jpg)."
    )


def _keys_and_skipped(root: InputRoot) -> tuple[set[bytes], dict[str, int]]:
    batches = list(list_all((root,)))
    return (
        {ref.key for batch in batches for ref in unpack_refs(batch.refs)},
        add_counts(*(batch.skipped for batch in batches)),
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """One of everything that a folder can hold."""
    root = tmp_path / "in"
    for name in ("cat/1.jpg", "cat/deep/2.png", "dog/3.JPG", "dog/notes.txt", ".git/x.jpg", "top.jpg", "README"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    (root / "empty").mkdir()
    (root / "dog" / "folder.jpg").mkdir()
    os.mkfifo(root / "dog" / "pipe.jpg")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(root / "dog" / "socket.jpg"))
    (root / "dog" / "hard.jpg").hardlink_to(root / "cat" / "1.jpg")
    (root / "dog" / "link.jpg").symlink_to("../cat/1.jpg")
    (root / "dog" / "dangling.jpg").symlink_to("nowhere")
    (root / "dog" / "loop.jpg").symlink_to("loop.jpg")
    (tmp_path / "outside.jpg").write_bytes(b"x")
    (root / "dog" / "outside.jpg").symlink_to(tmp_path / "outside.jpg")
    (root / "linked_class").symlink_to("cat")
    return root


def test_every_entry_is_a_candidate_or_counted_as_skipped(tree: Path) -> None:
    keys, skipped = _keys_and_skipped(InputRoot(str(tree)))

    assert keys == {b"cat/1.jpg", b"cat/deep/2.png", b"dog/3.JPG", b"dog/hard.jpg", b"dog/link.jpg", b"top.jpg"}
    assert skipped == {"hidden": 1, "suffix": 1, "document": 1, "special": 2, "symlink": 4}


def test_what_no_glob_matches_is_not_listed_at_all(tree: Path) -> None:
    keys, skipped = _keys_and_skipped(InputRoot(str(tree), ("dog/*", "**/*.png")))

    assert keys == {b"cat/deep/2.png", b"dog/3.JPG", b"dog/hard.jpg", b"dog/link.jpg"}
    assert skipped == {"suffix": 1, "special": 2, "symlink": 3}


def test_a_glob_matches_names_that_are_not_utf8(tmp_path: Path) -> None:
    os.mkdir(os.fsencode(tmp_path) + b"/cat")
    for name in (b"caf\xe9.jpg", b"\xff.png"):
        with open(os.fsencode(tmp_path) + b"/cat/" + name, "wb"):
            pass

    assert _keys_and_skipped(InputRoot(str(tmp_path), ("*/caf?.jpg",)))[0] == {b"cat/caf\xe9.jpg"}
    assert _keys_and_skipped(InputRoot(str(tmp_path), ("*/*",)))[0] == {b"cat/caf\xe9.jpg", b"cat/\xff.png"}


def test_references_carry_root_size_and_time_of_the_listing(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    path = tmp_path / "cat" / "1.jpg"
    path.write_bytes(b"12345")
    os.utime(path, ns=(1, 123_456_789))
    empty = tmp_path.parent / f"{tmp_path.name}-empty"
    empty.mkdir()

    (ref,) = [
        ref for batch in list_all((InputRoot(str(empty)), InputRoot(str(tmp_path)))) for ref in unpack_refs(batch.refs)
    ]
    assert (ref.root, ref.key, ref.stat) == (1, b"cat/1.jpg", Stat(5, 123_456_789))


def test_long_listings_travel_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "BATCH_REFS", 3)
    (tmp_path / "cat").mkdir()
    for i in range(7):
        (tmp_path / "cat" / f"{i}.jpg").touch()
    (tmp_path / "cat" / "x.txt").touch()

    batches = list(listing.list_section(InputRoot(str(tmp_path)), 0, b"cat"))
    assert [len(list(unpack_refs(batch.refs))) for batch in batches] == [3, 3, 1]
    assert [batch.skipped for batch in batches] == [{}, {}, {"suffix": 1}]


def test_an_empty_section_still_gives_a_batch(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()

    assert list(listing.list_section(InputRoot(str(tmp_path)), 0, b"cat")) == [RefBatch("", b"", {})]


def test_a_listing_ends_when_the_run_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "BATCH_REFS", 1)
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "1.jpg").touch()
    RUN.stop.set()
    try:
        with pytest.raises(IncompleteError, match="rerun the same command"):
            list(listing.list_section(InputRoot(str(tmp_path)), 0, b"cat"))
    finally:
        RUN.stop.clear()


def test_a_key_beyond_64_kib_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class _Source:
        def list(self, section: bytes) -> list[Listed]:
            return [Listed(b"cat/" + b"x" * 65_532, Stat(1, 1))]

    monkeypatch.setattr("shardfeed.storage.open_source", lambda url: _Source())
    with pytest.raises(UsageError, match=r"^cat/x+…: a key of 65536 bytes; at most 65,535 are possible\. Rename it\.$"):
        list(listing.list_section(InputRoot("gs://b"), 0, b""))
