"""What has to come of each injected fault: the truth that verdicts, suspects and processes are held against."""

from __future__ import annotations

from dataclasses import dataclass

from fault_contracts.faults import Attribution
from fault_contracts.remediation import Rung
from phalanx_cli.demo.scenario import LOSS_RULE, WORLD_SIZE, Act, Fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What is known of an injected fault, because we injected it.

    Attributes:
        done: the injection, for people.
        act: the job that it is injected into.
        attribution: whose fault it is; unknown where the evidence cannot tell yet.
        causes: slugs of docs/causes.md that fit.
        evidence: what a reason of the verdict has to name.
        replaced: the ranks that have to have another process afterwards, and no others.
        moved: the node has to lose its ranks to one in reserve; where it is not, every node has to keep its ranks.
        incidents: how many it takes until the job is well again.
        stepped_back: the last of them has to start from a checkpoint before the one that was loaded.
        resized: the first of them has to leave a smaller gang, and the last one the whole gang again.
        sick_gpu: a GPU has to be blamed by its uuid; where it is not, no hardware may be blamed.
        node_action: what has to be ordered of the node in the end. It stands for the verdict where no job runs.
    """

    done: str
    act: Act
    attribution: Attribution
    causes: tuple[str, ...]
    evidence: str = ""
    replaced: frozenset[int] = frozenset(range(WORLD_SIZE))
    moved: bool = False
    sick_gpu: bool = False
    incidents: int = 1
    stepped_back: bool = False
    resized: bool = False
    node_action: str = ""


TRUTHS: dict[Fault, Truth] = {
    Fault.KILL_RANK: Truth(
        done="kill -9 of a rank", act=Act.RESTARTS, attribution=Attribution.PLATFORM, causes=("process_killed",)
    ),
    Fault.STOP_RANK: Truth(
        done="SIGSTOP of a rank", act=Act.RESTARTS, attribution=Attribution.PLATFORM, causes=("process_stopped",)
    ),
    Fault.NAN_LOSS: Truth(
        # A NaN can come from the data, the model or a sick device; the rule is what is known.
        done="a loss that is NaN, printed once",
        act=Act.RESTARTS,
        attribution=Attribution.UNKNOWN,
        causes=("log_rule",),
        evidence=LOSS_RULE,
    ),
    Fault.KILL_NODE: Truth(
        done="kill -9 of a node's agent",
        act=Act.RESTARTS,
        attribution=Attribution.PLATFORM,
        causes=("agent_lost",),
        moved=True,
    ),
    Fault.EXCEPTION: Truth(
        # Nobody can tell a passing exception from a bug at its first sight; what counts is that the job goes on.
        done="an exception that passes on retry",
        act=Act.RESTARTS,
        attribution=Attribution.UNKNOWN,
        causes=("python_exception",),
    ),
    Fault.TWO_AT_ONCE: Truth(
        # Neither is a consequence of the other: the verdict may name either, and both have to be found.
        done="kill -9 of a rank and, at the same moment, of the agent of the other node",
        act=Act.RESTARTS,
        attribution=Attribution.PLATFORM,
        causes=("process_killed", "agent_lost"),
        moved=True,
    ),
    Fault.KILL_PLANNER: Truth(
        done="kill -9 of a rank, and of recovery-planner while it recovers from that",
        act=Act.RESTARTS,
        attribution=Attribution.PLATFORM,
        causes=("process_killed",),
    ),
    Fault.RAISE_IN_PLACE: Truth(
        done="an exception inside a re-executable block",
        act=Act.IN_PLACE,
        attribution=Attribution.UNKNOWN,
        causes=("python_exception",),
        replaced=frozenset(),
    ),
    Fault.KILL_IN_PLACE: Truth(
        done="kill -9 of a rank inside a re-executable block",
        act=Act.IN_PLACE,
        attribution=Attribution.PLATFORM,
        causes=("process_killed",),
        replaced=frozenset({WORLD_SIZE - 1}),
    ),
    Fault.XID_31: Truth(
        # What a program does to its own memory: the device reports it and is not to blame.
        done="an illegal memory access of a rank, with Xid 31",
        act=Act.HARDWARE,
        attribution=Attribution.USER,
        causes=("illegal_memory_access",),
    ),
    Fault.XID_79: Truth(
        done="a GPU that falls off the bus, Xid 79",
        act=Act.HARDWARE,
        attribution=Attribution.HARDWARE,
        causes=("gpu_fell_off_bus", "gpu_lost"),
        moved=True,
        sick_gpu=True,
    ),
    Fault.HOT_GPU: Truth(
        done="a GPU that is much hotter than its peers",
        act=Act.HARDWARE,
        attribution=Attribution.HARDWARE,
        causes=("thermal_slowdown", "gpu_thermal"),
        moved=True,
        sick_gpu=True,
    ),
    Fault.POISONED: Truth(
        # To the job it looks like a bug of its own, and from that checkpoint no retry helps.
        done="a NaN in the weights that goes into a checkpoint: the restart from it fails as the run before did",
        act=Act.POLICY,
        attribution=Attribution.USER,
        causes=("nan_loss", "repeated_exception"),
        incidents=2,
        stepped_back=True,
    ),
    Fault.NO_SPARE: Truth(
        done="kill -9 of a node's agent with no node in reserve; another node joins later",
        act=Act.POLICY,
        attribution=Attribution.PLATFORM,
        causes=("agent_lost",),
        incidents=2,
        resized=True,
    ),
    Fault.BUG: Truth(
        done="a bug that does not pass on retry",
        act=Act.BUG,
        attribution=Attribution.USER,
        causes=("repeated_exception",),
    ),
    Fault.THIRD_STRIKE: Truth(
        done="a GPU has a double-bit ECC error (Xid 48) three times: two resets, then another node",
        act=Act.NODES,
        attribution=Attribution.HARDWARE,
        # The third error also puts the GPU on the ledger's list; the planner may hear of either first.
        causes=("gpu_memory", "device_held"),
        evidence="enough to replace it",
        sick_gpu=True,
        node_action=Rung.REPLACE_NODE,
    ),
}


def truth_words(fault: Fault) -> str:
    """What the verdict has to be."""
    truth = TRUTHS[fault]
    if truth.node_action:
        return f"{' or '.join(truth.causes)}, {truth.node_action}"
    return f"{truth.attribution}, {' or '.join(truth.causes)}"
