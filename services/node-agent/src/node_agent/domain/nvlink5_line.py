"""The message of Xids 144 to 150 (NVLink 5): unit, severity, link, and the two words that say what happened.

Shape: `<unit> Fatal|Nonfatal XC0|XC1 i0|i1 Link NN|-1 (intrInfo errStatus data ...)`, read from the driver's sources of
R570 to R595. What the words mean depends on the driver's version; the policy of health-ingest decodes them.
"""

from __future__ import annotations

import re

NVLINK5_CODES = range(144, 151)
_SHAPE = re.compile(
    r"(?P<unit>[A-Z0-9_/]{1,40}) (?P<severity>Fatal|Nonfatal) XC(?P<contained>[01]) i(?P<injected>[01]) "
    r"Link (?P<link>-1|\d{1,3}) \((?P<words>0x[0-9a-fA-F]{1,8}(?: 0x[0-9a-fA-F]{1,8}){1,15})\)"
)


def nvlink5_attributes(message: str) -> dict[str, str]:
    """What the message says; empty when it has another shape."""
    found = _SHAPE.search(message)
    if found is None:
        return {}
    words = found["words"].split(" ")
    attributes = {
        "unit": found["unit"],
        "severity": "fatal" if found["severity"] == "Fatal" else "non_fatal",
        "cross_contained": found["contained"],
        "injected": found["injected"],
        "intr_info": f"0x{int(words[0], 16):08x}",
        "error_status": f"0x{int(words[1], 16):08x}",
        "words": " ".join(words),
    }
    # -1: the fault is the unit's, not of a link.
    return attributes if found["link"] == "-1" else attributes | {"link": str(int(found["link"]))}
