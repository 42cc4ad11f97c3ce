"""The training script of the random-fault test: integer arithmetic, so that every step has one right result.

argv: folder, seconds of a step. CHAOS_BLOCK=1: as a re-executable block. A file FOLDER/blows/N_MOMENT_KIND_RANK makes
that rank strike itself, once, when it comes to that place. FOLDER/last holds the step to end after.
"""

import faulthandler
import json
import os
import signal
import socket
import struct
import sys
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist

import worker_link

FOLDER = Path(sys.argv[1])
STEP_S = float(sys.argv[2])
BLOWS = FOLDER / "blows"
CHECKPOINT_EVERY = 5
SIZE = 16
MODULUS = 2**31 - 1
DUMP_SIGNAL = signal.SIGRTMIN + 9
LOG = os.open(FOLDER / "events.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
LETTERS = "abcdefghij"


class Place:
    """Where this process is in the gang; rewritten by a restart in place."""

    rank = int(os.environ["RANK"])
    version = 0


def note(event, **fields):
    started = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    line = {"at_s": time.monotonic(), "event": event, "pid": os.getpid(), "started": int(started)}
    line |= {"rank": Place.rank, "version": Place.version, **fields}
    os.write(LOG, (json.dumps(line) + "\n").encode())


def strike(moment):
    for path in sorted(BLOWS.glob(f"*_{moment}_*_{Place.rank}")):
        number, _, kind, _ = path.name.split("_")
        try:
            path.unlink()
        except FileNotFoundError:
            continue  # taken back
        note("met", number=number)
        if kind == "raise":
            note("blow", number=number, kind=kind, moment=moment)
            name = "Injected" + "".join(LETTERS[int(digit)] for digit in number)
            raise type(name, (OSError,), {})("injected")
        pid, signum = os.getpid(), signal.SIGSTOP if kind == "stop" else signal.SIGKILL
        if kind == "node":
            pid = agent_pid()

        def hit(number=number, kind=kind, pid=pid, signum=signum):
            note("blow", number=number, kind=kind, moment=moment)
            os.kill(pid, signum)

        if moment == "barrier":
            # Later than the report that follows: the rank waits at the barrier by then.
            threading.Timer(0.01, hit).start()
        else:
            hit()
            if kind == "node":
                time.sleep(60)  # dies with its agent


def agent_pid():
    with socket.socket(socket.AF_UNIX) as peer:
        peer.connect(os.environ["PHALANX_WORKER_SOCKET"])
        return struct.unpack("iII", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]


def gradient(step, rank):
    return (torch.arange(SIZE, dtype=torch.int64) * 31 + step * 7919 + rank * 104_729) % 1000


def save(state, step, rank, world):
    folder = FOLDER / "checkpoints" / str(step)
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{rank}.partial{os.getpid()}"
    text = json.dumps(state.tolist()[rank::world])
    with partial.open("w") as file:
        file.write(text[: len(text) // 2])
        file.flush()
        strike("writing")
        file.write(text[len(text) // 2 :])
    partial.rename(folder / str(rank))
    strike("saved")
    worker_link.connect().checkpoint_saved(step, folder, writers=world)
    note("told", step=step)


def train(rank, world, version, checkpoint):
    Place.rank, Place.version = rank, version
    done, state = 0, torch.zeros(SIZE, dtype=torch.int64)
    if checkpoint is not None:
        done = checkpoint[0]
        for part in range(world):
            state[part::world] = torch.tensor(json.loads((Path(checkpoint[1]) / str(part)).read_text()))
    note("begin", step=done)
    strike("entered")
    dist.init_process_group("gloo")
    strike("joined")
    link = worker_link.connect()
    step, last = done, None
    while last is None or step < last:
        step += 1
        grad = gradient(step, rank)
        strike("step")
        dist.all_reduce(grad)
        state = (state * 31 + grad + step) % MODULUS
        time.sleep(STEP_S)
        note("step", step=step, state=state.tolist())
        link.step(step)
        if step % CHECKPOINT_EVERY == 0:
            save(state, step, rank, world)
        if last is None and (FOLDER / "last").exists():
            last = int((FOLDER / "last").read_text())
    note("final", step=step, state=state.tolist())
    dist.barrier()
    dist.destroy_process_group()


@worker_link.reexecutable(health_check=lambda: strike("barrier"))
def block(generation):
    train(generation.rank, generation.world_size, generation.topology_version, generation.checkpoint)


faulthandler.register(DUMP_SIGNAL, all_threads=True)
torch.set_num_threads(1)
if os.environ.get("CHAOS_BLOCK") == "1":
    block()
else:
    env = os.environ
    train(int(env["RANK"]), int(env["WORLD_SIZE"]), worker_link.topology_version(), worker_link.checkpoint())
