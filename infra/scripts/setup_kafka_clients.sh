#!/usr/bin/env bash
# Fetches Kafka's clients (Apache-2.0, MIT) into <cache>/kafka-clients, once: those that the gateway's tests run. Nothing of them comes into the
# repository. The tests' programs (tests/gateway/kafka/clients/programs) are compiled with them. Without the tool of a language the tests that
# need its clients are skipped and counted. Those of Python are in .venv.
set -euo pipefail
cd "$(dirname "$0")/../.."

cache=${PENSTOCK_CACHE:-$HOME/.cache/penstock}/kafka-clients
programs=tests/gateway/kafka/clients/programs
scratch=
trap '[ -z "$scratch" ] || rm -rf "$scratch"' EXIT

# fetch FOLDER TOOL…: by the function fetch_LANGUAGE OUT VERSION, where the folder is LANGUAGE-VERSION or LANGUAGE-VERSION-DIGEST.
fetch() {
    local folder=$1 tool language version target
    shift
    target=$cache/$folder language=${folder%%-*} version=${folder#*-} version=${version%-*}
    [ ! -e "$target" ] || return 0
    for tool in "$@"; do
        if ! command -v "$tool" > /dev/null; then
            skip "$language" "no $tool"
            return
        fi
    done

    mkdir -p "$cache"
    exec 9> "$cache/lock"
    if command -v flock > /dev/null; then flock 9; fi # two checkouts may set up at once
    [ ! -e "$target" ] || return 0

    echo "setup: fetching Kafka's clients for $folder, once"
    scratch=$(mktemp -d "$cache/fetch.XXXXXX")
    if "fetch_$language" "$scratch/out" "$version" > "$scratch/log" 2>&1; then
        mv "$scratch/out" "$target"
    else
        tail -n 20 "$scratch/log" >&2
        skip "$language" "they could not be fetched, see above (make setup tries again)"
    fi
    rm -rf "$scratch"
    exec 9>&-
}

skip() {
    echo "setup: $2: Kafka's clients for $1 are not there, and the tests that need them will be skipped" >&2
}

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
