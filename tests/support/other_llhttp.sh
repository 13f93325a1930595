#!/bin/sh
# Compares our verdicts with the llhttp that Node.js carries, where there is one. Ends with `N passed, N failed`.
cd "$(dirname "$0")" || exit 1
if command -v node >/dev/null; then
    exec node --no-deprecation other_llhttp.js
fi
echo "skipped: verdicts with llhttp 9: there is no Node.js to ask"
echo "0 passed, 0 failed"
