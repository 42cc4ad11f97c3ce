"""Only connections of gloo's kind are shut down; everybody else's in the process stay."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from worker_link.torch_abort import abort_process_groups, destroy_process_groups, shut_down_gloo, shut_down_store


class Watched:
    """A listening and a connected TCP socket in one epoll instance."""

    def __init__(self, stack: ExitStack, *, listening: bool = True, inherited: bool) -> None:
        self.listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.near = stack.enter_context(socket.create_connection(self.listener.getsockname()))
        self.far = stack.enter_context(self.listener.accept()[0])
        self.far.settimeout(5)
        self.epoll = stack.enter_context(select.epoll())
        # gloo calls epoll_create, whose descriptor an exec would keep.
        os.set_inheritable(self.epoll.fileno(), inherited)
        self.epoll.register(self.near, select.EPOLLIN)
        if listening:
            self.epoll.register(self.listener, select.EPOLLIN)

    def is_open(self) -> bool:
        try:
            self.near.send(b"x")
        except BrokenPipeError:
            return False
        return self.far.recv(1) == b"x"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_a_connection_that_gloo_watches_is_shut_down_and_its_peer_sees_it(stack: ExitStack) -> None:
    watched = Watched(stack, inherited=True)
    assert watched.is_open()
    assert shut_down_gloo() >= 1
    assert watched.far.recv(1) == b""
    assert not watched.is_open()
    stack.enter_context(socket.create_connection(watched.listener.getsockname()))  # gloo aborts when this one is gone


def test_others_are_left_alone(stack: ExitStack) -> None:
    asyncio_like = Watched(stack, inherited=False)
    client_only = Watched(stack, inherited=True, listening=False)
    shut_down_gloo()
    assert asyncio_like.is_open()
    assert client_only.is_open()


def test_the_store_is_known_by_its_port(stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Watched(stack, inherited=False)
    other = Watched(stack, inherited=False)
    monkeypatch.setenv("MASTER_PORT", str(store.listener.getsockname()[1]))
    assert shut_down_store() == 1
    assert not store.is_open()
    assert other.is_open()
    monkeypatch.setenv("MASTER_PORT", "no number")
    assert shut_down_store() == 0


def test_without_torch_there_is_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.delitem(sys.modules, "torch.distributed", raising=False)
    abort_process_groups()
    assert destroy_process_groups() is False
