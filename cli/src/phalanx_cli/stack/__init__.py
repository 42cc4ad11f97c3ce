"""Embedded servers and the developer's stack: what `phalanx run`, `up`, `down` and `status` start and stop."""

from phalanx_cli.stack.errors import StackError
from phalanx_cli.stack.services import SERVICES, ServiceSpec
from phalanx_cli.stack.stack import Stack

__all__ = ["SERVICES", "ServiceSpec", "Stack", "StackError"]
