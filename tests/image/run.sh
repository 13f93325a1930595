#!/bin/sh
# The image, for real: built from docker/Dockerfile without a Docker engine, run read-only, without capabilities, as other users, as a pod.
# Needs root and some minutes; skipped loudly where the tools cannot be had. The last line is `N passed, N failed`.
#
#     sh tests/image/run.sh [WORK]     WORK (default build/image) keeps base image and layers between runs; `rm` is done by --clean
#     sh tests/image/run.sh --clean    removes every container and image of it
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/support/packages.sh
. tests/image/engine.sh

if [ "${1:-}" = --clean ]; then
    work=$PWD/build/image
    export CONTAINERS_CONF="$work/containers.conf" CONTAINERS_STORAGE_CONF="$work/storage.conf"
    engine_clean
    exit 0
fi
need python3-minimal libpython3-stdlib curl
if ! engine_prepare "${1:-$PWD/build/image}"; then
    echo "0 passed, 0 failed"
    exit 0
fi
want qemu-user-static
built=0
for target in einmal demo debug sbom; do
    if ! engine_build "$target" "$target:test" >"$work/build-$target.log" 2>&1; then
        tail -30 "$work/build-$target.log"
        echo "the target $target was not built"
        echo "$built passed, 1 failed"
        exit 1
    fi
    built=$((built + 1))
done
if ! engine_build einmal einmal:arm64 --build-arg TARGETARCH=arm64 >"$work/build-arm64.log" 2>&1; then
    tail -30 "$work/build-arm64.log"
    echo "the image for arm64 was not built"
    echo "$built passed, 1 failed"
    exit 1
fi
exec python3 tests/image/test_image.py --built $((built + 1)) --work "$work"
