"""`make audit`: licences of everything that the lock installs, and known vulnerabilities of those versions.

Licences come from the metadata of the installed packages and must be on the allow-list below. Vulnerabilities come from
OSV (https://google.github.io/osv.dev/api/): asked over the network, or looked up in a file where there is none
(https://storage.googleapis.com/osv-vulnerabilities/PyPI/all.zip). Without either the audit says so and fails: an audit
that could not look has found nothing out.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tomllib
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
EXIT_FOUND = 1
EXIT_NOT_LOOKED = 2
OSV_URL = "https://api.osv.dev/v1/querybatch"
ANSWER_S_MAX = 20.0
ANSWER_BYTES_MAX = 16 << 20

ALLOWED = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "ISC",
    "MIT", "MIT-0", "MPL-2.0", "PSF-2.0", "Unlicense", "Zlib",
}  # fmt: skip
"""Permissive ones, and MPL-2.0, whose copyleft ends at its own files: we change none of them."""

_NAMES = {
    "apache 2.0": "Apache-2.0", "apache software license": "Apache-2.0", "apache-2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0", "bsd": "BSD-3-Clause", "bsd license": "BSD-3-Clause",
    "bsd 2-clause license": "BSD-2-Clause", "bsd 3-clause license": "BSD-3-Clause", "isc license": "ISC",
    "isc license (iscl)": "ISC", "mit license": "MIT", "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0",
}  # fmt: skip
"""What packages wrote before SPDX expressions (PEP 639), as SPDX says it."""

READ_BY_HAND: dict[str, str] = {}
"""Packages whose metadata say nothing usable: name, and what their LICENSE file says."""

NOT_OURS = re.compile(r"nvidia-|triton|cuda-")
"""NVIDIA's libraries come with torch's CUDA build under NVIDIA's own terms; no image of ours has them."""


def spdx_of(package: Distribution) -> str:
    """The licence as an SPDX expression; empty when the metadata say nothing."""
    name = package.metadata["Name"].lower()
    if name in READ_BY_HAND:
        return READ_BY_HAND[name]
    expression = package.metadata.get("License-Expression")
    if expression:
        return str(expression)
    classifiers = [
        line.rpartition(" :: ")[2] for line in package.metadata.get_all("Classifier") or [] if "License" in line
    ]
    text = (package.metadata.get("License") or "").strip()
    for said in (text, *classifiers):
        known = said if said in ALLOWED else _NAMES.get(said.lower())
        if known is not None:
            return known
    return text.splitlines()[0][:60] if text else ", ".join(classifiers)


def allows(expression: str) -> bool:
    """Whether an SPDX expression can be met with allowed licences: one side of each OR, both of each AND."""
    words = expression.replace("(", " ").replace(")", " ").split(" OR ")
    if "(" in expression and " OR " in expression:
        # Mixed expressions with brackets: every licence named must be allowed, which is never too lenient.
        return all(each.strip() in ALLOWED for part in words for each in part.split(" AND "))
    return any(all(each.strip() in ALLOWED for each in part.split(" AND ")) for part in words)


def locked() -> dict[str, str]:
    """Name and version of every package of uv.lock that comes from elsewhere."""
    packages = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))["package"]
    return {
        each["name"]: each["version"] for each in packages if "registry" in each.get("source", {}) and "version" in each
    }


def licence_rows() -> Iterator[tuple[str, str, str]]:
    """Name, version and licence of what is installed here."""
    for package in sorted(distributions(), key=lambda each: each.metadata["Name"].lower()):
        yield package.metadata["Name"], package.version, spdx_of(package)


def audit_licences(rows: Iterable[tuple[str, str, str]]) -> list[str]:
    """A line for each package whose licence is not allowed or not known."""
    return [
        f"{name} {version}: {licence or 'no licence in its metadata'} is not on the allow-list of tools/audit.py"
        for name, version, licence in rows
        if not allows(licence) and not NOT_OURS.match(name.lower())
    ]


def ask_osv(packages: dict[str, str]) -> list[str]:
    """A line for each known vulnerability.

    Raises:
        OSError: the service cannot be reached, or does not answer as OSV does.
    """
    queries = [
        {"package": {"name": name, "ecosystem": "PyPI"}, "version": version} for name, version in packages.items()
    ]
    request = urllib.request.Request(
        OSV_URL, json.dumps({"queries": queries}).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_S_MAX) as answer:
            results = json.loads(answer.read(ANSWER_BYTES_MAX))["results"]
        found = zip(packages.items(), results, strict=True)
        return [
            f"{name} {version}: {each['id']}" for (name, version), result in found for each in result.get("vulns", ())
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise OSError(f"{OSV_URL} does not answer as OSV does: {type(error).__name__}") from error


def look_up(packages: dict[str, str], archive: Path) -> list[str]:
    """As `ask_osv`, in OSV's own dump of PyPI, or in any zip of its JSON records.

    Raises:
        OSError: the file cannot be used.
    """
    found = []
    try:
        with zipfile.ZipFile(archive) as records:
            for name in records.namelist():
                if name.endswith(".json"):
                    found += list(_hits(json.loads(records.read(name)), packages))
    except (zipfile.BadZipFile, ValueError) as error:
        raise OSError(f"{archive}: is no zip of OSV records: {error}") from error
    return sorted(found)


def _hits(record: dict[str, Any], packages: dict[str, str]) -> Iterator[str]:
    if record.get("withdrawn"):
        return
    for affected in record.get("affected", ()):
        package = affected.get("package", {})
        name = re.sub(r"[-_.]+", "-", str(package.get("name", "")).lower())
        version = packages.get(name)
        if package.get("ecosystem") == "PyPI" and version is not None and _is_affected(version, affected):
            yield f"{name} {version}: {record['id']}"


def _is_affected(version: str, affected: dict[str, Any]) -> bool:
    """By the list of versions, which OSV fills for PyPI, or by the ranges where it has none."""
    from packaging.version import InvalidVersion, Version

    if version in affected.get("versions", ()):
        return True
    try:
        ours = Version(version)
        for span in affected.get("ranges", ()):
            inside = False
            for event in span.get("events", ()) if span.get("type") == "ECOSYSTEM" else ():
                if "introduced" in event:
                    inside = inside or event["introduced"] == "0" or ours >= Version(event["introduced"])
                elif "fixed" in event:
                    inside = inside and ours < Version(event["fixed"])
                elif "last_affected" in event:
                    inside = inside and ours <= Version(event["last_affected"])
            if inside:
                return True
    except InvalidVersion:
        return True  # what cannot be compared is for a person to look at
    return False


def main(argv: list[str] | None = None) -> int:
    """Exit code 0: nothing found; 1: found; 2: vulnerabilities could not be looked up."""
    parser = argparse.ArgumentParser(
        prog="audit", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--osv", type=Path, metavar="ZIP", help="OSV's dump of PyPI, in place of the network")
    parser.add_argument("--licences-only", action="store_true", help="look up no vulnerabilities")
    options = parser.parse_args(argv)
    say = sys.stdout.write
    rows = list(licence_rows())
    for name, version, licence in rows:
        say(f"{name:<32} {version:<20} {licence}\n")
    bad = audit_licences(rows)
    say(f"licences: {len(rows)} installed packages, {len(bad)} not allowed\n" + "".join(f"  {line}\n" for line in bad))
    if options.licences_only:
        return EXIT_FOUND if bad else 0
    packages = locked()
    try:
        known = look_up(packages, options.osv) if options.osv else ask_osv(packages)
    except OSError as error:
        say(f"vulnerabilities: NOT LOOKED UP, no answer was had: {error}\n")
        say("  with a file: fetch https://storage.googleapis.com/osv-vulnerabilities/PyPI/all.zip, then OSV=all.zip\n")
        return EXIT_FOUND if bad else EXIT_NOT_LOOKED
    say(
        f"vulnerabilities: {len(packages)} locked packages, {len(known)} known\n"
        + "".join(f"  {line}\n" for line in known)
    )
    return EXIT_FOUND if bad or known else 0


if __name__ == "__main__":
    sys.exit(main())
