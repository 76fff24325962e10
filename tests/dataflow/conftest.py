"""A cloud on this machine: a bucket server, Dataflow's front door, and the command line that speaks to both."""

from __future__ import annotations

import contextlib
import io
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline import dataflow_job
from pipeline.cli import main
from shardfeed.storage.gcs_clients import google_client
from tests.dataflow.service import PROJECT, REGION, FakeDataflow
from tests.packaging import sources
from tests.promises.photos import make_photos, write


@dataclass(frozen=True)
class Ended:
    """One command: exit code and what it said."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Cloud:
    """``gs://PHOTOS/in`` holds photos, ``gs://DATA`` is empty, ``gs://SCRATCH`` takes staged files."""

    service: FakeDataflow
    gcs: str
    tree: Path

    @property
    def options(self) -> list[str]:
        """What Beam needs to submit, to this service."""
        return [
            *("--runner", "DataflowRunner", "--project", PROJECT, "--region", REGION),
            *("--temp_location", "gs://scratch/tmp", "--dataflow_endpoint", self.service.url),
        ]

    @property
    def setup(self) -> list[str]:
        return ["--setup_file", str(self.tree / "setup.py")]

    def build(self, *flags: str, source: str = "gs://photos/in", out: str = "gs://data/out") -> Ended:
        """``shardfeed build`` in this process; a flag given again in ``flags`` wins."""
        return run("build", "--input", source, "--output", out, "--image_size", "16", *flags)

    def submit(self, *flags: str, source: str = "gs://photos/in", out: str = "gs://data/out") -> Ended:
        """The same on Dataflow."""
        return self.build(*self.options, *flags, source=source, out=out)

    def objects(self, bucket: str) -> dict[str, bytes]:
        """Content of a bucket."""
        client = google_client()
        return {blob.name: blob.download_as_bytes() for blob in client.list_blobs(bucket)}


def run(*argv: str) -> Ended:
    """One command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(argv)
        except SystemExit as end:
            code = int(str(end.code))
    return Ended(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a source package is built from: setuptools writes into the tree."""
    copy = tmp_path_factory.mktemp("tree")
    for name in ("LICENSE", "README.md", "pyproject.toml", "setup.py"):
        shutil.copy(sources.ROOT / name, copy)
    for package in sources.PACKAGES:
        shutil.copytree(sources.ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve photos of two classes, and a file that is none."""
    folder = make_photos(tmp_path_factory.mktemp("dataflow") / "photos")
    write(folder, "cat/empty.jpg", b"")
    return folder


@pytest.fixture(scope="module")
def module_patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def cloud(
    photos: Path,
    tree: Path,
    fake_gcs_server: str,
    module_patch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Cloud]:
    """The cloud of a test module; its buckets are empty but for the photos."""
    with FakeDataflow() as service:
        home = tmp_path_factory.mktemp("home")
        module_patch.setenv("STORAGE_EMULATOR_HOST", fake_gcs_server)
        module_patch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(service.key_file(home)))
        module_patch.setattr(dataflow_job, "POLL_SECONDS", 0.05)
        client = google_client()
        for name in ("photos", "data", "scratch"):
            client.create_bucket(name)
        for path in sorted(photos.rglob("*.jpg")):
            blob = client.bucket("photos").blob(f"in/{path.relative_to(photos).as_posix()}")
            blob.upload_from_filename(str(path))
        yield Cloud(service, fake_gcs_server, tree)
        for name in ("photos", "data", "scratch"):
            bucket = client.bucket(name)
            for blob in client.list_blobs(name):
                blob.delete()
            bucket.delete()
