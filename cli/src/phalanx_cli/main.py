"""`phalanx`: dispatches on the first word, so that `phalanx run` starts without the libraries of the other commands."""

from __future__ import annotations

import sys


def main() -> int:
    """Entry point; returns the exit code."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["run"]:
        from phalanx_cli.commands.run import run

        return int(run(arguments[1:]))
    if arguments[:1] == ["validate"]:
        from node_agent.adapters.validation_program import main as validate

        return validate(arguments[1:])
    from phalanx_cli.commands.app import app

    app(prog_name="phalanx")
    return 0


if __name__ == "__main__":
    sys.exit(main())
