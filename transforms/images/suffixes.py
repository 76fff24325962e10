"""Suffixes of file names that make a file a candidate. Imports neither Pillow nor Beam.

Image formats that we do not decode (JPEG 2000, raw files of cameras ...) are candidates too. They
become rejects with the reason FORMAT, which a user sees; files that are skipped by name nobody
looks at. The content decides what a candidate is; the name only decides whether it is read.
"""

from __future__ import annotations

from shardfeed.transforms.images.formats.table import INPUT_FORMATS

JPEG_SUFFIXES = tuple(sorted(suffix.encode() for suffix in INPUT_FORMATS["jpeg"].suffixes))
_READ = [suffix.encode() for row in INPUT_FORMATS.values() for suffix in row.suffixes]
_REFUSED = (
    *b".j2c .j2k .jp2 .jpc .jpf .jpx .ico .svg .eps .psd .tga .ppm .pgm .pbm .pnm".split(),
    *b".arw .cr2 .cr3 .dng .nef .orf .raf .rw2".split(),
)
IMAGE_SUFFIXES = frozenset({*_READ, *_REFUSED})
"""Lower-case suffixes, dot included."""
