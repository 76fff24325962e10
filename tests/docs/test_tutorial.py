"""The commands and programs of docs/tutorial run, in the order of the page."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.pages import ROOT, run_shell
from tests.kit.builds import run_program
from tests.kit.commands import write_photos

PAGE = (ROOT / "docs/tutorial/index.md").read_text()
SLOW = ("epochs=15", "epochs=1")


def test_the_commands_and_programs_of_the_page_run_in_its_order(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", dress=20, hat=20, pants=20, shoes=20)
    (tmp_path / "photos/hat/broken.jpg").write_text("not an image")
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
        done = run_shell(code, tmp_path)
        assert done.returncode == 0, f"{code}{done.stdout}{done.stderr}"
        said.append(done.stdout)

    assert len(said) == 8
    assert "81 listed = 80 written + 1 rejected (FORMAT 1)" in said[1]
    assert '"key": "hat/broken.jpg", "reason": "FORMAT"' in said[2]
    assert "val_accuracy" in said[5] and "looks like" in said[6]
    assert (tmp_path / "first.png").exists() and (tmp_path / "out160/manifest.json").exists()
