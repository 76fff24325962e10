"""ListImages: input roots -> batches of references."""

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.pvalue import PBegin, PCollection
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from shardfeed.storage import retry
from shardfeed.transforms.elements import RefBatch
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.inputs.listing import list_sections
from shardfeed.transforms.inputs.roots import InputRoot
from shardfeed.transforms.run.outcome import reported
from shardfeed.transforms.run.state import Run
from shardfeed.transforms.run.versions import Versions, require_same, versions_here
from shardfeed.transforms.sources import open_source
from shardfeed.transforms.steps import coders  # noqa: F401 (registers the coders)

_SHOWN = 10  # inputs; the graph must not grow with them


class ListImages(beam.PTransform[Any, Any]):
    """Lists every root, its first-level folders side by side; skipped files are counted in the batches."""

    def __init__(self, roots: tuple[InputRoot, ...], *, image: ImageOptions, run: Run) -> None:
        super().__init__()
        self._roots, self._image, self._run = roots, image, run

    def expand(self, begin: PBegin) -> PCollection[RefBatch]:
        return (
            begin
            | "NameRoots" >> beam.Create(range(len(self._roots)), reshuffle=False).with_output_types(int)
            | "FindFolders" >> beam.ParDo(_FindFolders(self._roots, self._run, versions_here(self._image)))
            | "SpreadFolders" >> beam.Reshuffle()
            | "ListFolders" >> beam.ParDo(_ListFolders(self._roots, self._run))
        )

    def display_data(self) -> dict[str, Any]:
        return {f"input_{index}": root.url for index, root in enumerate(self._roots[:_SHOWN])}


class _FindFolders(beam.DoFn):
    def __init__(self, roots: tuple[InputRoot, ...], run: Run, launcher: Versions) -> None:
        self._roots, self._run, self._launcher = roots, run, launcher

    def process(self, index: int) -> Iterable[tuple[int, bytes]]:
        self._run.enter("listing")
        retry.take_retries()  # of an earlier run in this process
        with reported(self._run):
            require_same(self._launcher)
            return [(index, section) for section in open_source(self._roots[index].url).sections()]


class _ListFolders(beam.DoFn):
    """Lists a bundle's folders at its end, so that those of buckets are listed side by side."""

    def __init__(self, roots: tuple[InputRoot, ...], run: Run) -> None:
        self._roots, self._run = roots, run
        self._bundle: list[tuple[int, bytes]] = []
        self._retries = Metrics.counter("shardfeed", "retries")

    def start_bundle(self) -> None:
        self._bundle = []

    def process(self, section: tuple[int, bytes]) -> None:
        self._bundle.append(section)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        window = GlobalWindow()
        with reported(self._run):
            self._run.check()
            for batch in list_sections(self._roots, self._bundle, self._run.check):
                yield WindowedValue(batch, window.max_timestamp(), (window,))
        self._retries.inc(retry.take_retries())
