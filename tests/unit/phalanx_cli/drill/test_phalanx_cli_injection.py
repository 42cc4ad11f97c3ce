"""Every drill writes what parsers and collector take for the real thing, refuses real nodes, and can be undone."""

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from node_agent.domain.kernel_finding import KernelFinding
from node_agent.domain.kernel_line import KernelLines
from node_agent.domain.kmsg_record import KERNEL_FACILITY, parse_record
from phalanx_cli.commands.app import app
from phalanx_cli.drill.fake_state import ControlFile
from phalanx_cli.drill.injection import BadDrill, Kind, Order, Witness, gpu_of, plan
from phalanx_cli.drill.kernel_log_file import append_records
from phalanx_cli.drill.xid_lines import MESSAGES, recovery_line, xid_lines

GPU = gpu_of({}, 3)


def node(tmp_path: Path, name: str = "node-a", **changes: object) -> Path:
    """A host role's card, as if it ran here; returns --data-dir."""
    folder = tmp_path / "hosts" / name
    folder.mkdir(parents=True)
    card = {
        "node_id": name,
        "pid": os.getpid(),
        "kmsg_path": str(tmp_path / "kmsg"),
        "nvml_library": "/somewhere/libnvidia-ml.so.1",
        "fake_state": str(tmp_path / "state"),
        "sys_root": str(tmp_path / "sys"),
        **changes,
    }
    (folder / "host.json").write_text(json.dumps(card))
    return tmp_path


def inject(data_dir: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and all output of the command."""
    done = CliRunner().invoke(app, ["inject", *arguments, "--data-dir", str(data_dir)])
    return done.exit_code, done.output


def findings(path: Path) -> list[KernelFinding]:
    """What the kernel log's parsers read in a file."""
    lines, found = KernelLines(), []
    for raw in path.read_bytes().splitlines():
        record = parse_record(raw)
        assert record is not None, raw
        assert record.facility == KERNEL_FACILITY
        fact = lines.read(record.text)
        if isinstance(fact, KernelFinding):
            found.append(fact)
    return found


@pytest.mark.parametrize("code", [*sorted(MESSAGES), 162])
@pytest.mark.parametrize("pid", [None, 4711])
def test_every_xid_line_is_read_as_its_xid(code: int, pid: int | None) -> None:
    lines, facts = KernelLines(), []
    for line in xid_lines(GPU, code, pid=pid, process="python3, really"):
        fact = lines.read(line)
        if isinstance(fact, KernelFinding):
            facts.append(fact)
    assert {(fact.check, fact.device) for fact in facts} == {(f"xid_{code}", "0000:13:00")}
    assert facts[0].pid == pid


def test_a_change_of_the_drivers_wish_is_read_as_one() -> None:
    fact = KernelLines().read(recovery_line(GPU, 0, 2))
    assert isinstance(fact, KernelFinding)
    assert fact.check == "xid_154"
    assert "node_reboot" in fact.attributes.values()


def test_an_xid_goes_to_the_kernel_log_and_to_the_library(tmp_path: Path) -> None:
    code, said = inject(node(tmp_path), "xid", "79", "--gpu", "3")
    assert code == 0, said
    assert "expect the signal xid_79 of GPU 3 (GPU-00000000-0000-4000-8000-000000000003, 0000:13:00)" in said
    assert {finding.check for finding in findings(tmp_path / "kmsg")} == {"xid_79"}
    assert ControlFile(tmp_path / "state").read() == {"3.lost": "1"}


def test_nvml_as_the_only_witness_writes_no_line(tmp_path: Path) -> None:
    assert inject(node(tmp_path), "xid", "94", "--witness", "nvml")[0] == 0
    assert not (tmp_path / "kmsg").exists()
    state = ControlFile(tmp_path / "state").read()
    assert (state["0.event_seq"], state["0.event_data"], state["0.ecc_volatile_uncorrected"]) == ("1", "94", "1")


def test_records_go_on_where_the_file_ends(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.write_text("6,41,1000,-;Linux version\n SUBSYSTEM=pci\n")
    append_records(log, ["one", "two"])
    append_records(log, ["three"])
    parsed = [parse_record(raw) for raw in log.read_bytes().splitlines()[2:]]
    assert [(record.sequence, record.text) for record in parsed if record] == [(42, "one"), (43, "two"), (44, "three")]
    with pytest.raises(ValueError, match="no line"):
        append_records(log, ["two\nlines"])


def test_undo_puts_back_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    data_dir, state = node(tmp_path), ControlFile(tmp_path / "state")
    state.set({"sys.count": 4, "2.temperature": 60})
    for arguments in (["thermal", "91", "--gpu", "2"], ["gpu-lost", "--gpu", "1"], ["thermal", "--gpu", "3"]):
        assert inject(data_dir, *arguments)[0] == 0
    code, said = inject(data_dir, "thermal", "--gpu", "2", "--undo")
    assert (code, state.read()["2.temperature"], state.read()["3.temperature"]) == (0, "60", "95"), said
    assert inject(data_dir, "clear")[0] == 0
    assert state.read() == {"sys.count": "4", "2.temperature": "60"}
    assert "nothing of this had been injected" in inject(data_dir, "clear")[1]


def test_undoing_the_drivers_wish_tells_the_kernel_log(tmp_path: Path) -> None:
    data_dir = node(tmp_path)
    assert inject(data_dir, "recovery-action", "2")[0] == 0
    assert inject(data_dir, "recovery-action", "--undo")[0] == 0
    wishes = [list(finding.attributes.values()) for finding in findings(tmp_path / "kmsg")]
    assert "node_reboot" in wishes[0]
    assert "none" in wishes[1]


def test_a_nic_goes_down_in_a_made_up_sysfs_and_comes_back(tmp_path: Path) -> None:
    data_dir, port = node(tmp_path), tmp_path / "sys/class/net/eth2"
    port.mkdir(parents=True)
    (port / "operstate").write_text("up\n")
    assert inject(data_dir, "nic", "eth2")[0] == 0
    assert (port / "operstate").read_text() == "down\n"
    assert not (port / "carrier").exists(), "what was not there is not made up"
    assert inject(data_dir, "clear")[0] == 0
    assert (port / "operstate").read_text() == "up\n"


def test_a_real_node_is_refused(tmp_path: Path) -> None:
    data_dir = node(tmp_path, kmsg_path="/dev/kmsg", fake_state="", sys_root="/sys")
    code, said = inject(data_dir, "xid", "79")
    assert code == 1
    assert "real kernel log" in said
    for force in ([], ["--force"]):
        code, said = inject(data_dir, "thermal", *force)
        assert code == 1
        assert "cannot be broken by a command" in said


def test_a_node_without_a_kernel_log_is_refused(tmp_path: Path) -> None:
    code, said = inject(node(tmp_path, kmsg_path="none"), "xid", "79", "--force")
    assert (code, "reads no kernel log" in said) == (1, True)
    assert not (tmp_path / "state").exists()


def test_a_fifo_is_no_file_of_a_drill(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "kmsg")
    code, said = inject(node(tmp_path), "kmsg", "Kernel panic - not syncing: drill")
    assert (code, "real kernel log" in said) == (1, True)


def test_a_host_role_that_ended_is_refused_unless_forced(tmp_path: Path) -> None:
    data_dir = node(tmp_path, pid=2**22 + 1)
    assert inject(data_dir, "gpu-lost")[0] == 1
    assert inject(data_dir, "gpu-lost", "--force")[0] == 0


def test_of_several_nodes_one_has_to_be_named(tmp_path: Path) -> None:
    node(tmp_path, "node-a")
    node(tmp_path, "node-b", fake_state=str(tmp_path / "state-b"))
    code, said = inject(tmp_path, "gpu-lost")
    assert (code, "node-a, node-b" in said) == (3, True)
    assert inject(tmp_path, "gpu-lost", "--node", "node-b")[0] == 0
    assert ControlFile(tmp_path / "state-b").read() == {"0.lost": "1"}
    assert inject(tmp_path, "gpu-lost", "--node", "node-c")[0] == 3


@pytest.mark.parametrize(
    "arguments",
    [["xid"], ["xid", "x"], ["xid", "1000"], ["ecc", "wrong"], ["thermal", "900"], ["kmsg"], ["nic", "../../etc"]],
)
def test_an_order_without_sense_changes_nothing(tmp_path: Path, arguments: list[str]) -> None:
    assert inject(node(tmp_path), *arguments)[0] == 2
    assert not (tmp_path / "state").exists()
    assert not (tmp_path / "kmsg").exists()


def test_a_gpu_that_is_not_there_cannot_be_broken(tmp_path: Path) -> None:
    ControlFile(tmp_path / "state").set({"sys.count": 2})
    code, said = inject(node(tmp_path), "gpu-lost", "--gpu", "2")
    assert (code, "the node has 2" in said) == (2, True)


def test_every_kind_has_a_plan() -> None:
    values = {Kind.XID: "31", Kind.SXID: "20034", Kind.KMSG: "a line"}
    for kind in Kind:
        if kind is not Kind.CLEAR:
            planned = plan(Order(kind=kind, value=values.get(kind, ""), gpu=GPU, witness=Witness.BOTH), {})
            assert planned.expect
            assert planned.state or planned.kernel
    with pytest.raises(BadDrill):
        gpu_of({}, 8)
