"""Exists because Dataflow's ``--setup_file`` wants a file of this name; all metadata is in pyproject.toml."""

import setuptools

setuptools.setup()
