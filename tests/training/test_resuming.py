"""``fit``: a training that was killed ends as if it had not been, to the bit."""

from __future__ import annotations

import functools
import gc
import re
import shutil
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest

import shardfeed
from shardfeed.accelerator.hosts import Host
from shardfeed.resuming.same_training import require_agreement
from shardfeed.resuming.state_file import LocalStateFile, TrainingState
from tests.training import programs
from tests.training.exactness import tiny_model

# Epochs have 12 steps, each fifth of which is saved. On JAX, a kill in an epoch is that of two
# processes, below.
IN_VALIDATION = ("SIGTERM", "24+3", (-signal.SIGTERM, 1, 12))
KILLS: dict[str, list[tuple[str, object, tuple[int, int, int]]]] = {
    "tensorflow": [("SIGKILL", 17, (-signal.SIGKILL, 1, 3)), IN_VALIDATION],
    "jax": [IN_VALIDATION],
}


@pytest.mark.parametrize("backend", KILLS)
def test_a_killed_training_ends_with_the_weights_of_one_that_was_not(
    dataset: Path, tmp_path: Path, backend: str
) -> None:
    state = tmp_path / "state"

    def ended_at(number: str, step: object) -> tuple[int, int, int]:
        status = programs.ended("resumed.py", dataset, state, number, step, backend=backend)
        facts = facts_in(state)
        return status, facts["epoch"], facts["step"]

    for number, step, expected in KILLS[backend]:
        assert ended_at(number, step) == expected
    resumed = programs.run("resumed.py", dataset, state, backend=backend)

    assert resumed == programs.run("resumed.py", dataset, "none", backend=backend)


def test_two_killed_processes_go_on_as_two_that_were_not(dataset: Path, tmp_path: Path) -> None:
    def trained_together(state: Path | str) -> Any:
        return programs.run_together("resumed.py", 2, dataset, state, "", "", backend="jax")

    killed = programs.ended_together("resumed.py", 2, dataset, tmp_path, "SIGKILL", 17, backend="jax")
    facts = facts_in(tmp_path)

    assert -signal.SIGKILL in killed
    assert 0 not in killed
    assert (facts["epoch"], facts["step"], facts["training"]["processes"]) == (1, 3, 2)
    assert trained_together(tmp_path) == trained_together("none")


def facts_in(state: Path) -> Mapping[str, Any]:
    """The facts of the state that was saved last."""
    file = LocalStateFile(str(state))
    saved = file.read()
    file.close()
    assert saved is not None
    return saved.facts


@functools.cache
def stream(dataset: Path, split: str = "train", batch_size: int = 24, **options: Any) -> Any:
    return shardfeed.load(dataset, split, batch_size, training=True, **options)


@pytest.fixture(scope="module", autouse=True)
def no_stream_is_left() -> Iterator[None]:
    """``fit_args`` warns of other streams that are still there."""
    yield
    stream.cache_clear()
    gc.collect()


OF_STREAM = ("seed", "shuffle_buffer", "crop", "image_size", "label", "start_step")


def train(
    dataset: Path, state: Path | str, model: Any = None, batch_size: int = 24, split: str = "train", **options: Any
) -> Any:
    of_stream = {name: options.pop(name) for name in OF_STREAM if name in options}
    batches = stream(dataset, split, batch_size, **of_stream)
    return shardfeed.fit(model or tiny_model(), batches, resume=state, verbose=0, **options)


def restore(message: str) -> str:
    return rf"^resume=.*: {message}"


class Trained(NamedTuple):
    """A training of one epoch that has ended."""

    state: Path
    history: dict[str, list[float]]
    weights: list[np.ndarray]


@pytest.fixture(scope="module")
def trained(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    state, model = tmp_path_factory.mktemp("trained"), tiny_model()
    history = train(dataset, state, model).history
    return Trained(state, history, model.get_weights())


@pytest.fixture
def state(trained: Trained, tmp_path: Path) -> Path:
    """A copy of its state."""
    return shutil.copytree(trained.state, tmp_path / "state")


def test_a_training_that_has_ended_gives_its_model_at_once_and_goes_on_with_more_epochs(
    dataset: Path, trained: Trained, state: Path, tmp_path: Path
) -> None:
    again, more, whole = (tiny_model() for _ in range(3))

    same = train(dataset, state, again)
    assert (same.history, same.epoch) == (trained.history, [0])
    assert all(map(np.array_equal, again.get_weights(), trained.weights))

    longer = train(dataset, state, more, epochs=2)
    assert longer.history == train(dataset, tmp_path / "whole", whole, epochs=2).history
    assert all(map(np.array_equal, more.get_weights(), whole.get_weights()))


def test_a_training_that_was_stopped_early_stays_stopped(dataset: Path, tmp_path: Path) -> None:
    def stopping() -> list[Any]:
        return [keras.callbacks.EarlyStopping(monitor="loss", min_delta=100, patience=1)]

    first = train(dataset, tmp_path, epochs=9, callbacks=stopping())
    again = train(dataset, tmp_path, epochs=9, callbacks=stopping())

    assert again.epoch == first.epoch == [0, 1]


def test_a_stop_that_was_asked_for_in_an_epoch_survives_a_kill(dataset: Path, tmp_path: Path) -> None:
    class Asks(Stops):
        """Asks for the end after the second step; the kill comes when the state is saved."""

        def on_train_batch_end(self, batch: int, logs: object = None) -> None:
            if batch == 1:
                self.model.stop_training = True

        def on_epoch_end(self, epoch: int, logs: object = None) -> None:
            if not self.left:
                raise RuntimeError("the plug was pulled")

    with pytest.raises(RuntimeError, match="the plug was pulled"):
        train(dataset, tmp_path, save_steps=2, epochs=3, callbacks=[Asks(0)])
    history = train(dataset, tmp_path, epochs=3, callbacks=[Asks(1)])

    assert history.epoch == [0]


class Stops(keras.callbacks.Callback):  # type: ignore[misc]
    """Ends the training with an error after ``steps``."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.left = steps

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        assert state == {}

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        self.left -= 1
        if not self.left:
            self.stop()

    def stop(self) -> None:
        raise RuntimeError("the plug was pulled")


def test_what_a_callback_does_when_an_epoch_begins_is_done_once(dataset: Path, tmp_path: Path) -> None:
    class Halves(Stops):
        """Halves the learning rate when an epoch begins."""

        def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
            rate = self.model.optimizer.learning_rate
            rate.assign(rate / 2)

    model = tiny_model()
    whole = model.optimizer.learning_rate * 0.5
    for save_steps in (9, 1):  # killed before a state of this epoch was saved, and after
        with pytest.raises(RuntimeError, match="the plug was pulled"):
            train(dataset, tmp_path, save_steps=save_steps, callbacks=[Halves(2)])
    train(dataset, tmp_path, model, callbacks=[Halves(0)])

    assert model.optimizer.learning_rate == whole


def test_an_error_leaves_the_last_state_and_gives_the_signal_and_the_address_back(
    dataset: Path, tmp_path: Path
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(RuntimeError, match="the plug was pulled"):
        train(dataset, tmp_path, save_steps=2, callbacks=[Stops(5)])

    assert signal.getsignal(signal.SIGTERM) == before
    saved = facts_in(tmp_path)
    assert (saved["epoch"], saved["step"], saved["stopped"]) == (0, 4, False)


def test_sigterm_saves_the_step_that_runs_and_then_does_what_it_did_before(dataset: Path, tmp_path: Path) -> None:
    class Terminated(Exception):
        pass

    class Terminates(Stops):
        def stop(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    def end(*_: object) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        with pytest.raises(Terminated):
            train(dataset, tmp_path, callbacks=[Terminates(5)])
    finally:
        signal.signal(signal.SIGTERM, before)

    saved = facts_in(tmp_path)
    assert (saved["epoch"], saved["step"], saved["stopped"]) == (0, 5, False)


def compiled(optimizer: Any = "sgd", loss: Any = None) -> Any:
    model = tiny_model()
    model.compile(optimizer, loss or keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


SCHEDULE = keras.optimizers.schedules.ExponentialDecay(0.1, decay_steps=9, decay_rate=0.5)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"batch_size": 12}, "batch_size is 12, the saved training had 24. Restore it, or give another address.$"),
        ({"seed": 1}, "seed is 1, the saved training had 0."),
        ({"shuffle_buffer": "3MB"}, "shuffle_buffer is 3000000, the saved training had 128000000."),
        ({"crop": "center"}, "crop is center, the saved training had None."),
        ({"image_size": (8, 9)}, r"image_size is \[8, 9\], the saved training had \[8, 8\]."),
        ({"label": "onehot"}, "label is onehot, the saved training had int."),
        ({"start_step": 8}, "start_step is 8, the saved training had 0."),
        ({"class_weight": {0: 2}}, r"class_weight is \{'0': 2\.0\}, the saved training had None."),
        ({"split": "train[:99%]"}, r"split is train\[:99%\], the saved training had train."),
        (
            {"callbacks": [keras.callbacks.TerminateOnNaN()]},
            "callbacks are TerminateOnNaN, History; the saved training had History. Give the same",
        ),
        (
            {"model": lambda: tiny_model(steps_per_execution=4)},
            "steps_per_execution is 4, the saved training had 1.",
        ),
        ({"model": lambda: compiled("adam")}, "optimizer is Adam, the saved training had SGD."),
        (
            {"model": lambda: compiled(keras.optimizers.SGD(nesterov=True))},
            "optimizer's nesterov is True, the saved training had False.",
        ),
        (
            {"model": lambda: compiled(keras.optimizers.SGD(SCHEDULE))},
            "optimizer's learning_rate is .*ExponentialDecay.*, the saved training had a number.",
        ),
        (
            {"model": lambda: compiled(loss=keras.losses.MeanSquaredError())},
            "loss is MeanSquaredError, the saved training had SparseCategoricalCrossentropy.",
        ),
        (
            {"model": lambda: compiled(loss=keras.losses.SparseCategoricalCrossentropy(True, ignore_class=1))},
            "loss's ignore_class is 1, the saved training had None.",
        ),
        (
            {"model": lambda: wider()},
            r".*dense.*/kernel has shape \(192, 4\), the saved one \(192, 3\)\. The model or its optimizer is another",
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_another_training_than_the_saved_one_is_refused(
    dataset: Path, trained: Trained, other: dict[str, Any], message: str
) -> None:
    if "model" in other:
        other = {"model": other["model"]()}

    with pytest.raises(shardfeed.UsageError, match=restore(message)):
        train(dataset, trained.state, **other)


def test_a_callback_that_restores_too_and_a_stream_of_dicts_are_refused(dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(shardfeed.UsageError, match=r"^fit\(callbacks=\[BackupAndRestore\]\): .* Leave it out\.$"):
        train(dataset, tmp_path / "state", callbacks=[keras.callbacks.BackupAndRestore(str(tmp_path / "backup"))])
    with pytest.raises(shardfeed.UsageError, match=r"the stream gives dicts, .* Leave as_dict out of load\.$"):
        shardfeed.fit(tiny_model(), shardfeed.load(dataset, "train", 24, as_dict=True), resume=tmp_path / "state")


class OwnStep(keras.Model):  # type: ignore[misc]
    """A model without a loss, whose step counts itself, and a schedule that does not tell its arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = keras.layers.Dense(2)
        self.compile(keras.optimizers.SGD(OwnSchedule()))

    def call(self, x: Any) -> Any:
        return self.layer(keras.ops.reshape(keras.ops.cast(x, "float32"), (-1, 192)))

    def train_step(self, data: Any) -> Any:
        self(data[0], training=True)
        return {"steps": 1.0}


class OwnSchedule(keras.optimizers.schedules.LearningRateSchedule):  # type: ignore[misc]
    def __call__(self, step: Any) -> Any:
        return 0.1


def test_a_model_with_a_step_of_its_own_is_trained_and_goes_on(dataset: Path, tmp_path: Path) -> None:
    assert train(dataset, tmp_path, OwnStep()).epoch == [0]
    assert train(dataset, tmp_path, OwnStep(), epochs=2).epoch == [0, 1]


def wider() -> Any:
    model = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Flatten(), keras.layers.Dense(4)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def test_another_dataset_is_refused(trained: Trained, tmp_path: Path) -> None:
    shardfeed.testing.make_dataset(tmp_path / "other", {"train": 203}, seed=9)

    with pytest.raises(shardfeed.UsageError, match=restore("dataset is [0-9a-f]{32}, the saved training had")):
        train(tmp_path / "other", trained.state)


def test_only_a_number_of_hosts_that_is_elastic_may_change(dataset: Path, tmp_path: Path) -> None:
    def train_on(state: str, *host: int, epochs: int = 1) -> list[int]:
        share = shardfeed.load(dataset, "train", 24, host=host)
        found = shardfeed.fit(tiny_model(), share, resume=tmp_path / state, verbose=0, epochs=epochs)
        return list(found.epoch)

    assert train_on("elastic", 0, 2) == [0]
    assert train_on("elastic", 0, 1, epochs=2) == [0, 1]

    assert train_on("fixed", 0, 3) == train_on("fixed", 1, 3) == [0]  # 29 blocks make 2 streams
    with pytest.raises(shardfeed.UsageError, match=restore("hosts is any, the saved training had 3")):
        train_on("fixed", 0, 2)


def test_other_versions_are_warned_of(dataset: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardfeed.resuming.same_training.__version__", "9.9")

    with pytest.warns(UserWarning, match=r"versions are .*9\.9.*: weights may differ in the last bits"):
        train(dataset, state)


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (
            lambda path: stream(path).take(9),
            r"^fit\(model, _TakeDataset\): expected the training stream",
        ),
        (
            lambda path: shardfeed.load(path, "train", 24, epochs=2),
            r"^fit\(model, train\): the stream ends \(epochs=2\)",
        ),
    ],
    ids=["transformed", "finite"],
)
def test_a_stream_that_cannot_be_opened_again_is_refused(
    dataset: Path, tmp_path: Path, transform: Any, message: str
) -> None:
    with pytest.raises(shardfeed.UsageError, match=message):
        shardfeed.fit(tiny_model(), transform(dataset), resume=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 24}, "fit(…, batch_size=…): the stream says it. Leave batch_size out."),
        ({"epochs": 0}, "epochs=0: expected an integer of at least 1."),
        ({"save_steps": 0}, "save_steps=0: expected an integer of at least 1."),
        ({"save_seconds": "10"}, "save_seconds='10': expected a number of seconds above 0."),
        ({"save_seconds": -1}, "save_seconds=-1: expected a number of seconds above 0."),
    ],
)
def test_wrong_arguments_are_refused(dataset: Path, tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(shardfeed.UsageError, match=f"^{re.escape(message)}$"):
        shardfeed.fit(tiny_model(), stream(dataset), resume=tmp_path, **arguments)


def test_a_model_that_is_not_compiled_is_refused(dataset: Path, tmp_path: Path) -> None:
    model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(1)])
    with pytest.raises(shardfeed.UsageError, match=r"the model is not compiled\. Call model\.compile"):
        train(dataset, tmp_path, model)


def test_the_dataset_is_no_address_for_a_run(dataset: Path) -> None:
    with pytest.raises(shardfeed.UsageError, match=r"^resume=.*: expected a folder, .* for this run alone\.$"):
        train(dataset, dataset)
    assert not (dataset / "lock").exists()


def test_executions_that_do_not_fill_an_epoch_are_refused(dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(
        shardfeed.UsageError, match=r"^steps_per_execution=3: an epoch of 8 steps is no multiple of it\."
    ):
        train(dataset, tmp_path, tiny_model(steps_per_execution=3))


def test_a_callback_of_which_nothing_is_known_is_warned_of(dataset: Path, tmp_path: Path) -> None:
    class Mine(keras.callbacks.Callback):  # type: ignore[misc]
        pass

    with pytest.warns(UserWarning, match=r"^Mine: what this callback keeps between steps is not saved\."):
        train(dataset, tmp_path, callbacks=[Mine()])


@pytest.mark.parametrize(
    ("backend", "version", "hosts", "message"),
    [
        ("openvino", "3.15.0", 1, r"^fit: Keras runs on openvino: expected tensorflow, jax or torch\."),
        ("jax", "3.10.0", 1, r"^fit: Keras 3\.10\.0 on JAX .*: expected Keras 3\.11 or newer\."),
        ("tensorflow", "3.15.0", 2, "^fit: this is one of several processes, which Keras trains together on JAX only"),
    ],
    ids=["backend", "too old for JAX", "several processes"],
)
def test_keras_that_cannot_go_on_is_refused(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str, version: str, hosts: int, message: str
) -> None:
    batches = stream(dataset)
    monkeypatch.setattr(keras.config, "backend", lambda: backend)
    monkeypatch.setattr(keras, "__version__", version)
    monkeypatch.setattr("shardfeed.resuming.fit.running_host", lambda: Host(hosts - 1, hosts, hosts))

    with pytest.raises(shardfeed.UsageError, match=message):
        shardfeed.fit(tiny_model(), batches, resume=tmp_path)


def test_hosts_that_read_different_states_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from jax.experimental import multihost_utils

    monkeypatch.setattr("shardfeed.resuming.same_training.running_host", lambda: Host(1, 2, 2))
    monkeypatch.setattr(multihost_utils, "process_allgather", lambda place: np.array([[3, 7], place]))
    message = r"^resume=/there: host 1 read no state there, host 0 the state of epoch 3, step 7\. Give an address that"

    with pytest.raises(shardfeed.UsageError, match=message):
        require_agreement(None, "/there")
    require_agreement(TrainingState({"epoch": 3, "step": 7}, {}), "/there")


def test_two_runs_at_one_address_are_refused(dataset: Path, tmp_path: Path) -> None:
    holder = LocalStateFile(str(tmp_path))

    with pytest.raises(shardfeed.UsageError, match="another run is training with this address"):
        train(dataset, tmp_path)

    holder.close()
    LocalStateFile(str(tmp_path)).close()
