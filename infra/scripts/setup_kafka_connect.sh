#!/usr/bin/env bash
# Fetches Kafka Connect, Debezium's connector for PostgreSQL and Spark's source for Kafka (Apache-2.0) into <cache>/kafka-connect, once: what
# `make demo-kafka` and its test run. Nothing of them comes into the repository.
set -euo pipefail
cd "$(dirname "$0")/../.."

cache=${PENSTOCK_CACHE:-$HOME/.cache/penstock}/kafka-connect
what="Kafka Connect"
pom=examples/kafka_connect/pom.xml
. infra/scripts/fetch.sh

fetch_connect() {
    mvn -B -q -f "$pom" dependency:copy-dependencies -DincludeScope=runtime "-Dkafka.version=$2" "-DoutputDirectory=$1"
}

fetch_debezium() {
    mvn -B -q -f "$pom" dependency:unpack "-Ddebezium.version=$2" "-DoutputDirectory=$1"
}

fetch_spark() {
    mvn -B -q -f tests/gateway/kafka/clients/programs/spark_pom.xml dependency:copy-dependencies -DincludeScope=runtime "-Dspark.version=$2" \
        "-DoutputDirectory=$1"
}

folders() {
    .venv/bin/python -c "from tests.gateway.kafka.clients.families import *; from examples.kafka_connect.connect import CONNECT, DEBEZIUM
print(CONNECT.name, DEBEZIUM.name, SPARK.name)"
}

read -r connect debezium spark < <(folders)
fetch "$connect" mvn
fetch "$debezium" mvn
fetch "$spark" mvn # last: the tests' mark looks for it
echo "setup: Kafka Connect is looked after in $cache"
