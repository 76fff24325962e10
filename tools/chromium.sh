#!/usr/bin/env bash
# Prints the path of Chromium, in which a test opens the report. Where there is none, Debian's is installed, if this is root.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v chromium >/dev/null; then
  install="apt-get update && apt-get install --yes --no-install-recommends chromium fonts-dejavu-core"
  echo "Installing Chromium (300 MB on the disk, once)" >&2
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  if ! bash -c "$install" >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "chromium: it could not be installed. What installs it on Debian, as root: $install" >&2
    exit 1
  fi
fi
command -v chromium
