"""The rejects files: one JSON line per rejected image, in (split, part, hash, key) order.

They are cut into files of 100,000 lines. Each file is made from the sidecars by itself, so that a
hundred million rejects fit in memory. If the verdict ends the build, they lie below ``_parts/``;
the lines are the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from shardfeed.errors import IncompleteError
from shardfeed.format import naming
from shardfeed.format.checksums import crc32c
from shardfeed.transforms.elements import FileResult, RejectsPlan, Verdict
from shardfeed.transforms.output.part_files import read_sidecar
from shardfeed.transforms.stores.base import WritableStore
from shardfeed.words import printable_json

LINES_A_FILE = 100_000  # about 10 MB


def plan_rejects(verdict: Verdict) -> list[RejectsPlan]:
    """Which part's rejects go to which file.

    There are no files if images were lost: then no reject is the reason of the failure.
    """
    if verdict.code == IncompleteError.code:
        return []
    return cut_files(verdict.counts.rejects_by_part, LINES_A_FILE)


def cut_files(by_part: Iterable[tuple[str, int, int]], lines: int) -> list[RejectsPlan]:
    """Files of ``lines`` rejects each; ``by_part``: (split, part, rejects), in order."""
    files: list[list[tuple[str, int, int, int]]] = []
    room = 0
    for split, part, count in by_part:
        done = 0
        while done < count:
            if not room:
                files.append([])
                room = lines
            take = min(room, count - done)
            files[-1].append((split, part, done, take))
            done, room = done + take, room - take
    return [RejectsPlan(naming.rejects_name(i, len(files)), tuple(slices)) for i, slices in enumerate(files)]


def write_rejects(store: WritableStore, fingerprint: str, plan: RejectsPlan, verdict: Verdict) -> FileResult:
    """Publishes a rejects file in the output, or below ``_parts/`` if the verdict ends the build.

    Create-only, so a rerun confirms it.
    """
    name = f"{naming.work_folder(fingerprint)}/rejects/{plan.file}" if verdict.code else plan.file
    lines = []
    for split, part, skip, take in plan.slices:
        sidecar = read_sidecar(store, fingerprint, split, part)
        if sidecar is None:
            if store.stat(name) is not None:  # a joined build published it and swept its parts meanwhile
                size, crc = store.checksum(name)
                return FileResult(name, size, crc)
            raise IncompleteError(f"part {part} of {split} is gone. Rerun the same command.")
        for key, reason, detail in sidecar.rejects[skip : skip + take]:
            lines.append(printable_json({"key": key, "reason": reason, "detail": detail}) + "\n")
    data = "".join(lines).encode()
    store.publish(name, data, durable=not verdict.code)
    return FileResult(name, len(data), crc32c(data))
