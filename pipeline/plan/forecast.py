"""What a build would give and cost: a screen of text, or the same facts as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from shardfeed.errors import clip
from shardfeed.pipeline.plan.cost import PRICES_IN, PRICES_OF, CloudCost
from shardfeed.pipeline.plan.notes import Note
from shardfeed.pipeline.plan.sample import Calibration
from shardfeed.pipeline.report.summary import shown_classes
from shardfeed.transforms.elements import Totals, add_counts
from shardfeed.words import by_count, duration, human_bytes, plural, printable_json


@dataclass(frozen=True, slots=True)
class SplitForecast:
    """A split.

    ``error``: share that ``bytes`` may be off by, two standard errors. ``by_class``: images listed.
    """

    images: int
    records: int
    bytes: int
    error: float
    parts: int
    shards: int
    by_class: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a build would give, take and cost. ``threads``, ``seconds``: on this machine."""

    inputs: Sequence[str]
    output: str
    totals: Totals
    classes: Sequence[str]
    label_kind: str
    formats: Sequence[str]
    splits: Mapping[str, SplitForecast]
    sample: Calibration
    threads: int
    seconds: float
    cloud: CloudCost
    notes: Sequence[Note]

    @property
    def bytes(self) -> int:
        """Predicted bytes of all shards."""
        return sum(split.bytes for split in self.splits.values())

    @property
    def code(self) -> int:
        """The exit code that the build would surely end with, else 0.

        Of several codes the largest counts: a conflict (5), which a build meets first.
        """
        return max((note.code for note in self.notes), default=0)

    def to_json(self) -> str:
        """One JSON object."""
        cloud = asdict(self.cloud) | {"prices_of": PRICES_OF, "prices_in": PRICES_IN}
        cloud |= {name: round(cloud[name], 4) for name in ("vcpu_hours", "hours", "dollars")}
        raw = {
            "status": "planned",
            "inputs": [clip(url, 1_000) for url in self.inputs],
            "output": self.output,
            "listed": self.totals.listed,
            "images": self.totals.candidates,
            "skipped": self.totals.skipped,
            "classes": self.classes,
            "formats": list(self.formats),
            "splits": {name: asdict(split) | {"error": round(split.error, 4)} for name, split in self.splits.items()},
            "bytes": self.bytes,
            "sample": {"images": len(self.sample.trials), "rejected": self.sample.rejected},
            "here": {"threads": self.threads, "rate": round(self.sample.rate, 1), "seconds": round(self.seconds, 1)},
            "dataflow": cloud,
            "notes": [note.text for note in self.notes],
            "exit_code": self.code,
        }
        return printable_json(raw, sort_keys=True)

    def to_text(self) -> str:
        """Lines for a person, without control characters."""
        where = ", ".join(clip(url, 200) for url in self.inputs)
        skipped = self.totals.skipped
        why_skipped = f" ({by_count(skipped)})" if skipped else ""
        by_class = [split.by_class for split in self.splits.values()]
        next_step = "the same flags with `shardfeed build`"
        if self.code:
            next_step = f"see the notes; the build would end with exit code {self.code}"
        return "\n".join(
            [
                f"Plan: {where} -> {clip(self.output, 1_000)} (nothing was written)",
                f"  images     {self.totals.listed:,} listed = {self.totals.candidates:,} candidates + "
                f"{sum(skipped.values()):,} skipped{why_skipped}",
                *(self._split_line(name, split) for name, split in self.splits.items()),
                f"  formats    {', '.join(self.formats)}",
                f"  classes    {shown_classes(self.classes, add_counts(*by_class), self.label_kind)}",
                *self._costs(),
                *(f"  note       {clip(note.text, 2_000)}" for note in self.notes),
                f"Next: {next_step}",
            ]
        )

    @staticmethod
    def _split_line(name: str, split: SplitForecast) -> str:
        error = f" ±{100 * split.error:.1f} %" if split.error else ""
        shards = "in no shard"
        if split.records:
            each = human_bytes(split.bytes / split.shards)
            shards = f"in {plural(split.shards, 'shard')} of about {each}, {plural(split.parts, 'part')}"
        return (
            f"  {name:<10} {plural(split.images, 'image')}, about {plural(split.records, 'record')}, "
            f"{human_bytes(split.bytes)}{error}, {shards}"
        )

    def _costs(self) -> list[str]:
        cloud, sample = self.cloud, self.sample
        read, rejects = len(sample.trials), sum(sample.rejected.values())
        rejected = f"{rejects:,} of {read:,} images read ({by_count(sample.rejected)})" if rejects else "none"
        workers = f"{cloud.vcpus:,} vCPUs ({plural(cloud.workers, 'worker')})"
        hours = f"{cloud.vcpu_hours:,.0f}" if cloud.vcpu_hours >= 10 else f"{cloud.vcpu_hours:.2f}"
        return [
            f"  sample     {plural(read, 'image')} read and encoded; rejects: {rejected}",
            f"  here       about {duration(self.seconds)} ({sample.rate:,.0f} img/s with {self.threads} threads), "
            f"{human_bytes(2 * self.bytes)} of disk until the commit",
            f"  Dataflow   about {hours} vCPU-hours, {duration(3600 * cloud.hours)} on {workers}; "
            f"{cloud.reads:,} GETs, {cloud.writes:,} lists and writes; about ${cloud.dollars:,.2f}",
            f"             list prices of {PRICES_IN}, {PRICES_OF}; a vCPU is assumed to be as fast as a core here; storage and",
            "             traffic between regions are not counted",
        ]
