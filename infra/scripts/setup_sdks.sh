#!/usr/bin/env bash
# Fetches RocketMQ's official SDKs (Apache-2.0) into <cache>/sdks, once: the clients that the gateway's tests run. Nothing of them comes into
# the repository. Where programs are compiled, the client of the tests (tests/gateway/clients) is compiled with its SDK. Without the tool of a
# language the tests that need its SDK are skipped and counted. Rust's, which takes minutes to compile, comes only when it is named:
# setup_sdks.sh rust.
set -euo pipefail
cd "$(dirname "$0")/../.."

cache=${PENSTOCK_CACHE:-$HOME/.cache/penstock}/sdks
what="RocketMQ's SDK"
pom=examples/gateway/pom.xml
. infra/scripts/fetch.sh

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

# The folder of a compiled one ends with a digest of the tests' program.
folder() {
    .venv/bin/python -c "from tests.gateway.sdk import SDKS; print(SDKS['$1'].name)"
}

if [ "${1:-}" = rust ]; then
    fetch "$(folder rust)" cargo rustc cc
    exit
fi
fetch "$(folder go)" go
fetch "java-$(sed -n '/rocketmq-client-java/{n;s/[^0-9.]//g;p}' "$pom")" mvn javac
fetch node-1.0.8 npm node
fetch python-5.1.2
echo "setup: RocketMQ's SDKs are looked after in $cache"
