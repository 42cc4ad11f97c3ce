"""Labels of a node are read from the flag or the environment, and a wrong one is said at once."""

import pytest

from node_agent.adapters.launch_options import LaunchOptions
from node_agent.adapters.launcher_flags import parse_launch


def launch(*argv: str, **environ: str) -> LaunchOptions:
    return parse_launch([*argv, "train.py"], environ)


def test_labels_of_the_flag() -> None:
    assert launch("--node-labels", "rack=r1, switch=s3").node_labels == {"rack": "r1", "switch": "s3"}
    assert launch("--node_labels=nvlink_domain=a=b").node_labels == {"nvlink_domain": "a=b"}


def test_the_environment_fills_in() -> None:
    assert launch(PHALANX_NODE_LABELS="rack=r2").node_labels == {"rack": "r2"}
    assert launch("--node-labels", "rack=r1", PHALANX_NODE_LABELS="rack=r2").node_labels == {"rack": "r1"}
    assert launch().node_labels == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rack", "name=value"),
        ("=r1", "name=value"),
        ("rack=", "name=value"),
        ("rack=r1,rack=r2", "twice"),
        ("rack=" + "x" * 129, "128"),
        ("rack=r\x1b1", "printable"),
        (",".join(f"l{number}=x" for number in range(17)), "17 labels; 16 are the limit"),
    ],
)
def test_what_is_no_label_is_refused(text: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        launch("--node-labels", text)
    assert end.value.code == 2
    assert words in capsys.readouterr().err


def test_a_negative_place_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        launch("--node-rank", "-1")
    assert "must not be negative" in capsys.readouterr().err
