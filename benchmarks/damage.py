"""What becomes of damaged photos: how many a build rejects, and how wrong the pixels are that it
stores.

Each kind of damage is made, by a fixed seed, in the coded data of every photo, between its header
and its end marker. A photo that is stored is compared with the whole one, at full size. It is
harmless if the mean difference is at most 2 levels, else it was missed. Every whole photo must be
stored.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image, ImageChops, ImageStat

from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.images.process import process_image
from shardfeed.transforms.images.rejects import RejectError

_END = b"\xff\xd9"
_LEVELS = 2  # of 255: the mean difference up to which a stored photo counts as harmless


Damage = Callable[..., bytes]


def _cut(data: bytes, at: int, random_: random.Random) -> bytes:
    return data[:at]


def _cut_with_end(data: bytes, at: int, random_: random.Random) -> bytes:
    return data[:at] + _END


def _zeros_to_the_end(data: bytes, at: int, random_: random.Random) -> bytes:
    return data[:at].ljust(len(data) - 2, b"\0") + _END


def _zeroed_block(data: bytes, at: int, random_: random.Random) -> bytes:
    return (
        data[:at] + bytes(4096) + data[at + 4096 :]
        if at + 4096 < len(data) - 2
        else _zeros_to_the_end(data, at, random_)
    )


def _lost_chunk(data: bytes, at: int, random_: random.Random) -> bytes:
    return data[:at] + data[min(at + random_.randrange(1, 8192), len(data) - 2) :]


def _noise(data: bytes, at: int, random_: random.Random) -> bytes:
    at = min(at, len(data) - 66)
    return data[:at] + random_.randbytes(64) + data[at + 64 :]


def _swapped(data: bytes, at: int, random_: random.Random) -> bytes:
    size = (len(data) - 2 - at) // 2
    return data[:at] + data[at + size : at + 2 * size] + data[at : at + size] + data[at + 2 * size :]


def _flipped_bit(data: bytes, at: int, random_: random.Random) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << random_.randrange(8)]) + data[at + 1 :]


KINDS: dict[str, Damage] = {
    "cut": _cut,
    "cut, end marker added": _cut_with_end,
    "zeros from there on": _zeros_to_the_end,
    "4 kB of zeros": _zeroed_block,
    "a piece of up to 8 kB lost": _lost_chunk,
    "64 bytes of noise": _noise,
    "two pieces swapped": _swapped,
    "one bit flipped": _flipped_bit,
}


@dataclass
class Row:
    """What became of the photos with one kind of damage; ``missed``: the mean difference of each
    that was, in levels.
    """

    rejected: int = 0
    harmless: int = 0
    missed: list[float] = field(default_factory=list)


def damaged(data: bytes, kind: str, seed: str) -> bytes:
    """A whole JPEG with ``kind`` of damage at a place that ``seed`` decides."""
    random_ = random.Random(f"{seed} {kind}")
    return KINDS[kind](data, random_.randrange(data.rfind(b"\xff\xda") + 14, len(data) - 2), random_)


def study(photos: Sequence[Path], seed: int) -> dict[str, Row]:
    """Each photo with each kind of damage, as a build would take it.

    Raises:
        SystemExit: a whole photo is rejected.
    """
    rows = {kind: Row() for kind in KINDS}
    for photo in photos:
        data = photo.read_bytes()
        with Image.open(photo) as picture:
            size = picture.size
        whole = _stored(data, size)
        if whole is None:
            raise SystemExit(f"{photo}: a whole photo was rejected")
        for kind, row in rows.items():
            stored = _stored(damaged(data, kind, f"{seed} {photo.name}"), size)
            if stored is None:
                row.rejected += 1
            elif (levels := _difference(whole, stored, size)) <= _LEVELS:
                row.harmless += 1
            else:
                row.missed.append(levels)
    return rows


def _stored(data: bytes, size: tuple[int, int]) -> bytes | None:
    """Raw RGB as a build would store it; None for a reject."""
    try:
        return process_image(data, ImageOptions(height=size[1], width=size[0], format="raw")).data
    except RejectError:
        return None


def _difference(one: bytes, other: bytes, size: tuple[int, int]) -> float:
    """Mean difference of two raw RGB pictures, in levels."""
    pictures = (Image.frombytes("RGB", size, data) for data in (one, other))
    return sum(ImageStat.Stat(ImageChops.difference(*pictures)).mean) / 3


def main() -> None:
    """Prints a line per kind."""
    from common import photos_parser, where  # beside this program; tests import the study alone

    parser = photos_parser(__doc__)
    parser.add_argument("--most", type=int, default=200, help="photos, evenly taken from the folder (200)")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    photos = sorted(args.photos.rglob("*.jpg"))
    photos = photos[:: max(1, len(photos) // args.most)][: args.most]
    rows = study(photos, args.seed)
    print(f"{where()}; {len(photos)} photos, none of them rejected whole")
    print(f"{'':28} rejected  harmless  missed (mean levels off)")
    for kind, row in rows.items():
        levels = ", ".join(f"{each:.0f}" for each in sorted(row.missed))
        print(f"{kind:28} {row.rejected:8}  {row.harmless:8}  {len(row.missed)}{f' ({levels})' if levels else ''}")
    missed, made = sum(len(row.missed) for row in rows.values()), len(photos) * len(rows)
    print(f"of {made} damaged photos, {1 - missed / made:.3f} are rejected or harmless")


if __name__ == "__main__":
    main()
