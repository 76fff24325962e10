"""The source package that travels with a job (``--setup_file``) asks for the launcher's codecs.

The package itself takes ranges, because trainers install it too. Workers with the newest versions,
or with what Beam's image happens to hold, would make other bytes than the launcher, and their first
step would refuse them. Beam builds the package in another process, so the versions reach setup.py
by the environment.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from shardfeed.pipeline.config.engine import Engine
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.images.versions import codec_versions
from shardfeed.transforms.run.versions import codec_pins

PINS = "SHARDFEED_PINS"


@contextlib.contextmanager
def codecs_pinned(engine: Engine, image: ImageOptions) -> Iterator[None]:
    """In the block, a source package built for ``engine``'s workers names exact codecs.

    Which ones, ``image`` says: what a build of these options decodes and encodes with.
    """
    if engine.arg("setup_file") is None:
        yield
        return
    os.environ[PINS] = codec_pins(codec_versions(image))
    try:
        yield
    finally:
        del os.environ[PINS]
