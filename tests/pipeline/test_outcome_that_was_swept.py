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
from shardfeed.transforms.images.options import ImageOptions
from shardfeed.transforms.options import BuildOptions
from tests.kit import builds
from tests.kit.commands import write_photos

ENGINE = Engine("PortableRunner", ("--job_endpoint", "host:1"))  # any that does not encode in this process


@pytest.fixture
def config(tmp_path: Path) -> BuildConfig:
    photos = write_photos(tmp_path / "in", cat=3, dog=3)
    options = BuildOptions(image=ImageOptions(height=16, width=16))
    return BuildConfig((str(photos),), f"{tmp_path}/out", options, engine=ENGINE)


def _failing_engine(meanwhile: Callable[[], object]) -> Callable[..., None]:
    def run(*_: object) -> None:
        meanwhile()
        raise RuntimeError("the engine's own words")

    return run


def _built_meanwhile(config: BuildConfig, *flags: str) -> Callable[[], object]:
    return lambda: builds.built(Path(config.inputs[0]), Path(config.output), *flags)


def test_the_launcher_finds_the_manifest_instead(config: BuildConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_build, "_run_graph", _failing_engine(_built_meanwhile(config)))
    summary = run_build.run_build(config)
    assert isinstance(summary, Summary)
    assert summary.manifest == reader.info(config.output).manifest
    assert summary.kept is None
    assert not (Path(config.output) / "_parts").exists()


@pytest.mark.parametrize("other", [True, False], ids=["another dataset", "none"])
def test_if_this_dataset_is_not_there_the_engine_s_words_are_shown(
    other: bool, config: BuildConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile = _built_meanwhile(config, "--seed", "1") if other else (lambda: None)
    monkeypatch.setattr(run_build, "_run_graph", _failing_engine(meanwhile))
    with pytest.raises(IncompleteError, match="the engine gave up: the engine's own words"):
        run_build.run_build(config)
