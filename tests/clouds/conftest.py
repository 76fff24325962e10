"""One dataset in a bucket of each cloud and on a web server, all on this machine."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import obstore
import pytest
from obstore.store import AzureStore, S3Store

from shardfeed.storage import retry
from shardfeed.storage.gcs_clients import google_client
from shardfeed.transforms import stores
from tests.kit.datasets import Written, write_dataset
from tests.kit.servers.clouds import make_bucket, make_container, running_azurite, running_moto
from tests.kit.servers.file_server import running_file_server

if TYPE_CHECKING:
    from obstore.store import ClientConfig

FOLDER = "a b/fl=owers/v1.2 #1 50%25 blüten"
SCHEMES = ("gs", "s3", "az", "http")


@dataclass(frozen=True)
class Place:
    """A folder ``url`` on a ``server``, and how to take another address for that server."""

    scheme: str
    server: str
    url: str
    redirect: Callable[[str], str]


def take_for_aws(server: str, environment: pytest.MonkeyPatch) -> str:
    environment.setenv("AWS_ENDPOINT_URL", server)
    environment.setenv("AWS_ACCESS_KEY_ID", "anybody")
    environment.setenv("AWS_SECRET_ACCESS_KEY", "anything")
    return server


def take_for_azure(server: str, environment: pytest.MonkeyPatch) -> str:
    environment.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
    environment.setenv("AZURITE_BLOB_STORAGE_URL", server)
    return server


def put(scheme: str, bucket: str, name: str, data: bytes) -> None:
    """An object in the folder ``FOLDER`` of a bucket."""
    options: ClientConfig = {"allow_http": True}
    if scheme == "gs":
        assert stores.open_output(f"gs://{bucket}/{FOLDER}").create(name, data)
    elif scheme == "s3":
        obstore.put(S3Store(bucket, client_options=options), f"{FOLDER}/{name}", data)
    else:
        obstore.put(AzureStore(bucket, client_options=options), f"{FOLDER}/{name}", data)


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
    return take_for_aws(moto, monkeypatch)


@pytest.fixture
def azure(azurite: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Azurite, which this process takes for Azure."""
    return take_for_azure(azurite, monkeypatch)


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """The dataset that every place holds."""
    return write_dataset(tmp_path_factory.mktemp("clouds") / "data", image_format="raw")


@pytest.fixture(scope="session", params=SCHEMES)
def held(request: pytest.FixtureRequest, written: Written) -> Iterator[tuple[str, str, str]]:
    """Scheme, server and address of a place that holds the dataset."""
    scheme, name = request.param, f"bucket-{uuid.uuid4().hex}"
    if scheme == "http":
        with running_file_server(written.path.parent) as server:
            yield scheme, server, f"{server}/data"
        return
    with pytest.MonkeyPatch.context() as environment:
        if scheme == "gs":
            server = request.getfixturevalue("fake_gcs_server")
            environment.setenv("STORAGE_EMULATOR_HOST", server)
            google_client().create_bucket(name)
        elif scheme == "s3":
            server = request.getfixturevalue("moto")
            take_for_aws(server, environment)
            make_bucket(server, name)
        else:
            server = request.getfixturevalue("azurite")
            take_for_azure(server, environment)
            make_container(server, name)
        for file in written.path.iterdir():
            put(scheme, name, file.name, file.read_bytes())
    yield scheme, server, f"{scheme}://{name}/{FOLDER}"


@pytest.fixture
def place(held: tuple[str, str, str], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Place:
    scheme, server, url = held
    if scheme == "http":
        return Place(scheme, server, url, lambda other: url.replace(server, other))
    if scheme != "gs":
        request.getfixturevalue({"s3": "aws", "az": "azure"}[scheme])
    variable = {"gs": "STORAGE_EMULATOR_HOST", "s3": "AWS_ENDPOINT_URL", "az": "AZURITE_BLOB_STORAGE_URL"}[scheme]

    def redirect(other: str) -> str:
        monkeypatch.setenv(variable, other)
        return url

    redirect(server)
    return Place(scheme, server, url, redirect)
