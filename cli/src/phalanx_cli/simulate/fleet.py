"""The machines of a simulated cluster: who has a seat, who stands by, who is away, and who takes an empty seat."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from phalanx_cli.simulate.faults import WATCHED_S
from phalanx_cli.simulate.listing import EPOCH
from recovery_planner.domain.member import Member
from recovery_planner.domain.node_fitness import clean_first


class Place(StrEnum):
    """Where a machine is."""

    SEATED = "seated"
    IDLE = "idle"
    AWAY = "away"


@dataclass(slots=True)
class Machine:
    """One machine.

    Attributes:
        arrival: in which order it became free.
        device: which device is built in; another number after a replacement.
        returned_s: when it last came back; doubt_until_s: it is taken last until then.
        left_s, left_for: when it was last taken out, and for which cause.
        watched: a fault within 7 days of the return still counts as one.
    """

    index: int
    place: Place
    arrival: int
    device: int = 0
    returned_s: float | None = None
    doubt_until_s: float = 0.0
    left_s: float = 0.0
    left_for: str = ""
    watched: bool = False

    @property
    def name(self) -> str:
        """Of the node."""
        return f"node-{self.index}"

    @property
    def device_id(self) -> str:
        """Of what is built in now."""
        return f"device-{self.index}-{self.device}"

    def is_watched(self, now_s: float) -> bool:
        """It came back not long ago: a fault now is counted as a repeat, whatever the policy."""
        return self.returned_s is not None and now_s - self.returned_s <= WATCHED_S


class Fleet:
    """All machines of a job and its spares. Seats are taken from the first on."""

    def __init__(self, nodes: int, spares: int) -> None:
        if nodes < 1 or spares < 0:
            raise ValueError(
                f"{nodes} nodes and {spares} spares: there must be one node or more, and no spare less than none"
            )
        self.machines = [
            Machine(index=index, place=Place.SEATED if index < nodes else Place.IDLE, arrival=index)
            for index in range(nodes + spares)
        ]
        self._idle = set(range(nodes, nodes + spares))
        self._arrivals = nodes + spares
        self.away = 0

    def leave(self, machine: Machine) -> None:
        """It is taken out."""
        self._idle.discard(machine.index)
        machine.place = Place.AWAY
        self.away += 1

    def back(self, machine: Machine) -> None:
        """It stands by again, behind all others."""
        machine.place = Place.IDLE
        machine.arrival = self._arrivals
        self._arrivals += 1
        self._idle.add(machine.index)
        self.away -= 1

    def free(self, now_s: float) -> int:
        """Spares without a doubt."""
        return sum(self.machines[index].doubt_until_s <= now_s for index in self._idle)

    def unseat(self, count: int) -> None:
        """A gang that shrinks by whole replicas leaves so many well machines over."""
        seated = [machine for machine in self.machines if machine.place is Place.SEATED]
        for machine in seated[len(seated) - count :]:
            machine.place = Place.IDLE
            self._idle.add(machine.index)

    def take_spare(self, now_s: float) -> Machine | None:
        """Give a seat to the spare that the planner's own order puts first; None: there is none.

        A machine on probation is a doubt, and taken last.
        """
        if not self._idle:
            return None
        idle = [self.machines[index] for index in self._idle]
        members = [_member(each, "on probation" if each.doubt_until_s > now_s else "") for each in idle]
        chosen = self.machines[int(clean_first(members)[0].instance_id)]
        self._idle.discard(chosen.index)
        chosen.place = Place.SEATED
        return chosen


def _member(machine: Machine, doubt: str) -> Member:
    return Member(
        node_id=machine.name,
        instance_id=str(machine.index),
        address=machine.name,
        master_port=1,
        arrival=machine.arrival,
        reported_at=EPOCH,
        doubt=doubt,
    )
