#!/usr/bin/env bash
# Finds a Java that Spark runs on, and installs one where that is possible without asking.
#   setup_java.sh          find or install; fails with what to do when neither works
#   setup_java.sh --find   print the JAVA_HOME to use, or nothing
set -euo pipefail

supported="17 21 25" # as in spark/java.py
wanted="Java ${supported// /, }"

java_version() { # the major version of a java program: "1.8.0_392" is 8
    "$1" -version 2>&1 | sed -n '1,/version/s/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1
}

find_java() {
    local candidate version
    for candidate in "${JAVA_HOME:-/nonexistent}/bin/java" "$(command -v java || true)" \
        /usr/lib/jvm/*/bin/java /opt/homebrew/opt/openjdk*/bin/java /usr/local/opt/openjdk*/bin/java \
        /Library/Java/JavaVirtualMachines/*/Contents/Home/bin/java; do
        [ -x "$candidate" ] || continue
        version=$(java_version "$candidate")
        case " $supported " in *" ${version:-none} "*)
            echo "$candidate"
            return
            ;;
        esac
    done
    return 1
}

home_of() { # a launcher may be a link; asking Java itself also works for wrappers
    "$1" -XshowSettings:properties -version 2>&1 | sed -n 's/^ *java\.home = //p'
}

try() { # its output is of interest only when it fails
    local output
    echo "setup: $*"
    output=$("$@" 2>&1) || {
        echo "$output" >&2
        return 1
    }
}

install_java() {
    local package
    if command -v brew > /dev/null; then
        try brew install --quiet openjdk@17
    elif [ "$(id -u)" != 0 ]; then
        return 1
    elif command -v apt-get > /dev/null; then
        export DEBIAN_FRONTEND=noninteractive
        try apt-get update -qq || true
        for package in openjdk-17-jre-headless openjdk-21-jre-headless; do
            try apt-get install -y -qq --no-install-recommends "$package" && return
        done
        return 1
    elif command -v dnf > /dev/null; then
        for package in java-17-openjdk-headless java-21-openjdk-headless; do
            try dnf install -y -q "$package" && return
        done
        return 1
    else
        return 1
    fi
}

if [ "${1:-}" = --find ]; then
    if java=$(find_java); then home_of "$java"; fi
    exit 0
fi

if ! java=$(find_java); then
    echo "setup: none of $wanted"
    install_java < /dev/null || true
    if ! java=$(find_java); then
        cat >&2 << MESSAGE
Spark needs one of $wanted. Install one, then run this again:
  Debian, Ubuntu   sudo apt-get install openjdk-17-jre-headless
  Fedora           sudo dnf install java-21-openjdk-headless
  macOS            brew install openjdk@17
or set JAVA_HOME to where it is.
MESSAGE
        exit 1
    fi
fi
echo "setup: Java $(java_version "$java") at $(home_of "$java")"
