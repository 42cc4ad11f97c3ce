"""What the agent does with processes, files, sockets and the terminal."""
