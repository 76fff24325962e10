"""Why an image is not in the dataset: each image is written or has exactly one of these reasons."""

from __future__ import annotations

import enum


class Reason(str, enum.Enum):
    """Reason of a reject. The values are part of the format (rejects files, manifest)."""

    EMPTY = "EMPTY"  # zero bytes
    FORMAT = "FORMAT"  # by content of no format that the build reads
    TRUNCATED = "TRUNCATED"  # the data ends before the image does
    CORRUPT = "CORRUPT"  # the decoder refuses the data
    TOO_LARGE = "TOO_LARGE"  # file above --max_file_bytes
    PIXELS = "PIXELS"  # source above --max_pixels
    ASPECT = "ASPECT"  # sides above --max_aspect : 1
    SMALL = "SMALL"  # shorter side below --min_size
    OUTPUT = "OUTPUT"  # the resized image would have more than 4 Mpx
    NAME = "NAME"  # the file name is not UTF-8
    CHANGED = "CHANGED"  # overwritten or deleted since the listing
    CHECKSUM = "CHECKSUM"  # the bytes read differ from the listed crc32c, after retries
    ENCODE = "ENCODE"  # the encoder refuses the pixels
    # The next three depend on the machine too. So they are no part of "the same bytes" (P3).
    CRASHED = "CRASHED"  # the decoder ends its process
    TIMEOUT = "TIMEOUT"  # the decoder takes longer than --image_timeout
    MEMORY = "MEMORY"  # the decoder asks for more memory than any image within the limits needs


class RejectError(Exception):
    """One image cannot be used; never leaves the encode step."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason.value}: {detail}")
        self.reason, self.detail = reason, detail
