"""The report of a verification: one ``Finding`` per problem, with its place and the remedy."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from shardfeed.errors import DatasetError, clip
from shardfeed.storage import join_url
from shardfeed.words import plural, printable_json


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem.

    Attributes:
        file: Name of the damaged file.
        offset: Byte of the file where the problem starts (for a record, where its frame starts);
            None for the whole file.
        what: What is wrong.
        expected: What the file should hold.
        found: What it holds.
        remedy: What to do about it.
    """

    file: str
    offset: int | None
    what: str
    expected: str
    found: str
    remedy: str

    def __str__(self) -> str:
        place = self.file if self.offset is None else f"{self.file} at byte {self.offset}"
        return f"{place}: {self.what}: expected {clip(self.expected)}, found {clip(self.found)}. {self.remedy}"


def no_file(name: str, size: int, url: str) -> Finding:
    """The file ``name`` of ``size`` bytes is missing from the dataset at ``url``."""
    return Finding(name, None, "file", f"{size} bytes", "no file", restore(name, url))


def rebuild(url: str) -> str:
    """Remedy if the published dataset is itself wrong, so that a copy of a file does not help."""
    return f"Delete {url} and build again."


def restore(file: str, url: str) -> str:
    """Remedy for a damaged file of the dataset at ``url``."""
    return f"Restore {file} from a copy, or delete {url} and build again."


def damaged(url: str, file: str, what: str) -> DatasetError:
    """The error for a ``file`` of the dataset at ``url`` that is not as it should be."""
    return DatasetError(
        f"{clip(join_url(url, file))} is damaged: {what}. {restore(file, url)} shardfeed verify {clip(url)} --deep lists all "
        "damage."
    )


@dataclass(frozen=True, slots=True)
class Report:
    """What ``verify`` found; true if ``ok``. As text: a line per finding and note, the verdict.

    Attributes:
        findings: Problems.
        notes: Remarks that are no problem: work in progress, files that are not shardfeed's.
        files: Number of files that the manifest names and that were found.
        bytes: Their size.
        records: Number of records read; 0 unless ``deep``.
        deep: Whether the files were read.
    """

    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    files: int
    bytes: int
    records: int
    deep: bool

    @property
    def ok(self) -> bool:
        """Whether there is no problem."""
        return not self.findings

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        looked = f"{self.files:,} files, {self.bytes:,} bytes; "
        looked += f"{self.records:,} records read" if self.deep else "names and sizes only (--deep reads the records)"
        verdict = "in order" if self.ok else f"{plural(len(self.findings), 'problem')} found"
        return "\n".join([*map(str, self.findings), *(f"note: {note}" for note in self.notes), f"{verdict}: {looked}"])

    def to_json(self) -> str:
        """The same as JSON, for programs."""
        return printable_json({"ok": self.ok, **asdict(self)}, sort_keys=True)
