"""What ``shardfeed status`` says: a screen of text, or the same facts as JSON; and the exit code that goes with it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from shardfeed.errors import ConflictError, IncompleteError, TooManyRejectsError, clip
from shardfeed.words import by_count, duration, human_bytes

State = Literal["complete", "encoding", "publishing", "rejected", "discarding", "foreign", "empty"]

_CODES: Mapping[str, int] = {
    "complete": 0,
    "rejected": TooManyRejectsError.code,
    "discarding": ConflictError.code,
    "foreign": ConflictError.code,
}


@dataclass(frozen=True, slots=True)
class Parts:
    """Sums over finished parts; ``images`` were written. ``exact`` is False where a sample was scaled up."""

    finished: int = 0
    images: int = 0
    bytes: int = 0
    rejected: Mapping[str, int] = field(default_factory=dict)
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Status:
    """What an output holds. Fields that a state does not have are left at their defaults.

    ``total``: images to write or reject. ``rate``: images a second. ``quiet``: seconds since anything was written; ``silent``:
    longer than a build that runs usually is (both None: the store tells no times). Whether one runs, files cannot tell.
    ``shards``: (published, all). ``left``: files below ``_parts/``. ``said``: why the latest run failed. ``files``: some that
    are not ours.
    """

    state: State
    url: str
    fingerprint: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    total: int | None = None
    parts: Parts = field(default_factory=Parts)
    rate: float | None = None
    quiet: float | None = None
    silent: bool | None = None
    shards: tuple[int, int] = (0, 0)
    left: int = 0
    rejects: tuple[str, ...] = ()
    said: str = ""
    files: tuple[str, ...] = ()

    @property
    def code(self) -> int:
        """0 complete, 3 too many rejects, 4 not complete or nothing there, 5 somebody else's files or being discarded."""
        return _CODES.get(self.state, IncompleteError.code)

    @property
    def done(self) -> int:
        """Images written or rejected."""
        return self.parts.images + sum(self.parts.rejected.values())

    @property
    def seconds_left(self) -> float | None:
        """Of encoding, at the rate of the latest parts."""
        if self.state != "encoding" or self.silent or not self.rate or self.total is None:
            return None
        return max(self.total - self.done, 0) / self.rate

    @property
    def next(self) -> str:
        """What to do now."""
        place = shlex.quote(self.url)
        again = f"shardfeed status {place}"
        return {
            "complete": f"shardfeed verify {place}",
            "empty": f"shardfeed build --input PHOTOS --output {place}",
            "foreign": "give another --output, or remove these files yourself",
            "discarding": f"wait, then {again}; if nothing changes, rerun the build with --discard_incomplete",
            "rejected": "look at the rejects, then rerun the same `shardfeed build`: it keeps finished work, and says what it "
            "takes (a higher --max_rejected, or mended images and --discard_incomplete)",
        }.get(self.state) or (
            f"if the build still runs, wait, then {again}; if it has ended, rerun the same `shardfeed build`: it carries on from "
            "the finished parts"
        )

    def to_json(self) -> str:
        """One JSON object."""
        raw = {
            "state": self.state,
            "url": self.url,
            "fingerprint": self.fingerprint or None,
            "config": dict(self.config) or None,
            "images": {"done": self.done, "total": self.total, "exact": self.parts.exact},
            "rejected": dict(self.parts.rejected),
            "bytes": self.parts.bytes,
            "parts": self.parts.finished,
            "shards": {"published": self.shards[0], "all": self.shards[1] or None},
            "rate": None if self.rate is None else round(self.rate, 1),
            "seconds_since_last_write": None if self.quiet is None else round(self.quiet, 1),
            "silent": self.silent,
            "seconds_left": None if self.seconds_left is None else round(self.seconds_left, 1),
            "files_in_parts": self.left,
            "rejects": list(self.rejects),
            "last_failure": self.said or None,
            "foreign_files": [clip(name) for name in self.files],
            "next": self.next,
        }
        return json.dumps(raw, ensure_ascii=False, sort_keys=True)

    def to_text(self) -> str:
        """Lines for a person, without control characters."""
        lines = [f"{clip(self.url, 1_000)}: {self._headline()}"]
        if self.state == "complete":
            lines.append(
                f"  dataset    {self.parts.images:,} records in {self.shards[0]:,} shard{'s' * (self.shards[0] != 1)}, "
                f"{human_bytes(self.parts.bytes)}"
            )
            if self.left:
                lines.append(f"  leftovers  {self.left:,} files under _parts/; the same build command sweeps them")
        elif self.state in ("encoding", "publishing", "rejected"):
            lines += self._progress()
        if self.files:
            lines.append(f"  files      {', '.join(clip(name, 80) for name in self.files)}")
        if self.said:
            lines.append(f"  last run   {clip(self.said, 600)}")
        return "\n".join([*lines, f"Next: {self.next}"])

    def _headline(self) -> str:
        text = {
            "complete": "a complete dataset",
            "empty": "no dataset and no build",
            "foreign": "no dataset and no build of shardfeed's, but other files",
            "discarding": f"an unfinished build is being discarded, {self.left:,} files to go",
            "rejected": "images that cannot be used stopped it; nothing was published",
            "encoding": "a build, encoding",
            "publishing": "a build, publishing",
        }[self.state]
        if self.state not in ("encoding", "publishing", "discarding") or self.quiet is None:
            return text
        since = f"last file written {duration(self.quiet)} ago"
        return f"{text}, {since}{': it has probably ended' if self.silent else ''}"

    def _progress(self) -> list[str]:
        parts, about = self.parts, "" if self.parts.exact else "about "
        whole = f" of {self.total:,} ({100 * self.done // self.total} %)" if self.total else ""
        rejected = sum(parts.rejected.values())
        reasons = f", {about}{rejected:,} rejected ({by_count(parts.rejected)})" if rejected else ""
        lines = [
            f"  images     {about}{self.done:,}{whole}{reasons}",
            f"  parts      {parts.finished:,} finished, {about}{human_bytes(parts.bytes)}",
        ]
        if self.shards[1]:
            lines.append(f"  shards     {self.shards[0]:,} of {self.shards[1]:,} published")
        if self.rate is not None and self.state == "encoding":
            left = "" if self.seconds_left is None else f", about {duration(self.seconds_left)} of encoding left"
            lines.append(f"  rate       {self.rate:,.0f} img/s over the latest parts{left}")
        lines += [f"  rejects    {clip(name, 1_000)}" for name in self.rejects[:3]]
        shown = ", ".join(
            f"{clip(name, 40)} {clip(value, 40)}"
            for name, value in sorted(self.config.items())
            if value is not None and value is not False
        )
        return [*lines, f"  build      {self.fingerprint}: {shown}"]
