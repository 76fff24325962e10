"""The source package that travels with a job (``--setup_file``) asks for the codecs of the launcher that sent it.

The package takes ranges, since trainers install it too; workers that took the newest of them, or what Beam's image happens to
hold, would make other bytes than a build on the launcher's machine, and their first step would refuse them. Beam builds that
package in a process of its own, so the versions reach setup.py by the environment.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from shardfeed.pipeline.config.engine import Engine
from shardfeed.transforms.images.versions import codec_versions
from shardfeed.transforms.run.versions import codec_pins

PINS = "SHARDFEED_PINS"


@contextlib.contextmanager
def codecs_pinned(engine: Engine) -> Iterator[None]:
    """While this is on, a source package that is built for ``engine``'s workers names exact codecs."""
    if engine.arg("setup_file") is None:
        yield
        return
    os.environ[PINS] = codec_pins(codec_versions())
    try:
        yield
    finally:
        del os.environ[PINS]
