"""Makes graphs of Beam faster: what Beam works out anew at each look is worked out once."""

from __future__ import annotations

import argparse
import copy
import functools
from collections.abc import Callable
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import userstate

_BEAMS = PipelineOptions.view_as


def look_once(put: Callable[[Any, str, object], None]) -> None:
    """``put(owner, name, value)`` replaces two functions of Beam's.

    It looks at each step four times, which is a third of a tiny build's time, and parses all flags
    for each of 600 looks at an option, which is another third.
    """
    put(userstate, "get_dofn_specs", functools.cache(userstate.get_dofn_specs))
    put(PipelineOptions, "view_as", _view_as)


def _view_as(options: Any, kind: Any) -> Any:
    """``PipelineOptions.view_as``: a view of ``kind`` that shares the values of all views."""
    if options._flags is None:
        return _BEAMS(options, kind)  # which parses the program's own
    visible, view = copy.deepcopy(_parsed(kind, tuple(options._flags))), object.__new__(kind)
    for name, value in vars(visible).items():
        options._all_options.setdefault(name, value)
    vars(view).update(_flags=options._flags, _visible_options=visible, _all_options=options._all_options)
    return view


@functools.cache
def _parsed(kind: Any, flags: tuple[str, ...]) -> argparse.Namespace:
    visible: argparse.Namespace = kind(list(flags))._visible_options
    return visible
