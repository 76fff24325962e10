"""The image and its lock file: what they name exists, has a version, and is what is tested here."""

from __future__ import annotations

import re
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.dataflow.image import DOCKERFILE, instructions
from tests.kit.sources import PACKAGES, ROOT

SHA256 = re.compile(r"sha256:[0-9a-f]{64}")
FOR_311 = {"python_version": "3.11", "python_full_version": "3.11.9", "extra": ""}


def locked() -> dict[str, tuple[Requirement, list[str]]]:
    """Requirements of the lock file by name, with their hashes."""
    text = "".join(line + "\n" for line in (ROOT / "requirements.lock").read_text().splitlines() if line[:1] != "#")
    found: dict[str, tuple[Requirement, list[str]]] = {}
    for entry in text.replace("\\\n", " ").splitlines():
        words, *hashes = entry.split(" --hash=")
        requirement = Requirement(words.strip())
        found[canonicalize_name(requirement.name)] = (requirement, [each.strip() for each in hashes])
    return found


def pinned() -> dict[str, str]:
    """Versions of constraints.txt that hold on Python 3.11."""
    found: dict[str, str] = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate(FOR_311):
                found[canonicalize_name(requirement.name)] = str(requirement.specifier)
    return found


def test_everything_that_is_copied_is_there_and_not_ignored() -> None:
    sources = [words.split()[:-1] for name, words in instructions() if name == "COPY" and "--from" not in words]
    named = [source for line in sources for source in line]
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert [source for source in named if not (ROOT / source).exists()] == []
    assert set(named) == allowed
    assert set(PACKAGES) <= set(named)


def test_the_workers_beam_is_the_one_that_is_tested() -> None:
    (base,) = re.findall(r"^FROM apache/beam_python3\.11_sdk:(\S+)$", DOCKERFILE, re.MULTILINE)
    assert f"=={base}" == pinned()["apache-beam"]


def test_the_container_starts_beams_boot_program_and_can_launch_templates() -> None:
    given = instructions()
    assert ("ENTRYPOINT", '["/opt/apache/beam/boot"]') in given
    assert ("ENV", "FLEX_TEMPLATE_PYTHON_PY_FILE=/template/launch.py") in given


def test_the_user_is_the_base_images_which_dataflow_and_the_flex_launcher_cannot_do_without() -> None:
    assert [words for name, words in instructions() if name == "USER"] == []


def test_packages_are_installed_by_hash_only() -> None:
    installs = re.findall(r"pip install [^&\n\\]+", DOCKERFILE)
    assert [line for line in installs if "--require-hashes" not in line and "--no-deps" not in line] == []


@pytest.mark.parametrize("name", ["pillow", "simplejpeg", "cykooz-resizer", "obstore"])
def test_what_decides_the_bytes_is_the_launchers(name: str) -> None:
    requirement, _ = locked()[name]
    assert str(requirement.specifier) == pinned()[name]


def test_every_locked_package_has_one_version_and_hashes() -> None:
    entries = locked().values()
    assert [str(requirement) for requirement, _ in entries if not str(requirement.specifier).startswith("==")] == []
    hashes = {str(requirement): each for requirement, each in entries}
    assert {
        name: bad for name, each in hashes.items() if (bad := not each or not all(map(SHA256.fullmatch, each)))
    } == {}


def test_the_lock_holds_what_builds_the_package() -> None:
    """The image builds it with what the image has (``--no-build-isolation``)."""
    (build,) = re.findall(r'^requires = \["([^"]+)"\]', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    asked, (locked_one, _) = Requirement(build), locked()[Requirement(build).name]
    assert asked.specifier.contains(str(locked_one.specifier)[2:])
    assert str(locked_one.specifier) == pinned()["setuptools"]


def test_the_lock_holds_what_the_package_asks_for() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    block = text.partition("\ndependencies = [")[2].partition("\n]")[0]
    asked = [Requirement(each) for each in re.findall(r'^\s*"([^"]+)"', block, re.MULTILINE)]
    versions = {name: str(requirement.specifier)[2:] for name, (requirement, _) in locked().items()}
    with_beam = {canonicalize_name(Requirement(each).name) for each in metadata.requires("apache-beam") or ()}
    asked = [
        each for each in asked if each.name in versions or each.name not in with_beam
    ]  # Beam's image has the others
    assert len(asked) >= 5
    assert [str(each) for each in asked if not each.specifier.contains(versions[canonicalize_name(each.name)])] == []
