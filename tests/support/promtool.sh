#!/bin/sh
# promtool.sh - puts Prometheus' promtool into build/promtool, taken out of Debian's package without installing it: the package would
# start a service. Says where it is; exit status 1, and why, where it cannot be had.
cd "$(dirname "$0")/../.." || exit 1
. tests/support/packages.sh
folder=$PWD/build/promtool
if command -v promtool; then
    exit 0
fi

fetch() { # DIRECTORY
    cd "$1" && apt-get download prometheus && dpkg-deb -x prometheus_*.deb .
}

if [ ! -x "$folder/promtool" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    chmod 755 "$work" # apt's own user reads there
    (fetch "$work") >"$work/log" 2>&1 || {
        as_root apt-get update >"$work/log" 2>&1 # a new machine knows no package yet
        (fetch "$work") >>"$work/log" 2>&1
    } || {
        tail -3 "$work/log"
        exit 1
    }
    mkdir -p "$folder"
    mv "$work/usr/bin/promtool" "$folder/promtool"
fi
echo "$folder/promtool"
