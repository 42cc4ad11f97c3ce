"""Rules that change while the service runs: taken up, or refused with the old ones in force."""

from __future__ import annotations

from pathlib import Path

import pytest

from fault_attribution.loading.rule_files import load_rules
from fault_classifier.adapters.rule_book import RuleBook
from fault_classifier.settings import FaultClassifierSettings

OWN = """causes:
  - id: user.site_own
    attribution: user
    cause: site_own
    action: dont_retry_notify_user
    when: [{see: site_fact, score: 4}]
    meaning: A fault of this site.
    advice: Ask the site.
    decide: the site's word
    near_miss: Anything else.
    source: the site itself
    holds: [{facts: ['site_fact | it happened']}]
    misses: [{facts: ['other_fact | it did not']}]
"""


@pytest.mark.asyncio
async def test_a_sites_rule_is_taken_up_when_it_is_written_and_a_bad_one_changes_nothing(tmp_path: Path) -> None:
    causes = tmp_path / "causes"
    causes.mkdir()
    book = RuleBook((tmp_path,), load_rules((tmp_path,)))
    assert "user.site_own" not in book.causes.by_id
    assert await book.reload() is False
    (causes / "own.yaml").write_text(OWN)
    assert await book.reload() is True
    assert "user.site_own" in book.causes.by_id
    assert book.matcher is not None
    (causes / "own.yaml").write_text(OWN.replace("score: 4", "score: many"))
    assert await book.reload() is False
    assert "user.site_own" in book.causes.by_id


def test_a_bad_pattern_of_a_site_stops_the_start_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "signatures").mkdir()
    (tmp_path / "signatures" / "own.yaml").write_text(
        "signatures:\n  - id: site.bad\n    find: site_fact\n    role: cause\n    pattern: 'flux(?=x)'\n"
        "    meaning: m\n    source: s\n    tests: {match: ['fluxx'], miss: ['y']}\n"
    )
    with pytest.raises(ValueError, match=r"own\.yaml:2: site\.bad"):
        FaultClassifierSettings(rules=str(tmp_path))
