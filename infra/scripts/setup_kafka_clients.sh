#!/usr/bin/env bash
# Fetches Kafka's clients (Apache-2.0, MIT) into <cache>/kafka-clients, once: those that the gateway's tests run. Nothing of them comes into the
# repository. The tests' programs (tests/gateway/kafka/clients/programs) are compiled with them. Without the tool of a language the tests that
# need its clients are skipped and counted. Those of Python are in .venv.
set -euo pipefail
cd "$(dirname "$0")/../.."

cache=${PENSTOCK_CACHE:-$HOME/.cache/penstock}/kafka-clients
programs=tests/gateway/kafka/clients/programs
what="Kafka's clients"
. infra/scripts/fetch.sh

fetch_java() {
    mvn -B -q -f "$programs/pom.xml" dependency:copy-dependencies -DincludeScope=runtime "-Dkafka.version=$2" "-DoutputDirectory=$1" \
        && javac -cp "$1/*" -d "$1" "$programs/Client.java"
}

# What the program is compiled from is large, and not kept.
fetch_go() {
    GOPATH=$scratch/modules GOCACHE=$scratch/compiled GOFLAGS="-modcacherw -trimpath -buildvcs=false" \
        go -C "$programs/go" build -ldflags "-s -w" -o "$1/client"
}

fetch_node() {
    mkdir -p "$1" && npm install --prefix "$1" --no-audit --no-fund "kafkajs@$2" kafkajs-snappy@1.1.0
}

# The folders' names tell the versions, and a digest of the program that is compiled.
folders() {
    .venv/bin/python -c "from tests.gateway.kafka.clients.families import *; print(*(one.name for one in (GO, JAVA, OLDER_JAVA, NODE)))"
}

read -r go java older_java node < <(folders)
fetch "$go" go
fetch "$java" mvn javac
fetch "$older_java" mvn javac
fetch "$node" npm node
echo "setup: Kafka's clients are looked after in $cache"
