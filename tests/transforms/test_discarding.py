"""``--discard_incomplete``: what it removes, and what a discarded build may not do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shardfeed.errors import ConflictError, IncompleteError
from shardfeed.transforms.output.claim import (
    Claim,
    discard_incomplete,
    hold_claim,
    refuse_unclaimable,
    require_unpublished,
)
from shardfeed.transforms.run.outcome import AlreadyBuiltError
from shardfeed.transforms.stores.base import WritableStore
from shardfeed.transforms.stores.local import WritableLocalStore
from tests.kit.datasets import write_dataset
from tests.transforms.claims import BUILD, OPTIONS, claim, plan_of


def test_a_broken_build_can_be_discarded_with_nothing_else(store: WritableStore) -> None:
    claim(store)
    for name in (f"_parts/{BUILD}/train/00001.json", "classes.txt", "train-00000-of-00001.tfrecord", "foreign.txt"):
        store.create(name, b"")

    discard_incomplete(store)
    assert [name for name, _ in store.list()] == ["foreign.txt"]
    assert not Path(store.url, "_parts").exists()


def test_a_complete_dataset_is_never_discarded(tmp_path: Path) -> None:
    write_dataset(tmp_path / "out")
    store = WritableLocalStore(str(tmp_path / "out"))
    before = list(store.list())

    with pytest.raises(ConflictError) as found:
        discard_incomplete(store)
    assert str(found.value) == (
        f"--discard_incomplete: {store.url} is a complete dataset, not an incomplete build. Remove it yourself if it is not "
        "wanted, or give another --output."
    )
    assert list(store.list()) == before


def test_a_dataset_that_is_published_while_a_discard_begins_stays_and_is_not_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, create = WritableLocalStore(str(tmp_path / "out")), WritableLocalStore.create
    claim(store)
    published: list[str] = []

    def published_first(self: WritableLocalStore, name: str, data: bytes, *, durable: bool = False) -> bool:
        write_dataset(tmp_path / "out")
        published.extend(name for name, _ in store.list())
        return create(self, name, data)

    monkeypatch.setattr(WritableLocalStore, "create", published_first)
    with pytest.raises(ConflictError, match="is a complete dataset, not an incomplete build"):
        discard_incomplete(store)
    assert [name for name, _ in store.list()] == published


def test_the_claim_holds_for_the_build_that_made_it_and_for_one_that_finds_the_dataset(
    store: WritableStore, tmp_path: Path
) -> None:
    claim(store)
    hold_claim(store, plan_of().fingerprint)

    write_dataset(tmp_path / "built")
    hold_claim(WritableLocalStore(str(tmp_path / "built")), "another build's sweep has taken the claim away")


@pytest.mark.parametrize("claimed", [None, b'{"fingerprint": "discarding", "config": {}}'], ids=["gone", "taken over"])
def test_a_build_that_was_discarded_may_not_publish(store: WritableStore, claimed: bytes | None) -> None:
    if claimed is not None:
        store.create("_parts/CLAIM", claimed)

    with pytest.raises(IncompleteError) as found:
        hold_claim(store, plan_of().fingerprint)
    assert str(found.value) == (
        f"this build of {store.url} was discarded by another command (--discard_incomplete) while it ran. Nothing was "
        "published. Rerun the command to build it."
    )


def test_a_build_is_overtaken_when_its_own_dataset_is_there_and_the_claim_is_gone(tmp_path: Path) -> None:
    written = write_dataset(tmp_path / "built")
    store, own = WritableLocalStore(str(tmp_path / "built")), written.manifest.fingerprint
    with pytest.raises(AlreadyBuiltError):
        require_unpublished(store, own)
    require_unpublished(store, "another build's")
    store.create("_parts/CLAIM", Claim(own, {}).to_bytes())
    require_unpublished(store, own)  # the other run still sweeps: the parts that are left are ours too
    require_unpublished(WritableLocalStore(str(tmp_path / "empty")), own)


def test_nobody_builds_where_a_discard_was_stopped(store: WritableStore) -> None:
    store.create("_parts/CLAIM", b'{"fingerprint": "discarding", "config": {}}')

    for attempt in (claim, lambda there: refuse_unclaimable(there, OPTIONS)):
        with pytest.raises(ConflictError) as found:
            attempt(store)
        assert str(found.value) == (
            f"{store.url} is being discarded by another command, or that command was stopped. Wait for it, or rerun with "
            "--discard_incomplete."
        )
    discard_incomplete(store)
    assert claim(store) is True


def test_a_discard_takes_the_claim_over_before_it_deletes_anything(
    store: WritableStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim(store)
    store.create(f"_parts/{BUILD}/train/00000.json", b"{}")
    held = []
    delete = WritableLocalStore.delete

    def watched(self: WritableLocalStore, name: str) -> None:
        held.append((name, json.loads(self.read("_parts/CLAIM"))["fingerprint"]))
        delete(self, name)

    monkeypatch.setattr(WritableLocalStore, "delete", watched)
    discard_incomplete(store)

    assert held == [
        ("_parts/CLAIM", plan_of().fingerprint),
        (f"_parts/{BUILD}/train/00000.json", "discarding"),
        ("_parts/CLAIM", "discarding"),
    ]


def test_a_discard_that_never_gets_the_claim_deletes_nothing(
    store: WritableStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim(store)
    part = f"_parts/{BUILD}/train/00000.json"
    store.create(part, b"a live build's")
    theirs, create = store.read("_parts/CLAIM"), WritableLocalStore.create

    def claimed_first(self: WritableLocalStore, name: str, data: bytes, *, durable: bool = False) -> bool:
        create(self, name, theirs)
        return False

    monkeypatch.setattr(WritableLocalStore, "create", claimed_first)
    with pytest.raises(ConflictError) as found:
        discard_incomplete(store)
    assert str(found.value) == (
        f"--discard_incomplete: another command claims {store.url} again each time its claim is removed. No finished work was "
        "deleted. Stop the builds that run there, then rerun the same command."
    )
    assert sorted(name for name, _ in store.list()) == ["_parts/CLAIM", part]


def test_discarding_nothing_makes_nothing(store: WritableStore, tmp_path: Path) -> None:
    discard_incomplete(store)
    assert not (tmp_path / "out").exists()
