#!/usr/bin/env bash
# Fetches and builds the test suites of Kafka's clients (BSD-2-Clause, BSD-3-Clause, Apache-2.0) into <cache>/kafka-suites, once: some 20 minutes
# of a core. Nothing of them comes into the repository. `make kafka-suites` runs them against a gateway.
set -euo pipefail
cd "$(dirname "$0")/../.."

cache=${PENSTOCK_CACHE:-$HOME/.cache/penstock}/kafka-suites
pom=tests/gateway/kafka/suites/pom.xml
what="a suite of a Kafka client"
. infra/scripts/fetch.sh

# The package of Confluent's client for Node has librdkafka whole, with its tests.
fetch_librdkafka() {
    npm pack --pack-destination "$scratch" @confluentinc/kafka-javascript@1.10.1
    tar -xzf "$scratch"/confluentinc-kafka-javascript-*.tgz -C "$scratch" package/deps/librdkafka
    mv "$scratch/package/deps/librdkafka" "$1"
    grep -q "${2//./\\.}" "$1/vcpkg.json"
    (cd "$1" && ./configure --disable-curl --disable-sasl --disable-ssl)
    make -C "$1" libs
    make -C "$1/tests" build
}

fetch_kgo() {
    export GOPATH=$scratch/modules GOCACHE=$scratch/compiled GOFLAGS=-modcacherw
    (cd "$scratch" && go mod init suite && go mod download "github.com/twmb/franz-go@v$2")
    mkdir -p "$1"
    go -C "$GOPATH/pkg/mod/github.com/twmb/franz-go@v$2" test -c -o "$1/kgo.test" ./pkg/kgo
}

fetch_tools() {
    mvn -B -q -f "$pom" dependency:copy-dependencies -DincludeScope=runtime "-Dkafka.version=$2" "-DoutputDirectory=$1"
}

fetch librdkafka-2.15.1 npm make cc c++
fetch kgo-1.22.3 go
fetch tools-4.3.1 mvn
echo "setup: the suites of Kafka's clients are looked after in $cache"
