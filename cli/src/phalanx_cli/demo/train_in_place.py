"""The demo's training as a re-executable block: a restart calls the same loop again in the process that is there."""

from __future__ import annotations

import worker_link
from phalanx_cli.demo.train import parse_options, prepare, train


def main() -> None:
    """What train.py does, in a block."""
    options = parse_options()
    prepare()

    @worker_link.reexecutable
    def block(generation: worker_link.Generation) -> None:
        train(options, generation.checkpoint)

    block()


if __name__ == "__main__":
    main()
