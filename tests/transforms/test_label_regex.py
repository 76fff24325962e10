"""``--label_regex``: what it is searched in, what it gives, and what is refused."""

from __future__ import annotations

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


@pytest.mark.parametrize(
    ("regex", "found"),
    [
        (
            r"/(?P<label>[a-z]+)_\d+\.",
            {b"cat_001.jpg": ("cat",), b"x/y/dog_2.png": ("dog",), b"x/Dog_2.png": (), b"x_1/y/1.jpg": ()},
        ),
        ("(?P<label>[ab]*)x", {b"ax-bx": ("a",), b"x": ()}),
        ("/(?P<label>[^_]+)_", {"größe_1.jpg".encode(): ("größe",), b"caf\xe9_1.jpg": (), b"cat_\xe9.jpg": ("cat",)}),
    ],
    ids=["searched in the key with a slash before it", "first match, none if empty", "no label of broken bytes"],
)
def test_a_label_is_what_the_expression_finds_first_in_a_key(regex: str, found: dict[bytes, tuple[str, ...]]) -> None:
    assert labels(regex, *found) == list(found.values())


def test_the_rest_of_a_row_stays() -> None:
    whole = Row(split="test", group="g", features=(("age", b"x"),))
    packed = pack_ref(ImageRef(0, b"cat_1.jpg", Stat(1, 2), pack_table_row(whole)))
    (ref,) = unpack_refs(add_found(packed, options("/(?P<label>[a-z]+)_")))
    assert unpack_table_row(ref.row) == whole._replace(labels=("cat",))


@pytest.mark.parametrize(
    ("regex", "said"),
    [
        ("/([a-z]+)_", "a group has no name"),
        ("/[a-z]+_", r"has not exactly one group \(\?P<label>…\)"),
        ("(?P<name>a)", r"has not exactly one group"),
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
    evil = "(?P<label>(?:a+)+)$"  # which would take 2**60 steps with Python's own
    check_regex(evil, "--label_regex", "label")
    assert labels(evil, b"a" * 60 + b"!") == [()]
