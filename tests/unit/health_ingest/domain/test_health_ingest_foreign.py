"""What other systems say is looked up, never guessed: accepted, ignored or refused, each with a reason."""

from dataclasses import replace

import pytest

from fault_contracts.health import Component
from fault_contracts.payload import Health
from health_ingest.domain.foreign import ForeignRow, ForeignSource, ForeignTable, Outcome, Told, pci_address, understand


def row(*names: str, check: str = "foreign_x", **changed: object) -> ForeignRow:
    whole = {"component": Component.HOST, "why": "because", "reference": "own"} | changed
    return ForeignRow(names=names, check=check, **whole)  # type: ignore[arg-type]


TABLE = ForeignTable(
    sources={
        "s": ForeignSource(
            node=("labels.node", "labels.instance"),
            states={"firing": Health.BAD, "resolved": Health.OK},
            ignore_when={"strategy": ("STORE_ONLY",)},
            rows=(
                row("*", check="{labels.check}"),
                row("Xid", check="xid_{code}", component=Component.GPU, component_id=("uuid", "pci")),
                row("Hot", check="foreign_hot", component=Component.GPU, component_id=("uuid",)),
                row("Hot", check="foreign_hot"),
                row("Ready", states={"firing": Health.OK, "gone": Health.UNKNOWN}),
                row("Node*"),
            ),
        )
    },
    nodes={"i-0abc": "gpu-07", "10.0.0.7": "gpu-08"},
)


def told(name: str, state: str = "firing", **fields: str) -> Told:
    given = {"labels.node": "n0"} | {key.replace("__", "."): value for key, value in fields.items()}
    return Told(source="s", name=name, state=state, fields=given, thread=("t",))


def test_a_known_name_is_accepted_with_node_check_and_health() -> None:
    found = understand(told("NodeOnFire"), TABLE)
    assert (found.outcome, found.check, found.node_id, found.health) == (
        Outcome.ACCEPTED,
        "foreign_x",
        "n0",
        Health.BAD,
    )
    assert found.why == "because"


def test_an_unknown_name_is_ignored_and_said_so() -> None:
    found = understand(told("Watchdog"), TABLE)
    assert found.outcome is Outcome.IGNORED
    assert "'Watchdog'" in found.why


def test_a_row_for_any_name_takes_what_brings_its_field() -> None:
    assert understand(told("Watchdog", labels__check="foreign_mine"), TABLE).check == "foreign_mine"


def test_patterns_mind_the_case() -> None:
    assert understand(told("nodeonfire"), TABLE).outcome is Outcome.IGNORED


def test_who_says_that_nothing_is_to_be_done_is_heeded() -> None:
    assert understand(told("NodeOnFire", strategy="STORE_ONLY"), TABLE).outcome is Outcome.IGNORED


def test_the_best_place_names_the_device_and_a_code_fills_the_check() -> None:
    found = understand(told("Xid", code="79", uuid="GPU-1", pci="0000:3B:00.0"), TABLE)
    assert (found.check, found.component, found.component_id) == ("xid_79", Component.GPU, "GPU-1")
    assert understand(told("Xid", code="79", pci="00000000:3B:00.0"), TABLE).component_id == "0000:3b:00"


def test_a_device_that_is_not_named_is_refused_unless_another_row_fits() -> None:
    found = understand(told("Xid", code="79"), TABLE)
    assert found.outcome is Outcome.REFUSED
    assert "one of uuid, pci is missing" in found.why
    assert understand(told("Xid", uuid="GPU-1"), TABLE).why == "'Xid' is known, but code is missing"
    assert understand(told("Hot"), TABLE).component is Component.HOST
    assert understand(told("Hot", uuid="GPU-1"), TABLE).component is Component.GPU


@pytest.mark.parametrize("code", ["79; drop", "79\n", "x" * 80, "É"])
def test_what_makes_no_check_is_refused(code: str) -> None:
    found = understand(told("Xid", code=code, uuid="GPU-1"), TABLE)
    assert found.outcome is Outcome.REFUSED
    assert "is no check" in found.why


@pytest.mark.parametrize(
    ("fields", "node"),
    [
        ({"labels__node": "gpu-07"}, "gpu-07"),
        ({"labels__node": "i-0abc"}, "gpu-07"),
        ({"labels__node": "", "labels__instance": "gpu-09:9100"}, "gpu-09"),
        ({"labels__node": "", "labels__instance": "10.0.0.7:9100"}, "gpu-08"),
    ],
)
def test_their_names_of_nodes_become_ours(fields: dict[str, str], node: str) -> None:
    assert understand(told("NodeOnFire", **fields), TABLE).node_id == node


def test_without_a_node_it_is_refused() -> None:
    found = understand(told("NodeOnFire", labels__node=""), TABLE)
    assert found.outcome is Outcome.REFUSED
    assert "no node named in labels.node, labels.instance" in found.why


def test_a_row_has_its_own_words_for_health_and_an_unknown_word_is_refused() -> None:
    assert understand(told("Ready"), TABLE).health is Health.OK
    assert understand(told("Ready", "gone"), TABLE).health is Health.UNKNOWN
    assert understand(told("NodeOnFire", "gone"), TABLE).outcome is Outcome.REFUSED


def test_two_alerts_that_mean_the_same_are_two_conditions_and_the_end_of_one_is_its_own() -> None:
    one = told("NodeOnFire")
    other = replace(one, thread=("u",))
    first, second = understand(one, TABLE), understand(other, TABLE)
    assert first.component_id != second.component_id
    assert understand(replace(one, state="resolved"), TABLE).component_id == first.component_id


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("0000:3B:00.0", "0000:3b:00"), ("3b:00.0", "0000:3b:00"), ("mlx5_0", "mlx5_0"), ("GPU-3b:00", "GPU-3b:00")],
)
def test_addresses_are_spelt_our_way(theirs: str, ours: str) -> None:
    assert pci_address(theirs) == ours
