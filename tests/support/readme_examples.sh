#!/bin/sh
# readme_examples.sh EINMAL - each YAML example of the README passes `einmal check` without an error or a warning, and each local link
# leads somewhere. Ends with `N passed, N failed`.
set -u
einmal=$1
root=$(dirname "$0")/../..
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

verdict() { # NAME FINDINGS
    if [ -z "$2" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf '%s:\n%s\n' "$1" "$2"
    fi
}

awk -v work="$work" '/^```yaml$/ { file = work "/example-" ++n ".yaml"; next } /^```$/ { file = "" } file { print > file }' \
    "$root/README.md"
# The files that examples name: certificates of an authority that is its own.
mkdir "$work/tls"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/tls/tls.key" -out "$work/tls/tls.crt" \
    -subj /CN=example -days 2 2>/dev/null
cp "$work/tls/tls.crt" "$work/tls/ca.crt"
cp "$work/tls/tls.crt" "$work/tls/api-ca.crt"
sed -i "s|/etc/einmal/tls/|$work/tls/|g" "$work"/example-*.yaml

examples=0
for example in "$work"/example-*.yaml; do
    [ -f "$example" ] || continue
    examples=$((examples + 1))
    findings=$("$einmal" check -c "$example" 2>&1 >/dev/null)
    [ $? = 0 ] || findings="refused: $findings"
    verdict "README.md, YAML example $examples" "$findings"
done
verdict "README.md has examples" "$([ $examples -gt 0 ] || echo none)"

for page in README.md docker/README.md docker/*/README.md tests/README.md tests/*/README.md conf/README.md store/README.md \
    proxy/README.md; do
    [ -f "$root/$page" ] || continue
    findings=$(grep -oE '\]\([^)#:]+\)' "$root/$page" | tr -d '])(' | while read -r link; do
        [ -e "$root/$(dirname "$page")/$link" ] || echo "$link leads nowhere"
    done)
    verdict "links of $page" "$findings"
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
