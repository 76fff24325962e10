"""Which host this is if the caller does not say: what the frameworks that run answer, and what is
refused as unknown.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import jax
import keras
import pytest
import tensorflow as tf
from jax._src import xla_bridge

import shardfeed
from shardfeed.accelerator import devices, hosts
from shardfeed.accelerator.hosts import _LAUNCHERS, Host, find_host
from tests.kit.builds import run_program
from tests.kit.datasets import Written
from tests.reader.streams import READERS, train


@pytest.fixture(autouse=True)
def idle(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without TPU chips, where no framework has been set up yet."""
    monkeypatch.setattr(xla_bridge, "backends_are_initialized", lambda: False)
    monkeypatch.setattr(devices, "_PCI", tmp_path / "pci")
    for name in ("TF_CONFIG", *_LAUNCHERS, *_LAUNCHERS.values()):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def pod(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    """Stands in for JAX on a TPU pod: ``pod(1, 2)`` is process 1 of 2, and jax.distributed was not
    initialised.
    """

    def start(index: int, count: int) -> None:
        monkeypatch.setattr(xla_bridge, "backends_are_initialized", lambda: True)
        monkeypatch.setattr(jax, "process_index", lambda: index)
        monkeypatch.setattr(jax, "process_count", lambda: count)
        monkeypatch.setattr(jax, "device_count", lambda: 4 * count)

    return start


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Stands in for PyTorch: ``torch(1, 4)`` is rank 1 of 4, ``torch()`` has no process group,
    worker= is a DataLoader's.
    """

    def start(rank: int = -1, world: int = -1, *, available: bool = True, worker: Any = None) -> None:
        distributed, data = ModuleType("torch.distributed"), ModuleType("torch.utils.data")
        distributed.is_available = lambda: available  # type: ignore[attr-defined]
        if available:
            distributed.is_initialized = lambda: world > 0  # type: ignore[attr-defined]
            distributed.get_rank, distributed.get_world_size = lambda: rank, lambda: world  # type: ignore[attr-defined]
        data.get_worker_info = lambda: worker  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, distributed.__name__, distributed)
        monkeypatch.setitem(sys.modules, data.__name__, data)

    return start


def run_keras_on_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keras.config, "backend", lambda: "jax")


def insert_tpu() -> None:
    folder = devices._PCI / "0000:00:04.0"
    folder.mkdir(parents=True)
    (folder / "vendor").write_text("0x1ae0\n")
    (folder / "device").write_text("0x0063\n")


def refusal() -> str:
    with pytest.raises(shardfeed.UsageError) as found:
        find_host()
    return str(found.value)


def test_jax_that_runs_is_asked_without_keras(pod: Callable[[int, int], None]) -> None:
    pod(1, 2)

    assert find_host() == find_host("auto") == Host(1, 2, 2)


@pytest.mark.parametrize("running", [True, False])
def test_keras_on_jax_shares_a_batch_over_all_devices(
    monkeypatch: pytest.MonkeyPatch, pod: Callable[[int, int], None], running: bool
) -> None:
    pod(1, 2)
    monkeypatch.setattr(xla_bridge, "backends_are_initialized", lambda: running)
    run_keras_on_jax(monkeypatch)

    assert find_host() == Host(1, 2, 8)


@READERS
def test_every_reader_takes_its_share_on_a_pod_by_default(
    written: Written, pod: Callable[[int, int], None], reader: Any
) -> None:
    pod(1, 2)

    assert train(reader, written, 4, epochs=1) == train(reader, written, 4, epochs=1, host=(1, 2))


def test_input_fn_without_a_context_asks_too(written: Written, pod: Callable[[int, int], None]) -> None:
    pod(1, 2)

    (images, _), *_ = shardfeed.input_fn(written.path, "train", epochs=1)({"batch_size": 2})

    ((expected, _), *_) = shardfeed.load(written.path, "train", 4, epochs=1, host=(1, 2))
    assert images.numpy().tolist() == expected.numpy().tolist()


def test_jax_of_before_it_could_be_asked_whether_it_is_initialised_is_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(jax.distributed, "is_initialized")

    assert find_host() == Host(0, 1, 1)


def test_reading_for_keras_on_tensorflow_does_not_start_jax(written: Written, tmp_path: Path) -> None:
    (tmp_path / "read.py").write_text(
        "import sys, jax, keras, shardfeed\n"
        "shardfeed.load(sys.argv[1], 'train', 4); shardfeed.array_batches(sys.argv[1], 'train', 4)\n"
        "shardfeed.detect_accelerator()\n"
        "from jax._src import xla_bridge; print(xla_bridge.backends_are_initialized())"
    )

    done = run_program(tmp_path / "read.py", written.path, backend="tensorflow")

    assert done.out == "False\n", done.err


def test_reading_for_keras_on_jax_before_the_processes_find_each_other_is_no_silent_copy(
    written: Written, tmp_path: Path
) -> None:
    (tmp_path / "read.py").write_text(
        "import sys, jax, keras, shardfeed\n"
        "shardfeed.load(sys.argv[1], 'train', 4)\n"
        "jax.distributed.initialize('127.0.0.1:1', 2, 0)"
    )

    done = run_program(tmp_path / "read.py", written.path, backend="jax")

    assert "RuntimeError: jax.distributed.initialize() must be called before any JAX calls" in done.err


def test_a_strategy_in_one_process_is_fed_by_one_host() -> None:
    with tf.distribute.OneDeviceStrategy("CPU:0").scope():
        assert find_host() == Host(0, 1, 1)


def test_the_process_group_of_pytorch_is_asked(torch: Callable[..., None]) -> None:
    torch(1, 4)

    assert find_host() == Host(1, 4, 4)


@pytest.mark.parametrize("available", [True, False])
def test_pytorch_without_a_process_group_is_one_process(torch: Callable[..., None], available: bool) -> None:
    torch(available=available)

    assert find_host() == Host(0, 1, 1)


def test_a_process_of_torchrun_without_its_process_group_must_name_its_host(
    monkeypatch: pytest.MonkeyPatch, torch: Callable[..., None]
) -> None:
    torch()
    monkeypatch.setenv("WORLD_SIZE", "4")

    assert refusal() == (
        "WORLD_SIZE=4 is in the environment, but no framework has found the other processes, so that each process would read "
        "the whole split. Call torch.distributed.init_process_group() or jax.distributed.initialize() first; or pass "
        "host=(index, 4) for this process's share, host=(0, 1) for the whole split."
    )


@pytest.mark.parametrize(("count", "number"), _LAUNCHERS.items())
def test_a_process_of_any_launcher_must_name_its_host(monkeypatch: pytest.MonkeyPatch, count: str, number: str) -> None:
    monkeypatch.setenv(count, "8")
    monkeypatch.setenv(number, "5")

    assert re.match(rf"{count}=8 is in the environment.* host=\(5, 8\) for this", refusal())


@pytest.mark.parametrize("world", ["1", "", "many"])
def test_an_environment_that_names_no_other_process_needs_no_host(monkeypatch: pytest.MonkeyPatch, world: str) -> None:
    monkeypatch.setenv("WORLD_SIZE", world)

    assert find_host() == Host(0, 1, 1)


def test_what_runs_is_believed_before_the_environment(
    monkeypatch: pytest.MonkeyPatch, pod: Callable[[int, int], None], torch: Callable[..., None]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"worker": ["a:1", "b:1", "c:1"]}}')
    pod(1, 2)
    assert find_host() == Host(1, 2, 2)

    pod(0, 1)
    torch(0, 1)
    with tf.distribute.OneDeviceStrategy("CPU:0").scope():
        assert find_host() == Host(0, 1, 1)


def test_worker_processes_of_a_dataloader_are_refused(torch: Callable[..., None]) -> None:
    torch(0, 2, worker=SimpleNamespace(id=1, num_workers=2))

    assert refusal() == (
        "this is worker 1 of 2 of a DataLoader, each of which would read the same records. Use num_workers=0, because threads "
        "decode on all cores already, or pass host=(index, count) in each worker."
    )


@pytest.mark.parametrize("host", [None, (0, 2)], ids=["asked", "said"])
def test_batches_made_before_the_workers_of_a_dataloader_are_refused_in_them(
    written: Written, torch: Callable[..., None], host: tuple[int, int] | None
) -> None:
    torch()
    batches = shardfeed.array_batches(written.path, "train", 4, host=host)
    torch(worker=SimpleNamespace(id=1, num_workers=4))

    with pytest.raises(shardfeed.UsageError) as found:
        next(iter(batches))

    assert str(found.value).startswith(
        "this is worker 1 of 4 of a DataLoader, each of which would read the same records."
    )


def test_batches_that_each_worker_of_a_dataloader_makes_for_itself_are_read(
    written: Written, torch: Callable[..., None]
) -> None:
    torch(worker=SimpleNamespace(id=1, num_workers=4))

    images, _ = next(iter(shardfeed.array_batches(written.path, "train", 4, host=(1, 4))))

    assert len(images) == 1


def test_one_worker_process_of_a_dataloader_reads_for_its_rank(torch: Callable[..., None]) -> None:
    torch(1, 2, worker=SimpleNamespace(id=0, num_workers=1))

    assert find_host() == Host(1, 2, 2)


def test_frameworks_that_agree_share_a_batch_over_the_most_devices(
    pod: Callable[[int, int], None], torch: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    pod(1, 2)
    torch(1, 2)
    run_keras_on_jax(monkeypatch)

    assert find_host() == Host(1, 2, 8)


@pytest.mark.parametrize("ask", [find_host, shardfeed.detect_accelerator])
def test_frameworks_that_disagree_are_named(
    pod: Callable[[int, int], None], torch: Callable[..., None], ask: Callable[[], object]
) -> None:
    pod(0, 2)
    torch(1, 4)

    with pytest.raises(shardfeed.UsageError) as found:
        ask()

    assert str(found.value) == (
        "this process is one of several, and its frameworks disagree: JAX says that it is number 0 of 2, PyTorch says that it is "
        "number 1 of 4. Pass host=(index, count), or set up only the framework that trains."
    )


def test_a_machine_with_tpu_chips_must_be_named_if_nothing_runs_on_them() -> None:
    insert_tpu()

    assert refusal() == (
        "this machine has TPU chips and may be one of several hosts, but JAX has not started, so that each process would read "
        "the whole split. Call jax.distributed.initialize() first, or set KERAS_BACKEND=jax for Keras; or pass host=(index, "
        "count) for this process's share, host=(0, 1) for the whole split."
    )


def test_tpu_chips_need_no_host_once_jax_runs(pod: Callable[[int, int], None]) -> None:
    insert_tpu()
    pod(0, 1)

    assert find_host() == Host(0, 1, 1)


def test_tpu_chips_need_no_host_if_tensorflow_can_use_them(monkeypatch: pytest.MonkeyPatch) -> None:
    insert_tpu()
    monkeypatch.setattr(hosts, "version", {"tensorflow-tpu": "2.20.0"}.__getitem__)

    assert find_host() == Host(0, 1, 1)


def test_detection_counts_the_hosts_that_are_cut_for(pod: Callable[[int, int], None]) -> None:
    pod(1, 2)

    found = shardfeed.detect_accelerator()

    assert (found.hosts, found.text.partition(".")[0]) == (2, "CPU, 1 replica on 2 hosts")


@pytest.mark.parametrize("function", [shardfeed.compile_args, shardfeed.fit_args])
def test_an_accelerator_of_other_hosts_is_refused(
    written: Written, pod: Callable[[int, int], None], function: Callable[..., object]
) -> None:
    alone = shardfeed.detect_accelerator()
    pod(1, 2)

    with pytest.raises(shardfeed.UsageError) as found:
        function(written.path, 4, alone)

    assert str(found.value) == (
        "accelerator of 1 host: load cuts for 2 hosts here. Call detect_accelerator() where load is called: inside the same "
        "scope(), and after the processes have found each other."
    )


def test_loading_for_keras_on_jax_leaves_the_gpus_to_it(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden: list[object] = []
    run_keras_on_jax(monkeypatch)
    monkeypatch.setattr(tf.config, "set_visible_devices", lambda *devices: hidden.append(devices))

    shardfeed.load(written.path, "train", 4, host=(0, 1))

    assert hidden == [([], "GPU")]


def test_gpus_that_tensorflow_holds_already_are_warned_about(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*devices: object) -> None:
        raise RuntimeError("Visible devices cannot be modified after being initialized")

    run_keras_on_jax(monkeypatch)
    monkeypatch.setattr(tf.config, "set_visible_devices", refuse)

    with pytest.warns(UserWarning) as warned:
        shardfeed.load(written.path, "train", 4, host=(0, 1))

    assert [str(warning.message) for warning in warned] == [
        "Keras does not run on TensorFlow, which has started and holds the memory of the GPUs: call load() or "
        "detect_accelerator() before any operation of TensorFlow."
    ]


def test_tensorflow_keeps_its_gpus_if_keras_runs_on_it(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(tf.config, "set_visible_devices")

    shardfeed.load(written.path, "train", 4)
