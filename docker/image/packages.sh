#!/bin/sh
# packages.sh ARCH - inside of the build stage: what einmal is built with, for that architecture (Docker's name; empty: this one).
set -eu
native=$(dpkg --print-architecture)
arch=${1:-$native}
packages="gcc libc6-dev"
if [ "$arch" != "$native" ]; then
    dpkg --add-architecture "$arch"
    packages="crossbuild-essential-$arch"
fi
apt-get update
# shellcheck disable=SC2086 # a list of words
apt-get install -y --no-install-recommends $packages cmake ninja-build pkg-config binutils ca-certificates node-llhttp \
    "libevent-dev:$arch" "liblmdb-dev:$arch" "libssl-dev:$arch" "libyaml-dev:$arch"
