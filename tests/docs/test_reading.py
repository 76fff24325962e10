"""Every Python block of docs/reading.md runs, in the order of the page; blocks of one process share their names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.arrays.google_over_tls import google_over_tls
from tests.kit.datasets import write_dataset
from tests.kit.servers.strict_gcs import StrictGCS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reading.md").read_text()


def blocks() -> dict[str, str]:
    """Python code by process: a comment names it, and it holds until the next comment; "tensorflow" before the first."""
    out: dict[str, str] = {}
    process = "tensorflow"
    for name, code in re.findall(r"<!-- process: (\S+) -->|```python\n(.*?)```", PAGE, re.DOTALL):
        process = name or process
        out[process] = out.get(process, "") + code
    return out


def run(code: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3", **variables}
    return subprocess.run([sys.executable, "-c", code], cwd=folder, env=env, capture_output=True, text=True)


def test_no_block_is_left_out() -> None:
    assert set(blocks()) == {"tensorflow", "keras-jax", "arrays", "gcs"}
    assert sum(len(code) for code in blocks().values()) == sum(
        len(block.partition("```")[0]) for block in PAGE.split("```python\n")[1:]
    )


@pytest.mark.parametrize("process", ["tensorflow", "keras-jax", "arrays"])
def test_the_blocks_run(tmp_path: Path, process: str) -> None:
    write_dataset(tmp_path / "out", splits={"train": 70, "validation": 37}, size=(16, 16))
    code = blocks()[process]
    if process == "arrays":
        code = f"import sys; sys.modules['tensorflow'] = None\n{code}"

    done = run(code, tmp_path)

    assert done.returncode == 0, done.stderr


def test_the_blocks_about_buckets_run_and_ask_for_2_mib(tmp_path: Path) -> None:
    written = write_dataset(tmp_path / "out", splits={"train": 70}, size=(16, 16))
    with StrictGCS() as server:
        for file in written.path.iterdir():
            server.objects.put("bucket", f"flowers/{file.name}", file.read_bytes())
        host, port = server.url.removeprefix("http://").split(":")
        with google_over_tls((host, int(port)), tmp_path) as google:
            done = run(blocks()["gcs"], tmp_path, **google, STORAGE_EMULATOR_HOST=server.url)
        asked = {value for request in server.log for key, value in request.headers.items() if key.lower() == "range"}

    assert done.returncode == 0, done.stderr
    assert "bytes=0-2097151" in asked


def test_every_file_that_the_page_links_to_is_there() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", PAGE)

    assert links and [link for link in links if not (ROOT / "docs" / link).exists()] == []
