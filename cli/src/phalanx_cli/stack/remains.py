"""Ends what a stack left behind: only the recorded processes themselves, never one that took over a pid."""

import signal

from phalanx_cli.stack.identity import ProcessIdentity
from phalanx_cli.stack.state import StackState

DEATH_WAIT_S = 2.0
"""After its parent's death or SIGKILL a process is gone in milliseconds; a loaded machine is given this."""


def end_remains(state: StackState | None) -> tuple[ProcessIdentity, ...]:
    """Wait for the recorded processes to be gone, kill those that are not, and return those that even this did not end.

    To be called when the owner is dead: its children are then dying by themselves.
    """
    if state is None:
        return ()
    survivors = []
    for identity in state.identities():
        if identity.wait_gone(DEATH_WAIT_S):
            continue
        identity.signal(signal.SIGKILL)
        if not identity.wait_gone(DEATH_WAIT_S):
            survivors.append(identity)
    return tuple(survivors)
