"""The version, in this one place: pyproject.toml, manifests and ``--version`` read it here.

A literal in a file of its own, so that the build reads it without importing any dependency.
"""

__version__ = "0.1.0"
