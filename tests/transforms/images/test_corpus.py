from __future__ import annotations

import random
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from shardfeed.transforms.images.fixes import FIXES
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.images.process import process_image
from shardfeed.transforms.images.rejects import RejectError
from tests.corpus.cases import CASES, Case
from tests.kit import makers as m

DEFAULT = ImageOptions()
BY_NAME = {case.name: case for case in CASES}


def outcome(data: bytes) -> tuple[str, tuple[str, ...]]:
    """ "OK" and the fixes, or a reason. Any other exception is a failure."""
    try:
        image = process_image(data, DEFAULT)
    except RejectError as error:
        return error.reason.value, ()
    return "OK", tuple(fix for fix in image.fixes if fix != "upscaled")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_odd_image_ends_as_documented(case: Case) -> None:
    assert outcome(case.make()) == (case.outcome, case.fixes)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_image_cut_anywhere_is_stored_or_has_a_reason(case: Case) -> None:
    data = case.make()
    end = min(len(data), 30_000)
    for length in range(1, end, max(37, end // 200)):
        outcome(data[:length])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_image_with_altered_bytes_is_stored_or_has_a_reason(case: Case) -> None:
    data, choose = case.make()[:30_000], random.Random(case.name)
    for _ in range(20 if data else 0):
        altered = bytearray(data)
        for _ in range(choose.randint(1, 6)):
            altered[choose.randrange(min(len(data), choose.choice((40, 200, len(data)))))] = choose.randrange(256)
        outcome(bytes(altered))


@pytest.mark.parametrize(
    "name", ["91-gray.jpg", "89-cmyk.jpg", "108-progressive.jpg", "109-restart-markers.jpg", "103-exif-6.jpg"]
)
def test_a_jpeg_cut_anywhere_before_its_end_is_truncated(name: str) -> None:
    data = BY_NAME[name].make()
    lengths = range(1, len(data), 7)
    assert {length: outcome(data[:length])[0] for length in lengths} == dict.fromkeys(lengths, "TRUNCATED")


def test_the_pixels_of_a_polyglot_are_those_of_its_picture() -> None:
    plain = m.saved(m.photo(), "JPEG")
    assert process_image(BY_NAME["60-zip-behind.jpg"].make(), DEFAULT) == process_image(plain, DEFAULT)


def test_rejects_say_the_same_each_time() -> None:
    refused = [case.make() for case in CASES if case.outcome != "OK"]

    def details() -> list[str]:
        found = []
        for data in refused:
            with pytest.raises(RejectError) as caught:
                process_image(data, DEFAULT)
            found.append(caught.value.detail)
        return found

    first = details()
    assert first == details()
    assert not [detail for detail in first if re.search("0x[0-9a-f]{6}", detail) or len(detail) > 200]


def test_threads_share_nothing_that_changes_a_byte() -> None:
    data = [case.make() for case in CASES if case.outcome == "OK"]
    one_by_one = [process_image(image, DEFAULT) for image in data]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda image: process_image(image, DEFAULT), data * 2)) == one_by_one * 2


def test_every_documented_fix_is_made_to_some_image() -> None:
    made = {fix for case in CASES for fix in case.fixes}
    assert made == set(FIXES) - {"upscaled", "kept_original"}
