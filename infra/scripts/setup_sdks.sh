#!/usr/bin/env bash
# Fetches RocketMQ's official SDKs (Apache-2.0) into <cache>/sdks, once: the clients that the gateway's tests run. Nothing of them comes into
# the repository. Where programs are compiled, the client of the tests (tests/gateway/clients) is compiled with its SDK. Without the tool of a
# language the tests that need its SDK are skipped and counted. Rust's, which takes minutes to compile, comes only when it is named:
# setup_sdks.sh rust.
set -euo pipefail
cd "$(dirname "$0")/../.."

cache=${PENSTOCK_CACHE:-$HOME/.cache/penstock}
pom=examples/gateway/pom.xml
scratch=
trap '[ -z "$scratch" ] || rm -rf "$scratch"' EXIT

# fetch NAME VERSION TOOL…: by the function fetch_NAME FOLDER VERSION, into <cache>/sdks/NAME-VERSION.
fetch() {
    local name=$1 version=$2 tool target
    shift 2
    target=$cache/sdks/$name-$version
    if [ -e "$target" ]; then
        echo "setup: RocketMQ's SDK for $name $version is there"
        return
    fi
    for tool in "$@"; do
        if ! command -v "$tool" > /dev/null; then
            skip "$name" "no $tool"
            return
        fi
    done

    mkdir -p "$cache/sdks"
    exec 9> "$cache/sdks/lock"
    if command -v flock > /dev/null; then flock 9; fi # two checkouts may set up at once
    [ ! -e "$target" ] || return 0

    echo "setup: fetching RocketMQ's SDK for $name $version, once"
    scratch=$(mktemp -d "$cache/sdks/fetch.XXXXXX")
    if "fetch_$name" "$scratch/out" "$version" > "$scratch/log" 2>&1; then
        mv "$scratch/out" "$target"
    else
        tail -n 20 "$scratch/log" >&2
        skip "$name" "it could not be fetched, see above (make setup tries again)"
    fi
    rm -rf "$scratch"
    exec 9>&-
}

skip() {
    echo "setup: $2: RocketMQ's SDK for $1 is not there, and the tests that need it will be skipped" >&2
}

fetch_java() {
    mvn -B -q -f "$pom" dependency:copy-dependencies -DincludeScope=runtime "-DoutputDirectory=$1"
}

# What the program is compiled from is large, and not kept.
fetch_go() {
    GOPATH=$scratch/modules GOCACHE=$scratch/compiled GOFLAGS="-modcacherw -trimpath -buildvcs=false" \
        go -C tests/gateway/clients/go build -ldflags "-s -w" -o "$1/client"
}

fetch_node() {
    mkdir -p "$1" && npm install --prefix "$1" --no-audit --no-fund "rocketmq-client-nodejs@$2"
}

fetch_python() {
    # --target rather than an environment: it can be moved, and is no larger than the packages.
    .venv/bin/python -m pip install --quiet --no-compile --target "$1" "rocketmq-python-client==$2"
}

# As debug build: an optimized one takes far longer, and the tests need no speed.
fetch_rust() {
    cp -R tests/gateway/clients/rust "$scratch/rust" # cargo writes beside the sources
    CARGO_TARGET_DIR=$scratch/target cargo build --quiet --manifest-path "$scratch/rust/Cargo.toml" \
        && mkdir -p "$1" && mv "$scratch/target/debug/client" "$1/client"
}

# The version of a compiled one ends with a digest of the tests' program.
version() {
    .venv/bin/python -c "from tests.gateway.sdk import SDKS; print(SDKS['$1'].name.removeprefix('$1-'))"
}

if [ "${1:-}" = rust ]; then
    fetch rust "$(version rust)" cargo rustc cc
    exit
fi
fetch go "$(version go)" go
fetch java "$(sed -n '/rocketmq-client-java/{n;s/[^0-9.]//g;p}' "$pom")" mvn javac
fetch node 1.0.8 npm node
fetch python 5.1.2
