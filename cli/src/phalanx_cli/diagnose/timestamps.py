"""Times at the beginning of log lines, as seconds on one scale.

Only differences of minutes are ever used, so a time zone that is not written counts as UTC, and a year that is not
written is the one that is given.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
ISO = re.compile(
    r"\[?(?P<date>\d{4}[-/]\d\d[-/]\d\d)[T _](?P<time>\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,9}))?"
    r"(?P<zone>Z| ?[+-]\d\d:?\d\d)?(?: UTC)?\]?"
)
SYSLOG = re.compile(r"(?P<month>[A-Z][a-z]{2}) {1,2}(?P<day>\d{1,2}) (?P<time>\d\d:\d\d:\d\d)(?:\.(?P<part>\d+))?")
DMESG_T = re.compile(
    r"\[[A-Z][a-z]{2} (?P<month>[A-Z][a-z]{2}) {1,2}(?P<day>\d{1,2}) (?P<time>\d\d:\d\d:\d\d) (?P<year>\d{4})\]"
)
UPTIME = re.compile(r"\[ {0,6}(?P<seconds>\d{1,9}\.\d{3,9})\]")
GLOG = re.compile(r"[IWEF](?P<month>\d\d)(?P<day>\d\d) (?P<time>\d\d:\d\d:\d\d)\.(?P<part>\d+)")


def iso_s(found: re.Match[str]) -> float | None:
    """Of an ISO match."""
    zone = (found["zone"] or "").strip().replace("Z", "+00:00") or "+00:00"
    text = f"{found['date'].replace('/', '-')}T{found['time']}{zone}"
    return _stamp(text, found["part"])


def named_month_s(found: re.Match[str], year: int) -> float | None:
    """Of a SYSLOG or DMESG_T match."""
    name = found["month"].lower()
    if name not in _MONTHS:
        return None
    return _stamp(f"{year:04}-{_MONTHS.index(name) + 1:02}-{int(found['day']):02}T{found['time']}+00:00", _part(found))


def glog_s(found: re.Match[str], year: int) -> float | None:
    """Of a GLOG match."""
    return _stamp(f"{year:04}-{found['month']}-{found['day']}T{found['time']}+00:00", found["part"])


def _part(found: re.Match[str]) -> str | None:
    return found.groupdict().get("part")


def _stamp(text: str, part: str | None) -> float | None:
    whole = _whole_s(text)
    return whole if whole is None or not part else whole + float(f"0.{part}")


@lru_cache(maxsize=4_096)
def _whole_s(text: str) -> float | None:
    """Many lines have one second."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC).timestamp()
    except (ValueError, OverflowError):  # 31 February, hour 25: no time
        return None
