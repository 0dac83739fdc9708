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
    (cd "$1" && ./configure --disable-curl --disable-sasl)
    make -C "$1" libs
    make -C "$1/tests" build
}

# module_of PATH VERSION: the module's source, to be changed, in $scratch/module.
module_of() {
    export GOPATH=$scratch/modules GOCACHE=$scratch/compiled GOFLAGS="-modcacherw -mod=mod"
    (cd "$scratch" && go mod init suite && go mod download "$1@v$2")
    cp -r "$GOPATH/pkg/mod/$(sed 's/[A-Z]/!\L&/g' <<< "$1")@v$2" "$scratch/module"
}

fetch_kgo() {
    module_of github.com/twmb/franz-go "$2"
    mkdir -p "$1"
    go -C "$scratch/module" test -c -o "$1/kgo.test" ./pkg/kgo
}

# Its tests are made for localhost:9092; here the address is told by a variable.
fetch_kafkago() {
    module_of github.com/segmentio/kafka-go "$2"
    (cd "$scratch/module" && sed -i -E '
        s/"(localhost|127\.0\.0\.1):9092"/suiteAddress()/
        s/newClient\(TCP\("localhost"\)\)/newClient(TCP(suiteAddress()))/
        s/^\tconst \($/\tvar (/
        s/const broker = suiteAddress/broker := suiteAddress/' $(ls ./*_test.go | grep -vE '/(address|example)'))
    printf 'package kafka\n\nimport "os"\n\nfunc suiteAddress() string { return os.Getenv("KAFKA_ADDRESS") }\n' \
        > "$scratch/module/suite_address_test.go"
    mkdir -p "$1"
    cp -r "$scratch/module/fixtures" "$1"
    go -C "$scratch/module" test -c -o "$1/kafka-go.test" .
}

# Its tests are made for five brokers behind proxies; here all five are the address that a variable tells.
fetch_sarama() {
    module_of github.com/IBM/sarama "$2"
    sed -i '/^func existingEnvironment/,/^}/d; /^func resetProxies/,/^}/d; /"net\/url"/d' "$scratch/module/functional_test.go"
    cat > "$scratch/module/functional_suite_test.go" << 'END'
//go:build functional

package sarama

import (
	"context"
	"os"
	"testing"
)

func existingEnvironment(_ context.Context, env *testEnvironment) (bool, error) {
	for range 5 {
		env.KafkaBrokerAddrs = append(env.KafkaBrokerAddrs, os.Getenv("KAFKA_ADDRESS"))
	}
	env.KafkaVersion = os.Getenv("KAFKA_VERSION")
	return true, nil
}

func resetProxies(testing.TB) {}
END
    mkdir -p "$1"
    go -C "$scratch/module" test -c -tags functional -o "$1/sarama.test" .
}

fetch_tools() {
    mvn -B -q -f "$pom" dependency:copy-dependencies -DincludeScope=runtime "-Dkafka.version=$2" "-DoutputDirectory=$1"
}

fetch librdkafka-2.15.1 npm make cc c++
fetch kgo-1.22.3 go
fetch kafkago-0.4.51 go
fetch sarama-1.61.1 go
fetch tools-4.3.1 mvn
echo "setup: the suites of Kafka's clients are looked after in $cache"
