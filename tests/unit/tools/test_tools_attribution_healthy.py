"""Healthy logs are varied by their seed alone, and no verdict comes of one."""

import sys
from pathlib import Path
from random import Random

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))

from attribution_bench.healthy import (
    Template,
    TemplateRefused,
    healthy_files,
    healthy_lines,
    read_templates,
    varied,
)
from attribution_bench.judging import alarms

from fault_attribution.engine import Engine
from fault_attribution.loading.rule_files import load_rules

FOLDER = Path(__file__).parents[2] / "data" / "healthy"


def template(*lines: str) -> Template:
    return Template(name="t", source="worker", origin="a test", lines=lines)


def test_fields_are_filled_lines_repeated_and_names_kept() -> None:
    found = varied(template("[3-3] @{node} step @{i} of @{int 5 5}", "@{node}"), Random(1))
    assert found[0].endswith(" step 1 of 5")
    assert found[2].endswith(" step 3 of 5")
    assert found[3] == found[0].split()[0]


def test_an_optional_line_is_in_some_files_only() -> None:
    counts = {len(varied(template("? x"), Random(seed))) for seed in range(20)}
    assert counts == {0, 1}


def test_a_field_that_nobody_knows_is_refused_and_a_template_without_header_too(tmp_path: Path) -> None:
    with pytest.raises(TemplateRefused, match="nonsense"):
        varied(template("@{nonsense}"), Random(1))
    (tmp_path / "a.txt").write_text("x\ny\n")
    with pytest.raises(TemplateRefused, match=r"a\.txt"):
        read_templates(tmp_path)


def test_the_seed_decides_everything() -> None:
    templates = read_templates(FOLDER)
    first, again, other = (
        [lines for _, _, lines in healthy_files(templates, 30, seed)] for seed in (1, 1, 2)
    )  # fmt: skip
    assert first == again != other
    assert "@{" not in "\n".join(line for lines in first for line in lines)


def test_noise_comes_of_every_template() -> None:
    sources = {source for source, _ in healthy_lines(read_templates(FOLDER), 1)}
    assert sources == {"worker-stderr", "kmsg", "k8s", "nvml"}


def test_no_verdict_comes_of_a_healthy_log() -> None:
    templates = read_templates(FOLDER)
    assert alarms(Engine(load_rules()), templates, 2 * len(templates), seed=7) == []
