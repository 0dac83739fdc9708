# Sourced by set-up scripts: fetches what tests and demos run into the cache, each into a folder of its own, once. A script sets `cache`, the
# folder of all, and `what`, which people are told; and it has a function fetch_NAME OUT VERSION for each `fetch NAME-VERSION`.
# shellcheck shell=bash disable=SC2154

scratch=
trap '[ -z "$scratch" ] || rm -rf "$scratch"' EXIT

# fetch NAME-VERSION[-DIGEST] TOOL…: the folder appears whole or not at all, and not without the tools.
fetch() {
    local folder=$1 tool name version target=$cache/$1
    shift
    name=${folder%%-*} version=${folder#*-} version=${version%-*}
    [ ! -e "$target" ] || return 0
    for tool in "$@"; do
        if ! command -v "$tool" > /dev/null; then
            skip "$folder" "no $tool"
            return
        fi
    done

    mkdir -p "$cache"
    exec 9> "$cache/lock"
    if command -v flock > /dev/null; then flock 9; fi # two checkouts may set up at once
    [ ! -e "$target" ] || return 0

    echo "setup: fetching $folder ($what), once"
    scratch=$(mktemp -d "$cache/fetch.XXXXXX")
    if "fetch_$name" "$scratch/out" "$version" > "$scratch/log" 2>&1; then
        mv "$scratch/out" "$target"
    else
        tail -n 20 "$scratch/log" >&2
        skip "$folder" "it could not be fetched, see above"
    fi
    rm -rf "$scratch"
    exec 9>&-
}

skip() {
    echo "setup: $1 ($what) is left out, with the tests that need it: $2" >&2
}
