"""What a build shows if it was handed over to an engine and nobody waits for it."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from shardfeed.words import printable_json


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job that was handed over and not waited for.

    ``job_id``: the engine's; None if the job went into a template's file. ``link``: its page, if it
    has one.
    """

    output: str
    job_id: str | None
    link: str | None = None

    def to_json(self) -> str:
        """One JSON object."""
        return printable_json({"status": "submitted", **asdict(self)}, sort_keys=True)

    def to_text(self) -> str:
        """Lines for a person."""
        link = f"\n  {self.link}" if self.link else ""
        job = f"job {self.job_id}{link}" if self.job_id else "the job is in the template's file"
        return (
            f"Submitted, not waited for: {job}\nThe dataset is there when {self.output}/manifest.json is; to see whether "
            "it is, rerun the same command."
        )
