"""Unpacks a Python as Go modules carry it: ``files.json`` lists it, and large files are compressed
one by one.

Usage: unpack_python.py FOLDER_OF_THE_MODULE NEW_FOLDER
"""

import gzip
import json
import shutil
import sys
from pathlib import Path


def unpack(source: Path, target: Path) -> None:
    """Writes every file that the module lists below ``target``."""
    for entry in json.loads((source / "files.json").read_text())["files"]:
        packed, path = source / entry["name"], target / entry["name"]
        if packed.is_dir():
            path.mkdir(parents=True, exist_ok=True)
        elif link := entry.get("symlink"):
            path.symlink_to(link)
        else:
            if packed.exists():
                shutil.copyfile(packed, path)
            else:
                path.write_bytes(gzip.decompress(packed.with_name(packed.name + ".gz").read_bytes()))
            path.chmod(entry["perm"] & 0o777 | 0o200)


if __name__ == "__main__":
    unpack(Path(sys.argv[1]), Path(sys.argv[2]))
