"""Suffixes of file names that make a file a candidate. Imports neither Pillow nor Beam.

Image formats that we do not decode (TIFF, HEIC, AVIF ...) are candidates too. They become rejects
with the reason FORMAT, which a user sees; files that are skipped by name nobody looks at. The
content decides what a candidate is; the name only decides whether it is read.
"""

from __future__ import annotations

SUPPORTED_SUFFIXES: frozenset[str] = frozenset(
    {".apng", ".bmp", ".dib", ".gif", ".jfif", ".jfi", ".jif", ".jpe", ".jpeg", ".jpg", ".mpo", ".png", ".webp"}
)
JPEG_SUFFIXES: frozenset[str] = frozenset({".jfif", ".jfi", ".jif", ".jpe", ".jpeg", ".jpg", ".mpo"})
REFUSED_SUFFIXES: frozenset[str] = frozenset(
    {
        *(".avif", ".avifs", ".heic", ".heics", ".heif", ".heifs", ".hif"),
        *(".j2c", ".j2k", ".jp2", ".jpc", ".jpf", ".jpx", ".jxl"),
        *(".tif", ".tiff", ".ico", ".svg", ".eps", ".psd", ".tga", ".ppm", ".pgm", ".pbm", ".pnm"),
        *(".arw", ".cr2", ".cr3", ".dng", ".nef", ".orf", ".raf", ".rw2"),
    }
)
IMAGE_SUFFIXES: frozenset[str] = SUPPORTED_SUFFIXES | REFUSED_SUFFIXES
"""Lower-case suffixes, dot included."""
