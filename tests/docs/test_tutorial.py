"""The commands and programs of docs/tutorial run, in the order of the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT
from tests.kit.builds import run_program
from tests.kit.commands import write_photos

PAGE = (ROOT / "docs/tutorial/index.md").read_text()
SLOW = ("epochs=15", "epochs=1")


def test_the_commands_and_programs_of_the_page_run_in_its_order(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", dress=40, hat=40, pants=40, shoes=40)
    (tmp_path / "photos/hat/broken.jpg").write_text("not an image")
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    after_install = PAGE[PAGE.index("## 2.") :]
    said = []
    for text, language, code in re.findall(
        r"([^`]*(?:`[^`\n]+`[^`]*)*)```(sh|python)\n(.*?)```", after_install, re.DOTALL
    ):
        if language == "python":
            (name,) = re.findall(r"as `(\w+\.py)`:\s*$", text)
            (tmp_path / name).write_text(code.replace(*SLOW))
            continue
        if program := re.fullmatch(r"python (\w+\.py)\n", code):
            ended = run_program(tmp_path / program[1], backend="tensorflow", folder=tmp_path)
            assert ended.code == 0, ended.err
            said.append(ended.out)
            continue
        done = subprocess.run(["bash", "-e", "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == 0, f"{code}{done.stdout}{done.stderr}"
        said.append(done.stdout)

    assert len(said) == 8
    assert "161 listed = 160 written + 1 rejected (FORMAT 1)" in said[1]
    assert '"key": "hat/broken.jpg", "reason": "FORMAT"' in said[2]
    assert "val_accuracy" in said[5] and "looks like" in said[6]
    assert (tmp_path / "first.png").exists() and (tmp_path / "out160/manifest.json").exists()
