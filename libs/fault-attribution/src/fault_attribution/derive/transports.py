"""What the ranks of one job use to talk to each other, compared: plugins, transports, versions, networks.

net_plugin_differs     some ranks loaded a network plugin or another transport, and others did not (one finding)
nccl_version_differs   ranks print different versions of NCCL (one finding)
gid_networks_differ    the two ends of an RDMA connection that fails are in different networks
ports_fail_across      connections fail between different adapters of two nodes (mlx5_5 to mlx5_2): rails are crossed
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fault_attribution.derive.following import following
from fault_attribution.derive.in_order import in_order
from fault_attribution.finding import Finding

READS = frozenset(
    {"net_plugin", "net_plugin_missing", "net_used", "nccl_version", "ib_path_refused", "ib_retry_exceeded"}
)
_ADAPTER = re.compile(r"\b(?:on dev|hca) (mlx5_\d+|rdmap\w+|ib\d+|bnxt_re\d+|irdma\d+)")
_PLUGIN_NAMES = ("plugin", "library", "external", "ofi", "provider")


def transports(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Derive all of the above."""
    # A stable order: what is derived must not depend on how streams interleave.
    findings = in_order(findings)
    yield from _differ(findings, ("net_plugin", "net_plugin_missing", "net_used"), "net_plugin_differs")
    yield from _differ(findings, ("nccl_version",), "nccl_version_differs")
    yield from _paths(findings)


def _differ(findings: Sequence[Finding], kinds: tuple[str, ...], kind: str) -> Iterator[Finding]:
    words: dict[tuple[str, int | None], dict[str, Finding]] = {}
    for each in findings:
        if each.kind in kinds and (each.rank is not None or each.node):
            words.setdefault((each.node, each.rank), {})[_word(each)] = each
    said = {place: frozenset(known) for place, known in words.items()}
    # A transport and a plugin are told by different lines: places are compared only in what both of them tell of.
    for place, known in said.items():
        for other, others in said.items():
            alone, beside = known - others, others - known
            clash = [(one, two) for one in alone for two in beside if one.split(":")[0] == two.split(":")[0]]
            if clash and place != other:
                one, two = min(clash)
                base = words[place][one]
                text = f"{_at(place)} has {one.split(':')[1]}, {_at(other)} has {two.split(':')[1]}"
                yield _of(base, kind, text)
                return


def _word(finding: Finding) -> str:
    if finding.kind == "net_plugin_missing":
        return "plugin:no network plugin"
    if finding.kind == "net_used":
        return f"transport:{finding.captures.get('network', '')}"
    if finding.kind == "nccl_version":
        return f"version:NCCL {finding.captures.get('version', '')}"
    named = next((finding.captures[name] for name in _PLUGIN_NAMES if finding.captures.get(name)), "")
    return f"{'provider' if 'provider' in finding.captures else 'plugin'}:{named or 'no network plugin'}"


def _at(place: tuple[str, int | None]) -> str:
    node, rank = place
    return " on ".join([*([] if rank is None else [f"rank {rank}"]), *([node] if node else [])])


def _paths(findings: Sequence[Finding]) -> Iterator[Finding]:
    ends: dict[str, set[str]] = {}
    for each in findings:
        if each.kind not in ("ib_path_refused", "ib_retry_exceeded"):
            continue
        pair = next((one for one in findings if one.kind == "ib_gid_pair" and _line(one) == _line(each)), None)
        if pair is None:
            continue
        # An IPv4 address stands in a GID as ::ffff:10.0.0.1, with or without a space before it.
        local, remote = (pair.captures.get(end, "").rpartition(":ffff:")[2] for end in ("local", "remote"))
        if local.count(".") == 3 and remote.count(".") == 3 and local.split(".")[:3] != remote.split(".")[:3]:
            text = f"the ends of a connection that fails are in different networks: {local} and {remote}"
            yield _of(each, "gid_networks_differ", text)
        adapter = _ADAPTER.search(each.text)
        if adapter is not None:
            ends.setdefault("/".join(sorted((local, remote))), set()).add(adapter[1])
    for pair_name, adapters in sorted(ends.items()):
        if len(adapters) > 1:
            base = next(each for each in findings if each.kind in ("ib_path_refused", "ib_retry_exceeded"))
            text = f"a connection between different adapters fails: {' and '.join(sorted(adapters))} ({pair_name})"
            yield _of(base, "ports_fail_across", text)


def _line(finding: Finding) -> tuple[str, int, str]:
    return (finding.stream, finding.number, finding.text)


def _of(base: Finding, kind: str, text: str) -> Finding:
    return following(base, kind, text[:400], rule_id="derive.transports", count=1)
