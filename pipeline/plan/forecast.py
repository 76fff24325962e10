"""What a build would give and take: a screen of text, or the same facts as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from shardfeed.errors import clip
from shardfeed.pipeline.plan.cost import PRICES_IN, PRICES_OF, CloudCost
from shardfeed.words import by_count, duration, human_bytes

_CLASS_ROWS = 20
_SPLIT_COLUMNS = 5


@dataclass(frozen=True, slots=True)
class SplitForecast:
    """A split. ``error``: share that ``bytes`` may be off by (two standard errors); ``by_class``: images listed."""

    images: int
    records: int
    bytes: int
    error: float
    parts: int
    shards: int
    by_class: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Forecast:
    """A build that was not made. ``rejected``: of the ``sampled`` images by reason; ``rate``: images a second here.

    ``code``: that it would end with by a reason among the ``notes``, where that is sure; else 0.
    """

    inputs: Sequence[str]
    output: str
    listed: int
    skipped: Mapping[str, int]
    splits: Mapping[str, SplitForecast]
    classes: Sequence[str]
    sampled: int
    rejected: Mapping[str, int]
    threads: int
    rate: float
    seconds: float
    cloud: CloudCost
    notes: Sequence[str]
    code: int

    @property
    def images(self) -> int:
        """Candidates: listed and not skipped."""
        return sum(split.images for split in self.splits.values())

    @property
    def bytes(self) -> int:
        """Predicted bytes of all shards."""
        return sum(split.bytes for split in self.splits.values())

    def to_json(self) -> str:
        """One JSON object."""
        cloud = asdict(self.cloud) | {"prices_of": PRICES_OF, "prices_in": PRICES_IN}
        cloud |= {name: round(cloud[name], 4) for name in ("vcpu_hours", "hours", "dollars")}
        raw = {
            "status": "planned",
            "inputs": [clip(url, 1_000) for url in self.inputs],
            "output": self.output,
            "listed": self.listed,
            "images": self.images,
            "skipped": dict(self.skipped),
            "classes": list(self.classes),
            "splits": {
                name: asdict(split) | {"error": round(split.error, 4), "by_class": dict(split.by_class)}
                for name, split in self.splits.items()
            },
            "bytes": self.bytes,
            "sample": {"images": self.sampled, "rejected": dict(self.rejected)},
            "here": {"threads": self.threads, "rate": round(self.rate, 1), "seconds": round(self.seconds, 1)},
            "dataflow": cloud,
            "notes": list(self.notes),
            "exit_code": self.code,
        }
        return json.dumps(raw, ensure_ascii=False, sort_keys=True)

    def to_text(self) -> str:
        """Lines for a person, without control characters."""
        where = ", ".join(clip(url, 200) for url in self.inputs)
        skipped = f" ({by_count(self.skipped)})" if self.skipped else ""
        lines = [
            f"Plan: {where} -> {clip(self.output, 1_000)} (nothing was written)",
            f"  images     {self.listed:,} listed = {self.images:,} candidates + {sum(self.skipped.values()):,} skipped{skipped}",
            *self._splits(),
            *self._classes(),
            *self._costs(),
        ]
        lines += [f"  note       {clip(note, 2_000)}" for note in self.notes]
        stops = f"see the notes; the build would end with exit code {self.code}"
        lines.append(f"Next: {stops if self.code else 'the same flags with `shardfeed build`'}")
        return "\n".join(lines)

    def _splits(self) -> list[str]:
        lines = []
        for name, split in self.splits.items():
            error = f" ±{100 * split.error:.1f} %" if split.error else ""
            made = f"{human_bytes(split.bytes)}{error}, in no shard"
            if split.records:
                each = human_bytes(split.bytes / split.shards)
                shards = f"{split.shards:,} shard{'s' * (split.shards != 1)} of about {each}"
                made = f"{human_bytes(split.bytes)}{error}, in {shards}, {split.parts:,} parts"
            lines.append(f"  {name:<10} {split.images:,} images, about {split.records:,} records, {made}")
        return lines

    def _classes(self) -> list[str]:
        shown = list(self.splits)[:_SPLIT_COLUMNS]
        width = max([len("classes"), *(len(clip(name, 40)) for name in self.classes[:_CLASS_ROWS])])
        columns = [max(len(name), 9) for name in shown]
        titles = "  ".join(f"{name:>{column}}" for name, column in zip(shown, columns, strict=True))
        lines = [f"  {'classes':<{width}}  {titles}"]
        for label in self.classes[:_CLASS_ROWS]:
            counts = (self.splits[name].by_class.get(label, 0) for name in shown)
            cells = "  ".join(f"{count:>{column},}" for count, column in zip(counts, columns, strict=True))
            lines.append(f"  {clip(label, 40):<{width}}  {cells}")
        more = len(self.classes) - _CLASS_ROWS
        return [*lines, f"  … and {more:,} more classes"] if more > 0 else lines

    def _costs(self) -> list[str]:
        cloud, rejects = self.cloud, sum(self.rejected.values())
        share = f"{rejects:,} of {self.sampled:,} images read ({by_count(self.rejected)})" if rejects else "none"
        workers = f"{cloud.vcpus:,} vCPUs ({cloud.workers:,} worker{'s' * (cloud.workers != 1)})"
        return [
            f"  sample     {self.sampled:,} images read and encoded; rejects: {share}",
            f"  here       about {duration(self.seconds)} ({self.rate:,.0f} img/s with {self.threads} threads), "
            f"{human_bytes(2 * self.bytes)} of disk until the commit",
            f"  Dataflow   about {_rounded(cloud.vcpu_hours)} vCPU-hours, {duration(3600 * cloud.hours)} on {workers}; "
            f"{cloud.reads:,} GETs, {cloud.writes:,} lists and writes; about ${cloud.dollars:,.2f}",
            f"             list prices of {PRICES_IN}, {PRICES_OF}; a vCPU is taken to be as fast as a core here; storage and "
            "traffic",
            "             between regions are not counted",
        ]


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2f}"
