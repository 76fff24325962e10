"""Names that people cannot tell apart: they would be two classes by mistake.

Two names look alike if they differ only in case, spaces, invisible characters, dashes, Unicode
form, or in letters of another script. The table holds the letters of Greek and Cyrillic that are
drawn as Latin ones (a part of Unicode's confusables.txt). Letters and digits of one script, such as
O and 0, are different: datasets of characters have both as classes.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

_PAIRS = (
    ("АВЕКМНОРСТУХІЈЅԌԚԜҮаеорсухіјѕһԁԛԝѵӏү", "ABEKMHOPCTYXIJSGQWYaeopcyxijshdqwvly"),  # Cyrillic
    ("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹϳαικνορυχϲγ", "ABEZHIKMNOPTYXCjaikvopuxcy"),  # Greek
)
_LATIN = {ord(letter): latin for letters, latins in _PAIRS for letter, latin in zip(letters, latins, strict=True)}
# Not of the category Cf, but drawn as nothing.
_INVISIBLE = {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x3164, 0xFFA0}
_MINUS = "\N{MINUS SIGN}"


def find_lookalikes(names: Iterable[str]) -> tuple[str, str] | None:
    """The first two of ``names`` that look alike; None if there are none."""
    seen: dict[str, str] = {}
    for name in names:
        for form in {_folded(name), _folded(unicodedata.normalize("NFKD", name).translate(_LATIN))}:
            other = seen.setdefault(form, name)
            if other != name:
                return other, name
    return None


def _folded(name: str) -> str:
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return " ".join("".join(map(_visible, text)).split())


def _visible(char: str) -> str:
    if char.isascii():
        return char
    if unicodedata.category(char) == "Cf" or ord(char) in _INVISIBLE or 0xFE00 <= ord(char) <= 0xFE0F:
        return ""
    return "-" if char == _MINUS or unicodedata.category(char) == "Pd" else char
