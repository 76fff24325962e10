"""One dataset in a bucket of each cloud and on a web server, all on this machine."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import obstore
import pytest
from obstore.store import AzureStore, S3Store

from shardfeed.storage import retry
from shardfeed.transforms import stores
from tests.kit.datasets import Written, write_dataset
from tests.kit.servers.clouds import make_bucket, make_container, running_azurite, running_moto
from tests.kit.servers.file_server import running_file_server

FOLDER = "a b/fl=owers/v1.2 #1 50%25 blüten"
SCHEMES = ("gs", "s3", "az", "http")


@dataclass(frozen=True)
class Place:
    """A folder ``url`` on a ``server``, and how to take another address for that server."""

    scheme: str
    server: str
    url: str
    redirect: Callable[[str], str]


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
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "anybody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "anything")
    return moto


@pytest.fixture
def azure(azurite: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Azurite, which this process takes for Azure."""
    monkeypatch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
    monkeypatch.setenv("AZURITE_BLOB_STORAGE_URL", azurite)
    return azurite


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """The dataset that every place holds."""
    return write_dataset(tmp_path / "data", image_format="raw")


@pytest.fixture(params=SCHEMES)
def place(request: pytest.FixtureRequest, written: Written, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    scheme, bucket = request.param, f"bucket-{uuid.uuid4().hex}"
    files = {file.name: file.read_bytes() for file in written.path.iterdir()}

    def variable(name: str, url: str) -> Callable[[str], str]:
        def redirect(server: str) -> str:
            monkeypatch.setenv(name, server)
            return url

        return redirect

    if scheme == "gs":
        store = stores.open_output(f"{request.getfixturevalue('gcs_bucket')}/{FOLDER}")
        for name, data in files.items():
            store.create(name, data)
        server = request.getfixturevalue("fake_gcs_server")
        yield Place(scheme, server, store.url, variable("STORAGE_EMULATOR_HOST", store.url))
    elif scheme == "s3":
        server = request.getfixturevalue("aws")
        make_bucket(server, bucket)
        for name, data in files.items():
            obstore.put(S3Store(bucket, client_options={"allow_http": True}), f"{FOLDER}/{name}", data)
        url = f"s3://{bucket}/{FOLDER}"
        yield Place(scheme, server, url, variable("AWS_ENDPOINT_URL", url))
    elif scheme == "az":
        server = request.getfixturevalue("azure")
        make_container(server, bucket)
        for name, data in files.items():
            obstore.put(AzureStore(bucket, client_options={"allow_http": True}), f"{FOLDER}/{name}", data)
        url = f"az://{bucket}/{FOLDER}"
        yield Place(scheme, server, url, variable("AZURITE_BLOB_STORAGE_URL", url))
    else:
        with running_file_server(written.path.parent) as server:
            yield Place(scheme, server, f"{server}/data", lambda other: f"{other}/data")
