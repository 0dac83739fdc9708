#!/usr/bin/env bash
# Builds the real S3 server of the tests into <cache>/bin, once: versitygw (Apache-2.0), a process of its own in the tests.
# Without Go the tests that need it are skipped and counted.
set -euo pipefail

package=github.com/versity/versitygw/cmd/versitygw version=v1.8.0
cache=${PENSTOCK_CACHE:-$HOME/.cache/penstock}
binary=$cache/bin/versitygw-$version

if [ -x "$binary" ]; then
    echo "setup: versitygw $version is built"
    exit 0
fi

note() {
    echo "setup: $1: versitygw is not built, and the tests that need it will be skipped" >&2
    exit 0
}

command -v go > /dev/null || note "no Go compiler (1.25 or newer)"
found=$(go env GOVERSION | sed 's/^go//')
[ "$(printf '%s\n' 1.25 "$found" | sort -V | head -n 1)" = 1.25 ] || note "Go $found is too old (1.25 or newer is needed)"

mkdir -p "$cache/bin"
exec 9> "$cache/lock"
if command -v flock > /dev/null; then flock 9; fi # two checkouts may set up at once
[ ! -x "$binary" ] || exit 0

echo "setup: building versitygw $version, once, for some minutes"
scratch=$(mktemp -d "$cache/build.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
if ! GOPATH=$scratch GOCACHE=$scratch/cache GOBIN=$scratch/bin GOFLAGS="-modcacherw -trimpath" \
    go install -ldflags "-s -w" "$package@$version" > "$scratch/log" 2>&1; then
    tail -n 20 "$scratch/log" >&2
    note "the build failed, see above (it needs a network; make setup tries again)"
fi
mv "$scratch/bin/versitygw" "$binary"
echo "setup: versitygw $version is built"
