"""The embedded miniature corpora."""

from pathlib import Path

_SAMPLES = {"mptb": "mini_mptb", "turn_end": "mini_turn_end"}


def sample_dir(name: str) -> Path:
    """The folder of an embedded miniature corpus, in the full layout of its card.

    Args:
        name: "mptb" (two dev and three test conversations, 24 kHz) or "turn_end" (16 kHz turns).

    Returns:
        A folder of the installed package; do not write to it.

    Raises:
        ValueError: another name.
    """
    if name not in _SAMPLES:
        raise ValueError(f"unknown sample {name!r}: expected one of {', '.join(_SAMPLES)}")
    return Path(__file__).parent / _SAMPLES[name]
