"""One use case a file: obey a command, report an exit, catch up, leave."""
