"""The source package as a worker gets it, and its wheel on the oldest and the newest Python.

Dataflow's workers run ``pip install`` on the source package without extras, so a dependency
forgotten in the base list is found here. The wheel meets the lowest dependencies on the oldest
Python and the highest on the newest. ``make versions`` does the same with the extras [beam] and
[tf-cpu], whose environments take gigabytes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from shardfeed import info
from tests.kit import fetched, sources
from tests.kit.commands import write_photos
from tests.kit.datasets import write_dataset

FILES = ("LICENSE", "README.md", "pyproject.toml", "setup.py")
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}


def run(*command: str | Path, **environment: str) -> str:
    words, env = [str(word) for word in command], {**CLEAN, **environment}
    done = subprocess.run(words, cwd="/", env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the source package, and of the wheel that was built from it.

    Built from a copy: setuptools writes into the tree and reads what an earlier build left.
    """
    copy = tmp_path_factory.mktemp("tree")
    for name in FILES:
        shutil.copy(sources.ROOT / name, copy)
    for package in (*sources.PACKAGES, "tests"):
        shutil.copytree(sources.ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, copy)
    return out


@pytest.fixture(scope="module")
def sdist(dist: Path) -> Path:
    (archive,) = dist.glob("*.tar.gz")
    return archive


@pytest.fixture(scope="module")
def worker(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of an environment that holds the source package and what it asks for.

    The pip of these tests installs it: to give the environment one of its own takes longest.
    """
    folder = tmp_path_factory.mktemp("worker")
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    pip = ("-m", "pip", "--disable-pip-version-check", "--python", python)
    run(sys.executable, *pip, "install", "--quiet", "--no-compile", *fetched.offline(), sdist)
    return python


@pytest.fixture
def worker_with_beam(worker: Path) -> Iterator[Path]:
    """The same, with Beam visible behind its own packages, as in Beam's worker image.

    ``.pth`` files there are not read.
    """
    site_packages = Path(run(worker, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    behind = site_packages / "beam.pth"
    behind.write_text(sysconfig.get_path("purelib") + "\n")
    yield worker
    behind.unlink()  # other tests mean the environment without extras


def modules(*, beam: bool) -> list[str]:
    """Modules of the transforms that need Beam, or that do not."""
    return [sources.module_name(p) for p in sources.files("transforms") if sources.needs_beam(p) == beam]


def homes(python: Path, names: list[str]) -> set[str]:
    """The folders from which a fresh interpreter imports the top packages of ``names``."""
    code = (
        "import importlib, sys\n"
        "from pathlib import Path\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
        f"for name in {sorted({sources.top(name) for name in names})!r}:\n"
        "    print(Path(sys.modules[name].__file__).parent.parent)\n"
    )
    return set(run(python, "-c", code).splitlines())


def test_it_holds_our_packages_and_nothing_else_of_the_repository(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames() if archive.getmember(name).isfile()}
    expected = {
        path.relative_to(sources.ROOT).as_posix()
        for package in sources.PACKAGES
        for path in (sources.ROOT / package).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    made = {name for name in names if name.startswith("shardfeed.egg-info/")} | {"PKG-INFO", "setup.cfg"}
    assert names - made == expected | set(FILES)


def test_the_index_accepts_their_metadata(dist: Path) -> None:
    said = run(sys.executable, "-m", "twine", "check", "--strict", *dist.iterdir())
    assert said.count("PASSED") == 2


@pytest.mark.parametrize("which", ["oldest", "newest"])
def test_with_the_wheel_a_dataset_is_built_verified_and_read(which: str, dist: Path, tmp_path: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    photos = write_photos(tmp_path / "photos", cat=6, dog=6)
    program = sources.ROOT / "tests/packaging/program.py"
    said = run(fetched.python(which), program, "base", photos, PYTHONPATH=str(tmp_path / "site"))
    assert said.startswith({"oldest": "done on Python 3.10.", "newest": "done on Python 3.14."}[which])


def test_it_keeps_the_ranges_where_no_launcher_pins_them(sdist: Path) -> None:
    assert texts_in(sdist, "pyproject.toml") == [(sources.ROOT / "pyproject.toml").read_text()]


def texts_in(archive: Path, *names: str) -> list[str]:
    """Files that lie at the top of a source package."""
    with tarfile.open(archive) as package:
        (top,) = {member.partition("/")[0] for member in package.getnames()}
        return [file.read().decode() for name in names if (file := package.extractfile(f"{top}/{name}"))]


def _pinned_sdist(tree: Path, pins: str) -> subprocess.CompletedProcess[str]:
    """Builds a source package of no code with pins, in ``tree``/dist."""
    shutil.copy(sources.ROOT / "setup.py", tree)
    shutil.copy(sources.ROOT / "pyproject.toml", tree)
    (tree / "README.md").touch()
    for folder in sources.PACKAGES:
        (tree / folder).mkdir()
        (tree / folder / "__init__.py").touch()
    shutil.copy(sources.ROOT / "shardfeed" / "_version.py", tree / "shardfeed")
    command = [sys.executable, "setup.py", "sdist"]
    return subprocess.run(command, cwd=tree, env={**CLEAN, "SHARDFEED_PINS": pins}, capture_output=True, text=True)


def test_a_pin_of_what_is_no_dependency_is_refused(tmp_path: Path) -> None:
    done = _pinned_sdist(tmp_path, "pillow==12.3.0 torch==2.0")
    assert done.returncode == 1
    assert done.stderr.endswith("setup.py: torch==2.0 of SHARDFEED_PINS is no dependency in pyproject.toml\n")


def test_a_decoder_of_an_extra_becomes_a_dependency_of_the_workers(tmp_path: Path) -> None:
    done = _pinned_sdist(tmp_path, "pi-heif==1.4.0 pylibjxl==0.5.0")
    assert done.returncode == 0, done.stderr
    (archive,) = (tmp_path / "dist").iterdir()
    project, metadata = texts_in(archive, "pyproject.toml", "PKG-INFO")
    base = project.partition("dependencies = [")[2].partition("\n]")[0]
    assert '"pylibjxl==0.5.0"' in base and '"pi-heif==1.4.0"' in base
    assert {"Requires-Dist: pylibjxl==0.5.0", "Requires-Dist: pi-heif==1.4.0"} <= set(metadata.splitlines())


def test_a_worker_without_extras_imports_all_plain_transforms(worker: Path) -> None:
    assert len(homes(worker, ["shardfeed", *modules(beam=False)])) == 1


def test_a_worker_with_beam_imports_all_of_the_job_from_the_package(worker_with_beam: Path) -> None:
    launcher = [sources.module_name(p) for p in sources.files("pipeline") if p.name != "__main__.py"]
    found = homes(worker_with_beam, [*modules(beam=True), *launcher])
    assert found == homes(worker_with_beam, ["shardfeed"])


def test_the_installed_command_verifies_and_inspects_without_extras(worker: Path, tmp_path: Path) -> None:
    command = worker.with_name("shardfeed")
    write_dataset(tmp_path, image_format="raw")

    assert "build" in run(command, "--help")
    assert "in order" in run(command, "verify", tmp_path, "--deep")
    assert str(tmp_path) in run(command, "inspect", tmp_path)


def test_a_reader_that_needs_an_extra_names_it_and_the_others_read(worker: Path, tmp_path: Path) -> None:
    write_dataset(tmp_path, image_format="raw")
    code = """
import sys, shardfeed
from importlib.metadata import version
assert version("shardfeed") == shardfeed.__version__
shardfeed.info(sys.argv[1]).classes
next(iter(shardfeed.array_batches(sys.argv[1], "train", 8)))
try:
    shardfeed.load(sys.argv[1], "train", 8)
except ImportError as error:
    print(error)
"""
    assert run(worker, "-c", code, tmp_path) == (
        "shardfeed.load needs tensorflow, which is not installed here: pip install 'shardfeed[tf]'\n"
    )


def test_one_name_is_installed(worker: Path) -> None:
    """``pipeline`` and ``transforms`` belong to the users' own code."""
    files = run(worker, "-c", "import importlib.metadata as m; print(*(str(f) for f in m.files('shardfeed')))").split()
    tops = {Path(file).parts[0] for file in files if not file.startswith("..")}
    assert {top for top in tops if not top.endswith((".dist-info", ".pth"))} == {"shardfeed"}
    assert {"shardfeed/pipeline/local.py", "shardfeed/transforms/steps/commit.py", "shardfeed/py.typed"} <= set(files)


def test_a_users_own_packages_with_the_names_of_our_folders_are_not_run(worker: Path, tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", cat=3, dog=3)
    for name in ("pipeline", "transforms", "tests"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('the user\\'s own code was run')\n")
    for name in ("cli.py", "errors.py", "steps.py", "utils.py"):
        (tmp_path / name).write_text("raise SystemExit('the user\\'s own code was run')\n")
    # "-m" looks for packages in the current folder first
    command = [str(worker), "-m", "shardfeed", "build", "--input", "photos", "--output", "out", "--image_size", "8"]
    env = {**CLEAN, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert info(tmp_path / "out").splits["train"].num_records == 6


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("benchmark", "FOLDER"),
            "shardfeed.load needs tensorflow, which is not installed here: pip install 'shardfeed[tf]'. "
            "Without TensorFlow, measure the NumPy reader: --reader arrays",
        ),
        (
            ("build", "--input", "FOLDER", "--output", "out", "--runner", "DirectRunner"),
            "build: Apache Beam is not installed here. Install it with: pip install 'shardfeed[beam]'",
        ),
    ],
    ids=["benchmark", "build"],
)
def test_a_command_that_needs_an_extra_names_it(
    worker: Path, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    write_dataset(tmp_path / "data", image_format="raw")
    words = [str(tmp_path / "data") if word == "FOLDER" else word for word in arguments]
    command = [str(worker.with_name("shardfeed")), *words]
    done = subprocess.run(command, cwd=tmp_path, env=CLEAN, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"shardfeed: {said}\n")
