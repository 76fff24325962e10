"""The version, in this one place: pyproject.toml, manifests and ``--version`` read it here.

A literal in a file of its own, so that the build reads it without importing the package's dependencies.
"""

__version__ = "0.1.0"
