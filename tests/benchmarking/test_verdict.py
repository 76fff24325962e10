"""What a benchmark says about its figures: the bottleneck by name, what to change, and a warning where training waits."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from shardfeed.benchmarking.limits import rate_of
from shardfeed.benchmarking.result import Benchmark

MEASURED = Benchmark(
    images_per_second=5_000,
    megabytes_per_second=75,
    cores=2,
    batch_size=128,
    first_batch_seconds=0.5,
    decode_limit=5_500,
    read_limit=50_000,
    needed=None,
    remote=False,
    added=True,
    image_format="jpeg",
)


@pytest.mark.parametrize(
    ("changes", "bottleneck"),
    [
        ({}, "decoding"),
        ({"needed": 4_000}, "consumer"),
        ({"needed": 5_000}, "consumer"),
        ({"needed": 6_000}, "decoding"),
        ({"read_limit": 5_500}, "reading"),
        ({"read_limit": 3_000, "decode_limit": 50_000}, "reading"),
        ({"images_per_second": 2_000}, "other work"),
        ({"images_per_second": 2_000, "remote": True}, "reading"),
        ({"decode_limit": None}, "other work"),
        ({"decode_limit": None, "read_limit": 5_500}, "reading"),
        ({"images_per_second": 3_500, "added": False}, "decoding"),
        ({"images_per_second": 3_500, "added": False, "read_limit": 5_400}, "reading"),
        ({"images_per_second": 2_000, "added": False, "remote": True}, "reading"),
        ({"image_format": "raw"}, "copying"),
        ({"decode_limit": None, "read_limit": None, "added": False}, "copying"),
        ({"decode_limit": None, "read_limit": None}, "other work"),
    ],
    ids=str,
)
def test_the_slowest_of_the_chain_is_the_bottleneck(changes: dict[str, float], bottleneck: str) -> None:
    assert replace(MEASURED, **changes).bottleneck == bottleneck  # type: ignore[arg-type]


def test_without_a_step_it_says_which_accelerators_never_wait() -> None:
    assert str(MEASURED) == (
        "input          5,000 img/s, 75.0 MB/s, 2,500 img/s a core (2 cores)\n"
        "first batch    0.50 s\n"
        "decoding alone 5,500 img/s: the stream reaches 0.91 of it\n"
        "reading alone  50,000 img/s: the stream reaches 0.10 of it\n"
        "\n"
        "Bottleneck: decoding. An accelerator that takes 25.6 ms or more for a batch of 128 never waits for this input; a "
        "faster one does. Use more cores, or store images that decode faster: smaller ones (--image_size), a lower --quality, "
        "or --image_format raw, which is not decoded at all but is about ten times as large."
    )


def test_an_accelerator_that_waits_is_a_warning() -> None:
    waiting = replace(MEASURED, needed=10_000.0)

    assert waiting.fast_enough is False
    assert str(waiting).splitlines()[-3:] == [
        "accelerator    10,000 img/s (12.8 ms a step)",
        "",
        "WARNING: the input is slower than the accelerator, which waits 50% of the time. Bottleneck: decoding. Use more cores, "
        "or store images that decode faster: smaller ones (--image_size), a lower --quality, or --image_format raw, which is "
        "not decoded at all but is about ten times as large.",
    ]


def test_an_accelerator_that_never_waits_needs_no_change() -> None:
    waiting = replace(MEASURED, needed=2_500.0)

    assert waiting.fast_enough is True
    assert str(waiting).endswith(
        "\n\nBottleneck: the consumer. The input is 2.0 times as fast as the accelerator. Nothing to change."
    )


@pytest.mark.parametrize("remote", [False, True], ids=["disk", "bucket"])
@pytest.mark.parametrize("bottleneck", ["decoding", "reading", "other work", "consumer"])
def test_every_bottleneck_has_its_advice(bottleneck: str, remote: bool) -> None:
    changes = {
        "decoding": {},
        "reading": {"read_limit": 5_000.0},
        "other work": {"images_per_second": 2_000.0},
        "consumer": {"needed": 1.0},
    }[bottleneck]

    verdict = str(replace(MEASURED, remote=remote, **changes)).rpartition("\n")[2]  # type: ignore[arg-type]

    assert verdict.startswith("Bottleneck: ") and verdict.endswith(".") and len(verdict) > 80


@pytest.mark.parametrize(
    "changes", [{"image_format": "raw"}, {"decode_limit": None, "read_limit": None, "added": False}]
)
def test_nobody_is_told_to_store_raw_who_decodes_nothing(changes: dict[str, Any]) -> None:
    said = str(replace(MEASURED, **changes))

    assert "--image_format" not in said
    assert said.endswith("Use more cores, or store smaller images (--image_size).")


def test_whose_pixels_are_raw_is_not_told_to_lower_the_quality() -> None:
    said = str(replace(MEASURED, image_format="raw", read_limit=5_000.0))

    assert said.endswith(
        "Copy the dataset to a faster disk, or store fewer bytes an image (--image_size, --image_format jpeg)."
    )


@pytest.mark.parametrize(
    ("rate", "added", "told"), [(3_000.0, False, True), (5_000.0, False, False), (3_000.0, True, False)]
)
def test_a_reader_far_below_its_limit_is_told_apart_from_one_near_it(rate: float, added: bool, told: bool) -> None:
    said = str(replace(MEASURED, images_per_second=rate, added=added))

    assert ("well below that limit though nothing was added" in said) is told


def test_without_limits_none_is_printed() -> None:
    said = str(replace(MEASURED, decode_limit=None, read_limit=None)).splitlines()

    assert [line[:5] for line in said] == ["input", "first", "", "Bottl"]


@pytest.mark.parametrize("limit", ["decode_limit", "read_limit"])
def test_a_stream_faster_than_its_limit_is_called_doubtful(limit: str) -> None:
    found = replace(MEASURED, **{limit: 4_000.0})  # type: ignore[arg-type]

    assert found.doubtful and not MEASURED.doubtful
    assert str(found).splitlines()[-1].startswith("Doubtful: the stream was faster than its own limit, ")


def test_a_step_of_microseconds_is_not_nothing() -> None:
    assert "accelerator    25,600,000 img/s (0.005 ms a step)" in str(replace(MEASURED, needed=25_600_000.0))


@pytest.mark.parametrize(
    ("passes", "rate"),
    [
        ([[(5.0, 8)]], None),
        ([[(5.0, 8), (6.0, 8)]], 8.0),
        ([[(0.0, 8), (0.0, 8), (1.0, 8), (2.0, 8)]], 8.0),
        ([[(0.0, 8), (1.0, 8)], [(50.0, 8), (51.0, 8)]], 8.0),
        ([[(0.0, 8), (0.0, 8)]], None),
        ([[*[(0.0, 8)] * 9, *[(float(at), 8) for at in range(1, 92)]]], 8.0),
    ],
    ids=["one batch", "two", "what lay ready", "between passes", "no time at all", "much lay ready"],
)
def test_a_rate_counts_no_start_and_nothing_that_lay_ready(
    passes: list[list[tuple[float, int]]], rate: float | None
) -> None:
    assert rate_of(passes) == rate


def test_json_holds_the_figures_and_the_verdict() -> None:
    assert json.loads(replace(MEASURED, needed=10_000.0).to_json()) == {
        "added": True,
        "batch_size": 128,
        "bottleneck": "decoding",
        "cores": 2,
        "decode_limit": 5500,
        "doubtful": False,
        "fast_enough": False,
        "first_batch_seconds": 0.5,
        "image_format": "jpeg",
        "images_per_second": 5000,
        "megabytes_per_second": 75,
        "needed": 10000,
        "per_core": 2500,
        "read_limit": 50000,
        "remote": False,
    }
