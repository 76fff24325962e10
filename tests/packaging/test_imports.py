"""Who may import whom: shardfeed <- transforms <- pipeline, and plain functions live in files without Beam."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.packaging import sources

MAY_IMPORT = {
    "shardfeed": {"shardfeed"},
    "transforms": {"shardfeed", "transforms"},
    "pipeline": {"shardfeed", "transforms", "pipeline"},
}
ALL_FILES = [path for package in sources.PACKAGES for path in sources.files(package)]
RUNS_DATA_AS_CODE = {"cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve"}


@pytest.mark.parametrize("package", sources.PACKAGES)
def test_a_package_imports_only_the_packages_before_it(package: str) -> None:
    wrong = {
        sources.relative(path): sorted(found)
        for path in sources.files(package)
        if (found := {sources.top(n) for n in sources.all_imports(path)} & set(sources.PACKAGES) - MAY_IMPORT[package])
    }
    assert wrong == {}


def test_no_import_is_relative() -> None:
    assert [sources.relative(p) for p in ALL_FILES if any(n.startswith(".") for n in sources.all_imports(p))] == []


def test_nothing_of_ours_imports_tests_or_examples() -> None:
    others = {"benchmarks", "examples", "tests"}
    assert [sources.relative(p) for p in ALL_FILES if {sources.top(n) for n in sources.all_imports(p)} & others] == []


def test_the_reader_imports_beam_nowhere() -> None:
    wrong = [
        sources.relative(path)
        for path in sources.files("shardfeed")
        if "apache_beam" in {sources.top(name) for name in sources.all_imports(path)}
    ]
    assert wrong == []


@pytest.mark.parametrize("package", ["transforms", "pipeline"])
def test_importing_a_package_runs_nothing(package: str) -> None:
    body = sources.tree(sources.ROOT / package / "__init__.py").body
    assert [ast.unparse(node) for node in body if not isinstance(node, ast.Expr)] == []


def test_beam_is_imported_by_transforms_by_the_registry_of_coders_and_by_side_inputs_only() -> None:
    with_beam = {sources.relative(p) for p in sources.files("transforms") if sources.imports_beam(p)}
    with_transforms = {sources.relative(p) for p in sources.files("transforms") if beam_classes(p)}
    assert with_beam == with_transforms | {"transforms/types.py", "transforms/side_inputs.py"}


def test_files_with_dofns_keep_their_annotations_as_types() -> None:
    """Beam reads annotations; as strings they all become Any, arrows become pickles and GroupByKey warns."""
    beam_files = [p for package in ("transforms", "pipeline") for p in sources.files(package) if beam_classes(p)]
    assert [sources.relative(p) for p in beam_files if "__future__" in sources.all_imports(p)] == []


def test_the_reader_runs_no_data_as_code() -> None:
    wrong = [
        f"{sources.relative(path)}: {name}"
        for path in sources.files("shardfeed")
        for name in sorted(
            ({sources.top(n) for n in sources.all_imports(path)} & RUNS_DATA_AS_CODE)
            | (called_names(path) & {"eval", "exec", "compile", "__import__"})
        )
    ]
    assert wrong == []


def beam_classes(path: Path) -> list[str]:
    """Names of the classes in ``path`` that derive from one of Beam's."""
    return [
        node.name
        for node in ast.walk(sources.tree(path))
        if isinstance(node, ast.ClassDef)
        and any(ast.unparse(base).split("[")[0].startswith(("beam.", "apache_beam.")) for base in node.bases)
    ]


def called_names(path: Path) -> set[str]:
    return {
        node.func.id
        for node in ast.walk(sources.tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
