"""What our packages import, read from their syntax trees: nothing is imported to find out."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("shardfeed", "transforms", "pipeline")


def files(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module_name(path: Path) -> str:
    """The name of an imported file: ``shardfeed.pipeline.local`` for ``pipeline/local.py``."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "shardfeed" else ("shardfeed", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes(), str(path))


def all_imports(path: Path) -> set[str]:
    """Full names of modules that a file imports anywhere, also inside functions and for type checkers only.

    ``from . import x`` does not occur (checked by a test).
    """
    names: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add("." * node.level + (node.module or ""))
    return names


def top(name: str) -> str:
    return name.partition(".")[0]


def needs_beam(path: Path) -> bool:
    """Whether a file of ``transforms`` may import Beam: each step may, nothing else."""
    return path.parent == ROOT / "transforms" / "steps"
