#!/bin/sh
# Sets everything up on a Debian machine and runs all tests. The last line is `N passed, N failed`; each skip is a line before it.
#
#     sh tests/run.sh          six to seven minutes on two cores: this is what CI runs
#     sh tests/run.sh --all    longer: 2 000 kills, 30 s for each fuzz target, everything end to end under ASan, the benchmark once, the
#                              image and the Debian package built and run (as root)
#
# The order: while tests wait for sockets and disks, the next presets are built and the sources are checked behind them; in the end
# the targets are fuzzed and the kills go on behind the races. What is printed for a part that failed is its output; all of it is
# under build/logs.
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

need_build openssl libcriterion-dev python3-minimal libpython3-stdlib procps
want clang clang-format libclang-rt-dev strace lmdb-utils curl python3-requests python3-aiohttp chromium chromium-driver mandoc zsh \
    python3-yaml python3-jsonschema
if [ $all = yes ]; then
    want npm nodejs default-jdk-headless
    export EINMAL_MODEL_OPERATIONS=400000
fi

logs=$PWD/build/logs
rm -rf "$logs"
mkdir -p "$logs"
: >"$logs/skipped"
passed=0
failed=0
began=$(date +%s)

# ---- jobs: each in a session of its own, so that it ends with everything it started

sessions=

start() { # LOG COMMAND…: behind; its process id is in $job
    job_log=$1
    shift
    setsid "$@" >"$job_log" 2>&1 </dev/null &
    job=$!
    sessions="$sessions $job"
}

stop_all() {
    trap '' INT TERM HUP
    for session in $sessions; do
        for pid in $(ps -o pid= -s "$session"); do
            kill "$pid" 2>/dev/null
        done
    done
    exit 130
}
trap stop_all INT TERM HUP

# ---- counting

heading() { # TEXT
    part=$1
    part_began=$(date +%s)
    printf '== %s\n' "$part"
}

count() { # PASSED FAILED
    passed=$((passed + $1))
    failed=$((failed + $2))
    printf '   %s passed, %s failed (%s s)\n' "$1" "$2" $(($(date +%s) - part_began))
}

skip() { # WHAT: WHY
    echo "skipped: $1" >>"$logs/skipped"
}

log_name() { # TEXT
    printf '%s/%s.log' "$logs" "$(printf '%s' "$1" | tr -cs 'A-Za-z0-9' '-')"
}

# The end of a command whose last line is `N passed, N failed`. Dying without that line, or with an exit status that contradicts
# it, is a failure.
collect() { # JOB LOG
    wait "$1"
    status=$?
    grep '^skipped: ' "$2" >>"$logs/skipped"
    numbers=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$2" | tail -1)
    p=${numbers%% *}
    f=$(echo "$numbers" | awk '{ print $3 }')
    if [ -z "$numbers" ] || { [ $status -ne 0 ] && [ "$f" = 0 ]; }; then
        p=${p:-0}
        f=$((${f:-0} + 1))
        echo "(exit status $status)" >>"$2"
    fi
    [ "$f" = 0 ] || grep -vxE '[0-9]+ passed, [0-9]+ failed' "$2" | tail -200 | sed 's/^/   /'
    count "$p" "$f"
}

counted() { # PART COMMAND…
    heading "$1"
    log=$(log_name "$1")
    shift
    start "$log" "$@"
    collect "$job" "$log"
}

# ---- parts

criterion() { # PART BUILD
    counted "$1" sh tests/support/criterion.sh "$2" "$logs/$(basename "$2")-unit"
}

programs() { # PART DIRECTORY: plain programs; exit status 0 is a pass
    heading "$1"
    p=0
    f=0
    for binary in "$2"/tests/race_*; do
        [ -x "$binary" ] || continue
        log=$(log_name "$1 $(basename "$binary")")
        start "$log" "$binary"
        if wait "$job"; then
            p=$((p + 1))
        else
            f=$((f + 1))
            tail -100 "$log" | sed 's/^/   /'
        fi
    done
    [ $((p + f)) -gt 0 ] || skip "$1: no program was built"
    count $p $f
}

# Processes that the tests start write their reports to files: each of them is a failure, whoever overlooked it.
no_reports() { # PART DIRECTORY
    heading "$1"
    p=1
    f=0
    for report in $(find "$2" -type f -size +0); do
        p=0
        f=$((f + 1))
        head -60 "$report" | sed 's/^/   /'
    done
    count $p $f
}

built() { # PRESET: waits for it; false: it could not be built
    while [ ! -f "$logs/$1.built" ]; do
        kill -0 "$builder" 2>/dev/null || [ -f "$logs/$1.built" ] || echo 1 >"$logs/$1.built"
        sleep 0.2
    done
    [ "$(cat "$logs/$1.built")" = 0 ] && return 0
    heading "build of preset $1"
    sed 's/^/   /' "$logs/build-$1.out"
    count 0 1
    return 1
}

have_clang=no
command -v clang >/dev/null && have_clang=yes
presets="asan release tsan"
[ $have_clang = yes ] && presets="asan release fuzz tsan"

start "$logs/promtool.log" sh tests/support/promtool.sh
promtool_job=$job

heading "build of preset dev"
if ! configure_and_build dev "$logs/build-dev.log"; then
    echo "0 passed, 1 failed"
    exit 1
fi
echo "   done ($(($(date +%s) - part_began)) s)"
# shellcheck disable=SC2086 # a list of words
start "$logs/builder.log" nice -n 5 sh tests/support/build_presets.sh "$logs" $presets
builder=$job

# Real clients from npm, for the end-to-end tests; without them those tests say that they are skipped.
export EINMAL_CLIENTS="$PWD/build/clients"
if command -v npm >/dev/null; then
    sh tests/e2e/clients/install.sh "$EINMAL_CLIENTS" >"$logs/clients.log" 2>&1 || skip "npm packages of the client tests: see clients.log"
fi

wait "$promtool_job" || skip "promtool: $(tail -1 "$logs/promtool.log")"
run_py=tests/e2e/run.py
rules_log=$(log_name "house rules")
start "$rules_log" nice -n 5 sh tests/support/house_rules.sh
rules_job=$job
criterion "unit and store tests" build/dev
counted "end to end" python3 $run_py --einmal build/dev/einmal --jobs 8 --set all
heading "house rules: includes, sizes, format"
collect "$rules_job" "$rules_log"
counted "the same verdicts with llhttp 9" sh tests/support/other_llhttp.sh
counted "examples of the README" sh tests/support/readme_examples.sh build/dev/einmal
counted "the schema for editors" python3 tests/support/editor_schema.py build/dev

if built asan; then
    mkdir "$logs/asan"
    export ASAN_OPTIONS="log_path=$logs/asan/report:detect_stack_use_after_return=1"
    export UBSAN_OPTIONS="log_path=$logs/asan/report:print_stacktrace=1"
    criterion "unit and store tests, ASan+UBSan" build/asan
    set_name=asan
    [ $all = yes ] && set_name=all
    counted "end to end, ASan+UBSan" python3 $run_py --einmal build/asan/einmal --jobs 8 --set $set_name --slow-factor 3
    unset ASAN_OPTIONS UBSAN_OPTIONS
    no_reports "no report of ASan or UBSan" "$logs/asan"
fi

fuzz_job=
fuzz_log=$(log_name fuzz)
fuzz_seconds=5
[ $all = yes ] && fuzz_seconds=30
if [ $have_clang = no ]; then
    skip "fuzzing: clang is not installed"
elif built fuzz; then
    start "$fuzz_log" nice -n 10 sh tests/fuzz/run.sh "$PWD/build/fuzz" $fuzz_seconds "$logs"
    fuzz_job=$job
fi

kill_job=
kill_log=$(log_name kills)
kills=100 losses=20
[ $all = yes ] && kills=2000 losses=300
if built release; then
    start "$kill_log" python3 tests/crash/kill_loop.py --einmal build/release/einmal --kills $kills
    kill_job=$job
fi
if built tsan; then
    mkdir "$logs/tsan"
    export TSAN_OPTIONS="log_path=$logs/tsan/report:suppressions=$PWD/tests/support/tsan.supp"
    programs "race programs, TSan" build/tsan
    counted "end to end, TSan" python3 $run_py --einmal build/tsan/einmal --jobs 4 --set race --slow-factor 5
    unset TSAN_OPTIONS
    no_reports "no report of TSan" "$logs/tsan"
fi
if [ -n "$kill_job" ]; then
    heading "kill -9 under load, $kills times"
    collect "$kill_job" "$kill_log"
    counted "power lost under load, $losses times" python3 tests/crash/power_loss.py --einmal build/release/einmal --kills $losses
fi
if [ -n "$fuzz_job" ]; then
    heading "fuzzing, $fuzz_seconds s a target"
    collect "$fuzz_job" "$fuzz_log"
fi
if [ $all = yes ] && [ -f build/release/einmal ]; then
    heading "benchmark, once"
    start "$(log_name benchmark)" sh tests/bench/run.sh --smoke
    if wait "$job"; then
        count 1 0
    else
        tail -60 "$(log_name benchmark)" | sed 's/^/   /'
        count 0 1
    fi
fi
if [ $all = yes ]; then
    counted "the image, built and run" sh tests/image/run.sh
    counted "the Debian package on a bare system" sh tests/package/run.sh --package
fi

echo
echo "took $(($(date +%s) - began)) s"
sort -u "$logs/skipped"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
