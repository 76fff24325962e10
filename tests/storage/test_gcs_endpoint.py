"""Where the clients find an emulator: ``STORAGE_EMULATOR_HOST`` as Google's other clients take it."""

from __future__ import annotations

import pytest

from shardfeed import storage
from tests.kit.servers.strict_gcs import StrictGCS


@pytest.mark.parametrize("form", ["http://{}", "http://{}/", "{}", "{}/"])
def test_an_emulator_may_be_given_without_a_scheme(
    form: str, strict_gcs: StrictGCS, monkeypatch: pytest.MonkeyPatch, waits: list[float]
) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", form.format(strict_gcs.url.removeprefix("http://")))
    storage.open_store("gs://bucket").create("in/1.jpg", b"x")
    source = storage.open_source("gs://bucket/in")
    (listed,) = source.list(b"")

    assert (listed.key, source.read(listed.key, listed.stat), waits) == (b"1.jpg", b"x", [])
    assert [request.kind for request in strict_gcs.log] == ["upload", "list", "get"]
