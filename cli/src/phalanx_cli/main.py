"""`phalanx`: dispatches on the first word: what lives beside the training starts without the libraries of the rest."""

from __future__ import annotations

import sys


def main() -> int:
    """Entry point; returns the exit code."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["run"]:
        from phalanx_cli.commands.run import run

        return int(run(arguments[1:]))
    if arguments[:1] == ["host"]:
        from node_agent.host_main import main as host

        return int(host(arguments[1:]))
    if arguments[:1] == ["validate"]:
        from node_agent.adapters.validation_program import main as validate

        return validate(arguments[1:])
    from phalanx_cli.commands.app import app

    app(prog_name="phalanx")
    return 0


if __name__ == "__main__":
    sys.exit(main())
