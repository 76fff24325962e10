"""The one costly thing that two promises share."""

from __future__ import annotations

import pytest

from tests.kit import builds
from tests.promises.killed import KilledBuilds, kill_everywhere


@pytest.fixture(scope="session", params=builds.DRIVERS)
def killed_builds(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> KilledBuilds:
    """A small build under one driver, killed at its steps; either driver then finishes it."""
    return kill_everywhere(tmp_path_factory.mktemp("killed"), request.param)
