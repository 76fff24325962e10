"""Every name and habit of Keras that we rely on and that Keras does not document: a release without
one fails here, not at a user's. Other tests show the behaviour behind a name.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import keras
import pytest

from tests.kit.environments import python_with, run
from tests.kit.sources import ROOT

LISTED = (ROOT / "tests/training/packages.txt").read_text()
OLDEST = re.findall(r"^keras==(.*)$", LISTED, re.MULTILINE)[0]


@pytest.mark.parametrize("which", ["oldest", "newest"])
def test_keras_is_as_fit_needs_it(which: str) -> None:
    python = python_with("training") if which == "oldest" else sys.executable
    program = Path(__file__).with_name("keras_names.py")

    said = run(str(python), str(program), env={**os.environ, "PYTHONPATH": str(ROOT), "KERAS_BACKEND": "numpy"})

    expected = OLDEST if which == "oldest" else keras.__version__
    assert json.loads(said.splitlines()[-1]) == {"version": expected, "wrong": []}
