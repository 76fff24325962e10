"""What a build shows at its end: a screen of text, or the same facts as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shardfeed.errors import clip
from shardfeed.format import naming
from shardfeed.format.manifest import Manifest
from shardfeed.transforms.elements import add_counts
from shardfeed.transforms.metadata.join import NO_ROW
from shardfeed.words import by_count, duration, human_bytes, plural, printable_json, some_of

_CLASSES = 12  # shown


@dataclass(frozen=True, slots=True)
class Summary:
    """A published dataset and the run that found or made it.

    ``kept``: images that an earlier run had finished. If nobody knows how many images this
    run has encoded, it is None and no rate is shown.
    """

    manifest: Manifest
    output: str
    seconds: float
    already_built: bool
    kept: int | None = 0
    notes: tuple[str, ...] = ()

    def to_json(self) -> str:
        """One JSON object."""
        manifest = self.manifest
        raw: dict[str, Any] = {
            "status": "already_built" if self.already_built else "built",
            "output": self.output,
            "fingerprint": manifest.fingerprint,
            "listed": manifest.listed,
            "written": manifest.written,
            "rejected": dict(manifest.rejected),
            "skipped": dict(manifest.skipped),
            "fixes": dict(manifest.fixes),
            "classes": list(manifest.classes),
            "splits": {
                name: {
                    "records": split.records,
                    "bytes": split.bytes,
                    "shards": len(split.shards),
                    **_shard_sizes([shard.bytes for shard in split.shards]),
                    "class_counts": dict(split.class_counts),
                }
                for name, split in manifest.splits.items()
            },
            "encoded_in_this_run": self._encoded(),
            "duplicates": manifest.duplicates,
            "seconds": round(self.seconds, 3),
            "notes": list(self.notes),
        }
        return printable_json(raw, sort_keys=True)

    def to_text(self) -> str:
        """Lines for a person, without control characters."""
        manifest = self.manifest
        output = clip(self.output, 1_000)
        lines = [f"Already built: {output}" if self.already_built else f"Built: {output}"]
        rejected, skipped = _with_reasons("rejected", manifest.rejected), _with_reasons("skipped", manifest.skipped)
        lines.append(f"  images     {manifest.listed:,} listed = {manifest.written:,} written + {rejected} + {skipped}")
        if manifest.fixes:
            lines.append(f"  fixes      {by_count(manifest.fixes)}")
        if unmatched := shown_unmatched(manifest):
            lines.append(f"  unmatched  {unmatched}")
        for name, split in manifest.splits.items():
            sizes = _shard_sizes([shard.bytes for shard in split.shards])
            spread = (
                f" (min {human_bytes(sizes['min_bytes'])}, mean {human_bytes(sizes['mean_bytes'])}, "
                f"max {human_bytes(sizes['max_bytes'])})"
            )
            lines.append(
                f"  {name:<10} {plural(split.records, 'record')} in {plural(len(split.shards), 'shard')}, "
                f"{human_bytes(split.bytes)}{spread * (len(split.shards) > 1)}"
            )
        by_class = add_counts(*(split.class_counts for split in manifest.splits.values()))
        lines.append(f"  classes    {shown_classes(manifest.classes, by_class, manifest.label_kind)}")
        if manifest.duplicates is not None:
            lines.append(f"  duplicates {shown_duplicates(manifest.duplicates)}")
        if not self.already_built:
            encoded = self._encoded()
            kept = f", {self.kept:,} images kept from an earlier run" if self.kept else ""
            rate = f", {encoded / self.seconds:,.0f} img/s" if encoded else ""
            took = f"{self.seconds:.1f} s" if self.seconds < 60 else duration(self.seconds)
            lines.append(f"  time       {took}{rate}{kept}")
        lines += [f"  note       {note}" for note in self.notes]
        lines.append(f"Next: shardfeed verify {shlex.quote(output)} --deep")
        return "\n".join(lines)

    def _encoded(self) -> int | None:
        if self.already_built:
            return 0
        if self.kept is None:
            return None
        return self.manifest.written + sum(self.manifest.rejected.values()) - self.kept


def _shard_sizes(sizes: list[int]) -> dict[str, int]:
    return {"min_bytes": min(sizes), "mean_bytes": sum(sizes) // len(sizes), "max_bytes": max(sizes)}


def _with_reasons(what: str, counts: Mapping[str, int]) -> str:
    total = sum(counts.values())
    return f"{total:,} {what} ({by_count(counts)})" if total else f"0 {what}"


def shown_unmatched(manifest: Manifest) -> str:
    """What the table and the input do not have in common; empty if that is nothing."""
    images, rows = manifest.skipped.get(NO_ROW, 0), manifest.listing.get("rows_without_image", 0)
    found = [f"{plural(images, 'image')} without a row"] * bool(images)
    found += [f"{plural(rows, 'row')} without an image"] * bool(rows)
    return f"{', '.join(found)} -> {naming.UNMATCHED}" if found else ""


def shown_duplicates(counts: Mapping[str, int]) -> str:
    """What was found, and what could not be compared."""
    pairs, groups = counts["pairs"], counts["groups"]
    text = "none"
    if pairs:
        among = f" in {plural(groups, 'group')}" if groups < pairs else ""
        text = (
            f"{plural(pairs, 'pair')} of near-duplicates{among}: {counts['labels']:,} with two labels, "
            f"{counts['splits']:,} across splits -> {naming.DUPLICATES}"
        )
    limits = []
    if counts["flat"]:
        limits.append(f"{counts['flat']:,} of almost no contrast or structure were compared by their bytes only")
    if crowded := counts["crowded"]:
        limits.append(f"{crowded:,} among too many near ones were not compared with all of them")
    return text + (f" ({'; '.join(limits)})" if limits else "")


def shown_classes(names: Sequence[str], counts: Mapping[str, int], label_kind: str) -> str:
    """The number of classes, and the first with their counts. ``label_kind``: the manifest's."""
    if label_kind == "none":
        return "none: the images have no labels"
    shown = some_of([f"{clip(name, 40)} {counts.get(name, 0):,}" for name in names], _CLASSES)
    several = " (an image may have several, or none)" if label_kind == "multi" else ""
    return f"{len(names):,}{several}: {shown}"
