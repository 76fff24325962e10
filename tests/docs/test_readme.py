"""README.md: its Python runs from top to bottom, and the commands that start examples name files and flags that are there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.datasets import write_dataset

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "README.md").read_text()
COMMANDS = re.findall(r"^(?:\w+=\w+ )?python (examples/.*)$", PAGE, re.MULTILINE)


def test_every_python_block_runs_in_the_order_of_the_page(tmp_path: Path) -> None:
    write_dataset(tmp_path / "out", splits={"train": 300, "validation": 37}, size=(16, 16))
    code = "".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    assert code.count("import shardfeed") == 1 and "..." not in code
    for elsewhere, here in (
        ("gs://bucket/flowers", "out/"),
        ("step_ms=22", "step_ms=22, seconds=0.1"),
    ):
        assert elsewhere in code
        code = code.replace(elsewhere, here)
    for slow, fast in (("128", "32"), ("1024", "32"), ("image_size=224", "image_size=12")):
        code = code.replace(slow, fast)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}

    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert "Epoch 10/10" in done.stdout and "img/s" in done.stdout
    assert list((tmp_path / "copies").rglob("*validation*"))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.split()[0].removeprefix("examples/"))
def test_each_command_names_files_and_flags_that_are_there(command: str) -> None:
    example, *arguments = shlex.split(command, comments=True)
    source = (ROOT / example).read_text()

    assert [flag for flag in arguments if flag.startswith("--") and f'"{flag}"' not in source] == []
    assert [path for path in arguments if path.startswith("examples/") and not (ROOT / path).exists()] == []


def test_every_example_that_trains_has_its_command() -> None:
    named = {Path(command.split()[0]).name for command in COMMANDS}

    assert named == {path.name for path in (ROOT / "examples").glob("*.py")} - {"demo.py"}


def test_every_file_that_the_page_links_to_is_there() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", PAGE)

    assert links and [link for link in links if not (ROOT / link).exists()] == []
