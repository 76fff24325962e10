"""``fit``: Keras' own ``fit``, which goes on after a kill as if there had been none.

    shardfeed.fit(model, train, resume="gs://bucket/run7", epochs=10, validation_data=validation)

Run the same script again, and the training goes on with the step after the last one that was
saved, in the middle of an epoch too. The weights at the end are those of a training that nobody
killed, bit for bit.

This is a function and not a callback. A callback sees neither the stream nor the other callbacks,
and Keras has asked for the number of steps before any callback runs. This function opens the
stream at the right step, and is told of each step after all callbacks have been.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras

from shardfeed.accelerator.hosts import running_host
from shardfeed.accelerator.keras_args import fit_args
from shardfeed.arguments import positive, unexpected
from shardfeed.dataset.training_streams import StreamSource, source_of
from shardfeed.errors import UsageError, clip
from shardfeed.resuming import keras_state
from shardfeed.resuming.same_training import require_agreement, require_same_training, training_facts
from shardfeed.resuming.state_file import GcsStateFile, LocalStateFile, TrainingState, open_state_file

_KERAS_ON_JAX = (3, 11)  # as [jax] asks for; before 3.8 each step's batch was drawn outside of ``train_function``
_OURS = ("x", "y", "batch_size", "initial_epoch", "steps_per_epoch", "shuffle", "sample_weight", "validation_split")


def fit(
    model: keras.Model,
    train: Any,
    *,
    resume: str | os.PathLike[str],
    epochs: int = 1,
    save_steps: int | None = None,
    save_seconds: float = 600,
    sigterm: bool = True,
    callbacks: Sequence[keras.callbacks.Callback] | keras.callbacks.Callback | None = None,
    verbose: str | int = "auto",
    **options: Any,
) -> keras.callbacks.History:
    """``model.fit`` with a state that survives a kill; the same call, made again, goes on.

    The state is everything that the next step depends on: weights, moving statistics, the seeds of
    dropout, the optimizer with its learning rate, the scale of the loss, metrics, Keras' own seed
    generator and PyTorch's, what EarlyStopping, ReduceLROnPlateau, ModelCheckpoint and History
    keep, epoch and step. It is saved after the steps that ``save_steps`` and ``save_seconds`` ask
    for, and at the end. If a training has ended, the same call gives its model at once; with more
    ``epochs`` it goes on, unless a callback had stopped it. On several hosts (JAX), number 0 saves
    and all read the same address.

    Args:
        model: A compiled model.
        train: The endless training stream that ``load`` gave.
        resume: A folder or ``gs://bucket/folder`` for this run alone.
        epochs: As for ``model.fit``: the number of the last epoch.
        save_steps: Save after so many steps; None = only by time.
        save_seconds: Save after so many seconds.
        sigterm: On SIGTERM, which clouds send before they take a machine away, save after the step
            that runs, then end as SIGTERM ends a program. During a validation, the state before it
            is saved, after the batch that runs.
        callbacks: As for ``model.fit``. A class that keeps something between steps and is not
            Keras' own has ``state_dict()`` and ``load_state_dict(state)``.
        verbose: As for ``model.fit``.
        **options: Others of ``model.fit``: validation_data, validation_steps, validation_freq,
            class_weight.

    Returns:
        The history of all epochs, those before the kill included.

    Raises:
        UsageError: a stream that is not known; another dataset, model, arguments of ``load`` or
            ``compile``, or callbacks than those that were saved; another run has this address;
            hosts that read different states; Keras on JAX before 3.11, or in several processes of
            TensorFlow or PyTorch.
        DatasetError: the saved state is damaged.
    """
    _check_keras()
    source, reopen = _source(train)
    for name in _OURS:
        if name in options:
            raise UsageError(f"fit(…, {name}=…): the stream says it. Leave {name} out.")
    positive("epochs", epochs)
    if save_steps is not None:
        positive("save_steps", save_steps)
    if not isinstance(save_seconds, (int, float)) or not save_seconds > 0:
        raise unexpected("save_seconds", save_seconds, "a number of seconds above 0")
    if not model.compiled:
        raise UsageError("fit(model, …): the model is not compiled. Call model.compile(optimizer, loss) before.")
    if isinstance(train.element_spec, dict):
        raise UsageError(
            "fit(model, train): the stream gives dicts, and Keras wants (image, label). Leave as_dict out of load."
        )
    given = [callbacks] if isinstance(callbacks, keras.callbacks.Callback) else list(callbacks or ())
    if any(isinstance(each, keras.callbacks.BackupAndRestore) for each in given):
        raise UsageError(
            "fit(callbacks=[BackupAndRestore]): it goes on at another step than resume= does. Leave it out."
        )
    steps = fit_args(train)["steps_per_epoch"]
    if steps % model.steps_per_execution:
        raise UsageError(
            f"steps_per_execution={model.steps_per_execution}: an epoch of {steps} steps is no multiple of it. Compile the model "
            "with **shardfeed.compile_args(train)."
        )
    file = open_state_file(resume, source.info.url, writes=running_host().index == 0)
    keeper: _Keeper | None = None
    try:
        saved, facts = file.read(), training_facts(model, source, steps, options.get("class_weight"))
        require_agreement(saved, file.url)
        if saved is not None:
            require_same_training(saved.facts["training"], facts, file.url)
        keras_state.build(model, train.element_spec)
        keeper = _Keeper(file, facts, saved, save_steps, save_seconds, sigterm=sigterm)
        keeper.evaluates = options.get("validation_data") is not None
        children = [*given, keras.callbacks.History(), keeper]
        keras_state.warn_of_forgetful(given)
        listed = _Callbacks(
            children, add_progbar=verbose != 0, model=model, verbose=verbose, epochs=epochs, steps=steps
        )
        listed.keeper = keeper
        keeper.others = children[:-1]
        model.fit(
            train if saved is None else _continued(reopen(keeper.epoch * steps + keeper.step), keeper.step),
            epochs=epochs,
            initial_epoch=epochs if keeper.stopped and not keeper.step else min(keeper.epoch, epochs),
            steps_per_epoch=steps,
            callbacks=listed,
            verbose=verbose,
            shuffle=False,
            **options,
        )
        return model.history
    finally:
        if keeper is not None:
            keeper.put_back()
        file.close()


def _check_keras() -> None:
    """Raises UsageError if this Keras cannot go on in the middle of an epoch."""
    backend, version = keras.config.backend(), tuple(map(int, keras.__version__.split(".")[:2]))
    if backend not in ("tensorflow", "jax", "torch"):
        raise UsageError(
            f"fit: Keras runs on {clip(backend)}: expected tensorflow, jax or torch. Set KERAS_BACKEND before Keras is imported."
        )
    if backend == "jax" and version < _KERAS_ON_JAX:
        needed = ".".join(map(str, _KERAS_ON_JAX))
        raise UsageError(
            f"fit: Keras {clip(keras.__version__)} on JAX draws the batches of the steps that are skipped: expected Keras "
            f"{needed} or newer. Run pip install 'keras>={needed}'."
        )
    if backend != "jax" and running_host().count > 1:
        raise UsageError(
            "fit: this is one of several processes, which Keras trains together on JAX only. Set KERAS_BACKEND=jax, or write "
            "a loop over shardfeed.distribute(…, start_step=…) or torch_batches."
        )


def _source(train: Any) -> tuple[StreamSource, Callable[[int], Any]]:
    source = source_of(train)
    if source is None or source.reopen is None:
        raise UsageError(
            f"fit(model, {clip(type(train).__name__)}): expected the training stream (training=True) that load "
            "gave, not transformed afterwards: it must be opened again at another step. Let the model transform the images."
        )
    if source.epochs is not None:
        raise UsageError(f"fit(model, train): the stream ends (epochs={source.epochs}). Leave epochs out of load.")
    return source, source.reopen


def _continued(rest: Any, skipped: int) -> Any:
    """``rest``, behind what Keras draws for the steps that are skipped.

    That is nothing on TensorFlow and JAX. On PyTorch, Keras draws the batch before it calls
    ``train_function``: there, batches without a row.
    """
    if keras.config.backend() != "torch":
        return rest
    import tensorflow as tf

    empty = tf.nest.map_structure(lambda spec: tf.zeros((0, *spec.shape[1:]), spec.dtype), rest.element_spec)
    return tf.data.Dataset.from_tensors(empty).repeat(skipped).concatenate(rest)


class _Keeper(keras.callbacks.Callback):  # type: ignore[misc]
    """The last but the progress bar: at a step's end all other callbacks have been told of it."""

    def __init__(
        self,
        file: LocalStateFile | GcsStateFile,
        facts: Mapping[str, Any],
        saved: TrainingState | None,
        save_steps: int | None,
        save_seconds: float,
        *,
        sigterm: bool,
    ) -> None:
        super().__init__()
        self.others: list[Any] = []
        self.evaluates = False  # whether epochs end with a validation
        self.skip = 0  # executions of the resumed epoch that were made before the kill
        self.epoch: int = saved.facts["epoch"] if saved else 0
        self.step: int = saved.facts["step"] if saved else 0  # of the epoch: those that are done
        self.stopped = bool(saved and saved.facts["stopped"])
        self._file, self._facts, self._saved = file, facts, saved
        self._save_steps, self._save_seconds, self._sigterm = save_steps, save_seconds, sigterm
        self._writes = running_host().index == 0
        self._begun, self._unsaved, self._saved_at = False, 0, time.monotonic()
        self._asked = threading.Event()
        self._before: Any = None
        self._before_validation: TrainingState | None = None

    def on_train_begin(self, logs: object = None) -> None:
        if self._sigterm and threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, lambda *_: self._asked.set())
        self._execution = int(self.model.steps_per_execution)
        self._restore()
        self.model.stop_training = self.stopped
        # From here on no older run writes. Not later: a callback may change the learning rate when an
        # epoch begins, and would do so again.
        self._save()

    def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
        self.epoch = epoch
        if self._begun:
            return
        self._begun = True
        if self.step:
            # Again: a callback may change the learning rate when an epoch begins, as it did before
            # the state was saved; and Keras has reset the metrics.
            self._restore()
        self._skip_steps()

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        self.step += self._execution
        self._unsaved += self._execution
        due = self._save_steps is not None and self._unsaved >= self._save_steps
        if due or self._asked.is_set() or time.monotonic() - self._saved_at >= self._save_seconds:
            self._save()
        self._end_if_asked()
        if self._before is not None and self._writes and self.evaluates and self.step == self._facts["steps_per_epoch"]:
            # Validation uses the variables of the metrics, and may last longer than the time that
            # a machine has after SIGTERM.
            self._before_validation = self._state()

    def on_test_batch_end(self, batch: int, logs: object = None) -> None:
        if self._asked.is_set():
            if self._before_validation is not None:  # else the run began here, and has saved that
                self._file.write(self._before_validation)
            self._end_if_asked()

    def on_epoch_end(self, epoch: int, logs: object = None) -> None:
        self.epoch, self.step, self._before_validation = epoch + 1, 0, None
        if self._asked.is_set():
            self._save()
            self._end_if_asked()

    def on_train_end(self, logs: object = None) -> None:
        if self._begun:
            self._save()

    def put_back(self) -> None:
        """Gives SIGTERM back to whom it belonged."""
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)
            self._before = None

    def _end_if_asked(self) -> None:
        if self._asked.is_set():
            self.put_back()
            signal.raise_signal(signal.SIGTERM)

    def _save(self) -> None:
        if self._writes:
            self._file.write(self._state())
        self._unsaved, self._saved_at = 0, time.monotonic()

    def _state(self) -> TrainingState:
        # On JAX, ``self.model`` brings the variables up to date, which costs time: not at each step.
        kept = keras_state.kept_by(self.others)
        arrays = keras_state.arrays_of(self.model, kept)
        facts = {
            "training": self._facts,
            "epoch": self.epoch,
            "step": self.step,
            "stopped": bool(self.model.stop_training),
            "callbacks": keras_state.facts_of(self.others, kept),
        }
        return TrainingState(facts, arrays)

    def _restore(self) -> None:
        if self._saved is not None:
            keras_state.restore_variables(self.model, self._saved.arrays, self._file.url)
            facts = self._saved.facts["callbacks"]
            keras_state.restore_callbacks(self.others, facts, self._saved.arrays, self._file.url)

    def _skip_steps(self) -> None:
        """Makes earlier steps cost nothing, and the first one draw what it would have drawn.

        Keras runs ``steps_per_epoch`` steps in each epoch, and cannot begin in the middle of one.
        On PyTorch, it draws a random number when it opens the stream, which is done after this.
        """
        self.skip, model = self.step // self._execution, self.model
        run, logs, generators = model.train_function, model.get_metrics_result(), keras_state.generators()

        def train_function(*arguments: Any) -> Any:
            keras_state.restore_generators(generators)
            if self.skip <= 1:  # the last one that is skipped, or the first
                model.train_function = run
            if not self.skip:
                return run(*arguments)
            return (logs, arguments[0]) if len(arguments) == 2 else logs  # JAX passes its state through

        model.train_function = train_function


class _Callbacks(keras.callbacks.CallbackList):  # type: ignore[misc]
    """Callbacks that are not told of the steps that are skipped."""

    keeper: _Keeper

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if not self.keeper.skip:
            super().on_train_batch_begin(batch, logs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.keeper.skip:
            self.keeper.skip -= 1
        else:
            super().on_train_batch_end(batch, logs)
