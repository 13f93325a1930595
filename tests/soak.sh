#!/bin/sh
# Half an hour of mixed traffic with faults: memory and descriptors stay flat, every key has one effect. Not in CI.
#
#     sh tests/soak.sh [MINUTES] [BINARY]     default 30 minutes, build/release/einmal (built if it is missing)
#
# A line a minute; the last one is `N passed, N failed`.
set -u
cd "$(dirname "$0")/.." || exit 1
minutes=${1:-30}
binary=${2:-build/release/einmal}
if [ ! -x "$binary" ]; then
    . tests/support/packages.sh
    need_build python3-minimal libpython3-stdlib
    mkdir -p build/logs
    configure_and_build release build/logs/build-soak.log || exit 1
fi
exec python3 tests/support/soak.py --einmal "$binary" --minutes "$minutes"
