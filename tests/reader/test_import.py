"""``import shardfeed`` is cheap, and its names are functions whatever was imported before."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import shardfeed
from tests.kit import sources
from tests.kit.datasets import write_dataset

HEAVY = ("tensorflow", "keras", "apache_beam", "PIL", "google.cloud.storage", "obstore", "numpy")


def run(code: str, *args: str) -> str:
    """Output of ``code`` in a clean interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", code, *args], capture_output=True, text=True, cwd=Path(shardfeed.__file__).parents[1]
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_info_pulls_in_no_heavy_package(tmp_path: Path) -> None:
    write_dataset(tmp_path)

    found = run(
        "import sys, shardfeed\n"
        "print(shardfeed.info(sys.argv[1]).splits['train'].num_records, shardfeed.__version__)\n"
        f"print([name for name in {HEAVY} if name in sys.modules])",
        str(tmp_path),
    )

    assert found == f"37 {shardfeed.__version__}\n[]"


def test_the_bare_import_loads_nothing_but_its_version() -> None:
    found = run("import sys, shardfeed; print(sorted(name for name in sys.modules if name.startswith('shardfeed')))")

    assert found == "['shardfeed', 'shardfeed._version']"


def test_every_public_name_is_there_at_run_time_and_for_type_checkers() -> None:
    (typed,) = [node for node in sources.tree(Path(shardfeed.__file__)).body if isinstance(node, ast.If)]
    imported = {
        f"{node.module}.{name.name}" for node in typed.body if isinstance(node, ast.ImportFrom) for name in node.names
    }

    assert imported == {"shardfeed.testing"} | {
        f"shardfeed.{module}.{name}" for module, names in shardfeed._NAMES.items() for name in names
    }
    for name in shardfeed.__all__:
        assert getattr(shardfeed, name) is not None
        assert name in dir(shardfeed)
    assert {"TorchBatches", "torch_batches"} == set(dir(shardfeed)) - set(shardfeed.__all__)


def test_the_helper_for_tests_is_an_attribute_that_is_loaded_when_it_is_asked_for() -> None:
    assert run("import shardfeed; print(callable(shardfeed.testing.make_dataset))") == "True"


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"^module 'shardfeed' has no attribute 'laod'$"):
        shardfeed.laod  # noqa: B018
