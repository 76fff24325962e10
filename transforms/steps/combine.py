"""Elements of one kind -> their sum, some hundred at a time.

A sum grows with the classes, and with the parts that have rejects. To add elements one by one
would copy it for each of them.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import apache_beam as beam
from apache_beam.transforms.core import CallableWrapperCombineFn

_SOME = 256  # elements

_Element = TypeVar("_Element")


def add_up(kind: type[_Element], add: Callable[[Iterable[_Element]], _Element]) -> beam.PTransform[Any, Any]:
    """A step that adds up its input, in any order, by ``add``.

    It gives nothing for no input, which does not occur: every listed section gives a batch, and an
    input without images is refused before there are parts. Beam's default for it takes ten steps.
    """
    return beam.CombineGlobally(_Sum(kind, add).with_input_types(kind).with_output_types(kind)).without_defaults()


class _Sum(CallableWrapperCombineFn):
    """Beam's, which adds up more elements at a time and keeps them in our coder."""

    def __init__(self, kind: type[Any], add: Callable[[Iterable[Any]], Any]) -> None:
        super().__init__(add, buffer_size=_SOME)
        self._kind = kind

    def get_accumulator_coder(self) -> beam.coders.Coder:
        return beam.coders.registry.get_coder(beam.typehints.List[self._kind])
