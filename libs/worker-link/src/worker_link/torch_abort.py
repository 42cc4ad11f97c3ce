"""What unblocks a rank that waits in a collective, and what clears torch.distributed away, without importing torch.

NCCL: the communicators are aborted (`ProcessGroup.abort`, as torch's own `_abort_process_group` does it), which is
meant to be called from another thread than the one that waits. Not tried: that needs GPUs on at least two ranks.

gloo: `abort` does nothing there (torch 2.13), a collective on a peer that is stopped or stuck waits for its time-out
of 30 minutes. But gloo's connections are sockets of this process: shutting them down makes the collective fail within
a millisecond, here and at all peers. They are found without a hook in torch: gloo watches them with an epoll instance
that is made by epoll_create(2) without O_CLOEXEC (gloo/transport/tcp/loop.cc), and the kernel lists what it watches
in /proc/self/fdinfo. Python, libuv, gRPC and NCCL set O_CLOEXEC, and what is no listening or connected TCP
socket beside a listening one is left alone.

The store: a rank that waits in init_process_group waits for the store's answer; its connection is shut down too. It is
known by MASTER_PORT, which belongs to one topology_version alone.
"""

from __future__ import annotations

import os
import re
import socket
import stat
import sys
from collections.abc import Iterator
from typing import Any

_FDS_MAX = 65_536
"""Descriptors looked at; a process with more is not a training rank."""
_TARGET = re.compile(r"^tfd:\s*(\d+).*\bino:([0-9a-f]+)", re.MULTILINE)
_FLAGS = re.compile(r"^flags:\s*([0-7]+)", re.MULTILINE)


def abort_process_groups() -> None:
    """Make every collective of this process fail now. From any thread; does nothing without torch.distributed."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None:
        return
    # The cheap ones first: nothing is known of how long NCCL takes with a broken network.
    shut_down_gloo()
    shut_down_store()
    _abort_backends(distributed)


def destroy_process_groups() -> bool:
    """Forget all groups, so that init_process_group works again. In the thread that made them.

    Returns:
        Whether there was one.
    """
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available():
        return False
    if distributed.is_initialized():
        distributed.destroy_process_group()
        return True
    # A join that failed left its number behind, which torch puts into the names of its keys in the store: this rank
    # would wait for ever under other names than a rank with a new process. destroy_process_group resets it as well.
    distributed.distributed_c10d._world.group_count = 0
    return False


def shut_down_gloo() -> int:
    """Shut down the connections of all gloo groups; returns how many."""
    count = 0
    for fd in _own_fds():
        targets = _gloo_targets(fd)
        for connection in targets:
            with connection:
                # gloo ends the process when its listening socket fails, so that one is left.
                if not _listens(connection) and _shut_down(connection):
                    count += 1
    return count


def shut_down_store() -> int:
    """Shut down this process's connections to the store at MASTER_PORT; returns how many."""
    port = os.environ.get("MASTER_PORT", "")
    if not port.isdecimal():
        return 0
    count = 0
    for fd in _own_fds():
        connection = _tcp_socket(fd)
        if connection is None:
            continue
        with connection:
            try:
                peer = connection.getpeername()
            except OSError:  # listening, or not connected
                continue
            if peer[1] == int(port) and _shut_down(connection):
                count += 1
    return count


def _abort_backends(distributed: Any) -> None:
    if not distributed.is_available() or not distributed.is_initialized():
        return
    world = distributed.distributed_c10d._world
    # A copy first: the training thread may be making or destroying groups at this moment.
    named = sorted(list(world.pg_names.items()), key=lambda entry: str(entry[1]), reverse=True)  # noqa: C414
    groups = [group for group, _name in named]
    grouped = _nccl_backend(distributed, groups)
    # Several communicators are aborted as one, or they can wait for each other (pytorch issue 119797).
    if grouped is not None:
        grouped._group_start()
    try:
        for group in groups:
            group.abort()
    finally:
        if grouped is not None:
            grouped._group_end()


def _nccl_backend(distributed: Any, groups: list[Any]) -> Any | None:
    if not distributed.is_nccl_available():
        return None
    import_path = sys.modules["torch.distributed.distributed_c10d"]
    nccl = getattr(import_path, "ProcessGroupNCCL", None)
    torch: Any = sys.modules["torch"]
    for group in groups:
        try:
            backend = group._get_backend(torch.device("cuda"))
        except RuntimeError:  # this group has no backend for that device
            continue
        if nccl is not None and isinstance(backend, nccl):
            return backend
    return None


def _own_fds() -> list[int]:
    return [int(name) for name in os.listdir("/proc/self/fd")[:_FDS_MAX]]


def _gloo_targets(fd: int) -> list[socket.socket]:
    """Copies of the TCP sockets that an epoll instance of gloo's kind watches; empty for any other descriptor."""
    try:
        if os.readlink(f"/proc/self/fd/{fd}") != "anon_inode:[eventpoll]":
            return []
        with open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as file:
            info = file.read()
    except OSError:  # closed meanwhile
        return []
    flags = _FLAGS.search(info)
    if flags is None or int(flags.group(1), 8) & os.O_CLOEXEC:
        return []
    targets = list(_sockets(info))
    if any(map(_listens, targets)):
        return targets
    for target in targets:
        target.close()
    return []


def _sockets(info: str) -> Iterator[socket.socket]:
    for found in _TARGET.finditer(info):
        connection = _tcp_socket(int(found.group(1)))
        if connection is None:
            continue
        # gloo closes sockets on its own thread: the number may be another file's by now, the inode is not.
        if os.fstat(connection.fileno()).st_ino == int(found.group(2), 16):
            yield connection
        else:
            connection.close()


def _tcp_socket(fd: int) -> socket.socket | None:
    try:
        copy = os.dup(fd)
    except OSError:  # closed meanwhile
        return None
    try:
        if stat.S_ISSOCK(os.fstat(copy).st_mode):
            found = socket.socket(fileno=copy)
            if found.family in (socket.AF_INET, socket.AF_INET6) and found.type == socket.SOCK_STREAM:
                return found
            found.close()
            return None
    except OSError:  # a kind of socket that Python does not know
        pass
    os.close(copy)
    return None


def _listens(connection: socket.socket) -> bool:
    return bool(connection.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def _shut_down(connection: socket.socket) -> bool:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:  # not connected any more
        return False
    return True
