"""What a verification says: one ``Finding`` a damage, each with the file, the byte, expected, found and the remedy."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from shardfeed.errors import clip


@dataclass(frozen=True, slots=True)
class Finding:
    """One damage. ``offset``: byte of ``file`` where it starts (for a record, where its frame starts), None for the whole."""

    file: str
    offset: int | None
    what: str
    expected: str
    found: str
    remedy: str

    def __str__(self) -> str:
        place = self.file if self.offset is None else f"{self.file} at byte {self.offset}"
        return f"{place}: {self.what}: expected {clip(self.expected)}, found {clip(self.found)}. {self.remedy}"


def rebuild(url: str) -> str:
    """Remedy where no copy of a file helps: what was published is wrong in itself."""
    return f"Delete {url} and build again."


def restore(file: str, url: str) -> str:
    """Remedy for a damaged file of the dataset at ``url``."""
    return f"Restore {file} from a copy, or delete {url} and build again."


@dataclass(frozen=True, slots=True)
class Report:
    """``files`` and ``bytes`` that the manifest names and that were found; ``records`` read (0 unless ``deep``).

    ``notes`` are remarks that are no damage: work in progress, files that are not ours. As text: one line a finding, one a
    note, and the verdict last. A report is true if it is ``ok``.
    """

    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    files: int
    bytes: int
    records: int
    deep: bool

    @property
    def ok(self) -> bool:
        """True when nothing is damaged."""
        return not self.findings

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        looked = f"{self.files:,} files, {self.bytes:,} bytes; "
        looked += f"{self.records:,} records read" if self.deep else "names and sizes only (--deep reads the records)"
        damages = f"{len(self.findings)} damage{'s' * (len(self.findings) != 1)} found"
        verdict = "in order" if self.ok else damages
        return "\n".join([*map(str, self.findings), *(f"note: {note}" for note in self.notes), f"{verdict}: {looked}"])

    def to_json(self) -> str:
        """The same as JSON, for programs."""
        return json.dumps({"ok": self.ok, **asdict(self)}, ensure_ascii=False, sort_keys=True)
