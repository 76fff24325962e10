"""Suffixes of file names that make a file a candidate. Imports neither Pillow nor Beam.

Image formats that we do not decode (TIFF, HEIC, AVIF ...) are candidates too. They become rejects
with the reason FORMAT, which a user sees; files that are skipped by name nobody looks at. The
content decides what a candidate is; the name only decides whether it is read.
"""

from __future__ import annotations

JPEG_SUFFIXES = tuple(b".jfif .jfi .jif .jpe .jpeg .jpg .mpo".split())
_OTHERS_READ = b".apng .bmp .dib .gif .png .webp".split()
_REFUSED = (
    b".avif .avifs .heic .heics .heif .heifs .hif .j2c .j2k .jp2 .jpc .jpf .jpx .jxl .tif .tiff .ico .svg .eps .psd .tga "
    b".ppm .pgm .pbm .pnm .arw .cr2 .cr3 .dng .nef .orf .raf .rw2".split()
)
IMAGE_SUFFIXES = frozenset({*JPEG_SUFFIXES, *_OTHERS_READ, *_REFUSED})
"""Lower-case suffixes, dot included."""
