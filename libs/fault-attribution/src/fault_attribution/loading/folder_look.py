"""Whether a site's folders of rules have changed since they were read, for services that read them again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

FolderLook = tuple[tuple[str, int, int], ...]
"""Path, time of change and size of each file, in order; two looks are equal when nothing changed."""


def look_at(folders: Iterable[Path]) -> FolderLook:
    """Look without reading. A link is followed: a Kubernetes ConfigMap changes by exchanging one."""
    found = []
    for folder in folders:
        for path in sorted(folder.glob("**/*.yaml")):
            try:
                stat = path.stat()
            except OSError:
                continue  # It is gone between listing and look; the next look tells.
            found.append((str(path), stat.st_mtime_ns, stat.st_size))
    return tuple(found)
