"""A YAML file cannot be a bomb: aliases, depth and number of values are looked at before anything is built."""

from itertools import pairwise

import pytest
import yaml

from service_kit.bounded_yaml import DEPTH_MAX, YamlRefused, compose_bounded_text, load_bounded

NESTED = [f"{name}: &{name} [{', '.join(['*' + before] * 9)}]\n" for before, name in pairwise("abcdefghi")]
LAUGHS = "a: &a [x, x, x]\n" + "".join(NESTED)


@pytest.mark.parametrize(
    ("text", "wrong", "line"),
    [
        (LAUGHS, "aliases are not used", 2),
        ("a: &a [*a]", "aliases are not used", 1),
        ("base: &b {x: 1}\nrow:\n  <<: *b\n", "aliases are not used", 3),
        ("[" * 100_000, "nest", 1),
        ("[" * 100, f"nested more than {DEPTH_MAX} deep", 1),
        ("{a: " * 100, f"nested more than {DEPTH_MAX} deep", 1),
        ("- " * 100, f"nested more than {DEPTH_MAX} deep", 1),
        ("a: [1, 2" + ", 3" * 100 + "]", "more than 99 values", 1),
        ("a: [", "is not YAML", 2),
        ("a: \x00", "is not YAML", 0),
        ("a: 1\n---\nb: 2\n", "is not YAML", 2),
        ("x: 2001-99-99", "is not YAML", 0),
        ("x: !!python/object/apply:os.system ['true']", "is not YAML", 1),
    ],
)
def test_what_would_do_harm_is_refused_with_its_line(text: str, wrong: str, line: int) -> None:
    with pytest.raises(YamlRefused, match=wrong) as caught:
        load_bounded(text, values_max=99)
    assert caught.value.line == line


def test_values_are_what_safe_load_gives() -> None:
    text = "a: [1, 2.5, yes, ~, text]\nb: {c: 2026-01-02}\n"
    assert load_bounded(text) == yaml.safe_load(text)
    assert load_bounded("") is None
    assert compose_bounded_text("") is None


def test_a_refusal_does_not_quote_the_file() -> None:
    """A file named by mistake may be a key."""
    with pytest.raises(YamlRefused) as caught:
        load_bounded("password: 'hunter2hunter2\n")
    assert "hunter2" not in str(caught.value)
