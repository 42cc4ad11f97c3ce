"""Shapes of lines about the machine: none is dead, none reads another's line, forged names change nothing."""

from pathlib import Path

from node_agent.domain.bus_line import BUS_SHAPES, NIC_DRIVERS, parse_nic
from node_agent.domain.crash_line import CRASH_SHAPES, GPU_LIBRARIES
from node_agent.domain.line_shape import host_finding, read_shapes
from node_agent.domain.machine_line import MACHINE_SHAPES
from node_agent.domain.oom_line import OomLines
from node_agent.domain.storage_line import STORAGE_SHAPES

SHAPES = MACHINE_SHAPES + BUS_SHAPES + STORAGE_SHAPES + CRASH_SHAPES
LINES = [row.split("\t")[-1] for row in Path(__file__).with_name("kernel_lines.tsv").read_text().splitlines()]


def test_every_shape_is_met_by_a_sample_and_needs_its_needle() -> None:
    for shape in SHAPES:
        met = [line for line in LINES if shape.pattern.match(line)]
        assert met, shape.pattern.pattern
        assert all(shape.needle in line for line in met), shape.needle


def test_no_sample_has_two_shapes() -> None:
    for line in LINES:
        assert sum(bool(shape.pattern.match(line)) for shape in SHAPES) <= 1, line


def test_a_shape_in_the_middle_of_a_line_is_somebody_s_quotation() -> None:
    assert read_shapes("app: INFO: task python3:4242 blocked for more than 122 seconds.", SHAPES) is None
    assert read_shapes("x[1]: said XFS (sda): Corruption", SHAPES) is None


def test_empty_attributes_are_left_out() -> None:
    found = host_finding("hung_task", "s", pid="12", process="", blocked_s="3")
    assert (found.pid, found.attributes) == (12, {"blocked_s": "3", "pid": "12"})


def test_libraries_of_the_gpu_only() -> None:
    crash = "python3[1]: segfault at 0 ip 00007f sp 00007f error 4 in {}.so.1[7f0000000000+1000]"
    assert all(read_shapes(crash.format(name), CRASH_SHAPES) for name in GPU_LIBRARIES)
    assert read_shapes(crash.format("libm"), CRASH_SHAPES) is None


def test_every_adapter_s_driver_is_known() -> None:
    for driver in NIC_DRIVERS:
        found = parse_nic(f"{driver} 0000:17:00.0 eth0: Link is Down")
        assert found is not None, driver
        assert found.check == "nic_link_event"


def test_the_summary_of_another_process_is_not_added_to_a_kill() -> None:
    lines = OomLines()
    summary = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/a,task_memcg=/a/b,task=x,pid=1,uid=0"
    assert lines.read(summary) is None
    found = lines.read("Memory cgroup out of memory: Killed process 2 (y) total-vm:1kB, anon-rss:5kB")
    assert found is not None
    assert "task_memcg" not in found.attributes
    again = lines.read("Memory cgroup out of memory: Killed process 1 (x) total-vm:1kB, anon-rss:5kB")
    assert again is not None
    assert "task_memcg" not in again.attributes, "a summary serves one kill"
