"""torchrun's `--redirects` and `--tee`: which streams of which local rank the terminal gets. Pure.

Syntax and numbers are torchrun's (torch.distributed.elastic.multiprocessing.Std): 0 none, 1 stdout, 2 stderr, 3 both,
either one number for all or `local_rank:number,...`. Phalanx keeps files of everything in any case; `redirects` takes a
stream off the terminal, `tee` puts it back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntFlag

LOCAL_RANKS_MAX = 1024


class Std(IntFlag):
    """Set of standard streams."""

    NONE = 0
    OUT = 1
    ERR = 2
    ALL = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class StdRoutes:
    """One set for every local rank, with exceptions."""

    default: Std = Std.NONE
    exceptions: Mapping[int, Std] = field(default_factory=dict)

    def of(self, local_rank: int) -> Std:
        """Streams of one local rank."""
        return self.exceptions.get(local_rank, self.default)


def parse_std_routes(text: str) -> StdRoutes:
    """Read torchrun's syntax, for example `3` or `0:1,1:3`.

    Raises:
        ValueError: not that syntax; the sentence says what was found and what is allowed.
    """
    if text.strip() in ("0", "1", "2", "3"):
        return StdRoutes(default=Std(int(text)))
    exceptions: dict[int, Std] = {}
    for entry in text.split(","):
        rank, colon, number = (part.strip() for part in entry.partition(":"))
        if not colon or not rank.isdecimal() or int(rank) >= LOCAL_RANKS_MAX or number not in ("0", "1", "2", "3"):
            raise ValueError(f"{text!r} is neither 0, 1, 2 or 3 nor a list like 0:1,1:3 (local rank:streams)")
        exceptions[int(rank)] = Std(int(number))
    return StdRoutes(exceptions=exceptions)


def terminal_streams(local_rank: int, *, redirects: StdRoutes, tee: StdRoutes) -> Std:
    """Streams of a local rank that are copied to the terminal."""
    return (Std.ALL & ~redirects.of(local_rank)) | tee.of(local_rank)
