"""A node's standing decides whether its agent is given ranks: bad is held back, a problem is taken last."""

from faulty_story import FaultyStory

from fault_contracts.faults import Action, Attribution
from fault_contracts.policy import PolicyMode, RecoveryPolicy
from fault_contracts.recovery import RecoveryPlanned
from recovery_planner.domain.gang import Phase
from recovery_planner.domain.member import Standing


def test_a_bad_node_is_given_no_ranks_and_the_gang_forms_without_it() -> None:
    story = FaultyStory(nnodes=2)
    story.know("a", held="GPU-1 fell off the bus (Xid 79)")
    story.report("a")
    story.report("b")
    assert story.gang.phase is Phase.FORMING
    assert story.member("a").standing is Standing.CONDEMNED
    story.report("c")
    assert story.seats() == ["b", "c"]
    assert "node.held_back" in story.rules


def test_a_held_node_is_used_again_when_its_standing_is_ok() -> None:
    story = FaultyStory(nnodes=2)
    story.know("a", held="quarantined")
    story.report("a")
    story.report("b")
    story.know("a")
    assert story.gang.phase is Phase.STARTING
    assert story.seats() == ["a", "b"]


def test_a_node_that_trains_and_is_held_goes_on_until_the_next_stop() -> None:
    story = FaultyStory(nnodes=2)
    story.run("a", "b", "s")
    story.know("b", held="alice took it out")
    assert story.gang.phase is Phase.RUNNING
    assert "node.held_later" in story.rules
    story.die("a", 0)
    story.stop_all()
    story.classify()
    assert story.seats() == ["a", "s"]


def test_a_hold_that_ends_before_the_next_stop_costs_nothing() -> None:
    story = FaultyStory(nnodes=2)
    story.run("a", "b", "s")
    story.know("b", held="alice took it out")
    story.know("b")
    story.die("a", 0)
    story.stop_all()
    story.classify()
    assert story.seats() == ["a", "b"]


def test_an_open_fault_outlasts_a_standing_that_does_not_know_it_yet() -> None:
    story = FaultyStory(nnodes=2)
    story.run("a", "b", "s")
    story.device_fails("b")
    story.know("b")
    assert story.member("b").standing is Standing.CONDEMNED
    story.know("b", held="GPU-b is quarantined")
    story.device_is_well("b")
    assert story.member("b").standing is Standing.CONDEMNED, "it is still in the ledger"
    assert story.member("b").held == "GPU-b is quarantined"
    story.know("b")
    assert story.member("b").standing is Standing.PRESENT


def test_a_spare_without_a_problem_is_preferred_and_the_plan_says_so() -> None:
    story = FaultyStory(nnodes=2)
    story.run("a", "b", "s", "t")
    story.know("s", doubt="disk_space: 3 % free")
    story.lose("b")
    story.stop_all()
    story.classify()
    assert story.seats() == ["a", "t"]
    assert any("without a problem" in reason.sentence for reason in story.last(RecoveryPlanned).reasons)


def test_a_spare_with_a_problem_is_better_than_none() -> None:
    story = FaultyStory(nnodes=2)
    story.run("a", "b", "s")
    story.know("s", doubt="disk_space: 3 % free")
    story.lose("b")
    story.stop_all()
    story.classify()
    assert story.seats() == ["a", "s"]
    assert any("3 % free" in reason.sentence for reason in story.last(RecoveryPlanned).reasons)


def test_a_job_whose_other_agents_left_waits_for_a_held_node() -> None:
    story = FaultyStory(nnodes=2)
    story.know("a", held="quarantined")
    story.report("a")
    story.report("b")
    story.leave("b")
    assert story.gang.phase is Phase.FORMING
    story.leave("a")
    assert story.gang.phase is Phase.ENDED


def test_a_node_that_a_verdict_condemned_comes_back_once_it_was_repaired() -> None:
    story = FaultyStory(nnodes=2)
    story.run("a", "b", "s")
    story.die("b", 0)
    story.stop_all()
    story.classify(Action.RESET_GPU, node="b", attribution=Attribution.HARDWARE)
    assert story.seats() == ["a", "s"]
    assert story.member("b").standing is Standing.CONDEMNED
    story.know("b")
    assert story.member("b").standing is Standing.CONDEMNED, "its standing alone does not bring it back"
    story.know("b", held="remediating: reset_gpu", tended=True)
    story.know("b", doubt="on probation")
    assert story.member("b").standing is Standing.PRESENT
    assert story.member("b").doubt == "on probation"


def test_a_node_that_is_being_repaired_is_no_place_for_a_job_that_only_observes() -> None:
    story = FaultyStory(nnodes=2, recovery=RecoveryPolicy(mode=PolicyMode.OBSERVE))
    story.report("a")
    story.know("b", held="remediating: reboot_node", tended=True)
    story.report("b")
    assert story.gang.phase is Phase.FORMING
    story.know("b")
    assert story.gang.phase is Phase.STARTING


def test_a_bad_standing_costs_a_job_that_only_observes_nothing() -> None:
    story = FaultyStory(nnodes=2, recovery=RecoveryPolicy(mode=PolicyMode.OBSERVE))
    story.know("b", held="quarantined")
    story.report("a")
    story.report("b")
    assert story.gang.phase is Phase.STARTING
