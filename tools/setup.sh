#!/usr/bin/env bash
# Makes .venv from uv.lock. torch comes apart from the lock, so that a machine without a GPU never downloads the
# CUDA build (several GB): TORCH=cpu (default) | cuda | none.
set -euo pipefail
cd "$(dirname "$0")/.."
torch_version=$(sed -n 's/^torch = \["torch==\([0-9.]*\)"\].*/\1/p' libs/worker-link/pyproject.toml)
choice=${TORCH:-cpu}
python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Phalanx needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Name another one: make setup PYTHON=python3.12")'
stamp=.venv/.phalanx-setup
wanted="$(cat uv.lock pyproject.toml libs/*/pyproject.toml services/*/pyproject.toml cli/pyproject.toml | cksum) $choice $torch_version"
if [ -x .venv/bin/phalanx ] && [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then exit 0; fi

if [ ! -x .venv/bin/python ]; then
    "$python" -m venv .venv || { echo "python3 -m venv failed. On Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }
fi
if [ ! -x .venv/bin/uv ]; then .venv/bin/python -m pip install --quiet "uv>=0.9,<1"; fi
export VIRTUAL_ENV="$PWD/.venv" UV_PYTHON_DOWNLOADS=never
echo "setup: installing the locked packages into .venv"
case "$choice" in
cuda)
    .venv/bin/uv sync --quiet --frozen --all-packages --extra torch
    ;;
cpu)
    .venv/bin/uv sync --quiet --frozen --inexact --all-packages
    if ! .venv/bin/python -c "import importlib.metadata as m, sys; sys.exit(m.version('torch').split('+')[0] != '$torch_version')" 2>/dev/null; then
        echo "setup: installing torch $torch_version, CPU build (TORCH=cuda for the CUDA build)"
        # A folder of wheels that pip is configured with comes first; else the CPU index that uv knows by name.
        links=${UV_FIND_LINKS:-$(.venv/bin/python -m pip config get :env:.find-links 2>/dev/null || .venv/bin/python -m pip config get global.find-links 2>/dev/null || true)}
        if [ -n "$links" ] && UV_FIND_LINKS="$links" .venv/bin/uv pip install --quiet --no-index --no-deps "torch==$torch_version"; then
            : # a CPU wheel lay in that folder; its dependencies come next
            .venv/bin/uv pip install --quiet filelock jinja2 networkx sympy fsspec typing-extensions setuptools
        else
            .venv/bin/uv pip install --quiet --torch-backend cpu "torch==$torch_version"
        fi
    fi
    ;;
none) .venv/bin/uv sync --quiet --frozen --inexact --all-packages ;;
*) echo "TORCH is cpu, cuda or none, not '$choice'" >&2; exit 2 ;;
esac
echo "$wanted" > "$stamp"
