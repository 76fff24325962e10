"""Exists because Dataflow's ``--setup_file`` wants this name; metadata is in pyproject.toml.

It does two things. Only the name ``shardfeed`` is installed: the folders ``pipeline`` and
``transforms`` become ``shardfeed.pipeline`` and ``shardfeed.transforms``, because users have
packages of these names themselves. And a source package for workers asks for their launcher's
codecs, given in ``SHARDFEED_PINS="pillow==12.3.0 simplejpeg==1.9.0 cykooz-resizer==4.0.1"``; what
the build uses of the extra ``formats`` becomes a dependency of that package (pipeline/dataflow/codec_pins.py says why).
"""

import os
import re
from pathlib import Path

import setuptools
from setuptools.command.sdist import sdist


class PinnedSdist(sdist):
    """A source package with pins in place of ranges, if there are pins."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Copies the files, and changes the copies; setuptools makes no hard links here."""
        super().make_release_tree(base_dir, files)
        for pin in os.environ.get("SHARDFEED_PINS", "").split():
            for name in ("pyproject.toml", "PKG-INFO"):  # pip asks the first, other installers believe the second
                _pin(Path(base_dir, name), pin)


def _pin(path: Path, pin: str) -> None:
    name = re.escape(pin.partition("==")[0])
    of_extra = re.compile(rf'^(formats = \["|Requires-Dist: ){name}[<>=~][^\n]*(extra == "formats"|\]$)', re.MULTILINE)
    entry = re.compile(rf'^(  "|Requires-Dist: ){name}[<>=~][^"\n]*', re.IGNORECASE | re.MULTILINE)
    text = path.read_text(encoding="utf-8")
    if of_extra.search(text):  # workers get no extras: what a build uses of them becomes a dependency
        text = of_extra.sub(f"Requires-Dist: {pin}" if path.name == "PKG-INFO" else "formats = []", text)
        text = re.sub(r"^dependencies = \[$", f'dependencies = [\n  "{pin}",', text, flags=re.MULTILINE)
    text, found = entry.subn(rf"\g<1>{pin}", text)
    if found != 1:
        raise SystemExit(f"setup.py: {pin} of SHARDFEED_PINS is no dependency in {path.name}")
    path.write_text(text, encoding="utf-8")


FOLDERS = {"shardfeed": "shardfeed", "shardfeed.pipeline": "pipeline", "shardfeed.transforms": "transforms"}

setuptools.setup(
    cmdclass={"sdist": PinnedSdist},
    package_dir=FOLDERS,
    packages=[
        ".".join(filter(None, (package, below)))
        for package, folder in FOLDERS.items()
        for below in ("", *setuptools.find_packages(folder))
    ],
)
