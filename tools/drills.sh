#!/usr/bin/env bash
# Runs the failure drills and prints what they measured as a table. Exit code: that of the tests.
set -uo pipefail
cd "$(dirname "$0")/.."
table=$(mktemp)
trap 'rm -f "$table"' EXIT
PHALANX_DRILL_TABLE="$table" .venv/bin/python -m pytest -q -m drill tests/chaos/test_chaos_drills.py ${1:+-k "$1"}
code=$?
.venv/bin/python tools/drill_table.py "$table"
exit $code
