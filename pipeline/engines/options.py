"""Beam's options with each view made once.

Beam asks for views of its options several times per step, and each time makes a parser of all flags of
the view: half of the half second that constructing the graph costs. Views share their values with the
options that they are made from, so one per class is enough.
"""

from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions


class EngineOptions(PipelineOptions):
    """PipelineOptions that keeps its views."""

    def view_as(self, cls: type[Any]) -> Any:
        """The view of these options as ``cls``."""
        views: dict[type[Any], Any] = self.__dict__.setdefault("_kept_views", {})
        if cls not in views:
            views[cls] = super().view_as(cls)
        return views[cls]
