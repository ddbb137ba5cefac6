"""How well a detector did: matching, decisions, sweeps and intervals (numpy only)."""
