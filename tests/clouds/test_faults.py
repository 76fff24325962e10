"""What a bad line, a busy server and missing rights do: the same bytes after all, or a name."""

from __future__ import annotations

import logging
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import shardfeed
from shardfeed import storage
from shardfeed.storage import object_clients, retry
from tests.clouds.conftest import SCHEMES, Place, new_bucket
from tests.kit.datasets import Written
from tests.kit.environments import python_with, run
from tests.kit.servers.faulty_proxy import EFFECTS, Effect, FaultyProxy
from tests.kit.servers.ports import unused_port

SHARD = "train-00001-of-00003.tfrecord"


@pytest.fixture
def proxy(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyProxy]:
    monkeypatch.setattr(object_clients, "TIMEOUT", (10, 0.5))  # seconds; what is late is late after this
    with FaultyProxy(place.server) as proxy:
        yield proxy


@pytest.mark.parametrize(("held", "effect"), [*zip(SCHEMES, EFFECTS, strict=True)], indirect=["held"])
def test_a_fault_that_passes_changes_no_byte(
    place: Place, proxy: FaultyProxy, written: Written, effect: Effect
) -> None:
    url = place.redirect(proxy.url)
    info = shardfeed.info(url)
    proxy.inject(effect, 2 if effect == "late" else 5)

    ours = list(shardfeed.array_batches(info, "train", 9, shuffle_buffer="1GB", epochs=1, start_step=0))

    theirs = list(shardfeed.array_batches(written.path, "train", 9, shuffle_buffer="1GB", epochs=1, start_step=0))
    assert all((a[0] == b[0]).all() and (a[1] == b[1]).all() for a, b in zip(ours, theirs, strict=True))
    assert proxy.left == 0


@pytest.mark.parametrize(
    ("held", "effect"), [("http", "503"), ("gs", "half"), ("s3", "short"), ("az", "503")], indirect=["held"]
)
def test_a_fault_that_stays_is_named_with_the_file(place: Place, proxy: FaultyProxy, effect: Effect) -> None:
    url = place.redirect(proxy.url)
    store = storage.open_store(url)
    proxy.inject(effect, 10)

    with pytest.raises(shardfeed.StorageError) as raised:
        store.read_range(SHARD, 0, 100)

    assert str(raised.value).startswith(f"cannot get {url}/{SHARD}: ")
    assert str(raised.value).endswith(", 10 times. Run the same command again later.")


def test_a_store_to_which_there_is_no_way_says_why(place: Place) -> None:
    url = place.redirect(f"http://127.0.0.1:{unused_port()}")
    with pytest.raises(shardfeed.StorageError) as raised:
        storage.open_store(url).read_range(SHARD, 0, 100)

    assert str(raised.value) == (
        f"cannot get {url}/{SHARD}: tcp connect error, Connection refused, 10 times. Check the address and the network, then "
        "run the same command again."
    )


@pytest.mark.parametrize("held", ["az"], indirect=True)
def test_a_store_that_is_silent_is_told_in_one_line(
    place: Place, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(retry, "_LOGGED_AFTER", 0.0)
    monkeypatch.setattr(retry, "_last_logged", -math.inf)
    store = storage.open_store(place.redirect(proxy.url))
    proxy.inject("late", 2)

    assert len(store.read_range(SHARD, 0, 100)) == 100

    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [line.partition(" in ")[0] for line in lines] == ["A request failed 1 time"]


S3_REMEDY = (
    "Set AWS_PROFILE (with boto3 installed), or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, of an account that has "
    "s3:GetObject and s3:ListBucket there. For a public bucket, set AWS_SKIP_SIGNATURE=true."
)


def test_missing_credentials_of_aws_say_how_to_give_some(
    aws: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"http://127.0.0.1:{unused_port()}")

    with pytest.raises(shardfeed.UsageError) as raised:
        shardfeed.info("s3://nobody-s/a")

    assert str(raised.value) == (
        f"s3:// needs credentials and none were found for s3://nobody-s/a/manifest.json. {S3_REMEDY}"
    )


def test_profiles_of_aws_without_boto3_say_what_to_install(
    aws: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    (tmp_path / "config").write_text("[profile work]\nregion = eu-north-1\n")
    monkeypatch.setitem(sys.modules, "botocore", None)

    with pytest.raises(
        shardfeed.UsageError, match=r"^s3:// needs credentials\. There are profiles .*: pip install boto3,"
    ):
        shardfeed.info("s3://nobody-p/a")


def test_a_profile_of_aws_is_used(moto: str, tmp_path: Path) -> None:
    url = new_bucket("s3", moto).url
    (tmp_path / "credentials").write_text("[work]\naws_access_key_id = OFTHEPROFILE\naws_secret_access_key = secret\n")
    (tmp_path / "config").write_text("[profile work]\nregion = eu-north-1\n")
    script = f"from shardfeed import storage; print(list(storage.open_store({url!r}).list()))"
    with FaultyProxy(moto) as proxy:
        env = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(sys.path),
            "AWS_ENDPOINT_URL": proxy.url,
            "AWS_PROFILE": "work",
            "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
            "AWS_CONFIG_FILE": str(tmp_path / "config"),
        }
        assert run(str(python_with("clouds")), "-c", script, env=env) == "[]\n"
    (_, _, headers), *_ = proxy.log
    assert "Credential=OFTHEPROFILE/" in headers["authorization"]
    assert "/eu-north-1/s3/" in headers["authorization"]


def test_azure_without_an_account_says_how_to_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AZURE")]:
        monkeypatch.delenv(name)

    with pytest.raises(shardfeed.UsageError, match=r"^az://c cannot be opened: .*Set AZURE_STORAGE_ACCOUNT_NAME to"):
        shardfeed.info("az://c/a")


def test_a_wrong_key_of_azure_says_who_may_read(azure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "AAAA")

    with pytest.raises(shardfeed.UsageError) as raised:
        shardfeed.info("az://wrong-key/a")

    assert str(raised.value).startswith("no permission to get az://wrong-key/a/manifest.json (403: ")
    assert str(raised.value).endswith("For a public container, set AZURE_SKIP_SIGNATURE=true.")
