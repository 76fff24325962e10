"""Class and split of a key: folders, exact shares, look-alikes, locked lists."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

from shardfeed.errors import UsageError
from shardfeed.format.hashing import hash64
from shardfeed.transforms.inputs.classes import choose_classes
from shardfeed.transforms.inputs.labels import Labeller
from shardfeed.transforms.inputs.splits import parse_splits
from shardfeed.transforms.metadata.row import Row, pack_table_row
from shardfeed.transforms.options import BuildOptions

TRAIN = parse_splits("train")
BY_FOLDERS = parse_splits("folders")


@pytest.mark.parametrize("folder", ["00", " cat ", "%2F", "Käse", ".."], ids=repr)
def test_the_class_is_the_first_folder_as_it_is_spelled(folder: str) -> None:
    for key in (f"{folder}/1.jpg".encode(), f"{folder}/deep/er/1.jpg".encode()):
        assert Labeller(TRAIN).label(key, b"") == ("train", (folder,), "")
        assert Labeller(TRAIN).labels_of(key, b"") == (folder,)


DEEPER, DEEPER_BY_FOLDERS = Labeller(TRAIN, depth=2), Labeller(BY_FOLDERS, depth=2)
NO_LABELS = Labeller(BY_FOLDERS, "none")


@pytest.mark.parametrize(
    ("labeller", "key", "split", "labels"),
    [
        (Labeller(BY_FOLDERS), b"train/cat/a/1.jpg", "train", ("cat",)),
        (Labeller(BY_FOLDERS), b"validation/cat/a/1.jpg", "validation", ("cat",)),
        (Labeller(BY_FOLDERS), b"valid/cat/a/1.jpg", "validation", ("cat",)),
        (Labeller(BY_FOLDERS), b"val/cat/a/1.jpg", "validation", ("cat",)),
        (Labeller(BY_FOLDERS), b"test/cat/a/1.jpg", "test", ("cat",)),
        (DEEPER, b"a/cat/1.jpg", "train", ("cat",)),
        (DEEPER, b"a/cat/deep/1.jpg", "train", ("cat",)),
        (DEEPER_BY_FOLDERS, b"test/a/cat/1.jpg", "test", ("cat",)),
        (NO_LABELS, b"val/1.jpg", "validation", ()),
    ],
    ids=lambda value: repr(value) if isinstance(value, bytes) else "",
)
def test_folders_are_split_and_class(labeller: Labeller, key: bytes, split: str, labels: tuple[str, ...]) -> None:
    assert labeller.label(key, b"") == (split, labels, "")
    assert labeller.labels_of(key, b"") == labels


@pytest.mark.parametrize(
    ("labeller", "fault", "keys"),
    [
        (Labeller(TRAIN), "no_class", [b"1.jpg", b"/1.jpg"]),
        (Labeller(TRAIN), "class_not_utf8", [b"caf\xe9/1.jpg"]),
        (Labeller(BY_FOLDERS), "no_split", [b"train/1.jpg", b"train//1.jpg", b"dev/cat/1.jpg", b"Train/cat/1.jpg"]),
        (Labeller(BY_FOLDERS), "no_split", [b"\xff/cat/1.jpg"]),
        (Labeller(BY_FOLDERS), "class_not_utf8", [b"train/caf\xe9/1.jpg"]),
        (DEEPER, "too_shallow", [b"a/1.jpg"]),
        (DEEPER_BY_FOLDERS, "too_shallow", [b"test/cat/1.jpg"]),
        (DEEPER_BY_FOLDERS, "no_split", [b"a/cat/x/1.jpg"]),
        (NO_LABELS, "no_split_folder", [b"cat/1.jpg"]),
    ],
)
def test_a_key_without_a_class_is_a_fault_not_a_guess(labeller: Labeller, fault: str, keys: list[bytes]) -> None:
    assert [labeller.label(key, b"") for key in keys] == [("", (), fault)] * len(keys)


def test_bounds_of_shares_are_exact_fractions_of_the_hash_range() -> None:
    assert parse_splits("train=0.7,validation=0.2,test=0.1").bounds == (
        ("train", int(Fraction(7, 10) * 2**64)),
        ("validation", int(Fraction(9, 10) * 2**64)),
        ("test", 2**64),
    )
    assert parse_splits("a=1/3,b=1/3,c=1/3").bounds == (("a", 2**64 // 3), ("b", 2 * 2**64 // 3), ("c", 2**64))


def test_a_key_falls_where_its_hash_does() -> None:
    keys = [b"%d.jpg" % number for number in range(50)] + [b"\xff"]

    found = [parse_splits("train=0.3,test=0.7").split_or_fault(key, b"", ())[0] for key in keys]
    assert found == ["train" if hash64("split", 0, key) * 10 < 3 * 2**64 else "test" for key in keys]


def test_a_hash_on_the_boundary_belongs_to_the_next_split(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = parse_splits("train=0.5,test=0.5")

    for value, split in ((2**63 - 1, "train"), (2**63, "test"), (2**64 - 1, "test"), (0, "train")):
        monkeypatch.setattr(
            "shardfeed.transforms.inputs.splits.hash64", lambda _domain, _seed, _key, value=value: value
        )
        assert rule.split_or_fault(b"cat/1.jpg", b"", ())[0] == split


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("train=0.9,validation=0.2", "the shares add up to 1.1"),
        ("train=0.9", "the shares add up to 0.9"),
        ("train=1,test=0", "the shares add up to 1"),
        ("train,test", "the shares add up to 2"),
        ("train=0.5,Train=0.5", "a split is named twice, upper and lower case aside"),
        ("train=half,test=0.5", "'half' is not a number"),
        ("train=1/0,test=0.5", "'1/0' is not a number"),
        ("train=", "'' is not a number"),
        ("", "'' is not a split name"),
        ("1st", "'1st' is not a split name"),
        ("a b", "'a b' is not a split name"),
        ("../x", "'../x' is not a split name"),
        ("rejects", "'rejects' is not a split name"),
    ],
)
def test_splits_that_cannot_be_are_refused_with_an_example(text: str, problem: str) -> None:
    with pytest.raises(UsageError) as found:
        parse_splits(text)
    assert str(found.value).startswith(f"--splits {text}: {problem}")
    assert re.search(r"Example: |Name each once", str(found.value))


@pytest.mark.parametrize(
    ("found", "class_list", "classes"),
    [
        ("b Z é a 10 9", None, "10 9 Z a b é"),
        ("cat dog", "dog cat", "dog cat"),
        ("train tram", None, "train tram"),
        ("cat cats 0 00", None, "0 00 cat cats"),
        ("l 1 I O 0", None, "0 1 I O l"),
        ("мир mir", None, "mir мир"),
        ("b d p q", None, "b d p q"),
        ("A a", "a A", "a A"),
    ],
)
def test_classes_are_in_the_order_of_their_bytes_or_of_the_class_list(
    found: str, class_list: str | None, classes: str
) -> None:
    options = BuildOptions(class_list=None if class_list is None else tuple(class_list.split()))
    assert choose_classes(set(found.split()), (), options) == tuple(classes.split())


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("Cat", "cat"),
        ("cat", "cat "),
        ("caf\u00e9", "cafe\u0301"),
        ("a b", "a  b"),
        ("STRASSE", "straße"),
        ("ﬁsh", "fish"),
        ("cat", "c\u200bat"),
        ("a-b", "a\u2013b"),
        ("a-b", "a\u2212b"),
        ("cat", "c\u0430t"),
        ("BMW", "\u0392\u039cW"),
        ("\u043c\u0438\u0440", "\u041c\u0438\u0440"),
    ],
    ids=ascii,
)
def test_folders_that_look_alike_are_never_two_classes(one: str, two: str) -> None:
    first, second = sorted((one, two), key=str.encode)

    with pytest.raises(UsageError) as found:
        choose_classes({one, two, "other"}, (), BuildOptions())
    assert str(found.value) == (
        f"class folders {ascii(first)} and {ascii(second)} look alike: they differ only in case, spaces, invisible characters, "
        "dashes, Unicode form or letters of another script. They would be two classes. Rename one, make them one class with "
        "--class_map, or name both in --class_list if they are meant."
    )


@pytest.mark.parametrize(
    "folders",
    [{"train"}, {"test"}, {"train", "valid", "test"}, {"TRAIN", "Test"}, {"train", "holdout"}],
    ids=lambda folders: "+".join(sorted(folders)),
)
def test_folders_that_look_like_splits_stop_the_build_with_the_remedy(folders: set[str]) -> None:
    with pytest.raises(UsageError) as found:
        choose_classes(folders, (), BuildOptions())
    said = str(found.value)
    assert said.startswith(
        f"the first folders below --input look like splits, not classes: {', '.join(sorted(folders))}. Give --splits folders "
        "to take the split from the first folder and the class from the second."
    )
    assert ("Rename" in said) == bool(folders - {"train", "test", "val", "valid"})
    assert choose_classes(folders, (), BuildOptions(class_list=tuple(folders))) == tuple(folders)


@pytest.mark.parametrize("name", ["holdout", "test", "Train"])
def test_a_split_among_classes_stops_the_build(name: str) -> None:
    with pytest.raises(UsageError, match=f"look like splits, not classes: {name}\\. .* Beside them are cat, dog: move"):
        choose_classes({"cat", "dog", name}, (), BuildOptions())


class _Counted(str):
    """A name that counts how often it is hashed."""

    hashed = 0

    def __hash__(self) -> int:
        _Counted.hashed += 1
        return super().__hash__()


def test_each_name_of_a_class_list_is_looked_up_a_few_times_however_many_there_are() -> None:
    names = tuple(_Counted(f"n{i:04}") for i in range(1_000))
    _Counted.hashed = 0

    assert choose_classes(names, (), BuildOptions(class_list=names)) == names
    assert _Counted.hashed <= 10 * len(names)


@pytest.mark.parametrize(
    ("found", "class_list", "message"),
    [
        (
            {"cat", "dog", "bird"},
            ("cat",),
            "folders that are not in --class_list: bird, dog. Allowed: cat. Add them to the list, rename them, or leave them out "
            "of --input.",
        ),
        (
            {f"c{i:02}" for i in range(2000)},
            ("cat",),
            f"folders that are not in --class_list: {', '.join(f'c0{i}' for i in range(10))} and 1,990 more. Allowed: cat. Add "
            "them to the list, rename them, or leave them out of --input.",
        ),
        (
            {"cat"},
            ("cat", "dog"),
            "classes of --class_list without a single image: dog. Add images, or take them out of the list.",
        ),
    ],
    ids=["two not in the list", "many not in the list", "one only in the list"],
)
def test_class_folders_and_class_list_must_agree(found: set[str], class_list: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        choose_classes(found, (), BuildOptions(class_list=class_list))
    assert str(refused.value) == message


def row(*labels: str) -> bytes:
    return pack_table_row(Row(labels=labels))


@pytest.mark.parametrize(
    ("labeller", "packed", "labels", "fault"),
    [
        (Labeller(TRAIN, "table"), row("cat"), ("cat",), ""),
        (Labeller(TRAIN, "table"), row(), (), "no_label"),
        (Labeller(TRAIN, "table"), row(""), (), "no_label"),
        (Labeller(TRAIN, "regex"), row(), (), "no_match"),
        (Labeller(TRAIN, "table", multi=True), row("b", "a", "b"), ("b", "a"), ""),
        (Labeller(TRAIN, "table", multi=True), row(), (), ""),
        (Labeller(TRAIN, "table", multi=True), row("a", ""), (), "no_label"),
        (Labeller(TRAIN, "none"), b"", (), ""),
        (Labeller(TRAIN, "table", class_map={"cat": "pet"}), row("cat"), ("pet",), ""),
        (Labeller(TRAIN, "table", class_map={"cat": ""}), row("cat"), (), "class_map"),
        (Labeller(TRAIN, "table", multi=True, class_map={"a": "", "b": "c"}), row("a", "b", "c"), ("c",), ""),
        (Labeller(TRAIN, "table", multi=True, class_map={"a": ""}), row("a"), (), ""),
    ],
)
def test_labels_of_a_row(labeller: Labeller, packed: bytes, labels: tuple[str, ...], fault: str) -> None:
    assert labeller.label(b"1.jpg", packed) == ("" if fault else "train", labels, fault)
