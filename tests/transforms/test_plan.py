"""From totals to a plan: number of parts and shards, and the checks that need the whole listing."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shardfeed.errors import UsageError
from shardfeed.format.columns import Column
from shardfeed.transforms.elements import PartResult, Plan, SplitPlan, SplitTotals, Totals
from shardfeed.transforms.images.limits import Limits
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.output.part_rows import LAYOUT
from shardfeed.transforms.planning.limit import Limit
from shardfeed.transforms.planning.plan import fingerprint, make_plan, shards_for_bytes

VERSIONS = {"pillow": "12.1"}


def _totals(**splits: int | tuple[int, int]) -> Totals:
    """Totals by split: images, or (images, estimated bytes)."""
    cells = {name: value if isinstance(value, tuple) else (value, value * 21_000) for name, value in splits.items()}
    return Totals(
        {name: SplitTotals(n, n * 100, size, 5, {"cat": (n, n * 100)}) for name, (n, size) in cells.items()}, digest=7
    )


def _plan(totals: Totals, **options: object) -> Plan:
    splits = ",".join(f"{name}=1/{len(totals.splits)}" for name in totals.splits) or "train"
    return make_plan(totals, replace(BuildOptions(splits=splits), **options), VERSIONS, Limit(count=0))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("images", "estimate", "shards", "expected"),
    [
        (100, 2_100_000, 1, 16),  # 16 N
        (100, 2_100_000, 4, 64),
        (50_000, 1_050_000_000, 1, 175),  # estimate / 6 MB, exactly
        (50_000, 1_050_000_001, 1, 176),  # rounded up
        (50_000, 1_050_000_000, 10, 175),
        (50_000, 1_050_000_000, 11, 176),  # 16 N overtakes
        (50_000, 1_050_000_000, None, 256),  # N = 16 by the estimate
        (1_000_000, 40_000_000_000, None, 6_667),  # N = 400
    ],
)
def test_parts_are_16_a_shard_or_6_mb_each_whichever_gives_more(
    images: int, estimate: int, shards: int | None, expected: int
) -> None:
    plan = _plan(_totals(train=(images, estimate)), num_shards=shards)

    assert plan.splits == {"train": SplitPlan(expected, shards, images)}


@pytest.mark.parametrize(("work", "expected"), [(16_000_000_000, 16), (16_000_000_001, 17), (5_400_000_000_000, 5_400)])
def test_a_part_has_at_most_a_gigabyte_of_work(work: int, expected: int) -> None:
    images = 1_000
    totals = Totals({"train": SplitTotals(images, 10**6, 1_000_000, 5, {"cat": (images, 10**6)}, work)}, digest=7)

    assert _plan(totals, num_shards=1).splits == {"train": SplitPlan(expected, 1, images)}


@pytest.mark.parametrize(
    ("images", "wanted", "expected"),
    [
        ({"train": 900, "validation": 100}, 16, {"train": 16, "validation": 2}),
        ({"train": 1000, "validation": 10}, 16, {"train": 16, "validation": 1}),
        ({"train": 500, "test": 500}, 16, {"train": 16, "test": 16}),
        ({"test": 900, "train": 300}, 9, {"test": 9, "train": 3}),
        ({"train": 100, "test": 75}, 2, {"train": 2, "test": 2}),
        ({"train": 10}, 10, {"train": 10}),
        ({"train": 900, "test": 100}, (("test", 3), ("train", 5)), {"test": 3, "train": 5}),
    ],
    ids=str,
)
def test_a_number_of_shards_is_the_largest_splits_and_the_others_are_in_proportion_or_as_given(
    images: dict[str, int], wanted: object, expected: dict[str, int]
) -> None:
    plan = _plan(_totals(**images), num_shards=wanted)

    assert {name: split.shards for name, split in plan.splits.items()} == expected


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (
            (("test", 1),),
            "--num_shards names test, but the dataset has the splits test, train: 'train' is only on one side. Name each split "
            "once, or give one number.",
        ),
        (
            (("dev", 1), ("test", 1), ("train", 1)),
            "--num_shards names dev, test, train, but the dataset has the splits test, train: 'dev' is only on one side. Name "
            "each split once, or give one number.",
        ),
        (11, "--num_shards 11 for train, which has 10 images: a shard is never empty. Give at most 10."),
        (
            (("test", 3), ("train", 10)),
            "--num_shards 3 for test, which has 2 images: a shard is never empty. Give at most 2.",
        ),
    ],
    ids=["a split is missing", "a split too many", "more than images", "more than images of a split"],
)
def test_shards_that_cannot_be_are_refused(wanted: object, message: str) -> None:
    with pytest.raises(UsageError) as found:
        _plan(_totals(train=10, test=2), num_shards=wanted)
    assert str(found.value) == message


@given(st.integers(0, 5_000), st.integers(1, 300), st.integers(1, 200))
@example(total=400, wanted=150, images=9)
@example(total=12, wanted=5, images=9)  # 2 of 6 and 3 of 4 are equally near
def test_the_number_of_shards_comes_as_near_to_the_wanted_size_as_possible(
    total: int, wanted: int, images: int
) -> None:
    found = shards_for_bytes(total, images, wanted)

    best = min(range(1, images + 1), key=lambda n: (abs(Fraction(total, n) - wanted), n))
    assert found == best


@pytest.mark.parametrize(
    ("total", "images", "expected"),
    [
        (0, 1, 1),
        (10**9, 1_599, 10),
        (10**9, 1_600, 16),
        (10**8, 1_599, 1),
        (10**8, 1_600, 16),
        (10**12, 5, 5),
        (1_700_000_000, 10**6, 17),
        (1_648_000_000, 10**6, 16),
        (1_649_000_000, 10**6, 17),
    ],
)
def test_there_are_at_least_16_shards_from_1600_images_on(total: int, images: int, expected: int) -> None:
    assert shards_for_bytes(total, images, 10**8) == expected


def test_classes_and_versions_are_in_the_plan() -> None:
    plan = _plan(_totals(train=4), splits="train")

    assert (plan.classes, plan.versions, plan.candidates) == (("cat",), VERSIONS, 4)
    assert plan.fingerprint == fingerprint(7, BuildOptions(), VERSIONS, {"train": 16})


def test_the_fingerprint_is_fixed_for_ever() -> None:
    # A change of this value ends every unfinished build. Only a new ENCODER_REVISION, or other
    # fields of the sidecar or its rows, may change it.
    assert fingerprint(7, BuildOptions(), VERSIONS, {"train": 16}) == "1aba7c34b16077134970ec360c8f2ba9"


# Another value than its default for every option.
_OTHER_IMAGE = {
    "height": 1,
    "width": 1,
    "resize": "pad",
    "channels": "gray",
    "format": "webp",
    "quality": 94,
    "resizer": "pillow",
    "keep_original": True,
    "background": (0, 0, 1),
    "formats": ("jpeg",),
    "limits": Limits(max_aspect=2),
}
_OTHER = {
    "splits": "test",
    "group_by": "column:a",
    "stratify": True,
    "label_from": "table",
    "label_depth": 2,
    "label_regex": "(?P<label>a)",
    "class_map": (("a", "b"),),
    "duplicates": False,
    "multi_label": True,
    "columns": (Column("age", "int64"),),
    "class_list": ("cat",),
    "num_shards": 3,
    "shard_bytes": 5,
    "seed": 1,
}


def test_everything_that_decides_a_byte_is_in_the_fingerprint() -> None:
    image, options = ImageOptions(), BuildOptions()
    assert _OTHER_IMAGE.keys() == {field.name for field in fields(image)}
    assert _OTHER.keys() | {"image"} == {field.name for field in fields(options)}
    changed = [
        *(replace(options, **{name: value}) for name, value in _OTHER.items()),  # type: ignore[arg-type]
        *(
            replace(options, image=replace(image, **{name: value}))  # type: ignore[arg-type]
            for name, value in _OTHER_IMAGE.items()
        ),
        replace(options, num_shards=(("train", 3),)),
        replace(options, image=replace(image, format="raw")),
    ]
    variants = [
        fingerprint(7, options, VERSIONS, {"train": 16}),
        fingerprint(8, options, VERSIONS, {"train": 16}),
        fingerprint(7, options, {"pillow": "12.2"}, {"train": 16}),
        fingerprint(7, options, VERSIONS, {"train": 17}),
        fingerprint(7, options, VERSIONS, {"test": 16}),
        *(fingerprint(7, other, VERSIONS, {"train": 16}) for other in changed),
    ]
    assert len(set(variants)) == len(variants)


@dataclass(frozen=True)
class _LaterResult(PartResult):
    seconds: int = 0


def test_a_release_whose_sidecars_have_another_field_carries_no_old_build_on(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(7, BuildOptions(), VERSIONS, {"train": 16})

    with monkeypatch.context() as patch:
        patch.setattr("shardfeed.transforms.planning.plan.PartResult", _LaterResult)
        assert fingerprint(7, BuildOptions(), VERSIONS, {"train": 16}) != before
    monkeypatch.setattr("shardfeed.transforms.planning.plan.LAYOUT", (*LAYOUT, "a new fix"))
    assert fingerprint(7, BuildOptions(), VERSIONS, {"train": 16}) != before


def test_options_that_decide_nothing_are_not_in_the_fingerprint() -> None:
    raw, shards = BuildOptions(image=ImageOptions(format="raw")), BuildOptions(num_shards=3)

    assert fingerprint(7, raw, {}, {}) == fingerprint(7, replace(raw, image=replace(raw.image, quality=5)), {}, {})
    assert fingerprint(7, shards, {}, {}) == fingerprint(7, replace(shards, shard_bytes=5), {}, {})


BY_HASH = "The split follows from a hash of"


@pytest.mark.parametrize(
    ("options", "empty", "why"),
    [
        ({"splits": "a=0.1,train=0.8,b=0.1"}, "a, b", f"{BY_HASH} the key, so small shares of few images"),
        (
            {"splits": "train=0.9,test=0.1", "group_by": "column:patient"},
            "test",
            f"{BY_HASH} the name that --group_by gives an image, so small shares of few groups",
        ),
        (
            {"splits": "train=0.9,test=0.1", "stratify": True},
            "test",
            "With --stratify each class is divided by itself, to the nearest image, so small shares of few images",
        ),
        (
            {"splits": "train=0.9,test=0.1", "group_by": "column:patient", "stratify": True},
            "test",
            "With --stratify each class is divided by itself, to the nearest group, so small shares of few groups",
        ),
    ],
)
def test_an_empty_split_is_an_error_explained_by_what_chooses_the_split(
    options: dict[str, object], empty: str, why: str
) -> None:
    with pytest.raises(UsageError) as found:
        _plan(_totals(train=1_200), **options)
    units = "groups" if "groups" in why else "images"
    assert str(found.value) == (
        f"--splits {options['splits']}: none of 1,200 images falls into {empty}. {why} can be empty. Give larger shares or more "
        f"{units}, or choose by hand with --splits folders."
    )


def test_split_folders_are_those_that_are_there() -> None:
    assert list(_plan(_totals(train=4), splits="folders").splits) == ["train"]


@pytest.mark.parametrize(
    ("fault", "count", "message"),
    [
        (
            "no_class",
            1_200,
            "1,200 images lie directly in the input root, without a class folder: cow, docs. Move each into the folder of its "
            "class (ROOT/cat/1.jpg), or give a narrower glob (--input 'ROOT/*/*.jpg'). If the class is no folder, say where it "
            "comes from: --metadata TABLE --label_column NAME, or --label_from regex or none.",
        ),
        (
            "no_images",
            1_200,
            "1,200 folders hold files, but not one image: cow, docs. A class or a split needs images. Move such folders out of "
            "the input, hide them with a dot before the name, or give a glob (--input 'ROOT/*/*.jpg').",
        ),
        (
            "linked_folder",
            1,
            "1 symbolic link stands where a class folder should be: cow, docs. Links to folders are not followed. Put the real "
            "folders there, give what they lead to as --input, hide the links with a dot before the name, or give a glob "
            "(--input 'ROOT/*/*.jpg').",
        ),
    ],
)
def test_faults_of_the_listing_are_an_error_with_examples(fault: str, count: int, message: str) -> None:
    with pytest.raises(UsageError) as found:
        _plan(replace(_totals(train=4), faults={fault: (count, ("cow", "docs"))}))
    assert str(found.value) == message


@pytest.mark.parametrize("faulty", [(), ("no_images",), ("linked_folder",)], ids=str)
def test_no_images_at_all_are_an_error_that_says_what_was_skipped_whatever_the_folders(faulty: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as found:
        _plan(Totals(skipped={"suffix": 1_200, "hidden": 1}, faults=dict.fromkeys(faulty, (2, ("cow", "docs")))))
    assert str(found.value) == (
        "no images found in the input (skipped: 1 hidden, 1,200 suffix). Expected ROOT/class/image.jpg with suffixes such as "
        ".jpg, .png, .webp, .gif, .bmp. Check --input."
    )
