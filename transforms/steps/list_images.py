"""ListImages: input roots -> batches of references."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PBegin, PCollection
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from shardfeed.storage import retry
from shardfeed.transforms.elements import RefBatch
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.inputs.listing import list_sections
from shardfeed.transforms.inputs.lists import open_root
from shardfeed.transforms.inputs.roots import InputRoot
from shardfeed.transforms.run.outcome import reported
from shardfeed.transforms.run.state import Run
from shardfeed.transforms.run.versions import Versions, require_same_versions, versions_here
from shardfeed.transforms.steps import metrics


@dataclass(eq=False, kw_only=True)
class ListImages(beam.PTransform[Any, Any]):
    """Lists every root, its first-level folders side by side.

    Skipped files are counted in the batches.
    """

    roots: tuple[InputRoot, ...]
    image: ImageOptions
    run: Run

    def expand(self, begin: PBegin) -> PCollection[RefBatch]:
        launchers = versions_here(self.image)
        return (
            begin
            | "NameRoots" >> beam.Create(range(len(self.roots)), reshuffle=False).with_output_types(int)
            | "FindFolders" >> beam.FlatMap(_find_folders, self.roots, launchers, self.run)
            | "SpreadFolders" >> beam.Reshuffle()
            | "ListFolders" >> beam.ParDo(_ListFolders(self.roots, self.run))
        )


def _find_folders(
    index: int, roots: tuple[InputRoot, ...], launchers: Versions, run: Run
) -> Iterable[tuple[int, bytes]]:
    run.enter("listing")
    retry.take_retries()  # of an earlier run in this process
    with reported(run):
        require_same_versions(launchers)
        return [(index, section) for section in open_root(roots[index]).sections()]


class _ListFolders(beam.DoFn):
    """Lists a bundle's folders at its end, so that those of buckets overlap."""

    def __init__(self, roots: tuple[InputRoot, ...], run: Run) -> None:
        self._roots, self._run = roots, run

    def start_bundle(self) -> None:
        self._bundle: list[tuple[int, bytes]] = []

    def process(self, section: tuple[int, bytes]) -> None:
        self._bundle.append(section)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        with reported(self._run):
            self._run.check()
            for batch in list_sections(self._roots, self._bundle, self._run.check):
                yield GlobalWindows.windowed_value(batch)
        metrics.count()
