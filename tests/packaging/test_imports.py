"""Which room may import which: a table from the ground up, and Beam in its own rooms only."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest

from tests.kit import sources

# A room is a folder of files, or a file beside the folders. It imports from itself and from the
# levels before its own.
LEVELS = (
    {"_version", "errors", "no_gc", "processes", "runtime", "warning", "words"},
    {"signals", "arguments", "format"},
    {"decoding", "resizing", "storage", "sampling"},
    {"dataset"},
    {"verification", "accelerator"},
    {"arrays", "testing"},
    {"random_access", "resuming", "tfdata"},
    {"benchmarking", "inspection"},
    {"shardfeed"},  # the public names
    {"reporting"},
    {"cli"},
    {"__main__", "transforms.images"},
    {"transforms.sources", "transforms.stores"},
    {"transforms.options", "transforms.elements"},
    {"transforms.run", "transforms.metadata"},
    {"transforms.inputs", "transforms.output"},
    {"transforms.planning"},
    {"transforms.encode"},
    {"transforms.pool", "transforms.duplicates"},
    {"transforms.publish"},
    {"transforms.steps"},
    {"pipeline.config"},
    {"pipeline.output", "pipeline.report"},
    {"pipeline.engines", "pipeline.status"},
    {"pipeline.dataflow"},
    {"pipeline.already_built"},
    {"pipeline.local", "pipeline.graph", "pipeline.plan"},
    {"pipeline.run_build"},
    {"pipeline.cli"},
    {"pipeline.__main__"},
)
# One arrow goes upward, from inside a function: the program loads the job's commands when they are
# called.
UPWARD = {("shardfeed.cli.main", "pipeline.cli")}
BEAM = ("transforms/steps/", "pipeline/engines/", "pipeline/dataflow/", "pipeline/graph.py")

ALL_FILES = [path for package in sources.PACKAGES for path in sources.files(package)]
MODULES = {sources.module_name(path): path for path in ALL_FILES}
tree, all_imports = functools.cache(sources.tree), functools.cache(sources.all_imports)  # each file is parsed once
RUNS_DATA_AS_CODE = {"cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve"}


def room_of(module: str) -> str:
    parts = module.split(".")[1:] or ["shardfeed"]
    package = parts[0] if parts[0] in ("pipeline", "transforms") else ""
    return ".".join(parts[:2]) if package else parts[0]


def arrows(path: Path) -> set[str]:
    """Our modules that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {each if (each := f"{node.module}.{a.name}") in MODULES else node.module for a in node.names}
    return found & MODULES.keys()


def test_every_room_has_its_level() -> None:
    rooms = {room_of(module) for module in MODULES}
    packages = {"transforms", "pipeline"}  # their __init__.py, which import nothing
    assert rooms - packages == set().union(*LEVELS)
    assert sum(map(len, LEVELS)) == len(set().union(*LEVELS))


def test_a_room_imports_only_rooms_of_the_levels_before_its_own() -> None:
    level = {room: number for number, rooms in enumerate(LEVELS) for room in rooms}
    wrong = {
        f"{module} -> {other}"
        for module, path in MODULES.items()
        for other in arrows(path)
        if room_of(other) != room_of(module)
        and level[room_of(other)] >= level[room_of(module)]
        and (module, room_of(other)) not in UPWARD
    }
    assert wrong == set()


def test_beam_is_imported_in_its_own_rooms_only() -> None:
    with_beam = {
        sources.relative(path)
        for path in ALL_FILES
        if "apache_beam" in {sources.top(name) for name in all_imports(path)}
    }
    assert {path for path in with_beam if not path.startswith(BEAM)} == set()
    assert len(with_beam) > 15


def test_every_folder_says_on_its_first_line_which_question_it_answers() -> None:
    folders = [path for path in ALL_FILES if path.name == "__init__.py" and path.parent.name not in sources.PACKAGES]
    first_lines = {path: (ast.get_docstring(tree(path)) or "").partition("\n")[0] for path in folders}
    assert [sources.relative(path) for path, line in first_lines.items() if "?" not in line] == []


def test_no_import_is_relative() -> None:
    assert [sources.relative(p) for p in ALL_FILES if any(n.startswith(".") for n in all_imports(p))] == []


def test_nothing_of_ours_imports_tests_or_examples() -> None:
    others = {"benchmarks", "examples", "tests", "pipeline", "transforms"}  # the last two: a user's own packages
    assert [sources.relative(p) for p in ALL_FILES if {sources.top(n) for n in all_imports(p)} & others] == []


@pytest.mark.parametrize("package", ["transforms", "pipeline"])
def test_importing_a_package_runs_nothing(package: str) -> None:
    body = tree(sources.ROOT / package / "__init__.py").body
    assert [ast.unparse(node) for node in body if not isinstance(node, ast.Expr)] == []


def test_files_with_dofns_keep_their_annotations_as_types() -> None:
    """As strings, Beam takes all for Any: arrows become pickles and GroupByKey warns."""
    beam_files = [p for package in ("transforms", "pipeline") for p in sources.files(package) if beam_classes(p)]
    assert [sources.relative(p) for p in beam_files if "__future__" in all_imports(p)] == []


def test_the_reader_runs_no_data_as_code() -> None:
    wrong = [
        f"{sources.relative(path)}: {name}"
        for path in sources.files("shardfeed")
        for name in sorted(
            ({sources.top(n) for n in all_imports(path)} & RUNS_DATA_AS_CODE)
            | (called_names(path) & {"eval", "exec", "compile", "__import__"})
        )
    ]
    assert wrong == []


def beam_classes(path: Path) -> list[str]:
    """Names of the classes in ``path`` that derive from one of Beam's."""
    return [
        node.name
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef)
        and any(ast.unparse(base).split("[")[0].startswith(("beam.", "apache_beam.")) for base in node.bases)
    ]


def called_names(path: Path) -> set[str]:
    return {
        node.func.id for node in ast.walk(tree(path)) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
