#!/bin/sh
# build_presets.sh LOGS PRESET… - builds one preset after the other. LOGS/PRESET.built appears when one is done, with its
# exit status; what to show of a failure is in LOGS/build-PRESET.out.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/support/packages.sh

logs=$1
shift
for preset in "$@"; do
    targets=
    [ "$preset" = release ] && targets=einmal # its tests run in the other presets, and would each be optimised as a whole
    # shellcheck disable=SC2086 # one word or none
    configure_and_build "$preset" "$logs/build-$preset.log" $targets >"$logs/build-$preset.out" 2>&1
    echo $? >"$logs/$preset.tmp"
    mv "$logs/$preset.tmp" "$logs/$preset.built" # so that it is never seen half written
done
