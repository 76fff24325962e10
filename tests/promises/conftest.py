"""The one costly thing that two promises share."""

from __future__ import annotations

import pytest

from tests.promises.killed import KilledBuilds, kill_everywhere


@pytest.fixture(scope="session")
def killed_builds(tmp_path_factory: pytest.TempPathFactory) -> KilledBuilds:
    """A small build, killed at each of its steps and run again."""
    return kill_everywhere(tmp_path_factory.mktemp("killed"))
