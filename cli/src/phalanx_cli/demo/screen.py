"""What the demo shows while it runs: one line an event, and on a terminal a status of the ranks under them."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from phalanx_cli.demo.story import JobStory

REFRESH_S = 0.1
"""Ten redraws a second are smooth enough; drawing costs the cores that the ranks need."""

PLAIN_WIDTH = 2_048
"""Width of what is no terminal; tables are as wide as their content."""

_STYLES = {
    "inject": "bold magenta",
    "signal": "red",
    "node": "red",
    "ledger": "magenta",
    "incident": "red",
    "planned": "cyan",
    "verdict": "yellow",
    "plan": "cyan",
    "resumed": "green",
    "closed": "bold green",
    "end": "bold",
    "refused": "red",
}


class Screen:
    """Lines go to stderr when stdout belongs to a program (`--json`)."""

    def __init__(self, *, to_stderr: bool = False) -> None:
        file = sys.stderr if to_stderr else sys.stdout
        # In a file nothing is wrapped: a line is an event, for grep.
        self.console = Console(file=file, highlight=False, width=None if file.isatty() else PLAIN_WIDTH)
        self._started_s = time.monotonic()
        self._live: Live | None = None
        if self.console.is_terminal:
            self._live = Live(console=self.console, auto_refresh=False, transient=True)
        self._drawn_s = 0.0

    def __enter__(self) -> Screen:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live:
            self._live.update(Text())
            self._live.stop()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self._started_s

    def heading(self, text: str) -> None:
        """A new act."""
        self.console.print(f"\n[bold]{escape(text)}[/bold]")

    def line(self, word: str, text: str) -> None:
        """One event."""
        style = _STYLES.get(word, "dim")
        row = Table.grid(padding=(0, 1, 0, 0))
        row.add_row(Text(f"{self.elapsed_s:6.2f} s", style="dim"), Text(f"{word:<8}", style=style), Text(text))
        self.console.print(row)

    def status(self, story: JobStory, *, at_once: bool = False) -> None:
        """Redraw the ranks, on a terminal only."""
        now_s = time.monotonic()
        if self._live is None or (not at_once and now_s - self._drawn_s < REFRESH_S):
            return
        self._drawn_s = now_s
        self._live.update(status_text(story), refresh=True)


def status_text(story: JobStory) -> Text:
    """Nodes with their ranks, and how far the job is."""
    text = Text("\n")
    for place, node_id in enumerate(story.rank_table):
        text.append(f"  {node_id} ", style="bold")
        for local_rank in range(story.ranks_per_node):
            rank = place * story.ranks_per_node + local_rank
            text.append(f" {rank} ", style="black on green" if story.training else "white on red")
            text.append(" ")
    if story.spares:
        text.append(f"  in reserve: {', '.join(story.spares)}", style="dim")
    step = "–" if story.step is None else story.step
    checkpoint = "–" if story.checkpoint is None else story.checkpoint
    text.append(f"\n  step {step}   checkpoint of all ranks {checkpoint}   topology version {story.topology_version}")
    return text
