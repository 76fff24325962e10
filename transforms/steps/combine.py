"""Elements of one kind -> their sum, some hundred at a time.

A sum grows with the classes, and with the parts that have rejects. To add elements one by one
would copy it for each of them.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import apache_beam as beam

_SOME = 256  # elements

_Element = TypeVar("_Element")


def add_up(kind: type[_Element], add: Callable[[Iterable[_Element]], _Element]) -> beam.PTransform[Any, Any]:
    """A step that adds up its input, in any order, by ``add``.

    It gives nothing for no input, which does not occur: every listed section gives a batch, and an
    input without images is refused before there are parts. Beam's default for it takes ten steps.
    """
    return beam.CombineGlobally(_Sum(kind, add).with_input_types(kind).with_output_types(kind)).without_defaults()


class _Sum(beam.CombineFn):
    def __init__(self, kind: type[Any], add: Callable[[Iterable[Any]], Any]) -> None:
        self._kind = kind
        self._add = add

    def get_accumulator_coder(self) -> beam.coders.Coder:
        return beam.coders.registry.get_coder(beam.typehints.List[self._kind])

    def create_accumulator(self) -> list[Any]:
        return []

    def add_input(self, accumulator: list[Any], element: Any) -> list[Any]:
        accumulator.append(element)
        return accumulator if len(accumulator) < _SOME else [self._add(accumulator)]

    def merge_accumulators(self, accumulators: Iterable[list[Any]]) -> list[Any]:
        return [self._add(element for accumulator in accumulators for element in accumulator)]

    def compact(self, accumulator: list[Any]) -> list[Any]:
        return [self._add(accumulator)]

    def extract_output(self, accumulator: list[Any]) -> Any:
        return self._add(accumulator)
