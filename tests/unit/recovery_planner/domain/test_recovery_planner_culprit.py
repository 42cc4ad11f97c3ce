"""Whom a verdict blames, by its action."""

import pytest

from fault_contracts.faults import Action, Attribution
from recovery_planner.domain.culprit import blamed_node
from recovery_planner.domain.incident import Verdict


@pytest.mark.parametrize("action", Action)
def test_only_what_needs_the_machine_blames_its_node(action: Action) -> None:
    verdict = Verdict(
        fault_id="f",
        topology_version=1,
        attribution=Attribution.HARDWARE,
        cause="gpu_lost",
        action=action,
        reasons=(),
        culprit_node_id="b",
    )
    costs = action in (Action.RESET_GPU, Action.REBOOT_NODE, Action.REPLACE_NODE)
    assert blamed_node(verdict) == ("b" if costs else "")
