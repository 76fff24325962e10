"""What a benchmark says: the bottleneck, what to change, a warning if training waits."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from shardfeed.benchmarking.result import Benchmark, rate_of

MEASURED = Benchmark(
    images_per_second=5_000, megabytes_per_second=75, cores=2, batch_size=128, first_batch_seconds=0.5,
    decode_limit=5_500, read_limit=50_000, needed=None, remote=False, image_format="jpeg",
)  # fmt: skip
FASTER_DECODING = (
    "Use more cores, or store images that decode faster: smaller ones (--image_size), a lower --quality, or --image_format "
    "raw, which is not decoded at all but is about ten times as large."
)


@pytest.mark.parametrize(
    ("changes", "bottleneck", "advice"),
    [
        ({}, "decoding", FASTER_DECODING),
        ({"needed": 6_000}, "decoding", FASTER_DECODING),
        ({"needed": 4_000}, "consumer", "Nothing to change."),
        ({"needed": 5_000}, "consumer", "Nothing to change."),
        ({"read_limit": 5_400}, "reading", "--image_format jpeg in place of raw or png)."),
        ({"read_limit": 5_400, "remote": True}, "reading", "store fewer bytes per image (--image_size, --quality)."),
        ({"decode_limit": None, "read_limit": 5_500}, "reading", "--image_format jpeg in place of raw or png)."),
        ({"images_per_second": 2_000}, "other work", "and so do other programs."),
        ({"decode_limit": None}, "other work", "and so do other programs."),
        ({"images_per_second": 2_000, "remote": True}, "reading", "(--image_size, --quality)."),
        ({"image_format": "raw"}, "decoding", "Use more cores, or store smaller images (--image_size)."),
    ],
    ids=str,
)
def test_the_slowest_of_the_chain_is_the_bottleneck(changes: dict[str, Any], bottleneck: str, advice: str) -> None:
    found = replace(MEASURED, **changes)

    assert found.bottleneck == bottleneck
    assert str(found).endswith(advice)


def test_without_a_step_it_says_which_accelerators_never_wait() -> None:
    assert str(MEASURED) == (
        "input          5,000 img/s, 75.0 MB/s, 2,500 img/s per core (2 cores)\n"
        "first batch    0.50 s\n"
        "decoding alone 5,500 img/s: the stream reaches 0.91 of it\n"
        "reading alone  50,000 img/s: the stream reaches 0.10 of it\n"
        "\n"
        "Bottleneck: decoding. An accelerator that takes 25.6 ms or more per batch of 128 never waits for this input; a "
        f"faster one does. {FASTER_DECODING}"
    )


def test_an_accelerator_that_waits_is_a_warning() -> None:
    waiting = replace(MEASURED, needed=10_000.0)

    assert waiting.fast_enough is False
    said = "WARNING: the input is slower than the accelerator, which waits 50% of the time. Bottleneck: decoding. "
    assert str(waiting).splitlines()[-3:] == [
        "accelerator    10,000 img/s (12.8 ms per step)",
        "",
        said + FASTER_DECODING,
    ]


def test_an_accelerator_that_never_waits_needs_no_change() -> None:
    kept_busy = replace(MEASURED, needed=2_500.0)

    assert kept_busy.fast_enough is True
    assert str(kept_busy).endswith(
        "\n\nBottleneck: the consumer. The input is 2.0 times as fast as the accelerator. Nothing to change."
    )


@pytest.mark.parametrize("limit", ["decode_limit", "read_limit"])
def test_a_stream_faster_than_its_limit_is_called_doubtful(limit: str) -> None:
    found = replace(MEASURED, **{limit: 4_000.0})  # type: ignore[arg-type]

    assert str(found).splitlines()[-1].startswith("Doubtful: the stream was faster than its own limit. ")


def test_images_of_no_one_size_have_no_line_for_decoding() -> None:
    said = str(replace(MEASURED, decode_limit=None)).splitlines()

    assert [line[:5] for line in said] == ["input", "first", "readi", "", "Bottl"]


def test_a_step_of_microseconds_is_not_shown_as_zero() -> None:
    assert "accelerator    25,600,000 img/s (0.005 ms per step)" in str(replace(MEASURED, needed=25_600_000.0))


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
        "batch_size": 128, "bottleneck": "decoding", "cores": 2, "decode_limit": 5500, "fast_enough": False,
        "first_batch_seconds": 0.5, "image_format": "jpeg", "images_per_second": 5000, "megabytes_per_second": 75,
        "needed": 10000, "per_core": 2500, "read_limit": 50000, "remote": False,
    }  # fmt: skip
