"""`phalanx security kubernetes`: the folder as Secrets, for the chart."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from phalanx_cli.commands.bus_question import EXIT_BAD_SETTINGS, fail
from phalanx_cli.commands.security import EXIT_REFUSED, Folder
from phalanx_cli.commands.security import security as security

if TYPE_CHECKING:
    from phalanx_cli.security.folder import SecurityFolder


@security.command()
def kubernetes(
    folder: Folder,
    namespace: Annotated[str, typer.Option(help="Where the chart is installed.")] = "phalanx-system",
    jobs: Annotated[
        str, typer.Option("--jobs", metavar="NAMESPACE", help="Instead: what launchers in this namespace of jobs need.")
    ] = "",
) -> None:
    """Write Secrets and a ConfigMap with the names of the Helm chart to stdout, which must not be a terminal.

    Pipe it: | kubectl apply --server-side -f -  (a plain apply keeps a second copy of each in an annotation). Again
    after each change of the folder: pods see new files a minute or two later. Exit code 1: a file is missing, or there
    are too many machines for one Secret.
    """
    # Imported here: `phalanx --help` must not wait for cryptography.
    from phalanx_cli.security.folder import SecurityFolder
    from phalanx_cli.security.keyring import KeyringError

    try:
        written = _written(SecurityFolder(folder), namespace, jobs)
    except KeyringError as error:
        raise typer.Exit(fail("security", str(error), EXIT_REFUSED)) from error
    except (OSError, ValueError) as error:
        raise typer.Exit(fail("security", str(error), EXIT_BAD_SETTINGS)) from error
    if sys.stdout.isatty():
        raise typer.Exit(
            fail("security", "these are secrets, not for a screen: pipe them into kubectl apply", EXIT_REFUSED)
        )
    sys.stdout.write(written)


def _written(kept: SecurityFolder, namespace: str, jobs: str) -> str:
    from phalanx_cli.security.kubernetes_objects import objects_of_jobs, objects_of_release

    found = objects_of_jobs(kept, jobs) if jobs else objects_of_release(kept, namespace)
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": found}, indent=1) + "\n"
