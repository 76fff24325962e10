"""``detect_accelerator`` on a machine without one: what it says, and that it does not wait."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

import shardfeed
from shardfeed.accelerator import devices

NO_GPU = f"CPU, 1 replica. TensorFlow {tf.__version__} sees no GPU."


@pytest.fixture(autouse=True)
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No PCI bus, no name of a TPU."""
    monkeypatch.setattr(devices, "_PCI", tmp_path / "pci")
    monkeypatch.delenv("TPU_NAME", raising=False)


def insert_card(slot: str, vendor: str, device: str) -> None:
    folder = devices._PCI / slot
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(f"{vendor}\n")
    (folder / "device").write_text(f"{device}\n")


def test_without_any_hardware_it_is_the_cpu() -> None:
    found = shardfeed.detect_accelerator()

    assert (found.kind, found.replicas, found.backend) == ("cpu", 1, "tensorflow")
    assert str(found) == found.text == f"{NO_GPU} No TPU chip is in this machine."


def test_the_scope_is_that_of_the_strategy() -> None:
    with shardfeed.detect_accelerator().scope():
        assert tf.distribute.get_strategy().num_replicas_in_sync == 1


def test_a_strategy_in_scope_is_kept() -> None:
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")

    with strategy.scope():
        found = shardfeed.detect_accelerator()

    assert found.strategy is strategy
    assert found.text == "CPU, 1 replica of OneDeviceStrategy, which is in scope."


def test_chips_are_counted_by_googles_devices_on_the_bus() -> None:
    insert_card("0000:00:04.0", "0x1ae0", "0x0063")
    insert_card("0000:00:05.0", "0x1ae0", "0x0063")
    insert_card("0000:00:06.0", "0x1ae0", "0x0042")  # Google's network card
    insert_card("0000:00:07.0", "0x10de", "0x0063")  # another vendor's
    (devices._PCI / "0000:00:08.0").mkdir()

    assert devices.tpu_chips() == 2


def test_chips_without_kernels_are_warned_about_with_the_remedy() -> None:
    insert_card("0000:00:04.0", "0x1ae0", "0x0063")
    expected = (
        f"This machine has TPU chips (1), but TensorFlow {tf.__version__} here has no TPU kernels: pip install "
        "'tensorflow-tpu<=2.20', or run on KERAS_BACKEND=jax with 'jax[tpu]' and tensorflow-cpu."
    )

    with pytest.warns(UserWarning) as warned:
        found = shardfeed.detect_accelerator()

    assert [(str(warning.message), warning.filename) for warning in warned] == [(expected, __file__)]
    assert found.text == f"CPU, 1 replica. {expected}"
    assert float(tf.reduce_sum(tf.ones(3))) == 3  # TensorFlow still works


@pytest.mark.parametrize("name", ["my-tpu", "local", "grpc://127.0.0.1:8470"])
def test_a_tpu_on_another_machine_is_not_looked_for(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("TPU_NAME", name)

    assert shardfeed.detect_accelerator().text == (f"{NO_GPU} No TPU chip is in this machine.")
