#!/usr/bin/env bash
# Fetches Azurite, Microsoft's own stand-in for Azure's storage, from npm into .engines/. Prints the program's path. Does nothing
# where it is there already; .engines/ may be deleted at any time.
set -euo pipefail
cd "$(dirname "$0")/.."

version=3.35.0
azurite=.engines/azurite-$version

if [[ ! -d $azurite ]]; then
  mkdir -p .engines
  made=$(mktemp -d "$PWD/.engines/made-XXXXXX")
  trap 'rm -rf "$made"' EXIT
  echo "Fetching $azurite (190 MB on the disk, once)" >&2
  if ! npm install --prefix "$made/azurite" --no-fund --no-audit "azurite@$version" >"$made/log" 2>&1; then
    tail -n 20 "$made/log" >&2
    echo "azurite: it could not be fetched. What fetches it: npm install --prefix DIR azurite@$version (npm comes with Node.js)" >&2
    exit 1
  fi
  mv "$made/azurite" "$azurite" # at once, so that a fetch that was stopped leaves no half program
fi
echo "$azurite/node_modules/.bin/azurite-blob"
