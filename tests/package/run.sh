#!/bin/sh
# What a newcomer and an operator do, on a bare Debian bookworm made by debootstrap (root and some minutes needed; else skipped loudly):
#
#     the Debian package is built, installed, checked, run, upgraded, removed
#     each of the README's two commands works without anything installed before; the time is printed
#
#     sh tests/package/run.sh [WORK]          WORK (default build/image) is shared with tests/image/run.sh
#     sh tests/package/run.sh --package WORK  the package alone
#     sh tests/package/run.sh --demo WORK     the first command alone
#
# The last line is `N passed, N failed`.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/support/packages.sh
. tests/image/engine.sh
what=all
case "${1:-}" in
--package | --demo) what=${1#--} && shift ;;
esac
passed=0
failed=0

check() { # NAME COMMAND…: its output is shown if it fails
    name=$1
    shift
    began=$(date +%s)
    if "$@" >"$work/check.log" 2>&1; then
        passed=$((passed + 1))
        echo "ok      $name ($(($(date +%s) - began)) s)"
    else
        failed=$((failed + 1))
        echo "FAILED  $name"
        tail -40 "$work/check.log" | sed 's/^/    /'
    fi
}

bare() { # SCRIPT [OPTION…]: runs it in a fresh container of the bare system, with the sources at /source
    script=$1
    shift
    podman run --rm --network host -v "$work/source:/source:ro" "$@" debian:bookworm-slim sh -euc "$script"
}

engine_prepare "${1:-$PWD/build/image}" || {
    echo "0 passed, 0 failed"
    exit 0
}
rm -rf "$work/source" "$work/package"
mkdir "$work/source"
git ls-files -z | xargs -0 cp --parents -t "$work/source"

build_package() {
    need_build dpkg-dev file
    cmake -G Ninja -S . -B "$work/package" -DCMAKE_BUILD_TYPE=Release -DEINMAL_TESTS=OFF -DEINMAL_DEMO=OFF &&
        cmake --build "$work/package" && (cd "$work/package" && cpack -G DEB) && cp "$work"/package/*.deb "$work/source/"
}
# shellcheck disable=SC2016 # for the shell inside
on_package='
apt-get update && apt-get install -y --no-install-recommends /source/einmal_*.deb curl
einmal --version
getent passwd einmal | grep /var/lib/einmal
test "$(stat -c %U:%a /var/lib/einmal)" = einmal:700
dpkg -L einmal | grep -x /lib/systemd/system/einmal.service || dpkg -L einmal | grep -x /usr/lib/systemd/system/einmal.service
cp /usr/share/doc/einmal/examples/minimal.yaml /etc/einmal/einmal.yaml
einmal check -c /etc/einmal/einmal.yaml
setpriv --reuid einmal --regid einmal --clear-groups einmal run --upstream http://127.0.0.1:1 --listen 127.0.0.1:18480 --admin 127.0.0.1:18481 2>/tmp/log &
pid=$!
einmal wait --max 10s --admin 127.0.0.1:18481
test "$(curl -s -o /dev/null -w "%{http_code}" -d x -H "Idempotency-Key: k" http://127.0.0.1:18480/)" = 502
kill $pid && wait $pid
apt-get install -y --reinstall --no-install-recommends /source/einmal_*.deb
test -e /etc/einmal/einmal.yaml
apt-get purge -y einmal
test -d /var/lib/einmal && test ! -e /usr/bin/einmal
'
# shellcheck disable=SC2016
on_unit='
apt-get update && apt-get install -y --no-install-recommends systemd procps /source/einmal_*.deb
unit=/lib/systemd/system/einmal.service
systemd-analyze verify "$unit" 2>&1 | tee /tmp/verify
! grep -i einmal /tmp/verify | grep -v "Command .man" # no man here
'
# shellcheck disable=SC2016
on_demo='
mkdir /tmp/copy && cp -r /source/. /tmp/copy && cd /tmp/copy
rm -f ./*.deb
sh proxy/run.sh >/tmp/demo.log 2>&1 &
pid=$!
for i in $(seq 600); do grep -q "einmal listens on" /tmp/demo.log && break; kill -0 $pid || { cat /tmp/demo.log; exit 1; }; sleep 1; done
for i in 1 2; do curl -s http://127.0.0.1:8080/orders -H "Idempotency-Key: k" -d "{}"; done
curl -s http://127.0.0.1:8080/effects | grep "\"charges\":1,"
kill $pid && wait $pid
'
on_tests='
mkdir /tmp/copy && cp -r /source/. /tmp/copy && cd /tmp/copy
rm -f ./*.deb
sh tests/run.sh >/tmp/tests.log 2>&1 || { tail -60 /tmp/tests.log; exit 1; }
tail -3 /tmp/tests.log
'

if [ "$what" != demo ]; then
    check "the package is built" build_package
    check "the package is installed, checked, run as its user, installed again, purged; the store stays" bare "$on_package"
    check "the systemd unit has no fault that systemd knows" bare "$on_unit"
fi
[ "$what" = package ] ||
    check "the README's first command on a bare system: einmal in front of the demo API" bare "$on_demo"
if [ "$what" = all ]; then
    check "the README's second command on a bare system: all tests" bare "$on_tests" --ulimit nofile=8192:8192
    tail -3 "$work/check.log"
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
