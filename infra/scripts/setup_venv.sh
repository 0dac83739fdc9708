#!/usr/bin/env bash
# Makes the virtual environment .venv, or brings it up to date, with Penstock installed in place and all its tools.
# PYTHON names the interpreter; else the newest of those found that is 3.11 or newer.
set -euo pipefail
cd "$(dirname "$0")/../.."

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' > /dev/null 2>&1
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python}; do
        if new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    echo "Penstock needs Python 3.11 or newer${PYTHON:+, and $PYTHON is not}. Found: $(python3 --version 2>&1 || echo none)." >&2
    echo "Install one (Debian, Ubuntu: apt-get install python3 python3-venv; macOS: brew install python@3.13)," >&2
    echo "or say where it is: make setup PYTHON=/path/to/python3.13" >&2
    return 1
}

if ! new_enough .venv/bin/python; then
    python=$(find_python)
    echo "setup: .venv with $("$python" --version)"
    rm -rf .venv
    if ! "$python" -m venv .venv; then
        rm -rf .venv
        echo "$python cannot make virtual environments. Debian, Ubuntu: apt-get install python3-venv" >&2
        exit 1
    fi
fi

# A source distribution has no links; the tests and the tools look for the parts by them.
for area in cdc consumers coordinator gateway infra log spark; do
    [ -e "penstock/$area" ] || ln -s "../$area" "penstock/$area"
done

echo "setup: Penstock and its tools into .venv (some minutes the first time)"
.venv/bin/python -m pip install --quiet --upgrade 'pip>=25.1' # the first that knows dependency groups
# setuptools warns that an editable install cannot see new files everywhere; with the links in penstock/ it can.
.venv/bin/python -m pip install --quiet --editable '.[all,testing,postgres]' --group dev --group docs 2>&1 | sed '/Editable installation/,/strategy, WheelFile/d'
