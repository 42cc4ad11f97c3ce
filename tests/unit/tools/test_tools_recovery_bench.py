"""How the benchmark turns the ranks' events into figures."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))

from recovery_bench.cells import Cell, Fault, Name, chosen, group_timeout_s, left_out
from recovery_bench.events import EventLog, NotReached
from recovery_bench.table import compare, lines, pasted, spread, verdict


def note(folder: Path, event: str, rank: int, at_s: float, **fields: float) -> None:
    with (folder / "events.jsonl").open("a") as file:
        file.write(json.dumps({"at_s": at_s, "event": event, "pid": 100 + rank, "rank": rank, **fields}) + "\n")


def test_a_recovery_ends_with_the_last_ranks_first_step_of_a_generation_begun_after_the_fault(tmp_path: Path) -> None:
    for rank in range(4):
        note(tmp_path, "step", rank, 9.9, step=5, begun_s=1.0)
    # A survivor of the old generation may still finish a step after the fault; that is no recovery.
    note(tmp_path, "step", 0, 10.1, step=6, begun_s=1.0)
    log = EventLog(tmp_path)
    log.look()
    for rank in range(3):
        note(tmp_path, "entered", rank, 10.2)
        note(tmp_path, "group", rank, 10.3)
        note(tmp_path, "step", rank, 10.5, step=6, begun_s=10.2)
    log.look()
    assert log.recovery(10.0) is None
    note(tmp_path, "entered", 3, 10.4)
    note(tmp_path, "group", 3, 10.6)
    note(tmp_path, "step", 3, 10.7, step=6, begun_s=10.4)
    note(tmp_path, "step", 3, 11.7, step=7, begun_s=10.4)
    log.look()
    found = log.recovery(10.0)
    log.close()
    assert found is not None
    assert (found.entered_s, found.group_s, found.first_step_s) == pytest.approx((0.4, 0.6, 0.7))


def test_waiting_has_an_end(tmp_path: Path) -> None:
    log = EventLog(tmp_path)
    with pytest.raises(NotReached, match="steps: not within"):
        log.wait(lambda: False, "steps", 0.01)
    log.close()


def test_ratios_are_of_medians_and_missing_where_a_contestant_is() -> None:
    figures = {"torchrun": spread([5.0, 6.0, 90.0]), "phalanx": spread([0.3, 0.2, 0.4]), "floor": spread([0.2])}
    found = compare(figures)
    assert found.torchrun_over_phalanx == pytest.approx(20)
    assert found.phalanx_over_floor == pytest.approx(1.5)
    assert found.overhead_s == pytest.approx(0.1)
    assert compare({"phalanx": figures["phalanx"]}).torchrun_over_phalanx is None
    assert len(verdict(found)) == 3
    assert verdict(compare({})) == []


def test_the_table_has_a_line_for_each_point() -> None:
    table = lines({"floor": {"group up": spread([0.1]), "first step": spread([0.2, 0.3])}})
    assert len(table) == 3
    assert table[2].split() == ["floor", "first", "step", "0.250s", "0.200s", "0.300s", "2"]


def test_the_default_run_leaves_out_what_takes_minutes_and_says_so() -> None:
    everything = chosen(list(Name), list(Fault), everything=True)
    default = chosen(list(Name), list(Fault), everything=False)
    assert set(default) < set(everything)
    assert all(left_out(cell) for cell in set(everything) - set(default))
    assert not any(left_out(cell) for cell in default)
    assert chosen([Name.FLOOR], [Fault.STOP], everything=True) == ()
    assert [cell.fault for cell in default if cell.name is Name.PHALANX] == list(Fault)


def test_what_is_pasted_says_why_a_cell_is_empty_and_what_is_not_the_default() -> None:
    stopped = Cell(name=Name.TORCHRUN, fault=Fault.STOP)
    killed, by_phalanx = Cell(name=Name.TORCHRUN, fault=Fault.KILL), Cell(name=Name.PHALANX, fault=Fault.KILL)
    assert group_timeout_s(stopped) == 5
    table = pasted({stopped: spread([45.0]), by_phalanx: spread([0.2, 0.3, 0.4])}, {killed: "it broke"})
    assert table == [
        "| | kill -9 of a rank | SIGSTOP of a rank |",
        "|---|---|---|",
        "| torchrun | n/a [1] | 45.000 (45.000 to 45.000) [2] |",
        "| Phalanx | 0.300 (0.200 to 0.400) |  |",
        "",
        "[1] torchrun, kill: it broke.  ",
        "[2] torchrun, stop: with a time-out of the process group of 5 s; its default is 30 min.  ",
    ]
