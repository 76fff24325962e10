"""How inputs name roots, and what a glob matches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shardfeed.errors import UsageError
from shardfeed.storage import Stat
from shardfeed.transforms.inputs.roots import InputRoot, check_root, glob_regex, parse_inputs
from shardfeed.transforms.sources.base import ChangedError, Listed, Source


@pytest.mark.parametrize(
    ("glob", "matching", "others"),
    [
        ("*/*.jpg", ["cat/1.jpg", "cat/.jpg"], ["1.jpg", "a/b/1.jpg", "cat/1.png", "cat/1.jpgx"]),
        ("**/*.jpg", ["1.jpg", "a/1.jpg", "a/b/c/1.jpg"], ["a/1.png"]),
        ("cat/**", ["cat/1", "cat/a/b"], ["dog/1", "cat"]),
        ("a**b", ["ab", "a/x/b", "axb"], ["b"]),
        ("**/x/*.png", ["x/1.png", "a/x/1.png"], ["ax/1.png", "x/a/1.png"]),
        ("?/1.jpg", ["a/1.jpg", "é/1.jpg"], ["ab/1.jpg", "/1.jpg"]),
        ("[cd]og/*", ["cog/1", "dog/1"], ["fog/1", "cog/a/b"]),
        ("[!c]og/*", ["dog/1"], ["cog/1"]),
        ("[a-c]/*", ["b/1"], ["d/1"]),
        ("[é]/*", ["é/1"], ["ê/1"]),
        ("a[!b]c", ["axc"], ["abc", "a/c"]),
        ("[]]/*", ["]/1"], ["a/1"]),
        ("[!]]/*", ["a/1"], ["]/1"]),
        ("a[1", ["a[1"], ["a1"]),
        ("a.b+(c)/*", ["a.b+(c)/1"], ["axb+(c)/1"]),
        ("[\\]/*", ["\\/1"], ["a/1"]),
        ("*\n*", ["a\nb"], ["ab"]),
        ("[[]/*", ["[/1"], ["a/1"]),
    ],
    ids=lambda value: repr(value) if isinstance(value, str) else "",
)
def test_a_glob_matches_whole_keys(glob: str, matching: list[str], others: list[str]) -> None:
    regex = glob_regex(glob)

    assert [key for key in matching + others if regex.fullmatch(key)] == matching


@pytest.mark.parametrize(("glob", "range_"), [("[z-a]/*", "z-a"), ("x[9-0].jpg", "9-0")])
def test_a_glob_that_can_match_nothing_is_refused_at_once(glob: str, range_: str) -> None:
    with pytest.raises(UsageError) as found:
        parse_inputs([f"gs://flowers/{glob}"])
    assert str(found.value) == (
        f"--input gs://flowers/{glob}: {glob!r} is not a glob (bad character range {range_}). Allowed are * ? ** and sets "
        "such as [abc], [a-z], [!abc]."
    )


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder, also HOME, that holds ``photos/cat``, a link to ``photos``, and odd names."""
    root = tmp_path.resolve()
    for folder in ("photos/cat", "we[i]rd", "{a,b}"):
        (root / folder).mkdir(parents=True)
    (root / "link").symlink_to("photos")
    monkeypatch.chdir(root)
    monkeypatch.setenv("HOME", str(root))
    return root


@pytest.mark.parametrize(
    ("inputs", "roots"),
    [
        (["photos"], [("photos", ())]),
        (["./photos//"], [("photos", ())]),
        (["~/photos"], [("photos", ())]),
        (["~/photos/*/*.jpg"], [("photos", ("*/*.jpg",))]),
        (["photos/*/*.jpg", "photos/*/*.png"], [("photos", ("*/*.jpg", "*/*.png"))]),
        (["photos/*/*.jpg", "photos/*/*.jpg"], [("photos", ("*/*.jpg",))]),
        (["photos/*/*.jpg", "photos"], [("photos", ())]),
        (["photos", "photos/*/*.jpg"], [("photos", ())]),
        (["photos/cat*/1.jpg"], [("photos", ("cat*/1.jpg",))]),
        (["*.jpg"], [("", ("*.jpg",))]),
        (["we[i]rd"], [("we[i]rd", ())]),
        (["we[i]rd/*/*.jpg"], [("we[i]rd", ("*/*.jpg",))]),
        (["photos/we[i]rd/*.jpg"], [("photos", ("we[i]rd/*.jpg",))]),
        (["we[[]i]rd/*/*.jpg"], [("we[i]rd", ("*/*.jpg",))]),
        (["we[[]i]rd"], [("we[i]rd", ())]),
        (["new[*][?]/*.jpg"], [("new*?", ("*.jpg",))]),
        (["a,{b}/[{]1,2}*"], [("a,{b}", ("[{]1,2}*",))]),
        (["we[i]*"], [("", ("we[i]*",))]),
        (["{a,b}"], [("{a,b}", ())]),
        (["link", "photos"], [("photos", ())]),
        (["photos", "other"], [("other", ()), ("photos", ())]),
        (["photos", "photos2"], [("photos", ()), ("photos2", ())]),
    ],
    ids=lambda value: " ".join(value) if value and isinstance(value[0], str) else "",
)
def test_inputs_name_roots_and_globs(here: Path, inputs: list[str], roots: list[tuple[str, tuple[str, ...]]]) -> None:
    expected = [InputRoot(str(here / root) if root else str(here), globs) for root, globs in roots]

    assert parse_inputs(inputs) == tuple(expected)


@pytest.mark.parametrize(
    ("inputs", "roots"),
    [
        (["gs://flowers"], [InputRoot("gs://flowers")]),
        (["gs://flowers/*/*.jpg"], [InputRoot("gs://flowers", ("*/*.jpg",))]),
        (["gs://flowers/2024/*/*.jpg"], [InputRoot("gs://flowers/2024", ("*/*.jpg",))]),
        (["gs://flowers/pets[[]1]/*/*.jpg"], [InputRoot("gs://flowers/pets[1]", ("*/*.jpg",))]),
        (["gs://flowers/pets[1]/*/*.jpg"], [InputRoot("gs://flowers", ("pets[1]/*/*.jpg",))]),
        (["gs://a/x", "gs://a/xy"], [InputRoot("gs://a/x"), InputRoot("gs://a/xy")]),
        (["gs://b/*", "gs://b/c*"], [InputRoot("gs://b", ("*", "c*"))]),
    ],
    ids=lambda value: " ".join(value) if value and isinstance(value[0], str) else "",
)
def test_buckets_are_roots_too(inputs: list[str], roots: list[InputRoot]) -> None:
    assert parse_inputs(inputs) == tuple(roots)


@pytest.mark.parametrize(
    ("outer", "inner"),
    [("gs://a", "gs://a/b"), ("gs://a/b/*.jpg", "gs://a/b/c/*.jpg"), ("/", "/srv"), ("/srv", "/srv/photos/cat")],
)
def test_a_root_inside_another_is_refused(outer: str, inner: str) -> None:
    roots = [parse_inputs([text])[0].url for text in (outer, inner)]
    for inputs in ([outer, inner], [inner, outer]):
        with pytest.raises(UsageError) as found:
            parse_inputs(inputs)
        assert str(found.value) == (
            f"--input {roots[1]} lies inside --input {roots[0]}: its images would be listed twice with different classes. "
            "Give only one of them, or build two datasets."
        )


def test_an_empty_input_is_refused() -> None:
    with pytest.raises(UsageError) as found:
        parse_inputs(["photos", ""])
    assert str(found.value) == (
        "--input is empty. Give a folder (photos/), a bucket (gs://photos) or a glob (photos/*/*.jpg)."
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("*/*.{jpg,png}", "--input '*/*.jpg' --input '*/*.png'"),
        ("gs://b/{a,b}", "--input 'gs://b/a' --input 'gs://b/b'"),
        ("{a,b}/*/*.{jpg,png}", "--input 'a/*/*.jpg' --input 'a/*/*.png' --input 'b/*/*.jpg' --input 'b/*/*.png'"),
        ("{a,b,c,d,e,f}/*/*", "--input 'a/*/*' --input 'b/*/*' --input 'c/*/*' --input 'd/*/*' …"),
        # Classes: 'gs://b/cat/*.jpg' would have the root gs://b/cat, and its images no class.
        ("gs://b/{cat,dog}/*.jpg", "--input 'gs://b/[c]at/*.jpg' --input 'gs://b/[d]og/*.jpg'"),
    ],
)
def test_braces_are_refused_with_what_to_give_instead(text: str, said: str) -> None:
    with pytest.raises(UsageError) as found:
        parse_inputs([text])
    assert str(found.value) == (
        f"--input {text}: braces are not supported in globs. Give one --input for each: {said}. (A brace that is part of a name "
        "is written [{].)"
    )


class Folders(Source):
    """A bucket of folders in which nothing lies."""

    def __init__(self, sections: list[bytes]) -> None:
        self._sections = sections

    def check(self) -> None:
        pass

    def sections(self) -> list[bytes]:
        return self._sections

    def list(self, section: bytes) -> Iterator[Listed]:
        return iter(())

    def read(self, key: bytes, stat: Stat) -> bytes:
        raise ChangedError(f"{key!r} is not there")


@pytest.mark.parametrize(
    ("glob", "sections", "escaped"),
    [
        ("pets[1]/*/*.jpg", [b"", b"pets[1]/", b"pets2/"], "pets[[]1]/*/*.jpg"),
        ("[old] [x]/*", [b"[old] [x]/"], "[[]old] [[]x]/*"),
        ("pets[1]", [b"pets[1]/"], "pets[[]1]"),
    ],
)
def test_a_glob_that_names_a_folder_with_brackets_is_refused(glob: str, sections: list[bytes], escaped: str) -> None:
    with pytest.raises(UsageError) as found:
        check_root(InputRoot("gs://b", (glob,)), Folders(sections))
    assert str(found.value).endswith(f"Write [ as [[]: --input 'gs://b/{escaped}'")


@pytest.mark.parametrize(
    ("globs", "sections"),
    [
        ((), [b"", b"pets[1]/"]),
        (("pets[1]/*",), [b"", b"pets[1]/", b"pets1/"]),
        (("pets[1]/*",), [b"", b"cats/"]),
        (("*/pets[1]/*",), [b"", b"pets[1]/"]),
    ],
    ids=["no glob", "it matches another", "no such folder", "further down"],
)
def test_brackets_are_a_set_elsewhere(globs: tuple[str, ...], sections: list[bytes]) -> None:
    check_root(InputRoot("gs://b", globs), Folders(sections))
