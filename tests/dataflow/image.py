"""The image without a container engine: what the Dockerfile copies and installs, in a folder.

Its Python has Beam with its dependencies, as Beam's image does, and our package from the files that
the Dockerfile copies. It has nothing else of this checkout.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.dataflow.execution import Worker
from tests.kit.sources import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text()


def instructions() -> list[tuple[str, str]]:
    """(name, arguments) of the Dockerfile's instructions."""
    lines = [line for line in DOCKERFILE.splitlines() if not line.startswith("#")]
    joined = re.sub(r"\s*\\\n\s*", " ", "\n".join(lines))
    return [(line.split()[0], line.partition(" ")[2]) for line in joined.splitlines() if line.strip()]


class Image(Worker):
    """The image's files lie below ``root``; ``env`` is what its processes find set.

    Of the Dockerfile's packages only ours is installed; Beam's dependencies are there already.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.root = folder / "root"
        self.env = {"PATH": f"{self.python.parent}{os.pathsep}{os.defpath}", "HOME": str(folder)}
        for name, words in instructions():
            if name == "COPY" and "--from" not in words:
                self._copy(*words.split())
            if name == "RUN":
                self._run(words)
            if name == "ENV":
                variable, _, value = words.partition("=")
                self.env[variable] = value

    def _copy(self, *paths: str) -> None:
        """Files into a folder, or a folder to a place, as Docker does."""
        *sources, place = paths
        for source in sources:
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, self._at(place), ignore=shutil.ignore_patterns("__pycache__"))
            else:
                self._at(place).mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / source, self._at(place))

    def _run(self, commands: str) -> None:
        """What of a RUN concerns our own files."""
        for command in commands.split(" && "):
            words = shlex.split(command)
            if words[:2] == ["pip", "install"] and "--requirement" not in words:
                self._made.install(self._at(words[-1]))
            if words[0] == "cp":
                shutil.copy(self._at(words[1]), self._at(words[2]))
            if words[:2] == ["rm", "-r"]:
                shutil.rmtree(self._at(words[2]))

    def _at(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def checks(self) -> list[str]:
        """The Dockerfile's own ``python -c`` programs."""
        commands = [command for name, words in instructions() if name == "RUN" for command in words.split(" && ")]
        return [words[2] for words in map(shlex.split, commands) if words[:2] == ["python", "-c"]]

    def python_in(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        """``python`` in the image's folder ``/``."""
        command = [str(self.python), *arguments]
        return subprocess.run(command, cwd="/", env=self.env | env, capture_output=True, text=True, timeout=120)

    def launch(self, arguments: Sequence[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """What Flex's launcher does: ``python`` runs the file that a variable names."""
        return self.python_in(str(self._at(self.env["FLEX_TEMPLATE_PYTHON_PY_FILE"])), *arguments, **env)
