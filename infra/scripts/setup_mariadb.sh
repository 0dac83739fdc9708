#!/usr/bin/env bash
# Finds a MariaDB and its JDBC driver for the tests, which start servers of their own, or installs Debian's packages of both where that needs
# no question: mariadb-server-core starts no service. Then fetches the JARs of Debezium's engine. Without any of these the tests that need them
# are skipped and counted.
set -euo pipefail
cd "$(dirname "$0")/../.."

driver=/usr/share/java/mariadb-java-client.jar

there() {
    .venv/bin/python -m tests.mariadb_server > /dev/null 2>&1 && [ -e "$driver" ]
}

if ! there && command -v apt-get > /dev/null && [ "$(id -u)" = 0 ]; then
    echo "setup: no MariaDB here; installing Debian's packages of the server and of its JDBC driver"
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends mariadb-server-core libmariadb-java; } > /dev/null 2>&1 < /dev/null || true
fi
if ! there; then
    echo "setup: no MariaDB or no JDBC driver of it, and the tests that need them will be skipped" >&2
    echo "  Debian, Ubuntu   sudo apt-get install mariadb-server-core libmariadb-java" >&2
    exit 0
fi
echo "setup: MariaDB in $(.venv/bin/python -m tests.mariadb_server)"
.venv/bin/penstock capture jars mariadb || echo "setup: without these JARs the tests of captures by Debezium's engine fail" >&2
