#!/bin/sh
# Sets everything up on a Debian machine and runs all tests. The last line is `N passed, N failed`; each skip is a line before it.
#
#     sh tests/run.sh          under eight minutes on two cores: this is what CI runs
#     sh tests/run.sh --all    longer loops: 2 000 kills, 30 s for each fuzz target, everything end to end under ASan, the benchmark once
#
# While tests wait for sockets and disks the next preset is built behind them: the order below is chosen for that.
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/support/packages.sh

all=no
case "${1:-}" in
--all) all=yes ;;
"") ;;
*)
    echo "usage: sh tests/run.sh [--all]" >&2
    exit 2
    ;;
esac

need_build
need libcriterion-dev python3-minimal libpython3-stdlib procps
want clang clang-format libclang-rt-dev strace lmdb-utils

logs=build/logs
rm -rf "$logs"
mkdir -p "$logs"
passed=0
failed=0
: >"$logs/skipped"

# count PART PASSED FAILED
count() {
    passed=$((passed + $2))
    failed=$((failed + $3))
    printf '  %-34s %5s passed, %s failed\n' "$1" "$2" "$3"
}

skip() {
    echo "skipped: $1" >>"$logs/skipped"
}

# counted PART COMMAND…: a command whose last line is `N passed, N failed`; its output is shown when something failed.
counted() {
    part=$1
    log="$logs/$(echo "$part" | tr -c 'a-z0-9\n' '-').log"
    shift
    "$@" >"$log" 2>&1
    status=$?
    grep '^skipped: ' "$log" >>"$logs/skipped"
    numbers=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -1 | tr -cd '0-9 ')
    p=$(echo "$numbers" | awk '{print $1}')
    f=$(echo "$numbers" | awk '{print $2}')
    if [ -z "$numbers" ] || { [ $status -ne 0 ] && [ "$f" = 0 ]; }; then
        p=${p:-0}
        f=$((${f:-0} + 1))
        echo "(exit status $status)" >>"$log"
    fi
    [ "$f" = 0 ] || sed 's/^/    /' "$log" | tail -150
    count "$part" "$p" "$f"
}

# criterion PART DIRECTORY: every criterion binary there; the numbers are in their closing lines.
criterion() {
    part=$1
    p=0
    f=0
    for binary in "$2"/tests/test_*; do
        [ -x "$binary" ] || continue
        log="$logs/$part-$(basename "$binary").log"
        "$binary" --timeout 60 --color=never -j2 >"$log" 2>&1
        status=$?
        line=$(grep 'Synthesis: Tested:' "$log" | tail -1 | tr -cd '0-9 ')
        ok=$(echo "$line" | awk '{print $2 + 0}')
        bad=$(echo "$line" | awk '{print $3 + 0}')
        if [ "$ok" = 0 ] && [ "$bad" = 0 ]; then
            bad=1 # ran nothing: that is a failure of the test, not a success
        elif [ $status -ne 0 ] && [ "$bad" = 0 ]; then
            bad=1
        fi
        [ "$bad" = 0 ] || sed 's/^/    /' "$log" | tail -40
        p=$((p + ok))
        f=$((f + bad))
    done
    count "$part" "$p" "$f"
}

# A sanitizer's reports of child processes are files: each is a failure.
no_reports() {
    reports=$(find "$2" -type f -size +0 2>/dev/null)
    for report in $reports; do
        sed 's/^/    /' "$report" | head -60
    done
    count "$1: no reports" "$([ -z "$reports" ] && echo 1 || echo 0)" "$(echo "$reports" | grep -c .)"
}

# programs PART DIRECTORY: plain programs; exit status 0 is a pass.
programs() {
    p=0
    f=0
    for binary in "$2"/tests/race_*; do
        [ -x "$binary" ] || continue
        log="$logs/$1-$(basename "$binary").log"
        if "$binary" >"$log" 2>&1; then
            p=$((p + 1))
        else
            f=$((f + 1))
            sed 's/^/    /' "$log" | tail -60
        fi
    done
    count "$1" "$p" "$f"
}

fuzz_one() { # TARGET SECONDS
    name=$(basename "$1")
    corpus=tests/fuzz/corpus/${name#fuzz_}
    work="build/fuzz/work/$name"
    mkdir -p "$work" "$corpus"
    dictionary=tests/fuzz/${name#fuzz_}.dict
    [ -f "$dictionary" ] && dictionary="-dict=$dictionary" || dictionary=
    "$1" -max_total_time="$2" -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 $dictionary -artifact_prefix="$work/crash-" \
        "$work" "$corpus" >"$logs/$name.log" 2>&1
    echo $? >"$logs/$name.status"
}

fuzz() { # SECONDS
    p=0
    f=0
    for target in build/fuzz/tests/fuzz_*; do
        [ -x "$target" ] || continue
        fuzz_one "$target" "$1"
        if [ "$(cat "$logs/$(basename "$target").status")" = 0 ]; then
            p=$((p + 1))
        else
            f=$((f + 1))
            sed 's/^/    /' "$logs/$(basename "$target").log" | tail -40
        fi
    done
    [ "$p$f" != 00 ] || skip "fuzzing: no target was built"
    count "fuzz, $1 s each" "$p" "$f"
}

# built PRESET: waits for the builds behind and says whether this one worked.
built() {
    while [ ! -f "$logs/$1.built" ]; do sleep 0.2; done
    [ "$(cat "$logs/$1.built")" = 0 ] && return 0
    cat "$logs/build-$1.out"
    count "build $1" 0 1
    return 1
}

build_behind() {
    for preset in "$@"; do
        configure_and_build "$preset" "$logs/build-$preset.log" >"$logs/build-$preset.out" 2>&1
        echo $? >"$logs/$preset.tmp"
        mv "$logs/$preset.tmp" "$logs/$preset.built"
    done
}

e2e="python3 tests/e2e/run.py"
presets="asan tsan release"
command -v clang >/dev/null && presets="$presets fuzz"

echo "building"
if ! configure_and_build dev "$logs/build-dev.log"; then
    echo "0 passed, 1 failed"
    exit 1
fi
# shellcheck disable=SC2086 # a list of words
build_behind $presets &
builder=$!
trap 'kill $builder 2>/dev/null' INT TERM

echo "testing"
counted "house rules" sh tests/support/house_rules.sh
criterion "unit, store, proxy" build/dev
counted "end to end" $e2e --einmal build/dev/einmal --jobs 4 --set all
counted "kill at each step" python3 tests/crash/steps.py --einmal build/dev/einmal

if built asan; then
    export ASAN_OPTIONS="log_path=$PWD/$logs/asan/report:detect_stack_use_after_return=1"
    export UBSAN_OPTIONS=print_stacktrace=1
    mkdir -p "$logs/asan"
    criterion "unit, store, proxy (ASan+UBSan)" build/asan
    set_name=asan
    [ $all = yes ] && set_name=all
    counted "end to end (ASan+UBSan)" $e2e --einmal build/asan/einmal --jobs 3 --set $set_name --slow-factor 3
    no_reports "ASan+UBSan" "$logs/asan"
    unset ASAN_OPTIONS UBSAN_OPTIONS
fi
if built tsan; then
    export TSAN_OPTIONS="log_path=$PWD/$logs/tsan/report:suppressions=$PWD/tests/support/tsan.supp"
    mkdir -p "$logs/tsan"
    programs "race (TSan)" build/tsan
    counted "end to end, races (TSan)" $e2e --einmal build/tsan/einmal --jobs 3 --set race --slow-factor 5
    no_reports "TSan" "$logs/tsan"
    unset TSAN_OPTIONS
fi
kills=100
[ $all = yes ] && kills=2000
if built release; then
    counted "kill -9 under load" python3 tests/crash/kill_loop.py --einmal build/release/einmal --kills $kills
    [ $all = yes ] && counted "benchmark, once" sh tests/bench/run.sh --smoke
fi
if command -v clang >/dev/null; then
    seconds=5
    [ $all = yes ] && seconds=30
    built fuzz && fuzz $seconds
else
    skip "fuzzing: clang is not installed"
fi

echo
sort -u "$logs/skipped"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
