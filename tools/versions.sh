#!/usr/bin/env bash
# Builds the wheel and the source package, checks their metadata, and runs tests/packaging/program.py for each extra on the oldest
# Python with the lowest versions of the dependencies and on the newest with the highest. Downloads about a gigabyte, once.
set -euo pipefail
cd "$(dirname "$0")/.."

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
.venv/bin/python -m build --no-isolation --outdir "$made/dist" . >"$made/log"
.venv/bin/python -m twine check --strict "$made"/dist/*
.venv/bin/python -m zipfile -e "$made"/dist/*.whl "$made/site"
for which in oldest newest; do
  for extra in base beam tf-cpu; do
    python=$(tools/pythons.sh "$which" "${extra#base}")
    said=$(PYTHONPATH=$made/site "$python" tests/packaging/program.py "$extra" examples/sample_photos)
    echo "$which, $extra: $said"
  done
done
