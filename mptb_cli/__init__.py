"""The `mptb` command: parses, calls, prints."""
