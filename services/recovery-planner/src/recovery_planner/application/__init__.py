"""One use case a file: advance a gang, record checkpoints, watch agents, lead."""
