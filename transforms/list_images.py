"""ListImages: input roots -> batches of references."""

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PBegin, PCollection

from shardfeed import storage
from transforms import types  # noqa: F401 (registers the coders)
from transforms.elements import RefBatch
from transforms.input_roots import InputRoot
from transforms.listing import list_section
from transforms.outcome import Output, reported
from transforms.run_state import RUN
from transforms.worker_versions import Versions, require_same, versions_here

_SHOWN = 10  # inputs; the graph must not grow with them


class ListImages(beam.PTransform[Any, Any]):
    """Lists every root, its first-level folders side by side; skipped files are counted in the batches."""

    def __init__(self, roots: tuple[InputRoot, ...], *, output: Output) -> None:
        super().__init__()
        self._roots, self._output = roots, output

    def expand(self, begin: PBegin) -> PCollection[RefBatch]:
        return (
            begin
            | "NameRoots" >> beam.Create(range(len(self._roots)), reshuffle=False).with_output_types(int)
            | "FindFolders" >> beam.ParDo(_FindFolders(self._roots, self._output, versions_here()))
            | "SpreadFolders" >> beam.Reshuffle()
            | "ListFolders" >> beam.ParDo(_ListFolders(self._roots, self._output))
        )

    def display_data(self) -> dict[str, Any]:
        return {f"input_{index}": root.url for index, root in enumerate(self._roots[:_SHOWN])}


class _FindFolders(beam.DoFn):
    def __init__(self, roots: tuple[InputRoot, ...], output: Output, launcher: Versions) -> None:
        self._roots, self._output, self._launcher = roots, output, launcher

    def process(self, index: int) -> Iterable[tuple[int, bytes]]:
        RUN.enter("listing")
        with reported(self._output):
            require_same(self._launcher)
            sections = storage.open_source(self._roots[index].url).sections()
        return [(index, section) for section in sections]


class _ListFolders(beam.DoFn):
    def __init__(self, roots: tuple[InputRoot, ...], output: Output) -> None:
        self._roots, self._output = roots, output

    def process(self, section: tuple[int, bytes]) -> Iterator[RefBatch]:
        index, piece = section
        with reported(self._output):
            RUN.check()
            yield from list_section(self._roots[index], index, piece)
