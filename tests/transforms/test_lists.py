"""A list as an input: which rows become which keys, and what is wrong with a list."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardfeed.errors import UsageError
from shardfeed.transforms.elements import Totals
from shardfeed.transforms.inputs import lists
from shardfeed.transforms.inputs.listing import list_all
from shardfeed.transforms.inputs.lists import open_root
from shardfeed.transforms.inputs.roots import parse_inputs
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.planning.limit import Limit
from shardfeed.transforms.planning.plan import make_plan
from shardfeed.transforms.planning.totals import add_totals, count_batch, label_batch
from shardfeed.transforms.sources import open_source
from shardfeed.transforms.sources.base import Listed
from shardfeed.transforms.stores import open_output

KEYS = [b"cat/1.jpg", b"cat/2.jpg", b"dog/3.jpg", b"dog/deep/4.jpg"]


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for number, key in enumerate(KEYS):
        path = tmp_path / "photos" / key.decode()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * (number + 1))
    return tmp_path / "photos"


def listed(text: str, root: str | None = None) -> list[Listed]:
    (found,) = parse_inputs([text], list_root=root)
    source = open_root(found)
    return [entry for section in source.sections() for entry in source.list(section)]


def keys(text: str, root: str | None = None) -> list[bytes]:
    return sorted(entry.key for entry in listed(text, root))


def totals(text: str) -> Totals:
    options = BuildOptions()
    labelled = (piece for batch in list_all(parse_inputs([text])) for piece in label_batch(batch, options))
    return add_totals(count_batch(piece, options) for piece in labelled)


def plan(text: str) -> None:
    make_plan(totals(text), BuildOptions(), {}, Limit(count=0))


def test_rows_are_paths_below_the_folder_of_the_list_or_below_the_root_that_is_given(photos: Path) -> None:
    (photos / "some.txt").write_bytes(b"\xef\xbb\xbfcat/1.jpg\r\n \t\r\n\r\n./dog/deep/4.jpg\n")
    (photos.parent / "full.txt").write_text(f"{photos}/cat/1.jpg\ndog/deep/4.jpg")
    (photos.parent / "link").symlink_to(photos)
    (photos.parent / "linked.txt").write_text(f"{photos.parent}/link/cat/1.jpg\n{photos}/dog/deep/4.jpg\n")

    found = listed(f"@{photos}/some.txt")

    assert sorted(entry.key for entry in found) == [b"cat/1.jpg", b"dog/deep/4.jpg"]
    assert {entry.stat.version for entry in found} == {
        os.stat(photos / k).st_mtime_ns for k in ("cat/1.jpg", "dog/deep/4.jpg")
    }
    assert keys(f"@{photos.parent}/full.txt", str(photos)) == [b"cat/1.jpg", b"dog/deep/4.jpg"]
    assert keys(f"@{photos.parent}/linked.txt", f"{photos.parent}/link") == [b"cat/1.jpg", b"dog/deep/4.jpg"]


@pytest.mark.parametrize("column", ["", ":file", ":other one"])
def test_a_table_is_read_by_its_first_or_a_named_column_of_text(photos: Path, column: str) -> None:
    first, other = ["cat/2.jpg", "cat/1.jpg"], ["dog/3.jpg", "cat/1.jpg"]
    (photos / "t.csv").write_text('\ufefffile,other one\n"cat/2.jpg",dog/3.jpg\n\ncat/1.jpg,"cat/1.jpg"\n')
    categories = pa.array(other).dictionary_encode()
    pq.write_table(pa.table({"file": first, "other one": categories, "n": [1, 2]}), photos / "t.parquet")
    expected = sorted(one.encode() for one in (other if column == ":other one" else first))
    assert keys(f"@{photos}/t.csv{column}") == expected
    assert keys(f"@{photos}/t.parquet{column}") == expected
    numbers = r"column 'n' is of type int64; expected is string. Name another .* There are: file, other one, n"
    with pytest.raises(UsageError, match=numbers):
        plan(f"@{photos}/t.parquet:n")


def test_a_column_whose_name_is_also_the_path_of_a_field_is_read(photos: Path) -> None:
    pq.write_table(pa.table({"a": [{"b": "dog/3.jpg"}], "a.b": ["cat/1.jpg"]}), photos / "t.parquet")
    assert keys(f"@{photos}/t.parquet:a.b") == [b"cat/1.jpg"]


def test_doubled_rows_count_once_also_across_lists_and_spellings(photos: Path) -> None:
    (photos / "1.txt").write_text(f"cat/1.jpg\n{photos}/cat/1.jpg\ncat/2.jpg\ncat/1.jpg\n")
    (photos / "2.csv").write_text("file\ncat/1.jpg\ndog/3.jpg\n")
    (root,) = parse_inputs([f"@{photos}/1.txt", f"@{photos}/2.csv"])
    assert sorted(entry.key for entry in open_root(root).list(b"0/1")) == [b"cat/1.jpg", b"cat/2.jpg", b"dog/3.jpg"]


def test_sections_of_a_long_list_hold_every_key_once(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "_SECTION_BYTES_ON_DISK", 20)
    (photos / "l.txt").write_bytes(b"\n".join([*KEYS, *(os.fsencode(photos / key.decode()) for key in KEYS)]))
    (root,) = parse_inputs([f"@{photos}/l.txt"])
    source = open_root(root)
    sections = source.sections()
    assert len(sections) > 3
    assert Counter(e.key for section in sections for e in source.list(section)) == Counter(KEYS)


def test_order_format_and_doubles_of_a_list_are_in_no_digest_but_a_row_is(photos: Path) -> None:
    (photos / "a.txt").write_bytes(b"\n".join(KEYS))
    (photos / "b.csv").write_bytes(b"file\n" + b"\n".join([*reversed(KEYS), KEYS[0]]))
    (photos / "c.txt").write_bytes(b"\n".join(KEYS[:-1]))
    one, other, folder, less = (
        totals(text).digest for text in (f"@{photos}/a.txt", f"@{photos}/b.csv", str(photos), f"@{photos}/c.txt")
    )
    assert one == other == folder != less


def test_memory_does_not_grow_with_the_rows(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many rows, only as many as threads look at are there at a time."""
    monkeypatch.setattr(lists, "_AT_A_TIME", 128)
    (photos / "l.txt").write_bytes(b"cat/1.jpg\n" + b"".join(b"dog/%07d.jpg\n" % number for number in range(2_000)))
    (root,) = parse_inputs([f"@{photos}/l.txt"])
    made = 0
    real = lists._key_of

    def counted(*args: object) -> bytes:
        nonlocal made
        made += 1
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(lists, "_key_of", counted)
    entries = open_root(root).list(b"0/1")
    next(entries)
    assert made - 2_001 <= 128  # the first pass holds hashes only
    assert sum(entry.kind == "missing" for entry in entries) == 2_000


def test_files_that_are_not_there_are_counted_and_named_before_any_work(photos: Path) -> None:
    (photos / "l.txt").write_text("cat/1.jpg\ncat/none.jpg\ndog\ncat/1.jpg/x.jpg\n")
    with pytest.raises(UsageError) as raised:
        plan(f"@{photos}/l.txt")
    assert str(raised.value) == (
        "3 files of the list are not there: cat/1.jpg/x.jpg, cat/none.jpg, dog. Take them out of the list, or put them there. "
        "If it is all of them, --list_root or the table's column (@list.csv:COLUMN) may be the wrong one."
    )


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        ("photos", r"all images of the list lie in one folder \(photos\)"),
        ("train", r"look like splits, not classes: train\. .*--splits folders"),
    ],
)
def test_a_list_above_its_class_folders_would_be_of_one_class(photos: Path, folder: str, said: str) -> None:
    photos.rename(photos.parent / folder)
    (photos.parent / "l.txt").write_text("".join(f"{folder}/{key.decode()}\n" for key in KEYS))
    with pytest.raises(UsageError, match=said):
        plan(f"@{photos.parent}/l.txt")


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("l.txt", b"cat/1.jpg\n/elsewhere/cat/1.jpg", "row 2: /elsewhere/cat/1.jpg does not lie below .*--list_root /elsewhere$"),
        ("l.txt", b"gs://b/cat/1.jpg", "does not lie below .*--list_root gs://b$"),
        ("l.txt", b"../cat/1.jpg", r"row 1: ../cat/1.jpg is no path of a file below the root"),
        ("l.txt", b"cat//1.jpg", "is no path of a file below the root"),
        ("l.txt", "cat/1.jpg".encode("utf-16"), r"row 1 is no path: .*Expected is UTF-8 text"),
        ("l.txt", b"a" * 80_000, "row 1 is no path"),
        ("l.csv", b"", "is empty: a table has a row of names"),
        ("l.csv", b"0,cat/1.jpg\n1,cat/2.jpg\n", "its first row holds cat/1.jpg, which looks like an image"),
        ("l.csv:file", b"a,file\nx", r"row 2: it has no column 'file'."),
        ("l.csv:file", b"a,b\n", r"has no column 'file'. There are: a, b"),
        ("l.csv:file", b"file,file\n", r"has more than one column 'file'"),
        ("l.csv:file", b'file\n"' + b"x" * 200_000, "is no CSV: row 2: field larger than field limit"),
        ("l.parquet", b"PAR1", "is no Parquet file, or damaged"),
        ("l.txt.gz", b"", "behind @ stands a list of images"),
        ("none.txt", None, "none.txt does not exist"),
        ("", None, "behind @ stands a list of images"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_is_wrong_with_a_list_is_said_before_any_work(
    photos: Path, name: str, data: bytes | None, said: str
) -> None:
    if data is not None:
        (photos / name.partition(":")[0]).write_bytes(data)
    with pytest.raises(UsageError, match=said):
        plan(f"@{photos}/{name}")


def test_where_two_roots_fit_the_one_that_was_typed_counts_in_every_process(photos: Path) -> None:
    """Else two workers of one build would give an image two keys. One of many roots shows an order of hashes."""
    for number in range(16):
        root = photos / f"here{number}"
        root.symlink_to(".")
        (photos / "l.txt").write_text(f"{root}/cat/1.jpg\n")
        assert keys(f"@{photos}/l.txt", str(root)) == [b"cat/1.jpg"]


@pytest.mark.parametrize(
    ("inputs", "root", "said"),
    [
        (["@{0}/l.txt", "{0}"], None, "is also the root of the list"),
        (["@{0}/l.txt", "{0}/cat"], None, "lies inside --input"),
        (["{0}"], "{0}", "--list_root is the root of a list, and there is none"),
        (["{0}/a.zip/cat"], None, "a.zip is an archive, which is an input as a whole"),
        (["{0}/a.zip/*/*.jpg"], None, "a.zip is an archive, which is an input as a whole"),
        (["{0}/*.zip"], None, "a glob cannot choose among archives"),
    ],
)
def test_inputs_that_contradict_each_other_are_refused(
    photos: Path, inputs: list[str], root: str | None, said: str
) -> None:
    (photos / "a.zip").write_bytes(b"")
    with pytest.raises(UsageError, match=said):
        parse_inputs([text.format(photos) for text in inputs], list_root=root and root.format(photos))


def test_rows_of_a_list_in_a_bucket_have_the_stat_of_a_listing(gcs_bucket: str) -> None:
    store = open_output(f"{gcs_bucket}/in")
    for key in KEYS:
        store.create(key.decode(), key)
    store.create(
        "list.txt", b"\n".join([KEYS[0], f"{gcs_bucket}/in/".encode() + KEYS[3], b"cat/\xff.jpg", b"cat/none.jpg"])
    )

    found = {entry.key: entry for entry in listed(f"@{gcs_bucket}/in/list.txt")}

    expected = {
        entry.key: entry for section in (b"cat/", b"dog/") for entry in open_source(f"{gcs_bucket}/in").list(section)
    }
    assert {key: entry for key, entry in found.items() if entry.kind == "file"} == {
        key: expected[key] for key in (KEYS[0], KEYS[3])
    }
    assert {key for key, entry in found.items() if entry.kind == "missing"} == {b"cat/\xff.jpg", b"cat/none.jpg"}
