#!/usr/bin/env bash
# Builds the portable engines that the tests run on into .engines/: Prism, from its Go source, of the Beam version that
# constraints.txt pins. Prints the program's path. Does nothing where it is there already; .engines/ may be deleted at any time.
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(sed -n 's/^apache-beam==//p' constraints.txt)
: "${version:?constraints.txt pins no apache-beam}"
prism=.engines/prism-$version

if [[ ! -x $prism ]]; then
  mkdir -p .engines
  build=$(mktemp -d "$PWD/.engines/build-XXXXXX")
  trap 'rm -rf "$build"' EXIT
  # -s -w leaves debugging symbols out: 45 MB instead of 66.
  command=(go install "-ldflags=-s -w" "github.com/apache/beam/sdks/v2/go/cmd/prism@v$version")
  echo "Building $prism (two minutes on two cores, once)" >&2
  if ! command -v go >/dev/null; then
    echo "engines: Prism is written in Go, and there is no go on PATH. Install Go (https://go.dev/dl), then: tools/engines.sh" >&2
    exit 1
  fi
  # CGO_ENABLED=0: no C compiler needed. GOPROXY=off would fail even where everything is cached.
  if ! GOBIN=$build CGO_ENABLED=0 "${command[@]}" >"$build/log" 2>&1; then
    tail -n 20 "$build/log" >&2
    echo "engines: Prism could not be built. What fetches and builds it: GOBIN=DIR go install ${command[3]}" >&2
    exit 1
  fi
  mv "$build/prism" "$prism" # at once, so that a build that was stopped leaves no half program
fi
echo "$prism"
