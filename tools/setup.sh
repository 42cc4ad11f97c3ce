#!/usr/bin/env bash
# Makes .venv from uv.lock. torch comes apart from the lock, so that a machine without a GPU never downloads the
# CUDA build (several GB): TORCH=cpu (default) | cuda | none. The choice is kept until another one is named.
set -euo pipefail
cd "$(dirname "$0")/.."
stamp=.venv/.phalanx-setup

fail() {
    printf 'setup: %s\n' "$@" >&2
    exit 1
}

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    if [ -n "${PYTHON:-}" ]; then
        new_enough "$PYTHON" || fail "PYTHON=$PYTHON is not a Python 3.11 or newer"
        echo "$PYTHON"
        return
    fi
    local candidate
    for candidate in python3 python3.13 python3.12 python3.11; do
        if new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    fail "Phalanx needs Python 3.11 or newer; python3 here is $(python3 -V 2>&1 || true)" \
        "On Debian or Ubuntu: apt-get install python3.11 python3.11-venv; or name one: make setup PYTHON=/path/to/python3"
}

make_venv() {
    local python
    python=$(find_python)
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "$python cannot make virtual environments: its venv module is not installed" \
            "On Debian or Ubuntu: apt-get install python3-venv; then run the same command again"
    rm -rf .venv
    "$python" -m venv .venv
}

torch_version=$(sed -n 's/^torch = \["torch==\([0-9.]*\)"\].*/\1/p' libs/worker-link/pyproject.toml)
choice=${TORCH:-$(sed -n 's/^torch=//p' "$stamp" 2>/dev/null || true)}
choice=${choice:-cpu}
case "$choice" in cpu | cuda | none) ;; *) fail "TORCH is cpu, cuda or none, not '$choice'" ;; esac
sum=$(cat uv.lock pyproject.toml libs/*/pyproject.toml services/*/pyproject.toml cli/pyproject.toml tools/setup.sh | cksum)
wanted=$(printf 'torch=%s\nversion=%s\nsum=%s' "$choice" "$torch_version" "$sum")
if [ -x .venv/bin/phalanx ] && [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then exit 0; fi

# A .venv without uv and without pip is what an interrupted or failed attempt left behind.
if [ ! -x .venv/bin/uv ] && ! .venv/bin/python -m pip --version > /dev/null 2>&1; then make_venv; fi
if [ ! -x .venv/bin/uv ]; then .venv/bin/python -m pip install --quiet --disable-pip-version-check "uv>=0.9,<1"; fi
export VIRTUAL_ENV="$PWD/.venv" UV_PYTHON_DOWNLOADS=never
uv=.venv/bin/uv

install_torch_cpu() {
    if .venv/bin/python -c "import importlib.metadata as m, sys; sys.exit(m.version('torch').split('+')[0] != '$torch_version')" 2> /dev/null; then return; fi
    echo "setup: installing torch $torch_version, CPU build (GPUs: make setup TORCH=cuda)"
    # What torch needs besides the CUDA packages, in the locked versions.
    local needs
    needs=$(mktemp)
    "$uv" export --quiet --frozen --no-hashes --no-annotate --no-header --package worker-link --extra torch |
        grep -E '^[a-z]' | grep -Ev '^(torch|triton|nvidia-|cuda-)' > "$needs"
    # A folder of wheels that pip is configured with comes first; else the CPU index that uv knows by name.
    local links
    links=${UV_FIND_LINKS:-$(.venv/bin/python -m pip config get :env:.find-links 2> /dev/null || .venv/bin/python -m pip config get global.find-links 2> /dev/null || true)}
    if [ -n "$links" ] && UV_FIND_LINKS="$links" "$uv" pip install --quiet --no-index --no-deps "torch==$torch_version" 2> /dev/null; then
        :
    else
        "$uv" pip install --quiet --no-deps --torch-backend cpu "torch==$torch_version" ||
            fail "the CPU build of torch $torch_version could not be installed (the reason stands above)" \
                "Without torch: make setup TORCH=none. With a folder of wheels: UV_FIND_LINKS=/that/folder make setup"
    fi
    "$uv" pip install --quiet --requirement "$needs"
    rm -f "$needs"
}

echo "setup: installing the locked packages into .venv"
case "$choice" in
cuda) "$uv" sync --quiet --frozen --all-packages --extra demo --extra kube --extra torch ;;
cpu)
    "$uv" sync --quiet --frozen --inexact --all-packages --extra demo --extra kube
    install_torch_cpu
    ;;
none) "$uv" sync --quiet --frozen --inexact --all-packages --extra demo --extra kube ;;
esac
printf '%s\n' "$wanted" > "$stamp"
