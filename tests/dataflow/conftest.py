"""A cloud on this machine: a bucket server, Dataflow's front door, and our command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shardfeed.pipeline.dataflow import follow
from shardfeed.storage.gcs_clients import google_client
from tests.dataflow.cloud import Cloud
from tests.dataflow.service import End, FakeDataflow
from tests.kit.beam_worker import copy_sources
from tests.kit.graphs import look_once
from tests.kit.images import make_photos, write
from tests.kit.servers.fake_gcs_server import running_fake_gcs_server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Beam's client of a job leaves its connections to the buckets open when it is forgotten."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(scope="package", autouse=True)
def fast_graphs() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        look_once(patch.setattr)
        yield


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout, with its setup.py."""
    return copy_sources(tmp_path_factory.mktemp("tree"))


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
    photos: Path, tree: Path, module_patch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cloud]:
    """The cloud of a test module, with servers of its own."""
    with running_fake_gcs_server() as gcs, FakeDataflow() as service:
        home = tmp_path_factory.mktemp("home")
        module_patch.setenv("STORAGE_EMULATOR_HOST", gcs)
        module_patch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(service.key_file(home)))
        module_patch.setattr(follow, "POLL_SECONDS", 0.05)
        client = google_client()
        for name in ("photos", "data", "scratch"):
            client.create_bucket(name)
        cloud = Cloud(service, gcs, tree)
        cloud.put(
            "photos", {f"in/{path.relative_to(photos).as_posix()}": path.read_bytes() for path in photos.rglob("*.jpg")}
        )
        yield cloud


@pytest.fixture
def as_usual(cloud: Cloud) -> Iterator[None]:
    """Each test finds a service that takes jobs and says that they are done."""
    yield
    cloud.service.refusal = None
    cloud.service.execute = lambda _job: End()
    cloud.service.taking = lambda: None
    cloud.service.meanwhile = lambda: "JOB_STATE_RUNNING"
    cloud.service.busy.clear()
    cloud.service.asked_for.clear()
    cloud.service.looked_at.clear()
    cloud.service.ended.clear()
