"""All rules in force: those that come with the package, and a site's own folder over them.

A folder has `signatures/*.yaml`, `causes/*.yaml` and may have `priors.yaml`. A rule of the site's folder replaces the
one of the same id; `state: off` switches it off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Protocol, TypeVar

from fault_attribution.cause_rule import CauseBook, CauseRule
from fault_attribution.loading.cause_yaml import read_causes, read_priors
from fault_attribution.loading.signature_yaml import read_signatures
from fault_attribution.signature import Signature
from service_kit.yaml_fields import PolicyRefused

FILES_MAX = 200


class _Placed(Protocol):
    @property
    def file(self) -> str: ...

    @property
    def line(self) -> int: ...


_Rule = TypeVar("_Rule", bound=_Placed)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSet:
    """Signatures and cause rules that are in force."""

    signatures: tuple[Signature, ...]
    causes: CauseBook


def shipped_folder() -> Path:
    """Where the package's own rules are."""
    return Path(str(files("fault_attribution"))) / "rules"


def load_rules(overlays: Sequence[Path] = (), *, shipped: Path | None = None) -> RuleSet:
    """Read the shipped rules and each overlay over them.

    Raises:
        PolicyRefused: with file, line and reason; nothing is in force then.
    """
    signatures: dict[str, Signature] = {}
    causes: dict[str, CauseRule] = {}
    priors = None
    for folder in (shipped or shipped_folder(), *overlays):
        if not folder.is_dir():
            raise PolicyRefused(f"{folder}: is no folder of rules")
        _merge(signatures, folder / "signatures", read_signatures, lambda one: one.signature_id)
        _merge(causes, folder / "causes", read_causes, lambda one: one.rule_id)
        if (folder / "priors.yaml").is_file():
            priors = read_priors(folder / "priors.yaml")
    return RuleSet(signatures=tuple(signatures.values()), causes=CauseBook.of(tuple(causes.values()), priors or ()))


def load_signatures(overlays: Sequence[Path] = ()) -> tuple[Signature, ...]:
    """The signatures alone, for whoever reads lines and judges nothing.

    Raises:
        PolicyRefused: with file, line and reason.
    """
    signatures: dict[str, Signature] = {}
    for folder in (shipped_folder(), *overlays):
        if not folder.is_dir():
            raise PolicyRefused(f"{folder}: is no folder of rules")
        _merge(signatures, folder / "signatures", read_signatures, lambda one: one.signature_id)
    return tuple(signatures.values())


def _merge(
    known: dict[str, _Rule],
    folder: Path,
    read: Callable[[Path], tuple[_Rule, ...]],
    name: Callable[[_Rule], str],
) -> None:
    paths = sorted(folder.glob("*.yaml"))
    if len(paths) > FILES_MAX:
        raise PolicyRefused(f"{folder}: has more than {FILES_MAX} files")
    here: dict[str, _Rule] = {}
    for path in paths:
        for rule in read(path):
            twin = here.get(name(rule))
            if twin is not None:
                raise PolicyRefused(f"{path}:{rule.line}: {name(rule)} is also in {twin.file}:{twin.line}")
            here[name(rule)] = rule
    known.update(here)
