#!/bin/sh
# run.sh BUILD SECONDS LOGS - runs each fuzz target of the build directory (preset fuzz) for SECONDS, beginning with the inputs in
# corpus/TARGET. What it finds worth keeping goes to BUILD/work/TARGET, never into the tree. Ends with `N passed, N failed`.
set -u
cd "$(dirname "$0")" || exit 1
build=$1
seconds=$2
logs=$3
passed=0
failed=0
for target in "$build"/tests/fuzz_*; do
    [ -x "$target" ] || continue
    name=$(basename "$target")
    work=$build/work/$name
    mkdir -p "$work"
    set -- "$work"
    [ -d "corpus/${name#fuzz_}" ] && set -- "$@" "corpus/${name#fuzz_}"
    [ -f "${name#fuzz_}.dict" ] && set -- "$@" "-dict=${name#fuzz_}.dict"
    if "$target" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 \
        -artifact_prefix="$work/found-" "$@" >"$logs/$name.log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$name:"
        tail -40 "$logs/$name.log"
    fi
done
[ $((passed + failed)) -gt 0 ] || echo "skipped: fuzzing: no target was built"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
