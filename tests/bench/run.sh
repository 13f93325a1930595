#!/bin/sh
# The benchmark: einmal beside nginx and HAProxy on this machine, in one run. Installs what is missing, builds the release preset
# if it is not up to date, writes tests/bench/results/latest.md.
#
#     sh tests/bench/run.sh [--rounds N] [--seconds S] [--workers N] [--paths LIST] [--no-access-log] [--smoke | --full] …
#
# `--help` lists all. EINMAL=PATH measures another binary; the floors and tools are built all the same. All traffic is on loopback; what it starts it ends by
# process id, what it writes is below build/ and removed, but for the results.
set -eu
case "${EINMAL:-}" in
"" | /*) ;;
*) EINMAL=$PWD/$EINMAL ;;
esac
cd "$(dirname "$0")/../.."
. tests/support/packages.sh

need python3-minimal libpython3-stdlib wrk nginx-light haproxy openssl
need_build
mkdir -p build
configure_and_build release build/bench.log einmal floor_epoll floor_lmdb floor_keys store_fill
EINMAL=${EINMAL:-$PWD/build/release/einmal}
if [ ! -x "$EINMAL" ]; then
    echo "$EINMAL is no program" >&2
    exit 2
fi
PATH=$PATH:/usr/sbin:/sbin
export PATH PYTHONDONTWRITEBYTECODE=1
exec python3 tests/bench/bench.py --einmal "$EINMAL" --tools "$PWD/build/release/tests" "$@"
