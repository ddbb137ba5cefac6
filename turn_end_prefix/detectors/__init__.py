"""Detectors that hear a conversation hop by hop, never the future."""
