"""What the ranks of a job use to talk to each other, compared."""

from __future__ import annotations

from fault_attribution.derive.transports import transports
from fault_attribution.finding import Finding, Role


def found(kind: str, rank: int, node: str = "n1", text: str = "", **captures: str) -> Finding:
    return Finding(
        finding_id=f"{kind}/{rank}", kind=kind, role=Role.CONTEXT, rank=rank, node=node, captures=captures, text=text,
        stream=f"r{rank}", number=1,
    )  # fmt: skip


def kinds(*findings: Finding) -> list[str]:
    return [each.kind for each in transports(findings)]


def test_a_plugin_on_one_node_only_is_told() -> None:
    rows = (found("net_plugin", 0, plugin="AWS Libfabric"), found("net_plugin_missing", 8, "n2"))
    assert kinds(*rows) == ["net_plugin_differs"]


def test_one_plugin_everywhere_and_lines_of_different_matters_are_no_difference() -> None:
    assert kinds(found("net_plugin_missing", 0), found("net_plugin_missing", 8, "n2")) == []
    assert kinds(found("net_plugin_missing", 0), found("net_used", 8, "n2", network="Socket")) == []


def test_transports_and_versions_are_compared_each_with_its_own() -> None:
    assert kinds(found("net_used", 0, network="IB"), found("net_used", 8, "n2", network="Socket")) == [
        "net_plugin_differs"
    ]
    rows = (found("nccl_version", 0, version="2.21.5"), found("nccl_version", 8, "n2", version="2.18.3"))
    assert kinds(*rows) == ["nccl_version_differs"]


def test_ends_in_different_networks_are_told() -> None:
    text = "ibv_modify_qp failed on dev mlx5_5:1, local GID x, remote GID y"
    refused = found("ib_path_refused", 5, text=text)
    pair = found("ib_gid_pair", 5, text=text, local="10.9.1.4", remote="10.9.7.5")
    near = found("ib_gid_pair", 5, text=text, local="10.9.1.4", remote="10.9.1.5")
    assert kinds(refused, pair) == ["gid_networks_differ"]
    assert kinds(refused, near) == []


def test_an_address_within_a_gid_is_read_without_its_prefix() -> None:
    text = "Got completion with status=12 localGid ::ffff:10.9.1.4 remoteGids::ffff:10.9.1.5"
    pair = found("ib_gid_pair", 5, text=text, local="10.9.1.4", remote=":ffff:10.9.1.5")
    assert kinds(found("ib_retry_exceeded", 5, text=text), pair) == []
