"""The scripts of ``make engines`` when nothing can be fetched: a message, and no halves."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit import fetched
from tests.kit.sources import ROOT


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A checkout in which nothing was fetched."""
    scripts = [f"tools/{name}.sh" for name in ("engines", "azurite", "axe", "chromium", "wheels")]
    lists = ("pyproject.toml", "constraints.txt", "tests/tfds/packages.txt", "tests/clouds/packages.txt")
    for name in (*scripts, *lists):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def _fails(command: list[str | Path], **environment: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr


def _only(folder: Path, *programs: str) -> str:
    """A PATH on which there are these programs alone."""
    folder.mkdir()
    for name in programs:
        (folder / name).symlink_to(shutil.which(name))  # type: ignore[arg-type]
    return str(folder)


def test_wheels_that_cannot_be_fetched(copy: Path) -> None:
    said = _fails(
        [copy / "tools" / "wheels.sh", sys.executable], PIP_NO_INDEX="1", PIP_FIND_LINKS="", PIP_CACHE_DIR=str(copy)
    )
    assert said.splitlines()[0].startswith("Collecting wheels for the tests into .engines/wheels-")
    assert "\nERROR: " in said  # pip's own words
    assert said.endswith(
        "\nwheels: they could not be collected. What fetches them, where the package index can be reached: make engines\n"
    )
    assert list((copy / ".engines").iterdir()) == []


@pytest.mark.parametrize(("script", "package"), [("azurite", "azurite"), ("axe", "axe-core")])
def test_what_npm_cannot_fetch(copy: Path, script: str, package: str) -> None:
    said = _fails([copy / "tools" / f"{script}.sh"], npm_config_offline="true", npm_config_cache=str(copy / "npm"))
    assert said.splitlines()[0].startswith(f"Fetching .engines/{package}-")
    assert said.splitlines()[-1].startswith(
        f"{script}: it could not be fetched. What fetches it: npm install --prefix DIR {package}@"
    )
    assert list((copy / ".engines").iterdir()) == []


def test_a_browser_that_cannot_be_installed(copy: Path) -> None:
    path = _only(copy / "bin", "bash", "dirname", "mktemp", "rm", "tail")
    said = _fails([copy / "tools" / "chromium.sh"], PATH=path)
    assert said.splitlines()[-1].startswith(
        "chromium: it could not be installed. What installs it on Debian, as root: apt-"
    )


def test_prism_that_cannot_be_fetched(copy: Path) -> None:
    said = _fails([copy / "tools" / "engines.sh"], GOPROXY="off", GOFLAGS="-mod=mod", GOMODCACHE=str(copy / "modules"))
    assert said.splitlines()[0].startswith("Building .engines/prism-")
    assert said.splitlines()[-1].startswith(
        "engines: Prism could not be built. What fetches and builds it: GOBIN=DIR go install github.com/apache/beam/"
    )
    assert list((copy / ".engines").iterdir()) == []


def test_prism_without_go(copy: Path) -> None:
    path = _only(copy / "bin", "bash", "dirname", "sed", "mkdir", "mktemp", "rm")
    said = _fails([copy / "tools" / "engines.sh"], PATH=path)
    assert said.splitlines()[1:] == [
        "engines: Prism is written in Go, and there is no go on PATH. Install Go (https://go.dev/dl), then: tools/engines.sh"
    ]
    assert list((copy / ".engines").iterdir()) == []


def test_what_was_fetched_is_not_fetched_again() -> None:
    wheels = Path(fetched.offline()[-1])
    before = {path: path.stat() for path in [wheels, *wheels.iterdir(), fetched.prism()]}
    assert fetched.offline() == ["--no-index", "--find-links", str(wheels)]
    assert {path: path.stat() for path in [*wheels.iterdir(), wheels, fetched.prism()]} == before
