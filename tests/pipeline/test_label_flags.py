"""Flags of labels and the file of ``--class_map``: what they give, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardfeed.errors import UsageError
from shardfeed.pipeline.config.labels import check_labels, read_class_map
from shardfeed.transforms.options import BuildOptions

REGEX = "(?P<label>a)"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (BuildOptions(label_depth=0), "--label_depth 0: give the number"),
        (BuildOptions(label_from="none", label_depth=2), "--label_depth goes with --label_from folders, not none"),
        (BuildOptions(label_from="regex"), "need each other"),
        (BuildOptions(label_regex=REGEX), "need each other"),
        (BuildOptions(label_from="regex", label_regex="a"), "has not exactly one group"),
        (BuildOptions(label_from="none", class_list=("a",)), "--class_list goes with labels"),
        (BuildOptions(label_from="none", class_map=(("a", "b"),)), "--class_map goes with labels"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(options: BuildOptions, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_labels(options)


def test_options_show_only_what_is_not_usual() -> None:
    new = {"class_map", "label_depth", "label_regex", "multi_label"}
    assert not new & BuildOptions().config().keys()
    asked = BuildOptions(label_from="regex", label_regex=REGEX, class_map=(("a", ""),)).config()
    assert (asked["label_regex"], asked["class_map"], asked["label_from"]) == (REGEX, {"a": ""}, "regex")
    assert BuildOptions(label_depth=2).config()["label_depth"] == 2


def written(tmp_path: Path, data: bytes) -> str:
    path = tmp_path / "map.csv"
    path.write_bytes(data)
    return str(path)


def test_a_map_is_a_csv_file_of_two_columns(tmp_path: Path) -> None:
    data = b'\xef\xbb\xbffrom,to\r\ndog,pet\r\n"a, b",c\r\n\r\ncat,pet\r\nbad,\r\n'
    assert read_class_map(written(tmp_path, data)) == (("a, b", "c"), ("bad", ""), ("cat", "pet"), ("dog", "pet"))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "begins with '' and not with from,to"),
        (b"cat,dog\n", "begins with 'cat,dog' and not with from,to"),
        (b"from,to\n", "maps no class"),
        (b"from,to\ncat\n", "line 2: 'cat' is not a name, a comma and a class"),
        (b"from,to\n,dog\n", "line 2: ',dog' is not a name"),
        (b"from,to\na,b\na,c\n", "line 3: a is mapped twice"),
        (b"from,to\na,b\nb,a\n", "maps a to b, and b to a"),
        (b"from,to\na,b\nb,\n", "maps a to b, and b to nothing"),
        (b"from,to\n\xff,a\n", "cannot be read"),
    ],
)
def test_a_map_that_cannot_be_is_refused(tmp_path: Path, data: bytes, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_class_map(written(tmp_path, data))


def test_a_map_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_class_map(str(tmp_path / "none.csv"))
