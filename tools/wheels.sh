#!/usr/bin/env bash
# Collects the wheels that tests install into environments of their own: what a worker needs (the base dependencies of
# pyproject.toml and what builds our source package), and what tests/*/packages.txt list. tools/wheels.sh [PYTHON] fills
# .engines/wheels-HASH, once for each content and Python, and prints its path. .engines/ may be deleted at any time.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${1:-python3}
lists='/^dependencies = \[/,/^\]/s/^ *"\([^"]*\)".*/\1/p; s/^requires = \["\([^"]*\)"\].*/\1/p'
packages=(tests/*/packages.txt)
worker=$(sed -n "$lists" pyproject.toml)
hash=$({ echo "$worker"; cat constraints.txt "${packages[@]}"; "$python" -VV; } | cksum | cut -d' ' -f1)
wheels=.engines/wheels-$hash

if [[ ! -d $wheels ]]; then
  mkdir -p .engines
  made=$(mktemp -d "$PWD/.engines/made-XXXXXX")
  trap 'rm -rf "$made"' EXIT
  echo "Collecting wheels for the tests into $wheels (240 MB, once)" >&2
  pip=("$python" -m pip --disable-pip-version-check wheel --quiet --wheel-dir "$made/wheels")
  echo "$worker" >"$made/worker.txt"
  if ! { "${pip[@]}" --constraint constraints.txt --requirement "$made/worker.txt" &&
    "${pip[@]}" --no-deps "${packages[@]/#/--requirement=}"; } >"$made/log" 2>&1; then
    tail -n 20 "$made/log" >&2
    echo "wheels: they could not be collected. What fetches them, where the package index can be reached: make engines" >&2
    exit 1
  fi
  [[ -d $wheels ]] || mv "$made/wheels" "$wheels" # at once; another run may have been first
fi
echo "$wheels"
