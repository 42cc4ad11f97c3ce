"""NATS JetStream behind the ports of service_kit. The only code that imports nats."""

import sys

if "aiohttp" not in sys.modules:
    # nats-py imports aiohttp, where that is installed, for WebSockets, which nobody here speaks: 12 MB and half a
    # second of every agent's start. Whoever needs it (the operator's client of Kubernetes does) imports it as ever.
    sys.modules["aiohttp"] = None  # type: ignore[assignment]
    import nats.aio.transport  # noqa: F401 - so that it is done while aiohttp is hidden

    del sys.modules["aiohttp"]
