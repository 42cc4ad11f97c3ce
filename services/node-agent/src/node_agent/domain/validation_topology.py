"""Are the devices there that should be? What was seen on the machine, held against what its operator expects."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from fault_contracts.payload import Health
from node_agent.domain.validation_result import CheckResult


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenDevices:
    """What the machine shows.

    Attributes:
        gpu_pci: GPUs on the PCI bus, as dddd:bb:dd.
        driver_pci: those that the driver serves; None: no driver is loaded.
        gpu_uuids: names that the driver gives.
        nics: RDMA adapters by name.
    """

    gpu_pci: frozenset[str] = frozenset()
    driver_pci: frozenset[str] | None = None
    gpu_uuids: frozenset[str] = frozenset()
    nics: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedDevices:
    """What should be there. None or empty: nothing was said about it."""

    gpus: int | None = None
    nics: int | None = None
    gpu_pci: frozenset[str] = frozenset()
    gpu_uuids: frozenset[str] = frozenset()


def compare(seen: SeenDevices, expected: ExpectedDevices) -> list[CheckResult]:
    """One line for each thing that was expected, and one for what contradicts itself."""
    results = []
    serves = seen.driver_pci
    if serves is not None and seen.gpu_pci - serves:
        results.append(
            _line(
                "gpu_driver", Health.BAD, f"on the bus but not served by the driver: {_listed(seen.gpu_pci - serves)}"
            )
        )
    usable = seen.gpu_pci if serves is None else serves
    if expected.gpus is not None:
        if expected.gpus and seen.gpu_pci and serves is None:
            results.append(_line("gpu_driver", Health.BAD, "GPUs are on the bus, and their driver is not loaded"))
        results.append(_count("gpu_count", "GPUs", len(usable), expected.gpus))
    if expected.nics is not None:
        results.append(_count("nic_count", "RDMA adapters", len(seen.nics), expected.nics))
    results += _named("gpu_pci", expected.gpu_pci, usable)
    results += _named("gpu_uuid", expected.gpu_uuids, seen.gpu_uuids)
    if not results:
        sentence = (
            f"{len(usable)} GPUs and {len(seen.nics)} RDMA adapters are here; "
            "whether that is right is unknown: say what to expect with --gpus, --nics or --expect"
        )
        results.append(_line("devices", Health.UNKNOWN, sentence, counts=False))
    return results


def _count(check: str, what: str, seen: int, expected: int) -> CheckResult:
    health = Health.OK if seen == expected else Health.BAD
    return _line(check, health, f"{seen} {what} are usable, {expected} expected")


def _named(check: str, expected: Collection[str], seen: Collection[str]) -> list[CheckResult]:
    if not expected:
        return []
    missing, extra = set(expected) - set(seen), set(seen) - set(expected)
    if not missing and not extra:
        return [_line(check, Health.OK, f"the {len(expected)} expected ones are here, and no other")]
    parts = [f"{word}: {_listed(names)}" for word, names in (("missing", missing), ("not expected", extra)) if names]
    return [_line(check, Health.BAD, "; ".join(parts))]


def _listed(names: Collection[str]) -> str:
    shown = sorted(names)[:16]
    return ", ".join(shown) + (f" and {len(names) - len(shown)} more" if len(names) > len(shown) else "")


def _line(check: str, health: Health, sentence: str, *, counts: bool = True) -> CheckResult:
    return CheckResult(check=check, health=health, rule_id=f"validation.{check}", sentence=sentence, counts=counts)
