"""A folder of images, on the disk or as a "bucket", and encoders from it to an output."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from shardfeed.format import tfrecord
from shardfeed.format.example import decode_example
from shardfeed.storage import Stat
from shardfeed.transforms.elements import ImageRef, PartResult, Plan, SplitPlan, pack_ref
from shardfeed.transforms.encode import part_encoder, slices
from shardfeed.transforms.encode.in_flight import PartsInFlight
from shardfeed.transforms.encode.part_encoder import PartEncoder
from shardfeed.transforms.encode.settings import EncoderSettings
from shardfeed.transforms.encode.slices import SliceEncoder
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.options import BuildOptions
from shardfeed.transforms.output.part_files import read_sidecar
from shardfeed.transforms.run.state import Run
from shardfeed.transforms.stores.base import WritableStore
from shardfeed.transforms.stores.local import WritableLocalStore

OPTIONS = BuildOptions(image=ImageOptions(height=8, width=8))
PLAN = Plan("f", ("cat", "dog"), {"pillow": "12"}, 30, {"train": SplitPlan(1, 1, 30)})


def encode_part(encoder: PartEncoder, refs: list[ImageRef], part: int = 0) -> PartResult:
    """The only part in flight."""
    flying = PartsInFlight(encoder, encoder._run)
    packed = [pack_ref(ref) for ref in refs]
    ((result, _),) = chain(flying.submit("train", part, packed), flying.flush())
    return result


class Folder:
    """An input folder and an output, and encoders between them."""

    def __init__(self, path: Path) -> None:
        self.root, self.store = path / "in", WritableLocalStore(str(path / "out"))
        self.run = Run("run", self.store.url)
        self._open: list[PartEncoder | SliceEncoder] = []

    def add(self, key: bytes, data: bytes | None = None) -> ImageRef:
        path = os.fsencode(self.root) + b"/" + key
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(_image(len(key)) if data is None else data)
        found = os.stat(path)
        return ImageRef(0, key, Stat(found.st_size, found.st_mtime_ns))

    def encoder(
        self,
        options: BuildOptions = OPTIONS,
        plan: Plan = PLAN,
        threads: int = 2,
        roots: int = 1,
        processes: int = 1,
        encoders: int = 0,
    ) -> PartEncoder:
        sources = [str(self.root), *(f"{self.root}{n}" for n in range(1, roots))]
        slices = SliceEncoder(plan, EncoderSettings(sources, options, self.run, threads, encoders, processes))
        encoder = PartEncoder(slices)
        self._open += [encoder, slices]
        return encoder

    def encode(
        self, refs: list[ImageRef], options: BuildOptions = OPTIONS, plan: Plan = PLAN, **how: int
    ) -> PartResult:
        """``how``: as for ``encoder``."""
        return encode_part(self.encoder(options, plan, **how), refs)

    def examples(self, result: PartResult) -> list[dict[str, list[bytes] | list[int] | list[float]]]:
        name = f"_parts/f/{result.split}/{result.part:05d}-{result.crc32c:08x}-{result.bytes}"
        return [decode_example(data) for _, data in tfrecord.scan(io.BytesIO(self.store.read(name)))]

    def rejects(self, part: int = 0) -> list[tuple[str, str, str]]:
        sidecar = read_sidecar(self.store, "f", "train", part)
        assert sidecar is not None
        return list(sidecar.rejects)

    def close(self) -> None:
        for encoder in self._open:
            encoder.close()


@pytest.fixture(scope="module", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """Nobody pulls the plug here. ``tests/storage`` proves what is synced."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _file: None)
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    """On the disk."""
    folder = Folder(tmp_path)
    yield folder
    folder.close()


@pytest.fixture
def bucket(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """As a "bucket", with threads that read and others that encode."""
    for module in (part_encoder, slices):
        monkeypatch.setattr(module, "storage", SimpleNamespace(is_remote=lambda _url: True))
    return folder


@pytest.fixture(params=["folder", "bucket"])
def either(request: pytest.FixtureRequest) -> Folder:
    """On the disk and as a "bucket", for what the threads of each do."""
    found: Folder = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def store(tmp_path: Path) -> WritableStore:
    return WritableLocalStore(str(tmp_path / "out"))


def _image(seed: int, size: tuple[int, int] = (12, 9)) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()
