"""What an agent imports to read lines brings neither YAML nor models nor the engine with it."""

import subprocess
import sys

PROGRAM = """
import sys
import fault_attribution.matching.signature_matcher, fault_attribution.matching.stream_scan
print(*sorted(sys.modules))
"""


def test_matching_is_light() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True, timeout=60)
    loaded = set(done.stdout.split())
    assert "fault_attribution.matching.stream_scan" in loaded
    heavy = {"yaml", "pydantic", "fault_attribution.engine", "fault_attribution.judge", "fault_contracts", "asyncio"}
    assert loaded & heavy == set()
