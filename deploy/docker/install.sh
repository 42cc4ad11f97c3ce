#!/bin/sh
# Installs one service (or the demo's trainer) from the lock into /opt/phalanx. Runs in the build stage only.
#
# The lock's hashes are checked, whether a wheel comes from an index or from /wheels. torch alone is apart from the lock
# (docs/adr/0011-torch-outside-the-lock.md): its CPU build, so that nobody downloads CUDA to look at a demo.
set -eu
service=$1
case "$service" in
health-ingest | fault-classifier | recovery-planner) package=$service start=phalanx-$service extras= ;;
# A node's image has the whole command: the host role, the launcher, and what an operator types.
node-agent) package=phalanx-cli start= extras= ;;
trainer) package=phalanx-cli start= extras="--extra demo" ;;
*)
    echo "install: SERVICE is health-ingest, fault-classifier, recovery-planner or node-agent, not '$service'" >&2
    exit 2
    ;;
esac
if [ -d "services/$package" ] && grep -q '^kube = ' "services/$package/pyproject.toml"; then extras="$extras --extra kube"; fi

export VIRTUAL_ENV=/opt/phalanx
uv=/opt/uv/bin/uv
if ls /wheels/*.whl > /dev/null 2>&1; then export UV_NO_INDEX=1 UV_FIND_LINKS=/wheels UV_OFFLINE=1; fi
rm -rf "$VIRTUAL_ENV"
python3 -m venv --without-pip "$VIRTUAL_ENV"

# shellcheck disable=SC2086 # extras are words
"$uv" export --quiet --frozen --no-dev --no-annotate --no-header --no-emit-workspace --package "$package" $extras > /tmp/requirements.txt
"$uv" pip install --quiet --no-deps --only-binary :all: --require-hashes --requirement /tmp/requirements.txt

# The members of the workspace that this one needs, built here with the hatchling beside uv.
"$uv" export --quiet --frozen --no-dev --no-annotate --no-header --no-hashes --no-editable --package "$package" $extras |
    sed -n 's/^\.\(\/[^ ]*\).*/.\1/p' > /tmp/members.txt
PATH=/opt/uv/bin:$PATH /opt/uv/bin/python -c '
import pathlib, subprocess, sys
for member in pathlib.Path("/tmp/members.txt").read_text().split():
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "/tmp/members"], cwd=member, check=True, stdout=subprocess.DEVNULL)
'
"$uv" pip install --quiet --no-deps /tmp/members/*.whl

if [ "$service" = trainer ]; then
    torch=$(sed -n 's/^torch = \["torch==\([0-9.]*\)"\].*/\1/p' libs/worker-link/pyproject.toml)
    "$uv" export --quiet --frozen --no-dev --no-annotate --no-header --no-emit-workspace --package worker-link --extra torch \
        > /tmp/torch.txt
    # What torch needs besides CUDA, with its hashes, and numpy for the demo's weights.
    awk '/^[a-z]/ { wanted = ($0 !~ /^(torch|triton|nvidia-|cuda-)/) } wanted' /tmp/torch.txt > /tmp/torch-needs.txt
    "$uv" export --quiet --frozen --no-annotate --no-header --only-group dev |
        awk '/^[a-z]/ { wanted = /^numpy==/ } wanted' >> /tmp/torch-needs.txt
    "$uv" pip install --quiet --no-deps --only-binary :all: --require-hashes --requirement /tmp/torch-needs.txt
    if [ -n "${UV_NO_INDEX:-}" ]; then
        "$uv" pip install --quiet --no-deps "torch==$torch"
    else
        "$uv" pip install --quiet --no-deps --torch-backend cpu "torch==$torch"
    fi
fi

if [ -n "$start" ]; then
    ln -s "$start" "$VIRTUAL_ENV/bin/phalanx-start"
else
    printf '#!/bin/sh\nexec phalanx host "$@"\n' > "$VIRTUAL_ENV/bin/phalanx-start"
    chmod 0755 "$VIRTUAL_ENV/bin/phalanx-start"
fi
# A service that cannot be imported is a failed build, not a failed start.
test -x "$VIRTUAL_ENV/bin/phalanx-start"
"$VIRTUAL_ENV/bin/python" -c "import importlib.metadata as m; print('installed', *sorted(f'{d.name} {d.version}' for d in m.distributions()), sep='\n  ')"
