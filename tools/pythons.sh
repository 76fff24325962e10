#!/usr/bin/env bash
# Makes an environment of the oldest or the newest Python that README claims, with our dependencies and those of [report] but without
# shardfeed.
# tools/pythons.sh oldest|newest [EXTRA] fills .engines/, once per content of pyproject.toml, and prints the environment's python.
# oldest: each dependency of pyproject.toml in the lowest version it allows. newest: in the highest that exists today.
# The interpreters are whole builds that a Go module carries. .engines/ may be deleted at any time.
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-} in
  oldest) version=3.10.16 release=20241219-1 resolution=lowest-direct ;;
  newest) version=3.14.6 release=20260610-1 resolution=highest ;;
  *) echo "usage: tools/pythons.sh oldest|newest [beam|tf-cpu]" >&2 && exit 2 ;;
esac
extra=${2:+"[$2]"}
uv=.venv/bin/uv
home=.engines/python-$version
hash=$(cksum <pyproject.toml | cut -d' ' -f1)
environment=$PWD/.engines/$1${2:+-$2}-$hash

mkdir -p .engines
made=$(mktemp -d "$PWD/.engines/made-XXXXXX")
trap 'rm -rf "$made"' EXIT
if [[ ! -d $home ]]; then
  module=github.com/kluctl/go-embed-python@v0.0.0-$version-$release
  if ! source=$(go mod download -json "$module" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p'); then
    echo "pythons: Python $version could not be fetched. What fetches it: go mod download $module" >&2
    exit 1
  fi
  .venv/bin/python tools/unpack_python.py "$source/python/internal/data/linux-amd64" "$made/python"
  mv "$made/python" "$home" # at once, so that a fetch that was stopped leaves no half Python
fi

if [[ ! -d $environment ]]; then
  echo "Installing the dependencies of shardfeed$extra into $environment (once)" >&2
  "$uv" venv --quiet --relocatable --python "$home/bin/python3" "$made/environment" >&2
  "$uv" pip compile --quiet --resolution "$resolution" --python "$made/environment/bin/python" --extra report ${2:+--extra "$2"} \
    --output-file "$made/versions.txt" pyproject.toml >/dev/null
  "$uv" pip install --quiet --python "$made/environment/bin/python" --requirement "$made/versions.txt" >&2
  mv "$made/environment" "$environment"
fi
echo "$environment/bin/python"
