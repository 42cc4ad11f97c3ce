"""Facts about a job's own doings: time spent waiting for data, lists of GPUs that are none, numbers that go wrong.

Derived:

    data_bound                steps mostly wait for their data; captures share
    visible_devices_malformed a list of visible GPUs that CUDA cannot read
    visible_devices_many_mig  a list with several MIG slices, of which CUDA gives a process only the first
    nan_on_one_rank           numbers went wrong on one rank of several that report
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from fault_attribution.derive.following import following
from fault_attribution.finding import Finding

DATA_SHARE_MIN = 0.5
"""Of a step's time: from here more than half of the GPUs' time is bought for nothing."""
STEP_MIN_S = 0.05
"""Shorter steps are dominated by the first batch and by the clock."""

_NAN = ("nan_loss", "nan_gradient", "nan_stop")
READS = frozenset({"data_share", "data_time", "visible_devices", *_NAN})
_DEVICE = r"(?:-1|\d+(?:[:.]\d+)?|GPU-[0-9a-fA-F-]+|MIG-[\w./-]+)"
_LIST = re.compile(rf"^(?:{_DEVICE}(?:,{_DEVICE})*|NoDevFiles|none|void|all)?$")
_SEVERAL_MIG = re.compile(r"MIG-[^,]+,\s*MIG-")
_QUOTED = re.compile(r"^(['\"])(.*?)\1")


def job_facts(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Derive the kinds above."""
    yield from _data_bound(findings)
    for each in findings:
        if each.kind == "visible_devices":
            yield from _visible(each)
    yield from _nan(findings)


def _data_bound(findings: Sequence[Finding]) -> Iterator[Finding]:
    shares: list[tuple[float, Finding]] = []
    for each in findings:
        share = _share(each)
        if share is not None:
            shares.append((share, each))
    if not shares:
        return
    shares.sort(key=lambda pair: (pair[0], pair[1].place))
    middle, base = shares[len(shares) // 2]
    if middle >= DATA_SHARE_MIN:
        text = f"{middle:.0%} of a step is waiting for data, in the middle of {len(shares)} readings"
        yield replace(
            _told(base, "data_bound", text), captures={"share": f"{middle:.2f}", "readings": str(len(shares))}
        )


def _share(finding: Finding) -> float | None:
    if finding.kind == "data_share":
        value = finding.number_of("share")
        return None if value is None or value > 100 else value / 100
    if finding.kind != "data_time":
        return None
    data_s, step_s = finding.number_of("data_s"), finding.number_of("step_s")
    if data_s is None or step_s is None or step_s < STEP_MIN_S or data_s > step_s:
        return None
    return data_s / step_s


def _visible(finding: Finding) -> Iterator[Finding]:
    raw = finding.captures.get("value", "").strip()
    value = visible_list(raw)
    if _SEVERAL_MIG.search(raw):
        yield _told(finding, "visible_devices_many_mig", f"several MIG slices are visible: {raw[:120]}")
    if value is not None and not _LIST.match(value):
        yield _told(finding, "visible_devices_malformed", f"no list that CUDA can read: {value[:120]}")


def visible_list(raw: str) -> str | None:
    """The list in what follows `CUDA_VISIBLE_DEVICES=`; None where the text around it hides where it ends.

    A printed mapping quotes it. A shell's assignment ends at white space, unless the value goes on after a comma.
    """
    quoted = _QUOTED.match(raw)
    if quoted is not None:
        return quoted[2]
    if raw.startswith(("$", "<", "`")):
        return None
    if raw.startswith(("[", "(", "{")):
        return raw
    head = re.split(r"(?<!,)\s|[;&|]", raw, maxsplit=1)[0]
    return head.rstrip("'\"}]);.") if "," not in head[-1:] else head


def _nan(findings: Sequence[Finding]) -> Iterator[Finding]:
    wrong = [each for each in findings if each.kind in _NAN and each.rank is not None]
    ranks = {each.rank for each in wrong}
    others = {each.rank for each in findings if each.rank is not None} - ranks
    if len(ranks) == 1 and others:
        first = min(wrong, key=lambda each: each.place)
        yield _told(first, "nan_on_one_rank", f"only rank {first.rank} tells of numbers that are not finite")


def _told(base: Finding, kind: str, text: str) -> Finding:
    return following(base, kind, text, rule_id="derive.user_job")
