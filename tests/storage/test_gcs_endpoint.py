"""Where the clients find an emulator: ``STORAGE_EMULATOR_HOST`` as Google's other clients take it."""

from __future__ import annotations

import pytest

from shardfeed.transforms import stores
from shardfeed.transforms.sources import open_source
from tests.kit.servers.strict_gcs import StrictGCS


@pytest.mark.parametrize("form", ["http://{}", "http://{}/", "{}", "{}/"])
def test_an_emulator_may_be_given_without_a_scheme(
    form: str, strict_gcs: StrictGCS, monkeypatch: pytest.MonkeyPatch, waits: list[float]
) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", form.format(strict_gcs.url.removeprefix("http://")))
    stores.open_output("gs://bucket").create("in/1.jpg", b"x")
    source = open_source("gs://bucket/in")
    (listed,) = source.list(b"")

    assert (listed.key, source.read(listed.key, listed.stat), waits) == (b"1.jpg", b"x", [])
    assert [request.kind for request in strict_gcs.log] == ["upload", "list", "get"]
