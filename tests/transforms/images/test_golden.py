from __future__ import annotations

import json

from shardfeed.transforms.images.formats.table import INPUT_FORMATS
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.images.versions import codec_versions
from shardfeed.transforms.options import ENCODER_REVISION
from tests.transforms.images.golden import TABLE, codecs, digests

ALL = tuple(sorted(INPUT_FORMATS))
REMEDY = "python -m tests.transforms.images.golden > new.json && mv new.json tests/transforms/images/golden.json"


def test_no_stored_byte_changes_without_a_new_encoder_revision() -> None:
    key = f"revision {ENCODER_REVISION}: {codecs()}"
    table = json.loads(TABLE.read_text())
    assert key in table, f"No digests for {key}. If revision or codecs are new, add them: {REMEDY}"
    assert digests() == table[key], f"Our code changed stored bytes: raise ENCODER_REVISION, then {REMEDY}"


def test_only_codecs_that_can_change_a_byte_are_named() -> None:
    everything = codec_versions()
    assert sorted(everything) == [
        "cykooz_resizer",
        "libavif",
        "libde265",
        "libheif",
        "libjpeg_turbo",
        "libjxl",
        "libtiff",
        "littlecms2",
        "pi_heif",
        "pillow",
        "pylibjxl",
        "simplejpeg",
        "simplejpeg_libjpeg_turbo",
        "webp",
        "zlib",
    ]
    assert set(everything) - set(codec_versions(ImageOptions())) == {"zlib", "libtiff", "pylibjxl", "libjxl"}
    assert set(everything) - set(codec_versions(ImageOptions(format="png", resizer="pillow", formats=ALL))) == {
        "cykooz_resizer"
    }
