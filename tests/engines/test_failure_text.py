"""What an engine's account of a failed job becomes where no step could write its reason."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shardfeed.errors import ConflictError, IncompleteError, ShardfeedError
from shardfeed.pipeline.config.engine import Engine
from shardfeed.pipeline.engines.failures import explain_engine_failure
from shardfeed.pipeline.engines.quiet import Said

ENGINE = Engine("PortableRunner", ("--job_endpoint", "localhost:8073"))
DENIED = "cannot write to the output: out/_parts/CLAIM (Permission denied). Choose another --output."

# As Prism and Beam's job service give it: the cause, then what the step and the engine made of it.
ACCOUNT = """Pipeline job-001 failed in state FAILED: bundle inst004 stage-004 failed:Traceback (most recent call last):
  File "local.py", line 144, in _publish
OSError: [Errno 1] the system's words

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "local_errors.py", line 37, in translated
{cause}

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "sdk_worker.py", line 310, in _execute
{raised}

\tat org.apache.beam.fn.harness
"""


def explained(cause: str, raised: str) -> ShardfeedError:
    return explain_engine_failure(RuntimeError(ACCOUNT.format(cause=cause, raised=raised)), ENGINE, Said())


def test_an_error_of_ours_that_a_step_raised_is_raised_again_by_itself_with_all_its_lines() -> None:
    told = "the output is another build's:\n  seed: 1\n  yours: 2"
    error = explained(*[f"shardfeed.errors.ConflictError: {told}{end}" for end in ("", " [while running 'Claim']")])
    assert (type(error), error.code, str(error)) == (ConflictError, 5, told)


def classes(base: type[ShardfeedError]) -> Iterator[type[ShardfeedError]]:
    """Error classes of the reader and the storage; the job's own never leave the launcher."""
    for kind in base.__subclasses__():
        if not kind.__module__.startswith(("shardfeed.transforms.", "shardfeed.pipeline.")):
            yield kind
        yield from classes(kind)


@pytest.mark.parametrize("kind", [*classes(ShardfeedError)], ids=lambda kind: kind.__name__)
def test_every_class_of_our_errors_is_known_by_its_name(kind: type[ShardfeedError]) -> None:
    name = f"{kind.__module__}.{kind.__name__}"
    error = explained(f"{name}: {DENIED}", f"{name}: {DENIED} [while running 'ClaimOutput/Claim']")
    assert (type(error), str(error)) == (kind, DENIED)


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (
            "ValueError: a bug [while running 'ClaimOutput/Claim']",
            "ValueError: a bug [while running 'ClaimOutput/Claim']",
        ),
        ("shardfeed.errors.NewError: ? [while running 'A']", "shardfeed.errors.NewError: ? [while running 'A']"),
        ("RuntimeError: the worker ended", "OSError: [Errno 1] the system's words"),
    ],
    ids=["a bug", "an error that this version does not have", "outside of a step"],
)
def test_what_a_step_did_not_raise_is_the_engine_s_account(raised: str, told: str) -> None:
    error = explained(f"shardfeed.errors.UsageError: {DENIED}", raised)
    assert type(error) is IncompleteError
    assert str(error).startswith(f"the engine gave up: {told}\nRerun the same command to carry on")
