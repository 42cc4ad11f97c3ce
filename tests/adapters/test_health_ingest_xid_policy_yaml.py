"""The shipped policy: a row for every code, a test for each that others judge otherwise; and the loader's errors."""

import csv
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fault_contracts.faults import Action, Attribution
from fault_contracts.health import Component
from fault_contracts.payload import Health
from health_ingest.adapters.xid_policy_yaml import SHIPPED, load_xid_policy
from health_ingest.domain.ruling import Clears, Ruling, Weight
from health_ingest.domain.seen import Seen, remember
from health_ingest.domain.signal import Entity, Signal
from health_ingest.domain.xid_policy import clearing, weigh
from service_kit.yaml_fields import PolicyRefused

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY_S = 86_400.0
POLICY = load_xid_policy()
REFERENCE = Path(__file__).resolve().parents[3] / "shared" / "reference" / "xid"
needs_reference = pytest.mark.skipif(
    not REFERENCE.exists(), reason="the reference data is not checked out beside the repository"
)


def signal(check: str, *, job: str = "", ago_s: float = 0.0, health: Health = Health.BAD, **attributes: str) -> Signal:
    return Signal(
        signal_id="1",
        entity=Entity(node_id="node-a", component=Component.GPU, component_id="GPU-1", check=check),
        health=health,
        detail="as the driver said",
        observed_at=NOW - timedelta(seconds=ago_s),
        job_id=job,
        attributes=attributes,
    )


def judged(current: Signal, *before: Signal) -> Ruling:
    history: tuple[Seen, ...] = ()
    for each in before:
        history = remember(history, each)
    return weigh(current, history, now=NOW, policy=POLICY)


def short(ruling: Ruling) -> tuple[str, str, str]:
    return (ruling.weight.value, ruling.origin.value, ruling.action.value)


RECORDED = ("record", "unknown", "wait_or_ignore")


def test_every_row_says_why_where_others_differ_and_has_a_source() -> None:
    for code in (38, 44, 63, 68, 94, 109, 121, 143, *range(162, 177)):
        assert len(POLICY.xids[code].why) > 30, code
    assert all(row.source and row.meaning and row.name for row in POLICY.xids.values())
    assert set(POLICY.xids) >= set(range(1, 177))


@needs_reference
def test_every_code_of_the_reference_has_a_row() -> None:
    for name, known in (("catalog.tsv", POLICY.xids), ("sxid.tsv", POLICY.sxids)):
        with (REFERENCE / name).open(encoding="utf-8") as file:
            codes = {
                int(row[0]) for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if row[0].isdigit()
            }
        assert codes <= set(known), name
    with (REFERENCE / "nvlink5-decode.tsv").open(encoding="utf-8") as file:
        assert len(POLICY.nvlink5) == sum(1 for _ in file) - 1


@pytest.mark.parametrize("check", ["xid_177", "xid_999", "xid_99999", "sxid_26006"])
def test_an_unknown_code_is_recorded_and_evicts_nothing(check: str) -> None:
    assert short(judged(signal(check))) == RECORDED


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (38, ("record", "driver", "wait_or_ignore")),
        (43, ("record", "user", "wait_or_ignore")),
        (44, ("record", "driver", "wait_or_ignore")),
        (45, RECORDED),
        (48, ("failure", "hardware", "reset_gpu")),
        (63, ("problem", "hardware", "wait_or_ignore")),
        (64, ("failure", "hardware", "reset_gpu")),
        (68, ("record", "user", "restart_process")),
        (79, ("failure", "hardware", "reboot_node")),
        (94, ("problem", "hardware", "restart_process")),
        (95, ("failure", "hardware", "reset_gpu")),
        (109, ("failure", "unknown", "reset_gpu")),
        (119, ("failure", "driver", "reset_gpu")),
        (120, ("failure", "driver", "reset_gpu")),
        (121, RECORDED),
        (142, RECORDED),
        (143, ("failure", "hardware", "reset_gpu")),
        (162, RECORDED),
        (163, ("problem", "platform", "wait_or_ignore")),
        (164, RECORDED),
        (165, RECORDED),
        (166, ("record", "platform", "wait_or_ignore")),
        (167, ("problem", "hardware", "reboot_node")),
        (168, ("problem", "hardware", "wait_or_ignore")),
        (169, ("problem", "hardware", "wait_or_ignore")),
        (170, ("record", "platform", "wait_or_ignore")),
        (171, ("problem", "hardware", "wait_or_ignore")),
        (172, ("problem", "hardware", "wait_or_ignore")),
    ],
)
def test_codes_that_others_judge_otherwise(code: int, expected: tuple[str, str, str]) -> None:
    assert short(judged(signal(f"xid_{code}"))) == expected


def test_43_45_and_174_are_consequences() -> None:
    assert all(judged(signal(f"xid_{code}")).sympathetic for code in (43, 45, 159, 174))
    storm = [signal("xid_45", job=f"j{n}", ago_s=n * 1_000.0) for n in range(1, 30)]
    assert judged(signal("xid_45", job="j"), *storm).weight is Weight.RECORD


def test_13_blames_the_gpu_when_three_jobs_met_it_on_one_sm() -> None:
    def met(job: str, ago_s: float, sm: str = "gpc1/tpc3/sm0") -> Signal:
        return signal("xid_13", job=job, ago_s=ago_s, location=sm)

    assert short(judged(met("a", 0))) == ("record", "user", "restart_process")
    one_job = [met("a", n * 3_600.0) for n in range(1, 20)]
    assert judged(met("a", 0), *one_job).origin is Attribution.USER
    elsewhere = [met("b", 9_000, "gpc0/tpc0/sm0"), met("c", 5_000, "gpc2/tpc1/sm1")]
    assert judged(met("a", 0), *elsewhere).origin is Attribution.USER
    found = judged(met("c", 0), met("a", 9_000), met("b", 5_000))
    assert (short(found), found.rule_id) == (("failure", "hardware", "replace_node"), "xid.13.repeated")
    assert judged(met("c", 0), met("a", 9 * DAY_S), met("b", 5_000)).origin is Attribution.USER


def test_31_holds_new_work_back_when_three_jobs_met_it_on_one_gpu() -> None:
    before = [signal("xid_31", job=job, ago_s=ago) for job, ago in (("a", 9_000), ("b", 5_000))]
    assert judged(signal("xid_31", job="b"), *before).origin is Attribution.USER
    assert short(judged(signal("xid_31", job="c"), *before))[:2] == ("problem", "hardware")


def test_a_job_that_nobody_knows_proves_nothing_against_a_gpu() -> None:
    before = [signal("xid_31", ago_s=ago) for ago in (20_000, 9_000, 5_000)]
    assert judged(signal("xid_31"), *before).origin is Attribution.USER


def test_48_with_its_companions() -> None:
    assert judged(signal("xid_48"), signal("xid_63", ago_s=10)).action is Action.RESET_GPU
    assert judged(signal("xid_48"), signal("xid_64", ago_s=10)).action is Action.REPLACE_NODE
    assert judged(signal("xid_48"), signal("xid_64", ago_s=3_000)).action is Action.RESET_GPU


def test_64_with_a_failed_remap_replaces() -> None:
    assert judged(signal("xid_64", row_remap_failure="true")).action is Action.REPLACE_NODE
    assert judged(signal("xid_64"), signal("gpu_row_remap_failure", ago_s=600)).action is Action.REPLACE_NODE


def test_94_is_contained_unless_the_driver_asks_for_a_reset() -> None:
    assert judged(signal("xid_94", rst="no")).weight is Weight.PROBLEM
    assert short(judged(signal("xid_94", rst="yes"))) == ("failure", "hardware", "reset_gpu")


def test_79_twice_in_a_week_replaces_and_its_several_lines_do_not() -> None:
    lines = [signal("xid_79", ago_s=ago) for ago in (2, 1)]
    assert judged(signal("xid_79"), *lines).action is Action.REBOOT_NODE
    assert judged(signal("xid_79"), signal("xid_79", ago_s=DAY_S)).action is Action.REPLACE_NODE


def test_one_incident_of_memory_is_one_class() -> None:
    classes = {judged(signal(f"xid_{code}")).fault_class for code in (48, 63, 64, 94, 95, 140, 171, 172)}
    assert classes == {"gpu_memory"}


@pytest.mark.parametrize(
    ("registers", "expected"),
    [
        ("0x1, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0", ("record", False)),
        ("0x2, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0", ("record", True)),
        ("0x0, 0x0, 0x0, 0x20000, 0x0, 0x0, 0x0", ("record", True)),
        ("0x2, 0x0, 0x1, 0x0, 0x0, 0x0, 0x0", ("failure", False)),
        ("0x100, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0", ("failure", False)),
        ("0x2, 0x0, 0x80000000, 0x0, 0x0, 0x0, 0x0", ("failure", False)),
        ("", ("failure", False)),
        ("nonsense", ("failure", False)),
    ],
)
def test_74_by_its_registers(registers: str, expected: tuple[str, bool]) -> None:
    found = judged(signal("xid_74", registers=registers))
    assert (found.weight.value, found.sympathetic) == expected


def nvlink5(code: int, unit: str, intr: str, status: str, driver: str = "", **more: str) -> Ruling:
    words = {"unit": unit, "intr_info": intr, "error_status": status, "driver_version": driver}
    return judged(signal(f"xid_{code}", **(words | more)))


def test_nvlink5_words_by_the_driver_s_layout() -> None:
    old = nvlink5(149, "NETIR_LINK_EVT", "0x004505c6", "0x00000000", "570.158.01")
    assert (short(old), old.fault_class) == (("failure", "hardware", "reset_gpu"), "gpu_nvlink")
    assert nvlink5(145, "RLW_REMAP", "0x00000004", "0x00000001", "580.65").weight is Weight.PROBLEM
    assert nvlink5(145, "RLW_REMAP", "0x00000082", "0x00000040", "570.1").action is Action.RESET_GPU


def test_nvlink5_without_the_driver_s_version_decides_nothing_and_shows_both() -> None:
    found = nvlink5(149, "NETIR_LINK_EVT", "0x004505c6", "0x00000000")
    assert short(found) == RECORDED
    assert "v1 would be NETIR_LINK_EVT" in found.sentence
    assert "v2 would be unknown" in found.sentence


def test_nvlink5_of_a_peer_is_sympathetic_and_never_a_failure() -> None:
    found = nvlink5(149, "NETIR_LINK_DOWN", "0x02000011", "0x0", "580.1")
    assert (found.weight, found.sympathetic, found.action) == (Weight.PROBLEM, True, Action.RESET_GPU)


def test_nvlink5_alternative_bits_and_several_status_bits() -> None:
    assert nvlink5(145, "RLW_RXPIPE", "0x000000c2", "0x00000001", "570.1").weight is Weight.RECORD
    assert nvlink5(145, "RLW_RXPIPE", "0x000004c2", "0x00000001", "570.1").action is Action.RESET_GPU
    assert nvlink5(144, "SAW_MVB", "0x00000001", "0x00000003", "580.1").action is Action.RESET_GPU


def test_nvlink5_injected_unknown_and_broken_words_are_recorded() -> None:
    assert short(nvlink5(144, "SAW_MVB", "0x00000001", "0x00000002", "580.1", injected="1")) == RECORDED
    assert short(nvlink5(144, "NEW_UNIT", "0x00000001", "0x00000002", "580.1")) == RECORDED
    assert short(nvlink5(144, "SAW_MVB", "zz", "", "580.1")) == RECORDED


@pytest.mark.parametrize(
    ("wish", "action"),
    [
        ("gpu_reset", Action.RESET_GPU),
        ("node_reboot", Action.REBOOT_NODE),
        ("drain_and_reset", Action.RESET_GPU),
        ("system_reboot", Action.REBOOT_NODE),
    ],
)
def test_the_driver_s_wish_wins(wish: str, action: Action) -> None:
    found = judged(signal("gpu_recovery_action", recovery_action=wish))
    assert (found.action, found.driver_action, found.clears) == (action, wish, Clears.RESET)
    after = weigh(signal("xid_95"), (), now=NOW, policy=POLICY, driver_wish=wish)
    assert after.action is action


def test_162_ends_163() -> None:
    ended = clearing(signal("xid_162", health=Health.OK), POLICY)
    assert ended is not None
    assert ended.fault_class == judged(signal("xid_163")).fault_class


def test_sxids_and_the_driver_s_own_word() -> None:
    assert short(judged(signal("sxid_20034"))) == ("failure", "hardware", "reboot_node")
    assert short(judged(signal("sxid_23001"))) == ("failure", "hardware", "reboot_node")
    assert judged(signal("sxid_12028", severity="non_fatal")).weight is Weight.RECORD
    assert judged(signal("sxid_11012", severity="fatal")).weight is Weight.PROBLEM


def broken(tmp_path: Path, name: str, old: str, new: str) -> str:
    for file in ("xid.yaml", "sxid.yaml", "nvlink5.yaml"):
        text = (SHIPPED / file).read_text(encoding="utf-8")
        assert file != name or old in text
        (tmp_path / file).write_text(text.replace(old, new, 1) if file == name else text, encoding="utf-8")
    with pytest.raises(PolicyRefused) as refused:
        load_xid_policy(tmp_path)
    return str(refused.value)


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        (
            "xid.yaml",
            "weight: failure",
            "weight: fatal",
            "weight is 'fatal'; it must be one of record, problem, failure",
        ),
        ("xid.yaml", "  - code: 2\n", "  - code: 1\n", "1 is there twice"),
        ("xid.yaml", "  - code: 2\n", "  - code: two\n", "code is 'two'; it must be a whole number from 1"),
        ("xid.yaml", "same: sm", "sane: sm", "same is missing"),
        ("xid.yaml", "quiet_s: 604800", "quiet_s: -1", "quiet_s must be a number from 1"),
        ("xid.yaml", "    cancels: 163", "    cancels: 1630", "code 162 cancels 1630, which has no row"),
        ("xid.yaml", "    sympathetic: true", "    sympathetic: true\n    hue: red", "unknown field hue"),
        ("sxid.yaml", "kind: fatal", "kind: grave", "kind is 'grave'"),
        ("nvlink5.yaml", "v1: [0x03f003ff, 0x00000021]", "v1: [0x03f003ff]", "v1 must be [mask, value]"),
        ("nvlink5.yaml", "rules:", "rules: [", "is not YAML"),
    ],
)
def test_what_is_wrong_is_told_with_file_and_line(tmp_path: Path, name: str, old: str, new: str, said: str) -> None:
    assert (text := broken(tmp_path, name, old, new)).startswith(str(tmp_path / name)), text
    assert said in text


def test_rules_that_would_harm_are_refused(tmp_path: Path) -> None:
    user = broken(tmp_path, "xid.yaml", "{weight: failure, origin: hardware", "{weight: failure, origin: user")
    assert "never costs a device" in user
    aliased = broken(tmp_path, "sxid.yaml", "sxids:", "x: &a [1]\ny: *a\nsxids:")
    assert "aliases" in aliased


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(PolicyRefused, match="cannot be read"):
        load_xid_policy(tmp_path)
