#!/usr/bin/env bash
# Finds a Chromium for the journeys through the web console, and installs one where that is possible without asking. Without any the
# journeys are skipped with the reason, and fail in CI.
set -euo pipefail

names="chromium chromium-browser google-chrome" # as in tests/infra/web/journeys/found.py

find_chromium() {
    local name
    for name in ${PENSTOCK_CHROMIUM:-$names}; do
        command -v "$name" && return
    done
    return 1
}

try() { # its output is of interest only when it fails
    local output
    echo "setup: $*"
    output=$("$@" 2>&1) || {
        echo "$output" >&2
        return 1
    }
}

install_chromium() {
    [ "$(id -u)" = 0 ] || return 1
    if command -v apt-get > /dev/null; then
        export DEBIAN_FRONTEND=noninteractive
        try apt-get update -qq || true
        try apt-get install -y -qq --no-install-recommends chromium
    elif command -v dnf > /dev/null; then
        try dnf install -y -q chromium
    else
        return 1
    fi
}

if ! found=$(find_chromium); then
    echo "setup: no Chromium"
    [ -n "${PENSTOCK_CHROMIUM:-}" ] || install_chromium < /dev/null || true
    if ! found=$(find_chromium); then
        {
            echo "The journeys through the web console need Chromium; without it they are skipped, and fail in CI. Install one, then run this again:"
            echo "  Debian           sudo apt-get install chromium"
            echo "  Fedora           sudo dnf install chromium"
            echo "  others           Chromium or Google Chrome, with PENSTOCK_CHROMIUM set to the path of its program"
        } >&2
        exit 0
    fi
fi
echo "setup: Chromium at $found"
