#!/usr/bin/env bash
# Images without a registry and without an index, for air-gapped sites and for machines on which no image can be pulled.
#
#   tools/images_offline.sh wheels      where an index can be reached: fills deploy/docker/wheels from uv.lock
#   tools/images_offline.sh stand-ins   on Debian, as root: images from debootstrap, apt and wheels under the upstream names
#   tools/images_offline.sh clean       removes the wheels
#
# A site with a registry of its own needs `wheels` only, and names its base image with PYTHON_IMAGE.
# Stand-ins are for trying: they are Debian, not what the upstream publishes. docs/images.md says what was tried with them.
set -euo pipefail
cd "$(dirname "$0")/.."
wheels=deploy/docker/wheels
docker=${DOCKER:-docker}

version_of() { sed -n "s/^ARG $1=//p" deploy/docker/Dockerfile; }
image_of() { sed -n "s|^ *image: *\($1[^ ]*\)$|\1|p" docker-compose.yml | sort -u | head -1; }

collect_wheels() {
    local uv=.venv/bin/uv python=.venv/bin/python torch requirements
    requirements=$(mktemp)
    torch=$(sed -n 's/^torch = \["torch==\([0-9.]*\)"\].*/\1/p' libs/worker-link/pyproject.toml)
    # All members and extras: one folder serves every image.
    {
        "$uv" export --quiet --frozen --no-dev --no-annotate --no-header --no-emit-workspace --all-packages --all-extras |
            awk '/^[a-z]/ { wanted = ($0 !~ /^(torch|triton|nvidia-[a-ln-z]|cuda-)/) } wanted'
        "$uv" export --quiet --frozen --no-annotate --no-header --only-group dev | awk '/^[a-z]/ { wanted = /^numpy==/ } wanted'
    } |
        # The image's Python 3.11 may be an older patch release than ours, and then need what ours does not.
        sed "s/ ; python_full_version < '[0-9.]*'//" > "$requirements"
    "$python" -m pip download --quiet --no-deps --only-binary :all: --require-hashes --dest "$wheels" --requirement "$requirements"
    "$python" -m pip download --quiet --only-binary :all: --dest "$wheels" \
        "uv==$(version_of UV_VERSION)" "hatchling==$(version_of HATCHLING_VERSION)"
    # The CPU build: from a folder of wheels that pip knows, else from the CPU index of torch (--torch-backend of uv has no download).
    "$python" -m pip download --quiet --no-deps --only-binary :all: --dest "$wheels" "torch==$torch+cpu" ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} ||
        echo "images_offline: no CPU build of torch $torch here: set TORCH_INDEX to torch's CPU index; without it the demo's trainer cannot be built" >&2
    rm -f "$requirements"
    echo "images_offline: $(find "$wheels" -name '*.whl' | wc -l) wheels, $(du -sh "$wheels" | cut -f1), in $wheels"
}

# debootstrap's Python 3.11 is where the official image has it, too.
import_python() {
    local root=$1
    debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates bookworm "$root" > "$root.log"
    rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
    ln -sf /usr/bin/python3 "$root/usr/local/bin/python3"
    tar -C "$root" -c . | "$docker" import - "$(version_of PYTHON_IMAGE)" > /dev/null
}

# A server's binary and what its health check calls, on the same Debian, so that nothing else has to be fetched.
import_server() {
    local name=$1 root=$2
    tar -C "$root" -c . | "$docker" import --change "ENTRYPOINT $3" --change "CMD $4" - "$name" > /dev/null
}

build_stand_ins() {
    local work
    [ "$(id -u)" = 0 ] || { echo "images_offline: debootstrap needs root" >&2; exit 1; }
    for tool in debootstrap "$docker"; do
        command -v "$tool" > /dev/null || { echo "images_offline: $tool is missing (apt-get install debootstrap docker.io)" >&2; exit 1; }
    done
    work=$(mktemp -d -p "${TMPDIR:-/var/tmp}")
    trap 'rm -rf "$work"' RETURN
    import_python "$work/python"
    # busybox brings the wget of the alpine images' health checks; valkey speaks to redis-cli.
    debootstrap --variant=minbase --include=busybox,redis-tools bookworm "$work/server" > "$work/server.log"
    ln -sf /bin/busybox "$work/server/usr/bin/wget"
    ln -sf redis-cli "$work/server/usr/bin/valkey-cli"
    install -m 0755 "$(.venv/bin/python -c 'from phalanx_cli.stack.nats_server import nats_server_binary as f; print(f())')" "$work/server/usr/local/bin/nats-server"
    install -m 0755 "$(.venv/bin/python -c 'from phalanx_cli.stack.valkey_server import valkey_server_binary as f; print(f())')" "$work/server/usr/local/bin/valkey-server"
    import_server "$(image_of nats:)" "$work/server" '["nats-server"]' '[]'
    import_server "$(image_of valkey/valkey:)" "$work/server" '[]' '["valkey-server"]'
    echo "images_offline: stand-ins for $(version_of PYTHON_IMAGE), $(image_of nats:) and $(image_of valkey/valkey:)"
}

case "${1:-}" in
wheels) collect_wheels ;;
stand-ins) build_stand_ins ;;
clean) rm -f "$wheels"/*.whl ;;
*)
    sed -n '2,10s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
