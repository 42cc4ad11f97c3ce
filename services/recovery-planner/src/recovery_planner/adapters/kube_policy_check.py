"""Reads a job's recovery policy exactly as the launcher in its pods will."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from fault_contracts.agent import JobSpec
from recovery_planner.domain.kube_job_spec import JobWish
from service_kit.recovery_policy_file import read_recovery_policy
from service_kit.yaml_fields import PolicyRefused


class LauncherPolicyCheck:
    """PolicyCheck by the launcher's own reader."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], str] = {}

    def problem(self, wish: JobWish) -> str:
        """See the port. A generation is read once."""
        key = (wish.uid, wish.generation)
        if key not in self._known:
            if len(self._known) > 4_096:
                self._known.clear()
            self._known[key] = _read(wish)
        return self._known[key]


def _read(wish: JobWish) -> str:
    with tempfile.TemporaryDirectory(prefix="phalanx-policy-") as folder:
        path = Path(folder) / "policy"
        path.write_text(json.dumps({"recovery": wish.policy}, indent=2), encoding="utf-8")
        try:
            policy = read_recovery_policy(path)
            JobSpec(nnodes=wish.nnodes, nproc_per_node=1, spares=wish.spares, policy=policy)
        except PolicyRefused as error:
            _, _, said = str(error).partition(f"{path}")
            return said.lstrip(":0123456789 ") or str(error)
        except ValueError as error:
            return next((line.strip() for line in str(error).splitlines() if "alue error" in line), str(error))
    return ""
