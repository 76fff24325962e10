"""Side inputs whose views travel by name.

Beam's own views are functions made on the spot, which are pickled with their code into every step that has a side input: an
eighth of the graph, and code of the launcher's Python in it. Named functions are a reference to this module.
"""

from collections.abc import Iterable
from typing import Any

from apache_beam import pvalue
from apache_beam.portability import common_urns

_ITERABLE = common_urns.side_inputs.ITERABLE.urn


class AsSingleton(pvalue.AsSingleton):
    """The one element of a PCollection."""

    def _side_input_data(self) -> pvalue.SideInputData:
        return pvalue.SideInputData(_ITERABLE, self._window_mapping_fn, the_only)


class AsIter(pvalue.AsIter):
    """All elements of a PCollection."""

    def _side_input_data(self) -> pvalue.SideInputData:
        return pvalue.SideInputData(_ITERABLE, self._window_mapping_fn, the_same)


def the_only(values: Iterable[Any]) -> Any:
    """The one value; an error where there is another number of them."""
    (value,) = values
    return value


def the_same(values: Iterable[Any]) -> Iterable[Any]:
    """The values."""
    return values
