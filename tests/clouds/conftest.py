"""One dataset in a bucket of each cloud and on a web server, all on this machine."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import obstore
import pytest

from shardfeed.storage import retry
from shardfeed.storage.gcs_clients import google_client
from shardfeed.storage.object_clients import object_client
from shardfeed.transforms import stores
from tests.kit.datasets import Written, write_dataset
from tests.kit.servers.clouds import make_bucket, make_container, running_azurite, running_moto
from tests.kit.servers.file_server import running_file_server

FOLDER = "a b/fl=owers/v1.2 #1 50%25 blüten"
SCHEMES = ("gs", "s3", "az", "http")
ENDPOINTS = {"gs": "STORAGE_EMULATOR_HOST", "s3": "AWS_ENDPOINT_URL", "az": "AZURITE_BLOB_STORAGE_URL"}
SERVERS = {"gs": "fake_gcs_server", "s3": "moto", "az": "azurite"}  # fixtures that give an address


@dataclass(frozen=True)
class Place:
    """A folder ``url`` on a ``server``, and how to take another address for that server."""

    scheme: str
    server: str
    url: str
    redirect: Callable[[str], str]


@dataclass(frozen=True)
class Bucket:
    """The folder ``FOLDER`` of a bucket, or a container."""

    scheme: str
    name: str

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.name}/{FOLDER}"

    def put(self, key: str, data: bytes) -> None:
        if self.scheme == "gs":  # fake-gcs-server does not take what obstore sends
            assert stores.open_output(self.url).create(key, data)
        else:
            obstore.put(object_client(self.scheme, self.name), f"{FOLDER}/{key}", data)

    def delete(self, key: str) -> None:
        obstore.delete(object_client(self.scheme, self.name), f"{FOLDER}/{key}")


def take(scheme: str, server: str, environment: pytest.MonkeyPatch) -> str:
    """Has this process and its children take ``server`` for that cloud."""
    environment.setenv(ENDPOINTS[scheme], server)
    if scheme == "s3":
        environment.setenv("AWS_ACCESS_KEY_ID", "anybody")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "anything")
    elif scheme == "az":
        environment.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
    return server


def new_bucket(scheme: str, server: str) -> Bucket:
    bucket = Bucket(scheme, f"bucket-{uuid.uuid4().hex}")
    if scheme == "gs":
        google_client().create_bucket(bucket.name)
    else:
        {"s3": make_bucket, "az": make_container}[scheme](server, bucket.name)
    return bucket


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "sleep", lambda seconds: None)


@pytest.fixture(scope="session")
def moto() -> Iterator[str]:
    with running_moto() as url:
        yield url


@pytest.fixture(scope="session")
def azurite() -> Iterator[str]:
    with running_azurite() as url:
        yield url


@pytest.fixture
def aws(moto: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """moto, which this process takes for AWS."""
    return take("s3", moto, monkeypatch)


@pytest.fixture
def azure(azurite: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Azurite, which this process takes for Azure."""
    return take("az", azurite, monkeypatch)


@pytest.fixture(params=["s3", "az"])
def bucket(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A new, empty one."""
    scheme = request.param
    return new_bucket(scheme, take(scheme, request.getfixturevalue(SERVERS[scheme]), monkeypatch))


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """The dataset that every place holds."""
    return write_dataset(tmp_path_factory.mktemp("clouds") / "data", image_format="raw")


@pytest.fixture(scope="session", params=SCHEMES)
def held(request: pytest.FixtureRequest, written: Written) -> Iterator[tuple[str, str, str]]:
    """Scheme, server and address of a place that holds the dataset."""
    scheme = request.param
    if scheme == "http":
        with running_file_server(written.path.parent) as server:
            yield scheme, server, f"{server}/data"
        return
    with pytest.MonkeyPatch.context() as environment:
        server = take(scheme, request.getfixturevalue(SERVERS[scheme]), environment)
        bucket = new_bucket(scheme, server)
        for file in written.path.iterdir():
            bucket.put(file.name, file.read_bytes())
    yield scheme, server, bucket.url


@pytest.fixture
def place(held: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch) -> Place:
    scheme, server, url = held
    if scheme == "http":
        return Place(scheme, server, url, lambda other: url.replace(server, other))
    take(scheme, server, monkeypatch)

    def redirect(other: str) -> str:
        monkeypatch.setenv(ENDPOINTS[scheme], other)
        return url

    return Place(scheme, server, url, redirect)
