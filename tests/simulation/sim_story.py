"""Scenarios as text and back: `tests/simulation/stories/*.txt`, and what a failing seed prints.

One line a thing; `#` begins a comment. See docs/simulation.md for the language.
"""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace

from sim_scenario import Expectation, Fault, JobPlan, Scenario

from fault_contracts.cluster_policy import ClusterPolicy
from service_kit.testing.memory_broker import Trouble
from service_kit.testing.process_life import StoreTrouble

_SECONDS = r"\d+(?:\.\d+)?"
VERBS: dict[str, str] = {
    "kill rank": r"(?P<rank>\d+) of (?P<target>\w+) with signal (?P<number>\d+)",
    "oom rank": r"(?P<rank>\d+) of (?P<target>\w+)",
    "raise": r"(?P<word>\w+) in rank (?P<rank>\d+) of (?P<target>\w+)",
    "hang rank": r"(?P<rank>\d+) of (?P<target>\w+)",
    "poison": r"(?P<target>\w+)",
    "fail start": r"on (?P<target>[\w-]+)",
    "fail action": r"on (?P<target>[\w-]+)",
    "kill agent": r"(?P<target>[\w-]+)",
    "lose node": r"(?P<target>[\w-]+)",
    "cut off": r"(?P<target>[\w-]+)",
    "crash": r"(?P<target>planner|standby|ingest|classifier) after (?P<number>\d+) touches",
    "jump clock": r"of (?P<target>[\w-]+) by (?P<number>-?\d+(?:\.\d+)?)s",
    "xid": r"(?P<number>\d+) on (?P<target>[\w-]+)",
    "notice": r"on (?P<target>[\w-]+) of (?P<number>\d+(?:\.\d+)?)s",
    "join": r"(?P<target>\w+)",
    "leave": r"(?P<target>[\w-]+)",
    "repeat commands": r"of (?P<target>\w+)",
    "repeat events": r"of (?P<target>[\w-]+)",
    "verdict": r"(?P<word>\w+) about node (?P<rank>\d+) of (?P<target>\w+), (?P<number>\d+) versions old",
}
"""Verb → what follows it. Every line may end with `for 20s`, where something comes back by itself."""

_WRITTEN = {
    "kill rank": "{f.rank} of {f.target} with signal {f.number:g}",
    "oom rank": "{f.rank} of {f.target}",
    "raise": "{f.word} in rank {f.rank} of {f.target}",
    "hang rank": "{f.rank} of {f.target}",
    "poison": "{f.target}",
    "fail start": "on {f.target}",
    "fail action": "on {f.target}",
    "kill agent": "{f.target}",
    "lose node": "{f.target}",
    "cut off": "{f.target}",
    "crash": "{f.target} after {f.number:g} touches",
    "jump clock": "of {f.target} by {f.number:g}s",
    "xid": "{f.number:g} on {f.target}",
    "notice": "on {f.target} of {f.number:g}s",
    "join": "{f.target}",
    "leave": "{f.target}",
    "repeat commands": "of {f.target}",
    "repeat events": "of {f.target}",
    "verdict": "{f.word} about node {f.rank} of {f.target}, {f.number:g} versions old",
}
_AT = re.compile(rf"at (?P<at>{_SECONDS})s (?P<rest>.*?)(?: for (?P<for>{_SECONDS})s)?")
_JOB = re.compile(r"job (?P<name>\w+):(?P<settings>.*?)(?: policy (?P<policy>\{.*\}))?")
_EXPECT = re.compile(r"expect (?P<job>\w+) (?P<what>[a-z]+)(?P<words>.*)")


class StoryError(ValueError):
    """A line that says nothing known; the text has its number."""


def read(text: str) -> Scenario:
    """A scenario from its text.

    Raises:
        StoryError: naming the line.
    """
    scenario = Scenario()
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.partition("#")[0].strip()
        if not line:
            continue
        try:
            scenario = _with_line(scenario, line)
        except (ValueError, TypeError, KeyError) as error:
            raise StoryError(f"line {number}: {line!r}: {error}") from error
    return scenario


def write(scenario: Scenario) -> str:
    """The text of a scenario; `read` gives it back."""
    lines = [f"seed {scenario.seed}"]
    for job in scenario.jobs:
        lines.append(f"job {job.name}: {_settings_of(job, JobPlan(name=''), skip=('name', 'policy'))}".rstrip(" "))
        if job.policy:
            lines[-1] += f" policy {job.policy}"
    if scenario.planners != 1:
        lines.append(f"planners {scenario.planners}")
    if scenario.cluster:
        lines.append(f"cluster {scenario.cluster}")
    for name, trouble, none in (("network", scenario.network, Trouble()), ("store", scenario.store, StoreTrouble())):
        if trouble != none:
            lines.append(f"{name}: {_settings_of(trouble, none)}")
    for fault in scenario.faults:
        ending = "" if fault.for_s is None else f" for {fault.for_s:g}s"
        lines.append(f"at {fault.at_s:g}s {fault.verb} {_WRITTEN[fault.verb].format(f=fault)}{ending}")
    lines += [f"expect {e.job} {e.what} {' '.join(e.words)}".rstrip() for e in scenario.expectations]
    return "\n".join(lines) + "\n"


def _settings_of(value: object, usual: object, skip: tuple[str, ...] = ()) -> str:
    names = [field.name for field in fields(value) if field.name not in skip]  # type: ignore[arg-type]
    told = [(name, getattr(value, name)) for name in names if getattr(value, name) != getattr(usual, name)]
    return ", ".join(f"{name} {said:g}" for name, said in told)


def _read_settings(kind: type, text: str) -> dict[str, object]:
    usual = kind(name="") if kind is JobPlan else kind()
    found: dict[str, object] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, said = part.partition(" ")
        if name not in {field.name for field in fields(usual)}:
            raise ValueError(f"no setting is called {name!r}")
        whole = isinstance(getattr(usual, name), int) or name == "steps"
        found[name] = int(said) if whole else float(said)
    return found


def _with_line(scenario: Scenario, line: str) -> Scenario:
    word = line.split()[0].rstrip(":")
    match word:
        case "seed":
            return replace(scenario, seed=int(line.split()[1]))
        case "cluster":
            policy = line.removeprefix("cluster ").strip()
            ClusterPolicy.model_validate(json.loads(policy))
            return replace(scenario, cluster=policy)
        case "planners":
            return replace(scenario, planners=int(line.split()[1]))
        case "job":
            found = _must(_JOB, line)
            settings = _read_settings(JobPlan, found["settings"] or "")
            job = JobPlan(name=found["name"], policy=found["policy"] or "", **settings)  # type: ignore[arg-type]
            return replace(scenario, jobs=(*scenario.jobs, job))
        case "network":
            return replace(scenario, network=Trouble(**_read_settings(Trouble, line.partition(":")[2])))  # type: ignore[arg-type]
        case "store":
            said = _read_settings(StoreTrouble, line.partition(":")[2])
            return replace(scenario, store=StoreTrouble(**said))  # type: ignore[arg-type]
        case "at":
            return replace(scenario, faults=(*scenario.faults, _fault(line)))
        case "expect":
            found = _must(_EXPECT, line)
            one = Expectation(job=found["job"], what=found["what"], words=tuple(found["words"].split()))
            return replace(scenario, expectations=(*scenario.expectations, one))
    raise ValueError("a line begins with seed, planners, cluster, job, network, store, at or expect")


def _must(pattern: re.Pattern[str], line: str) -> re.Match[str]:
    found = pattern.fullmatch(line)
    if found is None:
        raise ValueError(f"does not look like {pattern.pattern}")
    return found


def _fault(line: str) -> Fault:
    whole = _must(_AT, line)
    rest = whole["rest"]
    verb = next((verb for verb in VERBS if rest.startswith(verb + " ")), None)
    if verb is None:
        raise ValueError(f"no fault is called so; there are {', '.join(VERBS)}")
    said = re.fullmatch(VERBS[verb], rest.removeprefix(verb + " "))
    if said is None:
        raise ValueError(f"{verb} wants {VERBS[verb]}")
    values = said.groupdict()
    return Fault(
        at_s=float(whole["at"]),
        verb=verb,
        target=values.get("target", ""),
        rank=int(values.get("rank", 0)),
        number=float(values.get("number", 0)),
        word=values.get("word", ""),
        for_s=None if whole["for"] is None else float(whole["for"]),
    )
