"""A worker of another Python, Beam or shardfeed is refused before anything is listed."""

from __future__ import annotations

import pytest

from shardfeed.errors import UsageError
from transforms.worker_versions import require_same, versions_here


def test_the_launchers_own_versions_are_accepted() -> None:
    require_same(versions_here())


@pytest.mark.parametrize("name", ["Python", "apache-beam", "shardfeed"])
def test_another_version_is_named_with_the_remedy(name: str) -> None:
    here = dict(versions_here())

    with pytest.raises(UsageError) as found:
        require_same(tuple({**here, name: "0.1.2.3"}.items()))

    assert str(found.value) == (
        f"the workers run other versions than this launcher: {name} {here[name]} there, 0.1.2.3 here. Give an image with the "
        "launcher's versions (--sdk_container_image; Dockerfile makes one), or none, or launch with the image's versions."
    )
