"""Asks the service in this container whether it does its work: exit code 0 when /readyz says so.

The standard library alone, and started with -IS: a probe each ten seconds must cost milliseconds.
"""

import http.client
import os
import sys

LIMIT_S = 4.0


def main() -> int:
    """Exit code for Docker: 0 healthy, 1 not."""
    port = int(os.environ.get("PHALANX_HTTP_PORT", "8080"))
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        body = answer.read(4096).decode("utf-8", errors="replace")
    except OSError as error:
        sys.stdout.write(f"nobody answers on port {port}: {error}\n")
        return 1
    sys.stdout.write(body)
    return 0 if answer.status == 200 else 1


if __name__ == "__main__":
    sys.exit(main())
