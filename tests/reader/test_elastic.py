"""The order does not depend on the number of hosts, as long as that number divides the streams."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
import pytest

from shardfeed.format.manifest import Shard
from shardfeed.sampling.blocks import Blocks, Ints, blocks_in
from shardfeed.sampling.host_share import host_range
from shardfeed.sampling.record_order import ReadWindow, training_windows
from shardfeed.sampling.steps import training_steps
from shardfeed.sampling.streams import Streams, host_streams, stream_count
from tests.kit.datasets import Written
from tests.reader.streams import READERS, elastic, train

POWERS = (1, 2, 4, 8, 16, 32, 64)


def blocks_of(counts: Sequence[int]) -> Blocks:
    """One shard of blocks of ``counts`` records, 100 bytes each."""
    sizes = tuple((count, 100 * count) for count in counts)
    return blocks_in((Shard("train-00000-of-00001.tfrecord", sum(counts), 100 * sum(counts), "0" * 8, sizes),))


def uneven(records: int, most: int) -> list[int]:
    """Blocks of 1 to ``most`` records."""
    counts: list[int] = []
    random = np.random.default_rng([records, most])
    while (left := records - sum(counts)) > 0:
        counts.append(min(left, int(random.integers(1, most + 1))))
    return counts


def rows_of(windows: Sequence[ReadWindow], count: int) -> Ints:
    """The record at each of ``count`` rows; each row once."""
    rows = np.full(count, -1)
    for window in windows:
        records = [run.block.first + run.skip + i for run in window.runs for i in range(run.take)]
        assert (rows[window.rows] == -1).all() and len(window.order) == len(window.rows)
        rows[window.rows] = np.array(records)[window.order]
    assert (rows >= 0).all()
    return rows


def read(blocks: Blocks, host: int, hosts: int, count: int, start: int = 0, window_bytes: int = 1500) -> Ints:
    windows = training_windows(
        blocks, seed=3, window_bytes=window_bytes, host=host, hosts=hosts, start=start, count=count
    )
    return rows_of(list(windows), count)


@pytest.mark.parametrize(
    ("blocks", "count"),
    [(1, 1), (15, 1), (16, 2), (31, 2), (90, 8), (511, 32), (512, 64), (640, 64), (5000, 64), (10**6, 64)],
    ids=str,
)
def test_streams_are_a_power_of_two_of_eight_blocks_each_and_at_most_64(blocks: int, count: int) -> None:
    assert stream_count(blocks) == count


def test_every_position_has_the_stream_and_the_host_of_its_definition() -> None:
    for records in range(1, 301):
        positions = np.arange(3 * records)
        epochs, inside = positions // records, positions % records
        for count in POWERS if records < 70 or records % 97 == 0 else (64,):
            for hosts in (hosts for hosts in POWERS if count % hosts == 0):
                host, rows = positions % hosts, positions // hosts
                streams = Streams(0, records, count, host, hosts)  # type: ignore[arg-type]
                stream, first = streams.stream(rows % streams.slots, epochs)
                assert (stream == inside % count).all()
                assert ((rows - first) // streams.slots == inside // count).all() and (rows >= first).all()


@pytest.mark.parametrize("count", POWERS)
def test_streams_of_any_host_lie_beside_each_other_and_hold_each_record_once(count: int) -> None:
    for records in (64, 65, 127, 1000):
        streams = Streams(0, records, count, 0, 1)
        mine = [range(start, start + length) for start, length in zip(streams.starts, streams.lengths, strict=True)]

        assert [len(one) for one in mine] == [len(range(stream, records, count)) for stream in range(count)]
        assert sorted(record for one in mine for record in one) == list(range(records))
        for hosts in (hosts for hosts in POWERS if count % hosts == 0):
            for host in range(hosts):
                of_host = sorted(record for one in mine[host::hosts] for record in one)
                assert of_host == list(range(of_host[0], of_host[-1] + 1))


@pytest.mark.parametrize(
    "counts",
    [
        *([1] * records for records in (1, 2, 9, 15, 16, 17, 31, 32, 65, 517)),
        *(uneven(records, 5) for records in (17, 100, 499)),
        [20, *[1] * 70, 30, 2],
    ],
    ids=lambda counts: f"{sum(counts)} in {len(counts)}",
)
def test_each_pass_holds_every_record_once_and_the_order_is_that_of_one_host(counts: list[int]) -> None:
    blocks, records = blocks_of(counts), sum(counts)
    whole = read(blocks, 0, 1, 3 * records)

    assert [sorted(part.tolist()) for part in np.split(whole, 3)] == [list(range(records))] * 3
    for hosts in (hosts for hosts in POWERS[1:] if stream_count(len(counts)) % hosts == 0):
        size = 2 * records // hosts
        together = np.stack([read(blocks, host, hosts, size) for host in range(hosts)], axis=1).reshape(-1)
        assert together.tolist() == whole[: len(together)].tolist()


@pytest.mark.parametrize("hosts", [*range(1, 18), 31, 32, 33, 63, 64])
def test_any_number_of_hosts_reads_every_record_once_a_pass(hosts: int) -> None:
    counts = uneven(200, 4)
    blocks = blocks_of(counts)
    streams = [host_streams(200, len(counts), host, hosts) for host in range(hosts)]
    together = stream_count(len(counts)) % hosts == 0

    sizes = [len(range(host, 200, hosts)) if together else len(host_range(200, host, hosts)) for host in range(hosts)]
    found = np.concatenate([read(blocks, host, hosts, size) for host, size in enumerate(sizes)])

    assert sorted(found.tolist()) == list(range(200))
    assert {one.slots for one in streams} == ({8 // hosts} if together else {1})
    assert together == (hosts in (1, 2, 4, 8))


@pytest.mark.parametrize("hosts", [1, 2, 8, 3], ids=str)
def test_a_stream_can_be_entered_at_any_row(hosts: int) -> None:
    blocks = blocks_of(uneven(250, 4))
    for host in {0, hosts - 1}:
        whole = read(blocks, host, hosts, 700 // hosts)
        for start in range(0, 600 // hosts, 5):
            assert read(blocks, host, hosts, 40 // hosts, start).tolist() == whole[start : start + 40 // hosts].tolist()


def test_windows_come_as_they_are_needed_each_with_blocks_of_one_stream() -> None:
    blocks = blocks_of([4] * 640)
    windows = list(
        islice(training_windows(blocks, seed=0, window_bytes=64 * 1200, host=1, hosts=4, start=99, count=None), 500)
    )

    assert [window.rows.start for window in windows] == sorted(window.rows.start for window in windows)
    assert {window.rows.step for window in windows} == {16}
    assert max(len(window.runs) for window in windows) == 3  # 1200 bytes per stream
    # the first windows of a pass differ in length, so they do not end together
    first = list(
        islice(training_windows(blocks, seed=0, window_bytes=64 * 1200, host=0, hosts=1, start=0, count=None), 64)
    )
    assert {len(window.runs) for window in first} == {1, 2, 3}


@pytest.mark.parametrize(
    ("blocks", "hosts", "reads"), [(90, 1, 97), (90, 8, 97), (640, 1, 703), (640, 8, 703)], ids=str
)
def test_blocks_are_cut_at_the_ends_of_streams_only(blocks: int, hosts: int, reads: int) -> None:
    """Both parts of a host's cut blocks are in use at the same time, or in the same round."""
    counts = uneven(blocks * 20, 39)[:blocks]
    windows = [
        list(
            training_windows(blocks_of(counts), seed=1, window_bytes=10**4, host=host, hosts=hosts, start=0, count=size)
        )
        for host in range(hosts)
        for size in [len(range(host, sum(counts), hosts))]
    ]

    parts = [run for of_host in windows for window in of_host for run in window.runs]
    assert blocks < len(parts) <= reads
    once = 0
    for of_host in windows:
        spans: dict[int, tuple[int, int]] = {}
        for window in of_host:
            for run in window.runs:
                first, last = spans.get(run.block.first, (window.rows.start, -1))
                assert last == -1 or window.rows.start < last + window.rows.step
                spans[run.block.first] = first, max(last, window.rows.stop)
        once += len(spans)
    assert once <= blocks + hosts - 1


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return elastic(tmp_path_factory.mktemp("dataset"))


@READERS
def test_hosts_that_do_not_divide_the_streams_are_told_that_their_order_is_their_own(
    written: Written, reader: Any
) -> None:
    with pytest.warns(UserWarning, match="not elastic") as found:
        reader(written.path, "train", 3, host=(1, 3))

    assert [str(one.message) for one in found] == [
        "train on 3 hosts is not elastic: start_step holds for 3 hosts only, because its 76 blocks make 8 streams. Numbers of "
        "hosts that share one order: 1, 2, 4, 8."
    ]


@pytest.mark.parametrize(
    ("batch_size", "epochs", "hosts", "steps"),
    [(24, 3, 1, 37), (24, 3, 8, 37), (24, 3, 3, 37), (64, 8, 8, 37), (24, 8, 3, 100)],  # 903 and 2408 records
)
def test_elastic_epochs_leave_out_less_than_a_batch(batch_size: int, epochs: int, hosts: int, steps: int) -> None:
    elastic = hosts != 3  # each of three hosts has 300 // 3 per pass

    assert training_steps("train", 301, batch_size // hosts, hosts, epochs, 0, elastic=elastic) == steps


@READERS
def test_elastic_hosts_read_all_steps_of_their_epochs(written: Written, reader: Any) -> None:
    assert len(train(reader, written, 24, epochs=3, host=(7, 8))) == 37 * 3
