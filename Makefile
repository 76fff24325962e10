# make demo     build a dataset from the photos in examples/, also as a Beam pipeline, verify it, read a batch back, draw it
# make check    lint, types and the unit tests: before every commit
# make test     lint, then every test: what CI runs
# make docs     the documentation as a site, in site/
# make lint     ruff, mypy --strict, shellcheck
# make engines  fetch what tests need besides .venv into .engines/, once: Prism (from its source: needs Go, two minutes), Azurite and axe (npm), Chromium (Debian), wheels
# make versions  build wheel and sdist, and try them on the oldest and newest Python with each extra (downloads a gigabyte, once)
# make clean    remove .venv, .engines, demo-out and caches
#
# Everything is installed into .venv; PYTHON=/path/to/python chooses the interpreter (3.10 to 3.13).

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo check test lint docs engines versions clean

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?=
PIP_INSTALL := $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-compile --constraint constraints.txt
# --no-compile above: 3 million lines of Google clients that nobody imports would be compiled, 40 % of the time of installing.
# Python then compiles what is used, once, if it may.
unexport PYTHONDONTWRITEBYTECODE
PINS := pyproject.toml setup.py constraints.txt
# Plain functions, formats, and who may import whom. No test here starts an engine or a training.
UNIT_TESTS := tests/format tests/transforms tests/golden tests/status tests/plan/test_sample.py tests/plan/test_cloud_cost.py \
  tests/packaging/test_imports.py tests/pipeline/test_local.py tests/pipeline/test_engine.py tests/pipeline/test_config.py \
  tests/pipeline/test_summary.py tests/pipeline/test_progress.py --ignore tests/transforms/test_metrics.py

SHELL_FILES := .ci/run $(wildcard *.sh */*.sh)

help:
	@sed -n '/^# make/s/^# //p' Makefile

# A shim of a version manager can be on PATH and still not run, so each candidate is run. ensurepip is missing where a
# distribution packs venv apart.
$(BIN)/python:
	@for python in $(or $(PYTHON),python3.11 python3.12 python3.13 python3.10 python3 python); do \
	  if "$$python" -c 'import ensurepip, sys, venv; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' 2>/dev/null; then \
	    echo "Creating $(VENV) with $$("$$python" --version)"; \
	    exec "$$python" -m venv --clear $(VENV); \
	  fi; \
	done; \
	echo "make: no Python from 3.10 to 3.13 with its venv module found$(if $(PYTHON), as $(PYTHON))." \
	  "Install one (Debian, Ubuntu: apt install python3-venv), or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python" >&2; \
	exit 1

$(VENV)/.demo: $(PINS) | $(BIN)/python
	@echo "Installing shardfeed with Apache Beam and TensorFlow into $(VENV) (about 450 MB to download, once)"
	@$(PIP_INSTALL) --editable '.[beam,tf-cpu]'
	@touch $@

$(VENV)/.test: $(PINS) | $(BIN)/python
	@echo "Installing shardfeed, Apache Beam, TensorFlow and the test tools into $(VENV) (about 500 MB to download, once)"
	@$(PIP_INSTALL) --editable '.[beam,tf-cpu,test,dev]'
	@touch $@ $(VENV)/.demo

demo: $(VENV)/.demo
	@rm -rf demo-out
	@echo
	@echo '$$ shardfeed build --input examples/sample_photos --output demo-out/dataset --image_size 224 --num_shards 4' \
	  '--splits train=0.8,validation=0.2'
	@$(BIN)/shardfeed build --input examples/sample_photos --output demo-out/dataset --image_size 224 --num_shards 4 \
	  --splits train=0.8,validation=0.2
	@echo
	@echo '$$ shardfeed build … --output demo-out/by_beam --runner DirectRunner    # the same build as an Apache Beam pipeline'
	@$(BIN)/shardfeed build --input examples/sample_photos --output demo-out/by_beam --image_size 224 --num_shards 4 \
	  --splits train=0.8,validation=0.2 --runner DirectRunner > /dev/null
	@diff --recursive --brief --exclude run.json demo-out/dataset demo-out/by_beam
	@echo "Each of its $$(find demo-out/by_beam -type f ! -name run.json | wc -l) files equals the first build's."
	@echo
	@echo '$$ shardfeed verify demo-out/dataset --deep'
	@$(BIN)/shardfeed verify demo-out/dataset --deep
	@echo
	@echo '$$ python examples/demo.py demo-out/dataset demo-out/batch.png'
	@$(BIN)/python examples/demo.py demo-out/dataset demo-out/batch.png

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@rm -rf .typecheck && mkdir -p .typecheck/shardfeed
	@ln -s $(CURDIR)/shardfeed/* $(CURDIR)/pipeline $(CURDIR)/transforms .typecheck/shardfeed/
	@ln -s $(CURDIR)/tests $(CURDIR)/tools $(CURDIR)/benchmarks .typecheck/
	$(BIN)/mypy
	$(BIN)/mypy tools/*.py
	$(BIN)/shellcheck $(SHELL_FILES)

$(VENV)/.docs: $(PINS) | $(BIN)/python
	@echo "Installing shardfeed and MkDocs into $(VENV)"
	@$(PIP_INSTALL) --editable '.[docs]'
	@touch $@

# --strict: a link to a page, heading or name that is not there is an error. The variable: Material's news about itself.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "Built: site/index.html"

engines: $(VENV)/.test
	@tools/engines.sh
	@tools/azurite.sh
	@tools/axe.sh
	@tools/chromium.sh
	@tools/wheels.sh $(BIN)/python
	@tools/pythons.sh oldest
	@tools/pythons.sh newest

versions: $(VENV)/.test
	@tools/versions.sh

check: lint
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile --quiet $(UNIT_TESTS)

# One process more than cores: tests that wait for engines leave a fifth of the time unused.
test: lint engines
	$(BIN)/python -m pytest --numprocesses $$(($$(nproc) + 1)) --maxprocesses 4 --dist loadfile --no-loadscope-reorder \
	  --max-worker-restart 0

clean:
	rm -rf $(VENV) .engines demo-out site build dist shardfeed.egg-info .mypy_cache .typecheck .ruff_cache .pytest_cache .hypothesis
