"""The local build: the same decisions as the graph's, and a host program that stays as it was."""

from __future__ import annotations

import ast
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from shardfeed.pipeline import local
from shardfeed.pipeline.config.build_config import BuildConfig
from shardfeed.pipeline.report.summary import Summary
from shardfeed.pipeline.run_build import run_build
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.options import BuildOptions
from tests.kit import builds, disk
from tests.kit.images import make_photos

OPTIONS = BuildOptions(image=ImageOptions(height=16, width=16))

# What a driver calls besides decisions: it lists, labels and encodes in the way that suits it.
# (``label_all`` holds the listing for the passes of ``--stratify``; the graph makes each a step.)
# Only the local build ends if another one has overtaken it: a job elsewhere would end red.
_TRANSPORT = {"open_source", "open_root", "default_threads", "reported", "sections_of", "require_same_versions",
              "require_unpublished", "versions_here", "codec_versions", "join_here",
              "label_all", "label_batch", "stratify", "add_up", "metrics", "side_by_side"}  # fmt: skip
_STEPS = (
    "list_images join_rows label_images count_images claim_output assign_parts encode_parts reconcile write_rejects "
    "find_duplicates pack_shards compose_shards commit"
)


def calls_of(path: Path) -> set[str]:
    """Functions and classes of ``transforms`` that a file calls or hands on."""
    tree = ast.parse(path.read_text())
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("shardfeed.transforms.")
        for alias in node.names
    }
    annotations = {id(name) for node in ast.walk(tree) for part in _annotations(node) for name in ast.walk(part)}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in annotations}
    return {name for name in imported & used if name[0].islower()}


def _annotations(node: ast.AST) -> list[ast.AST]:
    if isinstance(node, ast.arg | ast.AnnAssign):
        return [node.annotation] if node.annotation else []
    if isinstance(node, ast.FunctionDef):
        return [node.returns] if node.returns else []
    return []


def test_both_drivers_call_the_same_decisions() -> None:
    folder = builds.ROOT / "transforms"
    steps = set().union(*(calls_of(folder / "steps" / f"{name}.py") for name in _STEPS.split()))
    here = calls_of(builds.ROOT / "pipeline" / "local.py") | calls_of(folder / "metadata" / "join_here.py")
    assert len(here - _TRANSPORT) > 20
    assert here - _TRANSPORT == steps - _TRANSPORT


def test_a_build_from_folder_to_folder_loads_nothing_that_it_does_not_need(tmp_path: Path) -> None:
    photos = make_photos(tmp_path / "photos")
    code = (
        "import sys; from shardfeed.cli.main import main; code = main(sys.argv[1:]); "
        "print(sorted(sys.modules)); sys.exit(code)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, *builds.build_args(photos, tmp_path / "out")],
        cwd=builds.ROOT,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    loaded = ast.literal_eval(ran.stdout.splitlines()[-1])
    assert {"numpy", "pyarrow", "shardfeed.pipeline.local"} <= set(loaded)  # the line is what it seems to be
    assert {"apache_beam", "tensorflow", "obstore", "google.cloud.storage"}.isdisjoint(loaded)
    assert {"PIL", "simplejpeg", "cykooz", "shardfeed.transforms.images.process"}.isdisjoint(loaded)  # only the pool's


def test_two_builds_in_two_threads_of_one_program_both_succeed(tmp_path: Path) -> None:
    configs = []
    for name in ("one", "two"):
        photos = make_photos(tmp_path / f"photos {name}", classes=(name, "both"), each=30)
        configs.append(BuildConfig((str(photos),), str(tmp_path / name), OPTIONS, threads=2))
    with ThreadPoolExecutor(2) as pool:
        summaries = list(pool.map(run_build, configs))
    assert [isinstance(summary, Summary) and summary.manifest.classes for summary in summaries] == [
        ("both", "one"),
        ("both", "two"),
    ]
    for config, summary in zip(configs, summaries, strict=True):
        assert isinstance(summary, Summary)
        alone = BuildConfig(config.inputs, f"{config.output} alone", OPTIONS)
        run_build(alone)
        assert disk.digests(Path(config.output)) == disk.digests(Path(alone.output))
        assert summary.to_json().count('"encoded_in_this_run": 60') == 1


def test_a_build_that_joins_another_begins_with_other_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos = make_photos(tmp_path / "photos", each=30)
    config = BuildConfig((str(photos),), str(tmp_path / "out"), OPTIONS)
    orders: list[list[tuple[str, int]]] = []

    def noting(parts: Any, _flying: Any) -> Any:
        order = [(split, part) for split, part, _ in parts]
        orders.append(order)
        raise KeyboardInterrupt

    monkeypatch.setattr(local, "_made", noting)
    for _ in range(5):
        with pytest.raises(KeyboardInterrupt):
            run_build(config)
    first, *joined = orders
    assert first == sorted(first)
    assert {order[0] for order in joined} != {first[0]}
    for order in joined:
        start = first.index(order[0])
        assert order == first[start:] + first[:start]


HOST = """
import os, signal, sys, threading, time
from shardfeed.pipeline import local
from shardfeed.pipeline.config.build_config import BuildConfig
from shardfeed.pipeline.run_build import run_build
from tests.kit import hooks
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.options import BuildOptions

hooks.processes(1)
hooks.at_part_of_process(0, lambda _process: os.kill(os.getpid(), signal.SIGINT))
before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM), threading.excepthook, dict(os.environ)
config = BuildConfig((sys.argv[1],), sys.argv[2], BuildOptions(image=ImageOptions(height=16, width=16)), threads=2)
try:
    run_build(config)
except KeyboardInterrupt:
    print("interrupted")
deadline = time.monotonic() + 5
while threading.active_count() > 1 and time.monotonic() < deadline:
    time.sleep(0.01)
print([thread.name for thread in threading.enumerate()])
print(before == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM), threading.excepthook, dict(os.environ)))
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("no child")
"""


def test_ctrl_c_in_a_program_that_calls_the_library_goes_on_and_leaves_nothing_behind(tmp_path: Path) -> None:
    photos, out = make_photos(tmp_path / "photos", each=40), tmp_path / "out"
    ran = subprocess.run([sys.executable, "-c", HOST, photos, out], cwd=builds.ROOT, capture_output=True, text=True)
    assert ran.stdout.splitlines() == ["interrupted", "['MainThread']", "True", "no child"], ran.stderr
    assert not (out / "manifest.json").exists()
    builds.built(photos, out)
    builds.built(photos, tmp_path / "alone")
    assert disk.digests(out) == disk.digests(tmp_path / "alone")
