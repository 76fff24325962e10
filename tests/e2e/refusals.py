"""Builds that must be refused, through the real command line in a process of its own.

A refusal is asserted whole: the exit code, the message, that nothing was published, that nothing of the input was touched, and
that no folder is there which was not there before.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tests.kit.commands import command, environment, obeying_permissions, said


def snapshot(folder: Path) -> dict[bytes, tuple[int, int, int, bytes]]:
    """Every file and folder below: mode, size, modification time, content."""
    found = {}
    for parent, folders, files in os.walk(os.fsencode(folder)):
        for name in (b"", *folders, *files):
            path = os.path.join(parent, name)
            stat = os.lstat(path)
            content = b""
            if os.path.isfile(path) and os.access(path, os.R_OK):
                with open(path, "rb") as file:
                    content = file.read()
            found[path] = (stat.st_mode, stat.st_size, stat.st_mtime_ns, content)
    return found


@dataclass
class Case:
    """An input and an output, and builds from one to the other in processes of their own."""

    root: Path
    output: Path
    before: dict[bytes, tuple[int, int, int, bytes]] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=environment)

    def fails(
        self, code: int, message: str, *args: str | Path, output: Path | str | None = None, keeps_parts: bool = False
    ) -> None:
        """The build ends with ``code`` and ``message``, publishes nothing and leaves input and output as they were.

        ``keeps_parts``: it failed after it had begun to encode, and what is finished lies in the output.
        """
        self.before, there = snapshot(self.root), self.output.exists()
        ended = self.run(*args, output=output)

        message_shown = re.sub(r"/[0-9a-f]{32}/", "/FINGERPRINT/", ended.stderr)
        assert (ended.returncode, ended.stdout, message_shown) == (code, "", f"shardfeed: {message}\n")
        self.unchanged()
        assert (self.published(), self.output.exists()) == ([], there or keeps_parts)

    def succeeds(self, *args: str | Path) -> dict[str, object]:
        """The build ends with 0; its summary."""
        self.before = snapshot(self.root)
        ended = self.run(*args, "--json")

        assert (ended.returncode, ended.stderr) == (0, "")
        self.unchanged()
        return dict(json.loads(ended.stdout))

    def unchanged(self) -> None:
        assert snapshot(self.root) == self.before

    def published(self) -> list[str]:
        """Names at the top of the output other than work in progress."""
        return sorted(os.listdir(self.output)) if self.output.is_dir() and not self._only_parts() else []

    def _only_parts(self) -> bool:
        return os.listdir(self.output) == ["_parts"]

    def run(self, *args: str | Path, output: Path | str | None = None) -> subprocess.CompletedProcess[str]:
        arguments: list[str | Path] = [] if "--input" in args else ["--input", self.root]
        arguments += ["--output", self.output if output is None else output, "--image_size", "16"]
        ended = subprocess.run(
            obeying_permissions(*command("build", *arguments, *args)),
            capture_output=True, text=True, timeout=120, check=False, env=self.env, cwd=self.root.parent,
        )  # fmt: skip
        ended.stderr = said(ended.stderr)
        return ended
