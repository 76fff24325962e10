"""The claim: who builds here, who joins, who is refused."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shardfeed.errors import ConflictError, IncompleteError
from shardfeed.format.columns import Column
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.output.claim import claim_output, discard_incomplete, refuse_foreign, refuse_unclaimable
from shardfeed.transforms.run.outcome import AlreadyBuiltError
from shardfeed.transforms.stores.base import WritableStore
from shardfeed.transforms.stores.local import WritableLocalStore
from tests.kit.datasets import write_dataset
from tests.transforms.claims import BUILD, OPTIONS, VERSIONS, claim, plan_of

AGE, OLDER, BOX = Column("age", "int64", (), -1), Column("age", "int64", (), 0), Column("box", "float", (4,))
INPUT = "the input's files (names, sizes or versions)"
REMEDY = (
    "Use the same options to join it, give another --output, or remove an unfinished build with --discard_incomplete."
)
REMEDY_CHANGED = (
    "If the input has changed since, begin again with --discard_incomplete; for another input give another --output."
)


def refusal(store: WritableStore, options: BuildOptions = OPTIONS, **other: Any) -> str:
    with pytest.raises(ConflictError) as found:
        claim(store, options, **other)
    return str(found.value)


def early_refusal(store: WritableStore, options: BuildOptions = OPTIONS) -> str:
    """What a build says before it lists, and again when it claims."""
    with pytest.raises(ConflictError) as found:
        refuse_unclaimable(store, options)
    said = str(found.value)
    assert refusal(store, options) == said
    return said


def test_the_first_build_claims_with_options_versions_and_listing_and_the_same_build_joins(
    store: WritableStore,
) -> None:
    assert claim(store) is True
    assert claim(store) is False
    assert [name for name, _ in store.list()] == ["_parts/CLAIM"]
    assert json.loads(store.read("_parts/CLAIM")) == {
        "fingerprint": plan_of().fingerprint,
        "config": OPTIONS.config(),
        "versions": VERSIONS,
        "listing": f"{7:032x}",
        "splits": {"train": {"images": 4, "parts": 16}},
    }


@pytest.mark.parametrize(
    ("theirs", "ours", "differing"),
    [
        (
            {},
            {"splits": "test", "image": ImageOptions(height=32)},
            "--image_size (there 224x224, here 32x224); --splits (there train, here test)",
        ),
        ({}, {"class_list": ("b", "a")}, "--class_list (there not given, here b, a)"),
        ({}, {"num_shards": (("a", 2), ("b", 1))}, "--num_shards (there not given, here a=2,b=1)"),
        ({"num_shards": 4}, {"shard_bytes": 5}, "--num_shards (there 4, here not given)"),
        ({"shard_bytes": 6}, {"shard_bytes": 5}, "--shard_bytes (there 6, here 5)"),
        ({}, {"image": ImageOptions(format="png")}, "--image_format (there jpeg, here png)"),
        ({"columns": (AGE, BOX)}, {"columns": (OLDER, BOX)}, "--columns (there age:int64=-1, here age:int64=0)"),
        ({"columns": (AGE, BOX)}, {"columns": (AGE,)}, "--columns (there box:float[4], here none of these)"),
        ({"columns": (AGE, BOX)}, {}, "--columns (there age:int64=-1,box:float[4], here not given)"),
        ({"multi_label": True}, {}, "--label_column (there lists of labels, here one label per image)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_conflict_names_what_the_user_changed_and_not_what_follows_from_it(
    store: WritableStore, theirs: dict[str, Any], ours: dict[str, Any], differing: str
) -> None:
    claim(store, replace(OPTIONS, **theirs))
    before = store.read("_parts/CLAIM")

    said = early_refusal(store, replace(OPTIONS, **ours))
    assert said == f"{store.url} is claimed by another build that differs in {differing}. {REMEDY}"
    assert store.read("_parts/CLAIM") == before


@pytest.mark.parametrize(
    ("other", "differing", "remedy"),
    [
        ({"digest": 8}, INPUT, REMEDY_CHANGED),
        ({"versions": {"pillow": "12.2"}}, "codec versions", REMEDY),
        (
            {"options": replace(OPTIONS, seed=5), "digest": 8, "versions": {}},
            f"--seed (there 0, here 5); {INPUT}; codec versions",
            REMEDY,
        ),
    ],
    ids=["input", "codecs", "everything"],
)
def test_another_input_and_other_codecs_are_named_too(
    store: WritableStore, other: dict[str, Any], differing: str, remedy: str
) -> None:
    claim(store)

    assert refusal(store, **other) == f"{store.url} is claimed by another build that differs in {differing}. {remedy}"


def test_another_encoder_revision_is_named_too(store: WritableStore, monkeypatch: pytest.MonkeyPatch) -> None:
    claim(store)
    monkeypatch.setattr("shardfeed.transforms.planning.plan.ENCODER_REVISION", 99)

    assert "that differs in the release of shardfeed" in refusal(store)


def test_what_the_options_do_not_show_is_not_refused_before_and_nothing_is_written(store: WritableStore) -> None:
    refuse_unclaimable(store, OPTIONS)
    assert list(store.list()) == []

    claim(store, digest=8, versions={})
    before = store.read("_parts/CLAIM")
    refuse_unclaimable(store, OPTIONS)  # whether input and codecs are the same is not known yet
    assert store.read("_parts/CLAIM") == before


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"[]", b"{}", b"\xff", b"7", b'{"fingerprint":1,"config":[]}', b'{"config":' + b"[" * 100_000),
        *(
            json.dumps({"fingerprint": "f" * 32, "config": {}, **field}).encode()
            for field in (
                {"listing": "many"},
                {"listing": 7},
                {"versions": ["pillow"]},
                {"config": {"columns": [{"a": 1}]}},
                {"config": {"columns": [{"name": "a", "type": "int64", "shape": 5, "default": None}]}},
            )
        ),
    ],
    ids=lambda content: repr(content[-40:]),
)
def test_a_claim_that_is_none_is_a_conflict(store: WritableStore, content: bytes) -> None:
    store.create("_parts/CLAIM", content)

    assert early_refusal(store) == (
        f"{store.url}/_parts/CLAIM is not readable as a claim. Give another --output, or begin again with "
        "--discard_incomplete."
    )


class _Vanishing(WritableLocalStore):
    """The claim is taken when we try to make it and gone when we look, ``times`` times."""

    times = 2

    def create(self, name: str, data: bytes, *, durable: bool = False) -> bool:
        self.times -= 1
        return self.times < 0 and super().create(name, data, durable=durable)


def test_a_claim_that_is_swept_while_we_look_is_made_anew(tmp_path: Path) -> None:
    store = _Vanishing(str(tmp_path))

    assert claim(store) is True
    assert json.loads(store.read("_parts/CLAIM"))["config"] == OPTIONS.config()


def test_nobody_builds_without_a_claim(tmp_path: Path) -> None:
    store = _Vanishing(str(tmp_path))
    store.times = 99

    with pytest.raises(IncompleteError) as found:
        claim(store)
    assert str(found.value) == (
        f"{tmp_path}/_parts/CLAIM appears and vanishes; is another build starting here? Rerun the same command."
    )


@pytest.mark.parametrize(
    ("names", "named"),
    [
        (["b.txt", "a/x.jpg", "train-1.tfrecord", "c", "manifest.json.bak"], "a/x.jpg, b.txt, c, …"),
        (["_parts/cad/gear.stl"], "_parts/cad/gear.stl"),
    ],
    ids=["many", "below _parts"],
)
def test_files_that_are_not_ours_are_refused_by_name_before_the_claim(
    store: WritableStore, names: list[str], named: str
) -> None:
    for name in names:
        store.create(name, b"precious")

    assert early_refusal(store) == (
        f"--output {store.url} holds files that are not a shardfeed build's: {named}. Give an empty or new folder; nothing is "
        "ever overwritten."
    )
    assert sorted(found for found, _ in store.list()) == sorted(names)


def test_files_of_an_interrupted_build_are_ours(store: WritableStore) -> None:
    for name in ("_parts/CLAIM",
                 f"_parts/{BUILD}/train/00001.json", "train-00000-of-00001.tfrecord",
                 "train-00000-of-00001.tfrecord.idx", "rejects-00000-of-00001.jsonl", "classes.txt"):  # fmt: skip
        store.create(name, b"")

    refuse_foreign(store)


@pytest.mark.parametrize("name", ["train-00000-of-00001.tfrecord", "classes.txt", "run.json"])
def test_files_that_nobody_claims_are_foreign_even_if_their_names_could_be_ours(
    store: WritableStore, name: str
) -> None:
    store.create(name, b"precious")

    assert f" holds files that are not a shardfeed build's: {name}. Give an empty" in refusal(store)
    with pytest.raises(ConflictError, match="but no build claims them"):
        discard_incomplete(store)
    assert [found for found, _ in store.list()] == [name]


def test_what_a_file_browser_leaves_is_no_reason_to_refuse(store: WritableStore) -> None:
    store.create(".DS_Store", b"")

    assert claim(store) is True


def test_a_finished_dataset_is_refused_or_already_built_and_the_own_claim_removed(tmp_path: Path) -> None:
    built = write_dataset(tmp_path / "out").manifest.fingerprint
    store = WritableLocalStore(str(tmp_path / "out"))

    assert re.search(r"holds a dataset that differs in --background .*; the input's files", refusal(store))
    assert store.stat("_parts/CLAIM") is None
    with pytest.raises(AlreadyBuiltError) as found:
        claim_output(store, replace(plan_of(), fingerprint=built), OPTIONS, 7)
    assert str(found.value) == f"{store.url} was built meanwhile, with the same input and options."
    assert store.stat("_parts/CLAIM") is None


def test_a_manifest_that_cannot_be_read_is_a_conflict_and_the_own_claim_removed(store: WritableStore) -> None:
    store.create("manifest.json", b'{"schema_version": 9}')

    said = r"holds a dataset already, which is never overwritten: .* has schema_version 9"
    assert re.search(said, refusal(store))
    assert [name for name, _ in store.list()] == ["manifest.json"]


def test_the_manifest_is_looked_for_after_the_claim_is_made(tmp_path: Path) -> None:
    calls = []

    class _Watched(WritableLocalStore):
        def create(self, name: str, data: object, *, durable: bool = False) -> bool:
            calls.append(("create", name))
            return super().create(name, data, durable=durable)  # type: ignore[arg-type]

        def stat(self, name: str) -> object:  # type: ignore[override]
            calls.append(("stat", name))
            return super().stat(name)

    claim_output(_Watched(str(tmp_path)), plan_of(), OPTIONS, 7)
    assert calls == [("create", "_parts/CLAIM"), ("stat", "manifest.json")]
