"""What ``shardfeed status`` says, as text for a screen or as JSON, and its exit code."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from shardfeed.errors import ConflictError, IncompleteError, TooManyRejectsError, clip
from shardfeed.words import by_count, duration, human_bytes, plural, printable_json

BuildState = Literal["complete", "encoding", "publishing", "rejected", "duplicates", "discarding", "foreign", "empty"]


class _Meaning(NamedTuple):
    """What a state means. Texts name ``{dir}``, the output, and ``{files}``, how many are left."""

    code: int
    headline: str
    next: str


_WAIT_OR_RERUN = (
    "if the build still runs, wait, then shardfeed status {dir}; if it has ended, rerun the same `shardfeed build`: it "
    "carries on from the finished parts"
)
_MEANINGS: Mapping[BuildState, _Meaning] = {
    "complete": _Meaning(0, "a complete dataset", "shardfeed verify {dir}"),
    "encoding": _Meaning(IncompleteError.code, "a build, encoding", _WAIT_OR_RERUN),
    "publishing": _Meaning(IncompleteError.code, "a build, publishing", _WAIT_OR_RERUN),
    "rejected": _Meaning(
        TooManyRejectsError.code,
        "images that cannot be used stopped it; nothing was published",
        "look at the rejects, then rerun the same `shardfeed build`: it keeps finished work, and says what it takes (a higher "
        "--max_rejected, or repaired images and --discard_incomplete)",
    ),
    "duplicates": _Meaning(
        TooManyRejectsError.code,
        "near-duplicates stopped it, because of --duplicates fail; nothing was published",
        "look at the list, then rerun the same `shardfeed build` with --duplicates report: it keeps finished work; or remove "
        "images, and rerun with --discard_incomplete",
    ),
    "discarding": _Meaning(
        ConflictError.code,
        "an unfinished build is being discarded, {files:,} files to go",
        "wait, then shardfeed status {dir}; if nothing changes, rerun the build with --discard_incomplete",
    ),
    "foreign": _Meaning(
        ConflictError.code,
        "no dataset and no build of shardfeed's, but other files",
        "give another --output, or remove these files yourself",
    ),
    "empty": _Meaning(IncompleteError.code, "no dataset and no build", "shardfeed build --input PHOTOS --output {dir}"),
}


@dataclass(frozen=True, slots=True)
class Status:
    """What an output holds. Fields that a state does not have keep their defaults.

    ``total``: images to write or reject. ``images``, ``bytes``: written, by the finished ``parts``;
    ``exact`` is False if a sample of these was scaled up. ``rate``: images per second. ``idle``:
    seconds since a file was written. ``silent``: whether that is longer than usual for a build that
    runs (both None: the store gives no times). ``shards``: (published, all). ``work_files``: files
    of ours below ``_parts/``. ``rejects``, ``duplicates``: files that say why it was stopped.
    ``foreign``: some files that are not ours.
    """

    state: BuildState
    url: str
    fingerprint: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    total: int | None = None
    images: int = 0
    bytes: int = 0
    rejected: Mapping[str, int] = field(default_factory=dict)
    parts: int = 0
    exact: bool = True
    rate: float | None = None
    idle: float | None = None
    silent: bool | None = None
    shards: tuple[int, int] = (0, 0)
    work_files: int = 0
    rejects: Sequence[str] = ()
    duplicates: str = ""
    last_failure: str = ""
    foreign: Sequence[str] = ()

    @property
    def code(self) -> int:
        """0 complete, 3 rejects or near-duplicates, 4 incomplete or nothing, 5 conflict."""
        return _MEANINGS[self.state].code

    @property
    def done(self) -> int:
        """Images written or rejected."""
        return self.images + sum(self.rejected.values())

    @property
    def seconds_left(self) -> float | None:
        """Time left of encoding, at the rate of the latest parts."""
        if self.state != "encoding" or self.silent or not self.rate or self.total is None:
            return None
        return max(self.total - self.done, 0) / self.rate

    @property
    def next(self) -> str:
        """What to do now."""
        return _MEANINGS[self.state].next.format(dir=shlex.quote(self.url))

    def to_json(self) -> str:
        """One JSON object."""
        raw = {
            "state": self.state,
            "url": self.url,
            "fingerprint": self.fingerprint or None,
            "config": dict(self.config) or None,
            "images": {"done": self.done, "total": self.total, "exact": self.exact},
            "rejected": dict(self.rejected),
            "bytes": self.bytes,
            "parts": self.parts,
            "shards": {"published": self.shards[0], "all": self.shards[1] or None},
            "rate": _rounded(self.rate),
            "seconds_since_last_write": _rounded(self.idle),
            "silent": self.silent,
            "seconds_left": _rounded(self.seconds_left),
            "files_in_parts": self.work_files,
            "rejects": self.rejects,
            "duplicates": self.duplicates or None,
            "last_failure": self.last_failure or None,
            "foreign_files": [clip(name) for name in self.foreign],
            "next": self.next,
        }
        return printable_json(raw, sort_keys=True)

    def to_text(self) -> str:
        """Lines for a person, without control characters."""
        lines = [f"{clip(self.url, 1_000)}: {self._headline()}"]
        if self.state == "complete":
            shards = plural(self.shards[0], "shard")
            lines.append(f"  dataset    {self.images:,} records in {shards}, {human_bytes(self.bytes)}")
            if self.work_files:
                lines.append(
                    f"  leftovers  {self.work_files:,} files under _parts/; the same build command sweeps them"
                )
        elif self.state in ("encoding", "publishing", "rejected", "duplicates"):
            lines += self._progress()
        if self.foreign:
            lines.append(f"  files      {', '.join(clip(name, 80) for name in self.foreign)}")
        if self.last_failure:
            lines.append(f"  last run   {clip(self.last_failure, 600)}")
        return "\n".join([*lines, f"Next: {self.next}"])

    def _headline(self) -> str:
        text = _MEANINGS[self.state].headline.format(files=self.work_files)
        if self.state not in ("encoding", "publishing", "discarding") or self.idle is None:
            return text
        ended = ": it has probably ended" if self.silent else ""
        return f"{text}, last file written {duration(self.idle)} ago{ended}"

    def _progress(self) -> list[str]:
        about = "" if self.exact else "about "
        whole = f" of {self.total:,} ({100 * self.done // self.total} %)" if self.total else ""
        rejected = ""
        if self.done > self.images:
            rejected = f", {about}{self.done - self.images:,} rejected ({by_count(self.rejected)})"
        lines = [
            f"  images     {about}{self.done:,}{whole}{rejected}",
            f"  parts      {self.parts:,} finished, {about}{human_bytes(self.bytes)}",
        ]
        if self.shards[1]:
            lines.append(f"  shards     {self.shards[0]:,} of {self.shards[1]:,} published")
        if self.rate is not None and self.state == "encoding":
            left = "" if self.seconds_left is None else f", about {duration(self.seconds_left)} of encoding left"
            lines.append(f"  rate       {self.rate:,.0f} img/s over the latest parts{left}")
        lines += [f"  rejects    {clip(name, 1_000)}" for name in self.rejects[:3]]
        lines += [f"  duplicates {clip(self.duplicates, 1_000)}"] * bool(self.duplicates)
        options = [
            f"{clip(name, 40)} {clip(value, 40)}"
            for name, value in sorted(self.config.items())
            if value is not None and value is not False
        ]
        return [*lines, f"  build      {self.fingerprint}: {', '.join(options)}"]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
