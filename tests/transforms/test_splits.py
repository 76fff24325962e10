"""Splits by a table's column, by groups, and by class with exact shares."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardfeed.errors import UsageError
from shardfeed.format.hashing import hash128
from shardfeed.pipeline.config.labels import check_labels
from shardfeed.storage import Stat
from shardfeed.transforms.elements import ImageRef, RefBatch, pack_ref, unpack_refs
from shardfeed.transforms.inputs.splits import split_of_text, split_rule
from shardfeed.transforms.metadata.row import Row, pack_table_row
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.planning import plan as plan_module
from shardfeed.transforms.planning import stratify
from shardfeed.transforms.planning import totals as totals_module
from shardfeed.transforms.planning.limit import Limit
from shardfeed.transforms.planning.plan import make_plan
from shardfeed.transforms.planning.stratify import label_all
from shardfeed.transforms.planning.totals import add_totals, count_batch, label_batch

HALVES = BuildOptions(splits="train=0.5,test=0.5")
BY_CLASS = BuildOptions(splits="a=0.5,b=0.5", stratify=True)
BY_PATIENT = "/(?P<group>p[0-9-]+)_"


def batch(keys: list[bytes], rows: list[bytes] | None = None) -> RefBatch:
    pairs = zip(keys, rows or itertools.repeat(b""), strict=False)
    return RefBatch("", b"".join(pack_ref(ImageRef(0, key, Stat(1, 1), row)) for key, row in pairs))


def plan(batches: Iterable[RefBatch], options: BuildOptions) -> None:
    labelled = itertools.chain(*(label_batch(one, options) for one in batches))
    totals = add_totals(add_totals([count_batch(one, options)]) for one in labelled)
    make_plan(totals, options, {}, Limit(count=0))


def splits(batches: list[RefBatch], options: BuildOptions) -> dict[bytes, str]:
    labelled = label_all(iter(batches), options)
    return {ref.key: one.split for one in labelled for ref in unpack_refs(one.refs)}


@pytest.mark.parametrize(
    ("split", "texts"),
    [
        ("train", ["train", " Train "]),
        ("validation", ["VAL", "valid"]),
        ("test", ["Test"]),
        ("holdout", ["holdout"]),
        ("fold_0", ["0"]),
        ("fold_12", ["12"]),
        ("", ["", "1.5", "-1", "a b", "../x", "rejects", "x" * 65, "٣"]),
    ],
)
def test_a_cell_names_a_split(split: str, texts: list[str]) -> None:
    assert {text: split_of_text(text, "fold") for text in texts} == dict.fromkeys(texts, split)


def test_the_split_comes_from_the_column_of_the_table() -> None:
    options = BuildOptions(splits="column:fold")
    rows = [pack_table_row(Row(split=text)) for text in ("train", "1", "no split")] + [b""]
    found = label_batch(batch([b"cat/%d.jpg" % i for i in range(4)], rows), options)

    assert {(one.split, one.fault): [ref.key for ref in unpack_refs(one.refs)] for one in found if one.refs} == {
        ("train", ""): [b"cat/0.jpg"],
        ("fold_1", ""): [b"cat/1.jpg"],
        ("", "split_value"): [b"cat/2.jpg", b"cat/3.jpg"],
    }


def test_a_group_is_never_divided_and_its_split_follows_from_its_name_alone() -> None:
    options = replace(HALVES, group_by=BY_PATIENT)
    keys = [b"%s/p%d_%d.jpg" % (name, patient, i) for patient in range(40) for name in (b"a", b"b") for i in range(3)]
    found = splits([batch(keys)], options)

    by_patient: dict[bytes, set[str]] = {}
    for key, split in found.items():
        by_patient.setdefault(key.split(b"/")[1].split(b"_")[0], set()).add(split)
    assert all(len(one) == 1 for one in by_patient.values())
    assert {split for one in by_patient.values() for split in one} == {"train", "test"}
    assert splits([batch(keys[:10])], options).items() <= found.items()
    rows = [pack_table_row(Row(group=key.split(b"/")[1].split(b"_")[0].decode())) for key in keys]
    assert splits([batch(keys, rows)], replace(HALVES, group_by="column:patient")) == found


PATIENTS = [
    *(b"train/cat/p1_1.jpg", b"train/cat/p2_1.jpg", b"test/cat/p3_1.jpg"),
    *(b"test/cat/p2_2.jpg", b"val/cat/p2_3.jpg"),
]


@pytest.mark.parametrize(("chosen", "pieces"), [("folders", 1), ("folders", 5), ("column:fold", 2)])
def test_a_group_that_folders_or_a_column_divide_is_an_error(chosen: str, pieces: int) -> None:
    options = BuildOptions(splits=chosen, group_by=BY_PATIENT, label_from="none")

    def cut(keys: list[bytes]) -> list[RefBatch]:
        rows = [pack_table_row(Row(split=key.split(b"/")[0].decode())) for key in keys]
        return [batch(keys[i::pieces], rows[i::pieces]) for i in range(pieces)]

    plan(cut(PATIENTS[:3]), options)
    for keys in (PATIENTS, PATIENTS[::-1]):
        with pytest.raises(UsageError) as found:
            plan(cut(keys), options)
        assert str(found.value).startswith(
            f"1 group of --group_by lies in several splits of --splits {chosen}, such as p2 in test and train and validation: "
        )


def test_more_groups_than_can_be_compared_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(totals_module, "MOST_GROUPS", 2)
    monkeypatch.setattr(plan_module, "MOST_GROUPS", 2)
    options = BuildOptions(splits="folders", group_by=BY_PATIENT)
    batches = [batch([key]) for key in PATIENTS[:3]]

    plan(batches[:2], options)
    with pytest.raises(UsageError, match=r"finds more than 2 groups.* Leave --group_by out\."):
        plan(batches, options)


@pytest.mark.parametrize("group_by", [BY_PATIENT, "/p(?P<group>[0-9]*)_", "column:patient"])
def test_an_image_without_a_group_is_a_fault(group_by: str) -> None:
    options = replace(HALVES, group_by=group_by)
    (found,) = (one for one in label_batch(batch([b"cat/p_.jpg"]), options) if one.refs)

    assert (found.split, found.fault) == ("", "no_group")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (BuildOptions(splits="train", stratify=True), "--stratify goes with ratios, not with --splits train."),
        (BuildOptions(splits="folders", stratify=True), "--stratify goes with ratios, not with --splits folders."),
        (
            BuildOptions(splits="train", group_by="column:b"),
            "--group_by goes with several splits, not with --splits train",
        ),
        (BuildOptions(splits="column:"), "--splits column: names no column."),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_does_not_go_together_is_refused(options: BuildOptions, message: str) -> None:
    with pytest.raises(UsageError) as found:
        split_rule(options)
    assert str(found.value).startswith(message)


SIZES = st.lists(st.integers(1, 60), min_size=1, max_size=4)
SHARES = st.sampled_from(["a=0.5,b=0.5", "a=0.8,b=0.1,c=0.1", "a=1/3,b=1/3,c=1/3", "a=0.99,b=0.01", "b=1/7,a=6/7"])


def named(sizes: list[int], salt: int) -> list[bytes]:
    return [b"%c/%d-%d.jpg" % (97 + number, salt, i) for number, size in enumerate(sizes) for i in range(size)]


@settings(max_examples=50)
@given(SIZES, SHARES, st.integers(0, 1000), st.integers(1, 5))
def test_each_class_has_its_shares_to_one_image(sizes: list[int], shares: str, salt: int, pieces: int) -> None:
    options = BuildOptions(splits=shares, stratify=True)
    keys = named(sizes, salt)
    found = splits([batch(keys[i::pieces]) for i in range(pieces)], options)

    assert found.keys() == set(keys)
    counts = Counter((key[:1], split) for key, split in found.items())
    low = 0
    for name, high in split_rule(options).bounds:
        for number, size in enumerate(sizes):
            assert abs(counts[b"%c" % (97 + number), name] - size * (high - low) / 2**64) <= 1 + 1e-9
        low = high


@settings(max_examples=50)
@given(st.integers(1, 60), st.integers(0, 30), SHARES, st.integers(0, 1000))
def test_new_images_of_a_class_move_at_most_as_many_old_ones_at_each_bound(
    old: int, new: int, shares: str, salt: int
) -> None:
    options = BuildOptions(splits=shares, stratify=True)
    keys = named([old + new], salt)
    before, after = splits([batch(keys[:old])], options), splits([batch(keys)], options)
    names = [name for name, _ in split_rule(options).bounds]

    for number in range(1, len(names)):
        crossed = [key for key in keys[:old] if (before[key] in names[:number]) != (after[key] in names[:number])]
        assert len(crossed) <= new


@pytest.mark.parametrize("images", [1025, 4000])
def test_large_classes_need_no_list_of_their_images(images: int) -> None:
    # More images than are collected: the bound is found by counting first, and it is the same.
    options = BuildOptions(splits="a=0.3,b=0.7", stratify=True)
    one = batch(named([images], 0))
    cuts = stratify.first_cuts(stratify.class_sizes(one, options), options)
    seen = stratify.tally(one, options, cuts)
    assert not seen.hashes
    cuts = stratify.narrow(cuts, seen)
    collected = stratify.tally(one, options, cuts).hashes["a"][0]
    assert 0 < len(collected) < 50
    assert abs(Counter(splits([one], options).values())["a"] - images * 0.3) <= 0.5


def test_images_without_a_label_are_cut_as_a_class_of_their_own() -> None:
    keys = [b"%03d.jpg" % number for number in range(60)]
    rows = [pack_table_row(Row(labels=("red",) if number % 3 else ())) for number in range(60)]

    found = splits([batch(keys, rows)], replace(BY_CLASS, label_from="table", multi_label=True))
    assert Counter((found[key], number % 3 > 0) for number, key in enumerate(keys)) == {
        ("a", True): 20,
        ("b", True): 20,
        ("a", False): 10,
        ("b", False): 10,
    }
    assert Counter(splits([batch(keys)], replace(BY_CLASS, label_from="none")).values()) == {"a": 30, "b": 30}


def grouped(groups: list[tuple[int, int]], salt: int) -> list[bytes]:
    """Keys of groups, each (number of its class, images)."""
    return [
        b"%c/p%d-%d_%d.jpg" % (97 + number, salt, group, i)
        for group, (number, size) in enumerate(groups)
        for i in range(size)
    ]


GROUPS = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), min_size=1, max_size=40)


@settings(max_examples=50)
@given(GROUPS, SHARES, st.integers(0, 1000), st.integers(1, 5))
def test_classes_are_cut_between_groups_at_the_nearest_place(
    groups: list[tuple[int, int]], shares: str, salt: int, pieces: int
) -> None:
    options = BuildOptions(splits=shares, stratify=True, group_by=BY_PATIENT)
    keys = grouped(groups, salt)
    found = splits([batch(keys[i::pieces]) for i in range(pieces)], options)

    assert found.keys() == set(keys)
    assert len({(key.split(b"_")[0], split) for key, split in found.items()}) == len(groups)
    counts = Counter((key[:1], split) for key, split in found.items())
    for number in {number for number, _ in groups}:
        sizes = [size for other, size in groups if other == number]
        before = 0
        for name, high in split_rule(options).bounds:
            before += counts[b"%c" % (97 + number), name]
            assert abs(before - sum(sizes) * high / 2**64) <= max(sizes) / 2 + 1e-9


def test_a_group_of_several_classes_counts_for_the_first_of_them() -> None:
    options = replace(BY_CLASS, group_by=BY_PATIENT)
    alone = [b"cat/p%d_0.jpg" % number for number in range(40)]
    both = [b"%s/p%d_1.jpg" % (name, number) for number in range(0, 40, 2) for name in (b"cat", b"dog")]
    found = splits([batch(both), batch(alone)], options)

    assert len({(key.split(b"/")[1].split(b"_")[0], split) for key, split in found.items()}) == 40
    cats = splits([batch(alone + both[::2] + [key.replace(b"_1", b"_2") for key in both[::2]])], options)
    assert {key: cats[key] for key in alone} == {key: found[key] for key in alone}


def test_a_group_without_any_label_is_a_class_of_its_own_and_one_with_some_is_not() -> None:
    options = replace(BY_CLASS, group_by="column:g", label_from="table", multi_label=True)
    labels: list[tuple[str, ...]] = [("x",), (), ("z", "y"), (), ()]
    rows = [pack_table_row(Row(labels=found, group=f"g{number // 2}")) for number, found in enumerate(labels)]

    sizes = stratify.class_sizes(batch([b"%d.jpg" % number for number in range(5)], rows), options)
    assert sizes.groups == {"g0": ("x", 2), "g1": ("y", 2), "g2": ("", 1)}


@pytest.mark.parametrize(("salt", "side"), [(1, "a"), (2, "b")])
def test_a_group_that_is_never_few_images_goes_to_the_nearer_side(salt: int, side: str) -> None:
    # The passes end in it: however small a step is, all of its images are in one.
    options = replace(BY_CLASS, group_by=BY_PATIENT)
    found = splits([batch(grouped([(0, 1100)] + [(0, 1)] * 100, salt))], options)

    assert {split for key, split in found.items() if key.startswith(b"a/p%d-0_" % salt)} == {side}
    large, *small = (hash128("split", 0, b"p%d-%d" % (salt, group)) for group in range(101))
    before = sum(spot < large for spot in small)
    assert (Counter(found.values())["a"], side) == (before + 1100 * (before <= 50), "a" if before <= 50 else "b")


def test_more_groups_than_stratify_can_hold_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stratify, "MOST_GROUPS", 2)
    options = replace(BY_CLASS, group_by=BY_PATIENT)

    assert len(splits([batch(grouped([(0, 1), (1, 2)], 0))], options)) == 3
    with pytest.raises(UsageError, match=r"finds more than 2 groups.* Leave --stratify out"):
        splits([batch(grouped([(0, 1), (1, 2), (0, 1), (0, 1)], 0))], options)


@pytest.mark.parametrize("group_by", [None, BY_PATIENT])
def test_elements_of_the_passes_come_back_from_their_bytes(group_by: str | None) -> None:
    options = BuildOptions(splits="a=0.3,b=0.3,c=0.4", stratify=True, group_by=group_by)
    one = batch(grouped([(0, 1500), (1, 2)], 0))
    sizes = stratify.class_sizes(one, options)
    cuts = stratify.first_cuts(sizes, options)
    seen = stratify.tally(one, options, cuts)

    for element in (sizes, cuts, seen):
        assert type(element).from_bytes(element.to_bytes()) == element


def test_a_column_of_too_many_values_is_no_split() -> None:
    options = BuildOptions(splits="column:id")
    rows = [pack_table_row(Row(split=str(i))) for i in range(101)]
    one = batch([b"cat/%d.jpg" % i for i in range(101)], rows)

    with pytest.raises(UsageError, match=r"^--splits column:id makes 101 splits, such as id_0; at most 100 are"):
        plan([one], options)


def test_splits_of_a_column_that_differ_only_in_case_are_refused() -> None:
    options = BuildOptions(splits="column:fold")
    rows = [pack_table_row(Row(split=text)) for text in ("dev", "Extra", "extra")]
    one = batch([b"cat/%d.jpg" % i for i in range(3)], rows)

    with pytest.raises(UsageError, match=r"makes the splits Extra and extra, which differ only in case\. Correct"):
        plan([one], options)


def test_an_expression_without_a_group_is_refused() -> None:
    with pytest.raises(UsageError) as found:
        check_labels(BuildOptions(splits="a=0.5,b=0.5", group_by="(?P<label>a)"))
    assert str(found.value) == (
        "--group_by (?P<label>a) has not exactly one group (?P<group>…), which is the group. Example: --group_by "
        "'/(?P<group>patient_[0-9]+)_', or a column of the table: column:patient"
    )
