"""A worker of these tests is as poor as a real one: a step that came to need more than the package does would fail there."""

from __future__ import annotations

from tests.engines.worker import Worker
from tests.kit.worker_python import run

# Modules that cannot be imported.
LACKING = """
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        assert error.name == name, error
        print(name)
"""


def lacking(worker: Worker, *names: str) -> list[str]:
    return run(worker.python, "-c", LACKING, *names).split()


def test_a_worker_has_beam_the_package_and_what_they_depend_on(worker: Worker) -> None:
    needed = (
        "apache_beam",
        "apache_beam.io.gcp.gcsio",
        "google.cloud.storage",
        "google_crc32c",
        "obstore",
        "numpy",
        "PIL",
        "simplejpeg",
    )
    assert lacking(worker, *needed, "cykooz_resizer", "shardfeed.transforms", "shardfeed.pipeline") == []


def test_a_worker_has_nothing_of_the_tests_and_of_the_extras(worker: Worker) -> None:
    rest = ("tensorflow", "keras", "jax", "pytest", "_pytest", "hypothesis", "sklearn", "mypy")
    assert lacking(worker, *rest) == list(rest)
