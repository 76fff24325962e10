"""What a verification says: one ``Finding`` a damage, each with the file, the byte, expected, found and the remedy."""

from __future__ import annotations

from dataclasses import dataclass

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
    """``files`` and ``bytes`` that the manifest names and that were found; ``records`` read (0 unless deep).

    ``notes`` are remarks that are no damage: work in progress, files that are not ours.
    """

    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    files: int
    bytes: int
    records: int

    @property
    def ok(self) -> bool:
        """True when nothing is damaged."""
        return not self.findings
