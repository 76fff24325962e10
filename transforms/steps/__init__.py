"""Which steps has the Beam graph? One file per step; no other folder here imports Beam."""

from shardfeed.transforms.steps import coders  # noqa: F401 (registers the coders of the elements)
