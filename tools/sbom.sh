#!/usr/bin/env bash
# A bill of materials for each image's Python packages: CycloneDX JSON in .sbom, written by cyclonedx-py (OWASP's tool).
#
# Made from an environment installed as the image's is (same lock, same hashes), so versions and licences are those that
# run. The packages of the base image are not in it: `docker scout sbom` or `syft IMAGE` reads them from the built image.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=.venv/bin/uv
out=.sbom
tool=cyclonedx-bom==7.5.0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
"$uv" tool run --quiet --from "$tool" cyclonedx-py --version > /dev/null 2>&1 || {
    echo "sbom: $tool could not be installed from the package index" >&2
    exit 1
}
for image in health-ingest fault-classifier recovery-planner node-agent; do
    package=$image
    # As deploy/docker/install.sh: a node's image has the whole command.
    if [ "$image" = node-agent ]; then package=phalanx-cli; fi
    extras=()
    if [ -d "services/$package" ] && grep -q '^kube = ' "services/$package/pyproject.toml"; then extras=(--extra kube); fi
    "$uv" venv --quiet --python .venv/bin/python "$work/$image"
    "$uv" export --quiet --frozen --no-dev --no-annotate --no-header --no-emit-workspace --package "$package" "${extras[@]}" > "$work/$image.txt"
    VIRTUAL_ENV="$work/$image" "$uv" pip install --quiet --no-deps --require-hashes --requirement "$work/$image.txt"
    "$uv" tool run --quiet --from "$tool" cyclonedx-py environment --pyproject "$(dirname "$(grep -l "^name = \"$package\"$" cli/pyproject.toml services/*/pyproject.toml)")/pyproject.toml" \
        --mc-type application --output-reproducible --of JSON --output-file "$out/$image.cdx.json" "$work/$image"
    echo "sbom: $out/$image.cdx.json: $(.venv/bin/python -c 'import json, sys; print(len(json.load(open(sys.argv[1]))["components"]))' "$out/$image.cdx.json") packages"
done
