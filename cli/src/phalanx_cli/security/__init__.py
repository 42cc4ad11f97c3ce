"""Identities, permissions and certificates of a NATS server, as files, for `phalanx security`."""
