"""Columns of a metadata table that records hold beside image, class, label, size and key.

A column is a feature of the Example under its own name. Text is UTF-8, a bool is 0 or 1 and a
float has 32 bits, because an Example knows bytes, float and int64 alone. An empty list is a feature
of its kind without values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from shardfeed.format.example import decode_example, encode_list, example_head

if TYPE_CHECKING:
    import pyarrow as pa

TYPES = ("bytes", "string", "int64", "float", "bool")
# Names of ours: of the records' features, of what readers and conditions of ``find`` give beside them, and
# of the record table. SQL does not tell ``Width`` from ``width``, so case does not count.
RESERVED = frozenset({
    "bytes", "class", "classes", "crc32c", "duplicate_group", "file", "fixes", "format", "hash", "height", "image", "key",
    "label", "labels", "number", "offset", "root", "size", "source_bytes", "split", "version", "weight", "width",
})  # fmt: skip
_KINDS: Mapping[str, type] = {"bytes": bytes, "string": bytes, "int64": int, "float": float, "bool": int}
_PYTHON: Mapping[str, type] = {"bytes": bytes, "string": str, "int64": int, "float": float, "bool": bool}


@dataclass(frozen=True, slots=True)
class Column:
    """One column, as the manifest declares it.

    ``type``: one of ``TYPES``. ``shape``: () for a value, (n,) for a list of n values, (None,) for
    a list of any length. ``default``: what stands for an absent value; None if every row has one.
    """

    name: str
    type: str
    shape: tuple[int | None, ...] = ()
    default: Any = field(default=None, hash=False)  # [] cannot be hashed

    def __post_init__(self) -> None:
        """Raises ValueError for a column that cannot be."""
        if not isinstance(self.name, str) or not self.name or self.name.casefold() in RESERVED:
            raise ValueError(f"{self.name!r} is no name of a column")
        if self.type not in TYPES:
            raise ValueError(f"type {self.type!r}, allowed are {', '.join(TYPES)}")
        if len(self.shape) > 1 or any(size is not None and (type(size) is not int or size < 1) for size in self.shape):
            raise ValueError(f"shape {self.shape!r}, allowed are (), (n,) and (None,)")

    def to_raw(self) -> dict[str, Any]:
        """The column as JSON."""
        return {**asdict(self), "shape": list(self.shape)}

    @classmethod
    def from_raw(cls, raw: Mapping[str, Any]) -> Column:
        """The column of ``to_raw``. Raises KeyError, TypeError or ValueError if it is none."""
        return cls(raw["name"], raw["type"], tuple(raw["shape"]), raw["default"])

    def arrow_type(self) -> pa.DataType:
        """Type of the column in Arrow and Parquet; a list is one of any length."""
        import pyarrow as pa

        kinds = {
            "bytes": pa.binary(),
            "string": pa.string(),
            "int64": pa.int64(),
            "float": pa.float32(),
            "bool": pa.bool_(),
        }
        return pa.list_(pa.field("element", kinds[self.type])) if self.shape else kinds[self.type]

    def encode(self, value: Any) -> bytes:
        """The feature of a value (str, bytes, int, float, bool or a list of one).

        Raises:
            ValueError: the value is of another type or length.
        """
        if self.shape:
            if not isinstance(value, list) or self.shape[0] not in (None, len(value)):
                wanted = "values" if self.shape[0] is None else f"{self.shape[0]} values"
                found = f"{len(value)} values" if isinstance(value, list) else repr(value)
                raise ValueError(f"{found} where a list of {wanted} is expected")
            values = value
        else:
            values = [value]
        return self.feature([self._plain(item) for item in values])

    def feature(self, values: list[Any]) -> bytes:
        """The feature of values as an Example holds them: bytes, int or float."""
        return encode_list(self.name, values, _KINDS[self.type])

    def _plain(self, item: Any) -> Any:
        kind: type = type(item)
        if kind is not _PYTHON[self.type]:
            raise ValueError(f"{item!r} where {self.type} is expected")
        if self.type == "string":
            return bytes(item.encode())
        if self.type == "float" and math.isfinite(item) and abs(item) > _FLOAT_MOST:
            raise ValueError(f"{item!r}, more than a 32-bit float can hold")
        return int(item) if self.type == "bool" else item

    def value(self, feature: list[Any]) -> Any:
        """The value of a decoded feature: what ``encode`` was given, a float as 32 bits hold it."""
        values = [_PYTHON[self.type](item) if self.type != "string" else item.decode() for item in feature]
        return values if self.shape else values[0]


_FLOAT_MOST = 3.4028235677973366e38  # from here on a double is rounded to infinity


def decode_features(features: bytes) -> dict[str, list[Any]]:
    """Values by name of joined features, which may be none."""
    return decode_example(example_head(len(features)) + features) if features else {}


def column_of_arrow(name: str, kind: pa.DataType) -> Column:
    """The column that ``arrow_type`` made ``kind``, as far as the type tells: any length of lists.

    Raises:
        ValueError: no column has this type.
    """
    for type_name in TYPES:
        for shape in ((), (None,)):
            column = Column(name, type_name, shape)
            if column.arrow_type() == kind:
                return column
    raise ValueError(f"column {name} is of type {kind}")


def as_flag(raw: Mapping[str, Any]) -> str:
    """A column of a manifest as ``--columns`` declares it."""
    shape = "".join(f"[{'' if size is None else size}]" for size in raw["shape"])
    default = raw.get("default")
    shown = "" if default == [] else str(default).lower() if isinstance(default, bool) else default
    return f"{raw['name']}:{raw['type']}{shape}" + ("" if default is None else f"={shown}")
