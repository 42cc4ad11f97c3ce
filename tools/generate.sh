#!/usr/bin/env bash
# Writes the generated documents anew. With --check: compares, changes nothing, and fails when one is stale.
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python
documents=(docs/asyncapi.yaml docs/state-machines.md docs/causes.md docs/findings.md docs/xids.md docs/settings.md)

generate() {
    "$python" tools/write_asyncapi.py
    "$python" tools/draw_state_machines.py
    "$python" tools/write_causes.py
    "$python" tools/write_findings.py
    "$python" tools/write_xids.py
    "$python" tools/write_settings.py
}

if [ "${1:-}" != "--check" ]; then
    generate
    exit 0
fi

kept=$(mktemp -d)
restore() {
    for document in "${documents[@]}"; do
        if [ -e "$kept/${document##*/}" ]; then cp "$kept/${document##*/}" "$document"; else rm -f "$document"; fi
    done
    rm -rf "$kept"
}
trap restore EXIT
for document in "${documents[@]}"; do
    if [ -e "$document" ]; then cp "$document" "$kept/"; fi
done
generate > /dev/null
stale=0
for document in "${documents[@]}"; do
    if ! diff -u "$kept/${document##*/}" "$document" 2>&1 | head -40; then
        echo "$document is not current; run: make contracts"
        stale=1
    fi
done
exit "$stale"
