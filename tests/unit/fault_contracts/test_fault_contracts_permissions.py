"""Names of identities, and what no server can show; the lists are tried on one in test_bus_permissions.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fault_contracts.permissions import Holder, Role, is_identity_name, signers_of, subjects_of
from fault_contracts.registry import MESSAGES
from fault_contracts.subjects import Kind

NAMES = st.text(min_size=1, max_size=20)


@given(NAMES, NAMES, NAMES, NAMES)
def test_two_holders_have_two_names(node: str, job: str, other_node: str, other_job: str) -> None:
    one = Holder(role=Role.LAUNCHER, node=node, job=job)
    two = Holder(role=Role.LAUNCHER, node=other_node, job=other_job)
    names = {one.name, two.name, Holder(role=Role.LAUNCHER, node=node).name, Holder(role=Role.HOST, node=node).name}
    assert len(names) == (3 if one == two else 4)
    assert all(map(is_identity_name, names))


def test_a_service_belongs_to_no_node_and_a_host_to_no_job() -> None:
    with pytest.raises(ValueError, match="no node"):
        Holder(role=Role.CLI, node="n1")
    with pytest.raises(ValueError, match="no job"):
        Holder(role=Role.HOST, node="n1", job="j")


def test_gang_commands_are_signed_by_the_planner_alone() -> None:
    commands = [spec for spec in MESSAGES if spec.kind is Kind.CMD]
    gang = {spec.name: signers_of(spec) for spec in commands if spec.context == "gang"}
    assert set(gang) == {"stop_workers", "start_workers", "end_job", "request_checkpoint"}
    assert set(gang.values()) == {(Role.RECOVERY_PLANNER,)}
    assert [signers_of(spec) for spec in commands if spec.context == "node"] == [(Role.CLI, Role.RECOVERY_PLANNER)]


def test_no_list_of_a_node_has_a_wildcard_where_its_name_stands() -> None:
    for role in (Role.HOST, Role.LAUNCHER):
        own = subjects_of(Holder(role=role, node="n1", job="j1" if role is Role.LAUNCHER else ""), "c")
        free = [s for s in (*own.publish, *own.subscribe) if s.endswith("*") or ">" in s]
        # The role of the leader and the ledger's only key: there is one of each.
        assert all(s.startswith(("phx.ask.planner.", "phx.ask.hardware.")) for s in free), free
