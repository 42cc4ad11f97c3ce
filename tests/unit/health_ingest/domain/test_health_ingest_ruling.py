"""What a policy answers when it knows nothing more."""

from fault_contracts.faults import Action, Attribution
from health_ingest.domain.ruling import Clears, Ruling, Weight


def test_a_ruling_that_says_no_more_blames_nobody_and_does_nothing() -> None:
    ruling = Ruling(
        weight=Weight.RECORD, fault_class="xid_999", clears=Clears.QUIET, rule_id="xid.unknown", sentence="unknown"
    )
    assert ruling.origin is Attribution.UNKNOWN
    assert ruling.action is Action.WAIT_OR_IGNORE
