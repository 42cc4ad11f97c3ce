"""Who belongs to the job, and who is refused."""

from planner_story import JOB, Story

from fault_contracts.agent import AgentPhase, JobSpec
from fault_contracts.checkpoints import CheckpointRef
from fault_contracts.commands import StartWorkers, StopWorkers
from fault_contracts.recovery import GangFormed
from recovery_planner.domain.gang import Phase
from recovery_planner.domain.member import FORMER_INSTANCES_MAX, Standing
from recovery_planner.domain.membership import AgentLost, misfit
from recovery_planner.domain.policy import Policy


def test_gang_forms_with_the_last_agent_and_later_ones_are_spares() -> None:
    story = Story()
    story.report("a")
    assert story.gang.phase is Phase.FORMING
    story.report("b")
    start = story.last(StartWorkers)
    assert (start.fence.topology_version, start.base_version, start.world_size) == (1, 0, 4)
    assert (start.fence.attempt, start.fence.incident_id) == (0, "")
    assert start.checkpoint is None
    story.report("c")
    assert story.seats() == ["a", "b"]
    assert story.last(GangFormed).nodes == ("a", "b")
    assert list(story.gang.members) == ["a", "b", "c"]


def test_agent_with_another_command_line_is_refused_with_the_difference() -> None:
    story = Story()
    story.report("a")
    story.report("odd", spec=JobSpec(nnodes=2, nproc_per_node=8))
    assert "odd" not in story.gang.members
    assert story.gang.refused["odd"] == "nproc_per_node is 8, the job has 2"
    assert misfit(story.gang, story.spec) == ""
    story.report("b")
    assert story.seats() == ["a", "b"]


def test_too_many_agents_are_refused() -> None:
    story = Story(policy=Policy(members_max=2))
    for node in ("a", "b", "c"):
        story.report(node)
    assert "c" not in story.gang.members
    assert "admission.full" in story.rules


def test_agent_that_leaves_before_the_gang_forms_is_not_counted() -> None:
    story = Story()
    story.report("a")
    story.report("b", spec=JobSpec(nnodes=2, nproc_per_node=1))
    story.report("c", phase=AgentPhase.SHUTDOWN)
    assert story.gang.phase is Phase.FORMING, "one that shuts down is no node"


def test_lost_before_the_gang_forms() -> None:
    story = Story(nnodes=3)
    for node in ("a", "b"):
        story.report(node)
    story.lose("a")
    story.report("c")
    assert story.gang.phase is Phase.FORMING
    story.report("d")
    assert story.seats() == ["b", "c", "d"]


def test_report_that_overtook_a_newer_one_changes_nothing() -> None:
    story = Story().run("a", "b")
    old = story.reported("a")
    story.wait(1)
    story.ports["a"] = 30_000
    story.report("a", phase=AgentPhase.RUNNING)
    story.feed(old)
    assert story.gang.members["a"].master_port == 30_000


def test_phase_alone_is_not_worth_a_write() -> None:
    story = Story().run("a", "b")
    story.wait(1)
    assert not story.report("a", phase=AgentPhase.FAULTED).durable
    story.wait(1)
    assert story.report("a", phase=AgentPhase.RUNNING, master_port=4_242).durable


def test_loss_of_a_former_life_is_no_loss() -> None:
    story = Story().run("a", "b")
    old = AgentLost(node_id="a", instance_id=story.instance("a"), rule_id="agent.absent", sentence="gone")
    story.restart_agent("a")
    story.stop_all()
    story.classify()
    story.start_all()
    story.feed(old)
    assert story.gang.phase is Phase.RUNNING
    assert story.gang.members["a"].standing is Standing.PRESENT


def test_former_lives_are_bounded() -> None:
    story = Story(nnodes=2)
    for _ in range(FORMER_INSTANCES_MAX + 5):
        story.restart_agent("a")
    assert len(story.gang.members["a"].former_instances) == FORMER_INSTANCES_MAX


def test_spare_that_restarts_is_still_a_spare() -> None:
    story = Story().run("a", "b", "s")
    story.restart_agent("s")
    assert story.gang.phase is Phase.RUNNING
    assert story.gang.job_id == JOB


def test_stray_agent_is_a_spare_again_when_it_says_that_it_is_idle() -> None:
    story = Story().run("a", "b", "s")
    story.lose("a")
    story.stop("b")
    story.classify()
    story.start_all()
    story.wait(1)
    story.report("a", phase=AgentPhase.RUNNING)
    story.beat("a", AgentPhase.STOPPING)
    story.lose("b")
    story.stop("s")
    story.classify(fault_id="fault-2")
    assert story.gang.phase is Phase.WAITING, "a still has ranks of the old generation"
    story.beat("a")
    assert story.seats() == ["s", "a"]
    assert story.last(StartWorkers).base_version == 0, "nobody knows which table it holds"


def test_agent_that_was_left_behind_and_lives_comes_back_by_its_heartbeat() -> None:
    story = Story().run("a", "b")
    story.die("a", 0)
    story.stop("a")
    story.classify()
    story.wait_for_deadline()
    assert story.gang.members["b"].standing is Standing.LOST
    story.beat("b")
    assert story.seats() == ["a", "b"]
    assert story.gang.phase is Phase.STARTING


def test_heartbeats_of_members_in_good_standing_change_nothing() -> None:
    story = Story().run("a", "b", "s")
    before = story.gang
    story.beat("a")
    story.beat("s")
    assert story.gang == before


def test_agent_that_restarts_while_the_gang_stops_gets_the_same_order_again() -> None:
    story = Story().run("a", "b")
    story.die("a", 0)
    story.stop("b")
    story.restart_agent("b")
    first, second = story.all(StopWorkers)
    assert first.operation_id == second.operation_id, "for the others it is a repeat"
    story.stop("a")
    story.classify()
    assert story.gang.phase is Phase.STOPPING, "what the life before answered is not what this one has done"
    story.stop("b")
    assert story.gang.phase is Phase.STARTING


def test_a_checkpoint_that_lay_in_the_folder_is_resumed_from_until_ranks_confirm_their_own() -> None:
    found = CheckpointRef(step=500, path="/ckpt/500")
    story = Story()
    story.feed(story.reported("a").model_copy(update={"checkpoint_found": found}))
    story.report("b")
    assert story.last(StartWorkers).checkpoint == found
    assert "plan.checkpoint_found" in story.rules
    story.start_all()
    story.recover()
    assert story.last(StartWorkers).checkpoint == found, "nobody confirmed anything since"
    story.checkpoint(510, 0)
    story.recover()
    resumed = story.last(StartWorkers).checkpoint
    assert resumed is not None
    assert resumed.step == 510


def test_only_the_node_of_rank_0_says_what_lay_in_the_folder() -> None:
    story = Story()
    story.report("a")
    story.feed(story.reported("b").model_copy(update={"checkpoint_found": CheckpointRef(step=5, path="/local/5")}))
    assert story.last(StartWorkers).checkpoint is None
