"""Every name and habit of Keras that we rely on and that Keras does not document: a release without
one fails here, not at a user's. Other tests show the behaviour behind a name.
"""

from __future__ import annotations

import json
import os
import re

import keras

from tests.kit.environments import python_with, run
from tests.kit.sources import ROOT
from tests.training import programs

LISTED = (ROOT / "tests/training/packages.txt").read_text()
OLDEST = re.findall(r"^keras==(.*)$", LISTED, re.MULTILINE)[0]


def test_the_oldest_keras_is_as_fit_needs_it() -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "KERAS_BACKEND": "numpy"}

    said = run(str(python_with("training")), str(programs.HERE / "keras_names.py"), env=env)

    assert json.loads(said.splitlines()[-1]) == {"version": OLDEST, "wrong": []}


def test_the_newest_keras_is_as_fit_needs_it() -> None:
    assert programs.run("keras_names.py") == {"version": keras.__version__, "wrong": []}
