"""HTTP APIs of services: who may come in, how much of it, and what errors look like. Loaded only by who serves one."""
