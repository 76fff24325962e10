"""A run of ``run_dataflow.sh`` with programs in the places of gcloud and Python.

gcloud answers as release 528 does if all is well; each test changes one answer.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.kit.sources import ROOT

IMAGE = "us-central1-docker.pkg.dev/my-project/shardfeed/shardfeed:0.1.0"
WORKER = "12345-compute@developer.gserviceaccount.com"
COMMAND = ("gs://photos", "gs://datasets/flowers/v1")
PLANNED = "Plan: gs://photos -> gs://datasets/flowers/v1 (nothing was written)"
BUILT = "Built: gs://datasets/flowers/v1"


@dataclass(frozen=True)
class Says:
    """What gcloud says on standard error if it has no answer."""

    text: str
    code: int = 1


Answer = str | Says

# Words of a call -> gcloud's answer.
WELL: dict[str, Answer] = {
    "auth print-access-token": "ya29.token",
    "projects describe": "12345",
    "projects get-iam-policy": "roles/storage.objectUser\nroles/dataflow.worker",
    "compute networks describe": "default",
    "compute networks subnets describe": "inner",
    "compute machine-types list": "n2-standard-8",
    "artifacts docker images describe": "sha256:0f",
    "dataflow flex-template build": "Successfully saved container spec in flex template file.",
}

SCRIPTED_PYTHON = f"""#!/bin/sh
[ "$1" = -c ] && exit "${{LACKS:-0}}"
printf '%s\\n' "$@" "" >>"$CALLS"
[ "${{PYTHON_CODE:-0}}" = 0 ] || exit "$PYTHON_CODE"
[ "$3" = plan ] && printf '%s\\n' "${{PLANNED-{PLANNED}}}" && exit "${{PLAN_CODE:-0}}"
echo '{BUILT}'
"""


@dataclass(frozen=True)
class Ran:
    """One run of the script: exit code, output, arguments of each Python, questions to gcloud."""

    code: int
    out: str
    err: str
    started: list[list[str]]
    asked: list[str]

    @property
    def commands(self) -> list[str]:
        """Which of our commands were started."""
        return [arguments[2] for arguments in self.started]


def write_program(path: Path, text: str) -> None:
    """Makes an executable file."""
    path.write_text(text)
    path.chmod(0o755)


def run(
    folder: Path,
    *arguments: str,
    answers: Mapping[str, Answer] | None = None,
    script: Path = ROOT / "run_dataflow.sh",
    env: Mapping[str, str] | None = None,
    **variables: str,
) -> Ran:
    """Runs the script in ``folder``, which is not the repository. An empty variable is not set."""
    gcloud = ["#!/bin/sh", 'echo "$*" >>"$ASKED"', 'case "$*" in']
    for words, answer in {**WELL, **(answers or {})}.items():
        does = f"printf '%s\\n' {shlex.quote(answer if isinstance(answer, str) else answer.text)}"
        gcloud.append(f'*"{words}"*) {does}{"" if isinstance(answer, str) else f" >&2; exit {answer.code}"} ;;')
    (folder / "bin").mkdir()
    write_program(folder / "bin" / "gcloud", "\n".join([*gcloud, "*) exit 3 ;;", "esac", ""]))
    write_program(folder / "bin" / "python", SCRIPTED_PYTHON)
    calls, asked = folder / "calls", folder / "asked"
    set_ = {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "PYTHON": str(folder / "bin" / "python"),
        "CALLS": str(calls),
        "ASKED": str(asked),
        "PROJECT": "my-project",
        "REGION": "us-central1",
        **(env or {}),
        **variables,
    }
    set_ = {name: value for name, value in set_.items() if value or name == "PLANNED"}
    done = subprocess.run([script, *arguments], cwd=folder, env=set_, capture_output=True, text=True)
    started = [call.splitlines() for call in calls.read_text().split("\n\n") if call] if calls.exists() else []
    questions = asked.read_text().splitlines() if asked.exists() else []
    return Ran(done.returncode, done.stdout, done.stderr, started, questions)
