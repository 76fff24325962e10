"""Addresses, and what importing the package costs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shardfeed import storage
from shardfeed.errors import UsageError
from shardfeed.transforms import stores
from shardfeed.transforms.sources import open_source


def test_importing_the_package_loads_no_cloud_client_and_no_framework() -> None:
    code = (
        "import sys\n"
        "from shardfeed.transforms import sources, stores\n"
        "stores.open_output('out'), sources.open_source('in')\n"
        "heavy = ('google.cloud.storage', 'google.auth', 'google.api_core', 'obstore', 'requests', 'urllib3', 'numpy')\n"
        "heavy += ('tensorflow', 'apache_beam', 'PIL')\n"
        "print([name for name in sys.modules if name.startswith(heavy)])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


@pytest.mark.parametrize(
    ("url", "remote"),
    [("gs://bucket/a", True), ("s3://bucket", True), ("/data/gs", False), ("photos", False), ("~/a:b//c", False)],
)
def test_an_address_with_a_scheme_is_remote(url: str, remote: bool) -> None:
    assert storage.is_remote(url) is remote


@pytest.mark.parametrize(
    ("url", "joined"),
    [
        ("gs://bucket", "gs://bucket/train-0"),
        ("gs://bucket/out/", "gs://bucket/out/train-0"),
        ("/data/out", "/data/out/train-0"),
        ("/", "/train-0"),
        ("out/", "out/train-0"),
    ],
)
def test_a_name_is_joined_with_one_slash(url: str, joined: str) -> None:
    assert storage.join_url(url, "train-0") == joined


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("gs://", "gs:// names no bucket; write gs://BUCKET or gs://BUCKET/FOLDER."),
        ("out\0", "out\\x00: no name holds a zero byte. Correct the path."),
        ("gs://bucket/a\0b", "gs://bucket/a\\x00b: no name holds a zero byte. Correct the path."),
        ("gs:///folder", "gs:///folder names no bucket; write gs://BUCKET or gs://BUCKET/FOLDER."),
        ("gs://-a/b", "gs://-a/b: -a cannot be a bucket; a name begins and ends with a letter or a digit."),
        ("gs://a_/b", "gs://a_/b: a_ cannot be a bucket; a name begins and ends with a letter or a digit."),
    ],
)
def test_an_address_that_cannot_be_used_says_what_can(url: str, said: str) -> None:
    for opened in (open_source, storage.open_store, stores.open_output):
        with pytest.raises(UsageError) as raised:
            opened(url)
        assert said in str(raised.value)


INPUT = "a local path, gs://bucket/folder, s3://bucket/folder or az://container/folder"
OUTPUT = "a local path or gs://bucket/folder"
COPY, GIVE, PATH = "Copy the data to one of these first.", "Give one of these.", "Write the path without file://."


@pytest.mark.parametrize(
    ("opened", "url", "said"),
    [
        (open_source, "https://host/a", f"{INPUT}. {COPY}"),
        (open_source, "file:///data", f"{INPUT}. {PATH}"),
        *(
            (stores.open_output, url, f"{OUTPUT}. {GIVE}")
            for url in ("s3://bucket/a", "az://container/a", "https://host/a")
        ),
        (stores.open_output, "file:///data", f"{OUTPUT}. {PATH}"),
    ],
)
def test_a_build_reads_buckets_of_three_clouds_and_writes_google_s(
    opened: Callable[[str], object], url: str, said: str
) -> None:
    with pytest.raises(UsageError) as raised:
        opened(url)
    assert f"is not supported; allowed: {said}" in str(raised.value)


SCHEMES = (
    "is not supported; allowed: a local path, gs://bucket/folder, s3://bucket/folder, az://container/folder or "
    "https://host/folder."
)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("hdfs://host/a", f"dataset hdfs://host/a: hdfs:// {SCHEMES} Copy the data to one of these first."),
        ("file:///data", f"dataset file:///data: file:// {SCHEMES} Write the path without file://."),
        ("s3://", "s3:// names no bucket; write s3://BUCKET/FOLDER."),
        ("az:///a", "az:///a names no container; write az://CONTAINER/FOLDER."),
        ("https://", "https:// names no host; write https://HOST/FOLDER."),
        ("https://host/a?sig=1", "cannot end in a query (?) or a fragment (#). Give the folder's own address"),
        *((f"s3://bucket/{name}", "is read by paths, which hold no empty part") for name in ("a//b", "a/../b", "./a")),
    ],
)
def test_a_dataset_s_address_that_cannot_be_read_says_what_can(url: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        storage.open_store(url)
    assert said in str(raised.value)


def test_missing_credentials_say_how_to_log_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STORAGE_EMULATOR_HOST", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": str(tmp_path), "PATH": "", "NO_GCE_CHECK": "true"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError) as raised:
        open_source("gs://bucket/photos").sections()
    assert str(raised.value) == (
        "gs:// needs Google credentials and none were found. Log in with: gcloud auth application-default login "
        "(or set GOOGLE_APPLICATION_CREDENTIALS to a service account's key file)."
    )
