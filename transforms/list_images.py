"""ListImages: input roots -> batches of references."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.pvalue import PBegin, PCollection
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from shardfeed import storage
from shardfeed.storage import retry
from transforms import types  # noqa: F401 (registers the coders)
from transforms.elements import RefBatch
from transforms.images.options import ImageOptions
from transforms.input_roots import InputRoot
from transforms.listing import Section, list_sections
from transforms.outcome import Output, reported
from transforms.run_state import RUN
from transforms.worker_versions import Versions, require_same, versions_here

_SHOWN = 10  # inputs; the graph must not grow with them


class ListImages(beam.PTransform[Any, Any]):
    """Lists every root, its first-level folders side by side; skipped files are counted in the batches."""

    def __init__(self, roots: tuple[InputRoot, ...], *, image: ImageOptions, output: Output) -> None:
        super().__init__()
        self._roots, self._image, self._output = roots, image, output

    def expand(self, begin: PBegin) -> PCollection[RefBatch]:
        return (
            begin
            | "NameRoots" >> beam.Create(range(len(self._roots)), reshuffle=False).with_output_types(int)
            | "FindFolders" >> beam.ParDo(_FindFolders(self._roots, self._output, versions_here(self._image)))
            | "SpreadFolders" >> beam.Reshuffle()
            | "ListFolders" >> beam.ParDo(_ListFolders(self._roots, self._output))
        )

    def display_data(self) -> dict[str, Any]:
        return {f"input_{index}": root.url for index, root in enumerate(self._roots[:_SHOWN])}


class _FindFolders(beam.DoFn):
    def __init__(self, roots: tuple[InputRoot, ...], output: Output, launcher: Versions) -> None:
        self._roots, self._output, self._launcher = roots, output, launcher
        self._retries = _list_retries()

    def process(self, index: int) -> Iterable[tuple[int, bytes]]:
        RUN.enter("listing")
        waits = retry.waits()
        with reported(self._output):
            require_same(self._launcher)
            if (ahead := _listed_ahead()) is not None:
                return [(root, section) for root, section in ahead if root == index]
            found = [(index, section) for section in storage.open_source(self._roots[index].url).sections()]
        self._retries.inc(retry.waits() - waits)
        return found


class _ListFolders(beam.DoFn):
    """Lists a bundle's folders at its end, so that those of buckets are listed side by side."""

    def __init__(self, roots: tuple[InputRoot, ...], output: Output) -> None:
        self._roots, self._output = roots, output
        self._bundle: list[tuple[int, bytes]] = []
        self._retries = _list_retries()

    def start_bundle(self) -> None:
        self._bundle = []

    def process(self, section: tuple[int, bytes]) -> None:
        self._bundle.append(section)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        window, waits = GlobalWindow(), retry.waits()
        with reported(self._output):
            RUN.check()
            for batch in self._batches():
                yield WindowedValue(batch, window.max_timestamp(), (window,))
        self._retries.inc(retry.waits() - waits)

    def _batches(self) -> Iterator[RefBatch]:
        ahead = _listed_ahead() or {}
        for section in self._bundle:
            yield from ahead.get(section, ())
        for _, batch in list_sections(self._roots, [section for section in self._bundle if section not in ahead]):
            yield batch


def _list_retries() -> Any:
    return Metrics.counter("shardfeed", "list_retries")


def _listed_ahead() -> Mapping[Section, list[RefBatch]] | None:
    return None if RUN.helpers is None else RUN.helpers.listing()
