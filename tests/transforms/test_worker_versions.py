"""A worker of another Python, Beam, shardfeed or codec is refused before anything is listed."""

from __future__ import annotations

import pytest

from shardfeed.errors import UsageError
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.run.versions import Versions, require_same_versions, versions_here

HERE = dict(versions_here())


def launched_with(name: str) -> Versions:
    """A launcher's versions: this process's, but for one."""
    return tuple({**HERE, name: "0.1.2.3"}.items())


@pytest.mark.parametrize("image", [None, ImageOptions(), ImageOptions(format="png", resizer="pillow")])
def test_the_launchers_own_versions_are_accepted(image: ImageOptions | None) -> None:
    require_same_versions(versions_here(image))


OTHER = (
    "the workers run other versions than this launcher: {} there, 0.1.2.3 here. Give an image with the launcher's versions "
    "(--sdk_container_image; Dockerfile makes one), or none, or launch with the image's versions."
)
CODEC = (
    "the workers run other codecs than this launcher, and would make other bytes: {} there, 0.1.2.3 here. Use one image for "
    "launcher and workers (Dockerfile makes one)"
)
PIP = ", or install the launcher's where the workers run (pip install %s==0.1.2.3; --setup_file does it)."


@pytest.mark.parametrize(
    ("name", "message"),
    [
        *((name, OTHER) for name in ("Python", "apache-beam", "shardfeed")),
        ("pillow", CODEC + PIP % "pillow"),
        ("cykooz_resizer", CODEC + PIP % "cykooz-resizer"),
        *((name, f"{CODEC}.") for name in ("libjpeg_turbo", "zlib")),
    ],
)
def test_another_version_is_named_with_the_remedy_and_a_codec_pinned_where_pip_has_it(name: str, message: str) -> None:
    with pytest.raises(UsageError) as found:
        require_same_versions(launched_with(name))

    assert str(found.value) == message.format(f"{name} {HERE[name]}")


def test_a_codec_that_cannot_change_a_byte_is_not_compared() -> None:
    named = {name for name, _ in versions_here(ImageOptions(format="jpeg", resizer="pillow"))}

    assert HERE.keys() - named == {"zlib", "cykooz_resizer", "libtiff", "pylibjxl", "libjxl"}
