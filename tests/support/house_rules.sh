#!/bin/sh
# The house rules that can be checked by looking: who may include what, sizes, left-overs, format. Ends with `N passed, N failed`.
cd "$(dirname "$0")/../.." || exit 1
passed=0
failed=0

check() { # NAME FINDINGS
    if [ -z "$2" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf '%s:\n%s\n' "$1" "$2"
    fi
}

sources() {
    git ls-files "$@" 2>/dev/null || find "$@" -name '*.[ch]'
}

includes() { # PATTERN FILES…
    pattern=$1
    shift
    [ $# -gt 0 ] && grep -nE "^#[[:space:]]*include[[:space:]]*[<\"]($pattern)" "$@"
}

check "store/ includes nothing of proxy/, libevent, llhttp, OpenSSL" \
    "$(includes '(\.\./)?proxy/|event2?/|event\.h|openssl/|llhttp' store/*.[ch])"
check "proxy/ sees only store/store.h" "$(includes '(\.\./)?store/' proxy/*.[ch] proxy/admin/*.[ch] | grep -v 'store/store\.h')"
check "conf/ includes nothing of store/ and no loop" "$(includes '(\.\./)?store/|event2?/|event\.h|llhttp|lmdb' conf/*.[ch])"
check "conf/ sees nothing of proxy/ that has a socket/" "$(includes '(\.\./)?proxy/' conf/*.[ch] |
    grep -vE 'proxy/(span|ascii|buffer|json|json_text|route|key|headers|http|http_text|problem|roff)\.h')"
check "lmdb.h only in the LMDB engine" "$(includes 'lmdb\.h' store/*.[ch] proxy/*.[ch] proxy/admin/*.[ch] conf/*.[ch] | grep -v '^store/engine_lmdb')"
check "llhttp.h only in the HTTP files" "$(includes 'llhttp\.h' store/*.[ch] proxy/*.[ch] proxy/admin/*.[ch] conf/*.[ch] | grep -v '^proxy/http')"

pure="store/ledger.c store/names.c store/record.c proxy/flow.c proxy/route.c proxy/headers*.c proxy/stored_response.c proxy/problem.c
      proxy/admin/action_json.c proxy/admin/base64.c proxy/admin/endpoint.c proxy/admin/guard.c proxy/admin/query.c
      proxy/admin/refusal.c proxy/admin/resolution.c proxy/metrics_text.c proxy/cors.c proxy/admission.c proxy/explain.c
      proxy/json_walk.c proxy/roff.c proxy/table.c proxy/cgroup.c proxy/probe.c proxy/http_upgrade.c proxy/http_reason.c
      proxy/key*.c proxy/json*.c"
# shellcheck disable=SC2086 # a list of words
check "PURE files include no socket, clock or loop" "$(includes 'sys/socket|netinet|event2?/|time\.h|sys/time|pthread' $pure)"
# shellcheck disable=SC2086
check "PURE files include none by way of other headers" "$(for file in $pure; do
    gcc -std=gnu11 -D_GNU_SOURCE -I. -M "$file" 2>&1 | tr ' ' '\n' |
        grep -E 'error:|sys/socket\.h|netinet/|event2/|lmdb\.h|sys/epoll\.h' | sed "s|^|$file: |"
done)"
# shellcheck disable=SC2086
check "PURE files ask no clock and no environment" "$(grep -nE '\b(clock_gettime|gettimeofday|time|getenv|rand|random)\(' $pure)"
check "client and upstream do not know the exchange" \
    "$(includes '.*(exchange|worker|flow)' proxy/client*.[ch] proxy/upstream*.[ch])"
check "the admin side does not know the exchange" "$(includes '.*(exchange|worker|flow|server)' proxy/admin/*.[ch])"
check "no left-overs" "$(grep -nE '\b(TODO|FIXME|XXX|HACK)\b' store/*.[ch] proxy/*.[ch] proxy/admin/*.[ch] conf/*.[ch] docker/*/*.c tests/*/*.[ch])"
check "asserts are never compiled out" "$(grep -rnE 'NDEBUG' --include=CMakeLists.txt --include='*.cmake' --include='*.json' \
    CMakeLists.txt CMakePresets.json cmake store proxy conf tests | grep -v 'REPLACE\|never')"

# Tables may be longer; functions may not: a function begins at a line "{" and ends at a line "}".
check "files under 600 lines" "$(wc -l store/*.[ch] proxy/*.[ch] proxy/admin/*.[ch] conf/*.[ch] | awk '$2 != "total" && $1 > 600')"
check "functions under 60 lines" "$(awk 'FNR == 1 { start = 0 } /^\{/ { start = FNR } /^\}/ { if (start && FNR - start > 60)
    print FILENAME ":" start ": " FNR - start " lines"; start = 0 }' store/*.c proxy/*.c proxy/admin/*.c conf/*.c docker/*/*.c)"

if command -v mandoc >/dev/null; then
    check "manual pages" "$(mandoc -T lint -W warning conf/man/einmal.1 conf/man/einmal.yaml.5 2>&1)"
else
    echo "skipped: manual pages: mandoc is not installed"
fi
if command -v clang-format >/dev/null; then
    check "clang-format" "$(sources store/*.[ch] proxy/*.[ch] proxy/admin/*.[ch] conf/*.[ch] docker/*/*.c tests/*/*.[ch] | while read -r file; do
        clang-format "$file" | cmp -s - "$file" || echo "$file is not formatted: clang-format -i $file"
    done)"
else
    echo "skipped: clang-format: not installed"
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
