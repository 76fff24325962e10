"""Runs one build, here or on an engine of Beam's, and turns its end into an exit code.

The exit code tells the truth. It is 0 only after the manifest of this very build has been read
back. The reason of a failure comes from the outcome that a step wrote: an engine's exceptions
change class and text on their way.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
import secrets
import time
from contextlib import AbstractContextManager
from typing import TextIO

from shardfeed import signals
from shardfeed.errors import (
    ConflictError,
    IncompleteError,
    ShardfeedError,
    TooManyRejectsError,
    UsageError,
)
from shardfeed.format import naming
from shardfeed.format.manifest import Manifest, parse_manifest
from shardfeed.no_gc import no_gc
from shardfeed.pipeline.already_built import find_existing
from shardfeed.pipeline.config.build_config import BuildConfig
from shardfeed.pipeline.config.engine import Engine
from shardfeed.pipeline.engines.counters import images_kept
from shardfeed.pipeline.engines.failures import explain_engine_failure
from shardfeed.pipeline.engines.flags import require_beam
from shardfeed.pipeline.engines.quiet import Said
from shardfeed.pipeline.local import build_here
from shardfeed.pipeline.output.folder import no_empty_folders
from shardfeed.pipeline.report.progress import progress_line
from shardfeed.pipeline.report.submitted import Submitted
from shardfeed.pipeline.report.summary import Summary
from shardfeed.transforms import stores
from shardfeed.transforms.inputs.skipped import note_of_skipped
from shardfeed.transforms.output.claim import refuse_unclaimable
from shardfeed.transforms.publish.manifest_commit import RunRecord, finish
from shardfeed.transforms.run.outcome import AlreadyBuiltError, read_outcome
from shardfeed.transforms.run.state import Run

_EXIT_CLASSES = {cls.code: cls for cls in (UsageError, TooManyRejectsError, IncompleteError, ConflictError)}


def run_build(config: BuildConfig, *, progress: TextIO | None = None) -> Summary | Submitted:
    """Builds the dataset, or finds it built; shows the progress on ``progress``, if given.

    A job that nobody waits for is only submitted.

    Raises:
        ShardfeedError: with the exit code and the message for the user.
    """
    if not config.engine.is_local:
        require_beam()  # before the input is listed, which may take minutes
    began = time.monotonic()
    if config.retry_rejects is not None:
        from shardfeed.transforms.encode.previous_records import require_reusable  # imports the readers

        require_reusable(config.retry_rejects, config.options)
    manifest, record = find_existing(config, discard=config.discard_incomplete), _record(config)
    if manifest is None and not config.engine.in_process:
        # A job elsewhere costs money before it claims the output. Here the claim comes at once.
        refuse_unclaimable(stores.open_output(config.output), config.options)
    if manifest is None:
        return _build(config, record, progress, began)
    finish(stores.open_output(config.output), record, keep_parts=config.keep_parts)
    return Summary(manifest, config.output, time.monotonic() - began, already_built=True)


def _build(config: BuildConfig, record: RunRecord, progress: TextIO | None, began: float) -> Summary | Submitted:
    run, submitted = Run(record.run_id, config.output), None
    # In this process, Beam also warns of its own servers.
    said = Said(logging.ERROR if config.engine.outlives_launcher else logging.WARNING)
    with no_empty_folders(config.output), _on_stop(config.engine, run):
        try:
            with progress_line(progress if config.engine.encodes_here else None, run):
                if config.engine.is_local:
                    build_here(config, record, run)
                else:
                    submitted = _run_graph(config, record, run, progress, said)
        except Exception as error:
            _raise_outcome(config, run, error, said)
            # Another run published the dataset; parts written after its sweep are ours to remove.
            finish(stores.open_output(config.output), record, keep_parts=config.keep_parts)
        finally:
            run.end()
            if submitted is None:  # else the job still writes there
                _tidy(run)
    if submitted is not None:
        return submitted
    manifest = _published(config)
    seconds = time.monotonic() - began
    kept = images_kept(manifest, run)
    return Summary(manifest, config.output, seconds, already_built=False, kept=kept, notes=_notes(manifest, config))


def _on_stop(engine: Engine, run: Run) -> AbstractContextManager[None]:
    """Sets what a signal does while the build runs. ``run_and_wait`` does it for jobs elsewhere."""
    if engine.in_process:
        return signals.on_stop(signals.after_images_in_hand(run.interrupt))
    if engine.outlives_launcher:
        return contextlib.nullcontext()
    return signals.on_stop(lambda: signals.leave(signals.STOPPED))


def _record(config: BuildConfig) -> RunRecord:
    now = datetime.datetime.now(datetime.timezone.utc)
    run_id = f"{now:%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
    return RunRecord(run_id, now.isoformat(timespec="seconds"), config.inputs, config.engine.label, config.list_root)


def _run_graph(
    config: BuildConfig, record: RunRecord, run: Run, progress: TextIO | None, said: Said
) -> Submitted | None:
    with no_gc():  # importing Beam costs a second, a fifth of it for garbage
        from shardfeed.pipeline.graph import run_graph
    return run_graph(config, record, run, progress, said)


def _raise_outcome(config: BuildConfig, run: Run, error: Exception, said: Said) -> None:
    """Raises the error for the user; returns only if the dataset turned out to be complete."""
    if run.interrupted:
        raise IncompleteError(
            f"stopped. What is finished, if anything, is kept under {config.output}/{naming.PARTS}; rerun the same command "
            "to carry on."
        ) from None
    outcome = run.outcome or read_outcome(run)  # said in this process, or left in the output by a worker
    if outcome is None:
        if not config.engine.in_process and _published_meanwhile(config):
            return
        if isinstance(error, ShardfeedError):
            raise error
        if config.engine.in_process:
            said.show(error)
            raise error
        raise explain_engine_failure(error, config.engine, said) from error
    if outcome.code == AlreadyBuiltError.code:
        return
    files = "".join(f"\n  {config.output}/{name}" for name in outcome.files)
    raise _EXIT_CLASSES.get(outcome.code, IncompleteError)(
        outcome.message + (f"\nRejects:{files}" if files else "")
    ) from None


def _published_meanwhile(config: BuildConfig) -> bool:
    """Whether another run of this build has published the dataset, and swept our outcome away."""
    with contextlib.suppress(ShardfeedError):
        return find_existing(config, discard=False) is not None
    return False


def _tidy(run: Run) -> None:
    """Removes this run's outcome, and folders that a run which did nothing left empty."""
    try:
        store = stores.open_output(run.output)
        store.delete(naming.outcome_name(run.run_id))
        store.prune(naming.PARTS)
    except ShardfeedError as error:
        logging.getLogger("shardfeed").warning("could not tidy %s: %s", run.output, error)


def _published(config: BuildConfig) -> Manifest:
    store = stores.open_output(config.output)
    where = f"{config.output}/{naming.MANIFEST}"
    if store.stat(naming.MANIFEST) is None:
        raise IncompleteError(f"{where} is not there although the engine reported success. Rerun the same command.")
    return parse_manifest(store.read(naming.MANIFEST), where)


def _notes(manifest: Manifest, config: BuildConfig) -> tuple[str, ...]:
    wanted = manifest.config["num_shards"]
    if not isinstance(wanted, dict):  # of several splits, one number is only that of the largest
        wanted = dict.fromkeys(manifest.splits, wanted) if len(manifest.splits) == 1 else {}
    fewer = tuple(
        f"{name}: {len(split.shards)} shards instead of {wanted[name]}: a shard is never empty, and there are no more parts"
        for name, split in manifest.splits.items()
        if wanted.get(name) not in (None, len(split.shards))
    )
    return (*fewer, skipped) if (skipped := _note_of_skipped(config)) else fewer


def _note_of_skipped(config: BuildConfig) -> str:
    with contextlib.suppress(ShardfeedError, ValueError):  # a note is no reason to fail
        record = json.loads(stores.open_output(config.output).read(naming.RUN))
        return note_of_skipped(config.roots, [(*file,) for file in record.get("skipped_sample", ())])
    return ""
