"""``--label_regex``: what it is searched in, what it gives, and what is refused."""

from __future__ import annotations

import re
import time

import pytest

from shardfeed.errors import UsageError
from shardfeed.storage import Stat
from shardfeed.transforms.elements import ImageRef, pack_ref, unpack_refs
from shardfeed.transforms.inputs.key_regex import add_found, check_regex
from shardfeed.transforms.metadata.row import Row, labels_of_row, pack_table_row, unpack_table_row
from shardfeed.transforms.options import BuildOptions


def options(regex: str) -> BuildOptions:
    return BuildOptions(label_from="regex", label_regex=regex)


def labels(regex: str, *keys: bytes) -> list[tuple[str, ...]]:
    packed = b"".join(pack_ref(ImageRef(0, key, Stat(1, 2))) for key in keys)
    return [labels_of_row(ref.row) for ref in unpack_refs(add_found(packed, options(regex)))]


def test_it_is_searched_in_the_key_with_a_slash_before_it() -> None:
    regex = r"/(?P<label>[a-z]+)_\d+\."
    keys = (b"cat_001.jpg", b"x/y/dog_2.png", b"x/Dog_2.png", b"x_1/y/1.jpg")
    assert labels(regex, *keys) == [("cat",), ("dog",), (), ()]


def test_the_first_match_counts_and_an_empty_one_is_none() -> None:
    assert labels("(?P<label>[ab]*)x", b"ax-bx", b"x") == [("a",), ()]


def test_texts_are_unicode_and_a_broken_key_gives_no_broken_label() -> None:
    assert labels("/(?P<label>[^_]+)_", "größe_1.jpg".encode(), b"caf\xe9_1.jpg", b"cat_\xe9.jpg") == [
        ("größe",),
        (),
        ("cat",),
    ]


def test_the_rest_of_a_row_stays() -> None:
    whole = Row(split="test", group="g", features=(("age", b"x"),))
    packed = pack_ref(ImageRef(0, b"cat_1.jpg", Stat(1, 2), pack_table_row(whole)))
    (ref,) = unpack_refs(add_found(packed, options("/(?P<label>[a-z]+)_")))
    assert unpack_table_row(ref.row) == whole._replace(labels=("cat",))


@pytest.mark.parametrize(
    ("regex", "said"),
    [
        ("/([a-z]+)_", "a group has no name"),
        ("/[a-z]+_", r"has no group \(\?P<label>…\)"),
        ("(?P<name>a)", r"has no group"),
        ("(?P<label>a", "missing"),
        (r"(?P<label>a)\1", "neither backreferences"),
        ("(?=a)(?P<label>a)", "looking around"),
        ("(?P<label>\ud800)", "Example"),
    ],
)
def test_what_cannot_be_searched_in_linear_time_or_has_no_label_is_refused(regex: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_regex(regex, "--label_regex", "label")


def test_no_expression_takes_exponential_time() -> None:
    evil = "(?P<label>(?:a+)+)$"
    check_regex(evil, "--label_regex", "label")
    assert re.compile(evil)  # which would take 2**60 steps with Python's own
    began = time.process_time()
    assert labels(evil, b"a" * 60 + b"!") == [()]
    assert time.process_time() - began < 5
