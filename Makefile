# Penstock's commands; `make help` lists them. Everything is installed into .venv and the cache, never into the system,
# but for Java and Chromium, which infra/scripts/setup_java.sh and setup_chromium.sh install with the system's package manager where they may.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PENSTOCK_CACHE ?= $(HOME)/.cache/penstock
export PENSTOCK_CACHE

# Every process that a test or the demo starts would compile the library anew: more than a second of the processor, hundreds of times.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
WITH_JAVA = JAVA_HOME="$$(infra/scripts/setup_java.sh --find)"
PY = $(WITH_JAVA) $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
# The JARs are looked for again when what chooses them has changed.
JARS_KEY := $(shell cat $(wildcard spark/prefetch.py spark/jars.py spark/*.xml) | cksum | cut -d" " -f1)
JARS := $(PENSTOCK_CACHE)/stamps/jars-$(JARS_KEY)
# An archive of classes is one environment's own: the JVM compares the paths of the JARs.
CLASSES := $(VENV)/.classes

# Two more than there are cores: many tests wait for servers, processes or Spark, and the cores were idle for two fifths of the time.
WORKERS ?= $(shell expr $$(nproc 2> /dev/null || sysctl -n hw.ncpu) + 2)
PYTEST = $(PY) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
QUICK := not slow and not spark and not s3 and not versitygw and not dynamodb and not dynoxide and not postgres and not mariadb and not mongodb and not processes and not simulation

ARGS ?=
FIRST_SEED ?= 0
SEEDS ?= 50
SEED ?=
MINUTES ?=

##@ First steps

.PHONY: help
help: ## this list
	@awk 'BEGIN { FS = ":.*## " } /^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(INSTALLED) java chromium servers sdks kafka-clients kafka-connect postgres mariadb mongodb $(CLASSES) ## .venv, Java, Chromium, Spark's JARs and classes, the test servers, SDKs, Kafka's clients and Connect (all cached)

.PHONY: demo
demo: $(INSTALLED) java $(CLASSES) ## a shop's change stream through a topic into Delta tables (ARGS="--lake s3://…")
	@$(WITH_JAVA) $(VENV)/bin/python -m examples.demo $(ARGS)

.PHONY: demo-gateway
demo-gateway: $(INSTALLED) java sdks ## RocketMQ's own SDKs, in Java and Python, through two gateways, of which one is killed (ARGS="--orders 1000")
	@$(PY) -m examples.gateway.demo $(ARGS)

.PHONY: demo-console
demo-console: $(INSTALLED) ## a lively shop and the web console above it (ARGS="--port 8086 --no-browser")
	@$(VENV)/bin/python examples/console/shop.py $(ARGS)

.PHONY: demo-live
demo-live: $(INSTALLED) postgres ## a PostgreSQL captured live beneath kills, and cuts that are proved against it (ARGS="--seconds 60 --lake ./live")
	@$(VENV)/bin/python -m examples.live $(ARGS)

.PHONY: demo-kafka
demo-kafka: $(INSTALLED) java kafka-connect postgres ## Debezium on Kafka Connect through two gateways, killed, into Delta tables that equal a PostgreSQL (ARGS="--transactions 1000")
	@$(PY) -m examples.kafka_connect $(ARGS)

##@ Checks

.PHONY: test
test: setup checks ## what must pass: setup, lint, types, layers, tests
	$(PYTEST) --durations=10 tests

.PHONY: test-all
test-all: setup checks ## the same, thoroughly: all seeds, examples and rehearsals
	PENSTOCK_TESTS=all $(PYTEST) --durations=10 tests

# Side by side, as each has a core of its own. Workers of pytest would each compile all tests, were they not compiled before.
.PHONY: checks
checks: $(INSTALLED)
	@$(MAKE) --no-print-directory --jobs=2 types lint layers collected

.PHONY: collected
collected: $(INSTALLED)
	@$(VENV)/bin/python -m pytest --collect-only --quiet -p no:xdist tests > $(VENV)/.collected || { cat $(VENV)/.collected; exit 1; }

.PHONY: lint
lint: $(INSTALLED) ## ruff: rules and format
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

.PHONY: format
format: $(INSTALLED) ## mend what ruff can mend
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

.PHONY: types
types: $(INSTALLED) ## mypy, strict
	$(VENV)/bin/mypy

.PHONY: layers
layers: $(INSTALLED) ## which part may import which
	$(VENV)/bin/lint-imports tests/layers.toml

.PHONY: face
face: $(INSTALLED) ## write the synchronous face (penstock/blocking/) anew from the asynchronous classes
	$(VENV)/bin/python infra/scripts/blocking_face.py

.PHONY: protocol
protocol: $(INSTALLED) ## compile the gateway's protocol (gateway/rocketmq/protocol/rocketmq.proto) anew
	$(VENV)/bin/python infra/scripts/compile_protocol.py

.PHONY: reference
reference: $(INSTALLED) ## write the indexes of the API's reference, and the page of commands (docs/reference/) anew
	$(VENV)/bin/python infra/scripts/reference_index.py
	$(VENV)/bin/python infra/scripts/command_reference.py

.PHONY: docs
docs: $(INSTALLED) ## the site of the documents, into build/site; a dead link fails it
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/python -m mkdocs build

.PHONY: unit
unit: $(INSTALLED) ## the quick tests only: no servers, no Spark, no processes
	$(PYTEST) -m "$(QUICK)" $(ARGS) tests

##@ Long campaigns

.PHONY: simulate
simulate: $(INSTALLED) ## sweep simulated faults (SEEDS=50 of each scenario, FIRST_SEED=0; ARGS="--world consumers", or gateways, timers, transactions, leases, receiving, repeating, letters)
	$(PY) -m tests.simulation.campaign sweep --seeds $(SEEDS) --first-seed $(FIRST_SEED) $(ARGS)

.PHONY: exhaustive
exhaustive: $(INSTALLED) ## every single fault at every store call of a small workload (ARGS="--world timers", or consumers, transactions)
	$(PY) -m tests.simulation.campaign exhaustive $(ARGS)

.PHONY: replay
replay: $(INSTALLED) ## run one seed again, with its trace (SEED=…)
	@[ -n "$(SEED)" ] || { echo "which one? make replay SEED=42" >&2; exit 2; }
	$(PY) -m tests.simulation.campaign replay --seed $(SEED) $(ARGS)

.PHONY: teeth
teeth: $(INSTALLED) ## remove one guard after another: in how many of SEEDS does the simulation notice? (ARGS="--world timers --enough 5", or consumers, gateways, transactions)
	$(PY) -m tests.simulation.campaign teeth --seeds $(SEEDS) $(ARGS)

.PHONY: mutants
mutants: $(INSTALLED) ## take each guard and comparison of the protocol away: which does no test miss? (ARGS="log/format/fold.py", "--sample 500", "--report")
	$(PY) -m tests.mutation $(ARGS)

.PHONY: chaos
chaos: $(INSTALLED) servers java postgres $(JARS) ## real processes, killed and paused at random: the log's, consumers, a sync (MINUTES=2, KILLS=100, ARGS="--seed 7")
	$(PY) -m tests.processes.chaos --minutes $(or $(MINUTES),2) $(ARGS)
	$(PY) -m tests.processes.consuming.chaos --minutes $(or $(MINUTES),2) $(ARGS)
	$(PY) -m tests.processes.syncing.chaos --kills $(or $(KILLS),100) $(SYNC_ARGS)

.PHONY: campaign
campaign: $(INSTALLED) servers ## consumers' run until 200,000 messages are through, on SQLite and on a real S3 server (MESSAGES=200000, ARGS="--seed 7 --minutes 60")
	$(PY) -m tests.processes.consuming.chaos --messages $(or $(MESSAGES),200000) $(ARGS)

.PHONY: gateway-chaos
gateway-chaos: $(INSTALLED) java sdks ## three gateways killed, stopped and cut off beneath RocketMQ's SDKs, until all is through (MESSAGES=1000000, ARGS="--seed 7")
	$(PY) -m tests.gateway.chaos.play --messages $(or $(MESSAGES),1000000) $(ARGS)

.PHONY: kafka-chaos
kafka-chaos: $(INSTALLED) servers ## three Kafka gateways and their store killed, stopped and cut off beneath idempotent producers and a group (MESSAGES=1000000, ARGS="--seed 7")
	$(PY) -m tests.gateway.kafka.chaos.play --messages $(or $(MESSAGES),1000000) $(ARGS)

.PHONY: kafka-suites
kafka-suites: $(INSTALLED) java ## the suites of librdkafka, franz-go, kafka-go and sarama, and Kafka's tools, at the gateway, beside what is expected (ARGS="librdkafka --only 0012")
	@infra/scripts/setup_kafka_suites.sh
	$(PY) -m tests.gateway.kafka.suites $(ARGS)

.PHONY: test-mixed
test-mixed: $(INSTALLED) servers ## the last release and this version in one lake, killed and rolled forward and back; nothing lost, twice or inverted (MINUTES=4, ARGS="--seed 7 --store local")
	$(PY) -m tests.mixed.play $(if $(MINUTES),--minutes $(MINUTES)) $(ARGS)

.PHONY: capture-kills
capture-kills: $(INSTALLED) java mariadb mongodb ## captures of a MariaDB and of a MongoDB, and the servers, killed beneath writers; every row compared (KILLS=100, ARGS="--seed 7")
	$(PY) -m tests.cdc.kill_campaign --source mariadb --kills $(or $(KILLS),100) $(ARGS)
	$(PY) -m tests.cdc.kill_campaign --source mongodb --kills $(or $(KILLS),100) $(ARGS)

.PHONY: soak
soak: $(INSTALLED) servers ## the same for long (MINUTES=60)
	$(PY) -m tests.processes.chaos --minutes $(or $(MINUTES),60) $(ARGS)
	$(PY) -m tests.processes.consuming.chaos --minutes $(or $(MINUTES),60) $(ARGS)

.PHONY: cuts
cuts: $(INSTALLED) postgres mariadb ## cuts of a shop that never closes, beneath captures and syncs that are killed: each equals the source (CUTS=1000, ARGS="--seed 7 --source mariadb")
	$(PY) -m tests.cdc.cuts.campaign --cuts $(or $(CUTS),1000) $(ARGS)

.PHONY: ddl
ddl: $(INSTALLED) java postgres mariadb mongodb ## a PostgreSQL, MariaDB or MongoDB whose tables are renamed, dropped, made again and migrated beneath kills (TRANSACTIONS=2000, ARGS="--seed 7 --source mariadb")
	$(PY) -m tests.cdc.ddl.campaign --transactions $(or $(TRANSACTIONS),2000) $(ARGS)

.PHONY: sync-soak
sync-soak: $(INSTALLED) ## one sync of 100 generated tables beside kills, for long; in the end equal to its source (MINUTES=60, ARGS="--seed 7 --rate 500")
	$(PY) -m tests.processes.syncing.soak --minutes $(or $(MINUTES),60) $(ARGS)

##@ Measurements

.PHONY: bench
bench: $(INSTALLED) ## the figures we build for, as a table and JSON
	$(PY) -m tests.benchmarks $(ARGS)

.PHONY: bench-rocketmq
bench-rocketmq: $(INSTALLED) java sdks ## RocketMQ's Java SDK at the gateway and at a RocketMQ that flushes, in turns (ARGS="--repeats 5 --count 3000")
	$(PY) -m tests.benchmarks.gateway.sdks --rocketmq $(ARGS)

.PHONY: bench-peers
bench-peers: $(INSTALLED) java ## Kafka and RocketMQ beside ours, on this machine, below 10 minutes (MINUTES=9, ARGS="--only ours,kafka", "--thorough")
	$(PY) -m tests.benchmarks.peers $(if $(MINUTES),--minutes $(MINUTES)) $(ARGS)

##@ Releases

.PHONY: release
release: ## build what would be uploaded, check it, install and try it; signs and uploads nothing (URL=https://… of the repository)
	python3 infra/scripts/release.py $(if $(URL),--url $(URL)) $(ARGS)

.PHONY: test-oldest
test-oldest: ## the quick tests with the oldest versions that pyproject.toml allows (ARGS="tests/log -k name")
	python3 infra/scripts/test_environments.py oldest $(ARGS)

.PHONY: test-pythons
test-pythons: ## the quick tests on each Python from 3.11 to 3.14 that is there, on PATH or by pyenv or uv (ARGS="tests/log")
	python3 infra/scripts/test_environments.py pythons $(ARGS)

.PHONY: spark-matrix
spark-matrix: $(INSTALLED) ## Spark's tests on every version of Spark and Java that fits (ARGS="--only 4.0 --java 21 --tests tests/spark/source")
	$(PY) infra/scripts/spark_matrix.py $(ARGS)

##@ Housekeeping

.PHONY: clean
clean: ## remove .venv and what tools left behind (the cache stays)
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# ------------------------------------------------------------------------------------------------ what they stand on

$(INSTALLED): pyproject.toml infra/scripts/setup_venv.sh
	@infra/scripts/setup_venv.sh
	@touch $@

.PHONY: java
java:
	@infra/scripts/setup_java.sh

.PHONY: chromium
chromium:
	@infra/scripts/setup_chromium.sh

.PHONY: servers
servers:
	@infra/scripts/build_servers.sh

.PHONY: sdks
sdks: | $(INSTALLED)
	@infra/scripts/setup_sdks.sh

.PHONY: kafka-clients
kafka-clients: | $(INSTALLED) java
	@infra/scripts/setup_kafka_clients.sh

.PHONY: kafka-connect
kafka-connect: | $(INSTALLED) java
	@infra/scripts/setup_kafka_connect.sh

.PHONY: sdks-rust
sdks-rust: $(INSTALLED) ## RocketMQ's SDK for Rust, for the gateway's tests: some 4 minutes of a core, once
	@infra/scripts/setup_sdks.sh rust

.PHONY: postgres
postgres: | $(INSTALLED)
	@infra/scripts/setup_postgres.sh

.PHONY: mariadb
mariadb: | $(INSTALLED) java
	@infra/scripts/setup_mariadb.sh

.PHONY: mongodb
mongodb: | $(INSTALLED)
	@infra/scripts/setup_mongodb.sh

$(JARS): | $(INSTALLED) java
	@echo "setup: Spark's JARs into $(PENSTOCK_CACHE)"
	@$(PY) -m penstock.spark.prefetch --no-archive
	@mkdir -p $(@D) && touch $@

$(CLASSES): $(INSTALLED) $(JARS)
	@echo "setup: an archive of Spark's classes into $(PENSTOCK_CACHE), from which sessions start sooner"
	@$(PY) -m penstock.spark.prefetch
	@touch $@
