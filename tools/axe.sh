#!/usr/bin/env bash
# Fetches axe-core, which checks pages for people who cannot see or use a mouse, from npm into .engines/. Prints the script's path.
# Does nothing where it is there already; .engines/ may be deleted at any time.
set -euo pipefail
cd "$(dirname "$0")/.."

version=4.14.1
axe=.engines/axe-core-$version

if [[ ! -d $axe ]]; then
  mkdir -p .engines
  made=$(mktemp -d "$PWD/.engines/made-XXXXXX")
  trap 'rm -rf "$made"' EXIT
  echo "Fetching $axe (4 MB on the disk, once)" >&2
  if ! npm install --prefix "$made/axe" --no-fund --no-audit "axe-core@$version" >"$made/log" 2>&1; then
    tail -n 20 "$made/log" >&2
    echo "axe: it could not be fetched. What fetches it: npm install --prefix DIR axe-core@$version (npm comes with Node.js)" >&2
    exit 1
  fi
  mv "$made/axe" "$axe" # at once, so that a fetch that was stopped leaves no half program
fi
echo "$axe/node_modules/axe-core/axe.min.js"
