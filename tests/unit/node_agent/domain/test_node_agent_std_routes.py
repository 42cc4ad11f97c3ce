"""torchrun's --redirects and --tee."""

from __future__ import annotations

import pytest

from node_agent.domain.std_routes import Std, StdRoutes, parse_std_routes, terminal_streams

NONE = StdRoutes()


def test_torchruns_syntax() -> None:
    assert parse_std_routes("3").of(9) is Std.ALL
    some = parse_std_routes("0:1, 1:3")
    assert [some.of(n) for n in range(3)] == [Std.OUT, Std.ALL, Std.NONE]


@pytest.mark.parametrize("text", ["", "4", "-1", "0:", "a:1", "0:1,", "0:4", "9999:1"])
def test_other_syntax_is_refused_with_the_text(text: str) -> None:
    with pytest.raises(ValueError, match="local rank:streams") as caught:
        parse_std_routes(text)
    assert repr(text) in str(caught.value)


def test_redirects_take_off_and_tee_puts_back() -> None:
    assert terminal_streams(0, redirects=NONE, tee=NONE) is Std.ALL
    assert terminal_streams(0, redirects=parse_std_routes("3"), tee=NONE) is Std.NONE
    assert terminal_streams(0, redirects=parse_std_routes("3"), tee=parse_std_routes("0:2")) is Std.ERR
    assert terminal_streams(1, redirects=parse_std_routes("0:3"), tee=NONE) is Std.ALL
