"""Exists because Dataflow's ``--setup_file`` wants a file of this name; all metadata is in pyproject.toml.

The one addition: a source package that is built for workers asks for the codecs of their launcher, which it gives in
``SHARDFEED_PINS="pillow==12.3.0 cykooz-resizer==4.0.1"`` (pipeline/worker_package.py says why).
"""

import os
import re
from pathlib import Path

import setuptools
from setuptools.command.sdist import sdist


class PinnedSdist(sdist):
    """A source package with pins in the place of ranges, where there are pins."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Copies the files, and changes the copy of pyproject.toml."""
        super().make_release_tree(base_dir, files)
        pins = os.environ.get("SHARDFEED_PINS", "").split()
        if not pins:
            return
        project = Path(base_dir, "pyproject.toml")  # a copy: setuptools makes no hard links here
        text = project.read_text(encoding="utf-8")
        for pin in pins:
            name = re.escape(pin.partition("==")[0])
            text, found = re.subn(rf'^  "{name}[<>=~][^"]*"', f'  "{pin}"', text, flags=re.IGNORECASE | re.MULTILINE)
            if found != 1:
                raise SystemExit(f"setup.py: {pin} of SHARDFEED_PINS is no dependency of pyproject.toml")
        project.write_text(text, encoding="utf-8")


setuptools.setup(cmdclass={"sdist": PinnedSdist})
