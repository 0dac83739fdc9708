#!/usr/bin/env bash
# Fetches and builds the test suites of Kafka's clients (BSD-2-Clause, BSD-3-Clause, Apache-2.0) into <cache>/kafka-suites, once: some 20 minutes
# of a core. Nothing of them comes into the repository. `make kafka-suites` runs them against a gateway.
set -euo pipefail
cd "$(dirname "$0")/../.."

cache=${PENSTOCK_CACHE:-$HOME/.cache/penstock}/kafka-suites
pom=tests/gateway/kafka/suites/pom.xml
scratch=
trap '[ -z "$scratch" ] || rm -rf "$scratch"' EXIT

# build NAME VERSION TOOL…: by the function build_NAME FOLDER VERSION, into <cache>/NAME-VERSION.
build() {
    local name=$1 version=$2 tool target=$cache/$1-$2
    shift 2
    [ ! -e "$target" ] || return 0
    for tool in "$@"; do
        if ! command -v "$tool" > /dev/null; then
            echo "setup: no $tool: the suite of $name is left out" >&2
            return 0
        fi
    done

    mkdir -p "$cache"
    exec 9> "$cache/lock"
    if command -v flock > /dev/null; then flock 9; fi # two checkouts may set up at once
    [ ! -e "$target" ] || return 0

    echo "setup: building the suite of $name $version, once"
    scratch=$(mktemp -d "$cache/build.XXXXXX")
    if "build_$name" "$scratch/out" "$version" > "$scratch/log" 2>&1; then
        mv "$scratch/out" "$target"
    else
        tail -n 20 "$scratch/log" >&2
        echo "setup: the suite of $name could not be built, see above" >&2
    fi
    rm -rf "$scratch"
    exec 9>&-
}

# The package of Confluent's client for Node has librdkafka whole, with its tests.
build_librdkafka() {
    npm pack --pack-destination "$scratch" @confluentinc/kafka-javascript@1.10.1
    tar -xzf "$scratch"/confluentinc-kafka-javascript-*.tgz -C "$scratch" package/deps/librdkafka
    mv "$scratch/package/deps/librdkafka" "$1"
    grep -q "${2//./\\.}" "$1/vcpkg.json"
    (cd "$1" && ./configure --disable-curl --disable-sasl --disable-ssl)
    make -C "$1" libs
    make -C "$1/tests" build
}

build_kgo() {
    export GOPATH=$scratch/modules GOCACHE=$scratch/compiled GOFLAGS=-modcacherw
    (cd "$scratch" && go mod init suite && go mod download "github.com/twmb/franz-go@v$2")
    mkdir -p "$1"
    go -C "$GOPATH/pkg/mod/github.com/twmb/franz-go@v$2" test -c -o "$1/kgo.test" ./pkg/kgo
}

build_tools() {
    mvn -B -q -f "$pom" dependency:copy-dependencies -DincludeScope=runtime "-Dkafka.version=$2" "-DoutputDirectory=$1"
}

build librdkafka 2.15.1 npm make cc c++
build kgo 1.22.3 go
build tools 4.3.1 mvn
echo "setup: the suites of Kafka's clients are looked after in $cache"
