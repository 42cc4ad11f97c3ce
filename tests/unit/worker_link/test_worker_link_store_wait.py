"""Ranks wait for rank 0's store, briefly, and only where there is one."""

import socket
import threading
import time

from worker_link.store_wait import wait_for_store


def env(port: int, rank: str = "1") -> dict[str, str]:
    return {"RANK": rank, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def bound() -> tuple[socket.socket, int]:
    """A port that refuses until somebody listens."""
    one = socket.socket()
    one.bind(("127.0.0.1", 0))
    return one, one.getsockname()[1]


def test_a_rank_goes_on_as_soon_as_the_store_listens() -> None:
    store, port = bound()
    with store:
        opens = threading.Timer(0.05, store.listen)
        opens.start()
        started_s = time.monotonic()
        assert wait_for_store(env(port), wait_s_max=20)
        assert 0.04 < time.monotonic() - started_s < 10
        opens.join()


def test_a_store_that_never_opens_costs_no_more_than_the_limit() -> None:
    store, port = bound()
    with store:
        started_s = time.monotonic()
        assert not wait_for_store(env(port), wait_s_max=0.05)
        assert time.monotonic() - started_s < 5


def test_rank_zero_and_scripts_without_a_store_do_not_wait() -> None:
    store, port = bound()
    with store:
        started_s = time.monotonic()
        assert not wait_for_store(env(port, rank="0"), wait_s_max=20)
        assert not wait_for_store({}, wait_s_max=20)
        assert not wait_for_store({**env(port), "MASTER_PORT": "no"}, wait_s_max=20)
        assert not wait_for_store({**env(port), "MASTER_PORT": "99999"}, wait_s_max=20)
        assert time.monotonic() - started_s < 10
