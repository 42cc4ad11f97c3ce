"""Observations as the payloads that carry them, cut to what those hold: a long text must not cost the message."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from fault_contracts.health import SAMPLES_MAX, Sample, SignalObserved
from fault_contracts.payload import LONG_TEXT_MAX
from node_agent.domain.observation import Observation

SAMPLE_DETAIL_MAX = 512
ATTRIBUTE_MAX = 512
NAME_MAX = 256
SAMPLE_FIELDS_MAX = 16
SIGNAL_VALUES_MAX = 64
SIGNAL_ATTRIBUTES_MAX = 32
"""As in fault_contracts.health; a test holds them against it."""


def as_sample(observation: Observation) -> Sample:
    """One line of a sweep."""
    return Sample(
        component=observation.component,
        component_id=_cut(observation.component_id, NAME_MAX),
        check=_cut(observation.check, NAME_MAX),
        health=observation.health,
        detail=_cut(observation.detail, SAMPLE_DETAIL_MAX),
        values=_numbers(observation.values, SAMPLE_FIELDS_MAX),
        attributes=_texts(observation.attributes, SAMPLE_FIELDS_MAX),
        count=observation.count,
        old=observation.old,
        observed_at=observation.observed_at,
    )


def as_signal(observation: Observation, *, node_id: str, boot_id: str, source: str) -> SignalObserved:
    """One that does not wait for a sweep. `job_id` and `rank` are taken from its attributes where they are there."""
    rank = observation.attributes.get("rank", "")
    return SignalObserved(
        node_id=node_id,
        component=observation.component,
        component_id=_cut(observation.component_id, NAME_MAX),
        check=_cut(observation.check, NAME_MAX),
        health=observation.health,
        detail=_cut(observation.detail, LONG_TEXT_MAX),
        values=_numbers(observation.values, SIGNAL_VALUES_MAX),
        attributes=_texts(observation.attributes, SIGNAL_ATTRIBUTES_MAX),
        count=observation.count,
        old=observation.old,
        boot_id=boot_id,
        job_id=_cut(observation.attributes.get("job_id", ""), NAME_MAX),
        rank=int(rank) if rank.isascii() and rank.isdigit() else None,
        source=source,
        observed_at=observation.observed_at,
    )


def parts(observations: Sequence[Observation]) -> Iterator[tuple[Sample, ...]]:
    """As many messages as the samples need, none when there are none."""
    for start in range(0, len(observations), SAMPLES_MAX):
        yield tuple(as_sample(observation) for observation in observations[start : start + SAMPLES_MAX])


def _numbers(values: Mapping[str, float], fields_max: int) -> dict[str, float]:
    """Without infinities and NaN, which JSON does not have."""
    finite = ((name, value) for name, value in values.items() if math.isfinite(value))
    return dict(islice(finite, fields_max))


def _texts(attributes: Mapping[str, str], fields_max: int) -> dict[str, str]:
    named = ((_cut(name, NAME_MAX), _cut(text, ATTRIBUTE_MAX)) for name, text in attributes.items() if name)
    return dict(islice(named, fields_max))


def _cut(text: str, length_max: int) -> str:
    return text if len(text) <= length_max else f"{text[: length_max - 3]}..."
