# engine.sh - sourced: an engine for images without a daemon (buildah, podman, runc), with everything it keeps under one work folder.
#
#     engine_prepare WORK     packages, configuration, and a base image debian:bookworm-slim made from Debian's own packages
#     engine_build TARGET TAG [ARGUMENT…]
#     engine_clean            removes every container and image, then the folder
#
# Base images come from a registry elsewhere; here one is made by debootstrap, so that an unchanged Dockerfile finds it. Returns 1 with
# a line `skipped: …` where something cannot be had.

engine_prepare() {
    work=$1
    want buildah podman runc crun debootstrap catatonit ca-certificates >&2
    for program in buildah podman runc debootstrap; do
        command -v "$program" >/dev/null || { echo "skipped: the image: $program is not installed" && return 1; }
    done
    [ "$(id -u)" = 0 ] || { echo "skipped: the image: root is needed to make a base image and containers" && return 1; }
    mkdir -p "$work"
    cat >"$work/containers.conf" <<TEXT
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
TEXT
    cat >"$work/storage.conf" <<TEXT
[storage]
driver = "overlay"
graphroot = "$work/storage"
runroot = "$work/run"
TEXT
    export CONTAINERS_CONF="$work/containers.conf" CONTAINERS_STORAGE_CONF="$work/storage.conf"
    podman image exists debian:bookworm-slim || engine_base
}

# The suites and the mirror that apt uses on this machine.
engine_base() {
    if ! { debootstrap --variant=minbase bookworm "$work/base" "$(engine_mirror)" >"$work/debootstrap.log" 2>&1; }; then
        tail -5 "$work/debootstrap.log"
        echo "skipped: the image: no base image could be made" && return 1
    fi
    cp -r /etc/apt/sources.list* "$work/base/etc/apt/" 2>/dev/null
    cp /etc/resolv.conf "$work/base/etc/"
    chroot "$work/base" sh -c 'apt-get update && apt-get upgrade -y && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /usr/share/doc/*/changelog* /usr/share/man/*' \
        >>"$work/debootstrap.log" 2>&1
    tar -C "$work/base" -c . | podman import - docker.io/library/debian:bookworm-slim >/dev/null && rm -rf "$work/base"
}

engine_mirror() {
    sed -n -e 's/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\) bookworm main.*/\2/p' -e 's/^URIs: *\([^ ]*\).*/\1/p' \
        /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null | head -1
}

engine_build() { # TARGET TAG [ARGUMENT…]
    target=$1
    tag=$2
    shift 2
    buildah bud --isolation chroot --layers --pull-never --format docker -f docker/Dockerfile --target "$target" -t "localhost/$tag" "$@" .
}

engine_clean() {
    podman rm -af -t 0 >/dev/null 2>&1
    podman rmi -af >/dev/null 2>&1
    umount "$work/storage/overlay" 2>/dev/null
    rm -rf "$work"
}
