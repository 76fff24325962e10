"""What our packages import, read from their syntax trees: nothing is imported to find out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
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


def imports(nodes: Iterator[ast.AST]) -> set[str]:
    """Full names of imported modules; ``from . import x`` does not occur (checked by a test)."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add("." * node.level + (node.module or ""))
    return names


def all_imports(path: Path) -> set[str]:
    """Imported anywhere in the file, also inside functions and for type checkers only."""
    return imports(ast.walk(tree(path)))


def import_time_imports(path: Path) -> set[str]:
    """Imported when the module is: not in functions, not under ``if TYPE_CHECKING``."""
    return imports(_run_at_import(tree(path)))


def _run_at_import(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"):
            continue
        yield child
        yield from _run_at_import(child)


def top(name: str) -> str:
    return name.partition(".")[0]


def needs_beam(path: Path) -> bool:
    """Whether a file of ``transforms`` may import Beam: each step may, nothing else."""
    return path.parent == ROOT / "transforms" / "steps"
