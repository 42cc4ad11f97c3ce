"""NATS JetStream behind the ports of service_kit. The only code that imports nats."""
