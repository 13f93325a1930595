#!/bin/sh
# criterion.sh BUILD LOGS - runs every criterion binary of the build directory, several at once, because most of them wait most of the
# time. Each leaves LOGS/NAME.log and LOGS/NAME.status. One that runs nothing, or dies on its way out, is a failure. Ends with
# `N passed, N failed`.
set -u
build=$1
logs=$2
at_once=3
passed=0
failed=0
mkdir -p "$logs"

# The large ones first, so that none is left to run alone at the end.
# shellcheck disable=SC2016 # for the inner shell
ls -S "$build"/tests/test_* | xargs -P "$at_once" -I '{}' sh -c '
    log=$1/$(basename "$2")
    "$2" --timeout 60 --color=never -j2 >"$log.log" 2>&1
    echo $? >"$log.status"' sh "$logs" '{}'

for binary in "$build"/tests/test_*; do
    name=$(basename "$binary")
    log=$logs/$name.log
    status=$(cat "$logs/$name.status" 2>/dev/null || echo none)
    numbers=$(grep 'Synthesis: Tested:' "$log" 2>/dev/null | tail -1 | tr -cd '0-9 ')
    tested=$(echo "$numbers" | awk '{ print $1 + 0 }')
    ok=$(echo "$numbers" | awk '{ print $2 + 0 }')
    bad=$((tested - ok))
    [ $bad = 0 ] && { [ "$tested" = 0 ] || [ "$status" != 0 ]; } && bad=1
    if [ $bad != 0 ]; then
        echo "$name (exit status $status, $tested tests):"
        grep -v 'Skipped' "$log" | tail -60
    fi
    passed=$((passed + ok))
    failed=$((failed + bad))
done
[ $((passed + failed)) -gt 0 ] || failed=1 # nothing was built
echo "$passed passed, $failed failed"
[ $failed = 0 ]
