"""A node's record comes back as it was written, with what it owes; older and damaged ones are told apart."""

import json
from datetime import UTC, datetime

import pytest

from fault_contracts.faults import Action
from fault_contracts.payload import Reason
from fault_contracts.remediation import BreakerState, NodePhase, NodeTended, Rung
from recovery_planner.adapters.life_codec import decode_breaker, decode_life, encode_breaker, encode_life
from recovery_planner.domain.breaker import Breaker
from recovery_planner.domain.gang import Effect
from recovery_planner.domain.node_life import Blame, NodeLife, Operation, Wanted
from service_kit.errors import ContractViolation

REASON = Reason(rule_id="ladder.begin", sentence="n1 is empty", evidence_ids=("fault-1",))

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
LIFE = NodeLife(
    node_id="n1",
    phase=NodePhase.REMEDIATING,
    since=NOW,
    reason=REASON,
    story=2,
    blame=Blame(
        evidence_id="fault-1", action=Action.RESET_GPU, cause="gpu_memory", sentence="it failed", gpu_uuid="GPU-1"
    ),
    rung=Rung.RESET_GPU,
    operation=Operation(operation_id="op-1", action="reset_gpu", tries=1, ordered_at=NOW),
    wanted=Wanted(request_id="r", requests=1, since=NOW, ask_at=NOW, came="n9"),
    listed=("id:GPU-1",),
    pending=(
        Effect(
            seq=3,
            payload=NodeTended(
                node_id="n1",
                before=NodePhase.DRAINING,
                phase=NodePhase.REMEDIATING,
                reason=REASON,
                tended_at=NOW,
            ),
            cause_id="m-1",
        ),
    ),
)


def test_a_record_comes_back_as_it_was() -> None:
    assert decode_life(encode_life(LIFE)) == LIFE


def test_a_record_of_an_older_planner_has_the_defaults() -> None:
    record = json.loads(encode_life(LIFE))
    for name in ("listed", "vouched", "wanted", "withheld"):
        del record["life"][name]
    assert decode_life(json.dumps(record).encode()).listed == ()


@pytest.mark.parametrize("raw", [b"{", b"{}", b'{"v":2}', b'{"v":1,"life":{},"pending":[]}', b'{"v":1,"life":7}'])
def test_what_is_no_record_is_refused(raw: bytes) -> None:
    with pytest.raises(ContractViolation):
        decode_life(raw)


def test_the_breaker_comes_back_as_it_was() -> None:
    breaker = Breaker(state=BreakerState.HALF_OPEN, since=NOW, trial="n1", takes=(NOW,), reason=REASON)
    assert decode_breaker(encode_breaker(breaker)) == breaker
    with pytest.raises(ContractViolation):
        decode_breaker(b'{"v":1}')
