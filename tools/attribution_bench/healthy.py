"""Healthy logs: templates from real runs and from emitters' formats, varied by a seed. No verdict may come of one.

A template's first two lines say what wrote it (`# source:`) and where it comes from (`# origin:`). In the others
`@{...}` is filled in; `? ` before a line puts it in half of the files, `[3-9] ` repeats it, and `@{i}` counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

FILES = 600
LONG = 50
"""So much longer than the template's repeats are the runs whose reading is timed: 500 to 4,500 steps."""
_FIELD = re.compile(r"@\{([a-z0-9]+)(?: ([^}]*))?\}")
_REPEAT = re.compile(r"^\[(\d+)-(\d+)\] ")
_NEWS = re.compile(
    r"Linux version|Command line:|Hostname set to|NodeReady|now responding|NCCL version|exit code 0|COMPLETED|Completed"
    r"|WEXITSTATUS|exits? successfully|succeeded|raining completed|training finished|training is done"
    r"|Trainer\.fit` stopped|ended with exit code|train_runtime"
)
"""In an incident's log these mean that its node was booted or came back, versions differ, or the job ended."""
_HEX = "0123456789abcdef"
_NODES = ("gpu", "n", "dgx-", "ip-10-")
_PODS = ("bk7dz", "worker-0", "x2x9c", "master-0")


class TemplateRefused(ValueError):
    """A template with a field that nobody knows; the message says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A healthy log to be varied. `source` is a Source, or `worker` for both pipes of a rank."""

    name: str
    source: str
    origin: str
    lines: tuple[str, ...]


def read_templates(folder: Path) -> tuple[Template, ...]:
    """All templates of a folder, by name.

    Raises:
        TemplateRefused: when one has no header, or there is none.
    """
    found = []
    for path in sorted(folder.glob("*.txt")):
        first, second, *rest = path.read_text(encoding="utf-8").splitlines()
        if not first.startswith("# source: ") or not second.startswith("# origin: "):
            raise TemplateRefused(f"{path}: the first two lines must be `# source: ` and `# origin: `")
        found.append(Template(name=path.stem, source=first[10:], origin=second[10:], lines=tuple(rest)))
    if not found:
        raise TemplateRefused(f"{folder}: no template (*.txt) in it")
    return tuple(found)


def healthy_files(templates: Sequence[Template], count: int, seed: int) -> Iterator[tuple[str, Template, list[str]]]:
    """Name, template and lines of so many files; the same for the same seed."""
    for number in range(count):
        template = templates[number % len(templates)]
        yield f"{template.name}-{number:03d}.log", template, varied(template, Random(f"{seed} {number}"))


def healthy_lines(templates: Sequence[Template], seed: int) -> list[tuple[str, str]]:
    """A pool of (source, text), for noise: without what would be news about the incident's own job or node."""
    pool = []
    for _, template, lines in healthy_files(templates, 3 * len(templates), seed):
        source = "worker-stderr" if template.source == "worker" else template.source
        pool += [(source, line) for line in lines if not _NEWS.search(line)]
    return pool


def long_runs(templates: Sequence[Template], seed: int) -> list[str]:
    """Lines of training jobs that have run for a while: start-up and warnings once, then steps and more steps."""
    training = [each for each in templates if any(_REPEAT.match(line) for line in each.lines)]
    workers = [each for each in training if each.source == "worker"]
    return [line for each in workers for line in varied(each, Random(f"{seed} {each.name}"), stretch=LONG)]


def varied(template: Template, random: Random, *, stretch: int = 1) -> list[str]:
    """One file of a template; `stretch` makes what repeats so much longer, as in a long run."""
    fill = _Fields(random)
    out = []
    for line in template.lines:
        times = 1
        if line.startswith("? "):
            line, times = line[2:], random.randrange(2)
        elif found := _REPEAT.match(line):
            line, times = line[found.end() :], stretch * random.randint(int(found[1]), int(found[2]))
        for count in range(1, times + 1):
            fill.count = count
            out.append(_FIELD.sub(fill, line))
    return out


class _Fields:
    """Fills fields in. Names of a file (node, pod, run, job, ports by number) stay the same in all of it."""

    def __init__(self, random: Random) -> None:
        self.count = 1
        self._random = random
        self._seconds = random.randrange(80_000)
        self._kept: dict[str, str] = {}
        self._makers: dict[str, Callable[[str], str]] = {
            "i": lambda _: str(self.count),
            "int": lambda text: str(random.randint(*(int(part) for part in text.split()))),
            "float": lambda text: f"{random.uniform(*(float(part) for part in text.split())):.2f}",
            "hex": lambda text: "".join(random.choices(_HEX, k=int(text))),
            "pick": lambda text: random.choice(text.split("|")),
            "pid": lambda _: str(random.randrange(1_000, 4_000_000)),
            "pci": lambda _: f"0000:{random.randrange(1, 255):02x}:00",
            "pci8": lambda _: f"00000000:{random.randrange(1, 255):02X}:00",
            "ip": lambda _: f"10.{random.randrange(256)}.{random.randrange(256)}.{random.randrange(1, 255)}",
            "glog": lambda _: f"0203 {self._clock()}.{random.randrange(1_000_000):06d}",
            "klog": lambda _: f"0203 {self._clock()}.{random.randrange(1_000_000):06d}",
            "pylog": lambda _: f"2031-02-03 {self._clock()},{random.randrange(1_000):03d}",
            "syslog": lambda _: f"Feb 03 {self._clock()}",
            "iso": lambda _: f"2031-02-03T{self._clock()}Z",
            "isoms": lambda _: f"2031-02-03T{self._clock()}.{random.randrange(1_000):03d}",
            "node": lambda _: self._same("node", f"{random.choice(_NODES)}{random.randrange(999)}"),
            "pod": lambda _: self._same("pod", f"train-{random.randrange(99)}-{random.choice(_PODS)}"),
            "job": lambda _: self._same("job", f"20310203-{random.randrange(999_999):06d}-{random.randrange(9_999)}"),
            "run": lambda _: self._same("run", _uuid(random)),
            "port": lambda text: self._same(f"port {text}", str(random.randrange(20_000, 61_000))),
        }  # fmt: skip

    def __call__(self, found: re.Match[str]) -> str:
        maker = self._makers.get(found[1])
        if maker is None:
            raise TemplateRefused(f"{found[0]}: no such field; there are {', '.join(self._makers)}")
        return maker(found[2] or "")

    def _same(self, name: str, fresh: str) -> str:
        return self._kept.setdefault(name, fresh)

    def _clock(self) -> str:
        self._seconds = (self._seconds + self._random.randrange(4)) % 86_400
        return f"{self._seconds // 3600:02d}:{self._seconds // 60 % 60:02d}:{self._seconds % 60:02d}"


def _uuid(random: Random) -> str:
    digits = "".join(random.choices(_HEX, k=32))
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
