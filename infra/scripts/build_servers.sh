#!/usr/bin/env bash
# Builds the real servers of the tests into <cache>/bin, once: versitygw for S3 (Apache-2.0), dynoxide for DynamoDB (MIT or
# Apache-2.0), each a process of its own in the tests. Without its compiler the tests that need one are skipped and counted.
set -euo pipefail

cache=${PENSTOCK_CACHE:-$HOME/.cache/penstock}
scratch=
trap '[ -z "$scratch" ] || rm -rf "$scratch"' EXIT

# build NAME VERSION COMPILER OLDEST FOUND: by the function build_NAME SCRATCH, which leaves its binary at SCRATCH/out.
build() {
    local name=$1 version=$2 compiler=$3 oldest=$4 found=$5
    local binary=$cache/bin/$name-$version
    if [ -x "$binary" ]; then
        echo "setup: $name $version is built"
        return
    fi
    if [ -z "$found" ]; then
        skip "$name" "no $compiler compiler ($oldest or newer)"
        return
    fi
    if [ "$(printf '%s\n' "$oldest" "$found" | sort -V | head -n 1)" != "$oldest" ]; then
        skip "$name" "$compiler $found is too old ($oldest or newer is needed)"
        return
    fi

    mkdir -p "$cache/bin"
    exec 9> "$cache/lock"
    if command -v flock > /dev/null; then flock 9; fi # two checkouts may set up at once
    [ ! -x "$binary" ] || return 0

    echo "setup: building $name $version, once, for some minutes"
    scratch=$(mktemp -d "$cache/build.XXXXXX")
    if "build_$name" "$scratch" "$version" > "$scratch/log" 2>&1; then
        mv "$scratch/out" "$binary"
        echo "setup: $name $version is built"
    else
        tail -n 20 "$scratch/log" >&2
        skip "$name" "the build failed, see above (it needs a network; make setup tries again)"
    fi
    rm -rf "$scratch"
    exec 9>&-
}

skip() {
    echo "setup: $2: $1 is not built, and the tests that need it will be skipped" >&2
}

build_versitygw() {
    GOPATH=$1 GOCACHE=$1/cache GOBIN=$1/bin GOFLAGS="-modcacherw -trimpath" \
        go install -ldflags "-s -w" "github.com/versity/versitygw/cmd/versitygw@$2" \
        && mv "$1/bin/versitygw" "$1/out"
}

build_dynoxide() {
    CARGO_TARGET_DIR=$1/target cargo install --locked --no-track --root "$1" --version "$2" dynoxide-rs \
        --no-default-features --features native-sqlite,http-server,cli \
        && mv "$1/bin/dynoxide" "$1/out"
}

go_version() {
    ! command -v go > /dev/null || go env GOVERSION | sed 's/^go//'
}

rust_version() {
    # Cargo alone does not do: one of its crates compiles C.
    ! command -v cargo > /dev/null || ! command -v rustc > /dev/null || ! command -v cc > /dev/null || rustc --version | cut -d" " -f2
}

build versitygw v1.8.0 Go 1.25 "$(go_version)"
build dynoxide 3.2.0 Rust 1.88 "$(rust_version)"
