#!/bin/sh
# Sets everything up on a Debian machine and runs einmal: in front of a demo order API that counts its effects, or with
# `--upstream URL` in front of an API of your own. Ctrl-C ends both.
#
#     EINMAL_LISTEN (127.0.0.1:8080), EINMAL_DATA (build/demo-data), LEGACY_API_PORT (3000) may be set from the environment.
set -eu
cd "$(dirname "$0")/.."
. tests/support/packages.sh

upstream=
case "${1:-}" in
--upstream)
    upstream=${2:?--upstream needs the URL of your API, such as http://127.0.0.1:3000}
    ;;
"") ;;
*)
    echo "usage: sh proxy/run.sh [--upstream URL]" >&2
    exit 2
    ;;
esac

listen=${EINMAL_LISTEN:-127.0.0.1:8080}
data=${EINMAL_DATA:-build/demo-data}
api_port=${LEGACY_API_PORT:-3000}
api_pid=
einmal_pid=

finish() {
    trap - INT TERM EXIT
    [ -n "$einmal_pid" ] && kill "$einmal_pid" 2>/dev/null && wait "$einmal_pid" 2>/dev/null
    [ -n "$api_pid" ] && kill "$api_pid" 2>/dev/null && wait "$api_pid" 2>/dev/null
    exit "${1:-0}"
}
trap 'finish 0' INT TERM
trap 'finish $?' EXIT

answers() { # URL: does something answer there within ten seconds?
    tries=0
    while [ $tries -lt 100 ]; do
        curl -s -o /dev/null --max-time 2 "$1" && return 0
        kill -0 "$2" 2>/dev/null || return 1
        tries=$((tries + 1))
        sleep 0.1
    done
    return 1
}

need_build
need curl
mkdir -p build
echo "building"
configure_and_build release build/release.log einmal legacy-api

if [ -z "$upstream" ]; then
    build/release/legacy-api 127.0.0.1 "$api_port" &
    api_pid=$!
    answers "http://127.0.0.1:$api_port/effects" "$api_pid" || {
        echo "the demo API did not start on port $api_port: choose another with LEGACY_API_PORT=" >&2
        exit 1
    }
    upstream=http://127.0.0.1:$api_port
fi

build/release/einmal run --upstream "$upstream" --listen "$listen" --data "$data" &
einmal_pid=$!
answers "http://$listen/" "$einmal_pid" || {
    echo "einmal did not start on $listen: see its message above; choose another address with EINMAL_LISTEN=" >&2
    exit 1
}

cat <<TEXT

einmal listens on http://$listen in front of $upstream
TEXT
if [ -n "$api_pid" ]; then
    cat <<TEXT
Try, in another terminal:

  curl -i -X POST http://$listen/orders -H 'Idempotency-Key: order-1' -d '{"item":"book"}'    # twice: one charge, one answer
  curl http://$listen/effects                                                                 # how often the API charged
  curl -i -X POST http://$listen/orders -H 'Idempotency-Key: order-1' -d '{"item":"car"}'     # 422: the key is taken

TEXT
else
    echo "Send each POST or PATCH with an Idempotency-Key of its own, and repeat it as often as you like."
fi
echo "Ctrl-C ends it."
wait "$einmal_pid"
