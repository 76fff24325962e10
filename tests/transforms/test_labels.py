"""Class and split of a key: folders, exact shares, look-alikes, locked lists."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardfeed.errors import UsageError
from shardfeed.format.hashing import hash64
from shardfeed.transforms.inputs.classes import choose_classes
from shardfeed.transforms.inputs.labels import Labeller
from shardfeed.transforms.inputs.splits import parse_splits
from shardfeed.transforms.metadata.row import Row, pack_table_row
from shardfeed.transforms.options import BuildOptions

TRAIN = parse_splits("train")
BY_FOLDERS = parse_splits("folders")


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (b"cat/1.jpg", "cat"),
        (b"cat/deep/er/1.jpg", "cat"),
        (b"0/1.jpg", "0"),
        (b"00/1.jpg", "00"),
        (b" cat /1.jpg", " cat "),
        (b"%2F/1.jpg", "%2F"),
        ("Käse/1.jpg".encode(), "Käse"),
        (b"a,b/1.jpg", "a,b"),
        (b"../1.jpg", ".."),
    ],
    ids=lambda value: repr(value) if isinstance(value, bytes) else "",
)
def test_the_class_is_the_first_folder_as_it_is_spelled(key: bytes, name: str) -> None:
    assert Labeller(TRAIN).label(key, b"") == ("train", (name,), "")
    assert Labeller(TRAIN).labels_of(key, b"") == (name,)


@pytest.mark.parametrize(
    ("folder", "split"),
    [
        (b"train", "train"),
        (b"validation", "validation"),
        (b"valid", "validation"),
        (b"val", "validation"),
        (b"test", "test"),
    ],
    ids=repr,
)
def test_split_folders_have_their_usual_short_names(folder: bytes, split: str) -> None:
    assert Labeller(BY_FOLDERS).label(folder + b"/cat/a/1.jpg", b"") == (split, ("cat",), "")
    assert Labeller(BY_FOLDERS).labels_of(folder + b"/cat/a/1.jpg", b"") == ("cat",)


@pytest.mark.parametrize(
    ("key", "by_folders", "what"),
    [
        (b"1.jpg", False, "no_class"),
        (b"/1.jpg", False, "no_class"),
        (b"caf\xe9/1.jpg", False, "class_not_utf8"),
        (b"train/1.jpg", True, "no_split"),
        (b"train//1.jpg", True, "no_split"),
        (b"Train/cat/1.jpg", True, "no_split"),
        (b"dev/cat/1.jpg", True, "no_split"),
        (b"\xff/cat/1.jpg", True, "no_split"),
        (b"train/caf\xe9/1.jpg", True, "class_not_utf8"),
    ],
    ids=repr,
)
def test_a_key_without_a_class_is_a_fault_not_a_guess(key: bytes, by_folders: bool, what: str) -> None:
    assert Labeller(BY_FOLDERS if by_folders else TRAIN).label(key, b"") == ("", (), what)


def test_bounds_of_shares_are_exact_fractions_of_the_hash_range() -> None:
    rule = parse_splits("train=0.7,validation=0.2,test=0.1")

    assert rule.bounds == (
        ("train", int(Fraction(7, 10) * 2**64)),
        ("validation", int(Fraction(9, 10) * 2**64)),
        ("test", 2**64),
    )


def test_shares_may_be_fractions_that_no_float_holds() -> None:
    assert parse_splits("a=1/3,b=1/3,c=1/3").bounds == (("a", 2**64 // 3), ("b", 2 * 2**64 // 3), ("c", 2**64))


@given(st.binary(min_size=1, max_size=30), st.integers(1, 99))
def test_a_key_falls_where_its_hash_does(key: bytes, percent: int) -> None:
    rule = parse_splits(f"train={percent}/100,test={100 - percent}/100")

    below = Fraction(hash64("split", 0, key), 2**64) < Fraction(percent, 100)
    assert rule.split_or_fault(key, b"", ())[0] == ("train" if below else "test")


def test_a_hash_on_the_boundary_belongs_to_the_next_split(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = parse_splits("train=0.5,test=0.5")

    for value, split in ((2**63 - 1, "train"), (2**63, "test"), (2**64 - 1, "test"), (0, "train")):
        monkeypatch.setattr(
            "shardfeed.transforms.inputs.splits.hash64", lambda _domain, _seed, _key, value=value: value
        )
        assert rule.split_or_fault(b"cat/1.jpg", b"", ())[0] == split


def test_the_split_of_a_key_depends_on_no_other_key() -> None:
    # No seed, count or position goes in: these keys stay where they are, whatever is added.
    rule = parse_splits("train=0.8,validation=0.1,test=0.1")
    found: dict[str, list[int]] = {name: [] for name, _ in rule.bounds}
    for i in range(20):
        found[rule.split_or_fault(b"cat/%d.jpg" % i, b"", ())[0]].append(i)

    assert found == {"train": [0, 1, 2, 4, 5, 6, *range(8, 19)], "validation": [3, 19], "test": [7]}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("train=0.9,validation=0.2", "the shares add up to 1.1"),
        ("train=0.9", "the shares add up to 0.9"),
        ("train=1,test=0", "the shares add up to 1"),
        ("train=1.5,test=-0.5", "the shares add up to 1"),
        ("train,test", "the shares add up to 2"),
        ("train=0.5,train=0.5", "a split is named twice"),
        ("train=half,test=0.5", "'half' is not a number"),
        ("train=1/0,test=0.5", "'1/0' is not a number"),
        ("train=nan", "'nan' is not a number"),
        ("train=", "'' is not a number"),
        ("", "'' is not a split name"),
        ("1st", "'1st' is not a split name"),
        ("a b", "'a b' is not a split name"),
        ("../x", "'../x' is not a split name"),
        ("rejects", "'rejects' is not a split name"),
        ("x" * 65, f"'{'x' * 65}' is not a split name"),
    ],
)
def test_splits_that_cannot_be_are_refused_with_an_example(text: str, problem: str) -> None:
    with pytest.raises(UsageError) as found:
        parse_splits(text)
    assert str(found.value).startswith(f"--splits {text}: {problem}")
    assert re.search(r"Example: |Name each once", str(found.value))


def test_classes_are_sorted_by_their_bytes() -> None:
    assert choose_classes({"b", "Z", "é", "a", "10", "9"}, (), BuildOptions()) == ("10", "9", "Z", "a", "b", "é")


def test_a_class_list_fixes_the_order() -> None:
    assert choose_classes({"cat", "dog"}, (), BuildOptions(class_list=("dog", "cat"))) == ("dog", "cat")


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
        ("cat", "\u202ecat"),
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


def test_names_that_are_truly_different_are_two_classes() -> None:
    assert choose_classes({"cat", "cats", "0", "00"}, (), BuildOptions()) == ("0", "00", "cat", "cats")


@pytest.mark.parametrize(
    "folders",
    [
        {"train"},
        {"train", "test"},
        {"train", "val"},
        {"train", "valid", "test"},
        {"training", "train"},
        {"TRAIN", "Test"},
        {"train", "dev"},
        {"train", "holdout"},
        {"test"},
    ],
    ids=lambda folders: "+".join(sorted(folders)),
)
def test_folders_that_look_like_splits_stop_the_build_with_the_remedy(folders: set[str]) -> None:
    with pytest.raises(UsageError) as found:
        choose_classes(folders, (), BuildOptions())
    said = str(found.value)
    assert said.startswith(
        f"the top folders {', '.join(sorted(folders))} look like splits, not classes. Give --splits folders to take the split "
        "from the first folder and the class from the second."
    )
    assert ("Rename" in said) == bool(folders - {"train", "test", "val", "valid"})
    assert choose_classes(folders, (), BuildOptions(class_list=tuple(folders))) == tuple(folders)


@pytest.mark.parametrize("name", ["holdout", "Dev", "test", "unlabeled", "Train"])
def test_a_split_among_classes_stops_the_build(name: str) -> None:
    with pytest.raises(UsageError, match=f"^the top folders {name} look like splits.* Beside them are cat, dog: move"):
        choose_classes({"cat", "dog", name}, (), BuildOptions())


def test_a_train_among_trams_is_a_class() -> None:
    assert choose_classes({"train", "tram"}, (), BuildOptions()) == ("train", "tram")


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


def test_a_folder_outside_of_the_class_list_is_an_error() -> None:
    with pytest.raises(UsageError) as found:
        choose_classes({"cat", "dog", "bird"}, (), BuildOptions(class_list=("cat",)))
    assert str(found.value) == (
        "folders that are not in --class_list: bird, dog. Allowed: cat. Add them to the list, rename them, or leave them out "
        "of --input."
    )


def test_a_listed_class_without_images_is_an_error() -> None:
    with pytest.raises(UsageError) as found:
        choose_classes({"cat"}, (), BuildOptions(class_list=("cat", "dog")))
    assert str(found.value) == (
        "classes of --class_list without a single image: dog. Add images, or take them out of the list."
    )


def test_a_long_list_of_names_is_cut_in_a_message() -> None:
    with pytest.raises(UsageError, match=r"not in --class_list: c00, .*, c09 and 1,990 more\. Allowed: cat\."):
        choose_classes({f"c{i:02}" for i in range(2000)}, (), BuildOptions(class_list=("cat",)))


@pytest.mark.parametrize(("one", "two"), [("A", "a"), ("Masse", "Maße"), ("a", "α")])
def test_look_alikes_that_the_class_list_names_are_two_classes(one: str, two: str) -> None:
    assert choose_classes({one, two}, (), BuildOptions(class_list=(one, two))) == (one, two)


@pytest.mark.parametrize("name", ["O 0", "l 1 I", "мир mir", "b d p q"])
def test_letters_and_digits_of_one_script_are_different(name: str) -> None:
    assert len(choose_classes(name.split(), (), BuildOptions())) == len(name.split())


@pytest.mark.parametrize(
    ("key", "splits", "found"),
    [
        (b"a/cat/1.jpg", "train", ("train", ("cat",), "")),
        (b"a/cat/deep/1.jpg", "train", ("train", ("cat",), "")),
        (b"a/1.jpg", "train", ("", (), "too_shallow")),
        (b"test/a/cat/1.jpg", "folders", ("test", ("cat",), "")),
        (b"test/cat/1.jpg", "folders", ("", (), "too_shallow")),
        (b"a/cat/x/1.jpg", "folders", ("", (), "no_split")),
    ],
    ids=repr,
)
def test_the_class_is_a_deeper_folder(key: bytes, splits: str, found: tuple[str, tuple[str, ...], str]) -> None:
    assert Labeller(parse_splits(splits), depth=2).label(key, b"") == found


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


def test_without_labels_the_first_folder_is_only_a_split() -> None:
    assert Labeller(BY_FOLDERS, "none").label(b"val/1.jpg", b"") == ("validation", (), "")
    assert Labeller(BY_FOLDERS, "none").label(b"cat/1.jpg", b"") == ("", (), "no_split_folder")
