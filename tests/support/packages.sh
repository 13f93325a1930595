# packages.sh - sourced by the run scripts: installs the Debian packages that are missing, and nothing if none is.
#
#     need PACKAGE…    every one of them is there afterwards, or the script ends with a message
#     want PACKAGE…    the same, but a failure is only told (what needs them is skipped loudly later)

missing() {
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || printf '%s ' "$package"
    done
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        echo "this needs root or sudo: $*" >&2
        return 1
    fi
}

install_packages() {
    log=$(mktemp)
    echo "installing: $*"
    if as_root apt-get update >"$log" 2>&1 &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >>"$log" 2>&1; then
        rm -f "$log"
        return 0
    fi
    tail -20 "$log" >&2
    rm -f "$log"
    return 1
}

need() {
    absent=$(missing "$@")
    [ -z "$absent" ] && return 0
    # shellcheck disable=SC2086 # a list of words
    install_packages $absent || {
        echo "could not install: $absent(see above); install them by hand and run this again" >&2
        exit 1
    }
}

want() {
    absent=$(missing "$@")
    [ -z "$absent" ] && return 0
    # shellcheck disable=SC2086
    install_packages $absent || echo "not installed: $absent"
}

# llhttp is a library where Debian has one (trixie), else C sources (bookworm).
llhttp_package() {
    for package in libllhttp-dev node-llhttp; do
        [ -z "$(missing $package)" ] && echo $package && return
    done
    apt-cache show node-llhttp >/dev/null 2>&1 || as_root apt-get update >/dev/null 2>&1 # a new machine knows no package yet
    if apt-cache show libllhttp-dev >/dev/null 2>&1; then
        echo libllhttp-dev
    else
        echo node-llhttp
    fi
}

# need_build [PACKAGE…]: what einmal is built with, and these.
need_build() {
    need gcc libc6-dev cmake ninja-build pkg-config ca-certificates \
        libevent-dev liblmdb-dev libssl-dev libyaml-dev "$(llhttp_package)" "$@"
}

# configure_and_build PRESET LOG [TARGET…]
configure_and_build() {
    preset=$1
    build_log=$2
    shift 2
    if ! { cmake --preset "$preset" && cmake --build "build/$preset" ${1:+--target "$@"}; } >"$build_log" 2>&1; then
        tail -60 "$build_log"
        echo "the build of preset '$preset' failed: see above and $build_log" >&2
        return 1
    fi
}
