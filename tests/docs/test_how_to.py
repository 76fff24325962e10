"""Every Python block of docs/how-to runs.

Blocks of one process share their names, over the pages in the order of the site.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, blocks, run_python
from tests.kit.datasets import write_dataset
from tests.kit.environments import python_with
from tests.kit.servers.strict_gcs import StrictGCS

EXAMPLES = re.findall(
    r"^(?:\w+=\w+ )?python (examples/.*)$", (ROOT / "docs/how-to/examples.md").read_text(), re.MULTILINE
)


def pages() -> list[str]:
    """The how-to pages, as mkdocs.yml orders them."""
    return re.findall(r"(how-to/\S+\.md)", (ROOT / "mkdocs.yml").read_text())


def code_by_process() -> dict[str, str]:
    """A comment names the process of the blocks after it, to the end of its page.

    Without one it is "tensorflow".
    """
    out: dict[str, str] = {}
    for page in pages():
        process = "tensorflow"
        for name, code in re.findall(
            r"<!-- process: (\S+) -->|```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL
        ):
            process = name or process
            out[process] = out.get(process, "") + code
    return out


def test_no_block_is_left_out() -> None:
    found = sorted((ROOT / "docs/how-to").glob("*.md"))

    assert sorted(pages()) == [f"how-to/{page.name}" for page in found]
    assert set(code_by_process()) == {"tensorflow", "keras-jax", "arrays", "gcs", "torch", "grain"}
    assert sum(map(len, code_by_process().values())) == sum(
        len(code) for page in found for code in blocks(page, "python")
    )


@pytest.mark.parametrize("process", ["tensorflow", "keras-jax", "arrays"])
def test_the_blocks_run(tmp_path: Path, process: str) -> None:
    write_dataset(tmp_path / "out", splits={"train": 70, "validation": 37}, size=(16, 16))
    code = code_by_process()[process]
    if process == "arrays":
        code = f"import sys; sys.modules['tensorflow'] = None\n{code}"

    done = run_python(code, tmp_path)

    assert done.returncode == 0, done.stderr


def test_the_blocks_about_pytorch_run_with_a_stand_in(tmp_path: Path) -> None:
    write_dataset(tmp_path / "out", splits={"train": 70}, size=None)
    stand_in = ROOT / "tests/doors/stand_in"

    done = run_python(code_by_process()["torch"], tmp_path, PYTHONPATH=f"{ROOT}:{stand_in}")

    assert done.returncode == 0, done.stderr


def test_the_blocks_about_grain_run(tmp_path: Path) -> None:
    write_dataset(tmp_path / "out", splits={"train": 70}, size=None)

    done = run_python(code_by_process()["grain"], tmp_path, python_with("doors"))

    assert done.returncode == 0, done.stderr


def test_the_blocks_about_buckets_run(tmp_path: Path) -> None:
    written = write_dataset(tmp_path / "out", splits={"train": 70}, size=(16, 16))
    with StrictGCS() as server:
        for file in written.path.iterdir():
            server.objects.put("bucket", f"flowers/{file.name}", file.read_bytes())
        done = run_python(code_by_process()["gcs"], tmp_path, STORAGE_EMULATOR_HOST=server.url)

    assert done.returncode == 0, done.stderr


def test_the_commands_about_finding_records_run(tmp_path: Path) -> None:
    splits, classes = {"train": 70, "validation": 37}, ("dress", "hat", "skirt")
    written = write_dataset(tmp_path / "out", splits=splits, size=(16, 16), classes=classes)
    skirts = sum(split.class_counts["skirt"] for split in written.manifest.splits.values())
    code = "".join(block for block in blocks("docs/how-to/find-records.md", "sh") if "duckdb" not in block)
    assert code.count("shardfeed find out/ --where") == 7
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}

    done = subprocess.run(["bash", "-e", "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    counts = re.findall(r"^(\d+) of 107 records", done.stdout, re.MULTILINE)
    assert counts == [str(skirts), "107", "0", "0", "0", "0"]
    assert (tmp_path / "hits.png").read_bytes().startswith(b"\x89PNG")
    found = [json.loads(line) for line in (tmp_path / "skirts.jsonl").read_text().splitlines()]
    assert [row["label"] for row in found] == ["skirt"] * skirts


@pytest.mark.parametrize("command", EXAMPLES, ids=lambda command: command.split()[0].removeprefix("examples/"))
def test_each_example_has_the_files_and_flags_of_its_command(command: str) -> None:
    example, *arguments = shlex.split(command, comments=True)
    source = (ROOT / example).read_text()

    assert [flag for flag in arguments if flag.startswith("--") and f'"{flag}"' not in source] == []
    assert [path for path in arguments if path.startswith("examples/") and not (ROOT / path).exists()] == []


def test_every_example_that_trains_has_its_command() -> None:
    named = {Path(command.split()[0]).name for command in EXAMPLES}

    assert named == {path.name for path in (ROOT / "examples").glob("*.py")} - {"demo.py"}


def test_flags_on_the_pages_are_those_of_the_program() -> None:
    from tools.docs_site import COMMANDS, parser_of

    flags = {name: {flag for action in parser_of(name)._actions for flag in action.option_strings} for name in COMMANDS}
    wrong = [
        (page.name, command, flag)
        for page in PAGES
        for block in blocks(page, "sh")
        for line in block.replace("\\\n", " ").splitlines()
        if (match := re.search(r"\bshardfeed (\w+) (.*)", line)) and "--runner" not in line
        for command, flag in ((match[1], word.partition("=")[0]) for word in match[2].partition(" #")[0].split())
        if flag.startswith("-") and flag not in flags[command]
    ]

    assert wrong == []
