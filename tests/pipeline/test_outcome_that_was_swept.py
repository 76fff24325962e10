"""A run on an engine fails after another run of the same build has published and swept.

The launcher finds no reason then, but a dataset.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import shardfeed as reader
from shardfeed.errors import IncompleteError
from shardfeed.pipeline import run_build
from shardfeed.pipeline.config.build_config import BuildConfig
from shardfeed.pipeline.config.engine import Engine
from shardfeed.pipeline.report.summary import Summary
from shardfeed.transforms.options import BuildOptions
from tests.kit.commands import shardfeed, write_photos

ENGINE = Engine("PortableRunner", ("--job_endpoint", "host:1"))  # any that does not encode in this process


@pytest.fixture
def config(tmp_path: Path) -> BuildConfig:
    write_photos(tmp_path / "in", cat=3, dog=3)
    return BuildConfig(
        inputs=(f"{tmp_path}/in",),
        output=f"{tmp_path}/out",
        options=BuildOptions(),
        engine=ENGINE,
    )


def _failing_engine(meanwhile: Callable[[], object]) -> Callable[..., None]:
    def run(*_: object) -> None:
        meanwhile()
        raise RuntimeError("the engine's own words")

    return run


def test_the_launcher_finds_the_manifest_instead(config: BuildConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        assert shardfeed("build", "--input", config.inputs[0], "--output", config.output).returncode == 0

    monkeypatch.setattr(run_build, "_run_graph", _failing_engine(build))
    summary = run_build.run_build(config)
    assert isinstance(summary, Summary)
    assert summary.manifest == reader.info(config.output).manifest
    assert summary.kept is None
    assert not (Path(config.output) / "_parts").exists()


def test_another_dataset_there_is_not_taken_for_this_one(config: BuildConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        other = ("--seed", "1", "--input", config.inputs[0], "--output", config.output)
        assert shardfeed("build", *other).returncode == 0

    monkeypatch.setattr(run_build, "_run_graph", _failing_engine(build))
    with pytest.raises(IncompleteError, match="the engine gave up: the engine's own words"):
        run_build.run_build(config)


def test_without_a_dataset_the_engine_s_words_are_shown(config: BuildConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_build, "_run_graph", _failing_engine(lambda: None))
    with pytest.raises(IncompleteError, match="the engine gave up: the engine's own words"):
        run_build.run_build(config)
