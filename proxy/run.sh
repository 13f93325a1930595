#!/bin/sh
# Sets everything up on a Debian machine and runs einmal: in front of a demo order API that counts its effects, or with
# `--upstream URL` in front of an API of your own. Ctrl-C ends both.
#
# From the environment: EINMAL_LISTEN (127.0.0.1:8080), EINMAL_DATA (build/demo-data), LEGACY_API_PORT (3000).
set -eu
cd "$(dirname "$0")/.."
. tests/support/packages.sh

usage() {
    echo "usage: sh proxy/run.sh [--upstream URL]" >&2
    exit 2
}

upstream=
case "$#:${1:-}" in
0:) ;;
2:--upstream) upstream=$2 ;;
1:--upstream=*) upstream=${1#--upstream=} ;;
*) usage ;;
esac

listen=${EINMAL_LISTEN:-127.0.0.1:8080}
data=${EINMAL_DATA:-build/demo-data}
api=127.0.0.1:${LEGACY_API_PORT:-3000}
api_pid=
einmal_pid=

# Each is ended by its process id. They have sessions of their own, so that Ctrl-C reaches this script alone and a running
# request may finish before einmal leaves.
finish() {
    set +e
    trap '' INT TERM HUP
    trap - EXIT
    for pid in $einmal_pid $api_pid; do
        kill "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
    done
    exit "$1"
}
trap 'finish 0' INT TERM HUP
trap 'finish $?' EXIT

listening() { # HOST:PORT: does a connection succeed? Nothing is sent.
    status=0
    curl -s -o /dev/null --max-time 2 "telnet://$1" </dev/null || status=$?
    [ $status != 7 ]
}

must_be_free() { # HOST:PORT SETTING
    if listening "$1"; then
        echo "$1 is in use by another program: choose another with $2" >&2
        exit 1
    fi
}

wait_for() { # HOST:PORT PID WHAT
    tries=0
    until listening "$1"; do
        tries=$((tries + 1))
        if [ $tries -gt 100 ] || ! kill -0 "$2" 2>/dev/null; then
            echo "$3 did not start on $1: see its message above" >&2
            exit 1
        fi
        sleep 0.1
    done
}

need_build curl
must_be_free "$listen" "EINMAL_LISTEN=127.0.0.1:PORT"
[ -n "$upstream" ] || must_be_free "$api" "LEGACY_API_PORT=PORT"
mkdir -p build
echo "building (the log is build/release.log)"
configure_and_build release build/release.log einmal legacy-api

if [ -z "$upstream" ]; then
    setsid build/release/legacy-api "${api%:*}" "${api#*:}" &
    api_pid=$!
    wait_for "$api" "$api_pid" "the demo API"
    upstream=http://$api
fi
setsid build/release/einmal run --upstream "$upstream" --listen "$listen" --data "$data" &
einmal_pid=$!
wait_for "$listen" "$einmal_pid" "einmal"

echo
echo "einmal listens on http://$listen in front of $upstream; Ctrl-C ends it."
if [ -n "$api_pid" ]; then
    order="order-$(date +%s)" # so that a second run with the same data does not begin with a replay
    cat <<TEXT
Try in another terminal; the lines that appear below then are the access log.

  # twice: one charge, one answer
  curl -i http://$listen/orders -H 'Idempotency-Key: $order' -d '{"item":"book"}'
  # how often the API charged
  curl http://$listen/effects
  # 422: the key stands for the book
  curl -i http://$listen/orders -H 'Idempotency-Key: $order' -d '{"item":"car"}'

TEXT
else
    echo "Send each POST and PATCH with an Idempotency-Key of its own, and repeat it as often as you like."
fi
wait "$einmal_pid"
