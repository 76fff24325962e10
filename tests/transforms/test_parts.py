"""A part's files: the sidecar commits, torn files heal, a race is won by one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from shardfeed.errors import IncompleteError
from shardfeed.format.checksums import crc32c
from shardfeed.transforms.elements import PartResult
from shardfeed.transforms.output.part_files import Sidecar, commit_part, find_part, parse_sidecar
from shardfeed.transforms.output.part_rows import FIX_BITS, ROW_BYTES, PartRows
from shardfeed.transforms.stores.base import WritableStore
from shardfeed.transforms.stores.local import WritableLocalStore
from tests.kit.rows import rows_of

RECORDS = b"one record" + b"another one"
RESULT = PartResult(
    split="train",
    part=3,
    bytes=len(RECORDS),
    records=2,
    crc32c=crc32c(RECORDS),
    key_sum=2**127,
    rejected={"EMPTY": 1},
    fixes={"upscaled": 1},
    class_counts={"cät": 2},
    stats=(4, (1, 2, 3), (4, 5, 2**70)),
)
SIDECAR = Sidecar(RESULT, rows_of([10, 11]), (("cät/\\xff.jpg", "EMPTY", "zero bytes"),), {"pillow": "12.1"})
PART, NAME = f"_parts/f/train/00003-{RESULT.crc32c:08x}-21", "_parts/f/train/00003.json"


def _names(store: WritableStore) -> list[str]:
    return sorted(name for name, _ in store.list())


def test_the_rows_of_a_sidecar_come_back_as_columns() -> None:
    found = parse_sidecar(SIDECAR.to_bytes())

    assert found is not None
    columns = found.rows.columns()
    assert columns.dtype.itemsize == ROW_BYTES
    assert found.rows.keys == b"0.jpg1.jpg"
    assert {name: columns[name].tolist() for name in columns.dtype.names or ()} == {
        "bytes": [10, 11],
        "class": [0, 0],
        "height": [8, 8],
        "width": [12, 13],
        "root": [0, 1],
        "fixes": [0, FIX_BITS["alpha_composited"] + FIX_BITS["upscaled"]],
        "key_bytes": [5, 5],
        "known": [0, 1],
        "source_bytes": [17, 18],
        "version": [10**18, 10**18 + 1],
        "crc32c": [0, 5],
        "hash": [0, 0],
        **{f"mark{number}": [0, 0] for number in range(4)},
    }


def test_a_row_is_80_bytes_and_a_key_at_the_most() -> None:
    assert ROW_BYTES <= 80
    assert len(replace(SIDECAR, rows=rows_of([9] * 1000)).to_bytes()) - len(
        replace(SIDECAR, rows=PartRows()).to_bytes()
    ) == 1000 * ROW_BYTES + sum(len(f"{number}.jpg") for number in range(1000))


def test_a_sidecar_that_is_cut_or_has_a_changed_byte_anywhere_is_torn() -> None:
    data = SIDECAR.to_bytes()
    damaged = [data[:at] + bytes((byte ^ 1,)) + data[at + 1 :] for at, byte in enumerate(data)]
    damaged += [data[:size] for size in range(len(data))]

    assert [parse_sidecar(each) for each in damaged] == [None] * 2 * len(data)


def test_a_committed_part_is_found_again_and_is_the_same_if_it_is_committed_again(store: WritableStore) -> None:
    for _ in range(2):
        assert commit_part(store, "f", SIDECAR, RECORDS) == RESULT
        assert _names(store) == [PART, NAME]
        assert store.read(PART) == RECORDS
        assert find_part(store, "f", "train", 3) == SIDECAR


@pytest.mark.parametrize(("fingerprint", "split", "part"), [("g", "train", 3), ("f", "test", 3), ("f", "train", 4)])
def test_another_part_is_not_found(store: WritableStore, fingerprint: str, split: str, part: int) -> None:
    commit_part(store, "f", SIDECAR, RECORDS)

    assert find_part(store, fingerprint, split, part) is None


def test_a_part_of_rejects_only_has_a_sidecar_and_no_records(store: WritableStore) -> None:
    sidecar = replace(SIDECAR, result=replace(RESULT, records=0, bytes=0, crc32c=0), rows=PartRows())

    commit_part(store, "f", sidecar, b"")
    assert _names(store) == [NAME]
    assert find_part(store, "f", "train", 3) == sidecar


TORN = {
    "an empty sidecar": ({NAME: b""}, []),
    "a cut sidecar": ({NAME: SIDECAR.to_bytes()[:-1]}, []),
    "another sidecar": ({NAME: b"{}\n"}, []),
    "no records": ({NAME: SIDECAR.to_bytes()}, [NAME]),
    "empty records": ({NAME: SIDECAR.to_bytes(), PART: b""}, [NAME]),
    "cut records": ({NAME: SIDECAR.to_bytes(), PART: RECORDS[:-1]}, [NAME]),
    "other records": ({NAME: SIDECAR.to_bytes(), PART: RECORDS[:-1] + b"x"}, [NAME]),
    "cut records without a sidecar": ({PART: RECORDS[:5]}, [PART]),
}


@pytest.mark.parametrize(("files", "left"), TORN.values(), ids=list(TORN))
@pytest.mark.parametrize("look", [True, False], ids=["looked for before", "not looked for"])
def test_a_torn_file_is_deleted_and_the_part_written_again(
    store: WritableStore, files: dict[str, bytes], left: list[str], look: bool
) -> None:
    for name, data in files.items():
        store.create(name, data)

    if look:
        assert find_part(store, "f", "train", 3) is None
        assert _names(store) == left
    assert commit_part(store, "f", SIDECAR, RECORDS) == RESULT
    assert store.read(PART) == RECORDS
    assert find_part(store, "f", "train", 3) == SIDECAR


def test_a_sidecar_that_is_torn_on_the_way_only_is_kept(store: WritableStore, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_part(store, "f", SIDECAR, RECORDS)
    monkeypatch.setattr(store, "read_sealed", lambda name: store.read(name)[:-1])

    assert find_part(store, "f", "train", 3) == SIDECAR


def test_whoever_loses_the_race_emits_the_winners_result(store: WritableStore) -> None:
    theirs = replace(RESULT, records=1, bytes=10, crc32c=crc32c(RECORDS[:10]), rejected={"EMPTY": 1, "CHANGED": 1})
    commit_part(store, "f", Sidecar(theirs, rows_of([10]), (), {}), RECORDS[:10])

    assert commit_part(store, "f", SIDECAR, RECORDS) == theirs


def test_finding_a_part_that_is_not_there_is_one_request(tmp_path: Path) -> None:
    class _Counting(WritableLocalStore):
        calls: list[str]

        def __getattribute__(self, name: str) -> object:
            if name in ("read", "read_range", "stat", "checksum", "list", "create", "delete"):
                self.calls.append(name)
            return super().__getattribute__(name)

    store = _Counting(str(tmp_path))
    store.calls = []

    assert find_part(store, "f", "train", 3) is None
    assert store.calls == ["read"]


class _Haunted(WritableLocalStore):
    """Every name is taken at its creation and gone at a look, as under another build's sweep."""

    taken: str

    def create(self, name: str, data: bytes, *, durable: bool = False) -> bool:
        return not name.endswith(self.taken) and super().create(name, data, durable=durable)


@pytest.mark.parametrize(
    ("taken", "message"),
    [
        (".json", f"/{NAME} appears and vanishes; is another build sweeping here? Rerun the same command."),
        ("-21", f"/{PART} cannot be written whole; check the store, then rerun the same command."),
    ],
    ids=["sidecar", "records"],
)
def test_a_name_that_comes_and_goes_ends_the_run_and_not_in_a_loop(tmp_path: Path, taken: str, message: str) -> None:
    store = _Haunted(str(tmp_path))
    store.taken = taken

    with pytest.raises(IncompleteError) as found:
        commit_part(store, "f", SIDECAR, RECORDS)
    assert str(found.value) == str(tmp_path) + message
